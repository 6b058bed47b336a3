"""What one pull of 32 messages costs in the store alone, next to a bare copy of as many bytes out
of the same mapping."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from aiorocketmq.store.message_store import MessageStore

from .harness.figures import Row
from .store_common import QUEUES, TOPIC, open_store, put, rounds, row, timed

WANTED = 32
PULLS = 3_000
BODY = bytes(128)


def run(folder: Path, count: int) -> list[Row]:
    """Microseconds per pull."""
    rows = []
    for what, queues in (
        ("records side by side", 1),
        (f"records of {QUEUES} queues mixed", QUEUES),
    ):
        store = open_store(folder / f"pull{queues}")
        for number in range(40_000):
            put(store, number % queues, BODY)
        size = len(store.get(TOPIC, 0, 0, WANTED).body)
        ours = rounds(count, partial(timed, PULLS, _pulls(store, queues)))
        floor = rounds(count, partial(timed, PULLS, _copies(store, size)))
        rows.append(
            row(f"pull of {WANTED}, {what}", "µs/pull", ours, floor, f"one slice of {size} bytes")
        )
        store.close()
    return rows


def _pulls(store: MessageStore, queues: int) -> Callable[[int], None]:
    last = store.max_offset(TOPIC, 0) - WANTED

    def work(count: int) -> None:
        get = store.get
        for number in range(count):
            get(TOPIC, number % queues, number * WANTED % last, WANTED)

    return work


def _copies(store: MessageStore, size: int) -> Callable[[int], None]:
    buffer, last = store._log.buffer, store._log.position - size

    def work(count: int) -> None:
        for number in range(count):
            at = number * size % last
            bytes(buffer[at : at + size])

    return work
