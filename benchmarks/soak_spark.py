"""SIGKILL of a Spark driver in the middle of its work, again and again: nothing is lost, and
nothing is written twice.

``python -m benchmarks.soak_spark`` (a part of ``make soak``). Rows go into a topic all the time;
two streaming queries take them from there into Parquet files (an idempotent sink: each row must be
there once) and into another topic (each row must be there, and once after duplicates are dropped by
their ids). The process group of the driver, its Java and its Python workers, is killed at a random
moment: while it starts, or so and so many micro-batches later. At the end a last life takes the
rest.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

import click

from aiorocketmq import Message, Producer
from aiorocketmq.spark_connector.local import spark_problem
from examples.demo.daemons import Daemons, data_folder
from examples.demo.errors import DemoError
from examples.demo.program import run_program

from .command_line import HELP, KEEP, SEED, load, rounds
from .driver_process import PATIENCE_S, DriverProcess

TOPIC: Final = "SoakSpark"
COPY: Final = "SoakSparkCopy"
PER_SEND: Final = 20
_LOOK_EVERY_S: Final = 0.02
_SEND_EVERY_S: Final = 0.04
_STARTING_S: Final = 12.0


class Options(NamedTuple):
    """What can be asked for on the command line."""

    rounds: int
    seed: int
    load_s: float
    keep: Path | None


class Soak:
    """All rounds on one cluster."""

    def __init__(self, options: Options, namesrv: str, folder: Path) -> None:
        self.sent = 0
        self.kills = {"while it started": 0, "between micro-batches": 0, "in a micro-batch": 0}
        self.found: dict[str, int] = {}
        self.problems: list[str] = []
        self._options, self._namesrv, self._folder = options, namesrv, folder
        self._random = random.Random(options.seed)

    async def run(self) -> None:
        sending = asyncio.create_task(self._send())
        try:
            for _ in range(self._options.rounds):
                await self._one_life()
                if sending.done():
                    await sending  # raises: it ends in no other way
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        await self._driver("drain").to_the_end()
        self.found = json.loads((await self._driver("count").to_the_end()).splitlines()[-1])
        self._judge()

    def _driver(self, what: str) -> DriverProcess:
        return DriverProcess("benchmarks.soak_spark_driver", what, self._namesrv, self._folder)

    async def _send(self) -> None:
        """Numbers from 0 on; the ones below ``sent`` are acknowledged."""
        async with Producer("soak", namesrv=self._namesrv, retries=0, send_timeout=60) as producer:
            while True:
                await producer.send(
                    [Message(TOPIC, b"%d" % n) for n in range(self.sent, self.sent + PER_SEND)]
                )
                self.sent += PER_SEND
                await asyncio.sleep(_SEND_EVERY_S)

    async def _one_life(self) -> None:
        """Until some micro-batches after its start are committed and a bit more, or not even so
        long."""
        driver = self._driver("run")
        await driver.start()
        try:
            if self._random.random() < 0.2:
                await asyncio.sleep(self._random.uniform(0, _STARTING_S))
                self.kills["while it started"] += 1
                return
            wanted = self._done("commits") + self._random.randint(1, 6)
            deadline = time.monotonic() + PATIENCE_S
            while self._done("commits") < wanted:
                driver.check()
                if time.monotonic() > deadline:
                    raise DemoError(f"no micro-batch within {PATIENCE_S:.0f} s")
                await asyncio.sleep(_LOOK_EVERY_S)
            await asyncio.sleep(self._random.uniform(0, self._options.load_s))
            under_way = self._done("offsets") > self._done("commits")
            self.kills["in a micro-batch" if under_way else "between micro-batches"] += 1
        finally:
            await driver.kill()

    def _done(self, what: str) -> int:
        """Micro-batches of both queries that were begun (``offsets``) or are over (``commits``), in
        all lives."""
        folders = (self._folder / "checkpoints" / name / what for name in ("to files", "to topic"))
        names = (path.name for folder in folders if folder.is_dir() for path in folder.iterdir())
        return sum(name.isdigit() for name in names)

    def _judge(self) -> None:
        """A send whose answer was cut off at the end may have been stored, so up to so many more
        may be there."""
        for name in ("written", "copied", "copied_once"):
            rows, different, total = (
                self.found[f"{name}_{what}"] for what in ("rows", "different", "sum")
            )
            if different not in (self.sent, self.sent + PER_SEND):
                self.problems.append(f"{name}: {different:,} different rows of {self.sent:,}")
            if name != "copied" and rows != different:
                self.problems.append(f"{name}: {rows - different:,} rows twice")
            elif name != "copied" and total != different * (different - 1) // 2:
                self.problems.append(f"{name}: other rows than were sent")


async def soak(options: Options) -> int:
    """Run it; returns the exit code."""
    if (problem := spark_problem()) is not None:
        print(f"soak_spark is left out: {problem}")
        return 0
    started = time.monotonic()
    with data_folder(options.keep, keep=options.keep is not None) as folder:
        async with Daemons.started(folder, None, None) as daemons:
            run = Soak(options, daemons.namesrv_address, folder)
            await daemons.watch(run.run())
    found = run.found
    print(f"seed                {options.seed:>9}")
    kills = ", ".join(f"{name} {count}" for name, count in run.kills.items())
    print(
        f"kills               {sum(run.kills.values()):>9,}   {kills}; in "
        f"{time.monotonic() - started:.0f} s"
    )
    print(f"sent                {run.sent:>9,}")
    print(
        f"in the files        {found['written_rows']:>9,}   {found['written_different']:,} "
        "different"
    )
    print(
        f"in the other topic  {found['copied_rows']:>9,}   {found['copied_different']:,} different"
    )
    print(
        f"after dropping      {found['copied_once_rows']:>9,}   "
        f"{found['copied_once_different']:,} different"
    )
    for problem in run.problems:
        print(f"NOT GOOD: {problem}")
    return 1 if run.problems else 0


@click.command(context_settings=HELP)
@rounds(10)
@SEED
@load(0.5, "after a micro-batch")
@KEEP
def main(rounds: int, seed: int, load_s: float, keep: Path | None) -> None:
    """A Spark driver, killed in the middle of its work again and again."""
    logging.getLogger("aiorocketmq").setLevel(logging.CRITICAL)
    sys.exit(run_program("soak_spark", soak(Options(rounds, seed, load_s, keep))))


if __name__ == "__main__":
    main()
