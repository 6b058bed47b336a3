"""A queue is told from another one of the same name."""

from __future__ import annotations

import logging

import pytest

from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.access.checkpoint import Checkpoint, Mark
from aiorocketmq.spark_connector.access.errors import DataLossError
from aiorocketmq.spark_connector.source.planner import ranges_between

from ..simulated_cluster import SimClock, SimCluster
from .queries import stream_offsets

ONE, TWO = MessageQueue("t", "a", 0), MessageQueue("t", "b", 0)
LENIENT = {"failOnDataLoss": "false"}
MADE_ANEW_MS = 10_000_000
HALF_AN_HOUR_MS = 1_800_000


@pytest.fixture
def cluster() -> SimCluster:
    made = SimCluster()
    made.add(ONE, 0, 1900)
    made.add(TWO, 0, 10)
    return made


@pytest.fixture
def stopped(cluster: SimCluster, clock: SimClock) -> Checkpoint:
    """Where the query was when it was stopped."""
    offsets = stream_offsets(cluster, clock)
    return offsets.latest(offsets.initial())


def remake(cluster: SimCluster, end: int, first: int = 0) -> None:
    cluster.add(ONE, first, end, stored_from_ms=MADE_ANEW_MS)


def test_what_was_read_last_is_kept_with_the_offset(stopped: Checkpoint) -> None:
    marks = {ONE: Mark(1899, 1899), TWO: Mark(9, 9)}
    assert stopped == Checkpoint({ONE: 1900, TWO: 10}, begins={ONE: 0, TWO: 0}, marks=marks)


def test_a_query_that_begins_at_the_end_keeps_what_was_last_there(
    cluster: SimCluster, clock: SimClock
) -> None:
    assert stream_offsets(cluster, clock, startingOffsets="latest").initial().marks == {
        ONE: Mark(1899, 1899),
        TWO: Mark(9, 9),
    }


@pytest.mark.parametrize("end", [3100, 1900, 1200])
def test_a_topic_that_was_made_anew_is_noticed(
    cluster: SimCluster, clock: SimClock, stopped: Checkpoint, end: int
) -> None:
    """With more messages than were read of the old one, as many, fewer."""
    remake(cluster, end)
    said = f"t/a/0 was made anew.* of the {end} messages since, {min(1900, end)} lie before that"
    with pytest.raises(DataLossError, match=said):
        stream_offsets(cluster, clock).latest(stopped)


@pytest.mark.parametrize("end", [3100, 1900, 1200])
def test_or_read_from_its_beginning(
    cluster: SimCluster,
    clock: SimClock,
    stopped: Checkpoint,
    caplog: pytest.LogCaptureFixture,
    end: int,
) -> None:
    remake(cluster, end)
    offsets = stream_offsets(cluster, clock, **LENIENT)
    with caplog.at_level(logging.WARNING):
        batch = offsets.latest(stopped)
    assert f"of the {end} messages since, {min(1900, end)} lie before" in caplog.text
    ranges = ranges_between(batch.starts(stopped.offsets), batch.offsets)
    assert [str(each) for each in ranges] == [f"t/a/0 [0, {end})"]
    assert batch.marks[ONE] == Mark(end - 1, MADE_ANEW_MS + end - 1)
    assert offsets.latest(batch) == batch
    cluster.queues_[ONE].end += 1
    assert offsets.latest(batch).begins == {}, "it goes on from there"


def test_a_limit_holds_for_what_was_made_anew(
    cluster: SimCluster, clock: SimClock, stopped: Checkpoint
) -> None:
    remake(cluster, 3100, first=100)
    offsets = stream_offsets(cluster, clock, maxOffsetsPerTrigger="1000", **LENIENT)
    batch, before, read = offsets.latest(stopped), stopped, []
    while batch != before:
        read += ranges_between(batch.starts(before.offsets), batch.offsets)
        before, batch = batch, offsets.latest(batch)
    assert [str(each) for each in read] == [
        "t/a/0 [100, 1100)", "t/a/0 [1100, 2100)", "t/a/0 [2100, 3100)",
    ]  # fmt: skip


@pytest.mark.parametrize("end", [10, 3100])
def test_available_now_reads_what_a_topic_has_that_was_made_anew_meanwhile(
    cluster: SimCluster, clock: SimClock, end: int
) -> None:
    """What it found at its beginning is said of the old one."""
    offsets = stream_offsets(cluster, clock, maxOffsetsPerTrigger="1000", **LENIENT)
    offsets.prepare_available_now()
    before = offsets.latest(offsets.initial())
    assert 0 < before.offsets[ONE] < 1900
    remake(cluster, end)
    read = []
    while (batch := offsets.latest(before)) != before:
        read += [each for each in offsets.ranges(before, batch) if each.queue == ONE]
        before = batch
    assert (read[0].from_offset, read[-1].until_offset) == (0, end)
    assert (seen := offsets.seen()) is not None
    assert seen.latest[ONE] == end
    cluster.queues_[ONE].end += 5
    again = stream_offsets(cluster, clock, **LENIENT)
    again.prepare_available_now()
    batch = again.latest(before)
    assert [str(each) for each in again.ranges(before, batch)] == [f"t/a/0 [{end}, {end + 5})"]


def test_a_batch_that_runs_again_does_not_read_another_queue(
    cluster: SimCluster, clock: SimClock, stopped: Checkpoint
) -> None:
    """It was planned, and the driver died."""
    cluster.queues_[ONE].end, cluster.queues_[TWO].end = 2000, 15
    planned = stream_offsets(cluster, clock).latest(stopped)
    again = stream_offsets(cluster, clock).ranges(stopped, planned)
    assert [str(each) for each in again] == ["t/a/0 [1900, 2000)", "t/b/0 [10, 15)"]
    remake(cluster, 3100)
    with pytest.raises(DataLossError, match=r"t/a/0 was made anew.* since this batch was planned"):
        stream_offsets(cluster, clock).ranges(stopped, planned)
    offsets = stream_offsets(cluster, clock, newQueuePollInterval="5s", **LENIENT)
    assert [str(each) for each in offsets.ranges(stopped, planned)] == ["t/b/0 [10, 15)"]
    end = offsets.latest(planned)
    assert [str(each) for each in offsets.ranges(planned, end)] == ["t/a/0 [0, 3100)"]
    after_death = stream_offsets(cluster, clock, **LENIENT)
    assert [str(each) for each in after_death.ranges(planned, end)] == ["t/a/0 [0, 3100)"]


def test_what_is_not_another_queue(
    cluster: SimCluster, clock: SimClock, stopped: Checkpoint
) -> None:
    offsets = stream_offsets(cluster, clock)
    queue = cluster.queues_[ONE]
    assert offsets.latest(stopped) == stopped
    queue.first, queue.end = 1900, 2000  # old ones were deleted
    assert offsets.latest(stopped).offsets[ONE] == 2000
    queue.first, queue.end = 0, 1800  # the last ones were lost
    with pytest.raises(DataLossError, match="t/a/0 ends at 1800, but was read up to 1900"):
        stream_offsets(cluster, clock).latest(stopped)
    lenient = stream_offsets(cluster, clock, **LENIENT)
    assert lenient.latest(stopped) == stopped, "it is not read again"
    queue.end = 0
    assert lenient.latest(stopped) == stopped, "nor one that is empty, whatever it is"


def test_a_checkpoint_without_marks_goes_on_and_gets_some(
    cluster: SimCluster, clock: SimClock
) -> None:
    """Also of queues of which nothing comes, with the next batch."""
    old = Checkpoint({ONE: 1800, TWO: 10})
    marks = {ONE: Mark(1899, 1899), TWO: Mark(9, 9)}
    end = stream_offsets(cluster, clock).latest(old)
    assert end == Checkpoint({ONE: 1900, TWO: 10}, marks=marks)
    cluster.queues_[TWO].first = 10
    end = stream_offsets(cluster, clock).latest(old)
    assert end.marks[TWO] == Mark(9, clock.time_ms() - HALF_AN_HOUR_MS, is_gone=True)


@pytest.fixture(params=["earliest", "latest"])
def expired(request: pytest.FixtureRequest, cluster: SimCluster, clock: SimClock) -> Checkpoint:
    """Where a query was when it was stopped, and of one of its queues nothing was left from the
    beginning on."""
    cluster.queues_[ONE].first = 1900
    offsets = stream_offsets(cluster, clock, startingOffsets=request.param)
    return offsets.latest(offsets.initial())


def test_that_a_message_was_gone_is_kept_as_well(expired: Checkpoint, clock: SimClock) -> None:
    assert expired.offsets == {ONE: 1900, TWO: 10}
    gone = Mark(1899, clock.time_ms() - HALF_AN_HOUR_MS, is_gone=True)
    assert expired.marks == {ONE: gone, TWO: Mark(9, 9)}


@pytest.mark.parametrize("end", [3100, 1900, 1200])
def test_a_topic_of_which_nothing_was_left_is_told_from_one_that_was_made_anew(
    cluster: SimCluster, clock: SimClock, expired: Checkpoint, end: int
) -> None:
    remake(cluster, end)
    said = f"t/a/0 was made anew.* of the {end} messages since, {min(1900, end)} lie before that"
    with pytest.raises(DataLossError, match=said):
        stream_offsets(cluster, clock).latest(expired)
    batch = stream_offsets(cluster, clock, **LENIENT).latest(expired)
    ranges = ranges_between(batch.starts(expired.offsets), batch.offsets)
    assert [str(each) for each in ranges] == [f"t/a/0 [0, {end})"]
    assert batch.marks[ONE] == Mark(end - 1, MADE_ANEW_MS + end - 1)


@pytest.mark.parametrize("starting", ["earliest", "latest"])
@pytest.mark.parametrize("ahead_min", [25, -25])
def test_clocks_of_driver_and_brokers_may_differ_by_less_than_half_an_hour(
    cluster: SimCluster, clock: SimClock, starting: str, ahead_min: int
) -> None:
    """By the broker's clock a message is kept for an hour, and the topic is made anew a minute
    after it was found to be gone."""
    clock.sleep(1e6)
    broker_ms = clock.time_ms() - ahead_min * 60_000
    queue = cluster.queues_[ONE]
    queue.stored_from_ms, queue.first = broker_ms - 3_600_000 - 1900, 1900
    offsets = stream_offsets(cluster, clock, startingOffsets=starting)
    expired = offsets.latest(offsets.initial())
    queue.first, queue.end = 1500, 2000  # a slave took over that keeps more
    assert stream_offsets(cluster, clock).latest(expired).begins == {}
    cluster.add(ONE, 0, 3100, stored_from_ms=broker_ms + 60_000)
    with pytest.raises(DataLossError, match="of the 3100 messages since, 1900 lie before"):
        stream_offsets(cluster, clock).latest(expired)
    assert stream_offsets(cluster, clock, **LENIENT).latest(expired).begins == {ONE: 0}


def test_a_queue_of_which_nothing_was_left_goes_on(
    cluster: SimCluster, clock: SimClock, expired: Checkpoint
) -> None:
    """Another replica may keep more than the one before it, which says nothing."""
    offsets, queue = stream_offsets(cluster, clock), cluster.queues_[ONE]
    for queue.first in (1900, 1500):
        assert offsets.latest(expired) == expired
        queue.end = 2000
        batch = offsets.latest(expired)
        assert (batch.offsets[ONE], batch.begins) == (2000, {})
        assert batch.marks[ONE] == Mark(1999, 1999)
        queue.end = 1900
    queue.end = 1800
    with pytest.raises(DataLossError, match="t/a/0 ends at 1800, but was read up to 1900"):
        offsets.latest(expired)


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_broker_is_not_asked_again_for_a_message_that_was_gone(
    cluster: SimCluster, clock: SimClock, monkeypatch: pytest.MonkeyPatch, starting: str
) -> None:
    """It notes that somebody asks for what is not there."""
    cluster.queues_[ONE].first = 1900
    offsets = stream_offsets(cluster, clock, startingOffsets=starting)
    start = offsets.latest(offsets.initial())
    asked: list[MessageQueue] = []
    monkeypatch.setattr(cluster, "stored_at", lambda wanted: (asked.extend(wanted), {})[1])
    monkeypatch.setattr(cluster, "are_gone", lambda wanted: (asked.extend(wanted), {})[1])
    only = Checkpoint({ONE: 1900}, start.origin, marks={ONE: start.marks[ONE]})
    cluster.unregistered = {"b"}
    assert offsets.latest(only) == only
    assert stream_offsets(cluster, clock, startingOffsets="earliest").initial().marks == only.marks
    assert asked == []


def test_nor_more_than_once_for_one_that_has_gone_since(
    cluster: SimCluster, clock: SimClock, stopped: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.queues_[ONE].first = cluster.queues_[ONE].end
    offsets = stream_offsets(cluster, clock, newQueuePollInterval="5s")
    assert offsets.latest(stopped) == stopped
    asked: list[MessageQueue] = []
    stored_at = cluster.stored_at
    monkeypatch.setattr(
        cluster, "stored_at", lambda wanted: (asked.extend(wanted), stored_at(wanted))[1]
    )
    for _ in range(3):
        clock.sleep(5)
        assert offsets.latest(stopped) == stopped
    assert ONE not in asked
    assert TWO in asked


def test_where_a_slave_took_over_that_lacks_the_end_of_what_is_gone(
    cluster: SimCluster, clock: SimClock, expired: Checkpoint
) -> None:
    """It keeps some of it, and gets others."""
    queue = cluster.queues_[ONE]
    queue.first, queue.end = 1500, 2200
    queue.stored_ms = [*range(1800), *range(MADE_ANEW_MS, MADE_ANEW_MS + 400)]
    with pytest.raises(
        DataLossError, match=r"or lost its end.* of the 400 messages since, 100 lie"
    ):
        stream_offsets(cluster, clock).latest(expired)
    batch = stream_offsets(cluster, clock, **LENIENT).latest(expired)
    assert batch.begins == {ONE: 1800}


def test_an_offset_that_was_never_reached_is_not_gone(cluster: SimCluster, clock: SimClock) -> None:
    """That somebody asks for what is to come is no reason to read what comes before."""
    cluster.add(ONE, 50, 50)
    named = {"startingOffsets": '{"t": {"a": {"0": 60}, "b": {"0": 10}}}'}
    offsets = stream_offsets(cluster, clock, **named, **LENIENT)
    start = offsets.initial()
    assert start.marks == {TWO: Mark(9, 9)}
    queue = cluster.queues_[ONE]
    queue.stored_from_ms, queue.end = MADE_ANEW_MS, 70
    batch = offsets.latest(start)
    ranges = ranges_between(batch.starts(start.offsets), batch.offsets)
    assert [str(each) for each in ranges] == ["t/a/0 [60, 70)"]


def test_a_broker_that_does_not_tell_is_asked_for_a_mark_from_time_to_time(
    cluster: SimCluster, clock: SimClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[MessageQueue] = []
    are_gone = cluster.are_gone

    def asking(wanted: dict[MessageQueue, int]) -> object:
        asked.extend(wanted)
        return dict.fromkeys(wanted, False) if len(asked) < 3 else are_gone(wanted)

    monkeypatch.setattr(cluster, "are_gone", asking)
    cluster.queues_[ONE].first = 1900
    offsets = stream_offsets(cluster, clock, newQueuePollInterval="5s", startingOffsets="latest")
    end = offsets.latest(offsets.initial())
    for waited_s, count in ((4, 1), (1, 2), (5, 3), (5, 3)):
        clock.sleep(waited_s)
        cluster.queues_[TWO].end += 1
        end = offsets.latest(end)
        assert len(asked) == count
    assert end.marks[ONE] == Mark(1899, clock.time_ms() - 5000 - HALF_AN_HOUR_MS, is_gone=True)


def test_what_replaces_the_lost_end_of_a_queue_is_read(
    cluster: SimCluster, clock: SimClock, stopped: Checkpoint
) -> None:
    """A slave took over that had 1,800 messages, and got others."""
    later = [MADE_ANEW_MS + number for number in range(400)]
    cluster.queues_[ONE].stored_ms = [*range(1800), *later]
    for end in (1850, 1900, 2200):
        cluster.queues_[ONE].end = end
        with pytest.raises(DataLossError, match=f"or lost its end.* of the {end - 1800} messages"):
            stream_offsets(cluster, clock).latest(stopped)
        batch = stream_offsets(cluster, clock, **LENIENT).latest(stopped)
        ranges = ranges_between(batch.starts(stopped.offsets), batch.offsets)
        assert [str(each) for each in ranges] == [f"t/a/0 [1800, {end})"]


def test_a_queue_of_a_broker_whose_clock_was_set_back_is_read_from_its_beginning(
    cluster: SimCluster, clock: SimClock
) -> None:
    cluster.queues_[ONE].stored_from_ms = 2 * MADE_ANEW_MS
    offsets = stream_offsets(cluster, clock)
    stopped = offsets.latest(offsets.initial())
    remake(cluster, 3100)
    batch = stream_offsets(cluster, clock, **LENIENT).latest(stopped)
    assert batch.begins == {ONE: 0}
    cluster.queues_[ONE].stored_ms = [
        *range(2500),
        *range(3 * MADE_ANEW_MS, 3 * MADE_ANEW_MS + 600),
    ]
    batch = stream_offsets(cluster, clock, **LENIENT).latest(stopped)
    assert batch.begins == {ONE: 0}, "it was set right again behind what was read"


def test_a_queue_of_which_nothing_comes_is_looked_at_from_time_to_time(
    cluster: SimCluster, clock: SimClock, stopped: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[MessageQueue] = []
    stored_at = cluster.stored_at

    def asking(wanted: dict[MessageQueue, int]) -> object:
        asked.extend(wanted)
        return stored_at(wanted)

    monkeypatch.setattr(cluster, "stored_at", asking)
    offsets = stream_offsets(cluster, clock, newQueuePollInterval="5s")
    assert offsets.latest(stopped) == stopped
    assert sorted(asked) == [ONE, TWO], "when it goes on"
    for waited_s in (0, 4):
        clock.sleep(waited_s)
        assert offsets.latest(stopped) == stopped
    assert len(asked) == 2
    cluster.queues_[TWO].end = 11
    assert offsets.latest(stopped).marks[TWO].queue_offset == 10
    assert asked[2:] == [TWO, TWO], "compared, and marked"
    clock.sleep(1)
    offsets.latest(stopped)
    assert sorted(asked[4:]) == [ONE, TWO, TWO]


def test_a_topic_that_is_made_anew_while_the_query_runs(
    cluster: SimCluster, clock: SimClock
) -> None:
    offsets = stream_offsets(cluster, clock, newQueuePollInterval="5s")
    end = offsets.latest(offsets.initial())
    assert offsets.latest(end) == end
    remake(cluster, 3100)
    clock.sleep(5)
    with pytest.raises(DataLossError, match="t/a/0 was made anew"):
        offsets.latest(end)


def test_a_broker_that_does_not_say_it_is_not_read_and_holds_up_nobody_else(
    cluster: SimCluster, clock: SimClock, stopped: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    remake(cluster, 3100)
    cluster.queues_[TWO].end = 20
    stored_at = cluster.stored_at

    def refusing(wanted: dict[MessageQueue, int]) -> object:
        if ONE in wanted:
            raise ConnectError("a is busy")
        return stored_at(wanted)

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "stored_at", refusing)
        offsets = stream_offsets(cluster, clock)
        end = offsets.latest(stopped)
        assert end.offsets == {ONE: 1900, TWO: 20}
    with pytest.raises(DataLossError, match="t/a/0 was made anew"):
        offsets.latest(end)
