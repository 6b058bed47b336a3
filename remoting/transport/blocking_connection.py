"""One TCP connection for whoever may wait: it sends, and receives into frames, in the caller's
thread.

A second way to speak the protocol beside ``connection.py``, for programs without an event loop:
handing a request to a loop in another thread and its answer back costs several times what the
request itself does. One thread at a time may use it. ``BlockingCalls`` asks and waits for the
answer; Spark's ``wire.py`` has many pulls under way.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from ..errors import ConnectError, ConnectionLostError, ProtocolError, RemotingError, RequestTimeout
from ..protocol.frames.frame import Frame, FrameDecoder, FrameError, pack_prefix
from ..protocol.frames.serialization import HeaderError
from .address import split_address
from .spin_wait import SPIN_S, SpinWait

_READ_BYTES: Final = 8 << 10
_NONE: Final = -1


class _Answer(Protocol):
    opaque: int


A = TypeVar("A", bound=_Answer)
F = TypeVar("F")
"""A frame, as its user wants it."""


class BlockingConnection(ABC, Generic[F]):
    """Connects at once, within ``timeout`` seconds. Raises ``ConnectError``. After any other error
    nothing is known of what was under way: its owner closes it."""

    def __init__(self, address: str, timeout: float, tls: ssl.SSLContext | None) -> None:
        self.address: Final = address
        self._sent_at = 0.0
        """On the monotonic clock: when ``send`` was called last."""
        self._timeout = timeout
        self._socket: socket.socket = _connected(address, timeout, tls)
        # not on Windows, whose sockets are no files
        plain = tls is None and hasattr(os, "sched_yield")
        self._descriptor = self._socket.fileno() if plain else _NONE
        """To write without asking first whether that is possible, as a socket with a timeout does:
        it nearly always is."""

    @abstractmethod
    def _read(self) -> list[F] | None:
        """Read once, and cut: the frames that are whole now, ``None`` when the peer has closed the
        connection. Raises ``OSError``, ``FrameError``."""

    def send(self, data: bytes, timeout: float) -> None:
        """All of it; ``timeout`` in seconds. Raises ``RequestTimeout``, ``ConnectionLostError``."""
        try:
            if timeout != self._timeout:
                self._set_timeout(timeout)
            self._sent_at = time.monotonic()
            try:
                written = os.write(self._descriptor, data) if self._descriptor != _NONE else 0
            except BlockingIOError:
                written = 0
            if written < len(data):
                self._socket.sendall(memoryview(data)[written:])
        except OSError as error:
            raise self._typed(error) from None

    def receive(self, timeout: float) -> list[F]:
        """The frames that are whole with what comes next, perhaps none; ``timeout`` in seconds.
        Raises ``RequestTimeout``, ``ConnectionLostError``, ``ProtocolError``."""
        try:
            if timeout != self._timeout:
                self._set_timeout(timeout)
            frames = self._read()
        except (OSError, FrameError) as error:
            raise self._typed(error) from None
        if frames is None:
            raise ConnectionLostError(f"connection to {self.address} lost: closed by peer")
        return frames

    def _typed(self, error: Exception) -> RemotingError:
        if isinstance(error, TimeoutError):
            return RequestTimeout(f"no answer from {self.address} in {self._timeout:.3g} s")
        if isinstance(error, OSError):
            return ConnectionLostError(f"connection to {self.address} lost: {error}")
        return ProtocolError(f"{self.address} sent what is no frame: {error}")

    def _set_timeout(self, timeout: float) -> None:
        self._timeout = timeout
        self._socket.settimeout(timeout)

    def is_open(self) -> bool:
        """Nobody has closed it, as far as can be seen. Between requests a peer has nothing to say
        but that it is gone."""
        try:
            self._set_timeout(0)
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)  # under TLS, too
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """At once; with TLS a goodbye is sent and not waited for."""
        self._descriptor = _NONE  # the number is free for others
        if isinstance(self._socket, ssl.SSLSocket):
            with suppress(OSError, ValueError):  # ValueError: there is no TLS any more
                self._socket.settimeout(0)
                self._socket.unwrap()
        with suppress(OSError):
            self._socket.close()


def _connected(address: str, timeout: float, tls: ssl.SSLContext | None) -> socket.socket:
    """``timeout`` in seconds, also of what comes later. Raises ``ConnectError``."""
    host, port = split_address(address)
    plain: socket.socket | None = None
    try:
        plain = socket.create_connection((host, port), timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
    except OSError as error:
        if plain is not None:
            plain.close()
        raise ConnectError(f"cannot connect to {address}: {error.strerror or error}") from None


class BlockingCalls(BlockingConnection[Frame]):
    """A connection for requests, each with its answer before the next one. Connects at once, within
    ``timeout`` seconds. Raises ``ConnectError``."""

    def __init__(
        self, address: str, timeout: float, *, tls: ssl.SSLContext | None, max_frame_bytes: int
    ) -> None:
        super().__init__(address, timeout, tls)
        self.used_at: float = 0.0
        """For its owner."""
        self._feed = FrameDecoder(max_frame_bytes).feed
        self._receive = self._socket.recv
        self._spin = SpinWait() if self._descriptor != _NONE else None

    def _read(self) -> list[Frame] | None:
        data = (self._spin and self._soon(self._spin)) or self._receive(_READ_BYTES)
        return self._feed(data) if data else None

    def _soon(self, spin: SpinWait) -> bytes:
        """What comes while it is worth waiting awake. Nothing: to be received as usual, be it the
        end."""
        if spin.sleeps:
            spin.sleeps -= 1
            return b""
        began, data = self._sent_at, b""
        while True:
            os.sched_yield()
            try:
                data = os.read(self._descriptor, _READ_BYTES)
                break
            except BlockingIOError:
                if time.monotonic() - began > SPIN_S:
                    break
        spin.ended(time.monotonic() - began)
        return data

    def invoke(
        self,
        opaque: int,
        header: bytes,
        body: bytes,
        timeout: float,
        read: Callable[[int, bytes], A | None],
    ) -> A:
        """The answer to a request whose JSON header has ``opaque`` in it, whatever its code;
        ``timeout`` in seconds. What the peer sends unasked is passed over.

        ``read`` makes an answer of a serialize type and a header, or nothing where they are none
        (``read_answer``). Its body is passed over.

        Raises ``RequestTimeout``, ``ConnectionLostError``, ``ProtocolError``; after any error, and
        when it was interrupted, the connection is closed.
        """
        answered = False
        try:
            prefix = pack_prefix(4 + len(header) + len(body), len(header))
            self.send(b"".join((prefix, header, body)), timeout)
            left = timeout
            while left > 0:
                for serialize_type, answer_header, _ in self.receive(left):
                    answer = read(serialize_type, answer_header)
                    if answer is not None and answer.opaque == opaque:
                        answered = True
                        return answer
                left = self._sent_at + timeout - time.monotonic()  # it comes in pieces
            raise RequestTimeout(f"no answer from {self.address} in {timeout:.3g} s")
        except HeaderError as error:
            raise ProtocolError(f"{self.address} sent what is no answer: {error}") from None
        finally:
            if not answered:
                self.close()
