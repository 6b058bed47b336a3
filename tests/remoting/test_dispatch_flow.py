"""Peers that send much, read nothing or are silent: others are served meanwhile, nothing is lost,
and who reads nothing for too long is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder
from aiorocketmq.remoting.transport.flow import Limits

from ..sim import ManualClock, SimOwner, connect
from .dispatch_world import OFFSET_FIELDS, OFFSET_TABLE, answers, request


def test_a_peer_that_does_not_read_is_not_read_from_and_loses_nothing() -> None:
    def big(req: Any, body: Body, ctx: Context) -> Reply:
        return Reply(body=bytes(1000))

    async def main() -> None:
        limits = Limits(write_pause_bytes=5000)
        connection, transport = connect(
            SimOwner(Dispatcher({RequestCode.HEART_BEAT: big}), limits=limits)
        )
        transport.peer_reads = False
        connection.data_received(b"".join(request(34, opaque=n) for n in range(100)))
        assert not transport.reading
        assert transport.unread < 5000 + 2 * 1200
        connection.data_received(
            request(34, opaque=100)
        )  # was on its way already: its turn comes after the others
        connection.serve(
            FrameDecoder().feed(request(34, opaque=101))
        )  # was gathered with the first ones
        while not transport.reading:
            transport.read_all()
        assert [c.opaque for c, _ in answers(transport)] == list(range(102))

    asyncio.run(main())


def dear(clock: ManualClock, order: list[int]) -> Callable[[Any, Body, Context], Reply]:
    """A handler that takes a millisecond, and writes down whose turn it was."""

    def handle(_request: Any, _body: Body, ctx: Context) -> Reply:
        clock.advance(0.001)
        order.append(ctx.opaque)
        return Reply()

    return handle


def test_requests_that_take_long_give_way_to_those_of_others() -> None:
    """A thousand dear requests in one read: others wait for four of them, not for all."""

    async def main() -> None:
        clock, order = ManualClock(), list[int]()
        owner = SimOwner(Dispatcher({RequestCode.HEART_BEAT: dear(clock, order)}), clock=clock)
        one, many_answers = connect(owner)
        other, _ = connect(owner)
        one.data_received(b"".join(request(34, opaque=n) for n in range(20)))
        one.data_received(request(34, opaque=20))  # was on its way already
        assert not many_answers.reading
        other.data_received(request(34, opaque=100))
        while one.busy:
            await asyncio.sleep(0)
        assert order == [*range(4), 100, *range(4, 21)]
        assert [c.opaque for c, _ in answers(many_answers)] == list(range(21))
        assert many_answers.reading

    asyncio.run(main())


def test_what_nobody_can_be_told_any_more_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is closed while some of its requests wait for their turn; what was written is
    still on its way."""

    async def main() -> None:
        clock, order = ManualClock(), list[int]()
        connection, transport = connect(
            SimOwner(Dispatcher({RequestCode.HEART_BEAT: dear(clock, order)}), clock=clock)
        )
        monkeypatch.setattr(transport, "close", lambda: None)
        connection.data_received(b"".join(request(34, opaque=n) for n in range(20)))
        connection.close()
        for _ in range(5):
            await asyncio.sleep(0)
        assert order == [c.opaque for c, _ in answers(transport)] == [*range(4)]

    asyncio.run(main())


def test_who_takes_no_more_requests_serves_those_that_came() -> None:
    async def main() -> None:
        owner = SimOwner(
            Dispatcher({RequestCode.HEART_BEAT: lambda r, b, c: Reply(body=bytes(1000))}),
            limits=Limits(write_pause_bytes=5000),
        )
        connection, transport = connect(owner)
        transport.peer_reads = False
        connection.data_received(b"".join(request(34, opaque=n) for n in range(20)))
        connection.stop_reading()
        while connection.busy:
            transport.read_all()
        assert not transport.reading
        assert [c.opaque for c, _ in answers(transport)] == list(range(20))
        transport.close()
        connection.stop_reading()  # does no harm

    asyncio.run(main())


def test_a_peer_that_reads_nothing_for_too_long_is_cut() -> None:
    async def main() -> None:
        owner = SimOwner(
            Dispatcher({RequestCode.HEART_BEAT: lambda r, b, c: Reply(body=bytes(5000))}),
            limits=Limits(write_pause_bytes=4000),
        )
        connection, transport = connect(owner)
        transport.peer_reads = False
        connection.data_received(request(34))
        for _ in range(62):
            owner.clock.advance(1.0)
            connection.check(owner.clock.monotonic())
        assert connection.closed
        assert "read nothing" in connection.close_reason

    asyncio.run(main())


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async def main() -> None:
        owner = SimOwner(Dispatcher(OFFSET_TABLE))
        connection, _ = connect(owner)
        for _ in range(300):
            owner.clock.advance(1.0)
            connection.data_received(request(14, OFFSET_FIELDS))
            connection.check(owner.clock.monotonic())
        assert not connection.closed
        for _ in range(122):
            owner.clock.advance(1.0)
            connection.check(owner.clock.monotonic())
        assert connection.close_reason == "idle"

    asyncio.run(main())
