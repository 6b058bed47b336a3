"""What the senders of ``benchmarks.soak`` were told, held against what the broker has.

A stream sends numbers 0, 1, 2, ... to one queue, in single messages or in batches, and goes on only
after an answer: what has none is sent again after the restart. So in its queue the numbers rise one
by one; after a kill the last few may stand there twice. A number that is missing was acknowledged
and lost. Any other order is a violation.
"""

from __future__ import annotations

import struct
from typing import Final

from aiorocketmq import MessageExt

HEAD: Final = struct.Struct(">IIQ")
"""Start of a body: number of the stream, its size, number of the message."""


class SendStream:
    """One sender; not more than one request of it is under way."""

    def __init__(self, stream_id: int, queue_id: int, batch: int) -> None:
        self.stream_id = stream_id
        self.queue_id = queue_id
        self.batch = batch
        """Messages per request."""
        self.next_number = 0
        """Everything below is acknowledged."""

    def body(self, number: int, size: int) -> bytes:
        """What a message carries: who it is, then its number all over again, so that a torn one is
        seen."""
        return HEAD.pack(self.stream_id, size, number) + number.to_bytes(8, "big") * (size // 8)


class Ledger:
    """All streams, and what a pass over the queues has found."""

    def __init__(self, streams: list[SendStream]) -> None:
        self.streams = streams
        self.acknowledged = 0
        self.duplicated = 0
        self.lost = 0
        self.order_violations = 0
        self.problems: list[str] = []
        self.acknowledged_at: dict[tuple[int, int], tuple[int, int]] = {}
        """Queue and number in it to stream and number in that, of what was acknowledged since the
        last pass."""
        self._expected: dict[int, int] = {}
        self._next_offset: dict[int, int] = {}

    def acknowledge(self, stream: SendStream, queue_offset: int) -> None:
        """The broker has answered with the number in the queue of the first message of the
        request."""
        for step in range(stream.batch):
            self.acknowledged_at[stream.queue_id, queue_offset + step] = (
                stream.stream_id,
                stream.next_number + step,
            )
        stream.next_number += stream.batch
        self.acknowledged += stream.batch

    def begin(self) -> None:
        """A pass over all queues from their beginnings."""
        self.duplicated = 0
        self._expected = dict.fromkeys(range(len(self.streams)), 0)
        self._next_offset = {stream.queue_id: 0 for stream in self.streams}

    def next_offset(self, queue_id: int) -> int:
        """Where reading a queue goes on."""
        return self._next_offset[queue_id]

    def take(self, message: MessageExt) -> None:
        """The next message of a queue."""
        queue_id, offset = message.queue_id, message.queue_offset
        if offset != self._next_offset[queue_id]:
            self._violation(
                f"queue {queue_id}: message {offset} follows {self._next_offset[queue_id] - 1}"
            )
        self._next_offset[queue_id] = offset + 1
        stream_id, size, number = HEAD.unpack_from(message.body)
        stream = self.streams[stream_id]
        if message.body != stream.body(number, size) or stream.queue_id != queue_id:
            self._lose(1, f"queue {queue_id}: message {offset} is not what was sent")
        if self.acknowledged_at.pop((queue_id, offset), (stream_id, number)) != (stream_id, number):
            self._lose(
                1,
                f"queue {queue_id}: {offset} was acknowledged for another message than "
                f"{stream_id}:{number}",
            )
        expected = self._expected[stream_id]
        if number > expected:
            self._lose(
                number - expected, f"stream {stream_id}: {expected}..{number - 1} are missing"
            )
        elif expected - stream.batch <= number < expected:
            self.duplicated += 1
        elif number < expected:
            self._violation(f"stream {stream_id}: {number} comes after {expected - 1}")
        self._expected[stream_id] = max(expected, number + 1)

    def read(self) -> None:
        """All queues were read to their ends: nothing that was acknowledged may be missing
        there."""
        for stream in self.streams:
            if (missing := stream.next_number - self._expected[stream.stream_id]) > 0:
                self._lose(
                    missing,
                    f"stream {stream.stream_id}: the last {missing} of {stream.next_number} "
                    "are missing",
                )
        for (queue_id, offset), (stream_id, number) in self.acknowledged_at.items():
            self.problems.append(
                f"LOST: {stream_id}:{number}, acknowledged as {offset}; queue {queue_id} does not "
                "have it"
            )
        self.acknowledged_at.clear()

    def _lose(self, count: int, problem: str) -> None:
        self.lost += count
        self.problems.append(f"LOST: {problem}")

    def _violation(self, problem: str) -> None:
        self.order_violations += 1
        self.problems.append(f"ORDER: {problem}")
