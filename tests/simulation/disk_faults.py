"""Disks that fail, fill up, lose or garble what they have, or are lost; and what is done then."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from aiorocketmq.remoting.protocol.message.topic_names import SYSTEM_TOPICS
from aiorocketmq.store.message_store import MessageStore

from .copies import other_logs, others_of
from .disk import CALLS, SECTOR, SimulatedDisk
from .invariants import STOPS_S
from .journal import TOPIC
from .machine import LOG_FOLDERS, Machine
from .program_faults import IN_STEP_S, ProgramFaults
from .reads import stored
from .tables import moved_differ, tables_differ

VOTES_S = 60.0
"""A member whose disk was lost has been filled again by then."""
ERRNOS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, errno.EROFS, errno.EMFILE)
FULL_S = 5.0
SCARCE = 0.87
"""So much of a disk is used when the oldest files go whatever their age, and messages are taken."""
DERIVED = {"consumequeue", "queueends", "checkpoint"}
"""Consume queues, and what tells a start how far they go."""
IN_HEADS = 0.3
TELLING = (*range(12), *range(28, 36))
"""Size, mark and checksum of a record, and where it lies."""
ENOUGH = 6
"""Of these files: two or more are those of queues, and left alone."""
TAKES_SPACE = ("create", "resize", "append", "allocate", "make_directories", "table")


class DiskFaults(ProgramFaults):
    """Of brokers."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._flipped: list[tuple[Machine, str, int, int]] = []
        """Where a disk had which other byte."""

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
        machine.was_scarce, machine.disk.used = True, SCARCE
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
        """A replica has other bits in a record, or in records side by side, when it comes back: in
        a body, or in what else of a record shows by itself that it is another one (a master mends
        bodies only). A member may have lost all behind them then, as with its disk; a slave whose
        power fails may get them from its master."""
        broker, random = machine.broker, self.world.random
        if broker is None or (broker.identity().broker_id == 0 and not self._is_told(machine)):
            return
        if broker.group is not None and not (self._is_whole() and self._is_spared(machine)):
            return
        bodies = _bodies(broker.store)
        whole = broker.group is not None or broker.identity().broker_id != 0
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
            if whole and random.random() < IN_HEADS:
                at = random.choice(TELLING)
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
