"""Brokers and masters come and go, messages expire, topics are made anew, and a query is run again
and again with AvailableNow: a run that ends well has read all that there is (of a slave what that
has), and nothing twice."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector.access.checkpoint import Checkpoint, from_json, to_json
from aiorocketmq.spark_connector.access.errors import (
    CoverageError,
    DataLossError,
    RangeTimeoutError,
)

from ..simulated_cluster import SimClock, SimCluster
from .queries import stream_offsets

QUEUES = [MessageQueue("t", name, number) for name in "ab" for number in (0, 1)]


@dataclass
class World:
    """A cluster, a query, and who remembers what was sent and read. Messages have numbers."""

    starting: str
    options: dict[str, str]
    clock: SimClock = field(default_factory=SimClock)
    cluster: SimCluster = field(default_factory=SimCluster)
    messages: dict[MessageQueue, list[int]] = field(default_factory=dict)
    sent: int = 0
    old: int = 0
    """So many were sent before the query began."""
    read: list[int] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    done: int = 0
    """Batches; where one more is written, the driver died before it was."""
    expired: set[int] = field(default_factory=set)
    lossy: bool = False
    """Something was lost."""

    def make(self, queue: MessageQueue) -> None:
        self.lossy |= queue in self.messages
        self.messages[queue] = []
        self.cluster.add(queue, 0, 0)

    def send(self, queue: MessageQueue, count: int) -> None:
        here = self.cluster.queues_[queue]
        here.stored_ms += [self.clock.time_ms()] * count
        here.end += count
        self.messages[queue] += range(self.sent, self.sent + count)
        self.sent += count

    def lose_the_end(self, queue: MessageQueue, count: int) -> None:
        """A slave that was behind took over."""
        here = self.cluster.queues_[queue]
        if count := min(count, here.end):
            here.end -= count
            here.first = min(here.first, here.end)
            del here.stored_ms[-count:], self.messages[queue][-count:]
            self.lossy = True

    def expire(self, queue: MessageQueue) -> None:
        """Nothing of it is kept any more."""
        here = self.cluster.queues_[queue]
        gone = set(self.messages[queue][here.first : here.end])
        self.lossy |= bool(self.written and gone & self.missing())
        self.expired |= gone
        here.first = here.end

    def ends_well(self, *, dies_after: int) -> bool:
        try:
            self.run(dies_after)
        except (CoverageError, DataLossError, RangeTimeoutError):
            return False
        return len(self.written) == self.done

    def knows(self, broker_name: str) -> bool:
        """It stands in the checkpoint."""
        known = self._end(-1).offsets if self.written else {}
        return any(queue.broker_name == broker_name for queue in known)

    def run(self, dies_after: int) -> None:
        """Until there is no more, or the driver dies behind the planning of a batch. Raises what
        the query raises."""
        offsets = stream_offsets(
            self.cluster, self.clock, startingOffsets=self.starting, **self.options
        )
        offsets.prepare_available_now()
        while True:
            before = self._end(self.done - 1) if self.done else offsets.initial()
            if len(self.written) == self.done:
                end = offsets.latest(before)
                if end == before and self.done:
                    return
                if not self.written and self.starting == "latest":
                    self.old = self.sent
                self.written.append(json.dumps(to_json(end)))
                if (dies_after := dies_after - 1) == 0:
                    return
            rows: list[int] = []
            for each in offsets.ranges(before, self._end(self.done)):
                here, oldest = self.messages[each.queue], self.cluster.queues_[each.queue].first
                if each.until_offset > self.cluster.latest([each.queue])[each.queue]:
                    raise RangeTimeoutError("the next message does not come")
                if each.from_offset < oldest and self.options["failOnDataLoss"] == "true":
                    raise DataLossError("the range begins before the oldest message")
                rows += here[max(each.from_offset, oldest) : each.until_offset]
            self.read += rows
            self.done += 1

    def _end(self, number: int) -> Checkpoint:
        return from_json(json.loads(self.written[number]))

    def missing(self) -> set[int]:
        wanted = {number for here in self.messages.values() for number in here}
        return {number for number in wanted if number >= self.old} - {*self.read, *self.expired}


@given(st.data())
@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_run_that_ends_well_has_read_all(strict: str, data: st.DataObject) -> None:
    """``strict`` is failOnDataLoss: with it a query ends where something is missing, without it it
    goes on with what there is, and has the rest when that is back."""
    world = World(
        data.draw(st.sampled_from(["earliest", "latest"])),
        {
            "failOnDataLoss": strict,
            "fetchOffset.retryIntervalMs": "0",
            **data.draw(st.sampled_from([{}, {"maxOffsetsPerTrigger": "7"}])),
        },
    )
    world.cluster.slaves = frozenset("a")
    for queue in QUEUES:
        world.make(queue)
    for _ in range(data.draw(st.integers(1, 6))):
        for queue in QUEUES:
            world.send(queue, data.draw(st.integers(0, 12)))
        for queue in data.draw(st.sets(st.sampled_from(QUEUES[:2]))):
            world.expire(queue)
        world.clock.sleep(1)
        world.cluster.unregistered = away = data.draw(st.sampled_from([set[str](), {"b"}]))
        if world.written and (happens := data.draw(st.integers(0, 7))) < 3:
            queue = data.draw(st.sampled_from(QUEUES[:2]))
            if happens == 0:
                world.make(queue)
            else:
                world.lose_the_end(queue, data.draw(st.integers(0, 20)))
            world.send(queue, data.draw(st.integers(1, 40)))
        down = bool(world.written) and data.draw(st.booleans())
        world.cluster.down = {"a:0"} if down else set()
        for queue in QUEUES[:2]:
            here = world.cluster.queues_[queue]
            here.lag = min(here.end - here.first, data.draw(st.integers(0, 15)))
        lacks = bool(away) and world.knows("b")
        if world.ends_well(dies_after=data.draw(st.sampled_from([0, 0, 1, 2]))):
            assert strict == "false" or not lacks
            assert away or down or not world.missing()
        elif len(world.written) == world.done:
            assert strict == "true"
            assert lacks or world.lossy
            if world.lossy:
                return
        assert len(set(world.read)) == len(world.read), "nothing is read twice"
        assert not world.read or min(world.read) >= world.old
