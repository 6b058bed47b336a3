"""``python -m tests.simulation.idle``: how many seconds pass in a cluster that nobody uses for one
of CPU. What wakes up for nothing shows here."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from aiorocketmq.store.model.config import FlushDiskType

from .seeds import SHAPES, brokers
from .world import World

BEGIN_S: Final = 10.0
"""Until everybody knows everybody."""
SECONDS: Final = 600.0


def idle(shape: str) -> float:
    """Simulated seconds per second of CPU. In a process of its own (``seeds.py``)."""
    gc.disable()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        world, cpu_s = World(1, Path()), 0.0

        async def story() -> None:
            nonlocal cpu_s
            for machine in [
                *world.name_servers(),
                *brokers(world, shape, FlushDiskType.ASYNC_FLUSH),
            ]:
                machine.start()
            await asyncio.sleep(BEGIN_S)
            began = time.process_time()
            await asyncio.sleep(SECONDS)
            cpu_s = time.process_time() - began
            for machine in reversed(world.machines.values()):
                await machine.stop(60)

        world.run(story())
    return SECONDS / cpu_s


def main() -> None:
    """One line for each shape."""
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for shape, found in zip(SHAPES, pool.imap(idle, SHAPES), strict=True):
            print(f"{shape}: {found:,.0f} simulated seconds per second of CPU", flush=True)


if __name__ == "__main__":
    main()
