"""Offsets of a running query: batch after batch, over restarts, and whatever happens to queues and
brokers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.system_clock import BlockingClock
from aiorocketmq.spark_connector.access.broker_access import MaxOffset
from aiorocketmq.spark_connector.access.checkpoint import Checkpoint, from_json, to_json
from aiorocketmq.spark_connector.access.errors import DataLossError, RangeTimeoutError
from aiorocketmq.spark_connector.access.offsets import Offsets
from aiorocketmq.spark_connector.access.seen import Seen
from aiorocketmq.spark_connector.source.away_brokers import AwayBrokers
from aiorocketmq.spark_connector.source.planner import ranges_between
from aiorocketmq.spark_connector.source.stream_offsets import StreamOffsets

from ..plain_offsets import PlainOffsets
from ..simulated_cluster import SimClock, SimCluster
from .queries import options, query, stream_offsets

ONE, TWO, LATER = MessageQueue("t", "a", 0), MessageQueue("t", "b", 0), MessageQueue("t", "a", 1)


@pytest.fixture
def cluster() -> SimCluster:
    made = SimCluster()
    made.add(ONE, 0, 100)
    made.add(TWO, 5, 20)
    return made


# --- the beginning
# --------------------------------------------------------------------------------------------------
def test_a_query_begins_once(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock, startingOffsets="latest")
    start = offsets.initial()
    assert start == {ONE: 100, TWO: 20}
    cluster.queues_[ONE].end = 150
    assert offsets.initial() == start, "Spark asks twice"
    assert offsets.latest(start) == start, "the first batch is empty and pins the beginning"
    assert offsets.latest(start) == {ONE: 150, TWO: 20}


def test_what_does_not_change_needs_no_pin(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock)
    assert offsets.latest(offsets.initial()) == {ONE: 100, TWO: 20}


class Spark:
    """Its side of it: the end of a batch is written down before it runs, and once more when it is
    done. ``sink`` has the rows by batch: one that runs again replaces what it wrote before."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw
        self.written: list[str] = []
        self.done = 0
        self.sink: dict[int, list[tuple[MessageQueue, int]]] = {}

    def dies(self) -> bool:
        return self._draw(st.integers(0, 5)) == 0

    def trigger(self, offsets: StreamOffsets) -> bool:
        """False: the driver died on the way."""
        begin = self.read(self.done - 1) if self.done else offsets.initial()
        if len(self.written) == self.done:  # there is none to run again
            end = offsets.latest(begin)
            if self.done and end == begin:
                return True
            self.written.append(json.dumps(to_json(end)))
        if self.dies():
            return False
        end = self.read(self.done)
        ranges = ranges_between(end.starts(begin.offsets), end.offsets)
        self.sink[self.done] = [
            (each.queue, offset) for each in ranges for offset in range(*each[3:])
        ]
        if self.dies():
            return False
        self.done += 1
        if self._draw(st.booleans()):
            offsets.committed(self.read(self.done - 1))
        return True

    def read(self, number: int) -> Checkpoint:
        return from_json(json.loads(self.written[number]))


@given(st.data())
def test_whenever_the_driver_dies_every_offset_is_read_once(data: st.DataObject) -> None:
    cluster, clock, spark = SimCluster(), SimClock(), Spark(data)
    for queue, first in ((ONE, 0), (TWO, 3)):
        cluster.add(queue, first, first + data.draw(st.integers(0, 50)))
    start = data.draw(st.sampled_from(["earliest", "latest"]))
    limits = data.draw(
        st.sampled_from([{}, {"maxOffsetsPerTrigger": "7"}, {"minOffsetsPerTrigger": "9"}])
    )
    for _life in range(data.draw(st.integers(1, 4))):
        offsets = stream_offsets(cluster, clock, startingOffsets=start, **limits)
        for _trigger in range(data.draw(st.integers(1, 5))):
            for simulated in cluster.queues_.values():
                simulated.end += data.draw(st.integers(0, 20))
            if not spark.trigger(offsets):
                break
            if data.draw(st.integers(0, 9)) == 0 and LATER not in cluster.queues_:
                cluster.add(LATER, 0, 4)
    read = sorted(row for rows in spark.sink.values() for row in rows)
    began = {ONE: 0, TWO: 3}
    if start == "latest":
        began = spark.read(0).offsets if spark.written else {}
    upto = spark.read(max(spark.sink)).offsets if spark.sink else began
    assert read == sorted(
        (queue, n) for queue in upto for n in range(began.get(queue, 0), upto[queue])
    )


# --- one trigger
# --------------------------------------------------------------------------------------------------
def test_no_batch_without_news(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock)
    end = offsets.latest(offsets.initial())
    assert offsets.latest(end) == end
    assert offsets.seen() == Seen({ONE: 100, TWO: 20}, "RocketMQ[Subscribe[t]]")


def test_at_most_so_many_offsets(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock, maxOffsetsPerTrigger="23")
    start = offsets.initial()
    assert offsets.latest(start) == {ONE: 20, TWO: 8}
    assert offsets.latest(start, everything=True) == {ONE: 100, TWO: 20}


def test_at_least_so_many_offsets_or_after_some_time(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock, minOffsetsPerTrigger="50", maxTriggerDelay="1m")
    end = offsets.latest(offsets.initial())
    assert end == {ONE: 100, TWO: 20}, "the first batch does not wait"
    cluster.queues_[ONE].end = 110
    assert offsets.latest(end) == end
    cluster.queues_[TWO].end = 60
    end = offsets.latest(end)
    assert end == {ONE: 110, TWO: 60}
    cluster.queues_[ONE].end = 120
    clock.sleep(59)
    assert offsets.latest(end) == end
    clock.sleep(1)
    assert offsets.latest(end) == {ONE: 120, TWO: 60}


def test_available_now_ends_where_it_began(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock, maxOffsetsPerTrigger="60", minOffsetsPerTrigger="60")
    offsets.prepare_available_now()
    start = offsets.initial()
    cluster.queues_[ONE].end = 1000
    cluster.add(LATER, 0, 50)
    ends = [start]
    while (end := offsets.latest(ends[-1])) != ends[-1]:
        ends.append(end)
    assert ends[-1] == {ONE: 100, TWO: 20}
    assert len(ends) == 3
    again = query(cluster, clock)
    cluster.queues_[ONE].end = 90
    again.prepare_available_now()
    with pytest.raises(DataLossError, match="t/a/0 ends at 90, but was read up to 100"):
        again.latest({ONE: 100, TWO: 20})


def test_available_now_reads_on_after_a_crash_in_the_batch_that_pins(
    cluster: SimCluster, clock: SimClock
) -> None:
    for queue in (ONE, TWO):
        cluster.queues_[queue].group_offset = 0
    group = {"startingOffsets": "group", "consumerGroup": "g", "failOnDataLoss": "false"}
    offsets = stream_offsets(cluster, clock, **group)
    pinned = offsets.latest(offsets.initial())
    again = stream_offsets(cluster, clock, **group)
    again.prepare_available_now()
    assert again.ranges(again.initial(), pinned) == [], "the first batch runs again"
    assert again.latest(pinned).offsets == {ONE: 100, TWO: 20}, "not the pin once more"


# --- queues come and go
# ---------------------------------------------------------------------------------------------
def test_a_new_queue_is_read_from_0(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock, startingOffsets="latest")
    start = offsets.latest(offsets.initial())
    cluster.add(LATER, 0, 0)
    assert offsets.latest(start) == start, "an empty queue is no news"
    cluster.queues_[LATER].end = 3
    end = offsets.latest(start)
    assert [str(each) for each in ranges_between(start, end)] == ["t/a/1 [0, 3)"]


def test_a_new_queue_that_was_trimmed_is_a_loss(cluster: SimCluster, clock: SimClock) -> None:
    start = {ONE: 100, TWO: 20}
    cluster.add(LATER, 7, 10)
    with pytest.raises(DataLossError, match="t/a/1 was found now, but its oldest message is 7"):
        query(cluster, clock).latest(start)
    assert query(cluster, clock, failOnDataLoss="false").latest(start) == {**start, LATER: 10}


def test_a_new_queue_of_which_a_slave_has_deleted_waits_for_its_master(
    cluster: SimCluster, clock: SimClock
) -> None:
    """That may keep what the slave does not."""
    start = {ONE: 100, TWO: 20}
    late = cluster.add(LATER, 7, 10)
    cluster.slaves, cluster.down = frozenset("a"), {"a:0"}
    for strict in ("true", "false"):
        offsets = query(cluster, clock, failOnDataLoss=strict)
        cluster.queues_[ONE].end = 110
        assert offsets.latest(start) == {ONE: 110, TWO: 20}
        assert lost(offsets) == (0, 0)
    cluster.down = set()
    late.first = 0
    assert offsets.latest(start) == {ONE: 110, TWO: 20, LATER: 10}
    assert offsets.checkpoint.begins == {}


def test_what_is_too_old_to_be_kept_is_a_loss_and_counted_once(
    cluster: SimCluster, clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    start = {ONE: 30, TWO: 20}
    cluster.queues_[ONE].first = 70
    with pytest.raises(DataLossError, match="t/a/0: the oldest message that is kept is 70"):
        query(cluster, clock).latest(start)
    offsets = query(cluster, clock, failOnDataLoss="false", maxOffsetsPerTrigger="60")
    end = offsets.latest(start)
    assert end == {ONE: 100, TWO: 20}
    assert offsets.checkpoint.begins == {ONE: 70}
    assert lost(offsets) == (1, 40)
    assert "40 messages are left out" in caplog.text
    assert offsets.latest(end) == end
    assert lost(offsets) == (1, 40)


@pytest.mark.parametrize("end", [1000, 1100], ids=["all of it", "some of it"])
@pytest.mark.parametrize("available_now", [False, True])
def test_what_is_too_old_to_be_kept_is_none_of_what_a_trigger_reads(
    cluster: SimCluster, clock: SimClock, available_now: bool, end: int
) -> None:
    """Or it would go through all of that bit by bit, and queues that have something would wait."""
    cluster.add(ONE, 1000, end)
    cluster.queues_[TWO].end = 60
    limits = {"maxOffsetsPerTrigger": "50", "minOffsetsPerTrigger": "10"}
    offsets = query(cluster, clock, failOnDataLoss="false", **limits)
    if available_now:
        offsets.prepare_available_now()
    ends = [{ONE: 30, TWO: 20}]
    while (now := offsets.latest(ends[-1])) != ends[-1]:
        ends.append(now)
    half = {ONE: 1000, TWO: 60} if end == 1000 else {ONE: 1035, TWO: 34}
    assert ends[1] == half
    assert ends[-1] == {ONE: end, TWO: 60}
    assert len(ends) == (2 if end == 1000 else 4)
    assert lost(offsets) == (1, 970)


def test_a_slave_that_deleted_more_is_no_loss(cluster: SimCluster, clock: SimClock) -> None:
    cluster.queues_[ONE].first = 70
    cluster.slaves, cluster.down = frozenset("a"), {"a:0"}
    assert query(cluster, clock).latest({ONE: 30, TWO: 20}) == {ONE: 100, TWO: 20}


def lost(offsets: PlainOffsets) -> tuple[int, int]:
    seen = offsets.seen()
    assert seen is not None
    return seen.losses, seen.lost_messages


def test_what_waits_is_seen(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock)
    cluster.down.add("b:0")
    offsets.latest({ONE: 30, TWO: 20})
    seen = offsets.seen()
    assert seen is not None
    assert seen.away == {"b"}


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("answers", [True, False])
def test_a_topic_that_a_name_server_does_not_know_yet_waits(
    clock: SimClock, fails: str, answers: bool
) -> None:
    """It was told of another topic of the broker."""
    cluster = SimCluster()
    for queue in (ONE, MessageQueue("another", "a", 0)):
        cluster.add(queue, 0, 100)
    empty = MessageQueue("t", "a", 1)
    cluster.add(empty, 0, 0)
    offsets = query(cluster, clock, failOnDataLoss=fails)
    end = offsets.latest(offsets.initial())
    cluster.hidden = {ONE, empty}
    if not answers:
        cluster.down.add("a:0")
    assert offsets.latest(end) == end == {ONE: 100, empty: 0}
    seen = offsets.seen()
    assert seen is not None
    assert seen.away == {"a"}
    cluster.hidden.clear()
    cluster.down.clear()
    cluster.queues_[ONE].end = 120
    assert offsets.latest(end) == {ONE: 120, empty: 0}, "nothing is read twice"
    assert lost(offsets) == (0, 0)
    for queue in (ONE, empty):
        del cluster.queues_[queue]
    if fails == "true":
        with pytest.raises(DataLossError, match="t/a/0 is gone, its broker is there"):
            offsets.latest(end)
    else:
        assert offsets.latest(end) == {}


def test_a_queue_that_is_gone_is_a_loss(cluster: SimCluster, clock: SimClock) -> None:
    start = {ONE: 100, TWO: 20, LATER: 8}
    with pytest.raises(
        DataLossError, match="t/a/1 is gone, its broker is there; it was read up to 8"
    ):
        query(cluster, clock).latest(start)
    offsets = query(cluster, clock, failOnDataLoss="false")
    assert offsets.latest(start) == {ONE: 100, TWO: 20}
    assert lost(offsets) == (1, 0)
    offsets.latest(start)
    assert lost(offsets) == (1, 0), "nothing new"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"subscribe": "t"}, ["u"]),
        ({"subscribePattern": "t+"}, ["u"]),
        ({"assign": '{"t": {"a": [0], "b": [0]}}'}, ["t/a/1, u"]),
    ],
)
def test_what_is_subscribed_no_more_is_left_out_and_named_once(
    cluster: SimCluster,
    clock: SimClock,
    caplog: pytest.LogCaptureFixture,
    given: dict[str, str],
    told: list[str],
) -> None:
    other, again = MessageQueue("u", "a", 0), MessageQueue("u", "gone", 0)
    cluster.add(other, 0, 9)
    cluster.add(LATER, 0, 9)
    before = {ONE: 100, TWO: 20, LATER: 9, other: 9, again: 3}
    offsets = query(cluster, clock, **given)
    with caplog.at_level(logging.WARNING):
        end = offsets.latest(before)
        assert offsets.latest(before) == offsets.latest(end) == end
    kept = {ONE: 100, TWO: 20, LATER: 9}
    assert end == {queue: kept[queue] for queue in kept if "assign" not in given or queue != LATER}
    named = [each.getMessage().partition(":")[0] for each in caplog.records]
    assert named == told


def test_a_queue_that_ends_before_it_was_read_is_a_loss_when_its_master_says_so(
    cluster: SimCluster, clock: SimClock
) -> None:
    start = {ONE: 120, TWO: 10}
    with pytest.raises(DataLossError, match="t/a/0 ends at 100, but was read up to 120"):
        query(cluster, clock).latest(start)
    assert query(cluster, clock, failOnDataLoss="false").latest(start) == {ONE: 120, TWO: 20}
    cluster.slaves, cluster.down = frozenset("a"), {"a:0"}
    assert query(cluster, clock).latest(start) == {ONE: 120, TWO: 20}, "a slave may lag behind"


class MasterOfBefore(SimCluster):
    """Until routes are asked for, the first master is taken for it, which lags as a slave now, or
    has deleted more."""

    how = ""

    def queues(self, topics: Iterable[str]) -> dict[str, tuple[MessageQueue, ...]]:
        found = super().queues(topics)
        self.how = ""
        return found

    def _at(self, queue: MessageQueue) -> MaxOffset:
        found = super()._at(queue)
        return found._replace(offset=found.offset - 30) if self.how == "lags" else found

    def oldest_of_masters(self, queues: Iterable[MessageQueue]) -> Offsets:
        return {
            queue: offset + (80 if self.how == "was trimmed" else 0)
            for queue, offset in super().oldest_of_masters(queues).items()
        }


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize("how", ["lags", "was trimmed"])
def test_who_is_the_master_no_longer_tells_a_stream_of_no_loss(
    clock: SimClock, how: str, knows: bool, fails: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = MasterOfBefore()
    queue = cluster.add(ONE, 0, 50)
    offsets = query(
        cluster,
        clock,
        failOnDataLoss=fails,
        **{"newQueuePollInterval": "60000", "fetchOffset.numRetries": "0"},
    )
    end = offsets.latest(offsets.initial())
    cluster.how, cluster.name_server_down = how, not knows
    queue.end = 70 if how == "was trimmed" else 50
    assert offsets.latest(end) == {ONE: queue.end}
    assert "failOnDataLoss" not in caplog.text
    assert cluster.how == ("" if knows else how)


@pytest.mark.parametrize("how", ["down", "unregistered"])
def test_queues_of_a_broker_that_is_away_wait_for_some_time(
    cluster: SimCluster, clock: SimClock, how: str
) -> None:
    offsets = query(cluster, clock, **{"rocketmqConsumer.pollTimeoutMs": "60000"})
    start = {ONE: 50, TWO: 10}
    away: set[str] = getattr(cluster, how)
    away.add("a:0" if how == "down" else "a")
    assert offsets.latest(start) == {ONE: 50, TWO: 20}
    clock.sleep(59)
    assert offsets.latest(start) == {ONE: 50, TWO: 20}
    away.clear()
    assert offsets.latest(start) == {ONE: 100, TWO: 20}
    away.add("a:0" if how == "down" else "a")
    assert offsets.latest(start)[ONE] == 50, "the time counts anew"
    clock.sleep(60)
    with pytest.raises(RangeTimeoutError, match="the broker a is away for 60 s now"):
        offsets.latest(start)


def test_a_broker_that_comes_back_between_two_questions_has_lost_nothing(
    cluster: SimCluster, clock: SimClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = query(cluster, clock)
    cluster.unregistered = {"a"}
    registered = cluster.registered_brokers

    def comes_back() -> set[str]:
        cluster.unregistered = set()
        return registered()

    monkeypatch.setattr(cluster, "registered_brokers", comes_back)
    assert offsets.latest({ONE: 50, TWO: 10}) == {ONE: 100, TWO: 20}


def test_a_name_server_that_goes_between_two_questions_says_of_nothing_that_it_is_gone(
    cluster: SimCluster, clock: SimClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = query(cluster, clock, failOnDataLoss="false")
    cluster.unregistered = {"a"}
    registered = cluster.registered_brokers

    def comes_back_and_then_the_name_server_goes() -> set[str]:
        cluster.unregistered = set()
        found = registered()
        cluster.name_server_down = True
        return found

    monkeypatch.setattr(cluster, "registered_brokers", comes_back_and_then_the_name_server_goes)
    assert offsets.latest({ONE: 50, TWO: 10}) == {ONE: 50, TWO: 20}
    assert lost(offsets) == (0, 0)


def test_a_name_server_that_is_away_stops_nothing_for_some_time(
    cluster: SimCluster, clock: SimClock
) -> None:
    offsets = query(cluster, clock, **{"rocketmqConsumer.pollTimeoutMs": "60000"})
    start = offsets.initial()
    cluster.name_server_down = True
    assert offsets.latest(start) == {ONE: 100, TWO: 20}
    assert offsets.latest({**start, LATER: 7}) == {ONE: 100, TWO: 20, LATER: 7}, (
        "who knows where that is"
    )
    clock.sleep(60)
    with pytest.raises(ConnectError):
        offsets.latest(start)


def test_a_name_server_that_is_busy_is_one_that_is_away(
    cluster: SimCluster, clock: SimClock
) -> None:
    offsets = query(cluster, clock)
    start = offsets.initial()
    cluster.name_server_busy = True
    assert offsets.latest(start) == {ONE: 100, TWO: 20}


def test_time_between_triggers_is_no_time_that_a_name_server_was_away(
    cluster: SimCluster, clock: SimClock
) -> None:
    offsets = query(cluster, clock, **{"rocketmqConsumer.pollTimeoutMs": "60000"})
    start = offsets.latest(offsets.initial())
    clock.sleep(600)
    cluster.name_server_down = True
    cluster.queues_[ONE].end = 110
    assert offsets.latest(start)[ONE] == 110
    clock.sleep(600)
    with pytest.raises(ConnectError):
        offsets.latest(start)


@pytest.mark.parametrize("how", ["down", "unregistered", "name server"])
@pytest.mark.parametrize("outage_s", [30, 90])
def test_two_short_outages_at_two_triggers_are_no_long_one(
    cluster: SimCluster, how: str, outage_s: int
) -> None:
    clock = ThatGoesOn()
    offsets = query(cluster, clock, **{"rocketmqConsumer.pollTimeoutMs": "60000"})
    start = {ONE: 50, TWO: 10}
    assert offsets.latest(start) == {ONE: 100, TWO: 20}

    def is_away(away: bool) -> None:
        cluster.name_server_down = away and how == "name server"
        cluster.down = {"a:0"} if away and how == "down" else set()
        cluster.unregistered = {"a"} if away and how == "unregistered" else set()

    for _ in range(2):
        clock.sleep(3600)
        is_away(True)
        began = clock.now()
        clock.then[began + outage_s] = lambda: is_away(False)
        end = offsets.latest(start)
        assert clock.now() == began, "it waits for the next trigger"
        assert end == {ONE: 100 if how == "name server" else 50, TWO: 20}
        clock.sleep(3600)
        is_away(True)
        began = clock.now()
        clock.then[began + outage_s] = lambda: is_away(False)
        if outage_s >= 60:
            with pytest.raises((RangeTimeoutError, ConnectError)):
                offsets.latest(start)
            return
        assert offsets.latest(start) == {ONE: 100, TWO: 20}
        assert outage_s <= clock.now() - began <= outage_s + 2


def test_a_second_outage_ends_a_trigger_however_short_the_limit_is(
    cluster: SimCluster, clock: SimClock
) -> None:
    offsets = query(cluster, clock, **{"rocketmqConsumer.pollTimeoutMs": "500"})
    start = {ONE: 50, TWO: 10}
    offsets.latest(start)
    cluster.down = {"a:0"}
    clock.sleep(3600)
    offsets.latest(start)
    clock.sleep(3600)
    began = clock.now()
    with pytest.raises(RangeTimeoutError):
        offsets.latest(start)
    assert clock.now() - began < 5


def test_who_answered_meanwhile_was_not_away_for_all_that_time(clock: SimClock) -> None:
    """Though something else that it should have told was missing both times."""
    given = {"rocketmqConsumer.pollTimeoutMs": "60000"}
    away = AwayBrokers(options(**given), BlockingClock(clock.now, clock.sleep))
    for _ in range(2):
        clock.sleep(3600)
        away.begin(())
        away.check({"a": "its marks cannot be read"})


class ThatGoesOn(SimClock):
    """What happens ``then``."""

    def __init__(self) -> None:
        super().__init__()
        self.then: dict[float, Callable[[], None]] = {}

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        for at in [each for each in self.then if each <= self.time]:
            self.then.pop(at)()


def test_queues_are_looked_for_from_time_to_time(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock, newQueuePollInterval="10s")
    start = offsets.latest(offsets.initial())
    cluster.add(LATER, 0, 5)
    assert LATER not in offsets.latest(start)
    clock.sleep(10)
    assert offsets.latest(start)[LATER] == 5


# --- the group
# --------------------------------------------------------------------------------------------------
def test_progress_is_published_for_who_looks_at_lag(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock, commitOffsetsToGroup="true", consumerGroup="g")
    start = offsets.initial()
    end = offsets.latest(start)
    assert cluster.committed == start
    offsets.latest(end)
    assert cluster.committed == end, "of the last batch Spark tells nothing else"
    cluster.committed.clear()
    offsets.committed(end)
    assert cluster.committed == {}, "nothing is told twice"
    cluster.down = {"a:0"}
    offsets.committed({ONE: 101, TWO: 21})
    assert cluster.committed == {TWO: 21}
    cluster.down.clear()
    offsets.committed({ONE: 101, TWO: 21})
    assert cluster.committed == {ONE: 101, TWO: 21}
    cluster.committed.clear()  # a broker was killed before it wrote them down
    cluster.registered.clear()
    clock.sleep(59)
    offsets.committed({ONE: 101, TWO: 21})
    assert cluster.committed == {}
    clock.sleep(1)
    offsets.committed({ONE: 101, TWO: 21})
    assert cluster.committed == {ONE: 101, TWO: 21}
    assert cluster.registered == ["a", "b"]


def test_the_group_is_made_known_once_where_that_is_allowed(
    cluster: SimCluster, clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"commitOffsetsToGroup": "true", "consumerGroup": "g"}
    offsets = query(cluster, clock, **given)
    cluster.down = {"b:0"}
    offsets.committed({ONE: 1, TWO: 1})
    cluster.down.clear()
    offsets.committed({ONE: 2, TWO: 2})
    assert cluster.registered == ["a", "b"]
    assert cluster.committed == {ONE: 2, TWO: 2}
    cluster.group_refused = True
    with caplog.at_level(logging.WARNING):
        offsets = query(cluster, clock, **given)
        offsets.committed({ONE: 3})
        offsets.committed({ONE: 4})
        clock.sleep(60)
        offsets.committed({ONE: 4})
    assert cluster.committed[ONE] == 4
    assert len([each for each in caplog.records if "not made known" in each.getMessage()]) == 1


def test_nothing_is_published_unasked(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock)
    offsets.committed(offsets.initial())
    assert cluster.committed == {}
