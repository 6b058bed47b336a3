"""Reading ranges from brokers that answer in any order, break, lag and lose messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.errors import BrokerError
from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.protocol.frames.frame import Frame
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.system_clock import BlockingClock
from aiorocketmq.spark_connector.access.errors import (
    DamagedMessageError,
    DataLossError,
    RangeTimeoutError,
)
from aiorocketmq.spark_connector.access.options import SourceOptions, parse_source_options
from aiorocketmq.spark_connector.decode.decode import DecodeOptions
from aiorocketmq.spark_connector.source.fetch import RangeReader
from aiorocketmq.spark_connector.source.planner import QueueRange
from aiorocketmq.spark_connector.source.pull_windows import Brought
from tests.stored import decode_messages

from ..decoded import decoded
from ..simulated_cluster import SimClock, SimCluster

QUEUE = MessageQueue("t", "a", 0)
HINTS = {"a": {0: "a:0", 1: "a:1"}, "b": {0: "b:0"}}


def options(**given: str) -> SourceOptions:
    return parse_source_options(
        {"namesrv": "ns:1", "subscribe": "t", **given}, streaming=False, environment={}
    )


def read(
    cluster: SimCluster,
    *ranges: QueueRange,
    clock: SimClock | None = None,
    hints: Mapping[str, Mapping[int, str]] = HINTS,
    given: Mapping[str, str] | None = None,
    **more: str,
) -> list[tuple[str, int, int]]:
    """Broker, queue and offset of every message."""
    time = clock or SimClock()
    parsed = options(**{**(given or {}), **more})
    reader = RangeReader(ranges, hints, parsed, cluster, BlockingClock(time.now, time.sleep))
    return [
        (piece.broker_name, message.queue_id, message.queue_offset)
        for piece in reader
        for message in decode_messages(piece.records, piece.broker_name)
    ]


def whole(begin: int, end: int, queue: MessageQueue = QUEUE) -> QueueRange:
    return QueueRange(*queue, begin, end)


def of(*offsets: int, queue: MessageQueue = QUEUE) -> list[tuple[str, int, int]]:
    return [(queue.broker_name, queue.queue_id, offset) for offset in offsets]


@given(
    begin=st.integers(0, 300),
    size=st.integers(1, 300),
    beyond=st.integers(0, 50),
    answers_of=st.integers(1, 32),
    in_flight=st.integers(1, 9),
    holes=st.frozensets(st.integers(0, 600), max_size=60),
    breaks=st.integers(1, 60),
    tags=st.sampled_from(["*", "a"]),
)
def test_every_message_of_the_range_comes_once_and_in_order(
    begin: int,
    size: int,
    beyond: int,
    answers_of: int,
    in_flight: int,
    holes: frozenset[int],
    breaks: int,
    tags: str,
) -> None:
    cluster = SimCluster(answer_limit=answers_of, break_after=breaks)
    queue = cluster.add(QUEUE, 0, begin + size + beyond, holes=holes, tag_every=7)
    found = read(
        cluster, whole(begin, begin + size), pullsInFlight=str(in_flight), subExpression=tags
    )
    wanted = [
        n
        for n in range(begin, begin + size)
        if n not in holes and (tags == "*" or queue.tag(n) == tags)
    ]
    assert found == of(*wanted)


def rows(cluster: SimCluster, *ranges: QueueRange, **given: str) -> list[int]:
    """Offsets of the rows that come of it."""
    parsed = options(**given)
    found: list[int] = []
    for piece in RangeReader(ranges, HINTS, parsed, cluster):
        edges, options_ = (piece.begins, piece.ends), DecodeOptions(broker_name="a")
        batch = decoded(piece.buffer, ["queueOffset"], options_, edges, piece.offsets)
        found += batch.column(0).to_pylist()
    return found


@pytest.mark.parametrize("given", [{}, {"pullBatchSize": "7"}, {"pullsInFlight": "1"}])
def test_messages_of_one_record_come_once(given: dict[str, str]) -> None:
    """Pulls begin anywhere, and bring the whole record then."""
    cluster = SimCluster()
    cluster.add(QUEUE, 0, 1200, batch=12)
    assert rows(cluster, whole(0, 1200), **given) == list(range(1200))
    assert rows(cluster, whole(600, 1200), **given) == list(range(600, 1200))


def test_a_range_may_begin_and_end_inside_of_a_record() -> None:
    cluster = SimCluster()
    cluster.add(QUEUE, 0, 1200, batch=12)
    assert rows(cluster, whole(5, 601), whole(601, 1190)) == list(range(5, 1190))


def test_several_pulls_are_under_way() -> None:
    cluster = SimCluster()
    cluster.add(QUEUE, 0, 5000)
    assert len(read(cluster, whole(0, 5000), pullsInFlight="4")) == 5000
    assert cluster.most_under_way == 4
    assert all(count <= 32 for _, _, count in cluster.pulls)


def test_pieces_have_the_size_that_is_wanted() -> None:
    cluster = SimCluster()
    cluster.add(QUEUE, 0, 1000)
    reader = RangeReader([whole(0, 1000)], HINTS, options(arrowBatchRows="128"), cluster)
    assert [len(decode_messages(piece.records)) for piece in reader] == [128] * 7 + [104]
    few = options(arrowBatchBytes="1k", pullBatchSize="32")
    reader = RangeReader([whole(0, 1000)], HINTS, few, cluster)
    assert {len(decode_messages(piece.records)) for piece in reader} == {32, 8}
    reader = RangeReader(
        [whole(0, 1000)], HINTS, options(arrowBatchRows="100", pullBatchSize="64"), cluster
    )
    assert [len(decode_messages(piece.records)) for piece in reader][:2] == [128, 128]


def test_what_is_in_one_buffer_stays_there() -> None:
    """A piece is what came into one buffer; only small ones are joined."""
    buffers = [
        memoryview(bytes(3 << 20)),
        memoryview(bytes(3 << 20)),
        memoryview(bytes(10)),
        memoryview(bytes(10)),
    ]
    stretches = [
        Brought(buffer, begin, begin + size, 0, 1)
        for buffer in buffers[:2]
        for begin, size in ((1 << 20, 1_100_000), (5, 1 << 19))
    ]
    reader: Any = RangeReader([whole(0, 1)], HINTS, options(), SimCluster())
    reader._bodies = lambda _range: iter(
        [*stretches, *(Brought(buffer, 2, 9, 0, 1) for buffer in buffers[2:])]
    )
    first, second, third = reader
    assert first.buffer is buffers[0]
    assert second.buffer is buffers[1]
    assert (first.begins, first.ends) == ([1 << 20, 5], [(1 << 20) + 1_100_000, 5 + (1 << 19)])
    assert (third.begins, third.ends, len(third.buffer)) == ([0, 7], [7, 14], 14)


def test_ranges_of_one_broker_share_a_piece() -> None:
    other, elsewhere = MessageQueue("t", "a", 1), MessageQueue("t", "b", 0)
    cluster = SimCluster()
    for queue in (QUEUE, other, elsewhere):
        cluster.add(queue, 0, 10)
    ranges = [whole(2, 5), whole(0, 2, other), whole(9, 10, elsewhere)]
    pieces = list(RangeReader(ranges, HINTS, options(), cluster))
    assert [piece.broker_name for piece in pieces] == ["a", "b"]
    assert read(cluster, *ranges) == of(2, 3, 4) + of(0, 1, queue=other) + of(9, queue=elsewhere)


# --- what was deleted
# -----------------------------------------------------------------------------------------------


def test_a_trimmed_range_is_a_loss() -> None:
    cluster = SimCluster()
    cluster.add(QUEUE, 100, 200)
    with pytest.raises(
        DataLossError, match=r"t/a/0 \[50, 150\): the oldest message that is kept is 100"
    ):
        read(cluster, whole(50, 150))
    assert read(cluster, whole(50, 150), failOnDataLoss="false") == of(*range(100, 150))
    assert read(cluster, whole(20, 80), failOnDataLoss="false") == []


def while_files_are_deleted(slaves: str = "", answers: int = 1, **given: int) -> SimCluster:
    """Files of the master's log are gone, and its queue says so after some answers only: until then
    it goes on behind them. (A slave has all of them.)"""
    cluster = SimCluster(slaves=frozenset(slaves), **given)  # type: ignore[arg-type]
    queue, gone = cluster.add(QUEUE, 0, 1000), frozenset(range(40))
    answer = cluster.answer

    def answering(address: str, command: RemotingCommand) -> Frame:
        is_master = address == "a:0"
        queue.holes = gone if is_master else frozenset()
        queue.first = 40 if is_master and len(cluster.pulls) >= answers else 0
        return answer(address, command)

    cluster.answer = answering  # type: ignore[method-assign]
    return cluster


@pytest.mark.parametrize(
    ("until", "answers", "left", "retries"),
    [(1000, 1, 40, 3), (1000, 3, 40, 3), (50, 2, 40, 3), (20, 2, 20, 3), (50, 1, 40, 0)],
)
@pytest.mark.parametrize(("slaves", "suggests"), [("", 0), ("a", 0), ("a", 1)])
def test_what_is_deleted_right_now_is_a_loss(
    until: int,
    answers: int,
    left: int,
    retries: int,
    slaves: str,
    suggests: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also where that turns out behind the last answer of the range."""

    def cluster() -> SimCluster:
        return while_files_are_deleted(slaves, answers, suggests=suggests)

    given = {"pullsInFlight": "1", "fetchOffset.numRetries": str(retries)}
    with pytest.raises(DataLossError, match="the oldest message that is kept is 40"):
        read(cluster(), whole(0, until), given=given)
    found = read(cluster(), whole(0, until), given=given, failOnDataLoss="false")
    assert found == of(*range(40, until))
    assert f"{left} offsets are left out" in caplog.text


@pytest.mark.parametrize("breaks", [2, 3, 20, 32])
@pytest.mark.parametrize("suggests", [0, 1])
def test_what_is_deleted_right_now_is_a_loss_whoever_is_asked_meanwhile(
    breaks: int, suggests: int
) -> None:
    cluster = while_files_are_deleted("a", answers=33, suggests=suggests, break_after=breaks)
    with pytest.raises(DataLossError, match="the oldest message that is kept is 40"):
        read(cluster, whole(0, 1000), pullsInFlight="1")
    assert cluster.pulls[-1] == ("a:0", 0, 1), "who had the gap tells"


@pytest.mark.parametrize("refuses", [False, True])
def test_a_gap_that_nobody_can_be_asked_about_is_a_loss(
    refuses: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def cluster() -> SimCluster:
        made = while_files_are_deleted(answers=1000)
        answer = made.answer

        def answering(address: str, command: RemotingCommand) -> Frame:
            if made.pulls and (command.ext_fields or {})["queueOffset"] == "0":
                made.down = set() if refuses else {"a:0"}
                made.refuse = {len(made.pulls) + 1: (ResponseCode.SYSTEM_ERROR, "why")}
            return answer(address, command)

        made.answer = answering  # type: ignore[method-assign]
        return made

    with pytest.raises(
        DataLossError, match=r"nothing came of 40 offsets, .* at a:0 cannot be asked"
    ):
        read(cluster(), whole(0, 1000), pullsInFlight="1")
    found = read(cluster(), whole(0, 1000), pullsInFlight="1", failOnDataLoss="false")
    assert found == of(*range(40, 1000))
    assert "nothing came of 40 offsets" in caplog.text


@pytest.mark.parametrize("begin", [0, 20])
@pytest.mark.parametrize("after_s", [0.05, 1.0, 8.0])
def test_a_round_of_deletion_may_take_seconds(begin: int, after_s: float) -> None:
    """Until its end the queue says that it keeps what is gone."""

    class Deletes(SimClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            queue.first = 40 if self.now() >= SimClock().now() + after_s else 0

    cluster = SimCluster()
    queue = cluster.add(QUEUE, 0, 1000, holes=frozenset(range(40)))
    with pytest.raises(DataLossError, match="the oldest message that is kept is 40"):
        read(cluster, whole(begin, 1000), clock=Deletes())


def test_a_gap_is_none_where_the_messages_were_never_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster, clock = SimCluster(), SimClock()
    cluster.add(QUEUE, 0, 100, holes=frozenset(range(40)))
    assert read(cluster, whole(0, 100), clock=clock) == of(*range(40, 100))
    assert cluster.pulls[-3:] == [("a:0", 0, 1)] * 3, "it is asked for once more"
    assert 10 <= clock.now() - SimClock().now() < 12
    assert "nothing came of 40 offsets" in caplog.text
    clock, cluster.queues_[QUEUE].holes = SimClock(), frozenset(range(40, 60))
    assert read(cluster, whole(40, 100), clock=clock) == of(*range(60, 100))
    assert cluster.pulls[-1] == ("a:0", 39, 1), "what is in front of it is there"
    assert clock.now() == SimClock().now()
    cluster.queues_[QUEUE].holes = frozenset(range(40))
    cluster.pulls.clear()
    assert read(cluster, whole(40, 100)) == of(*range(40, 100))
    assert ("a:0", 40, 1) not in cluster.pulls


@pytest.mark.parametrize("down", [set(), {"a:0"}], ids=["there", "away"])
def test_what_a_slave_has_deleted_its_master_may_have(down: set[str]) -> None:
    cluster, clock = SimCluster(slaves=frozenset("a"), suggests=1, down=down), SimClock()
    queue, gone = cluster.add(QUEUE, 0, 1000), frozenset(range(540))
    answer = cluster.answer

    def answering(address: str, command: RemotingCommand) -> Frame:
        queue.holes = gone if address == "a:1" else frozenset()
        return answer(address, command)

    cluster.answer = answering  # type: ignore[method-assign]
    missing = gone if down else frozenset()
    found = read(cluster, whole(0, 1000), clock=clock)
    assert found == of(*(each for each in range(1000) if each not in missing))
    assert clock.now() - SimClock().now() < (12 if down else 0.2), "a round of deletion"


def test_a_queue_that_ends_early_is_a_loss() -> None:
    cluster = SimCluster()
    cluster.add(QUEUE, 0, 60)
    for begin in (50, 60, 70):
        with pytest.raises(DataLossError, match="the queue ends at 60"):
            read(cluster, whole(begin, 150))
        assert read(cluster, whole(begin, 150), failOnDataLoss="false") == of(*range(begin, 60))


def test_a_broker_that_is_busy_does_not_say_again_that_its_queue_ends() -> None:
    """It may be one that has just taken over."""
    busy = (ResponseCode.SYSTEM_BUSY, "no")
    cluster, clock = SimCluster(refuse=dict.fromkeys(range(3, 8), busy)), SimClock()
    queue = cluster.add(QUEUE, 0, 10)
    answer = cluster.answer

    def answering(address: str, command: RemotingCommand) -> Frame:
        queue.end = 10 if len(cluster.pulls) < 8 else 20
        return answer(address, command)

    cluster.answer = answering  # type: ignore[method-assign]
    found = read(cluster, whole(0, 20), clock=clock, given={"pullsInFlight": "1"})
    assert found == of(*range(20))
    cluster.refuse, cluster.pulls = dict.fromkeys(range(3, 1000), busy), []
    with pytest.raises(RangeTimeoutError, match="no"):
        read(cluster, whole(0, 20), clock=clock, given={"pullsInFlight": "1"})


def test_a_queue_that_is_gone_is_a_loss() -> None:
    for answer in (
        (ResponseCode.TOPIC_NOT_EXIST, "no"),
        (ResponseCode.SYSTEM_ERROR, "queueId[0] is illegal"),
    ):
        cluster = SimCluster(refuse=dict.fromkeys(range(3, 1000), answer))
        cluster.add(QUEUE, 0, 1000)
        with pytest.raises(DataLossError, match="the queue is gone"):
            read(cluster, whole(0, 1000))
        cluster.pulls.clear()
        found = read(cluster, whole(0, 1000), failOnDataLoss="false", pullsInFlight="1")
        assert found == of(*range(64))


# --- what goes on
# --------------------------------------------------------------------------------------------------


def test_a_slave_is_read_when_the_master_cannot_be_reached() -> None:
    """And stays the one, although it suggests the master."""
    cluster, clock = SimCluster(slaves=frozenset("a"), down={"a:0"}), SimClock()
    other = MessageQueue("t", "a", 1)
    cluster.add(QUEUE, 0, 5000)
    cluster.add(other, 0, 10)
    found = read(cluster, whole(0, 5000), whole(0, 10, other), clock=clock)
    assert found == of(*range(5000)) + of(*range(10), queue=other)
    assert {address for address, _, _ in cluster.pulls} == {"a:1"}
    assert cluster.connects == ["a:0", "a:1", "a:1"]
    assert clock.now() - SimClock().now() < 0.1


def test_a_master_that_moved_is_found() -> None:
    cluster = SimCluster(slaves=frozenset("a"))
    cluster.add(QUEUE, 0, 100)
    for hints in ({}, {"a": {0: "elsewhere:0"}}):
        reader = RangeReader(
            [whole(0, 100)], hints, options(), cluster, BlockingClock(sleep=lambda _s: None)
        )
        assert sum(len(decode_messages(piece.records)) for piece in reader) == 100
        assert {address for address, _, _ in cluster.pulls} == {"a:0"}


class AnotherMaster(SimCluster):
    """Who was the master when the batch was planned is a slave since, or nobody, and still answers
    there."""

    masters: Mapping[int, str] = {0: "a:0", 1: "elsewhere:1"}

    def replicas(self, queue: MessageQueue) -> Mapping[int, str]:
        super().replicas(queue)
        return self.masters


HINTS_OF_BEFORE = {"a": {0: "a:1", 1: "a:0"}}


@pytest.mark.parametrize("masters", [{0: "a:0", 1: "a:1"}, {1: "a:1", 2: "a:0"}])
@pytest.mark.parametrize("given", [{}, {"fetchOffset.numRetries": "0"}, {"pullsInFlight": "1"}])
@pytest.mark.parametrize("how", ["lags", "was trimmed", "has another disk"])
def test_who_is_the_master_no_longer_tells_of_no_loss(
    how: str, given: dict[str, str], masters: dict[int, str]
) -> None:
    cluster = AnotherMaster(slaves=frozenset("a"))
    cluster.masters = masters
    queue = cluster.add(QUEUE, 0, 1000)
    answer = cluster.answer

    def answering(address: str, command: RemotingCommand) -> Frame:
        was_master = address == "a:1"
        queue.lag = 200 if how == "lags" else 0
        queue.first = 300 if was_master and how == "was trimmed" else 0
        if was_master and how == "has another disk":
            cluster.refuse = {len(cluster.pulls) + 1: (ResponseCode.TOPIC_NOT_EXIST, "no")}
        return answer(address, command)

    cluster.answer = answering  # type: ignore[method-assign]
    assert read(cluster, whole(0, 1000), hints=HINTS_OF_BEFORE, given=given) == of(*range(1000))
    assert cluster.pulls[0][0] == "a:1"


@pytest.mark.parametrize("masters", [{0: "a:0", 1: "a:1"}, {1: "a:1", 2: "a:0"}])
@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("later", [0, 40])
def test_who_is_the_master_no_longer_tells_of_no_deletion(
    later: int, fails: str, masters: dict[int, str]
) -> None:
    """It deletes on its own: what is missing there is asked of the master, where there is one.
    ``later``: the beginning of its queue, once it is corrected."""
    cluster = AnotherMaster(slaves=frozenset("a"))
    cluster.masters = masters
    queue = cluster.add(QUEUE, 0, 1000)
    answer = cluster.answer

    def answering(address: str, command: RemotingCommand) -> Frame:
        was_master = address == "a:1"
        queue.holes = frozenset(range(20, 40) if was_master else ())
        queue.first = later if was_master and len(cluster.pulls) > 1 else 0
        return answer(address, command)

    cluster.answer = answering  # type: ignore[method-assign]
    given = {"failOnDataLoss": fails, "pullsInFlight": "1"}

    def found() -> list[tuple[str, int, int]]:
        return read(cluster, whole(20, 1000), hints=HINTS_OF_BEFORE, given=given)

    if 0 in masters:
        assert found() == of(*range(20, 1000))
    elif later and fails == "true":
        with pytest.raises(DataLossError, match="the oldest message that is kept is 40"):
            found()
    else:
        assert found() == of(*range(40, 1000))
    assert cluster.pulls[0][0] == "a:1"


@pytest.mark.parametrize("is_there", [True, False], ids=["a slave", "away"])
def test_another_master_does_not_tell_what_the_one_before_has_deleted(is_there: bool) -> None:
    """It took over while the range was read, and has what did not come of the one before."""
    cluster = AnotherMaster(slaves=frozenset("a"), break_after=2)
    cluster.masters = {0: "a:0", 1: "a:1"}
    queue = cluster.add(QUEUE, 0, 1000)
    answer = cluster.answer

    def answering(address: str, command: RemotingCommand) -> Frame:
        is_first = address == "a:0"
        queue.holes = frozenset(range(20, 40) if is_first else ())
        queue.first = 40 if is_first and len(cluster.pulls) > 1 else 0
        if len(cluster.pulls) == 1:
            cluster.masters = {0: "a:1", 1: "a:0"} if is_there else {0: "a:1"}
            cluster.down = set() if is_there else {"a:0"}
            cluster.break_after = 1
        return answer(address, command)

    cluster.answer = answering  # type: ignore[method-assign]
    with pytest.raises(DataLossError, match="is kept is 40" if is_there else "at a:0 cannot be"):
        read(cluster, whole(20, 1000), given={"pullsInFlight": "1"})
    assert "a:1" in {address for address, _, _ in cluster.pulls}


def test_no_gap_is_believed_while_nobody_tells_who_is_the_master() -> None:
    cluster, clock = SimCluster(name_server_down=True), SimClock()
    cluster.add(QUEUE, 0, 1000, holes=frozenset(range(20, 40)))
    with pytest.raises(RangeTimeoutError, match=r"120 s at offset 20 .* who is the master now"):
        read(cluster, whole(20, 1000), clock=clock)


@pytest.mark.parametrize("first", [0, 300])
def test_no_loss_is_believed_while_nobody_tells_who_is_the_master(first: int) -> None:
    cluster, clock = SimCluster(name_server_down=True), SimClock()
    cluster.add(QUEUE, first, 600)
    with pytest.raises(RangeTimeoutError, match="nothing came for 120 s"):
        read(cluster, whole(0, 1000), clock=clock)


def test_a_read_that_spark_holds_up_is_no_outage() -> None:
    cluster, clock = SimCluster(), SimClock()
    cluster.add(QUEUE, 0, 2000)
    clocked = BlockingClock(clock.now, clock.sleep)
    pieces = iter(
        RangeReader(
            [whole(0, 2000)],
            HINTS,
            options(arrowBatchRows="32", pullsInFlight="1"),
            cluster,
            clocked,
        )
    )
    count = len(decode_messages(next(pieces).records))
    clock.sleep(1000)
    cluster.break_after = 1
    assert count + sum(len(decode_messages(piece.records)) for piece in pieces) == 2000


def test_a_slave_is_read_when_the_master_suggests_it() -> None:
    cluster = SimCluster(slaves=frozenset("a"), suggests=1)
    cluster.add(QUEUE, 0, 5000)
    assert read(cluster, whole(0, 5000)) == of(*range(5000))
    addresses = [address for address, _, _ in cluster.pulls]
    assert addresses.count("a:1") > addresses.count("a:0")


def test_a_suggestion_of_a_slave_that_is_not_there_is_no_matter() -> None:
    cluster, clock = SimCluster(suggests=7), SimClock()
    cluster.add(QUEUE, 0, 500)
    assert read(cluster, whole(0, 500), clock=clock) == of(*range(500))
    assert clock.now() == SimClock().now(), "nothing was waited for"


def test_a_slave_that_lags_is_no_loss() -> None:
    cluster = SimCluster(slaves=frozenset("a"), suggests=1)
    cluster.add(QUEUE, 0, 5000, lag=100)
    assert read(cluster, whole(0, 5000)) == of(*range(5000))
    addresses = [address for address, _, _ in cluster.pulls]
    assert addresses[0] == "a:0"
    assert "a:1" in addresses


def test_a_lagging_slave_without_a_master_is_waited_for() -> None:
    cluster, clock = SimCluster(slaves=frozenset("a"), down={"a:0"}), SimClock()
    queue = cluster.add(QUEUE, 0, 100, lag=40)

    class CatchesUp(SimClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            queue.lag = max(0, queue.lag - 10)

    assert read(cluster, whole(0, 100), clock=CatchesUp()) == of(*range(100))
    queue.lag = 40
    with pytest.raises(RangeTimeoutError, match=r"nothing came for 120 s at offset 60"):
        read(cluster, whole(0, 100), clock=clock)


def test_a_broker_that_stays_away_is_given_up() -> None:
    cluster, clock = SimCluster(down={"a:0"}), SimClock()
    cluster.add(QUEUE, 0, 100)
    begin = clock.now()
    with pytest.raises(RangeTimeoutError, match=r"for 5 s at offset 0.*a:0 is down"):
        read(cluster, whole(0, 100), clock=clock, given={"rocketmqConsumer.pollTimeoutMs": "5000"})
    assert 5 <= clock.now() - begin < 7


def test_a_name_server_that_is_away_does_not_matter_while_hints_do() -> None:
    cluster = SimCluster(name_server_down=True, break_after=3)
    cluster.add(QUEUE, 0, 500)
    assert read(cluster, whole(0, 500)) == of(*range(500))


def test_busy_brokers_are_asked_again_others_are_not() -> None:
    cluster = SimCluster(
        refuse={1: (ResponseCode.SYSTEM_BUSY, "later"), 2: (ResponseCode.SYSTEM_ERROR, "hm")}
    )
    cluster.add(QUEUE, 0, 100)
    assert read(cluster, whole(0, 100)) == of(*range(100))
    cluster = SimCluster(refuse={1: (ResponseCode.SUBSCRIPTION_PARSE_FAILED, "no SQL")})
    cluster.add(QUEUE, 0, 100)
    with pytest.raises(BrokerError, match="no SQL"):
        read(cluster, whole(0, 100))


def test_an_sql_expression_and_an_account_are_sent() -> None:
    cluster = SimCluster()
    cluster.add(QUEUE, 0, 40)
    seen = []
    answer = cluster.answer

    def noted(address, command):  # type: ignore[no-untyped-def]
        seen.append(command.ext_fields)
        return answer(address, command)

    cluster.answer = noted  # type: ignore[method-assign]
    key = {"rocketmq.accessKey": "k", "rocketmq.secretKey": "s", "rocketmq.namespace": "shop"}
    cluster.queues_[MessageQueue("shop%t", "a", 0)] = cluster.queues_[QUEUE]
    read(cluster, whole(0, 40), subExpression='sql: a = "%d"', given=key)
    assert {
        (f["topic"], f["consumerGroup"], f["expressionType"], f["subscription"]) for f in seen
    } == {("shop%t", "shop%spark-rocketmq-source", "SQL92", 'a = "%d"')}
    assert all(f["AccessKey"] == "k" and f["Signature"] for f in seen)
    seen.clear()
    del key["rocketmq.secretKey"], key["rocketmq.accessKey"]
    read(cluster, whole(0, 40), subExpression='sql: a = "%d"', given=key)
    assert [(f["queueOffset"], f["maxMsgNums"], f["subscription"]) for f in seen] == [
        ("0", "40", 'a = "%d"')
    ]


# --- damaged messages that a broker leaves out
# ----------------------------------------------------------------------


ROTTEN = frozenset((3, 40, 41, 999))
NEARLY_ALL = of(*(n for n in range(1000) if n not in ROTTEN))


@pytest.mark.parametrize("filtered", [{}, {"subExpression": "a"}], ids=["all", "a tag"])
def test_what_the_master_has_damaged_is_read_from_a_slave(filtered: dict[str, str]) -> None:
    cluster = SimCluster(slaves=frozenset("a"))
    cluster.add(QUEUE, 0, 1000, damaged={"0": ROTTEN, "1": frozenset((500,))})
    assert read(cluster, whole(0, 1000), given=filtered) == of(*range(1000))
    assert cluster.pulls[-1][0] == "a:0" or cluster.pulls[-1][1] < 1000


@pytest.mark.parametrize("how", ["no slave", "damaged there too", "down", "lags"])
def test_what_is_damaged_everywhere_ends_the_query_or_is_left_out(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    slaves = frozenset() if how == "no slave" else frozenset("a")
    cluster, clock = SimCluster(slaves=slaves, down={"a:1"} if how == "down" else set()), SimClock()
    queue = cluster.add(QUEUE, 0, 1000, lag=990 if how == "lags" else 0)
    queue.damaged = {"0": ROTTEN, "1": ROTTEN if how == "damaged there too" else frozenset()}
    hints = {"a": {0: "a:0"}} if how == "no slave" else HINTS
    with pytest.raises(
        DamagedMessageError, match=r"t/a/0 \[0, 1000\).*damaged.*failOnDamage=false"
    ):
        read(cluster, whole(0, 1000), clock=clock, hints=hints)
    found = read(cluster, whole(0, 1000), clock=clock, hints=hints, failOnDamage="false")
    intact_at_the_slave = of(3) if how == "lags" else []
    assert found == sorted(NEARLY_ALL + intact_at_the_slave)
    assert "left out (failOnDamage=false)" in caplog.text
    assert clock.now() < SimClock().now() + 10, "nothing is waited for that does not come"


@given(
    damaged=st.lists(st.frozensets(st.integers(0, 300), max_size=40), min_size=2, max_size=2),
    answers_of=st.integers(1, 32),
    in_flight=st.integers(1, 9),
    breaks=st.integers(1, 60),
)
def test_what_is_intact_anywhere_comes_or_the_query_fails(
    damaged: list[frozenset[int]], answers_of: int, in_flight: int, breaks: int
) -> None:
    cluster = SimCluster(slaves=frozenset("a"), answer_limit=answers_of, break_after=breaks)
    cluster.add(QUEUE, 0, 300, damaged=dict(zip("01", damaged, strict=True)))
    try:
        assert read(cluster, whole(0, 300), pullsInFlight=str(in_flight)) == of(*range(300))
    except DamagedMessageError:
        assert all(damaged) or cluster.break_after <= 0  # a replica that breaks is not waited for


# --- how Spark takes it
# ---------------------------------------------------------------------------------------------


def test_brokers_work_while_a_piece_is_decoded() -> None:
    cluster = SimCluster(in_order=True)
    cluster.add(QUEUE, 0, 2000)
    pieces = iter(
        RangeReader(
            [whole(0, 2000)], HINTS, options(arrowBatchRows="32", pullsInFlight="4"), cluster
        )
    )
    next(pieces)
    assert len(cluster.wires[0].frames) == 4


def test_a_read_that_ends_early_closes_its_connection() -> None:
    """LIMIT does that: answers are still under way."""
    cluster = SimCluster()
    cluster.add(QUEUE, 0, 2000)
    pieces = iter(RangeReader([whole(0, 2000)], HINTS, options(arrowBatchRows="32"), cluster))
    next(pieces)
    assert not cluster.wires[0].closed
    del pieces
    assert cluster.wires[0].closed
