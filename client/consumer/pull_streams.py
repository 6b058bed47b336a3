"""The streams of a pull consumer: whose turn it is, and how much waits in all of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.record.decode import MessageExt
from .pull_stream import PullStream, SharedRoom


class PullStreams(dict[MessageQueue, PullStream]):
    """By queue. Those with messages have turns, each once, in the order in which they got some."""

    def __init__(self, room: SharedRoom) -> None:
        super().__init__()
        self.room: SharedRoom = room
        self._ready: deque[PullStream] = deque()
        self._arrived = asyncio.Event()
        self.held: bool = False
        """Nothing more is handed out."""

    @property
    def ready(self) -> bool:
        """Some stream has messages."""
        return bool(self._ready)

    def announce(self, stream: PullStream) -> None:
        """A stream that had nothing has something."""
        if len(stream) and not stream.paused and not self.held and stream not in self._ready:
            self._ready.append(stream)
            self._arrived.set()

    def withdraw(self, stream: PullStream) -> None:
        """It has no turn any more."""
        if stream in self._ready:
            self._ready.remove(stream)

    def hold(self) -> None:
        """Hand out nothing more."""
        self.held = True
        self._ready.clear()

    def turn(self) -> PullStream:
        """Whose turn it is, when one is ``ready``: until ``turn_over``, also for who asks next if
        that never comes."""
        return self._ready[0]

    def turn_over(self, stream: PullStream) -> None:
        """The others come before it now."""
        self.withdraw(stream)
        self.announce(stream)

    def take(self, count: int) -> list[MessageExt]:
        """So many messages, as far as they are there."""
        messages: list[MessageExt] = []
        while self._ready and len(messages) < count:
            stream = self.turn()
            messages += stream.take(count - len(messages))
            self.turn_over(stream)
        self.room.look()
        return messages

    async def wait(self, goes_on: Callable[[], bool]) -> None:
        """Until one is ready, or it does not go on; see ``look``."""
        while not self._ready and goes_on():
            self._arrived.clear()
            await self._arrived.wait()

    def look(self) -> None:
        """Who waits looks whether it goes on."""
        self._arrived.set()

    def pause(self, stream: PullStream) -> None:
        """Hand out nothing of it; what was pulled stays."""
        stream.pause(True)
        self.withdraw(stream)

    def resume(self, stream: PullStream) -> None:
        """Hand out again."""
        stream.pause(False)
        self.announce(stream)

    def mark_done(self) -> None:
        """Everything that was handed out counts as consumed."""
        for stream in self.values():
            stream.done = stream.delivered

    @property
    def in_hand(self) -> bool:
        """Something was handed out that does not count as consumed yet."""
        return any(stream.done < stream.delivered for stream in self.values())
