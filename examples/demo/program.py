"""Running a program to its exit code: event loop, signals, errors in one line."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine

from aiorocketmq import RocketMQError
from aiorocketmq.daemon.event_loop import new_event_loop

from .errors import DemoError


def run_program(name: str, work: Coroutine[None, None, int]) -> int:
    """The exit code of the work; 1 after one line about what failed, 128 + signal when it was
    interrupted.

    A signal cancels the work, so that whatever it has started is stopped on the way out. A second
    one changes nothing.
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        try:
            return runner.run(_until_signal(name, work))
        except DemoError as error:
            return _fail(name, str(error), error.details)
        except RocketMQError as error:
            return _fail(name, str(error))


async def _until_signal(name: str, work: Coroutine[None, None, int]) -> int:
    task = asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not received:
            task.cancel()
        received.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        _fail(name, f"interrupted by {received[0].name}, everything is stopped")
        return 128 + received[0]


def _fail(name: str, problem: str, details: str = "") -> int:
    sys.stdout.flush()
    print(f"{name}: {problem}", *([details] if details else []), sep="\n", file=sys.stderr)
    return 1
