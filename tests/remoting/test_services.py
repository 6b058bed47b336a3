"""Waiting for something that may not happen."""

from __future__ import annotations

import asyncio

import pytest

from aiorocketmq.remoting.services import happens_within
from aiorocketmq.remoting.system_clock import SystemClock

from ..sim import ManualClock


def test_what_happens_in_time_is_waited_for() -> None:
    async def main() -> None:
        clock, event = ManualClock(), asyncio.Event()
        waiting = asyncio.ensure_future(happens_within(event, 5.0, clock))
        await asyncio.sleep(0)
        assert clock.next_due == clock.monotonic() + 5.0
        clock.advance(4.9)
        event.set()
        assert await waiting
        assert clock.next_due is None, "no timer is left"
        assert await happens_within(event, 5.0, clock), "it has happened already"

    asyncio.run(main())


def test_what_does_not_happen_is_waited_for_no_longer() -> None:
    async def main() -> None:
        clock, event = ManualClock(), asyncio.Event()
        waiting = asyncio.ensure_future(happens_within(event, 5.0, clock))
        await asyncio.sleep(0)
        clock.advance(5.0)
        assert not await waiting

    asyncio.run(main())


def test_who_stops_waiting_leaves_nothing_behind() -> None:
    async def main() -> None:
        clock = ManualClock()
        waiting = asyncio.ensure_future(happens_within(asyncio.Event(), 5.0, clock))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert clock.next_due is None
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_the_machine_s_clock_calls_and_can_be_told_not_to() -> None:
    async def main() -> None:
        called: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        SystemClock().call_later(0.0, lambda: called.set_result("too early")).cancel()
        SystemClock().call_later(0.0, lambda: called.set_result("called"))
        assert await called == "called"

    asyncio.run(main())
