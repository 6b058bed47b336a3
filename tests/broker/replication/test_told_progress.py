"""When a slave takes over how far its master is."""

from __future__ import annotations

from aiorocketmq.broker.replication.told_progress import ToldProgress
from aiorocketmq.broker.schedule.offset_persistence import DelayOffsetPersistence
from aiorocketmq.broker.schedule.schedule_offsets import DelayOffsets
from aiorocketmq.broker.state.consumer_offsets import ConsumerOffsets
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import DelayOffsetTable

from ...sim import ManualClock

GROUP, HALF = "CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC"


class Scene:
    def __init__(self) -> None:
        self.delays = DelayOffsets()
        self.offsets = ConsumerOffsets()
        persistence = DelayOffsetPersistence(
            self.delays, lambda done: done(True), lambda: None, lambda: 1000, ManualClock()
        )
        self.progress = ToldProgress(persistence, self.offsets)

    def hear(self, number: int) -> None:
        self.progress.heard_delays(DelayOffsetTable(offset_table={1: number}))
        self.progress.heard_offsets({f"{HALF}@{GROUP}": {0: number}, "T@g": {0: 99}})

    @property
    def now(self) -> tuple[int, int, int]:
        """Of delays, of transactions, of a consumer."""
        get = self.offsets.get
        return self.delays.get(1), get(GROUP, HALF, 0), get("g", "T", 0)


def test_it_counts_when_the_log_has_come_so_far() -> None:
    scene = Scene()
    scene.hear(7)
    scene.progress.take(1000)
    assert scene.now == (0, -1, -1), "it is not known where the master's log ended"
    assert scene.progress.ended_at(500)
    scene.progress.take(499)
    assert scene.now == (0, -1, -1)
    assert scene.progress.waits
    scene.progress.take(500)
    assert scene.now == (7, 7, -1)
    assert not scene.progress.waits


def test_who_is_always_behind_gets_what_it_was_told_before() -> None:
    scene = Scene()
    scene.hear(7)
    assert scene.progress.ended_at(500)
    scene.hear(8)
    assert not scene.progress.ended_at(600)
    scene.progress.take(550)
    assert scene.now == (7, 7, -1)
    scene.progress.take(700)
    assert scene.now == (7, 7, -1), "it has to be asked for again"


def test_what_another_master_told_counts_no_more() -> None:
    scene = Scene()
    scene.hear(7)
    assert scene.progress.ended_at(500)
    scene.progress.forget()
    scene.progress.take(600)
    assert scene.now == (0, -1, -1)
