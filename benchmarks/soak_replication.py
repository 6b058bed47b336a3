"""SIGKILL of master, slave and name server under load, again and again: what a SYNC_MASTER
acknowledges stays.

``python -m benchmarks.soak_replication`` (a part of ``make soak``). A name server, a sync master, a
slave; 64 sends in flight and a push consumer all the time. Each round kills one of them and starts
it again, or throws the master's disk away: then the consumer has to find every message that was
acknowledged with code 0 at the slave, whose store becomes the master's, and the next slave begins
with nothing. At the end the slave's log is held against the master's, byte by byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import click

from aiorocketmq import Admin, Message, MessageExt, Producer, PushConsumer, SendStatus
from aiorocketmq.remoting.errors import RocketMQError
from examples.demo.daemons import data_folder
from examples.demo.errors import DemoError
from examples.demo.program import run_program

from .command_line import HELP, KEEP, SEED, load, rounds
from .pauses import Pauses, Timeline

TOPIC: Final = "SoakReplicated"
IN_FLIGHT: Final = 64
PATIENCE_S: Final = 120.0
_READY: Final = re.compile(r"(?:broker|name server) ready ")
_BAD_LINES: Final = re.compile(r"Traceback| CRITICAL ")
VICTIMS: Final = ("master", "slave", "namesrv", "master's disk")


class Options(NamedTuple):
    """What can be asked for on the command line."""

    rounds: int
    seed: int
    load_s: float
    keep: Path | None


class Daemon:
    """A process in several lives, on one folder and port."""

    def __init__(
        self, folder: Path, module: str, prefix: Sequence[str] = (), **settings: object
    ) -> None:
        """``prefix``: what stands in front of the command."""
        self.folder = folder
        self._prefix = prefix
        self.log = folder / "daemon.log"
        self._module = module
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Return when it serves. Raises ``DemoError`` when it does not."""
        self.folder.mkdir(exist_ok=True)
        arguments = (f"--{name}={value}" for name, value in self._settings.items())
        command = [*self._prefix, sys.executable, "-m", self._module, *arguments]
        environment = {
            **os.environ,
            "ROCKETMQ_HOME": str(self.folder),
            "HOME": str(self.folder),
            "NAMESRV_ADDR": "",
        }
        with self.log.open("ab") as log:
            at = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        deadline = time.monotonic() + PATIENCE_S
        while not _READY.search(self.log.read_bytes()[at:].decode(errors="replace")):
            if self._process.returncode is not None or time.monotonic() > deadline:
                raise DemoError(
                    f"{self.folder.name} does not start:",
                    self.log.read_text(errors="replace")[-3000:],
                )
            await asyncio.sleep(0.01)

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill it, or stop it."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
            await self._process.wait()

    def set(self, **settings: object) -> None:
        """From the next start on."""
        self._settings = {**self._settings, **settings}

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def stand_still(self) -> None:
        """As it is, it does nothing more."""
        if self._process is not None and self.runs:
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None and self.runs:
            self._process.send_signal(signal.SIGCONT)

    def bad_lines(self) -> list[str]:
        """What should not be in its log."""
        if not self.log.exists():
            return []
        return [
            line
            for line in self.log.read_text(errors="replace").splitlines()
            if _BAD_LINES.search(line)
        ]


class Host(NamedTuple):
    """Where a daemon runs."""

    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()


HERE: Final = {"namesrv": Host(), "master": Host(), "slave": Host()}


class Soak:
    """All rounds on one cluster."""

    def __init__(
        self,
        folder: Path,
        options: Options,
        hosts: Mapping[str, Host] = HERE,
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """``settings``: of both brokers, besides the usual ones."""
        self.kills = dict.fromkeys(VICTIMS, 0)
        self.acknowledged: set[int] = set()
        self.seen: set[int] = set()
        self.received = 0
        self.sent = self.lost = self.unreplicated = 0
        self.problems: list[str] = []
        self.sends, self.consumption = Pauses(), Pauses()
        self._options = options
        self._rng = random.Random(options.seed)
        first = _free_ports(self._rng)
        namesrv_port, self._ports = first, {"master": first + 3, "slave": first + 7}
        self._hosts = hosts
        self._settings = settings
        self._namesrv = f"{hosts['namesrv'].address}:{namesrv_port}"
        self._folder = folder
        self._daemons = {
            "namesrv": Daemon(
                folder / "namesrv",
                "aiorocketmq.namesrv",
                hosts["namesrv"].prefix,
                listenPort=namesrv_port,
                bindAddress=hosts["namesrv"].address,
            ),
            "master": self._broker("master", "SYNC_MASTER", 0),
            "slave": self._broker("slave", "SLAVE", 1),
        }
        self._consumer: PushConsumer | None = None
        self.timeline = Timeline({name: daemon.log for name, daemon in self._daemons.items()})

    def _broker(self, name: str, role: str, broker_id: int) -> Daemon:
        address, prefix = self._hosts[name]
        return Daemon(
            self._folder / name, "aiorocketmq.broker", prefix, brokerName="soak", brokerRole=role,
            brokerId=broker_id,
            listenPort=self._ports[name], bindAddress=address, brokerIP1=address, brokerIP2=address,
            namesrvAddr=self._namesrv, storePathRootDir=self._folder / name / "store",
            mappedFileSizeCommitLog=4 << 20,
            mappedFileSizeConsumeQueue=20 * 2000, maxHashSlotNum=10_000, maxIndexNum=40_000,
            registerNameServerPeriod=10_000,
            waitTimeMillsInSendQueue=10_000,  # as in ``soak``
            **self._settings,
        )  # fmt: skip

    async def run(self) -> None:
        """All rounds, then the last check. Whatever happens, the processes are ended."""
        try:
            for daemon in self._daemons.values():
                await daemon.start()
            await self._until_slave_follows()
            await self._start_consumer()
            async with Producer("soak", namesrv=self._namesrv, retries=0) as producer:
                senders = [asyncio.create_task(self._send(producer)) for _ in range(IN_FLIGHT)]
                try:
                    await self._rounds()
                finally:
                    for sender in senders:
                        sender.cancel()
                    await asyncio.gather(*senders, return_exceptions=True)
            await self._check_consumed()
            await self._stop_consumer()
            await self._compare_logs()
        finally:
            for name, daemon in self._daemons.items():
                await daemon.end(signal.SIGTERM)
                self.problems += [f"log of {name}: {line}" for line in daemon.bad_lines()]

    async def _send(self, producer: Producer) -> None:
        while True:
            number = self.sent
            self.sent += 1
            size = self._rng.choice((0, 100, 1000, 5000))
            try:
                result = await producer.send(
                    Message(TOPIC, number.to_bytes(8, "big") + bytes(size)), timeout=4
                )
            except RocketMQError as error:
                self.sends.failed(type(error).__name__)
                await asyncio.sleep(0.05)
                continue
            if result.status is SendStatus.SEND_OK:
                self.acknowledged.add(number)
                self.sends.event()
            else:
                self.unreplicated += 1
                self.sends.failed(result.status.name)
                await asyncio.sleep(0.01)

    def _take(self, message: MessageExt) -> None:
        self.received += 1
        self.seen.add(int.from_bytes(message.body[:8], "big"))
        self.consumption.event()

    async def _start_consumer(self) -> None:
        self._consumer = PushConsumer(
            "soak", namesrv=self._namesrv, suspend=2.0, commit_interval=0.5
        )
        self._consumer.subscribe(TOPIC)
        self._consumer.on_message(self._take)
        await self._consumer.start()

    async def _stop_consumer(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()
            self._consumer = None

    # -- rounds

    async def _rounds(self) -> None:
        while sum(self.kills.values()) < self._options.rounds and not self.problems:
            await self._round()

    async def _round(self) -> None:
        rng = self._rng
        await asyncio.sleep(rng.uniform(0.3, 1.0) * self._options.load_s)
        victim = rng.choices(VICTIMS, (4, 4, 2, 1))[0]
        self.kills[victim] += 1
        if victim == "master's disk":
            await self._lose_disk()
        else:
            await self._kill(victim)
            await asyncio.sleep(rng.uniform(0, 2))
            await self._start(victim)
        await self._until_slave_follows()
        total = sum(self.kills.values())
        if total % 10 == 0:
            print(
                f"  {total} kills, {len(self.acknowledged):,} acknowledged, {len(self.seen):,} "
                "consumed",
                flush=True,
            )

    async def _kill(self, name: str) -> None:
        self.timeline.note(f"{name} is killed")
        await self._daemons[name].end()

    async def _start(self, name: str) -> None:
        self.timeline.note(f"{name} is started")
        await self._daemons[name].start()

    async def _lose_disk(self) -> None:
        """The master is gone for good: the slave has all that counts, and becomes the master. That
        it is not made one before the consumer has come to the end is no pause of the cluster's.
        """
        await self._kill("master")
        shutil.rmtree(self._folder / "master" / "store")
        await self._check_consumed()
        await self._stop_consumer()
        await self._kill("slave")
        (self._folder / "slave" / "store").rename(self._folder / "master" / "store")
        self.sends.begin()
        await self._start("master")
        await self._start("slave")
        self.consumption.begin()
        await self._start_consumer()

    async def _check_consumed(self) -> None:
        """Every message that is acknowledged by now is seen before long."""
        deadline, acknowledged = time.monotonic() + PATIENCE_S, set(self.acknowledged)
        self.timeline.note(
            f"waiting for the consumer: {len(acknowledged - self.seen):,} acknowledged are not "
            "consumed yet"
        )
        while missing := acknowledged - self.seen:
            if time.monotonic() > deadline:
                self.lost += len(missing)
                self.problems.append(
                    f"LOST: {len(missing)} acknowledged messages, {sorted(missing)[:5]}..."
                )
                return
            await asyncio.sleep(0.05)
        self.timeline.note("all that was acknowledged is consumed")

    async def _until_slave_follows(self) -> None:
        """Until a message is acknowledged by both again."""
        deadline = time.monotonic() + PATIENCE_S
        async with (
            Producer("probe", namesrv=self._namesrv, retries=0) as producer,
            Admin(namesrv=self._namesrv),
        ):
            while time.monotonic() < deadline:
                with contextlib.suppress(RocketMQError):
                    result = await producer.send(Message("SoakProbe", b"probe"), timeout=4)
                    if result.status is SendStatus.SEND_OK:
                        return
                await asyncio.sleep(0.1)
        self.problems.append(f"the slave does not follow within {PATIENCE_S:.0f} s")

    async def _compare_logs(self) -> None:
        """After quiet both logs are the same, as far as both keep them."""
        for name in ("master", "slave"):
            await asyncio.sleep(1)
            await self._daemons[name].end(signal.SIGTERM)
        theirs, ours = (
            {path.name: path for path in self._logs(name)} for name in ("master", "slave")
        )
        used = {name for name, path in theirs.items() if any(path.read_bytes()[:4])}
        different = [
            name
            for name in sorted(used)
            if name not in ours or ours[name].read_bytes() != theirs[name].read_bytes()
        ]
        if different:
            self.problems.append(f"the logs differ: {different}")

    def _logs(self, name: str) -> list[Path]:
        return sorted((self._folder / name / "store" / "commitlog").iterdir())


def _free_ports(rng: random.Random) -> int:
    """The first of ten free ports below those that the system gives to connections: a broker comes
    back to its own."""
    for _ in range(100):
        first = rng.randrange(15_000, 30_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in range(first, first + 10):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise DemoError("no free ports on 127.0.0.1")


def _report(run: Soak, options: Options, seconds: float) -> None:
    """Print what came of it."""
    print(f"seed                {options.seed:>9}")
    kills = ", ".join(f"{name} {count}" for name, count in run.kills.items())
    print(f"kills               {sum(run.kills.values()):>9,}   {kills}; in {seconds:.0f} s")
    print(
        f"sent                {run.sent:>9,}   {run.unreplicated:,} were stored without a slave "
        "(codes 11, 12)"
    )
    print(f"acknowledged        {len(run.acknowledged):>9,}   with code 0")
    print(f"lost                {run.lost:>9,}   of those")
    print(f"consumed            {len(run.seen):>9,}   {run.received - len(run.seen):,} times again")
    print(f"longest pause       {run.sends.longest_s:>9.2f} s without an acknowledgement")
    print(f"                    {run.consumption.longest_s:>9.2f} s without a message consumed")
    print("longest pauses without an acknowledgement, and what happened in them:")
    for pause in run.sends.longest:
        print(*run.timeline.lines(pause, "acknowledged again"), sep="\n")


async def soak(options: Options) -> int:
    """Run it; returns the exit code."""
    started = time.monotonic()
    with data_folder(options.keep, keep=options.keep is not None) as folder:
        run = Soak(folder, options)
        await run.run()
        _report(run, options, time.monotonic() - started)
    for problem in run.problems[:20]:
        print(f"NOT GOOD: {problem}")
    return 1 if run.problems else 0


@click.command(context_settings=HELP)
@rounds(60)
@SEED
@load(2.0)
@KEEP
def main(rounds: int, seed: int, load_s: float, keep: Path | None) -> None:
    """Master, slave and name server, killed under load again and again."""
    logging.getLogger("aiorocketmq").setLevel(
        logging.CRITICAL
    )  # the client tells of every lost connection
    sys.exit(run_program("soak_replication", soak(Options(rounds, seed, load_s, keep))))


if __name__ == "__main__":
    main()
