"""One TCP connection for whoever may wait: a request, then its answer, in the caller's thread.

A second way to speak the protocol beside ``connection.py``, for programs without an event loop: handing a request to a loop
in another thread and its answer back costs several times what the request itself does. One thread at a time may use it;
what the peer sends unasked is passed over.
"""

from __future__ import annotations

import socket
import ssl
import time
from typing import Final

from .errors import ConnectError, ConnectionLostError, ProtocolError, RequestTimeout
from .invocations import Response, read_answer
from .protocol.frame import FrameDecoder, FrameError, pack_prefix
from .protocol.serialization import HeaderError

_READ_BYTES: Final = 8 << 10


class BlockingConnection:
    """Connects at once, within ``timeout`` seconds. Raises ``ConnectError``."""

    def __init__(
        self, host: str, port: int, timeout: float, *, tls: ssl.SSLContext | None = None, max_frame_bytes: int
    ) -> None:
        self.peer: Final = f"{host}:{port}"
        self._decoder = FrameDecoder(max_frame_bytes)
        self._timeout = timeout
        try:
            self._socket = socket.create_connection((host, port), timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            raise ConnectError(f"cannot connect to {self.peer}: {error.strerror or error}") from None

    def invoke(self, opaque: int, header: bytes, body: bytes, timeout: float) -> Response:
        """The answer to a request whose JSON header has ``opaque`` in it, whatever its code; ``timeout`` in seconds.

        Raises ``RequestTimeout``, ``ConnectionLostError``, ``ProtocolError``; after any error, and when it was interrupted,
        the connection is closed.
        """
        try:
            if timeout != self._timeout:
                self._set_timeout(timeout)
            deadline = time.monotonic() + timeout
            prefix = pack_prefix(4 + len(header) + len(body), len(header))
            self._socket.sendall(b"".join((prefix, header, body)))
            while True:
                data = self._socket.recv(_READ_BYTES)
                if not data:
                    raise ConnectionLostError(f"connection to {self.peer} lost: closed by peer")
                for serialize_type, answer_header, answer_body in self._decoder.feed(data):
                    answer = read_answer(serialize_type, answer_header)
                    if answer is not None and answer.opaque == opaque:
                        answer.body = bytes(answer_body)
                        return answer
                left = deadline - time.monotonic()  # it comes in pieces
                if left <= 0:
                    raise TimeoutError
                self._set_timeout(left)
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise RequestTimeout(f"no answer from {self.peer} in time") from None
            if isinstance(error, OSError):
                raise ConnectionLostError(f"connection to {self.peer} lost: {error}") from None
            if isinstance(error, (FrameError, HeaderError)):
                raise ProtocolError(f"{self.peer} sent what is no answer: {error}") from None
            raise

    def _set_timeout(self, timeout: float) -> None:
        self._timeout = timeout
        self._socket.settimeout(timeout)

    def is_open(self) -> bool:
        """Nobody has closed it, as far as can be seen. Between requests a peer has nothing to say but that it is gone."""
        self._set_timeout(0)
        try:
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)  # under TLS, too
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """At once."""
        self._socket.close()
