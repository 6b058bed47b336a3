"""The longest stall of the event loop while 64 senders fill commit log files of 64 MiB, over many file ends.

A task that only ticks measures it. The floor: the same with senders that copy as many bytes into memory of their own. On a
machine with other work both wait for a processor; what is left of a stall without that (Linux tells how long a thread was
ready to run and did not) is what the store, its disk and its other threads caused.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from .store_common import QUEUES, Row, open_store, put, row

SENDERS = 64
FILE = 64 << 20
BODY = bytes(4096)
FILES = 6
PAUSE_SECONDS = 0.002
TICK_SECONDS = 0.0005

_SCHEDSTAT = Path("/proc/thread-self/schedstat")

Stalls = tuple[float, float, float]
"""The longest stall in seconds, the 99.9th percentile, the longest one without waiting for a processor."""


def run(folder: Path, count: int) -> list[Row]:
    """Milliseconds."""
    runs, floors = [], []
    for number in range(count):  # in turn: the machine may have other work in one minute and none in the next
        runs.append(asyncio.run(_filled(folder / f"roll{number}")))
        floors.append(asyncio.run(_copied()))
    rows = []
    measured = ["longest stall", "99.9 % of the stalls are shorter", "longest stall without waiting for a processor"]
    for place, what in enumerate(measured if _SCHEDSTAT.exists() else measured[:2]):
        ours, floor = ([each[place] * 1000 for each in of] for of in (runs, floors))
        rows.append(
            row(
                f"{what}, {FILES} files of 64 MiB filled",
                "ms",
                {"best": min(ours), "median": statistics.median(ours)},
                {"best": min(floor), "median": statistics.median(floor)},
                "senders that only copy",
            )
        )
    return rows


async def _filled(root: Path) -> Stalls:
    store = open_store(root, mapped_file_size_commit_log=FILE, message_index_enable=True)
    services = asyncio.ensure_future(store.run())
    for queue_id in range(QUEUES):
        put(store, queue_id, BODY)
    while store._indexing.waits or store._log.spare is None:  # noqa: ASYNC110  # making the first files is no part of this
        await asyncio.sleep(0.1)
    stalls = await _measured(lambda number: put(store, number % QUEUES, BODY) < FILES * FILE)
    services.cancel()
    await asyncio.wait([services])
    store.close()
    return stalls


async def _copied() -> Stalls:
    memory = bytearray(FILE)
    left = [FILES * FILE // len(BODY)]

    def copy(number: int) -> bool:
        left[0] -= 1
        at = left[0] * len(BODY) % FILE
        memory[at : at + len(BODY)] = BODY
        return left[0] > 0

    return await _measured(copy)


async def _measured(send: Callable[[int], bool]) -> Stalls:
    stalls: list[tuple[float, float]] = []
    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(_tick(stalls))
        senders = [group.create_task(_sender(send, number)) for number in range(SENDERS)]
        await asyncio.wait(senders)
        ticking.cancel()
    stalls.sort()
    return stalls[-1][0], stalls[-1 - len(stalls) // 1000][0], max(own for _, own in stalls)


async def _tick(stalls: list[tuple[float, float]]) -> None:
    while True:
        begin, waited = time.perf_counter(), _waited_seconds()
        await asyncio.sleep(TICK_SECONDS)
        stall = time.perf_counter() - begin - TICK_SECONDS
        stalls.append((stall, stall - (_waited_seconds() - waited)))


def _waited_seconds() -> float:
    """How long this thread was ready to run and had no processor; 0 where the system does not tell."""
    try:
        return int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except OSError:
        return 0.0


async def _sender(send: Callable[[int], bool], number: int) -> None:
    while send(number):  # noqa: ASYNC110  # nothing is waited for
        await asyncio.sleep(PAUSE_SECONDS)
