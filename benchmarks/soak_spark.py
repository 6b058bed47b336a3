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
import os
import random
import signal
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

TOPIC: Final = "SoakSpark"
COPY: Final = "SoakSparkCopy"
PER_SEND: Final = 20
PATIENCE_S: Final = 600.0
_LOOK_EVERY_S: Final = 0.02
_SEND_EVERY_S: Final = 0.04
_STARTING_S: Final = 12.0


class Options(NamedTuple):
    """What can be asked for on the command line."""

    rounds: int
    seed: int
    load_s: float
    keep: Path | None


class Driver:
    """One life of the process."""

    def __init__(
        self,
        what: str,
        namesrv: str,
        folder: Path,
        module: str = "benchmarks.soak_spark_driver",
    ) -> None:
        self._module = module
        self._what, self._namesrv, self._folder = what, namesrv, folder
        self._log = folder / "driver.log"
        self._output = folder / "driver.out"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self._log.open("ab") as log, self._output.open("wb") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-m",
                    self._module,
                    self._what,
                    self._namesrv,
                    str(self._folder),
                ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                start_new_session=True,
            )

    async def finish(self) -> str:
        """What it has printed, when it has ended by itself. Raises ``DemoError``."""
        assert self._process is not None
        async with asyncio.timeout(PATIENCE_S):
            code = await self._process.wait()
        if code:
            end = self._log.read_text(errors="replace")[-3000:]
            raise DemoError(f"the driver ended with exit code {code}; the end of its log:", end)
        return self._output.read_text()

    async def kill(self) -> None:
        """SIGKILL for all of its processes at once."""
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    @property
    def pid(self) -> int | None:
        """Of its group, while it lives."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def check(self) -> None:
        """Raise ``DemoError`` when it has ended."""
        assert self._process is not None
        if self._process.returncode is not None:
            raise DemoError(
                "the driver ended by itself; the end of its log:",
                self._log.read_text(errors="replace")[-3000:],
            )


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
                if sending.done():
                    break
                await self._one_life()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        await self._to_the_end("drain")
        self.found = json.loads((await self._to_the_end("count")).splitlines()[-1])
        self._judge()

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
        driver = Driver("run", self._namesrv, self._folder)
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

    async def _to_the_end(self, what: str) -> str:
        driver = Driver(what, self._namesrv, self._folder)
        await driver.start()
        try:
            return await driver.finish()
        finally:
            await driver.kill()

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


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--rounds", type=click.IntRange(1), default=10, help="How many kills.")
@click.option("--seed", type=int, default=1, help="Of the random numbers.")
@click.option(
    "--load",
    "load_s",
    type=click.FloatRange(0.01),
    default=0.5,
    help="Seconds after a micro-batch, at most.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    default=None,
    help="Keep logs and stores below this folder.",
)
def main(rounds: int, seed: int, load_s: float, keep: Path | None) -> None:
    """A Spark driver, killed in the middle of its work again and again."""
    logging.getLogger("aiorocketmq").setLevel(logging.CRITICAL)
    sys.exit(run_program("soak_spark", soak(Options(rounds, seed, load_s, keep))))


if __name__ == "__main__":
    main()
