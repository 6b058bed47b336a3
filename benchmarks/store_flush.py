"""Sync flush: how long a message waits until it is on the disk, with 1, 8 and 64 that wait at a
time, next to a bare loop of one write and one fdatasync for each message.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from pathlib import Path

from aiorocketmq.store.message_store import MessageStore

from .harness.figures import Row
from .store_common import QUEUES, open_store, put, row

WAITERS = (1, 8, 64)
SECONDS = 1.0
BODY = bytes(1024)


def run(folder: Path, count: int) -> list[Row]:
    """Milliseconds from put to answer (median of a run), and messages per second."""
    rows = []
    root = folder / "flush"
    for waiters in WAITERS:
        runs = [asyncio.run(_one_run(root, waiters)) for _ in range(count)]
        floors = [_bare(folder / "bare") for _ in range(count)]
        for place, (unit, factor) in enumerate((("ms", 1000.0), ("messages/s", 1.0))):
            ours, least = ([each[place] * factor for each in of] for of in (runs, floors))
            what = f"sync flush, {waiters} waiting, {unit}"
            rows.append(
                row(what, unit, ours, least, "pwrite + fdatasync for each", more=unit != "ms")
            )
    return rows


async def _one_run(root: Path, waiters: int) -> tuple[float, float]:
    store = open_store(root)
    services = asyncio.ensure_future(store.run())
    await asyncio.sleep(0.1)
    waits: list[float] = []
    until = time.perf_counter() + SECONDS
    async with asyncio.TaskGroup() as group:
        for number in range(waiters):
            group.create_task(_sender(store, number % QUEUES, until, waits))
    services.cancel()
    await asyncio.wait([services])
    store.close()
    return statistics.median(waits), len(waits) / SECONDS


async def _sender(store: MessageStore, queue_id: int, until: float, waits: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while (begin := time.perf_counter()) < until:
        flushed: asyncio.Future[bool] = loop.create_future()
        store.flush.when_flushed(put(store, queue_id, BODY), flushed.set_result)
        assert await flushed
        waits.append(time.perf_counter() - begin)


def _bare(path: Path) -> tuple[float, float]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.posix_fallocate(fd, 0, 64 << 20)
    data, waits, at = bytes(len(BODY) + 200), [], 0
    begin = time.perf_counter()
    while (now := time.perf_counter()) < begin + SECONDS / 2:
        os.pwrite(fd, data, at)
        os.fdatasync(fd)
        at += len(data)
        waits.append(time.perf_counter() - now)
    os.close(fd)
    path.unlink()
    return statistics.median(waits), len(waits) / (SECONDS / 2)
