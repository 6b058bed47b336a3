"""The player in Python, for machines without a compiler: the same exchanges, several times slower.

Frames are sent as they are, so unique keys come again. Answers are cut and their code is looked at,
and nothing else.
"""

from __future__ import annotations

import re
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame

from .figures import BenchmarkError
from .play import FIRST_OPAQUE, Frames, Played

_CODE = re.compile(rb'"code":(\d+)')
_OPAQUE = re.compile(rb'"opaque":(\d+)')
_ID = re.compile(rb'"msgId":"[0-9A-F]{16}([0-9A-F]{16})"')
_OFFSET = re.compile(rb'"queueOffset":"?(\d+)')
_END_OPAQUE = 99_998
_NOT_YET = (19, 20)
_PATIENCE_S = 10.0
_QUEUE_OFFSET, _BODY = struct.Struct(">q"), struct.Struct("=q")


class _Answer(NamedTuple):
    code: int
    opaque: int
    header: bytes
    body: bytes


class _Connection:
    def __init__(self, port: int, number: int, first: int) -> None:
        try:
            self.sock = socket.create_connection(("127.0.0.1", port), timeout=10)
        except OSError as error:
            raise BenchmarkError(f"cannot connect to port {port}: {error}") from None
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.number = number
        self.next = first
        self.offset = 0
        self.sent_at: dict[int, float] = {}
        self.unsent = b""
        self._decoder = FrameDecoder()

    def write(self, data: bytes) -> None:
        data = self.unsent + data
        try:
            sent = self.sock.send(data) if data else 0
        except BlockingIOError:
            sent = 0
        self.unsent = data[sent:]

    def read(self) -> list[_Answer]:
        try:
            data = self.sock.recv(1 << 20)
        except BlockingIOError:
            return []
        if not data:
            raise BenchmarkError("the server closed the connection")
        return [
            _answer(form, header, bytes(body)) for form, header, body in self._decoder.feed(data)
        ]


def _answer(serialize_type: int, header: bytes, body: bytes) -> _Answer:
    if serialize_type == 1:
        code, _, _, opaque = struct.unpack_from(">hbhi", header)
        return _Answer(code, opaque, header, body)
    code_at, opaque_at = _CODE.search(header), _OPAQUE.search(header)
    if code_at is None or opaque_at is None:
        raise BenchmarkError(f"an answer that cannot be read: {header[:200]!r}")
    return _Answer(int(code_at[1]), int(opaque_at[1]), header, body)


class PythonPlayer:
    """See ``play.Player``."""

    def __init__(self, port: int, connections: int, frames: Frames) -> None:
        """Raises ``BenchmarkError`` when the server cannot be reached."""
        self._frames = frames
        self._connections = [
            _Connection(port, n, n * len(frames.frames) // connections) for n in range(connections)
        ]
        self._by_fileno = {each.sock.fileno(): each for each in self._connections}
        self._poll = select.epoll()
        for fileno in self._by_fileno:
            self._poll.register(fileno, select.EPOLLIN)
        self._started = False
        self._sent = self._received = 0
        self._reset()

    def close(self) -> None:
        self._poll.close()
        for each in self._connections:
            each.sock.close()

    def play(self, window: int, seconds: float, *, awake: bool = False) -> Played:
        start = self._begin(window)
        timeout = 0.0 if awake else _PATIENCE_S
        while time.monotonic() < start + seconds:
            for connection, answers in self._ready(timeout):
                for answer in answers:
                    self._expected(connection, answer)
                    self._messages += self._frames.messages_each or _records(answer.body)
                connection.write(b"".join([self._next_frame(connection) for _ in answers]))
        return self._played(start)

    def transact(self, end_format: str, oneway: bool, seconds: float) -> Played:
        start = self._begin(1)
        ending = end_format.replace("%llu", "%d")
        while time.monotonic() < start + seconds:
            for connection, answers in self._ready():
                for answer in answers:
                    is_end = answer.opaque == _END_OPAQUE
                    if is_end:
                        self._answers += 1
                        self._errors += answer.code != 0
                    elif self._expected(connection, answer):
                        connection.write(_end(ending, answer))
                    if is_end or oneway:
                        self._messages += 1
                        connection.write(self._next_frame(connection))
        return self._played(start)

    def relay(
        self,
        senders: int,
        offsets: Sequence[int],
        pull_format: str,
        rate: float,
        window: int,
        seconds: float,
    ) -> Played:
        start = self._begin(0)
        pulling = pull_format.replace("%llu", "%d")
        first = self._sent
        readers = self._connections[senders:]
        if not any(reader.offset for reader in readers) and not first:
            for place, reader in enumerate(readers):
                reader.offset = offsets[place]
                reader.write(_pull(pulling, place, reader))
        while (now := time.monotonic()) < start + seconds or (
            self._received < self._sent and now < start + seconds + 2
        ):
            if now < start + seconds:
                due = first + int((now - start) * rate) + 1 if rate else self._received + window
                for number in range(self._sent, due):
                    at = start + (number - first) / rate if rate else now
                    self._send_stamped(self._connections[number % senders], at)
                self._sent = max(due, self._sent)
            for connection, answers in self._ready(0.0005):
                for answer in answers:
                    self._errors += answer.code not in (0, *_NOT_YET)
                    if connection.number >= senders:
                        if answer.code == 0:
                            self._take(connection, answer.body, start)
                        connection.write(_pull(pulling, connection.number - senders, connection))
        problem = (
            "messages did not arrive within two seconds" if self._received < self._sent else ""
        )
        return self._played(start, problem)

    # --- inside
    # ----------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        self._answers = self._messages = self._errors = 0
        self._times: list[float] = []

    def _begin(self, window: int) -> float:
        self._reset()
        if not self._started:
            self._started = True
            for each in self._connections:
                each.write(b"".join([self._next_frame(each) for _ in range(window)]))
        return time.monotonic()

    def _next_frame(self, connection: _Connection) -> bytes:
        place = connection.next
        connection.next = (place + 1) % len(self._frames.frames)
        connection.sent_at[FIRST_OPAQUE + place] = time.monotonic()
        return self._frames.frames[place]

    def _ready(self, timeout: float = _PATIENCE_S) -> list[tuple[_Connection, list[_Answer]]]:
        found = [self._by_fileno[fileno] for fileno, _ in self._poll.poll(timeout)]
        if not found and timeout > 1:
            raise BenchmarkError("no answer for ten seconds")
        for each in found:
            each.write(b"")
        return [(each, each.read()) for each in found]

    def _expected(self, connection: _Connection, answer: _Answer) -> bool:
        opaque = answer.opaque or next(
            iter(connection.sent_at), 0
        )  # the floor in Python says 0: the oldest is meant
        sent = connection.sent_at.pop(opaque, None)
        self._answers += 1
        if sent is None or answer.code != 0:
            self._errors += 1
            return False
        self._times.append(time.monotonic() - sent)
        return True

    def _send_stamped(self, connection: _Connection, at: float) -> None:
        frame = bytearray(self._next_frame(connection))
        body = 8 + (int.from_bytes(frame[4:8], "big") & 0xFFFFFF)
        _BODY.pack_into(frame, body, int(at * 1e9))
        connection.write(bytes(frame))

    def _take(self, connection: _Connection, body: bytes, start: float) -> None:
        now, place = time.monotonic_ns(), 0
        while place < len(body):
            connection.offset = _QUEUE_OFFSET.unpack_from(body, place + 20)[0] + 1
            sent = _BODY.unpack_from(body, place + 88)[0]
            self._received += 1
            if sent >= int(start * 1e9):
                self._times.append((now - sent) / 1e9)
                self._messages += 1
            place += int.from_bytes(body[place : place + 4], "big")

    def _played(self, start: float, problem: str = "") -> Played:
        seconds, times = time.monotonic() - start, sorted(self._times) or [0.0]
        p50, p99, p999 = (
            times[min(len(times) - 1, int(len(times) * share))] * 1e6
            for share in (0.5, 0.99, 0.999)
        )
        return Played(self._answers, self._messages, self._errors, seconds, p50, p99, p999, problem)


def _records(body: bytes) -> int:
    count = place = 0
    while place < len(body):
        place += int.from_bytes(body[place : place + 4], "big")
        count += 1
    return count


def _end(ending: str, answer: _Answer) -> bytes:
    found, offset = _ID.search(answer.header), _OFFSET.search(answer.header)
    if found is None or offset is None:
        raise BenchmarkError(f"an answer without msgId: {answer.header[:200]!r}")
    return encode_frame(0, (ending % (int(found[1], 16), int(offset[1]))).encode())


def _pull(pulling: str, queue_id: int, connection: _Connection) -> bytes:
    return encode_frame(0, (pulling % (queue_id, connection.offset)).encode())
