"""Bytes of another replica's commit log, over its port for slaves (``replication.py`` has the
protocol): what repair needs.

Blocks: for a tool, or a thread. The other end may be a broker of the original. It takes who asks
for a slave that has all below what it asks for, so only those ask that have; nothing is reported
afterwards, so nothing more is acknowledged. While the connection lasts, a SYNC_MASTER without
another slave lets its sends wait for ``slaveTimeout`` instead of refusing them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Final

from .replication import BATCH_HEAD, REPORT, ReplicationError
from .replication_secret import NONCE_BYTES, SlaveHandshake

TIMEOUT_S: Final = 10.0
_LONGEST_BATCH: Final = 1 << 30
_CHUNK: Final = 1 << 20


class LogStream:
    """The log of a replica from an offset on."""

    def __init__(self, sock: socket.socket, address: str, begin: int, secret: bytes = b"") -> None:
        self._sock: Final = sock
        self._address: Final = address
        self._next = max(begin, 1)
        self._held = bytearray()
        # 0: from where you like. The first byte of a record is that of its size, below 16 MiB.
        if begin == 0:
            self._held += b"\0"
        if secret:
            self._prove(SlaveHandshake(secret, os.urandom(NONCE_BYTES)))
        sock.sendall(REPORT.pack(self._next))

    def _prove(self, handshake: SlaveHandshake) -> None:
        """Both know the secret."""
        self._sock.sendall(handshake.hello)
        while not handshake.done:
            self._sock.sendall(handshake.receive(self._exactly(1)))

    def read(self, size: int) -> bytes:
        """The next bytes. Raises ReplicationError when the replica does not have them, or does not
        say so in time."""
        while len(self._held) < size:
            self._receive_batch()
        data = bytes(self._held[:size])
        del self._held[:size]
        return data

    def abort(self) -> None:
        """In any thread: who reads gets ReplicationError at once."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def _receive_batch(self) -> None:
        offset, size = BATCH_HEAD.unpack(self._exactly(BATCH_HEAD.size))
        if offset != self._next or not 0 <= size <= _LONGEST_BATCH:
            raise ReplicationError(
                f"{self._address} sends {size} bytes from {offset} on, it was asked for "
                f"{self._next}"
            )
        self._next += size
        while size:
            part = self._exactly(min(size, _CHUNK))
            self._held += part
            size -= len(part)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        try:
            while len(data) < size:
                part = self._sock.recv(size - len(data))
                if not part:
                    raise ReplicationError(
                        f"{self._address} closes the connection, it does not have {self._next} "
                        "(its log tells)"
                    )
                data += part
        except OSError as error:
            raise ReplicationError(
                f"{self._address} does not send what lies at {self._next}: {error}"
            ) from error
        return bytes(data)


@contextlib.contextmanager
def log_stream(
    address: tuple[str, int], begin: int, *, secret: bytes = b"", tls: ssl.SSLContext | None = None
) -> Iterator[LogStream]:
    """A connection of its own. ``secret``: ``haSecret`` of both ends; ``tls``: the other end speaks
    TLS. Raises ReplicationError.
    """
    name = f"{address[0]}:{address[1]}"
    with contextlib.ExitStack() as stack:
        try:
            sock = stack.enter_context(socket.create_connection(address, TIMEOUT_S))
            if tls is not None:
                sock = stack.enter_context(tls.wrap_socket(sock))
        except OSError as error:
            raise ReplicationError(f"{name} cannot be connected to: {error}") from error
        try:
            stream = LogStream(sock, name, begin, secret)
        except OSError as error:
            raise ReplicationError(f"{name} does not take the question: {error}") from error
        yield stream
