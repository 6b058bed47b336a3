"""Consumers that come, go and die while messages flow: none is lost, and ordered consumers keep
their order.

``python -m benchmarks.consumers`` (``make soak ONLY=consumers``). Up to five processes consume a
topic in two groups, an ordered one and one without order. Every few seconds one of them is killed
with SIGKILL, ended in good order, or started, sometimes under the client id of a dead one. At the
end the members' journals say whether every message was handled, how often one came twice, whether a
queue ever had two ordered handlers at once, and whether a message overtook another.

A broker keeps the locks of a dead client for 60 s, so ordered queues stand still for that long
after a kill.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click

from aiorocketmq import Admin, Message, MessageQueue, Producer, SystemBusy
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from examples.demo.daemons import Daemons, data_folder
from examples.demo.errors import DemoError
from examples.demo.program import run_program

from .command_line import HELP, KEEP, SEED
from .consumers_ledger import RECORD, Verdict, judge_ordered, judge_unordered
from .consumers_member import GROUP, ORDERED_GROUP

TOPIC: Final = "SoakConsumers"
BATCH: Final = 40
_SETTLED_WITHIN_S: Final = 200.0
"""Locks of the dead, and the pauses of those who wait for them."""
_BAD_LINES: Final = re.compile(r"Traceback| CRITICAL | ERROR ")


class Options(NamedTuple):
    """What can be asked for on the command line."""

    messages: int
    seconds: float
    members: int
    queues: int
    seed: int
    every_s: float = 4.0
    """Between two events, on average."""
    same_ids: bool = False
    """Whoever dies comes back at once under the same client id, so that its locks are its own."""
    keep: Path | None = None


class Member:
    """One life of a member process."""

    def __init__(self, name: str, journal: Path) -> None:
        self.name = name
        self.journal = journal
        self.log = journal.with_suffix(".log")
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, namesrv: str, topic: str) -> None:
        command = [
            "-m",
            "benchmarks.consumers_member",
            namesrv,
            topic,
            self.name,
            str(self.journal),
        ]
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, *command, stdout=log, stderr=log
            )

    async def kill(self) -> int:
        """SIGKILL. When it was certainly dead (ns)."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()
        return time.monotonic_ns()

    async def end(self) -> int:
        """In good order, once it has begun; its exit code."""
        assert self._process is not None
        while self._process.returncode is None and b"ready" not in self.log.read_bytes():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        if self._process.returncode is None:
            self._process.terminate()
        return await asyncio.wait_for(self._process.wait(), 60)


class Campaign:
    """The members, those who lived before, and what went wrong."""

    def __init__(self, folder: Path, namesrv: str, topic: str, options: Options) -> None:
        self._folder = folder
        self._namesrv = namesrv
        self._topic = topic
        self._options = options
        self._rng = random.Random(options.seed)
        self._alive: list[Member] = []
        self._names: list[str] = []
        """Of the dead, to be used again."""
        self.journals: list[Path] = []
        self.killed_ns: dict[Path, int] = {}
        self.events = {"killed": 0, "ended": 0, "started": 0}
        self.sent: dict[int, int] = dict.fromkeys(range(options.queues), 0)
        self.problems: list[str] = []
        self.seconds = 0.0

    async def run(self) -> None:
        """Send, disturb, wait until everything is handled, end the members."""
        began = time.monotonic()
        try:
            for _ in range(self._options.members):
                await self._start()
            sending = asyncio.create_task(self._send())
            try:
                while not sending.done():
                    await asyncio.wait(
                        (sending,), timeout=self._rng.uniform(0.5, 1.5) * self._options.every_s
                    )
                    await self._event()
                await sending
            finally:
                sending.cancel()
            await self._until_settled()
            await self._until_committed()
            await self._leave()
            self.problems += await self._wrong_offsets()
        finally:
            for member in self._alive:
                await member.kill()
        self.seconds = time.monotonic() - began
        for log in (journal.with_suffix(".log") for journal in self.journals):
            self.problems += [
                f"{log.name}: {line}"
                for line in log.read_text().splitlines()
                if _BAD_LINES.search(line)
            ]

    async def _send(self) -> None:
        """One batch to a queue after the other, at an even pace. A queue's offsets are 0, 1, 2,
        ..."""
        count, pace_s = (
            self._options.messages // BATCH,
            self._options.seconds / max(1, self._options.messages // BATCH),
        )
        began = time.monotonic()
        async with Producer("soak", namesrv=self._namesrv) as producer:
            queues = sorted(await producer.queues(self._topic))
            for number in range(count):
                await asyncio.sleep(max(0.0, began + number * pace_s - time.monotonic()))
                queue = queues[number % len(queues)]
                offset = await self._send_batch(producer, queue)
                if offset != self.sent[queue.queue_id]:
                    raise DemoError(
                        f"queue {queue.queue_id} has offset {offset} where "
                        f"{self.sent[queue.queue_id]} was expected"
                    )
                self.sent[queue.queue_id] += BATCH

    async def _send_batch(self, producer: Producer, queue: MessageQueue) -> int:
        """Again when the broker is busy: what it refuses it has not stored. The offset of the first
        message."""
        while True:
            try:
                batch = [Message(self._topic, b"x" * 100)] * BATCH
                return (await producer.send(batch, queue=queue, timeout=30)).queue_offset
            except SystemBusy:
                await asyncio.sleep(0.1)

    async def _event(self) -> None:
        if self._options.same_ids:
            await self._kill()
            await self._start()
            return
        choices = ["start"] * (len(self._alive) < self._options.members) + ["kill", "end"] * (
            len(self._alive) > 1
        )
        match self._rng.choice(choices):
            case "start":
                await self._start()
            case "kill":
                await self._kill()
            case _:
                await self._end(self._alive.pop(self._rng.randrange(len(self._alive))))

    async def _start(self) -> None:
        again = self._names and (self._options.same_ids or self._rng.random() < 0.5)
        name = self._names.pop() if again else f"member-{self.events['started']}"
        member = Member(name, self._folder / f"journal-{self.events['started']}-{name}")
        await member.start(self._namesrv, self._topic)
        self.events["started"] += 1
        self._alive.append(member)
        self.journals.append(member.journal)

    async def _kill(self) -> None:
        member = self._alive.pop(self._rng.randrange(len(self._alive)))
        self.killed_ns[member.journal] = await member.kill()
        self._names.append(member.name)
        self.events["killed"] += 1

    async def _end(self, member: Member) -> None:
        if code := await member.end():
            self.problems.append(f"{member.journal.name} ended with exit code {code}")
        self.events["ended"] += 1

    async def _leave(self) -> None:
        while self._alive:
            await self._end(self._alive.pop())

    async def _until_settled(self) -> None:
        """Whatever was sent is handled, in both groups; judging all the time would cost much, so
        look at the sizes first."""
        deadline = time.monotonic() + _SETTLED_WITHIN_S
        least = 3 * RECORD.size * sum(self.sent.values())
        while time.monotonic() < deadline:
            written = sum(path.stat().st_size for path in self.journals if path.exists())
            if written >= least and not any(verdict.lost for verdict in self.verdicts().values()):
                return
            await asyncio.sleep(0.5)

    async def _until_committed(self) -> None:
        """Who was killed had handled messages that it could not commit any more: they come again at
        the next owner."""
        deadline = time.monotonic() + _SETTLED_WITHIN_S
        while time.monotonic() < deadline and await self._wrong_offsets():  # noqa: ASYNC110  # asks a daemon
            await asyncio.sleep(0.5)

    async def _wrong_offsets(self) -> list[str]:
        """Where the broker does not have the end of the queue for both groups."""
        wrong = []
        async with Admin(namesrv=self._namesrv) as admin:
            for group in (ORDERED_GROUP, GROUP):
                for queue in await admin.read_queues(self._topic):
                    offset = await self._offset(admin, group, queue)
                    if offset != self.sent[queue.queue_id]:
                        wrong.append(
                            f"the broker has offset {offset} of {group} in queue {queue.queue_id}"
                        )
        return wrong

    @staticmethod
    async def _offset(admin: Admin, group: str, queue: MessageQueue) -> int | None:
        return await admin.consumer_offset(group, queue)

    def verdicts(self) -> dict[str, Verdict]:
        """By group."""
        return {
            ORDERED_GROUP: judge_ordered(self.journals, self.sent, self.killed_ns),
            GROUP: judge_unordered(self.journals, self.sent),
        }

    def report(self) -> Iterator[str]:
        """Lines for the terminal; adds what is not good to the problems."""
        events = self.events
        yield (
            f"messages            {sum(self.sent.values()):>9,}   in {self.seconds:.0f} s, "
            f"{self._options.queues} queues"
        )
        yield (
            f"members             {events['started']:>9,}   {events['killed']} killed, "
            f"{events['ended']} ended properly"
        )
        for group, verdict in self.verdicts().items():
            yield f"{group}"
            yield f"  handled           {verdict.handled:>9,}"
            yield f"  lost              {verdict.lost:>9,}"
            yield f"  handled again     {verdict.duplicates:>9,}"
            if group == ORDERED_GROUP:
                yield f"  owners changed    {verdict.owner_changes:>9,}   times"
                yield f"  two at once       {verdict.two_at_once:>9,}"
                yield f"  out of order      {verdict.out_of_order:>9,}"
            bad = verdict.lost + verdict.two_at_once + verdict.out_of_order
            self.problems += [f"{group}: {verdict}"] * bool(bad)


async def consumers(options: Options) -> int:
    """Run it; returns the exit code."""
    with data_folder(options.keep, keep=options.keep is not None) as folder:
        async with Daemons.started(folder) as daemons:
            config = TopicConfig(
                topic_name=TOPIC, read_queue_nums=options.queues, write_queue_nums=options.queues
            )
            async with Admin(namesrv=daemons.namesrv_address) as admin:
                await admin.create_topic_on(daemons.broker_address, config)
            os.mkdir(members := folder / "members")
            campaign = Campaign(members, daemons.namesrv_address, TOPIC, options)
            await daemons.watch(campaign.run())
        print(f"seed                {options.seed:>9}")
        for line in campaign.report():
            print(line)
    for problem in campaign.problems[:20]:
        print(f"NOT GOOD: {problem}")
    return 1 if campaign.problems else 0


@click.command(context_settings=HELP)
@click.option("--messages", type=click.IntRange(1), default=200_000, help="How many in all.")
@click.option(
    "--seconds", type=click.FloatRange(1), default=150.0, help="How long they are sent for."
)
@click.option(
    "--members", type=click.IntRange(2), default=5, help="Processes that consume, at most."
)
@click.option("--queues", type=click.IntRange(1), default=8, help="Queues of the topic.")
@SEED
@KEEP
def main(
    messages: int, seconds: float, members: int, queues: int, seed: int, keep: Path | None
) -> None:
    """Consumers that come, go and die by SIGKILL while messages flow."""
    sys.exit(
        run_program(
            "consumers", consumers(Options(messages, seconds, members, queues, seed, keep=keep))
        )
    )


if __name__ == "__main__":
    main()
