"""Streams of events: not more than so many, however they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

import pytest
from starlette.responses import StreamingResponse

from aiorocketmq.console.live import LONGEST_S, MOST_OF_ONE, MOST_STREAMS, Live, TooManyStreamsError
from aiorocketmq.remoting.errors import RemotingError

from ..sim import ManualClock


async def parts() -> Mapping[str, str]:
    return {"a": "<b>text</b>"}


async def refusing() -> Mapping[str, str]:
    raise RemotingError("the broker is gone")


class Browser:
    """Reads a stream until it is closed."""

    def __init__(self) -> None:
        self.text = ""
        self.closed = asyncio.Event()
        self.came = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.closed.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.text += message.get("body", b"").decode()
        if self.text:
            self.came.set()

    async def read(self, response: StreamingResponse) -> None:
        scope = {"type": "http", "asgi": {"spec_version": "2.3"}}
        await response(scope, self.receive, self.send)


def test_a_seat_is_taken_before_anything_is_sent() -> None:
    """Many who ask at once have all been let in before the first of them reads."""

    async def test() -> None:
        live = Live(ManualClock())
        for number in range(MOST_OF_ONE):
            live.stream(number, parts, "10.0.0.1", lambda: True)
        with pytest.raises(TooManyStreamsError):
            live.stream("more", parts, "10.0.0.1", lambda: True)
        for number in range(MOST_STREAMS - MOST_OF_ONE):
            live.stream(number, parts, f"10.0.1.{number}", lambda: True)
        with pytest.raises(TooManyStreamsError):
            live.stream("more", parts, "10.0.0.2", lambda: True)
        with pytest.raises(TooManyStreamsError):
            live.own("10.0.0.2", tail(), lambda: True)
        await live.close()

    asyncio.run(test())


async def tail() -> AsyncIterator[str]:
    while True:
        yield "event"
        await asyncio.sleep(0)


def test_who_goes_leaves_a_seat_and_the_last_one_ends_the_asking() -> None:
    async def test() -> None:
        live, first, second = Live(ManualClock()), Browser(), Browser()
        reading = [
            asyncio.create_task(each.read(live.stream("key", parts, "10.0.0.1", lambda: True)))
            for each in (first, second)
        ]
        await asyncio.gather(first.came.wait(), second.came.wait())
        assert live.count == 2
        assert len(live._channels) == 1  # asked once for both
        assert '"text": "<b>text</b>"' in first.text
        first.closed.set()
        second.closed.set()
        await asyncio.gather(*reading)
        await asyncio.sleep(0)
        assert live.count == 0
        assert live._channels == {}
        await live.close()

    asyncio.run(test())


def test_a_stream_ends_with_its_session_and_after_an_hour() -> None:
    async def test() -> None:
        clock = ManualClock()
        live, sessions = Live(clock), {"first", "second"}
        ends: dict[str, Callable[[], None]] = {
            "first": partial(sessions.remove, "first"),
            "second": partial(clock.advance, LONGEST_S + 1),
        }
        for name, end in ends.items():
            browser = Browser()
            response = live.own("10.0.0.1", tail(), partial(sessions.__contains__, name))
            reading = asyncio.create_task(browser.read(response))
            await browser.came.wait()
            assert live.count == 1
            end()
            await asyncio.wait_for(reading, 60)
            assert live.count == 0

    asyncio.run(test())


def test_what_the_cluster_says_is_told() -> None:
    async def test() -> None:
        live, browser = Live(ManualClock()), Browser()
        response = live.stream("key", refusing, "10.0.0.1", lambda: True)
        reading = asyncio.create_task(browser.read(response))
        await browser.came.wait()
        assert '"id": "live-problem", "text": "the broker is gone"' in browser.text
        browser.closed.set()
        await reading
        await live.close()

    asyncio.run(test())


def test_who_reads_slowly_gets_the_newest() -> None:
    async def test() -> None:
        clock, made = ManualClock(), 0

        async def counted() -> Mapping[str, str]:
            nonlocal made
            made += 1
            return {"a": f"number {made}"}

        live, slow = Live(clock), Browser()
        reads = asyncio.Event()

        async def send(message: Any) -> None:
            await Browser.send(slow, message)
            if slow.text:
                await reads.wait()

        slow.send = send  # type: ignore[method-assign]
        reading = asyncio.create_task(
            slow.read(live.stream("key", counted, "10.0.0.1", lambda: True))
        )
        await slow.came.wait()
        while made < 50:
            clock.advance(3)
            await asyncio.sleep(0)
        reads.set()
        while "number 50" not in slow.text:
            await asyncio.sleep(0)
        assert slow.text.count("number") == 2
        slow.closed.set()
        await reading
        await live.close()

    asyncio.run(test())
