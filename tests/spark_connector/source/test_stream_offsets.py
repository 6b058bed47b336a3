"""Offsets of a running query: batch after batch, over restarts, and whatever happens to queues and
brokers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.system_clock import BlockingClock
from aiorocketmq.spark_connector.access.errors import (
    DataLossError,
    IncompleteReadError,
    RangeTimeoutError,
)
from aiorocketmq.spark_connector.access.offsets import Offsets
from aiorocketmq.spark_connector.access.options import SourceOptions, parse_source_options
from aiorocketmq.spark_connector.source.planner import QueueRange, ranges_between
from aiorocketmq.spark_connector.source.queue_lives import NOTED_EVERY_S
from aiorocketmq.spark_connector.source.stream_offsets import (
    CLOCKS_APART_MS,
    StreamOffsets,
)
from aiorocketmq.spark_connector.source.stream_position import Life, StreamPosition

from ..simulated_cluster import SimClock, SimCluster, SimQueue

ONE, TWO, LATER = MessageQueue("t", "a", 0), MessageQueue("t", "b", 0), MessageQueue("t", "a", 1)


def options(**given: str) -> SourceOptions:
    given.setdefault("startingOffsets", "earliest")
    return parse_source_options(
        {"namesrv": "ns:1", "subscribe": "t", "newQueuePollInterval": "0", **given},
        streaming=True,
        environment={},
    )


@pytest.fixture
def cluster() -> SimCluster:
    made = SimCluster()
    made.add(ONE, 0, 100)
    made.add(TWO, 5, 20)
    return made


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


class Query:
    """A process of one; what a checkpoint knows beside offsets is kept by ``checkpoint``."""

    def __init__(
        self,
        cluster: SimCluster,
        clock: SimClock,
        given: dict[str, str],
        checkpoint: dict[str, StreamPosition],
    ) -> None:
        blocking = BlockingClock(clock.now, clock.sleep, clock.time_ms)
        self.stream = StreamOffsets(options(**given), cluster, blocking)
        self.checkpoint = checkpoint
        self.prepare_available_now = self.stream.prepare_available_now
        self.committed = self.stream.committed
        self.seen = self.stream.seen
        self.before = StreamPosition({})

    def initial(self) -> Offsets:
        return self._kept(self.stream.initial())

    def latest(self, start: Offsets, *, everything: bool = False) -> Offsets:
        self.before = self.checkpoint.get("last", StreamPosition({}))._replace(offsets=start)
        return self._kept(self.stream.latest(self.before, everything=everything))

    def _kept(self, position: StreamPosition) -> Offsets:
        again = StreamPosition.from_json(json.loads(json.dumps(position.to_json())))
        assert again == position
        self.checkpoint["last"] = position
        return position.offsets


def query(
    cluster: SimCluster,
    clock: SimClock,
    checkpoint: dict[str, StreamPosition] | None = None,
    /,
    **given: str,
) -> Query:
    return Query(cluster, clock, given, {} if checkpoint is None else checkpoint)


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


def test_a_first_batch_that_runs_again_reads_nothing_of_who_is_away_then(
    cluster: SimCluster, clock: SimClock
) -> None:
    """The driver died in it; where the query begins is asked for once more."""
    stream = query(cluster, clock, startingOffsets="latest").stream
    end = stream.latest(stream.initial())
    cluster.unregistered = {"b"}
    again = query(cluster, clock, startingOffsets="latest").stream.initial()
    assert TWO not in again.offsets
    assert again.ranges_to(end) == []


def test_what_does_not_change_needs_no_pin(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock)
    assert offsets.latest(offsets.initial()) == {ONE: 100, TWO: 20}


class Spark:
    """Its side of it: the end of a batch is written down before it runs, and once more when it is
    done. ``sink`` has the rows by batch: one that runs again replaces what it wrote before."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw
        self.written: list[StreamPosition] = []
        self.done = 0
        self.sink: dict[int, list[tuple[MessageQueue, int]]] = {}

    def dies(self) -> bool:
        return self._draw(st.integers(0, 5)) == 0

    def trigger(self, query: Query) -> bool:
        """False: the driver died on the way."""
        offsets = query.stream
        begin = self.written[self.done - 1] if self.done else offsets.initial()
        if len(self.written) == self.done:  # there is none to run again
            end = offsets.latest(begin)
            if self.done and end == begin:
                return True
            self.written.append(end)
        if self.dies():
            return False
        ranges = begin.ranges_to(self.written[self.done])
        self.sink[self.done] = [
            (each.queue, offset) for each in ranges for offset in range(*each[3:])
        ]
        if self.dies():
            return False
        self.done += 1
        if self._draw(st.booleans()):
            offsets.committed(self.written[self.done - 1].offsets)
        return True


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
        offsets = query(cluster, clock, startingOffsets=start, **limits)
        for _trigger in range(data.draw(st.integers(1, 5))):
            for simulated in cluster.queues_.values():
                simulated.end += data.draw(st.integers(0, 20))
            if not spark.trigger(offsets):
                break
            if data.draw(st.integers(0, 9)) == 0 and LATER not in cluster.queues_:
                cluster.add(LATER, 0, 4, stored_from_ms=clock.time_ms())
    read = sorted(row for rows in spark.sink.values() for row in rows)
    pinned = spark.written[0].offsets if spark.written else {}
    began = {ONE: 0, TWO: 3} if start == "earliest" else pinned
    upto = spark.written[max(spark.sink)].offsets if spark.sink else began
    assert read == sorted(
        (queue, n) for queue in upto for n in range(began.get(queue, 0), upto[queue])
    )


# --- one trigger
# --------------------------------------------------------------------------------------------------


def test_no_batch_without_news(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock)
    end = offsets.latest(offsets.initial())
    assert offsets.latest(end) == end
    assert offsets.seen() == end


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
    assert again.latest({ONE: 100, TWO: 20})[ONE] == 100, "a target that lies behind is none"


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


def test_a_queue_that_is_gone_is_a_loss(cluster: SimCluster, clock: SimClock) -> None:
    start = {ONE: 100, TWO: 20, LATER: 8}
    with pytest.raises(
        DataLossError, match="t/a/1 is gone, its broker is there; it was read up to 8"
    ):
        query(cluster, clock).latest(start)
    assert query(cluster, clock, failOnDataLoss="false").latest(start) == {ONE: 100, TWO: 20}


def test_a_queue_that_ends_before_it_was_read_is_a_loss_when_its_master_says_so(
    cluster: SimCluster, clock: SimClock
) -> None:
    start = {ONE: 120, TWO: 10}
    with pytest.raises(DataLossError, match="t/a/0 ends at 100, but was read up to 120"):
        query(cluster, clock).latest(start)
    assert query(cluster, clock, failOnDataLoss="false").latest(start) == {ONE: 120, TWO: 20}
    cluster.slaves, cluster.down = frozenset("a"), {"a:0"}
    assert query(cluster, clock).latest(start) == {ONE: 120, TWO: 20}, "a slave may lag behind"


@pytest.mark.parametrize("how", ["down", "unregistered"])
def test_queues_of_a_broker_that_is_away_wait_for_some_time(
    cluster: SimCluster, clock: SimClock, how: str
) -> None:
    offsets = query(cluster, clock, None, **{"rocketmqConsumer.pollTimeoutMs": "60000"})
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
    patient = query(cluster, clock, failOnDataLoss="false")
    for _ in range(3):
        assert patient.latest(start) == {ONE: 50, TWO: 20}
        clock.sleep(600)


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


def test_a_name_server_that_is_away_stops_nothing_for_some_time(
    cluster: SimCluster, clock: SimClock
) -> None:
    offsets = query(cluster, clock, None, **{"rocketmqConsumer.pollTimeoutMs": "60000"})
    start = offsets.initial()
    cluster.name_server_down = True
    assert offsets.latest(start) == {ONE: 100, TWO: 20}
    assert offsets.latest({**start, LATER: 7}) == {ONE: 100, TWO: 20, LATER: 7}, (
        "who knows where that is"
    )
    clock.sleep(60)
    with pytest.raises(ConnectError):
        offsets.latest(start)


# --- other queues than before


def test_a_query_that_begins_now_reads_nothing_old_of_a_broker_that_was_away(
    cluster: SimCluster, clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.unregistered = {"b"}
    offsets = query(cluster, clock, startingOffsets="latest")
    start = offsets.latest(offsets.initial())
    assert start == {ONE: 100}
    cluster.unregistered = set()
    cluster.queues_[TWO].end = 5_600
    cluster.queues_[TWO].stored_from_ms = clock.time_ms() - CLOCKS_APART_MS - 5_600
    assert offsets.latest(start) == start, "all of it is old"
    cluster.queues_[TWO].end = 5_603
    end = offsets.latest(start)
    assert [str(each) for each in ranges(offsets, start, end)] == ["t/b/0 [5600, 5603)"]
    assert caplog.text.count("t/b/0 was not there when the query began, but is older") == 1
    assert offsets.latest(end) == end
    again = query(cluster, clock, offsets.checkpoint, startingOffsets="latest")
    cluster.queues_[TWO].end = 5_604
    assert [str(each) for each in ranges(again, end, again.latest(end))] == ["t/b/0 [5603, 5604)"]


def test_a_query_that_begins_at_a_time_reads_queues_that_are_found_later_from_then_on(
    cluster: SimCluster, clock: SimClock
) -> None:
    cluster.unregistered = {"b"}
    offsets = query(cluster, clock, startingTimestamp="9")
    start = offsets.latest(offsets.initial())
    cluster.unregistered = set()
    assert [str(each) for each in ranges(offsets, start, offsets.latest(start))] == [
        "t/b/0 [9, 20)"
    ]


@pytest.mark.parametrize("end", [90, 100, 400], ids=["shorter", "as long", "longer"])
def test_a_topic_that_was_made_anew_meanwhile_is_a_loss_or_read_from_its_beginning(
    cluster: SimCluster, clock: SimClock, caplog: pytest.LogCaptureFixture, end: int
) -> None:
    offsets = query(cluster, clock)
    last = offsets.latest(offsets.initial())
    assert last == {ONE: 100, TWO: 20}
    cluster.add(ONE, 0, end, stored_from_ms=10_000)
    told = f"t/a/0 was made anew, or lost its end, since it was read up to 100: {min(end, 100)} "
    with pytest.raises(DataLossError, match=told):
        query(cluster, clock, dict(offsets.checkpoint)).latest(last)
    again = query(cluster, clock, offsets.checkpoint, failOnDataLoss="false")
    found = again.latest(last)
    assert found == {ONE: end, TWO: 20}
    assert [str(each) for each in ranges(again, last, found)] == [f"t/a/0 [0, {end})"]
    assert f"{min(end, 100)} messages lie where others were read" in caplog.text
    cluster.queues_[ONE].end += 3
    after = again.latest(found)
    assert [str(each) for each in ranges(again, found, after)] == [f"t/a/0 [{end}, {end + 3})"]
    cluster.add(ONE, 0, 7, stored_from_ms=20_000)
    third = query(cluster, clock, again.checkpoint, failOnDataLoss="false")
    assert [str(each) for each in ranges(third, after, third.latest(after))] == ["t/a/0 [0, 7)"]


@pytest.mark.parametrize(
    "change",
    [
        lambda queue: None,
        lambda queue: setattr(queue, "first", 60),
        lambda queue: setattr(queue, "first", 100),
        lambda queue: setattr(queue, "end", 150),
    ],
    ids=["none", "older ones expired", "all expired", "more came"],
)
def test_a_queue_that_is_the_same_goes_on(
    cluster: SimCluster, clock: SimClock, change: Callable[[SimQueue], None]
) -> None:
    offsets = query(cluster, clock)
    last = offsets.latest(offsets.initial())
    change(cluster.queues_[ONE])
    again = query(cluster, clock, offsets.checkpoint)
    end = again.latest(last)
    assert end == {ONE: cluster.queues_[ONE].end, TWO: 20}
    assert ranges(again, last, end) == (
        [QueueRange("t", "a", 0, 100, 150)] if end[ONE] == 150 else []
    )


@pytest.mark.parametrize("end", [90, 95, 130])
def test_what_a_queue_has_where_it_lost_its_end_is_read(
    cluster: SimCluster, clock: SimClock, end: int
) -> None:
    """A slave took over that had 90 of 100; others have their numbers now."""
    offsets = query(cluster, clock)
    last = offsets.latest(offsets.initial())
    cluster.queues_[ONE].end = 90
    cluster.queues_[ONE].newer = {number: 500 + number for number in range(90, end)}
    cluster.queues_[ONE].end = end
    with pytest.raises(DataLossError, match=r"lost its end|ends at 90, but was read up to 100"):
        query(cluster, clock, dict(offsets.checkpoint)).latest(last)
    again = query(cluster, clock, offsets.checkpoint, failOnDataLoss="false")
    found = again.latest(last)
    read = [str(each) for each in ranges(again, last, found)] if end > 90 else []
    assert read == ([f"t/a/0 [90, {end})"] if end > 90 else [])


def test_a_later_queue_that_is_made_anew_or_emptied_before_it_is_read(
    cluster: SimCluster, clock: SimClock
) -> None:
    offsets = query(cluster, clock, startingOffsets="latest")
    start = offsets.latest(offsets.initial())
    cluster.add(LATER, 7, 7)
    assert offsets.latest(start) == start, "nothing is lost that was to be read"
    cluster.add(LATER, 0, 3, stored_from_ms=clock.time_ms())
    assert offsets.latest(start)[LATER] == 3
    assert [str(each) for each in ranges(offsets, start, {**start, LATER: 3})] == ["t/a/1 [0, 3)"]


def test_when_messages_were_stored_is_asked_now_and_then(
    cluster: SimCluster, clock: SimClock
) -> None:
    offsets = query(cluster, clock)
    end = offsets.latest(offsets.initial())
    assert offsets.checkpoint["last"].lives[ONE] == Life(0, 0, 99, 99)
    cluster.queues_[ONE].end = 110
    end = offsets.latest(end)
    assert offsets.checkpoint["last"].lives[ONE].seen == 99
    clock.sleep(NOTED_EVERY_S)
    cluster.queues_[ONE].end = 120
    offsets.latest(end)
    assert offsets.checkpoint["last"].lives[ONE] == Life(0, 0, 119, 119)


@pytest.mark.parametrize(
    "named",
    [
        {"subscribe": "t"},
        {"subscribePattern": "t+"},
        {"assign": '{"t":{"a":[0],"b":[0]}}'},
        {"assign": '{"t":[0]}'},
    ],
)
def test_what_a_query_does_not_name_any_more_is_a_loss(
    cluster: SimCluster, clock: SimClock, caplog: pytest.LogCaptureFixture, named: dict[str, str]
) -> None:
    start = {ONE: 100, TWO: 20, MessageQueue("u", "a", 0): 7}
    if "assign" in named:
        start[LATER] = 8
    cluster.add(LATER, 0, 8)
    blocking = BlockingClock(clock.now, clock.sleep, clock.time_ms)
    for lenient in ("false", "true"):
        given = {"namesrv": "ns:1", "failOnDataLoss": "true", **named}
        given["failOnDataLoss"] = str(lenient == "false").lower()
        parsed = parse_source_options(given, streaming=True, environment={})
        stream = StreamOffsets(parsed, cluster, blocking)
        if lenient == "false":
            with pytest.raises(DataLossError, match=f"{len(start) - 2} queues of .*u, which the"):
                stream.latest(StreamPosition(start))
            continue
        found = stream.latest(StreamPosition(start)).offsets
        assert {ONE: 100, TWO: 20}.items() <= found.items()
        assert MessageQueue("u", "a", 0) not in found
        assert "they are left out (failOnDataLoss=false)" in caplog.text


# --- what a query must cover


def test_a_query_does_not_begin_without_what_its_user_expects(
    cluster: SimCluster, clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.unregistered = {"b"}
    for more, text in (
        ({"expectedBrokers": "a, b"}, "the topic t is not on b at present"),
        ({"expectedQueues": "2"}, "the topic t has 1 queues at present, on a, and not 2"),
    ):
        with pytest.raises(IncompleteReadError, match=text):
            query(cluster, clock, None, **more).initial()
        assert query(cluster, clock, None, failOnDataLoss="false", **more).initial() == {ONE: 0}
        assert text in caplog.text
    cluster.told = {TWO: "the order configuration", ONE: "the name server ns:2"}
    told = "the topic t has 1 queues that cannot be found, on b, as the order configuration tells"
    with pytest.raises(IncompleteReadError, match=told):
        query(cluster, clock).initial()
    cluster.unregistered = set()
    assert query(cluster, clock, expectedBrokers="a,b", expectedQueues="2").initial()


def test_a_broker_that_is_expected_is_waited_for(cluster: SimCluster, clock: SimClock) -> None:
    more = {"expectedBrokers": "a,b", "rocketmqConsumer.pollTimeoutMs": "60000"}
    offsets = query(cluster, clock, None, **more)
    cluster.unregistered = {"b"}
    start = {ONE: 50}
    assert offsets.latest(start) == {ONE: 100}
    clock.sleep(60)
    with pytest.raises(RangeTimeoutError, match="the broker b is away for 60 s now"):
        offsets.latest(start)


def test_available_now_says_that_a_slave_may_lack_something(
    cluster: SimCluster, clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.slaves, cluster.down = frozenset("a"), {"a:0"}
    offsets = query(cluster, clock)
    offsets.prepare_available_now()
    assert caplog.text.count("the master of the broker a is away: its queues are read up to") == 1
    assert offsets.latest({ONE: 50, TWO: 10}) == {ONE: 100, TWO: 20}


@pytest.mark.parametrize("how", ["down", "unregistered"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "expected"])
def test_available_now_does_not_end_without_a_broker_in_silence(
    cluster: SimCluster, clock: SimClock, caplog: pytest.LogCaptureFixture, how: str, known: bool
) -> None:
    getattr(cluster, how).add("b:0" if how == "down" else "b")
    start = {ONE: 50, TWO: 10} if known else {ONE: 50}
    more = {} if known else {"expectedBrokers": "b"}
    offsets = query(cluster, clock, None, **more)
    offsets.prepare_available_now()
    end = offsets.latest(start)
    assert end[ONE] == 100, "what is there is read first"
    with pytest.raises(IncompleteReadError, match=r"without 1 queues of b|not on b at present"):
        offsets.latest(end)
    lenient = query(cluster, clock, None, failOnDataLoss="false", **more)
    lenient.prepare_available_now()
    assert lenient.latest(end) == end
    assert "the next run reads them (failOnDataLoss=false)" in caplog.text


def ranges(query: Query, start: Offsets, end: Offsets) -> list[QueueRange]:
    """Of the last batch."""
    assert query.checkpoint["last"].offsets == end
    before = query.before
    assert before.offsets == start
    return before.ranges_to(query.checkpoint["last"])


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


def test_nothing_is_published_unasked(cluster: SimCluster, clock: SimClock) -> None:
    offsets = query(cluster, clock)
    offsets.committed(offsets.initial())
    assert cluster.committed == {}
