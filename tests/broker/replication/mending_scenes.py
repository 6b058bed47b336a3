"""A master, a slave whose log is damaged, and how it asks for that."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiorocketmq.broker.replication.door import LinkSecurity
from aiorocketmq.broker.replication.self_mending import SelfMending
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.status import PutResult

from ...sim import ManualClock
from ...store.replica.replica_port import Replica, replica_of
from ...store.replica.replica_world import open_slave, replicate
from ...store.world import bodies_of, open_store, put_ok

COUNT, BAD = 30, 11


def stores(root: Path) -> tuple[MessageStore, list[int]]:
    """A master's store, and where its messages lie."""
    master = open_store(root / "master")
    places = [
        put_ok(master, body=b"%02d" % number + b"x" * 60, properties={"TAGS": "a"}).phy_offset
        for number in range(COUNT)
    ]
    return master, places


def put_long(master: MessageStore) -> list[PutResult]:
    """Messages that fill more than a file of the log."""
    return [put_ok(master, body=b"%02d" % number + b"x" * 300) for number in range(COUNT)]


def slave_of(master: MessageStore, root: Path) -> MessageStore:
    """One that has all that its master has."""
    slave = open_slave(root / "slave")
    replicate(master, slave)
    return slave


def without_first_file(root: Path) -> None:
    """A copy of the master in the folder ``shorter``, in which it has expired."""
    shutil.copytree(root / "master", root / "shorter")
    (root / "shorter" / "commitlog" / ("0" * 20)).unlink()


async def not_told() -> int | None:
    return None


def mending(
    slave: MessageStore,
    replica: Replica,
    clock: ManualClock,
    begin_of_log: Callable[[], Awaitable[int | None]] = not_told,
) -> SelfMending:
    return SelfMending(slave, clock, LinkSecurity(), lambda: replica.address, begin_of_log)


def mend(slave: MessageStore, folder: Path) -> None:
    """It looks once at what it has damaged. ``folder``: of who is asked."""
    with replica_of(folder) as replica:
        asyncio.run(mending(slave, replica, ManualClock()).mend())


def assert_whole(slave: MessageStore, master: MessageStore) -> None:
    """At the end of a test: nothing is damaged or missing any more."""
    assert slave.damage.places == {}
    assert bodies_of(slave) == bodies_of(master)
    master.close()
    slave.close()
