"""Every text file below this folder is a test: ``README.md`` says how one is written."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from ..sim import ManualClock
from .drivers.cluster import ClusterDriver
from .drivers.delay import DelayDriver
from .drivers.elections import ElectionDriver
from .drivers.locks import LockDriver
from .drivers.longpolling import LongPollingDriver
from .drivers.namesrv import NamesrvDriver
from .drivers.offsets import OffsetDriver
from .drivers.rebalance import RebalanceDriver
from .drivers.replication import ReplicationDriver
from .drivers.retry import RetryDriver
from .drivers.simulated import SimulatedLoop
from .drivers.transactions import TransactionDriver
from .language import Driver, ScenarioError, play

HERE: Final = Path(__file__).parent
DRIVERS: Final[dict[str, type[Driver]]] = {
    "delay": DelayDriver,
    "elections": ElectionDriver,
    "failover": ClusterDriver,
    "locks": LockDriver,
    "longpolling": LongPollingDriver,
    "members": ClusterDriver,
    "namesrv": NamesrvDriver,
    "offsets": OffsetDriver,
    "ordered": ClusterDriver,
    "rebalance": RebalanceDriver,
    "replication": ReplicationDriver,
    "retry": RetryDriver,
    "transactions": TransactionDriver,
}
"""Whose steps the files of a folder are written in."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that is possible: what a scenario syncs has nobody to survive for."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, id=str(p.relative_to(HERE))) for p in sorted(HERE.glob("*/*.txt"))],
)
def test_scenario(path: Path, folder: Path) -> None:
    async def run(clock: ManualClock) -> None:
        async with AsyncExitStack() as stack:
            driver = DRIVERS[path.parent.name](folder, stack, clock)
            await driver.start()
            short = Path(os.path.relpath(path))
            await play(short, driver, rewrite=bool(os.environ.get("REWRITE")))

    problem = ""
    try:
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            loop, clock = runner.get_loop(), ManualClock()
            assert isinstance(loop, SimulatedLoop)
            loop.clock = clock
            runner.run(run(clock))
    except ScenarioError as error:
        problem = "\n".join([str(error), *getattr(error, "__notes__", [])])
    if problem:
        pytest.fail(problem, pytrace=False)
