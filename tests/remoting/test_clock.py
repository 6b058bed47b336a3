"""Pauses that change while somebody is in one."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq.remoting.clock import pause

from ..sim import ManualClock, turns


@pytest.mark.parametrize(
    ("before", "after", "passes"),
    [
        pytest.param(3600.0, 5.0, 5.0, id="shorter"),
        pytest.param(3600.0, 60.0, 60.0, id="not so long"),
        pytest.param(60.0, 3600.0, 3600.0, id="longer"),
        pytest.param(7.3, 7.3, 7.3, id="as it was"),
    ],
)
def test_a_pause_is_as_long_as_it_is_wanted_by_now(
    before: float, after: float, passes: float
) -> None:
    async def run() -> None:
        clock, wanted = ManualClock(), [before]
        began = clock.monotonic()
        pausing = asyncio.create_task(pause(clock, lambda: wanted[0]))
        await turns(3)
        wanted[0] = after
        while not pausing.done():
            assert clock.next_due is not None
            clock.advance(clock.next_due - clock.monotonic())
            await turns(3)
        assert clock.monotonic() - began == pytest.approx(passes)

    asyncio.run(run())


@pytest.mark.parametrize("seconds", [0.1, 1.3, 5.0])
def test_a_short_pause_is_one_sleep(seconds: float) -> None:
    async def run() -> None:
        clock = ManualClock()
        clock.advance(0.1)
        pausing = asyncio.create_task(pause(clock, lambda: seconds))
        await turns(3)
        assert clock.next_due == clock.monotonic() + seconds
        clock.advance(seconds)
        await turns(3)
        assert pausing.done()

    asyncio.run(run())


def test_who_slept_too_long_has_paused_long_enough() -> None:
    async def run() -> None:
        clock = ManualClock()
        pausing = asyncio.create_task(pause(clock, lambda: 60.0))
        await turns(3)
        clock.advance(60.0)
        await turns(3)
        assert pausing.done()

    asyncio.run(run())
