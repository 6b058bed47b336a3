"""What one put costs in the store alone, next to a bare copy of as many bytes into the same
mapping."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.put import PutBatch

from .harness.figures import Row
from .store_common import (
    HOST,
    PROPERTIES,
    QUEUES,
    TAGS_CODE,
    TOPIC,
    open_store,
    put,
    rounds,
    row,
    timed,
    touch_ahead,
)

BATCH = 16
FLOOR = "memcpy into the same mapping"


def run(folder: Path, count: int) -> list[Row]:
    """Microseconds per message; pages are touched ahead as the running store does it."""
    store = open_store(folder / "append")
    for queue_id in range(QUEUES):
        put(store, queue_id, b"")
    rows = [
        _measured(store, "put, 128 bytes", 60_000, _puts(store, 128), count, _record_size(128)),
        _measured(store, "put, 1 KiB", 30_000, _puts(store, 1024), count, _record_size(1024)),
        _measured(
            store,
            f"put, batches of {BATCH} x 128 bytes",
            60_000,
            _batches(store),
            count,
            _record_size(128),
        ),
    ]
    store.close()
    return rows


def _measured(
    store: MessageStore,
    what: str,
    messages: int,
    work: Callable[[int], None],
    count: int,
    size: int,
) -> Row:
    def one() -> float:
        touch_ahead(store)
        return timed(messages, work)

    ours = rounds(count, one)
    floor = rounds(count, lambda: timed(messages, _copies(store, size)))
    return row(what, "µs/message", ours, floor, FLOOR)


def _record_size(body: int) -> int:
    return 91 + body + len(TOPIC) + len(PROPERTIES)


def _puts(store: MessageStore, size: int) -> Callable[[int], None]:
    body, now = memoryview(bytes(size)), time.time_ns() // 1_000_000

    def work(count: int) -> None:
        put_fields = store.put_fields
        for number in range(count):
            put_fields(TOPIC, number & (QUEUES - 1), body, PROPERTIES, HOST, now, now, TAGS_CODE)

    return work


def _batches(store: MessageStore) -> Callable[[int], None]:
    batch, now = (
        encode_batch([BatchItem(0, bytes(128), PROPERTIES)] * BATCH),
        time.time_ns() // 1_000_000,
    )

    def work(count: int) -> None:
        for _ in range(count // BATCH):
            store.put_batch(
                PutBatch(
                    topic="BatchTest",
                    queue_id=0,
                    items=batch,
                    born_host=HOST,
                    born_timestamp=now,
                    store_timestamp=now,
                )
            )

    return work


def _copies(store: MessageStore, size: int) -> Callable[[int], None]:
    """Over pages that the puts are about to use: they are there."""
    log = store._log
    touch_ahead(store)
    buffer, start, record = log.buffer, log.position, bytes(size)
    capacity = (48 << 20) // size

    def work(count: int) -> None:
        for number in range(count):
            at = start + number % capacity * size
            buffer[at : at + size] = record

    return work
