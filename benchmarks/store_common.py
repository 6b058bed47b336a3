"""What the benchmarks of the store share: a store in a folder, messages for it, rounds, and rows of
figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import encode_properties, tags_code_of
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.put import PutMessage

from .harness.figures import Row, figure

HOST = pack_host("127.0.0.1", 10911)
TOPIC = "TopicTest"
QUEUES = 4
PROPERTIES = encode_properties(
    {"UNIQ_KEY": "7F0000010000" + "0" * 20, "TAGS": "TagA", "CLUSTER": "DefaultCluster"}
)
TAGS_CODE = tags_code_of(PROPERTIES)


def open_store(directory: Path, **settings: Any) -> MessageStore:
    """Without index, unless it is asked for."""
    settings.setdefault("message_index_enable", False)
    config = MessageStoreConfig(store_path_root_dir=str(directory), **settings)
    return MessageStore.open(config, SystemClock(), store_host=HOST)


def put(
    store: MessageStore, queue_id: int, body: bytes | memoryview, properties: bytes = PROPERTIES
) -> int:
    """Store one message; where its record ends."""
    now = time.time_ns() // 1_000_000
    result = store.put_message(
        PutMessage(TOPIC, queue_id, body, properties, HOST, now, now, TAGS_CODE)
    )
    if not result.size:
        raise SystemExit(f"the store refuses messages: {result}")
    return result.phy_offset + result.size


def touch_ahead(store: MessageStore) -> None:
    """What AllocationService does in its thread."""
    log = store._log
    if log.current is not None:
        log.current.reserve(log.current.size)
        log.current.touch(log.position, min(log.position + (64 << 20), log.current.size))
        log.allocation_made()


def rounds(count: int, work: Callable[[], float]) -> list[float]:
    """The results of several rounds."""
    return [work() for _ in range(count)]


def timed(count: int, work: Callable[[int], None]) -> float:
    """Microseconds for each of ``count`` things."""
    begin = time.perf_counter_ns()
    work(count)
    return (time.perf_counter_ns() - begin) / 1000 / count


def row(
    what: str,
    unit: str,
    ours: list[float],
    floor: list[float] | None = None,
    floor_is: str = "",
    *,
    more: bool = False,
) -> Row:
    """One line of a table; ``floor`` is what the machine can do at best, in the same run. ``more``:
    the better."""
    figures = {"value": figure(unit, ours, floor, more_is_better=more)}
    return Row(benchmark="", name=what, figures=figures, floor_is=floor_is)
