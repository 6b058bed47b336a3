"""How connections end: by halves, with everything taken, in bounded time and with bounded
patience."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiorocketmq.remoting.transport.farewell import LOOK_S, MOST_DISCARDED_BYTES, STALL_S, Farewell

LONGEST_S = 3.0


class Time:
    """The part of an event loop that a farewell uses. ``looks`` counts how often it was called."""

    def __init__(self) -> None:
        self.now = 100.0
        self.looks = 0
        self._timers: list[tuple[float, Timer]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        self._timers.append((self.now + delay, timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Timers in order, each at its time."""
        end = self.now + seconds
        while due := [
            entry for entry in self._timers if entry[0] <= end and not entry[1].cancelled
        ]:
            entry = min(due, key=lambda each: each[0])
            self._timers.remove(entry)
            self.now = max(self.now, entry[0])
            self.looks += 1
            entry[1].callback()
        self.now = end


class Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Plain(asyncio.Transport):
    """``unsent`` waits here; ``steps`` is what was done with it."""

    def __init__(self, unsent: int = 0, extra: dict[str, object] | None = None) -> None:
        super().__init__(extra)
        self.unsent = unsent
        self.steps: list[str] = []
        self.protocol: asyncio.BaseProtocol | None = None
        self.closing = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.closing

    def resume_reading(self) -> None:
        self.steps.append("read on")

    def write_eof(self) -> None:
        self.steps.append("close our half")

    def abort(self) -> None:
        self.steps.append("cut")
        self.end()

    def end(self) -> None:
        if not self.closing:
            self.closing = True
            cast(asyncio.Protocol, self.protocol).connection_lost(None)


def leave(transport: Plain) -> tuple[Farewell, Time, list[Exception | None]]:
    time, lost = Time(), list[Exception | None]()
    return Farewell(cast(Any, time), transport, lost.append, LONGEST_S), time, lost


HALVES = ["read on", "close our half"]


def test_a_peer_that_ends_too() -> None:
    transport = Plain()
    _farewell, time, lost = leave(transport)
    transport.end()
    time.advance(LONGEST_S)
    assert (transport.steps, lost, time.looks) == (HALVES, [None], 0)


def test_a_peer_that_has_everything_and_does_not_end() -> None:
    transport = Plain()
    farewell, time, lost = leave(transport)
    time.advance(STALL_S - 0.001)
    farewell.data_received(b"what it asks for does not make it wait for longer")
    assert lost == []
    time.advance(0.001)
    assert (transport.steps, lost) == ([*HALVES, "cut"], [None])
    assert time.looks == 1, "with thousands of connections nobody looks at each all the time"


def test_a_peer_that_takes_nothing() -> None:
    transport = Plain(unsent=100)
    _farewell, time, lost = leave(transport)
    time.advance(STALL_S + LOOK_S)
    assert (transport.steps, lost) == ([*HALVES, "cut"], [None])


def test_a_peer_that_takes_something_is_waited_for_and_not_for_ever() -> None:
    transport = Plain(unsent=1000)
    _farewell, time, lost = leave(transport)
    while time.now < 100.0 + LONGEST_S - STALL_S:
        transport.unsent -= 1
        time.advance(STALL_S / 2)
        assert lost == []
    while not lost:
        transport.unsent -= 1
        time.advance(STALL_S / 2)
    assert time.now <= 100.0 + LONGEST_S + LOOK_S + STALL_S / 2


def test_a_peer_that_never_stops_sending() -> None:
    transport = Plain(unsent=100)
    farewell, _time, lost = leave(transport)
    farewell.data_received(bytes(MOST_DISCARDED_BYTES))
    assert lost == []
    farewell.data_received(b"x")
    assert (transport.steps, lost) == ([*HALVES, "cut"], [None])


def test_a_peer_that_has_gone() -> None:
    class Gone(Plain):
        def write_eof(self) -> None:
            raise OSError("Transport endpoint is not connected")

    transport = Gone()
    _farewell, time, lost = leave(transport)
    time.advance(LONGEST_S)
    assert (transport.steps, lost) == (["read on", "cut"], [None])


class ClosedSocket:
    """A number that no descriptor has: below TLS the socket is closed a turn of the loop before
    anybody is told."""

    def fileno(self) -> int:
        return 1 << 20


def test_a_socket_that_is_closed_already() -> None:
    transport = Plain(extra={"socket": ClosedSocket()})
    _farewell, time, lost = leave(transport)
    time.advance(STALL_S)
    assert (transport.steps, lost) == ([*HALVES, "cut"], [None])
