"""Writes down what clients saw. Times are those of the monotonic clock, from the beginning on."""

from __future__ import annotations

import itertools
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from aiorocketmq import MessageExt, SendResult
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from ..histories.events import Again, Ends, Event, Fail, Invoke, Ok, Read, Unknown, to_lines

_MOST_PADDING: Final = 400


def body_of(content: str) -> bytes:
    """A body of some length that can be checked, and tells its content."""
    text = content.encode() + b"|"
    return text + (text * (zlib.crc32(text) % _MOST_PADDING))[: zlib.crc32(text) % _MOST_PADDING]


def content_of(body: bytes) -> str:
    """Back; of a body that nobody has sent, what tells it apart."""
    content = body.partition(b"|")[0].decode(errors="replace")
    return content if body == body_of(content) else f"damaged {zlib.crc32(body):08x}"


def name_of(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"


class Recorder:
    """The history so far. What is read again, and is as before, is not written down again."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, journal: BinaryIO | None = None
    ) -> None:
        """``journal``: has each event as soon as it happens."""
        self.events: list[Event] = []
        self.acknowledged = 0
        self.failed = 0
        self._clock = clock
        self._journal = journal
        self._began = clock()
        self._began_wall = time.time()
        self._ops = itertools.count()
        self._read: dict[tuple[str, int], str] = {}

    @property
    def now(self) -> float:
        return round(self._clock() - self._began, 6)

    def at(self, wall_s: float) -> float:
        """What logs have as the system's time, in the history's."""
        return wall_s - self._began_wall

    def add(self, event: Event) -> None:
        """It happens now."""
        self.events.append(event)
        if self._journal is not None:
            self._journal.write(to_lines([event]))

    def invoke(
        self, producer: str, topic: str, queue: MessageQueue | None, *, once: bool = False
    ) -> tuple[int, str]:
        """A send begins; its number, and what it has to send. ``once``: further
        attempts are told of."""
        op = next(self._ops)
        content = f"{producer}-{op}"
        self.add(
            Invoke(
                at=self.now,
                op=op,
                producer=producer,
                content=content,
                queue=name_of(queue) if queue is not None else None,
                topic=topic,
                once=once,
            )
        )
        return op, content

    def again(self, op: int) -> None:
        """A further attempt of the same send."""
        self.add(Again(at=self.now, op=op))

    def ok(self, op: int, result: SendResult) -> None:
        self.acknowledged += 1
        place = name_of(result.queue)
        self.add(Ok(at=self.now, op=op, queue=place, offset=result.queue_offset))

    def fail(self, op: int) -> None:
        self.failed += 1
        self.add(Fail(at=self.now, op=op))

    def unknown(self, op: int) -> None:
        self.failed += 1
        self.add(Unknown(at=self.now, op=op))

    def read(self, observer: str, message: MessageExt, queue_id: int) -> None:
        queue = f"{message.broker_name}/{queue_id}"
        content = content_of(message.body)
        place = queue, message.queue_offset
        if self._read.setdefault(place, "") != content:
            self._read[place] = content
            self.add(
                Read(
                    at=self.now,
                    observer=observer,
                    queue=queue,
                    offset=message.queue_offset,
                    content=content,
                )
            )

    def ends(self, node: str, queue: str, offset: int, *, began: float) -> None:
        """It was asked at ``began``, and answers now."""
        self.add(Ends(at=self.now, began=began, node=node, queue=queue, offset=offset))

    def save(self, path: Path) -> None:
        path.write_bytes(to_lines(self.events))
