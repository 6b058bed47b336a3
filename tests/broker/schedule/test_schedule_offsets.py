"""How far delayed messages have been delivered: what is told to others and written is what cannot
be lost any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aiorocketmq.broker.schedule.offset_persistence import DelayOffsetPersistence
from aiorocketmq.broker.schedule.schedule_offsets import DelayOffsets

from ...sim import ManualClock, turns


class Scene:
    """A table, and a log that makes things safe when the test wants it."""

    def __init__(self) -> None:
        self.offsets = DelayOffsets()
        self.clock, self.interval_ms = ManualClock(), 1000
        self.waiting: list[Callable[[bool], None]] = []
        self.written = 0
        self.persistence = DelayOffsetPersistence(
            self.offsets, self.waiting.append, self._changed, lambda: self.interval_ms, self.clock
        )

    def _changed(self) -> None:
        self.written += 1

    @property
    def safe(self) -> dict[int, int]:
        return self.offsets.safe_record().offset_table


def test_progress_counts_when_it_is_safe() -> None:
    scene = Scene()
    scene.offsets.set(3, 5)
    scene.persistence.check()
    assert (scene.safe, scene.written) == ({}, 0)
    scene.offsets.set(3, 6)
    scene.waiting.pop()(True)
    assert (scene.safe, scene.written) == ({3: 5}, 1), "not what came after it was asked for"
    scene.persistence.check()
    scene.waiting.pop()(False)
    assert scene.safe == {3: 5}
    scene.persistence.check()
    assert scene.waiting, "tried again"


@pytest.mark.parametrize("good", [True, False])
def test_who_asks_is_told_when_it_is_safe(good: bool) -> None:
    async def run() -> None:
        scene = Scene()
        assert await scene.persistence.settle(), "nothing to wait for"
        scene.offsets.set(1, 2)
        asking = asyncio.create_task(scene.persistence.settle())
        await asyncio.sleep(0)
        assert not asking.done()
        scene.waiting.pop()(good)
        assert await asking is good
        assert scene.safe == ({1: 2} if good else {})

    asyncio.run(run())


def test_a_leader_that_is_deposed_goes_back_to_what_is_safe() -> None:
    scene = Scene()
    scene.offsets.set(1, 2)
    scene.persistence.check()
    scene.waiting.pop()(True)
    scene.offsets.set(1, 9)
    scene.persistence.revert()
    assert scene.offsets.table() == {1: 2}


def test_a_shorter_interval_counts_before_the_old_one_is_over() -> None:
    async def run() -> None:
        scene = Scene()
        scene.interval_ms = 3_600_000
        service = asyncio.create_task(scene.persistence.run())
        await turns(3)
        scene.offsets.set(3, 5)
        scene.interval_ms = 10_000
        for _ in range(2):
            assert not scene.waiting
            scene.clock.advance(5.0)
            await turns(3)
        assert scene.waiting
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)

    asyncio.run(run())
