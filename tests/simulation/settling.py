"""How soon after everything is whole again it is as it should be: each promise has its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from .copies import dead_letters, expired_at_any, other_logs
from .habits import Habits
from .journal import KEYED, TOPIC, Journal, has_tag
from .machine import Machine
from .reads import stored
from .tables import (
    Table,
    addresses_differ,
    at_name_servers,
    files_differ,
    in_memory,
    offsets_differ,
    tables_differ,
)
from .workload import ASKING, GROUP, ORDERED, TAGGED, given_up
from .world import World

QUIET_S: Final = 100.0
SLOW_S: Final = 0.5
"""With threads that take longer a group may be without a leader for a while, again and again: there
is nothing to be judged before the end."""
ASKED_S: Final = 400.0
"""With such threads a copy of a half message, which a seed may want safe one by one, takes four
seconds, and there may be dozens."""
ON_ITS_WAY_S: Final = 5.0
"""What a broker writes of itself in the moment of the last look, about a transaction, has come to
its copies by then."""


class Case(NamedTuple):
    """Of one world."""

    world: World
    journal: Journal
    names: set[str]
    """Of brokers that there should be."""
    habits: Habits
    noted: dict[str, dict[str, Table]]
    """What machines had in memory some seconds before their files are looked at."""

    def masters(self) -> list[tuple[str, Machine]]:
        return sorted(self.world.masters().items())

    @property
    def is_timed(self) -> bool:
        """Promises have their times with such threads."""
        return self.habits.thread_s * self.habits.slower <= SLOW_S

    def free(self) -> dict[str, str]:
        """Groups whose members need not wait for each other."""
        ordered = {ORDERED: KEYED} if self.habits.in_order == 1 else {}
        asking = {ASKING: TOPIC} if self.habits.asked_for else {}
        tagged = {TAGGED: TOPIC} if self.habits.tagged else {}
        return {GROUP: TOPIC, **ordered, **asking, **tagged}

    def waiting(self) -> dict[str, str]:
        """A member that is killed has locks for another minute, for which others ask every 20 s."""
        return {} if self.habits.in_order == 1 else {ORDERED: KEYED}


def served(case: Case) -> Iterator[str]:
    for name in sorted(case.names - case.world.masters().keys()):
        yield f"nobody serves {name}"


def takes(case: Case) -> Iterator[str]:
    """Whatever a disk was short of, nobody has to start a broker again for it."""
    for name, master in case.masters():
        assert master.broker is not None
        if (trouble := master.broker.store.trouble) is not None:
            yield f"{name} takes no messages: {trouble}"


def logs(case: Case) -> Iterator[str]:
    for _, master in case.masters():
        yield from other_logs(case.world, master)


def tables(case: Case) -> Iterator[str]:
    for _, master in case.masters():
        yield from tables_differ(case.world, master)


def tables_of_members(case: Case) -> Iterator[str]:
    """They are in the log."""
    for _, master in case.masters():
        if master.broker is not None and master.broker.group is not None:
            yield from tables_differ(case.world, master, case.noted)


def offsets(case: Case) -> Iterator[str]:
    for _, master in case.masters():
        yield from offsets_differ(case.world, master, case.noted)


def note(case: Case) -> Iterator[str]:
    """Tables change until all is consumed, a slave asks for its master's every ten seconds, and
    what has changed is written soon, offsets every five seconds. So what changes from now on is not
    looked for in files, offsets not at slaves."""
    case.noted.update(in_memory(case.world))
    yield from ()


def files(case: Case) -> Iterator[str]:
    yield from files_differ(case.world, ("topics", "groups"), case.noted)


def offset_files(case: Case) -> Iterator[str]:
    yield from files_differ(case.world, ("offsets",), case.noted)


def routes(case: Case) -> Iterator[str]:
    yield from at_name_servers(case.world, case.journal)


def addresses(case: Case) -> Iterator[str]:
    yield from addresses_differ(case.world)


def came(case: Case) -> Iterator[str]:
    """Delayed messages and committed transactions, and what was acknowledged without a place."""
    bodies: set[bytes] = set()
    topics = sorted(set(case.journal.promised.values()))
    if case.world.expired or case.world.forgotten:  # so may be what was to be delivered
        return
    for name, master in case.masters():
        assert master.broker is not None
        bodies |= set(stored(master.broker.store, name, topics).values())
    for body in sorted(case.journal.awaited() - bodies):
        yield f"{body!r} was acknowledged or committed and has not come to its queue"


def decided(case: Case) -> Iterator[str]:
    """Their producer answers whoever asks about a transaction."""
    for name, master in case.masters():
        assert master.broker is not None
        if undecided := master.broker.storage.transactions.halves.undecided:
            yield f"{name} has {undecided} transactions that nobody has decided"


def consumed(case: Case) -> Iterator[str]:
    yield from _consumed(case, case.free())


def consumed_in_turn(case: Case) -> Iterator[str]:
    yield from _consumed(case, case.waiting())


def _consumed(case: Case, groups: dict[str, str]) -> Iterator[str]:
    acknowledged = {each.body for each in case.journal.acknowledged}
    for name, master in case.masters():
        assert master.broker is not None
        for group, topic in groups.items():
            had = case.journal.had(group, expires=bool(case.world.expired))
            dead = dead_letters(case.world, group)
            had |= given_up(dead, group, case.habits, case.journal.limit)
            known = topic in master.broker.state.topics  # or nobody was told that it has it
            for place, body in stored(master.broker.store, name, [topic]).items():
                if expired_at_any(case.world, name, place) or case.world.had_forgotten(name):
                    continue
                wanted = group != TAGGED or has_tag(body)
                if wanted and body not in had and (known or body in acknowledged):
                    yield f"{group} has not consumed {body!r} at {place}"


def committed(case: Case) -> Iterator[str]:
    yield from _committed(case, case.free())


def committed_in_turn(case: Case) -> Iterator[str]:
    yield from _committed(case, case.waiting())


def _committed(case: Case, groups: dict[str, str]) -> Iterator[str]:
    """Groups have told brokers how far they are: at the end."""
    for name, master in case.masters():
        assert master.broker is not None
        for group, topic in groups.items():
            if topic not in master.broker.state.topics:
                continue  # nobody was told that it has it: see its log
            for queue_id in master.broker.store.queue_ids(topic):
                end = master.broker.store.max_offset(topic, queue_id)
                offset = master.broker.state.offsets.get(group, topic, queue_id)
                if offset != end and end:
                    yield f"{name} has {offset} of {topic}/{queue_id} for {group}, it ends at {end}"


Check = Callable[[Case], Iterator[str]]
WITHIN: Final[tuple[tuple[float, Check], ...]] = (
    (1.5, note),
    (3, tables_of_members),
    (5, served),
    (9, note),
    (10, routes),
    (15, files),
    (20, takes),
    (35, tables),
    (40, addresses),
    (42, note),
    (50, offset_files),
    (53, note),
    (60, consumed),
    (62, came),
    (62, decided),
    (65, offsets),
    (70, committed),
    (72, note),
    (80, files),
    (80, offset_files),
    (85, offsets),
    (92, logs),
    (92, consumed_in_turn),
    (98, committed_in_turn),
)
"""Seconds. Brokers register, and clients ask for routes and tell brokers that they are there, every
30 s, and are asked about transactions as often; a consumer looks for queues every 20 s, what it
refused comes again after 10 s; a slave asks for tables every 10 s, a member every second; a log is
read again after 20 s, and what is damaged asked for within 10 s, once more after a minute. A lock
lasts longer where a clock was set back."""


async def settle(case: Case) -> list[str]:
    """What is not as it should be in time. Takes until all is quiet."""
    began, broken = case.world.loop.now, []
    for at, check in WITHIN:
        await asyncio.sleep(began + at - case.world.loop.now)
        if case.is_timed:
            broken += [f"{each} {at:.0f} s after everything was whole" for each in check(case)]
    await asyncio.sleep(began + QUIET_S - case.world.loop.now)
    if not case.is_timed:
        if any(served(case)):
            await _while(lambda: any(served(case)), case, began + ASKED_S)
            await asyncio.sleep(QUIET_S)
        await _while(lambda: _asks(case), case, began + ASKED_S)
        await _while(lambda: any(served(case)), case, case.world.loop.now + QUIET_S)
    await _while(lambda: any(logs(case)), case, case.world.loop.now + ON_ITS_WAY_S)
    return broken


async def _while(holds: Callable[[], bool], case: Case, until: float) -> None:
    while holds() and case.world.loop.now < until:
        await asyncio.sleep(1)


def _asks(case: Case) -> bool:
    """Producers about transactions."""
    brokers = (master.broker for _, master in case.masters())
    return any(each.storage.transactions.halves.undecided for each in brokers if each is not None)
