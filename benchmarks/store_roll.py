"""The longest stall of the event loop while 64 senders fill commit log files of 64 MiB: at the file
rolls, and at any time.

A task that only ticks measures it. To a roll belong the tick in which the log went to its next
file, the one before, and the ticks of the tenth of a second after, in which the file that follows
is made. The floor: the same with senders that copy as many bytes into memory of their own. On a
machine with other work both wait for a processor; what is left of a stall without that (Linux tells
how long a thread was ready to run and did not) is what the store, its disk and its other threads
caused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from .harness.figures import Row
from .store_common import QUEUES, open_store, put, row

SENDERS = 64
FILE = 64 << 20
BODY = bytes(4096)
FILES = 6
PAUSE_SECONDS = 0.002
TICK_SECONDS = 0.0005

_SCHEDSTAT = Path("/proc/thread-self/schedstat")
_HAS_SCHEDSTAT = _SCHEDSTAT.exists()

AFTER_ROLL_SECONDS = 0.1


def run(folder: Path, count: int) -> list[Row]:
    """Milliseconds."""
    runs, floors = [], []
    for number in range(
        count
    ):  # in turn: the machine may have other work in one minute and none in the next
        runs.append(asyncio.run(_filled(folder / f"roll{number}")))
        floors.append(asyncio.run(_copied()))
    rows = []
    for what in runs[0]:
        ours, floor = ([each[what] * 1000 for each in of] for of in (runs, floors))
        rows.append(
            row(
                f"{what}, {FILES} files of 64 MiB filled",
                "ms",
                ours,
                floor,
                "senders that only copy",
            )
        )
    return rows


async def _filled(root: Path) -> dict[str, float]:
    store = open_store(root, mapped_file_size_commit_log=FILE, message_index_enable=True)
    services = asyncio.ensure_future(store.run())
    for queue_id in range(QUEUES):
        put(store, queue_id, BODY)
    while store._indexing.waits or store._log.spare is None:  # noqa: ASYNC110  # making the first files is no part of this
        await asyncio.sleep(0.1)
    stalls = await _measured(
        lambda number: put(store, number % QUEUES, BODY) < FILES * FILE, lambda: store._log.base
    )
    services.cancel()
    await asyncio.wait([services])
    store.close()
    return stalls


async def _copied() -> dict[str, float]:
    memory = bytearray(FILE)
    left = [FILES * FILE // len(BODY)]

    def copy(number: int) -> bool:
        left[0] -= 1
        at = left[0] * len(BODY) % FILE
        memory[at : at + len(BODY)] = BODY
        return left[0] > 0

    return await _measured(copy, lambda: (FILES * FILE // len(BODY) - left[0]) * len(BODY) // FILE)


async def _measured(send: Callable[[int], bool], file: Callable[[], int]) -> dict[str, float]:
    """Seconds by what they are; ``file`` tells which file is written to."""
    ticks: list[_Tick] = []
    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(_tick(ticks, file))
        senders = [group.create_task(_sender(send, number)) for number in range(SENDERS)]
        await asyncio.wait(senders)
        ticking.cancel()
    rolls = list(_at_rolls(ticks))
    stalls = sorted(tick.stall for tick in ticks)
    measured = {
        "longest stall at a roll": max(tick.stall for tick in rolls),
        "longest stall": stalls[-1],
        "99.9 % of the stalls are shorter": stalls[-1 - len(stalls) // 1000],
    }
    if _HAS_SCHEDSTAT:
        measured["longest stall at a roll without waiting for a processor"] = max(
            tick.own for tick in rolls
        )
        measured["longest stall without waiting for a processor"] = max(tick.own for tick in ticks)
    return measured


class _Tick(NamedTuple):
    """All in seconds."""

    end: float
    stall: float
    own: float
    """Without waiting for a processor."""
    rolled: bool


def _at_rolls(ticks: list[_Tick]) -> Iterator[_Tick]:
    until = 0.0
    for before, tick in pairwise(ticks):
        if tick.rolled:
            until = tick.end + AFTER_ROLL_SECONDS
            yield before
        if tick.rolled or tick.end - tick.stall < until:
            yield tick


async def _tick(ticks: list[_Tick], file: Callable[[], int]) -> None:
    while True:
        begin, waited, at = time.perf_counter(), _waited_seconds(), file()
        await asyncio.sleep(TICK_SECONDS)
        end = time.perf_counter()
        stall = end - begin - TICK_SECONDS
        ticks.append(_Tick(end, stall, stall - (_waited_seconds() - waited), file() != at))


def _waited_seconds() -> float:
    """How long this thread was ready to run and had no processor; 0 where the system does not
    tell."""
    try:
        return int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except OSError:
        return 0.0


async def _sender(send: Callable[[int], bool], number: int) -> None:
    while send(number):  # noqa: ASYNC110  # nothing is waited for
        await asyncio.sleep(PAUSE_SECONDS)
