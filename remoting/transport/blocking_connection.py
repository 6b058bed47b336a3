"""One TCP connection for whoever may wait: a request, then its answer, in the caller's thread.

A second way to speak the protocol beside ``connection.py``, for programs without an event loop:
handing a request to a loop in another thread and its answer back costs several times what the
request itself does. One thread at a time may use it; what the peer sends unasked is passed over.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from ..errors import ConnectError, ConnectionLostError, ProtocolError, RemotingError, RequestTimeout
from ..protocol.frames.frame import FrameDecoder, FrameError, pack_prefix
from ..protocol.frames.serialization import HeaderError
from .address import split_address
from .spin_wait import SPIN_S, SpinWait

_READ_BYTES: Final = 8 << 10
_NONE: Final = -1


class _Answer(Protocol):
    opaque: int


A = TypeVar("A", bound=_Answer)


def connected_socket(
    address: str, timeout: float, tls: ssl.SSLContext | None, **tls_options: Any
) -> socket.socket:
    """``timeout`` in seconds, also of what comes later; ``tls_options`` of ``wrap_socket``. Raises
    ``ConnectError``."""
    plain: socket.socket | None = None
    try:
        plain = socket.create_connection(split_address(address), timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if tls is None else tls.wrap_socket(plain, **tls_options)
    except OSError as error:
        if plain is not None:
            plain.close()
        raise ConnectError(f"cannot connect to {address}: {error.strerror or error}") from None


class BlockingConnection:
    """Connects at once, within ``timeout`` seconds. Raises ``ConnectError``."""

    def __init__(
        self,
        host: str,
        port: int,
        timeout: float,
        *,
        tls: ssl.SSLContext | None = None,
        max_frame_bytes: int,
    ) -> None:
        self.peer: Final = f"{host}:{port}"
        self.used_at: float = 0.0
        """For its owner."""
        self._decoder = FrameDecoder(max_frame_bytes)
        self._timeout = timeout
        self._socket: socket.socket = connected_socket(
            self.peer, timeout, tls, server_hostname=host
        )
        self._receive = self._socket.recv
        plain = tls is None and hasattr(
            os, "sched_yield"
        )  # not on Windows, whose sockets are no files
        self._descriptor = self._socket.fileno() if plain else _NONE
        """To write without asking first whether that is possible, as a socket with a timeout does:
        it nearly always is."""
        self._spin = SpinWait() if plain else None

    def invoke(
        self,
        opaque: int,
        header: bytes,
        body: bytes,
        timeout: float,
        read: Callable[[int, bytes], A | None],
    ) -> A:
        """The answer to a request whose JSON header has ``opaque`` in it, whatever its code;
        ``timeout`` in seconds.

        ``read`` makes an answer of a serialize type and a header, or nothing where they are none
        (``read_answer``). Its body is passed over.

        Raises ``RequestTimeout``, ``ConnectionLostError``, ``ProtocolError``; after any error, and
        when it was interrupted, the connection is closed.
        """
        answered = False
        try:
            if timeout != self._timeout:
                self._set_timeout(timeout)
            began = time.monotonic()
            frame = b"".join((pack_prefix(4 + len(header) + len(body), len(header)), header, body))
            try:
                written = os.write(self._descriptor, frame) if self._descriptor != _NONE else 0
            except BlockingIOError:
                written = 0
            if written < len(frame):
                self._socket.sendall(memoryview(frame)[written:])
            while True:
                data = (self._spin and self._soon(self._spin, began)) or self._receive(_READ_BYTES)
                if not data:
                    raise ConnectionLostError(f"connection to {self.peer} lost: closed by peer")
                for serialize_type, answer_header, _ in self._decoder.feed(data):
                    answer = read(serialize_type, answer_header)
                    if answer is not None and answer.opaque == opaque:
                        answered = True
                        return answer
                left = began + timeout - time.monotonic()  # it comes in pieces
                if left <= 0:
                    raise TimeoutError
                self._set_timeout(left)
        except (OSError, FrameError, HeaderError) as error:
            raise self._typed(error) from None
        finally:
            if not answered:
                self.close()

    def _typed(self, error: Exception) -> RemotingError:
        if isinstance(error, TimeoutError):
            return RequestTimeout(f"no answer from {self.peer} in time")
        if isinstance(error, OSError):
            return ConnectionLostError(f"connection to {self.peer} lost: {error}")
        return ProtocolError(f"{self.peer} sent what is no answer: {error}")

    def _soon(self, spin: SpinWait, began: float) -> bytes:
        """What comes while it is worth waiting awake. Nothing: to be received as usual, be it the
        end."""
        if spin.sleeps:
            spin.sleeps -= 1
            return b""
        data = b""
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

    def _set_timeout(self, timeout: float) -> None:
        self._timeout = timeout
        self._socket.settimeout(timeout)

    def is_open(self) -> bool:
        """Nobody has closed it, as far as can be seen. Between requests a peer has nothing to say
        but that it is gone."""
        self._set_timeout(0)
        try:
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
        self._socket.close()
