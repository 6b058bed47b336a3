"""Much is written past the transport, and what the kernel does not take goes through it: always all
of it, in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.direct_write import MUCH_BYTES, socket_of, unwritten
from aiorocketmq.store.read import message_reader

from ...sim import SimOwner, SimTransport

pytestmark = pytest.mark.skipif(not hasattr(os, "writev"), reason="this platform has no writev")

PIECES: list[bytes | bytearray | memoryview] = [
    b"head",
    memoryview(bytes(range(256)) * 1024),
    b"",
    bytearray(b"next"),
    memoryview(b"x" * 200_000),
]
WHOLE = b"".join(PIECES)


class PipedTransport(SimTransport):
    """A transport whose socket is a pipe: 64 KiB, nobody reads it unless the test does."""

    def __init__(self, reading: int, writing: int) -> None:
        super().__init__()
        self.reading_end = reading
        self.extra["socket"] = SimpleNamespace(fileno=lambda: writing)

    def arrived(self) -> bytes:
        """What went directly."""
        data = bytearray()
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.reading_end, 1 << 16):
                data += piece
        return bytes(data)


@pytest.fixture
def transport() -> Iterator[PipedTransport]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    yield PipedTransport(reading, writing)
    for descriptor in (reading, writing):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def test_what_the_kernel_does_not_take_is_left(transport: PipedTransport) -> None:
    left = unwritten(socket_of(transport), transport, PIECES)
    arrived = transport.arrived()
    assert len(arrived) > 4
    assert left
    assert arrived + left == WHOLE


@pytest.mark.parametrize("size", [1, 4, 5, 1000])
def test_all_of_it_may_be_taken(transport: PipedTransport, size: int) -> None:
    pieces = [b"head", b"x" * size]
    assert unwritten(socket_of(transport), transport, pieces) == b""
    assert transport.arrived() == b"head" + b"x" * size


def test_a_socket_that_takes_nothing(transport: PipedTransport) -> None:
    unwritten(socket_of(transport), transport, PIECES)
    assert unwritten(socket_of(transport), transport, PIECES) == WHOLE


def test_a_socket_that_nobody_reads_any_more(transport: PipedTransport) -> None:
    os.close(transport.reading_end)
    assert unwritten(socket_of(transport), transport, PIECES) == WHOLE


def test_nothing_overtakes_what_the_transport_has(transport: PipedTransport) -> None:
    transport.unread = 1
    assert unwritten(socket_of(transport), transport, PIECES) == WHOLE
    assert transport.arrived() == b""


def test_nothing_is_written_to_a_descriptor_that_may_be_another_one_s(
    transport: PipedTransport,
) -> None:
    transport.ended = True
    assert unwritten(socket_of(transport), transport, PIECES) == WHOLE
    assert transport.arrived() == b""


def test_many_pieces_are_joined(transport: PipedTransport) -> None:
    assert unwritten(socket_of(transport), transport, [b"x"] * 2000) == b"x" * 2000


@pytest.mark.parametrize("info", [{"socket": None}, {"sslcontext": object()}])
def test_where_the_socket_cannot_be_used(transport: PipedTransport, info: dict[str, Any]) -> None:
    transport.extra.update(info)
    assert socket_of(transport) == -1
    assert unwritten(-1, transport, PIECES) == WHOLE


def frame(opaque: int, size: int) -> bytes:
    header = RemotingCommand(
        code=RequestCode.HEART_BEAT, opaque=opaque, ext_fields={"size": str(size)}
    )
    return encode_frame(0, encode_header(header, 0), b"")


def test_a_connection_sends_every_answer_once_and_keeps_no_view(transport: PipedTransport) -> None:
    """Small ones through the transport, large ones beside it, as long as that has nothing of its
    own to send."""
    files = [
        bytearray(bytes([number]) * size)
        for number, size in enumerate((10, MUCH_BYTES - 20_000, 300_000, 200_000, 5))
    ]

    def serve(_request: object, _body: Body, ctx: Context) -> Reply:
        return Reply(0, None, memoryview(files[ctx.opaque]))

    async def scene() -> None:
        connection = Connection(SimOwner(Dispatcher({RequestCode.HEART_BEAT: serve})))
        transport.protocol = connection
        connection.connection_made(transport)
        received = bytearray()
        for opaque in range(len(files)):
            connection.data_received(frame(opaque, 0))
            received += transport.arrived() + bytes(transport.written)
            assert transport.writes <= 1
            transport.written.clear()
            transport.writes = 0
        frames = FrameDecoder().feed(bytes(received))
        assert [
            (decode_header(form, header).opaque, bytes(body)) for form, header, body in frames
        ] == [(opaque, bytes(file)) for opaque, file in enumerate(files)]
        for file in files:
            file.clear()  # raises BufferError while there is a view of it

    asyncio.run(scene())


def test_a_view_is_never_among_answers_that_wait_for_the_end_of_the_turn() -> None:
    assert message_reader._MUCH >= MUCH_BYTES


def test_which_answers_go_directly(transport: PipedTransport) -> None:
    def serve(_request: object, _body: Body, ctx: Context) -> Reply:
        return Reply(0, None, bytes(ctx.opaque))

    async def scene() -> None:
        connection = Connection(SimOwner(Dispatcher({RequestCode.HEART_BEAT: serve})))
        connection.connection_made(transport)
        for size, direct in ((MUCH_BYTES - 1, False), (MUCH_BYTES, True), (100, False)):
            connection.data_received(frame(size, size))
            assert bool(transport.arrived()) is direct, size

    asyncio.run(scene())


@pytest.mark.parametrize("fixed", [True, False])
def test_a_long_body_of_a_request_is_copied_only_where_it_may_change(
    transport: PipedTransport, fixed: bool
) -> None:
    async def scene() -> None:
        connection = Connection(SimOwner(Dispatcher({})))
        connection.connection_made(transport)
        own = bytearray(b"x" * MUCH_BYTES)
        views: list[bytes | bytearray | memoryview] = (
            [bytes(own), memoryview(bytes(own)), memoryview(own).toreadonly()]
            if fixed
            else [own, memoryview(own)]
        )
        for body in views:
            connection.invoke(RequestCode.HEART_BEAT, None, body, timeout=1)
            assert any(piece is body for piece in connection.out) is fixed
            own[:4] = b"abcd" if not fixed else own[:4]
            connection.flush()
            sent = transport.arrived() + bytes(transport.written)
            transport.written.clear()
            ((_form, _header, arrived),) = FrameDecoder().feed(sent)
            assert bytes(arrived) == b"x" * MUCH_BYTES
            own[:4] = b"xxxx"

    asyncio.run(scene())
