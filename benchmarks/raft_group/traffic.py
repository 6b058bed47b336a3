"""What the clients of any campaign have: tasks, sends that can be held back, and a push consumer
that notes what it is handed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Final

from aiorocketmq import MessageExt
from examples.demo.errors import DemoError

from .node_reader import Stored
from .recorder import Recorder

PRODUCERS: Final = 8
PUSH: Final = "push consumer"


class Traffic:
    """Clients of a campaign inherit from it."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.handed_out = 0
        """To the push consumer, those that came again included."""
        self._consumed: set[tuple[str, int]] = set()
        """Queue and offset."""
        self._may_send = asyncio.Event()
        self._under_way = 0
        self._idle = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    # -- tasks

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def failures(self) -> list[str]:
        """Of the clients themselves."""
        return [
            f"a client failed: {task.exception()!r}"
            for task in self._tasks
            if task.done() and not task.cancelled()
        ]

    # -- producers

    def send(self) -> None:
        """From now on."""
        self._may_send.set()

    async def pause(self) -> None:
        """Return when nothing is under way."""
        self._may_send.clear()
        self._idle.clear()
        if self._under_way:
            await self._idle.wait()

    @contextlib.asynccontextmanager
    async def _sending(self) -> AsyncIterator[None]:
        """Around each send: begins when there may be one."""
        await self._may_send.wait()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    async def until_acknowledged(self, patience_s: float) -> None:
        """Until a message is acknowledged that was sent from now on. Raises ``DemoError``."""
        deadline = asyncio.get_running_loop().time() + patience_s
        enough = self.recorder.acknowledged + 2 * PRODUCERS  # some were under way
        while asyncio.get_running_loop().time() < deadline:
            if self.recorder.acknowledged >= enough:
                return
            await asyncio.sleep(0.01)
        raise DemoError(f"nothing is acknowledged within {patience_s:.0f} s")

    # -- push consumer

    def _take(self, message: MessageExt) -> None:
        self.handed_out += 1
        self._consumed.add((f"{message.broker_name}/{message.queue_id}", message.queue_offset))
        self.recorder.read(PUSH, message, message.queue_id)

    async def until_consumed(self, stored: Stored, patience_s: float) -> int:
        """How many of the messages the push consumer has not been handed in that time."""
        wanted = {(queue, offset) for queue, them in stored.items() for offset, _ in them}
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience_s
        while wanted - self._consumed and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        return len(wanted - self._consumed)
