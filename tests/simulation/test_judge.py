"""What the judge lets be, and that what lies beside it is told.

Worlds in which nothing runs: machines that have a store, and what was seen of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast
from unittest import mock

import pytest

from aiorocketmq import TransactionState
from aiorocketmq.broker.assembly.broker import Broker
from aiorocketmq.remoting.protocol.message.topic_names import TopicName
from aiorocketmq.store.message_store import MessageStore

from ..store.memory_disk import Content, MemoryDisk
from ..store.replica.replica_world import open_slave, replicate
from ..store.world import open_store, put_ok
from . import settling
from .copies import other_logs, reads_of_copies
from .disk import SimulatedDisk
from .habits import habits
from .invariants import NOTED_S, _committed_once, _still_there, _stored_as_told, left_behind
from .journal import Acknowledged, Delivered, Journal
from .loop import START_S, Process
from .machine import Machine
from .reads import Place, stored
from .settling import ON_ITS_WAY_S, QUIET_S, Case, settle
from .workload import GROUP, ORDERED, given_up
from .world import World

DISK = Path("/disk")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(1, tmp_path)
    yield world
    world.loop.close()


def serves(store: MessageStore, broker_id: int = 0) -> Broker:
    """As far as it is looked at here."""
    identity = SimpleNamespace(broker_id=broker_id)
    return cast(Broker, SimpleNamespace(store=store, group=None, identity=lambda: identity))


def machine_of(world: World, name: str, store: MessageStore, broker_id: int = 0) -> Machine:
    """It belongs to the broker ``a``."""
    machine = world.machine(name, f"10.0.1.{broker_id + 1}")
    machine.broker_name, machine.broker = "a", serves(store, broker_id)
    return machine


def pair(world: World, disk: MemoryDisk) -> tuple[Machine, Machine]:
    """A master and its slave, whose disk that is, with three files of a log."""
    master, slave = open_store(DISK, MemoryDisk()), open_slave(DISK, disk=disk)
    for number in range(60):
        put_ok(master, "T", 0, b"%d" % number + bytes(200))
    replicate(master, slave)
    return machine_of(world, "master", master), machine_of(world, "slave", slave, 1)


# -- a slave that has lost the first files of its log with its power


@pytest.mark.parametrize(
    ("named", "power", "begins_later"),
    [
        ({"00000000000000008192"}, True, True),
        ({"00000000000000000000", "00000000000000008192"}, True, False),
        ({"00000000000000000000"}, True, False),
        (set(), True, False),  # all of it: it gets all of it
        ({"00000000000000008192"}, False, False),
    ],
)
@pytest.mark.parametrize("folder", ["commitlog", "data"])
def test_a_machine_knows_that_its_log_begins_later_since_its_power_failed(
    world: World, folder: str, named: set[str], power: bool, begins_later: bool
) -> None:
    machine = world.machine("slave", "10.0.1.2")
    machine.process, machine.disk = Process(world.loop, "slave", machine.host), SimulatedDisk()
    for name in ("00000000000000000000", "00000000000000008192"):
        for path in (f"/store/{folder}/{name}", f"/store/consumequeue/T/0/{name}"):
            content = machine.disk.files[path] = Content(b"synced")
            content.durable = b"synced"
    of_log = {f"/store/{folder}/{each}" for each in named}
    machine.disk.named = of_log | {each for each in machine.disk.files if folder not in each}
    with mock.patch.object(world.random, "random", return_value=0.0):  # what may be lost is
        machine.kill(power=power)
    assert machine.begins_later is begins_later


def without_its_first_file(slave: Machine, disk: MemoryDisk) -> None:
    """It starts again."""
    left = disk.copy()
    left.delete(DISK / "commitlog" / f"{0:020}")
    store = open_slave(DISK, disk=left)
    assert store.min_phy_offset == 8192
    slave.broker = serves(store, 1)


def test_what_such_a_slave_lacks_at_its_begin_is_let_be(world: World) -> None:
    master, slave = pair(world, disk := MemoryDisk())
    without_its_first_file(slave, disk)
    slave.begins_later = True
    assert list(reads_of_copies(world, master, ["T"])) == []


def test_what_it_lacks_behind_that_is_told(world: World) -> None:
    master, slave = pair(world, disk := MemoryDisk())
    without_its_first_file(slave, disk)
    slave.begins_later = True
    assert master.broker is not None
    put_ok(master.broker.store, "T", 0, b"not at the slave")
    [message, numbers] = reads_of_copies(world, master, ["T"])
    assert message.startswith("slave has at a/T/0 60 None")
    assert numbers == "T/0 goes from, to (0, 60) at slave, (0, 61) at master"


def test_what_another_slave_lacks_at_its_begin_is_told(world: World) -> None:
    """It had it on its disk."""
    master, slave = pair(world, disk := MemoryDisk())
    without_its_first_file(slave, disk)
    first, *_ = found = list(reads_of_copies(world, master, ["T"]))
    assert first.startswith("slave has at a/T/0 0 None")
    assert len(found) > 10


# -- a message that is damaged at one and has expired at the other


@pytest.mark.parametrize(
    ("scarce", "gone", "damaged", "told"),
    [
        (True, True, True, False),
        (True, True, False, True),  # nobody hands out what is intact
        (True, False, True, True),  # it could be mended
        (False, True, True, True),  # nothing expires
    ],
)
def test_what_is_damaged_and_was_deleted_elsewhere_may_be_lost(
    world: World, scarce: bool, gone: bool, damaged: bool, told: bool
) -> None:
    master, slave = pair(world, disk := MemoryDisk())
    if gone:
        without_its_first_file(slave, disk)
    if scarce:
        world.expired.add("a")
    assert master.broker is not None
    store, place = master.broker.store, Place("T", "a", 0, 3)
    there = stored(store, "a", ["T"])
    [(phy_offset, size, _)] = store.entries.some("T", 0, 3, 1) or []
    if damaged:
        store.damage.remember(phy_offset, size)
    del there[place]
    journal = Journal()
    journal.sent.update(dict.fromkeys(there.values(), "T"))
    journal.acknowledged.append(Acknowledged(*place, b"3" + bytes(200), 0.0, 0.0))
    assert bool(list(_stored_as_told(world, there, journal))) is told


# -- what a master writes in the moment of the last look


def told_of_logs(world: World, comes_after_s: float) -> list[str]:
    """When all has been quiet for long enough a master writes something, which its slave has so
    much later."""
    master, slave = pair(world, MemoryDisk())
    assert master.broker is not None
    assert slave.broker is not None
    stores = master.broker.store, slave.broker.store
    began, loop = world.loop.now, world.loop
    loop.call_at(began + QUIET_S - 0.001, put_ok, stores[0], TopicName.TRANS_OP_HALF)
    loop.call_at(began + QUIET_S + comes_after_s, replicate, *stores)
    usual = habits(Random(1))._replace(thread_s=0.0005, slower=1.0)
    with mock.patch.object(settling, "WITHIN", ()):
        loop.run_until_complete(settle(Case(world, Journal(), {"a"}, usual, {})))
    assert loop.now <= began + QUIET_S + ON_ITS_WAY_S + 1.0, "nobody is waited for without end"
    return list(other_logs(world, master))


@pytest.mark.parametrize("seconds", [0.3, 4.0])
def test_what_a_slave_has_soon_was_on_its_way(world: World, seconds: float) -> None:
    assert told_of_logs(world, seconds) == []


@pytest.mark.parametrize("seconds", [6.5, 1000.0])
def test_what_it_does_not_have_soon_is_told(world: World, seconds: float) -> None:
    [told] = told_of_logs(world, seconds)
    assert told.startswith("slave ends at ")


# -- what nobody awaits


def test_what_a_callback_raises_is_told(world: World) -> None:
    def falls_over() -> None:
        raise KeyError("n1")

    world.loop.set_exception_handler(lambda *_: None)
    world.loop.call_soon(falls_over)
    [told] = world.loop.run_until_complete(left_behind(world))
    assert told == "a callback raised KeyError('n1')"


# -- a transaction that is committed twice


def told_of_commits(world: World, doubts: list[tuple[int, int, float]]) -> list[str]:
    """A message of one half message is there twice. Its log was longer at 10 s, until the power
    failed: what it has now of the first commit came at 20 s, of the second at 40 s. ``doubts``:
    stretches of the log, from the commit with that number to the other, and since when."""
    store, body = open_store(DISK, MemoryDisk()), b"committed"
    put_ok(store, TopicName.TRANS_HALF, 0, body)
    master, places = machine_of(world, "master", store), []
    for _ in range(2):
        put_ok(store, "Other", 0, bytes(100))
        places.append(put_ok(store, "T", 0, body).phy_offset)
    put_ok(store, "Other", 0, bytes(100))
    end = store.max_phy_offset
    world.grown[master.broker_name] = [
        (START_S + at, size)
        for at, size in [
            (1, 0), (10, places[1] + 1), (15, places[0]), (20, places[0] + 1), (40, end),
        ]
    ]  # fmt: skip
    world.doubtful[master.broker_name] = [
        (([*places, end])[begin], ([*places, end])[stop], START_S + since)
        for begin, stop, since in doubts
    ]
    world.loop.now = START_S + 100
    journal = Journal()
    journal.decided[body] = TransactionState.COMMIT
    there = {Place("T", "a", 0, offset): body for offset in range(2)}
    return list(_committed_once(world, journal, there))


@pytest.mark.parametrize("since", [22.0, 20 + NOTED_S])
def test_a_commit_may_be_forgotten_by_who_is_gone_soon(world: World, since: float) -> None:
    """Soon after it came to the log that has it, not to one that a power failure has made shorter
    since."""
    assert told_of_commits(world, [(0, 1, since)]) == []


@pytest.mark.parametrize(
    "doubts",
    [
        [],
        [(0, 1, 20 + NOTED_S + 0.5)],  # late enough for it to be noted
        [(2, 2, 22.0)],  # soon, but behind both
    ],
)
def test_a_commit_that_was_noted_is_the_only_one(
    world: World, doubts: list[tuple[int, int, float]]
) -> None:
    [told] = told_of_commits(world, doubts)
    assert told == "committed 2 times: b'committed', at a/T/0 0, a/T/0 1"


# -- what an ASYNC_FLUSH broker had acknowledged when its power failed


def told_of_lost(world: World, acknowledged: float, failed: float | None) -> list[str]:
    """One message is not there, and the power failed then; seconds since all began."""
    if failed is not None:
        world.forgotten["a"] = [START_S + failed]
    journal, at = Journal(), START_S + acknowledged
    journal.acknowledged.append(Acknowledged("T", "a", 0, 0, b"0", at - 0.1, at))
    return list(_stored_as_told(world, {}, journal))


@pytest.mark.parametrize("acknowledged", [20.0, 29.0])
def test_what_came_in_the_last_seconds_may_be_lost(world: World, acknowledged: float) -> None:
    assert told_of_lost(world, acknowledged, 30.0) == []


@pytest.mark.parametrize(
    ("thorough_ms", "acknowledged", "failed"),
    [
        (10_000, 14.0, 30.0),  # it was synced since
        (1_000, 22.0, 30.0),
        (10_000, 20.0, None),
    ],
)
def test_what_is_older_or_of_another_broker_may_not(
    world: World, thorough_ms: int, acknowledged: float, failed: float | None
) -> None:
    world.settings = {"store": {"flush_commit_log_thorough_interval": thorough_ms}}
    [told] = told_of_lost(world, acknowledged, failed)
    assert told.startswith("lost: b'0' was acknowledged as a/T/0 0")


# -- topics that no start knows, and bodies that are longer than somebody allowed


@pytest.mark.parametrize(
    ("known", "acknowledged", "told"),
    [(False, False, False), (False, True, True), (True, False, True)],
)
def test_what_nobody_was_told_of_may_go_with_its_topic(
    world: World, known: bool, acknowledged: bool, told: bool
) -> None:
    master = machine_of(world, "master", open_store(DISK, MemoryDisk()))
    topics = [SimpleNamespace(name="T")] if known else []
    master.broker.state = SimpleNamespace(topics=topics)  # type: ignore[union-attr]
    journal = Journal()
    journal.delivered.append(Delivered("g", "T", "a", 0, 0, b"0", True, False))
    if acknowledged:
        journal.acknowledged.append(Acknowledged("T", "a", 0, 0, b"0", 0.0, 0.0))
    assert bool(list(_still_there(world, {}, journal))) is told


@pytest.mark.parametrize(("limit", "told"), [(3, False), (4, True)])
def test_a_body_that_is_too_long_may_be_a_dead_letter(world: World, limit: int, told: bool) -> None:
    journal = Journal()
    journal.limit, journal.promised[b"long"] = limit, "T"
    journal.delivered.append(Delivered("g", "T", "a", 0, 0, b"long", False, False))
    assert bool(list(_stored_as_told(world, {}, journal))) is told
    assert (b"long" not in journal.had("g", expires=False)) is told


# -- what its handlers never take


@pytest.mark.parametrize("hopeless", [False, True])
def test_dead_letters_are_those_that_nobody_takes(hopeless: bool) -> None:
    often = habits(Random(1))._replace(hopeless=hopeless)
    dead = {b"7", b"8", b"9" + b"." * 100}
    assert given_up(dead, GROUP, often, 100) == dead - {b"8"} - ({b"7"} if not hopeless else set())
    assert given_up(dead, ORDERED, often, 100) == set()
