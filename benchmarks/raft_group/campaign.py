"""Faults, one after the other, on one group under load; then the verdict."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from aiorocketmq.remoting.errors import RocketMQError
from examples.demo.errors import DemoError

from ..histories.judge import Violation, compare_logs, judge
from ..pauses import Timeline
from .clients import QUEUES, TOPIC, Clients
from .faults import FAULTS, Fault, Scene, chosen
from .members import PATIENCE_S, Group
from .recorder import Recorder

__all__ = ["FAULTS", "Campaign", "Options"]

_LOOK_EVERY: Final = 20
"""Rounds after which the whole logs are compared, and the history so far is judged."""


class Options(NamedTuple):
    """What can be asked for on the command line."""

    rounds: int = 200
    seed: int = 1
    load_s: float = 2.0
    stands_still_s: tuple[float, float] = (3.0, 30.0)
    only: Sequence[str] = ()
    keep: Path | None = None
    settings: Mapping[str, Any] = MappingProxyType({})


class Campaign:
    """All rounds. What came of it is in its attributes."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.recorder = Recorder()
        self.problems: list[str] = []
        self.violations: list[Violation] = []
        self.happened: Counter[str] = Counter()
        self.recovery_s: dict[str, list[float]] = {}
        """By fault: from its healing to the next acknowledgement of each producer."""
        self.stored = 0
        self.terms = 0
        self._folder = folder
        self._options = options
        self._rng = random.Random(options.seed)
        self._group = Group(folder, self._rng, options.settings, keep=options.keep is not None)
        daemons = self._group.daemons
        self.timeline = Timeline({name: each.log for name, each in daemons.items()})
        addresses = {name: each.address for name, each in self._group.members.items()}
        self.clients = Clients(self._group.namesrv, addresses, self.recorder)

    async def run(self) -> None:
        """All rounds, then the verdict. What goes wrong is a problem; what was seen is kept."""
        try:
            async with self._group:
                await self._group.create_topic(TOPIC, QUEUES)
                async with self.clients:
                    self.clients.send()
                    await self.clients.until_acknowledged(PATIENCE_S)
                    await self._rounds()
                    await self.clients.pause()
                    await self._verdict()
        except (DemoError, RocketMQError) as error:
            self.problems.append(str(error))
        finally:
            for name, daemon in self._group.daemons.items():
                self.problems += [f"log of {name}: {line}" for line in daemon.bad_lines()]
            if self._options.keep is not None:
                self.recorder.save(self._folder / "history.jsonl")

    async def _rounds(self) -> None:
        disks = [member.disk for member in self._group.members.values()]
        faults = chosen(
            self._rng,
            self._options.rounds,
            small_disks=all(disk.can_be_full for disk in disks),
            only=self._options.only,
        )
        for number, fault in enumerate(faults, 1):
            await self._round(number, fault)
            if self.problems or self.violations:
                return

    async def _round(self, number: int, fault: Fault) -> None:
        began, acknowledged = time.monotonic(), self.recorder.acknowledged
        await self._load()
        notes: list[str] = []

        def note(what: str) -> None:
            self.timeline.note(what)
            notes.append(what)

        await fault.happen(Scene(self._group, self._rng, note, self._options.stands_still_s))
        healed = time.monotonic()
        await self.clients.until_acknowledged(PATIENCE_S)
        recovery = time.monotonic() - healed
        self.recovery_s.setdefault(fault.name, []).append(recovery)
        self.happened[fault.name] += 1
        await self.clients.pause()
        if (problem := await self._group.until_in_step()) is not None:
            self.problems.append(problem)
            return
        self._compare()
        self.problems += self.clients.failures()
        print(
            f"{number:>4} {fault.name:<17} {time.monotonic() - began:5.1f} s  "
            f"{self.recorder.acknowledged - acknowledged:>5,} acknowledged  "
            f"again {recovery:5.2f} s after healing  {'; '.join(notes)}",
            flush=True,
        )
        if number % _LOOK_EVERY == 0:
            await self._verdict()
        self.clients.send()

    async def _load(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.3, 1.0) * self._options.load_s)

    def _compare(self, *, recent: int | None = 4 << 20) -> None:
        """``recent``: bytes at the end of the logs; None: all of them."""
        logs = {
            name: each.log_files.log(each.log_files.end())
            for name, each in self._group.members.items()
        }
        if recent is not None:
            newest = max(log.end for log in logs.values()) - recent
            logs = {name: log._replace(begin=max(log.begin, newest)) for name, log in logs.items()}
        self.violations += compare_logs(logs)

    async def _verdict(self) -> None:
        """On all that has happened; while nobody sends. Links and members go on meanwhile."""
        if (problem := await self._group.until_in_step()) is not None:
            self.problems.append(problem)
        await asyncio.to_thread(self._compare, recent=None)
        everything = await self.clients.everything()
        leader = await self._group.leader()
        stored = everything[leader.name]
        self.stored = sum(map(len, stored.values()))
        for name, theirs in everything.items():
            if theirs != stored:
                self.problems.append(f"{name} does not have the messages of {leader.name}")
        leads = [lead for member in self._group.members.values() for lead in member.led()]
        self.terms = len({lead.term for lead in leads})
        if not self.terms:
            self.problems.append("no log of a member tells of its leading: nothing was compared")
        self.violations += await asyncio.to_thread(judge, [*self.recorder.events, *leads], stored)
        if missing := await self.clients.until_consumed(stored, PATIENCE_S):
            self.problems.append(f"the push consumer has not been handed {missing:,} messages")
