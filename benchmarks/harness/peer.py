"""A connection that asks one thing after the other, blocking: what benchmarks use to prepare and to
look."""

from __future__ import annotations

import socket
import struct
import time
from typing import Self

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import QueueRequest
from aiorocketmq.remoting.protocol.commands.topic import CreateTopicRequest
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, decode_header
from aiorocketmq.remoting.protocol.wire import Record

from .figures import BenchmarkError
from .frames import QUEUES, TOPIC, request

_TIMEOUT_S = 60.0
_PREFIX = struct.Struct(">II")


class Peer:
    """Also a context manager. Raises ``BenchmarkError`` for what the server refuses, ``OSError``
    when it is gone."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._sock.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self._sock.close()

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def receive(self) -> tuple[RemotingCommand, bytes]:
        """The next frame: header and body."""
        prefix = self._file.read(8)
        if len(prefix) < 8:
            raise BenchmarkError("the server closed the connection")
        total, mark = _PREFIX.unpack(prefix)
        header_length = mark & 0xFFFFFF
        header = self._file.read(header_length)
        return decode_header(mark >> 24, header), self._file.read(total - 4 - header_length)

    def ask(
        self, code: RequestCode, header: Record, body: bytes = b""
    ) -> tuple[RemotingCommand, bytes]:
        """One request that has to succeed."""
        self.send(request(code, header, body, 1))
        answer, found = self.receive()
        if answer.code:
            raise BenchmarkError(f"{code.name} is refused: {answer.code} {answer.remark}")
        return answer, found

    def create_topic(self, topic: str = TOPIC, queues: int = QUEUES) -> None:
        header = CreateTopicRequest(
            topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )  # fmt: skip
        self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    def max_offset(self, queue_id: int, topic: str = TOPIC) -> int:
        answer, _ = self.ask(
            RequestCode.GET_MAX_OFFSET, QueueRequest(topic=topic, queue_id=queue_id)
        )
        return int((answer.ext_fields or {})["offset"])


def until_listening(port: int, seconds: float = 60.0) -> None:
    """Return when something listens on the port. Raises ``BenchmarkError``."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise BenchmarkError(
                    f"nothing listens on port {port} after {seconds:.0f} s"
                ) from None
            time.sleep(0.01)
