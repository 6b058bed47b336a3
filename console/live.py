"""Parts of pages that change while somebody looks, as server-sent events.

What many look at is made once: all who look at the same page with the same account share a channel,
whose one task asks, renders and sends what has changed every three seconds, and ends with the last
of them. Who reads slowly gets the newest of each part, never a queue of old ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ..remoting.clock import Clock
from ..remoting.errors import RocketMQError
from ..remoting.services import TaskSet

EVERY_S: Final = 3.0
KEEP_ALIVE_S: Final = 15.0
MOST_STREAMS: Final = 200
MOST_OF_ONE: Final = 40
"""Streams of one address."""
LONGEST_S: Final = 3600.0
"""Then the browser asks again, as its account is looked at again."""

Parts = Callable[[], Awaitable[Mapping[str, str]]]
"""Makes the parts of a page: id of an element -> its HTML; ``chart:<id>`` -> JSON."""


class TooManyStreamsError(RocketMQError):
    """More pages are open than the console serves."""


class _Channel:
    def __init__(self, parts: Parts, clock: Clock) -> None:
        self._parts = parts
        self._clock = clock
        self._sent: dict[str, str] = {}
        self.streams: set[_Stream] = set()

    async def run(self) -> None:
        try:
            while True:
                await self._once()
                await self._clock.sleep(EVERY_S)
        finally:  # a bug: its pages are to know that nothing comes any more
            for stream in self.streams:
                stream.end()

    async def _once(self) -> None:
        try:
            parts = dict(await self._parts())
            parts.setdefault("live-problem", "")
        except RocketMQError as error:
            parts = {"live-problem": str(error)}
        changed = {name: text for name, text in parts.items() if self._sent.get(name) != text}
        self._sent.update(changed)
        for stream in self.streams:
            stream.put(changed)

    def add(self, stream: _Stream) -> None:
        stream.put(self._sent)
        self.streams.add(stream)


class _Stream:
    """What one page has not been sent yet."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}
        self._there = asyncio.Event()
        self.ended = False

    def end(self) -> None:
        self.ended = True
        self._there.set()

    def put(self, parts: Mapping[str, str]) -> None:
        self._parts.update(parts)
        if self._parts:
            self._there.set()

    async def take(self) -> Mapping[str, str]:
        """Nothing after a while without any."""
        try:
            await asyncio.wait_for(self._there.wait(), KEEP_ALIVE_S)
        except TimeoutError:
            return {}
        self._there.clear()
        parts, self._parts = self._parts, {}
        return parts


class Live:
    """All streams."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks = TaskSet("console-live")
        self._channels: dict[object, tuple[_Channel, asyncio.Task[None]]] = {}
        self._by_address: dict[str, int] = {}

    @property
    def count(self) -> int:
        """Streams that are open."""
        return sum(self._by_address.values())

    async def close(self) -> None:
        await self._tasks.close()

    def stream(
        self, key: object, parts: Parts, address: str, is_allowed: Callable[[], bool]
    ) -> StreamingResponse:
        """``key``: of the channel; ``is_allowed``: whether who looks still may. Raises
        ``TooManyStreamsError``."""
        return self._seated(address, self._events(key, parts, is_allowed))

    def _seated(self, address: str, events: AsyncIterator[str]) -> StreamingResponse:
        """The seat is taken before anything is awaited: however many ask at once, not more than so
        many get one."""
        if self.count >= MOST_STREAMS or self._by_address.get(address, 0) >= MOST_OF_ONE:
            raise TooManyStreamsError("too many pages are open: close some and load this one again")
        self._by_address[address] = self._by_address.get(address, 0) + 1
        return _Seated(events, partial(self._leave_seat, address))

    def _leave_seat(self, address: str) -> None:
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def own(
        self, address: str, events: AsyncIterator[str], is_allowed: Callable[[], bool]
    ) -> StreamingResponse:
        """A stream that is nobody else's (a tail), under the same limits. Raises
        ``TooManyStreamsError``."""
        return self._seated(address, self._while_allowed(events, is_allowed))

    async def _while_allowed(
        self, events: AsyncIterator[str], is_allowed: Callable[[], bool]
    ) -> AsyncIterator[str]:
        until = self._clock.monotonic() + LONGEST_S
        async for event in events:
            yield event
            if self._clock.monotonic() > until or not is_allowed():
                break

    async def _events(
        self, key: object, parts: Parts, is_allowed: Callable[[], bool]
    ) -> AsyncIterator[str]:
        stream = _Stream()
        channel = self._enter(key, parts, stream)
        try:
            async for event in self._while_allowed(_taken(stream), is_allowed):
                yield event
        finally:
            self._leave(key, channel, stream)

    def _enter(self, key: object, parts: Parts, stream: _Stream) -> _Channel:
        if key not in self._channels:
            channel = _Channel(parts, self._clock)
            self._channels[key] = (channel, self._tasks.spawn(channel.run()))
        channel, _ = self._channels[key]
        channel.add(stream)
        return channel

    def _leave(self, key: object, channel: _Channel, stream: _Stream) -> None:
        channel.streams.discard(stream)
        if not channel.streams:
            self._channels.pop(key)[1].cancel()


async def _taken(stream: _Stream) -> AsyncIterator[str]:
    while not stream.ended:
        parts = await stream.take()
        if not parts:
            yield ": still here\n\n"
        for name, text in parts.items():
            yield event(name, text)


def event(name: str, text: str) -> str:
    """One event of a part."""
    kind = "chart" if name.startswith("chart:") else "part"
    data = {"id": name.removeprefix("chart:"), "text": text}
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


class _Seated(StreamingResponse):
    """Leaves its seat when it ends, however it does."""

    def __init__(self, events: AsyncIterator[str], leave: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()
