"""A master's port over the log of a folder, for those who ask for what they have damaged."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiorocketmq.store.replica.replication import (
    LogRange,
    MasterSide,
    ReplicationError,
    ReplicationSettings,
)
from aiorocketmq.store.replica.replication_secret import MasterHandshake
from tests.stored import StoreDirectory


class Replica:
    """A master's port over the log of a folder; ``reports`` is what it was told by those who
    asked."""

    def __init__(
        self, root: Path, *, change: Callable[[bytes], bytes] = lambda log: log, secret: bytes = b""
    ) -> None:
        self._secret = secret
        files = StoreDirectory(root).log_files().files
        self.log = change(b"".join(file.path.read_bytes() for file in files))
        self.start = files[0].start
        self.file_size = files[0].length
        self.reports: list[int] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            with sock:
                self._send_to(sock)

    def _send_to(self, sock: socket.socket) -> None:
        side, log = (
            MasterSide(ReplicationSettings(batch_size=1000), 0.0),
            LogRange(self.start, self.start + len(self.log), self.file_size),
        )
        if self._secret:
            try:
                report = self._prove(sock)
            except ReplicationError:
                return
        else:
            report = sock.recv(8)
        self.reports.append(int.from_bytes(report, "big"))
        try:
            side.receive(report, log, 0.0)
        except ReplicationError:
            return
        while (wanted := side.wanted(log, 5000)) is not None:
            try:
                data = self.log[wanted[0] - self.start : sum(wanted) - self.start]
                sock.sendall(b"".join(side.batches(data, 0.0)))
            except OSError:
                return

    def _prove(self, sock: socket.socket) -> bytes:
        handshake = MasterHandshake(self._secret, b"n" * 16)
        while not handshake.done:
            sock.sendall(handshake.receive(sock.recv(100)))
        return handshake.rest or sock.recv(8)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@contextmanager
def replica_of(root: Path, **more: Any) -> Iterator[Replica]:
    replica = Replica(root, **more)
    thread = threading.Thread(target=replica.serve)
    thread.start()
    try:
        yield replica
    finally:
        replica.close()
        thread.join()
