"""What goes wrong with machines and between them. Each is a coroutine that ends when it is over."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from aiorocketmq.remoting.protocol.message.topic_names import SYSTEM_TOPICS
from aiorocketmq.store.message_store import MessageStore

from .copies import other_logs, others_of
from .disk import CALLS, SECTOR, SimulatedDisk
from .habits import STEPS
from .invariants import STOPS_S
from .journal import TOPIC
from .machine import LOG_FOLDERS, Machine
from .reads import stored
from .tables import moved_differ, tables_differ
from .workload import CLIENTS
from .world import World

VOTES_S = 60.0
"""A member whose disk was lost has been filled again by then."""
ERRNOS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, errno.EROFS, errno.EMFILE)
FULL_S = 5.0
IN_STEP_S = 20.0
"""So long somebody waits for a slave that has everything, tables too."""
SCARCE = 0.87
"""So much of a disk is used when the oldest files go whatever their age, and messages are taken."""
DERIVED = {"consumequeue", "queueends", "checkpoint"}
"""Consume queues, and what tells a start how far they go."""
ENOUGH = 6
"""Of these files: two or more are those of queues, and left alone."""
NAME_SERVERS = ("namesrv1", "namesrv2")
TAKES_SPACE = ("create", "resize", "append", "allocate", "make_directories", "table")


class Faults:
    """``power``: the power of brokers may fail; if not, they are killed instead. ``steps``: at
    which of theirs."""

    def __init__(
        self, world: World, brokers: list[str], *, power: bool, steps: tuple[str, ...]
    ) -> None:
        self.world = world
        self.steps = steps
        self.brokers = brokers
        self.power = power
        self._flipped: list[tuple[Machine, str, int, int]] = []
        """Where a disk had which other byte."""
        self._busy: set[object] = set()
        """Machines and properties of the world that something is wrong with already."""

    def draw(self, kind: str, lasts: float) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Where it strikes, and how; None: something is wrong there already. ``lasts``: seconds."""
        random = self.world.random
        match kind:
            case "client" | "stall" if kind == "client" or random.random() < 0.5:
                victim: object = random.choice(CLIENTS)
            case "namesrv":
                victim = random.choice(NAME_SERVERS)
            case "far" | "slow" | "role" | "disk" | "drop":
                victim = kind
            case _:
                victim = random.choice(self.brokers)
        machine = self.world.machines.get(str(victim)) or self._one()
        places = {victim, machine.name} if kind == "disk" else {victim}
        if kind == "namesrv":  # a client does not start where none answers
            places = {kind}
        elif kind in ("all", "relay", "promote"):
            places = set(self.brokers)
        if places & self._busy:
            return None

        async def until_over() -> None:
            self._busy.update(places)
            try:
                await getattr(self, f"_{kind}")(machine, lasts)
            finally:
                self._busy.difference_update(places)

        return until_over

    def _one(self) -> Machine:
        return self.world.machines[self.world.random.choice(self.brokers)]

    # -- programs

    async def _kill(self, machine: Machine, lasts: float, *, power: bool = False) -> None:
        machine.kill(power=power)
        await asyncio.sleep(lasts)
        machine.start()

    async def _all(self, _machine: Machine, lasts: float) -> None:
        """All brokers at once, as with the power of their rack; each is back in its own time."""
        random, power = self.world.random, self.power and self.world.random.random() < 0.7
        machines = [self.world.machines[each] for each in self.brokers]
        for machine in machines:
            machine.kill(power=power)
        for machine in random.sample(machines, len(machines)):
            await asyncio.sleep(random.expovariate(1 / lasts))
            machine.start()

    async def _relay(self, machine: Machine, lasts: float) -> None:
        """Who was cut off from the others is back in the moment in which another one goes: the
        master, if there is one."""
        random = self.world.random
        others = [each for each in self._same(machine) if each is not machine]
        if not others:
            return
        await self._apart(machine, [each.host for each in others], lasts)
        master = self.world.masters().get(machine.broker_name)
        goes = master if master in others else random.choice(others)
        await self._kill(goes, random.expovariate(1 / lasts), power=self.power)

    def _same(self, machine: Machine) -> list[Machine]:
        """Those that have copies of the same messages."""
        machines = (self.world.machines[each] for each in self.brokers)
        return [each for each in machines if each.broker_name == machine.broker_name]

    async def _power(self, machine: Machine, lasts: float) -> None:
        """Mostly when it matters: in front of a sync, or when a table claims something."""
        random = self.world.random
        if self.power and random.random() < 0.7:
            await self._at_step(machine, lasts, (random.choice(["unsynced", "table"]),), power=True)
        else:
            await self._kill(machine, lasts, power=self.power)

    async def _step(self, machine: Machine, lasts: float) -> None:
        """Between any two steps: right behind one that others can see, or that a disk does."""
        power = self.power and self.world.random.random() < 0.7
        await self._at_step(machine, lasts, self.steps, power=power)

    async def _at_step(
        self, machine: Machine, lasts: float, kinds: tuple[str, ...], *, power: bool
    ) -> None:
        """Rare steps are chosen as often as those that are usual."""
        random, reached = self.world.random, asyncio.Event()
        steps = [each for each in machine.steps if each.split()[0] in kinds]
        if not steps:
            return
        if random.random() < 0.7:
            steps = [random.choice(steps)]
        count = 1 + int(random.expovariate(1 / random.choice([0.5, 2, 20, 200])))
        process = machine.process

        def kill() -> None:
            machine.kill(power=power)
            reached.set()

        machine.at_step(tuple(steps), count, kill)
        try:
            await asyncio.wait_for(reached.wait(), 5.0)
        except TimeoutError:
            machine.at_step((), 0, kill)
            return
        if process is not None:
            await asyncio.sleep(lasts)
        machine.start()

    async def _stop(self, machine: Machine, lasts: float) -> None:
        """SIGTERM."""
        if not await machine.stop(STOPS_S):
            machine.ended.append(TimeoutError("it was told to stop and goes on"))
        await asyncio.sleep(lasts)
        machine.start()

    async def _twice(self, machine: Machine, lasts: float) -> None:
        """Once more, soon after it has started: perhaps while it still opens what it has."""
        random = self.world.random
        await self._kill(machine, lasts, power=self.power and random.random() < 0.5)
        power = self.power and random.random() < 0.5
        await self._at_step(machine, lasts, random.choice([STEPS, self.steps]), power=power)

    async def _client(self, machine: Machine, lasts: float) -> None:
        await self._kill(machine, lasts)

    async def _namesrv(self, machine: Machine, lasts: float) -> None:
        await self._kill(machine, lasts)

    async def _role(self, machine: Machine, _lasts: float) -> None:
        """Somebody wants another leader; now and then the next one at once."""
        while await self._handed_over(machine) and self.world.random.random() < 0.3:
            pass

    async def _handed_over(self, machine: Machine) -> bool:
        master = self.world.masters().get(machine.broker_name)
        if master is None or master.broker is None or master.broker.group is None:
            return False
        if (process := master.process) is not None:  # it does not stop just now
            self.world.note(f"{master.name} is asked to hand over")
            await asyncio.wait([process.start(master.broker.group.node.transfer())], timeout=5)
        return True

    # -- the network

    async def _cut(self, machine: Machine, lasts: float) -> None:
        """One way or both, between a broker and whoever."""
        others = sorted(m.host for m in self.world.machines.values() if m is not machine)
        await self._apart(machine, [self.world.random.choice(others)], lasts)

    async def _alone(self, machine: Machine, lasts: float) -> None:
        """One way or both, between a broker and all other brokers, or one of them, which others
        see; clients reach it."""
        random = self.world.random
        others = [self.world.machines[each].host for each in self.brokers if each != machine.name]
        if others:
            await self._apart(machine, random.choice([others, [random.choice(others)]]), lasts)

    async def _apart(self, machine: Machine, hosts: list[str], lasts: float) -> None:
        away = {(machine.host, host) for host in hosts}
        back = {(host, machine.host) for host in hosts}
        cut = self.world.random.choice([away | back, away, back])
        self.world.note(f"cut for {lasts:.1f} s: {', '.join(f'{a} > {b}' for a, b in sorted(cut))}")
        self.world.network.cut.update(cut)
        await asyncio.sleep(lasts)
        self.world.network.heal(cut)

    async def _far(self, machine: Machine, lasts: float) -> None:
        """All that comes to a broker, or goes from it, takes up to 0.5 s."""
        network, random = self.world.network, self.world.random
        self.world.note(f"{machine.name} is far away for {lasts:.1f} s")
        usual = network.latency_s
        network.latency_s = lambda way: (
            random.uniform(0, 0.5) if machine.host in way else usual(way)
        )
        await asyncio.sleep(lasts)
        network.latency_s = usual

    async def _stall(self, machine: Machine, lasts: float) -> None:
        """It does not read what comes."""
        self.world.note(f"{machine.name} does not read for {lasts:.1f} s")
        self.world.network.stalled.add(machine.host)
        await asyncio.sleep(lasts)
        self.world.network.read_on(machine.host)

    async def _drop(self, machine: Machine, _lasts: float) -> None:
        other = self.world.random.choice([*CLIENTS, *self.brokers, *NAME_SERVERS])
        self.world.note(f"connections of {other} and {machine.name} are lost")
        self.world.network.drop(machine.host, self.world.machines[other].host)

    # -- the machine

    async def _slow(self, _machine: Machine, lasts: float) -> None:
        loop, random = self.world.loop, self.world.random
        self.world.note(f"threads take up to a second for {lasts:.1f} s")
        usual, loop.thread_s = loop.thread_s, random.random
        await asyncio.sleep(lasts)
        loop.thread_s = usual

    async def _clock(self, machine: Machine, _lasts: float) -> None:
        ahead = self.world.random.uniform(-5, 5)
        self.world.note(f"the clock of {machine.name} jumps to {ahead:+.1f} s")
        machine.clock.ahead_s = ahead

    async def _errno(self, machine: Machine, lasts: float) -> None:
        """Any call may fail, in any way; or only one of them."""
        random = self.world.random
        number, often = random.choice(ERRNOS), random.choice([0.05, 0.3, 1.0])
        calls = random.choice([(*CALLS, "table"), (random.choice(CALLS),)])
        self.world.note(
            f"{often:.0%} of the calls of {machine.name}'s disk ({calls[0]} ...) end with "
            f"{errno.errorcode[number]} for {lasts:.1f} s"
        )
        await self._trouble(
            machine,
            lasts,
            lambda call: number if call in calls and random.random() < often else None,
        )

    async def _scarce(self, machine: Machine, lasts: float) -> None:
        """Most of the disk is used: its oldest files go before their time."""
        self.world.note(f"the disk of {machine.name} is scarce for {lasts:.1f} s")
        self.world.expired.add(machine.broker_name)
        machine.disk.used = SCARCE
        await asyncio.sleep(lasts)
        machine.disk.used = 0.1

    async def _full(self, machine: Machine, lasts: float) -> None:
        """For seconds: somebody has to make room. Where files are not written in place (copy on
        write) no write has any."""
        lasts += self.world.random.uniform(0, FULL_S)
        calls = self.world.random.choice([TAKES_SPACE, (*TAKES_SPACE, "write")])
        self.world.note(f"the disk of {machine.name} is full for {lasts:.1f} s")
        await self._trouble(machine, lasts, lambda call: errno.ENOSPC if call in calls else None)

    async def _trouble(
        self, machine: Machine, lasts: float, trouble: Callable[[str], int | None]
    ) -> None:
        """Whoever sees to it starts a broker again of whose disk a sync has failed: it refuses
        messages until then. What was short of something goes on by itself."""
        begin, since = self.world.doubts(machine), self.world.loop.now
        machine.disk_trouble, machine.sync_failed = trouble, False
        await asyncio.sleep(lasts)
        machine.disk_trouble = None
        self.world.doubts(machine, begin, since=since)
        if machine.sync_failed:
            await self._stop(machine, 0.0)

    async def _derived(self, machine: Machine, lasts: float) -> None:
        """One or two files that a start makes again from the log are not what they were when a
        broker is back. (Of the index it tells what it sees, and leaves it to ``mqstore rebuild``;
        where no queue is left whose files are as long as configured, it asks.)"""
        random = self.world.random
        if random.random() < 0.5:
            machine.kill()
        elif not await machine.stop(STOPS_S):
            machine.ended.append(TimeoutError("it was told to stop and goes on"))
        files = sorted(each for each in machine.disk.files if DERIVED & set(Path(each).parts))
        if len(files) >= ENOUGH:
            for path in random.sample(files, random.choice([1, 2])):
                self.world.note(f"{path} is {machine.disk.spoil(path, random)}")
        await asyncio.sleep(lasts)
        machine.start()

    async def _flip(self, machine: Machine, lasts: float) -> None:
        """A replica has other bits in a body, or in bodies side by side, when it comes back. (Of
        what lies around bodies not all has a checksum.) A member may have lost all behind them
        then, as with its disk; a slave whose power fails may get them from its master."""
        broker, random = machine.broker, self.world.random
        if broker is None or (broker.identity().broker_id == 0 and not self._is_told(machine)):
            return
        if broker.group is not None and not (self._is_whole() and self._is_spared(machine)):
            return
        bodies = _bodies(broker.store)
        if broker.identity().broker_id == 0:
            del bodies[-1:]  # where the last record is another one the log ends in front of it
        if not bodies:
            return
        first = random.randrange(max(0, len(bodies) - random.choice([4, len(bodies)])), len(bodies))
        machine.kill()
        for place, phy_offset, record, at in bodies[first : first + random.choice([1, 2, 4])]:
            path = _log_file(machine, phy_offset)
            if path is None or not self._another_has(machine, phy_offset, record):
                continue
            at += phy_offset - _begins_at(path)
            byte = machine.disk.files[path][at]
            if machine.disk.flip(path, at, random.randrange(8)):
                self._flipped.append((machine, path, at, byte))
                self.world.note(f"a bit of {place} at {machine.name} is flipped")
        await asyncio.sleep(lasts)
        machine.start()
        if random.random() < 0.3:  # while it mends that
            await self._at_step(machine, lasts, self.steps, power=self.power)

    async def _sectors(self, machine: Machine, lasts: float) -> None:
        """A slave has zeros where its log had something, up to a whole file of it, when it comes
        back; its master has that."""
        broker, random = machine.broker, self.world.random
        if broker is None or broker.group is not None or broker.identity().broker_id == 0:
            return
        end = broker.store.max_phy_offset
        files = sorted(path for path in machine.disk.files if _begins_at(path) < end)
        if not files:
            return
        machine.kill()
        path = random.choice(files)
        begin, content = _begins_at(path), machine.disk.files[path]
        at = random.randrange(len(content)) // SECTOR * SECTOR
        at, size = random.choice([(at, SECTOR), (at, 4 * SECTOR), (0, len(content))])
        size = min(size, end - begin - at, len(content) - at)
        if size > 0 and self._another_has(machine, begin + at, content[at : at + size]):
            machine.disk.put(path, at, bytes(size))
            self.world.note(f"{size} bytes from {begin + at} on are zeros at {machine.name}")
        await asyncio.sleep(lasts)
        machine.start()

    def _is_told(self, machine: Machine) -> bool:
        """It is a master, and its slave tells it what it has."""
        broker = machine.broker
        return (
            broker is not None
            and broker.group is None
            and not self.power
            and any(broker.replication.lags())
        )

    def _another_has(self, machine: Machine, phy_offset: int, record: bytes) -> bool:
        """Whose copy is intact: of what all copies of are damaged nothing can be promised."""
        for other in self.world.machines.values():
            if other is machine or other.broker_name != machine.broker_name:
                continue
            path = _log_file(other, phy_offset)
            if path is not None:
                at = phy_offset - _begins_at(path)
                if other.disk.files[path][at : at + len(record)] == record:
                    return True
        return False

    async def _disk(self, machine: Machine, lasts: float) -> None:
        """A member of a whole group loses its disk. It is the only one until it votes again: what
        two of three hold may be lost with two disks."""
        if not self._is_whole() or self._is_damaged():
            return
        machine.kill()
        self._lose_disk(machine)
        await asyncio.sleep(lasts)
        machine.start()
        until = self.world.loop.now + VOTES_S
        while not _votes(machine) and self.world.loop.now < until:
            await asyncio.sleep(0.1)

    async def _promote(self, machine: Machine, lasts: float) -> None:
        """A master is lost with its disk, and somebody makes its slave the master; it comes back as
        a slave, with an empty disk (docs/operations.md). Such a slave has what it has heard by
        then: it is lost when that is everything."""
        until = self.world.loop.now + IN_STEP_S
        while (pair := self._in_step(machine.broker_name)) is None:
            await asyncio.sleep(0.1)
            if self.world.loop.now > until:
                return
        master, slave = pair
        master.kill()
        self._lose_disk(master)
        if not await slave.stop(STOPS_S):
            slave.ended.append(TimeoutError("it was told to stop and goes on"))
        master.role, slave.role = slave.role, master.role
        self.world.note(f"{slave.name} is made the master")
        slave.start()
        await asyncio.sleep(lasts)
        master.start()

    def _in_step(self, broker_name: str) -> tuple[Machine, Machine] | None:
        """A master and its slave, which has all that it has."""
        world, master = self.world, self.world.masters().get(broker_name)
        if master is None or master.broker is None or broker_name in world.expired:
            return None
        others = list(others_of(world, master))
        if master.broker.group is not None or not others:
            return None
        slave, broker = others[0]
        differ = [
            other_logs(world, master),
            tables_differ(world, master),
            moved_differ(world, master),
        ]
        if master.process is None or slave.process is None or broker.store.damage.places:
            return None
        return None if any(map(any, differ)) else (master, slave)

    def _is_whole(self) -> bool:
        """All members have what they ever acknowledged."""
        return all(_votes(each) for each in self.world.machines.values() if each.broker_name)

    def _is_damaged(self) -> bool:
        """Somebody has yet to mend what was flipped: perhaps with what this disk has."""
        return any(path in machine.disk.files for machine, path, _, _ in self._damage())

    def _damage(self) -> Iterator[tuple[Machine, str, int, int]]:
        """What was flipped, and is not mended."""
        for machine, path, at, byte in self._flipped:
            content = machine.disk.files.get(path, b"")
            if content[at : at + 1] != bytes([byte]):
                yield machine, path, at, byte

    def _is_spared(self, machine: Machine) -> bool:
        """Whatever is damaged elsewhere is intact at a third one, too: this one's log may end in
        front of its own damage."""
        others = [each for each in self._same(machine) if each is not machine]
        return all(
            any(_byte(each, _begins_at(path) + at) == byte for each in others)
            for damaged, path, at, byte in self._damage()
            if damaged is not machine
        )

    def _lose_disk(self, machine: Machine) -> None:
        self.world.note(f"the disk of {machine.name} is lost")
        machine.disk, machine.disk_is_new = SimulatedDisk(), True
        self.world.remove_tables(machine)


def _bodies(store: MessageStore) -> list[tuple[str, int, bytes, int]]:
    """Of the messages of a log, as they lie there: which it is, where its record is, the record,
    and where in it the body begins."""
    found = []
    topics = [TOPIC, *sorted(store.topics() & SYSTEM_TOPICS)]
    for (topic, _, queue_id, offset), body in stored(store, "", topics).items():
        if not body:
            continue
        units = store.entries.some(topic, queue_id, offset, 1)
        assert units
        phy_offset = units[0][0]
        record = store.message_by_offset(phy_offset)
        if record is not None:
            at = record.index(len(body).to_bytes(4, "big") + body) + 4
            found.append((f"{topic}/{queue_id} {offset}", phy_offset, record, at))
    return sorted(found, key=lambda each: each[1])


def _byte(machine: Machine, phy_offset: int) -> int | None:
    """What its log has there."""
    path = _log_file(machine, phy_offset)
    content = b"" if path is None else machine.disk.files[path]
    at = 0 if path is None else phy_offset - _begins_at(path)
    return content[at] if at < len(content) else None


def _begins_at(path: str) -> int:
    """Where a file of the log does; far away: it is another file."""
    name = PurePosixPath(path)
    return int(name.name) if name.parent.name in LOG_FOLDERS else 1 << 62


def _log_file(machine: Machine, phy_offset: int) -> str | None:
    """Where a record lies, if it has a log."""
    files = (path for path in machine.disk.files if _begins_at(path) <= phy_offset)
    return max(files, key=_begins_at, default=None)


def _votes(machine: Machine) -> bool:
    """It is a member of a group, and has all that it ever acknowledged. One without any log has not
    yet found out that it is not new."""
    broker = machine.broker
    if broker is None or broker.group is None:
        return False
    node = broker.group.node
    return node.votes and node.log.end_index >= 0
