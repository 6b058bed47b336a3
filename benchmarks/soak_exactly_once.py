"""SIGKILL of drivers, executors and brokers, tasks that fail, speculative copies of tasks, rows
that come in another order each time: as many rows in the topic as were sent, each of them once.

``python -m benchmarks.soak_exactly_once`` (a part of ``make soak``). An idempotent producer writes
numbers into a topic all the time; a streaming query takes them from there, shuffles them, and
writes them into another topic with ``guarantee=exactly_once``. In each round one of the processes
is killed at a random moment. At the end a last life takes the rest, and both topics are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import click

from aiorocketmq import Message, Producer, RocketMQError
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.spark_connector.local import spark_problem
from examples.demo.daemons import data_folder
from examples.demo.errors import DemoError
from examples.demo.program import run_program

from .broker_process import BrokerProcess, make_topic
from .command_line import HELP, KEEP, SEED, rounds
from .driver_process import PATIENCE_S, DriverProcess
from .harness.servers import name_server

SENT: Final = "OnceIn"
ONCE: Final = "OnceOut"
QUEUES: Final = 4
PER_SEND: Final = 20
_DRIVER: Final = "benchmarks.soak_exactly_once_driver"
_EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
_LOOK_EVERY_S: Final = 0.05
_SEND_EVERY_S: Final = 0.04


class Options(NamedTuple):
    """What can be asked for on the command line."""

    rounds: int
    seed: int
    keep: Path | None


class Soak:
    """All rounds on one cluster."""

    def __init__(self, options: Options, namesrv: str, broker: BrokerProcess, folder: Path) -> None:
        self.sent = 0
        self.in_doubt: set[int] = set()
        """Numbers that may be stored or not: nobody has acknowledged them."""
        self.kills: Counter[str] = Counter()
        self.lives = 0
        self.found: dict[str, int] = {}
        self.problems: list[str] = []
        self._options, self._namesrv = options, namesrv
        self._broker, self._folder = broker, folder
        self._random = random.Random(options.seed)
        self._driver: DriverProcess | None = None

    async def run(self) -> None:
        sending = asyncio.create_task(self._send())
        try:
            for _ in range(self._options.rounds):
                await self._round()
                if sending.done():
                    await sending  # raises: it ends in no other way
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await self._kill_driver()
        await self._life("drain").to_the_end()
        self.found = json.loads((await self._life("count").to_the_end()).splitlines()[-1])
        self._judge()

    async def _send(self) -> None:
        async with Producer(
            "soak", namesrv=self._namesrv, idempotent=True, send_timeout=60
        ) as producer:
            while True:
                numbers = range(self.sent, self.sent + PER_SEND)
                self.sent += PER_SEND
                self.in_doubt.update(numbers)
                with contextlib.suppress(RocketMQError):
                    await producer.send([Message(SENT, b"%d" % n) for n in numbers])
                    self.in_doubt.difference_update(numbers)
                await asyncio.sleep(_SEND_EVERY_S)

    async def _round(self) -> None:
        """A micro-batch or two, then somebody is killed."""
        await self._alive()
        wanted, deadline = self._commits() + 1, time.monotonic() + PATIENCE_S
        while self._commits() < wanted:
            await self._alive()
            if time.monotonic() > deadline:
                raise DemoError(f"no micro-batch within {PATIENCE_S:.0f} s")
            await asyncio.sleep(_LOOK_EVERY_S)
        await asyncio.sleep(self._random.uniform(0, 3))
        kind = self._random.choice(("driver", "executor", "broker"))
        self.kills[kind] += 1
        if kind == "driver":
            await self._kill_driver()
        elif kind == "executor":
            self._kill_executor()
        else:
            await self._broker.end(signal.SIGKILL)
            await asyncio.sleep(self._random.uniform(0, 2))
            await self._broker.start()

    async def _alive(self) -> None:
        """A driver that ended by itself, as its task failed too often, is started again."""
        if self._driver is None or self._driver.pid is None:
            self._driver = self._life("run")
            self.lives += 1
            await self._driver.start()

    def _life(self, what: str) -> DriverProcess:
        """Of the driver."""
        return DriverProcess(_DRIVER, what, self._namesrv, self._folder)

    async def _kill_driver(self) -> None:
        if self._driver is not None:
            await self._driver.kill()
            self._driver = None

    def _kill_executor(self) -> None:
        pid = None if self._driver is None else self._driver.pid
        executors = [] if pid is None else executors_of(pid)
        if executors:
            os.kill(self._random.choice(executors), signal.SIGKILL)

    def _commits(self) -> int:
        folder = self._folder / "checkpoint" / "commits"
        return sum(path.name.isdigit() for path in folder.iterdir()) if folder.is_dir() else 0

    def _judge(self) -> None:
        for name in ("in", "out"):
            rows, different = self.found[f"{name}_rows"], self.found[f"{name}_different"]
            if rows != different:
                self.problems.append(f"{name}: {rows - different:,} rows twice")
            if not self.sent - len(self.in_doubt) <= different <= self.sent:
                self.problems.append(f"{name}: {different:,} different rows of {self.sent:,}")
        if self.found["in_sum"] != self.found["out_sum"]:
            self.problems.append("other rows came out than went in")


def executors_of(group: int) -> list[int]:
    """Processes of Spark's executors in a process group."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                command = (path / "cmdline").read_bytes()
                if _EXECUTOR in command and os.getpgid(int(path.name)) == group:
                    found.append(int(path.name))
            except OSError:
                continue  # it has ended meanwhile
    return found


async def soak(options: Options) -> int:
    """Run it; returns the exit code."""
    if (problem := spark_problem()) is not None:
        print(f"soak_exactly_once is left out: {problem}")
        return 0
    started = time.monotonic()
    with data_folder(options.keep, keep=options.keep is not None) as folder:
        with name_server(folder) as server:
            broker = BrokerProcess(folder, namesrvAddr=server.address)
            run = Soak(options, server.address, broker, folder)
            try:
                await broker.start()
                async with RemotingClient() as client:
                    for topic in (SENT, ONCE):
                        await make_topic(client, broker.address, topic, QUEUES)
                await run.run()
            finally:
                await broker.end(signal.SIGTERM)
    _report(options, run, time.monotonic() - started)
    return 1 if run.problems else 0


def _report(options: Options, run: Soak, seconds: float) -> None:
    kills = ", ".join(f"{name} {count}" for name, count in sorted(run.kills.items()))
    found = run.found
    print(f"seed                {options.seed:>9}")
    print(f"kills               {run.kills.total():>9,}   {kills}; in {seconds:.0f} s")
    print(f"lives of drivers    {run.lives:>9,}")
    print(f"sent                {run.sent:>9,}   {len(run.in_doubt):,} in doubt")
    print(f"in the first topic  {found['in_rows']:>9,}   {found['in_different']:,} different")
    print(f"in the other topic  {found['out_rows']:>9,}   {found['out_different']:,} different")
    for problem in run.problems:
        print(f"NOT GOOD: {problem}")


@click.command(context_settings=HELP)
@rounds(10)
@SEED
@KEEP
def main(rounds: int, seed: int, keep: Path | None) -> None:
    """A Spark query that writes exactly once, while its processes are killed."""
    logging.getLogger("aiorocketmq").setLevel(logging.CRITICAL)
    sys.exit(run_program("soak_exactly_once", soak(Options(rounds, seed, keep))))


if __name__ == "__main__":
    main()
