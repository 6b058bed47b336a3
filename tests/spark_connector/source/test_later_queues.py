"""Where a query begins in queues that it finds later."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.access.checkpoint import Checkpoint, Origin, from_json, to_json
from aiorocketmq.spark_connector.access.errors import DataLossError
from aiorocketmq.spark_connector.access.offsets import Offsets
from aiorocketmq.spark_connector.access.seen import to_json as seen_to_json
from aiorocketmq.spark_connector.lag import lags
from aiorocketmq.spark_connector.source.later_queues import LaterQueues, origin_of
from aiorocketmq.spark_connector.source.planner import ranges_between
from aiorocketmq.spark_connector.source.stream_offsets import StreamOffsets

from ..simulated_cluster import SimClock, SimCluster
from .queries import options, stream_offsets

ONE, OLD, NEW = MessageQueue("t", "a", 0), MessageQueue("t", "b", 0), MessageQueue("t", "a", 1)


@pytest.fixture
def cluster(clock: SimClock) -> SimCluster:
    """The broker b is away; it has 5,617 messages from before, the last one 383 ms ago."""
    made = SimCluster()
    made.add(ONE, 0, 100)
    made.add(OLD, 0, 5617, stored_from_ms=clock.time_ms() - 6000)
    made.unregistered = {"b"}
    return made


def begun_while_away(cluster: SimCluster, clock: SimClock) -> tuple[StreamOffsets, Checkpoint]:
    """A query from the latest message on, and where it is: b is back, and nothing came since."""
    offsets = stream_offsets(cluster, clock, startingOffsets="latest")
    start = offsets.latest(offsets.initial())
    cluster.unregistered.clear()
    assert offsets.latest(start) == start
    return offsets, start


def test_whose_origin_is_kept() -> None:
    def kept(**given: str) -> Origin | None:
        return origin_of(options(**given), 7, {"a"})

    now = Origin(7, frozenset("a"))
    assert kept(startingOffsets="latest") == now
    assert kept(startingTimestamp="5") == Origin(5, frozenset("a"))
    assert kept(startingOffsets="earliest") is None
    named = {"startingOffsets": '{"t": {"0": 5}}'}
    assert kept(**named) is kept(**named, startingOffsetsMissing="earliest") is None
    assert kept(**named, startingOffsetsMissing="latest") == now
    assert kept(startingOffsets="group", consumerGroup="g") is None, "it may not have read them"


def test_what_a_broker_had_before_is_not_of_a_query_from_latest_on(
    cluster: SimCluster, clock: SimClock
) -> None:
    offsets, start = begun_while_away(cluster, clock)
    assert start.origin == Origin(clock.time_ms(), frozenset("a"))
    cluster.queues_[OLD].end = 6010  # ten of them since the query began
    cluster.add(NEW, 0, 3)
    end = stream_offsets(cluster, clock).latest(start)
    assert (end.offsets, end.begins) == ({ONE: 100, OLD: 6010, NEW: 3}, {OLD: 6000})
    told = ["t/a/1 [0, 3)", "t/b/0 [6000, 6010)"]
    ranges = ranges_between(end.starts(start.offsets), end.offsets)
    assert [str(each) for each in ranges] == told
    after = offsets.latest(end)
    assert after == end
    cluster.queues_[OLD].end = 6011
    assert offsets.latest(end).begins == {}, "the next batch goes on where this one ends"


@pytest.mark.parametrize("starting", [{"startingOffsets": "latest"}, {"startingTimestamp": "60"}])
def test_the_first_batch_runs_again_while_a_broker_is_away_that_was_there(
    cluster: SimCluster, clock: SimClock, starting: dict[str, str]
) -> None:
    """Where it begins is asked for again, and that broker says nothing: its end does."""
    cluster.unregistered = set()
    cluster.queues_[OLD].stored_from_ms = 0
    offsets = stream_offsets(cluster, clock, **starting)
    start = offsets.initial()
    planned = offsets.latest(start)
    read = [str(each) for each in offsets.ranges(start, planned)]
    cluster.unregistered = {"b"}
    again = stream_offsets(cluster, clock, **starting)
    assert OLD not in again.initial().offsets
    assert [str(each) for each in again.ranges(again.initial(), planned)] == read


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_the_first_batch_runs_again_from_0_whatever_is_the_beginning_by_then(
    cluster: SimCluster, clock: SimClock, starting: str
) -> None:
    """It has expired, or the option is another one: that counts for new queries only."""
    offsets = stream_offsets(cluster, clock)
    planned = from_json(to_json(offsets.latest(offsets.initial())))
    cluster.queues_[ONE].first, cluster.queues_[ONE].end = 40, 120
    again = stream_offsets(cluster, clock, startingOffsets=starting)
    read = [str(each) for each in again.ranges(again.initial(), planned)]
    assert read == ["t/a/0 [0, 100)"], "the task says what is missing"


def test_a_topic_that_is_made_anew_before_anything_of_it_was_read_begins_anew(
    cluster: SimCluster, clock: SimClock
) -> None:
    """By the next trigger it has more messages than there were, which were older than the query."""
    offsets, start = begun_while_away(cluster, clock)
    clock.sleep(600)
    cluster.add(OLD, 0, 6000, stored_from_ms=clock.time_ms())
    end = offsets.latest(start)
    assert (end.offsets[OLD], end.starts(start.offsets).get(OLD, 0)) == (6000, 0)


def test_what_is_older_than_the_query_is_no_lag(cluster: SimCluster, clock: SimClock) -> None:
    offsets, start = begun_while_away(cluster, clock)
    cluster.queues_[ONE].end = 110
    end = offsets.latest(start)
    assert OLD not in end.offsets
    assert behind(offsets, start, end) == {"queues": 1, "total": 0}
    cluster.queues_[OLD].end = 6010
    cluster.queues_[OLD].stored_from_ms = clock.time_ms() - 6000
    after = offsets.latest(end)
    assert behind(offsets, end, after) == {"queues": 2, "total": 0}


def test_a_broker_that_is_forgotten_is_no_lag(cluster: SimCluster, clock: SimClock) -> None:
    cluster.unregistered = set()
    offsets = stream_offsets(cluster, clock, expectedBrokers="a")
    start = offsets.latest(offsets.initial())
    assert OLD in start.offsets
    cluster.unregistered = {"b"}
    end = offsets.latest(start)
    assert behind(offsets, start, end) == {"queues": 1, "total": 0}


def behind(offsets: StreamOffsets, start: Checkpoint, end: Checkpoint) -> dict[str, int]:
    """As the listener tells it."""
    seen = offsets.seen()
    assert seen is not None
    source = {
        "startOffset": to_json(start),
        "endOffset": to_json(end),
        "latestOffset": seen_to_json(seen),
    }
    [lag] = lags({"id": "1", "sources": [source]})
    return {"queues": lag.queues, "total": lag.total}


def test_a_query_from_the_beginning_on_reads_all_of_it(
    cluster: SimCluster, clock: SimClock
) -> None:
    offsets = stream_offsets(cluster, clock)
    start = offsets.latest(offsets.initial())
    cluster.unregistered.clear()
    end = offsets.latest(start)
    assert (end.offsets[OLD], end.begins) == (5617, {})


def test_a_checkpoint_that_knows_no_origin_goes_on_as_before(
    cluster: SimCluster, clock: SimClock
) -> None:
    cluster.unregistered.clear()
    end = stream_offsets(cluster, clock, startingOffsets="latest").latest(Checkpoint({ONE: 100}))
    assert (end.offsets[OLD], end.begins) == (5617, {})


def test_messages_that_are_gone_and_may_have_been_of_the_query_are_a_loss(
    cluster: SimCluster, clock: SimClock
) -> None:
    start = Checkpoint({ONE: 100}, Origin(clock.time_ms(), frozenset("a")))
    cluster.unregistered.clear()
    cluster.queues_[OLD].first = 5000
    cluster.log_begins["b"] = clock.time_ms() + 1
    end = stream_offsets(cluster, clock).latest(start)
    assert OLD not in end.offsets, "those that are there are older"
    for first, last in ((6001, 6005), (6005, 6005)):
        cluster.queues_[OLD].first, cluster.queues_[OLD].end = first, last
        said = f"t/b/0 was found now, but its oldest message is {first}, and nobody can tell"
        with pytest.raises(DataLossError, match=said):
            stream_offsets(cluster, clock).latest(start)
        lenient = stream_offsets(cluster, clock, failOnDataLoss="false")
        for _ in range(2):
            end = lenient.latest(start)
        assert stream_offsets(cluster, clock).latest(end) == end
        assert (seen := lenient.seen()) is not None
        assert (seen.losses, seen.lost_messages) == (1, 0), "it may be all or none of them"


def test_a_broker_that_keeps_what_is_older_than_the_query_has_lost_nothing_of_it(
    cluster: SimCluster, clock: SimClock
) -> None:
    """A log is deleted from its beginning on, with all topics."""
    start = Checkpoint({ONE: 100}, Origin(clock.time_ms(), frozenset("a")))
    cluster.unregistered.clear()
    cluster.log_begins["b"] = clock.time_ms() - 1
    queue = cluster.queues_[OLD]
    queue.first = queue.end
    assert OLD not in stream_offsets(cluster, clock).latest(start).offsets
    queue.first, queue.end = 6001, 6005
    end = stream_offsets(cluster, clock).latest(start)
    assert (end.offsets[OLD], end.begins) == (6005, {OLD: 6001})
    cluster.log_begins["b"] = None
    with pytest.raises(DataLossError, match="t/b/0 was found now"):
        stream_offsets(cluster, clock).latest(start)


def test_a_queue_that_is_made_anew_before_anything_is_read_of_it(
    cluster: SimCluster, clock: SimClock
) -> None:
    offsets, start = begun_while_away(cluster, clock)
    cluster.add(OLD, 0, 10, stored_from_ms=clock.time_ms())
    assert offsets.latest(start).offsets == {ONE: 100, OLD: 10}


def test_a_broker_is_asked_once_and_holds_up_nobody_else(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    earliest, asked, busy = cluster.earliest, list[MessageQueue](), ["b is busy"]

    def asking(queues: Iterable[MessageQueue]) -> Offsets:
        wanted = list(queues)
        if OLD in wanted and busy:
            raise ConnectError(busy.pop())
        asked.extend(wanted)
        return earliest(wanted)

    monkeypatch.setattr(cluster, "earliest", asking)
    later = LaterQueues(cluster)
    assert later.begins({OLD: 5617, ONE: 100}, None) == ({ONE: 0}, {"b": "b is busy"})
    assert later.begins({OLD: 5617, ONE: 100}, None) == ({ONE: 0, OLD: 0}, {})
    assert later.begins({OLD: 5617, ONE: 100}, None) == ({ONE: 0, OLD: 0}, {})
    assert asked == [ONE, OLD]
