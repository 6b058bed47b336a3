"""Programs that are told to stop while they have messages in hand, and while they do not."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from aiorocketmq import run
from aiorocketmq.client.program import Program, current_program

from ..daemon.test_stop_signals import as_in_a_program

__all__ = ["as_in_a_program"]


class Consumer:
    """Hands out what the test says."""

    def __init__(self) -> None:
        self.in_hand = False
        self.held = False

    def hold(self) -> None:
        self.held = True


def the_program() -> Program:
    program = current_program()
    assert program is not None
    return program


def tell() -> None:
    asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)


def test_what_main_returns_is_returned() -> None:
    async def main() -> str:
        assert the_program().loop is asyncio.get_running_loop()
        return "result"

    assert run(main()) == "result"


def test_errors_of_main_are_raised() -> None:
    async def main() -> None:
        tell()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("at the end")

    with pytest.raises(ValueError, match="at the end"):
        run(main())


def test_who_cancels_himself_is_cancelled() -> None:
    async def main() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run(main())


def test_main_is_cancelled_once_and_ends_in_its_own_time() -> None:
    steps: list[str] = []

    async def main() -> str:
        tell()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            steps.append("ended")
        return "never"

    assert run(main()) is None
    assert steps == ["ended"]


def test_messages_in_hand_are_handled_first() -> None:
    steps: list[str] = []

    async def main() -> None:
        program, busy, late = the_program(), Consumer(), Consumer()
        program.add(busy)
        busy.in_hand = True
        tell()
        while not busy.held:
            await asyncio.sleep(0)
        program.add(late)
        assert late.held
        for _ in range(5):
            await asyncio.sleep(0)
        steps.append("handled")
        busy.in_hand = False
        program.look()
        await asyncio.sleep(0)
        steps.append("never")

    assert run(main()) is None
    assert steps == ["handled"]


def test_who_never_asks_again_is_cancelled_after_the_timeout() -> None:
    async def main() -> None:
        busy = Consumer()
        busy.in_hand = True
        the_program().add(busy)
        tell()
        await asyncio.Event().wait()

    assert run(main(), stop_timeout=0.01) is None


def test_consumers_of_other_loops_are_not_part_of_it() -> None:
    async def main() -> None:
        def elsewhere() -> None:
            async def look() -> None:
                assert current_program() is None

            asyncio.run(look())

        await asyncio.to_thread(elsewhere)

    run(main())


def test_in_another_thread_there_are_no_signals() -> None:
    results: list[str | None] = []

    async def main() -> str:
        return "result"

    thread = threading.Thread(target=lambda: results.append(run(main())))
    thread.start()
    thread.join()
    assert results == ["result"]
