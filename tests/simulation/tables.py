"""Tables of brokers: they are as an administrator was told, whoever serves, at any time; at the end
slaves and followers have the same, in memory and in their files, and so have name servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.broker.assembly.tables import GROUPS_FILE, TOPICS_FILE
from aiorocketmq.broker.replication.told_progress import is_progress
from aiorocketmq.broker.state.consumer_offsets import OFFSETS_FILE
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupTable
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig, TopicConfigTable
from aiorocketmq.remoting.protocol.message.topic_names import is_system_topic

from .administering import MOVED
from .copies import others_of
from .habits import Habits
from .journal import TOPIC, Journal
from .machine import Machine
from .told import Entry, Value
from .world import World

Table = dict[str, object]
"""By name."""
LOOK_S: Final = 0.5
FILE_S: Final = 5.5
"""Offsets of that age are in a file, which is written every five seconds;"""
MEMBER_S: Final = 1.5
"""of a member every second,"""
QUICK_S: Final = 0.1
"""if that takes no longer (seed 14002146)."""


class TableWatch:
    """Of one world, while clients and faults go on."""

    def __init__(self, world: World, journal: Journal, habits: Habits) -> None:
        self._world = world
        self._journal = journal
        self._troubled = bool({"errno", "full"} & habits.faults.keys())
        slow_s = 1.0 if "slow" in habits.faults else 2 * habits.thread_s * habits.slower
        self._took_s = 6 * slow_s
        """To write a file: several steps of threads, perhaps behind another file."""
        self._had: dict[str, list[tuple[float, dict[int, int]]]] = {}
        """By machine: which offsets of the group that is moved it had in memory when."""
        self._said: set[object] = set()
        self.broken: list[str] = []
        world.when_opened.append(self._look_at_file)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for name, machine in self._world.masters().items():
                if machine.broker is not None:
                    self._look(name, machine, machine.broker)
                    end = machine.broker.store.max_phy_offset
                    self._world.grown.setdefault(name, []).append((self._world.loop.now, end))
            for machine in self._world.machines.values():
                if machine.broker is not None:
                    had = self._had.setdefault(machine.name, [])
                    had.append((self._world.loop.now, _moved(machine.broker)))

    def _look(self, name: str, machine: Machine, broker: Broker) -> None:
        for entry, values in self._journal.told.of(name):
            there = value_at(broker, entry)
            if there not in values:
                self._tell(entry, f"{_said(entry, values)}, and {machine.name} has {there}")
        if self._world.had_forgotten(name):  # the queue may have become shorter than that
            return
        since, commits = self._world.serves_since.get(name, 0.0), self._journal.commits
        moved = _moved(broker)
        for queue_id in commits.queues(name):
            least, most = commits.least(name, queue_id, since), commits.most(name, queue_id)
            there_ = moved.get(queue_id, -1)
            if not least <= there_ <= most:
                self._tell(
                    (name, queue_id, least),
                    f"{MOVED} was moved to {least} of {TOPIC}/{queue_id} at {name}, no further "
                    f"than {most}, and {machine.name} has {there_}",
                )

    def _look_at_file(self, machine: Machine, broker: Broker) -> None:
        """A program that starts has what the last one had in memory some time before its end, or
        less where a new leader had it go back since."""
        had = self._had.pop(machine.name, [])
        is_new, machine.disk_is_new = machine.disk_is_new, False
        if not had or self._troubled or is_new:
            return
        often = broker.group is not None and self._took_s <= QUICK_S
        age_s = self._took_s + (MEMBER_S if often else FILE_S)
        until = had[-1][0] - age_s
        before = next((offsets for at, offsets in reversed(had) if at <= until), {})
        moved = _moved(broker)
        since = [offsets for at, offsets in had if at > until]
        for queue_id, offset in sorted(before.items()):
            offset = min([offset, *(each[queue_id] for each in since if queue_id in each)])
            if moved.get(queue_id, -1) < offset:
                self._tell(
                    (machine.name, queue_id, offset),
                    f"{machine.name} had {offset} of {TOPIC}/{queue_id} for {MOVED} {age_s} s "
                    f"before it ended, and its file has {moved.get(queue_id)}",
                )

    def _tell(self, what: object, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self.broken.append(f"{text} {self._world.loop.now - 1000:.1f} s after all began")


def _moved(broker: Broker) -> dict[int, int]:
    return dict(broker.state.offsets.queues(MOVED, TOPIC))


def moved_differ(world: World, master: Machine) -> Iterator[str]:
    """Slaves know how far the group was moved that an administrator moves."""
    assert master.broker is not None
    for machine, broker in others_of(world, master):
        if _moved(broker) != _moved(master.broker):
            yield f"{machine.name} has {_moved(broker)}, {master.name} {_moved(master.broker)}"


def value_at(broker: Broker, entry: Entry) -> Value:
    """What it has in memory."""
    if entry.table == "topics":
        topic = broker.state.topics.get(entry.name)
        return None if topic is None else topic.config
    return broker.state.groups.find(entry.name)


def _said(entry: Entry, values: tuple[Value, ...]) -> str:
    return (
        f"an administrator was told of {entry.table} {entry.name} at {entry.broker}: "
        f"{' or '.join(map(str, values))}"
    )


def tables_differ(
    world: World, master: Machine, before: Mapping[str, Mapping[str, Table]] | None = None
) -> Iterator[str]:
    """Slaves and followers have their master's topics and groups; without what the master has
    changed since ``in_memory`` was ``before``, if that is known."""
    assert master.broker is not None
    theirs = _tables(master.broker)
    had = theirs if before is None else before.get(master.name, {})
    for machine, broker in others_of(world, master):
        mine = _tables(broker)
        for what in ("topics", "groups"):
            changed = _names(had.get(what, {}), theirs[what])
            if differing := _differing(mine[what], theirs[what], but=changed):
                yield f"{what} of {machine.name} are not those of {master.name}: {differing}"


def offsets_differ(
    world: World, master: Machine, before: Mapping[str, Mapping[str, Table]]
) -> Iterator[str]:
    """A slave may have been told of a further one than its master was, and keeps it. What the
    master has had only since ``in_memory`` was ``before`` may be on its way. A slave with an empty
    log is not told how far brokers are with what is theirs."""
    assert master.broker is not None
    theirs, had = _offsets(master.broker), before.get(master.name, {}).get("offsets", {})
    kept = {name: offset for name, offset in theirs.items() if had.get(name) == offset}
    for machine, broker in others_of(world, master):
        mine = _offsets(broker)
        for name, offset in sorted(kept.items()):
            _, _, group = name.partition("@")
            if mine.get(name, 0 if is_progress(group.partition("/")[0]) else -1) < offset:
                yield f"{machine.name} has {mine.get(name)} of {name}, {master.name} {offset}"


def files_differ(
    world: World, tables: Iterable[str], before: Mapping[str, Mapping[str, Table]]
) -> Iterator[str]:
    """What lies on a disk is what is in memory; without what has changed since ``in_memory`` was
    ``before``: that may be on its way."""
    for machine in world.machines.values():
        if machine.broker is None:
            continue
        mine, files = _tables(machine.broker), _files(world, machine)
        had = before.get(machine.name, {})
        for what in tables:
            if what not in files:
                continue
            moved = set(_names(had.get(what, {}), mine[what]))
            if differing := _differing(files[what], mine[what], but=moved):
                yield f"{what} of {machine.name} are not those of its file: {differing}"


def in_memory(world: World) -> dict[str, dict[str, Table]]:
    """The tables of each machine."""
    machines = world.machines.values()
    return {each.name: _tables(each.broker) for each in machines if each.broker is not None}


def _tables(broker: Broker) -> dict[str, Table]:
    state = broker.state
    return {
        "topics": {topic.name: topic.config for topic in state.topics},
        "groups": {group.group_name: group for group in state.groups},
        "offsets": dict(_offsets(broker)),
    }


def _offsets(broker: Broker) -> dict[str, int]:
    each = broker.state.offsets.each()
    return _by_queue({f"{topic}@{group}": queues for topic, group, queues in each})


def _by_queue(offsets: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    return {
        f"{key}/{queue_id}": of for key, each in offsets.items() for queue_id, of in each.items()
    }


def _files(world: World, machine: Machine) -> dict[str, Table]:
    folder = world.folder / machine.name / "config"

    found: dict[str, Table] = {}
    for what, (name, read) in _READ.items():
        path = folder / name
        if path.exists():  # else nothing has changed since all began
            found[what] = dict(read(path.read_bytes()))
    return found


_READ: Final[dict[str, tuple[str, Callable[[bytes], Mapping[str, object]]]]] = {
    "topics": (TOPICS_FILE, lambda text: decode_body(TopicConfigTable, text).topic_config_table),
    "groups": (
        GROUPS_FILE,
        lambda text: decode_body(SubscriptionGroupTable, text).subscription_group_table,
    ),
    "offsets": (
        OFFSETS_FILE,
        lambda text: _by_queue(decode_body(ConsumerOffsetTable, text).offset_table),
    ),
}


def _differing(one: Table, other: Table, *, but: Collection[str] = ()) -> str:
    names = [name for name in _names(one, other) if name not in but]
    return ", ".join(f"{name}: {one.get(name)}, {other.get(name)}" for name in names[:2])


def _names(one: Table, other: Table) -> list[str]:
    """Of what differs."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def addresses_differ(world: World) -> Iterator[str]:
    """Name servers know which brokers there are, and who serves."""
    wanted: dict[str, dict[int, str]] = {}
    for machine in world.machines.values():
        if machine.broker is not None:
            broker_id = machine.broker.identity().broker_id
            wanted.setdefault(machine.broker_name, {})[broker_id] = f"{machine.host}:10911"
    for machine in world.machines.values():
        if machine.name_server is None:
            continue
        route = machine.name_server.brokers._routes.route(TOPIC)
        for data in route.broker_datas if route else ():
            known = {int(number): address for number, address in data.broker_addrs.items()}
            if known != wanted.get(data.broker_name):
                yield f"{machine.name} knows {known}, there is {wanted.get(data.broker_name)}"


def at_name_servers(world: World, journal: Journal) -> Iterator[str]:
    """They know topics of every master as it has them, and none that was deleted."""
    for machine in world.machines.values():
        if machine.name_server is None:
            continue
        routes = machine.name_server.brokers._routes
        for topic in sorted(journal.told.deleted):
            if routes.route(topic) is not None:
                yield f"{topic} was deleted, and {machine.name} still knows where it is"
        for name, master in sorted(world.masters().items()):
            assert master.broker is not None
            for topic in sorted(journal.made - journal.told.deleted):
                entry = Entry(name, "topics", topic)
                config, route = value_at(master.broker, entry), routes.route(topic)
                if not isinstance(config, TopicConfig) or is_system_topic(topic):
                    continue
                known = {
                    (queue.read_queue_nums, queue.write_queue_nums, queue.perm)
                    for queue in (route.queue_datas if route else ())
                    if queue.broker_name == name
                }
                wanted = (config.read_queue_nums, config.write_queue_nums, config.perm)
                if known != {wanted}:
                    yield f"{topic} at {name} is {wanted}, and {machine.name} knows {known}"
