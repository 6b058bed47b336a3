"""The blocking connection against somebody who says what a test wants: with a request and its
answer, and as Spark's wire has it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiorocketmq.remoting.errors import (
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    RequestTimeout,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header
from aiorocketmq.remoting.responses import read_answer
from aiorocketmq.remoting.transport.blocking_connection import BlockingCalls

from .cluster import HOST

if TYPE_CHECKING:
    from aiorocketmq.spark_connector.access.wire import SocketWire

HEADER = encode_header(RemotingCommand(code=RequestCode.HEART_BEAT, opaque=7))


def answer(opaque: int = 7, flag: int = 1) -> bytes:
    return encode_frame(
        0,
        encode_header(RemotingCommand(code=0, flag=flag, opaque=opaque, remark=f"to {opaque}")),
        b"body",
    )


@contextmanager
def somebody(*pieces: bytes | None, asked_bytes: int = 1) -> Iterator[tuple[str, threading.Event]]:
    """The address of somebody who says this once he was asked (``None``: who then leaves), and an
    event to let him end."""
    end = threading.Event()

    def serve(listener: socket.socket) -> None:
        with listener, listener.accept()[0] as peer:
            left = asked_bytes
            while left > 0:
                left -= len(peer.recv(1 << 16)) or left
            for piece in pieces:
                if piece is None:
                    return
                peer.sendall(piece)
            end.wait(30)

    listener = socket.create_server((HOST, 0))
    thread = threading.Thread(target=serve, args=(listener,))
    thread.start()
    try:
        yield f"{HOST}:{listener.getsockname()[1]}", end
    finally:
        end.set()
        thread.join(30)


@contextmanager
def server(
    *pieces: bytes | None, asked_bytes: int = 1
) -> Iterator[tuple[BlockingCalls, threading.Event]]:
    """A connection to him for requests, and the event."""
    with somebody(*pieces, asked_bytes=asked_bytes) as (address, end):
        connection = BlockingCalls(address, 10, tls=None, max_frame_bytes=1 << 20)
        with closing(connection):
            yield connection, end


@contextmanager
def wire(*pieces: bytes | None) -> Iterator[tuple[SocketWire, threading.Event]]:
    """Spark's connection to him, over which he was asked, and the event."""
    wires = pytest.importorskip(
        "aiorocketmq.spark_connector.access.wire", reason="the extra [spark] is not installed"
    )
    with somebody(*pieces) as (address, end):
        connection: SocketWire = wires.SocketWire(address, None)
        with closing(connection):
            connection.send(b"?", 10)
            yield connection, end


@pytest.mark.parametrize(
    "pieces",
    [
        (answer(),),
        (
            answer(6),
            answer(7, flag=0),
            answer(),
        ),  # too late for an earlier one; a request of theirs
        tuple(answer()[at : at + 1] for at in range(len(answer()))),
    ],
    ids=["whole", "others first", "in pieces"],
)
@pytest.mark.parametrize("sleeps", [0, 999], ids=["awake", "asleep"])  # more than there are pieces
def test_an_answer_is_found(pieces: tuple[bytes, ...], sleeps: int) -> None:
    with server(*pieces) as (connection, end):
        assert connection._spin is not None
        connection._spin.sleeps = sleeps
        response = connection.invoke(7, HEADER, b"", 10, read_answer)
        assert (response.code, response.remark) == (0, "to 7")
        assert sleeps == 0 or connection._spin.sleeps < sleeps
        assert connection.is_open()
        end.set()
        while connection.is_open():
            pass


@pytest.mark.parametrize(
    ("pieces", "timeout", "error"),
    [
        ((), 0.02, RequestTimeout),
        ((answer()[:9],), 0.02, RequestTimeout),
        ((None,), 10, ConnectionLostError),
        ((b"HTTP/1.1 400 Bad Request\r\n",), 10, ProtocolError),
    ],
)
def test_what_is_no_answer(
    pieces: tuple[bytes | None, ...], timeout: float, error: type[Exception]
) -> None:
    with server(*pieces) as (connection, _):
        with pytest.raises(error):
            connection.invoke(7, HEADER, b"", timeout, read_answer)
        assert connection._spin is not None
        assert error is not RequestTimeout or connection._spin._late or connection._spin.sleeps
        with pytest.raises(ConnectionLostError):
            connection.invoke(7, HEADER, b"", timeout, read_answer)  # it is closed


def test_a_request_that_the_system_takes_in_pieces() -> None:
    body = bytes(16 << 20)
    with server(answer(), asked_bytes=8 + len(HEADER) + len(body)) as (connection, _):
        assert connection.invoke(7, HEADER, body, 30, read_answer).remark == "to 7"


def test_what_is_closed_writes_to_nobody(tmp_path: Path) -> None:
    with server(answer()) as (connection, _), (tmp_path / "other").open("wb") as other:
        connection.invoke(7, HEADER, b"", 10, read_answer)  # he has his number, and takes not ours
        number = connection._socket.fileno()
        connection.close()
        os.dup2(other.fileno(), number)  # as the next file that is opened
        try:
            with pytest.raises(ConnectionLostError):
                connection.invoke(7, HEADER, b"", 10, read_answer)
            assert os.fstat(number).st_size == 0
        finally:
            os.close(number)


def test_nobody_there() -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectError, match=f"{port}: Connection refused"):
        BlockingCalls(f"{HOST}:{port}", 10, tls=None, max_frame_bytes=1 << 20)


# --- Spark's
# ------------------------------------------------------------------------------------------


def test_several_answers_are_received_at_once_and_one_in_pieces() -> None:
    frames = [encode_frame(0, b"h", bytes([number]) * 1000) for number in range(4)]
    late = frames[3]
    with wire(b"".join(frames[:3]), *(late[at : at + 100] for at in range(0, len(late), 100))) as (
        connection,
        end,
    ):
        found: list[bytes] = []
        while len(found) < 4:
            received = connection.receive(10)
            assert received, "at least one"
            found += [bytes(body.view) for _, _, body in received]
        assert found == [bytes([number]) * 1000 for number in range(4)]
        connection.rest()
        assert connection.is_open()
        end.set()
        while connection.is_open():
            pass


@pytest.mark.parametrize(
    ("pieces", "timeout", "error", "text"),
    [
        ((), 0.02, RequestTimeout, "in 0.02 s"),
        ((answer()[:9],), 0.02, RequestTimeout, "in 0.02 s"),
        ((answer()[:9], None), 10, ConnectionLostError, "closed by peer"),
        ((b"HTTP/1.1 400 Bad Request\r\n",), 10, ProtocolError, "sent what is no frame"),
    ],
)
def test_what_spark_cannot_go_on_with(
    pieces: tuple[bytes | None, ...], timeout: float, error: type[Exception], text: str
) -> None:
    with wire(*pieces) as (connection, _):
        with pytest.raises(error, match=f"{connection.address}.*{text}"):
            connection.receive(timeout)
        connection.close()
        assert not connection.is_open()
        with pytest.raises(ConnectionLostError):
            connection.send(b"?", timeout)


def test_a_late_answer_makes_a_connection_useless() -> None:
    with wire(answer()) as (connection, _):
        while connection.is_open():
            pass
