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
MADE_ANEW_MS = 1_000_000


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
    old = Checkpoint({ONE: 1800, TWO: 10})
    end = stream_offsets(cluster, clock).latest(old)
    assert end == Checkpoint({ONE: 1900, TWO: 10}, marks={ONE: Mark(1899, 1899)})


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
