"""A slave gets what is damaged in its log from its master, over a real connection."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from aiorocketmq.broker.replication_door import LinkSecurity
from aiorocketmq.broker.self_mending import PAUSES_S, SelfMending
from aiorocketmq.store.message_store import MessageStore

from ..sim import ManualClock
from ..store.test_damage import flip
from ..store.test_replica_log import open_slave, replicate
from ..store.world import bodies_of, open_store, put_ok
from ..tools.test_mqstore_repair import Replica, replica_of

COUNT, BAD = 30, 11


def stores(root: Path) -> tuple[MessageStore, list[int]]:
    """A master's store, and where its messages lie."""
    master = open_store(root / "master")
    places = [
        put_ok(master, body=b"%02d" % number + b"x" * 60, properties={"TAGS": "a"}).phy_offset for number in range(COUNT)
    ]
    return master, places


def mending(slave: MessageStore, replica: Replica, clock: ManualClock) -> SelfMending:
    return SelfMending(slave, clock, LinkSecurity(), lambda: replica.address)


@pytest.mark.parametrize("at", [3, 5, 90], ids=["size", "magic", "body"])
def test_what_rots_at_the_slave_comes_from_the_master(tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture) -> None:
    master, places = stores(tmp_path)
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    slave.close()
    flip(tmp_path / "slave", places[BAD] + at)
    slave = open_slave(tmp_path / "slave")
    assert len(bodies_of(slave)) == COUNT - 1
    with caplog.at_level("INFO"), replica_of(tmp_path / "master") as replica:
        asyncio.run(mending(slave, replica, ManualClock()).mend())
    assert bodies_of(slave) == bodies_of(master)
    assert (slave.damage.found, slave.damage.mended, slave.damage.places) == (1, 1, {})
    assert all(0 < report < places[BAD] for report in replica.reports), "nothing that it does not have is acknowledged"
    assert f"a damaged record is mended phy_offset={places[BAD]}" in caplog.text
    master.close()
    slave.close()


@pytest.mark.parametrize("at", [3, 5, 90], ids=["size", "magic", "body"])
def test_what_came_damaged_over_a_bad_wire_gets_into_its_queue(tmp_path: Path, at: int) -> None:
    master, places = stores(tmp_path)
    shutil.copytree(tmp_path / "master", tmp_path / "intact")
    flip(tmp_path / "master", places[BAD] + at)
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    assert list(slave.damage.places) == [places[BAD]]
    with replica_of(tmp_path / "intact") as replica:
        asyncio.run(mending(slave, replica, ManualClock()).mend())
    flip(tmp_path / "master", places[BAD] + at)
    assert bodies_of(slave) == bodies_of(master)
    assert slave.get("T", 0, BAD, 1).count == 1
    master.close()
    slave.close()


def test_a_master_that_has_it_damaged_too_is_asked_a_few_times(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    master, places = stores(tmp_path)
    flip(tmp_path / "master", places[BAD] + 90)
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    clock = ManualClock()
    with replica_of(tmp_path / "master") as replica:
        service = mending(slave, replica, clock)
        for pause in (*PAUSES_S, 100_000.0, 1e9):
            clock.advance(pause)
            asyncio.run(service.mend())
            asyncio.run(service.mend())
    assert len(replica.reports) == len(PAUSES_S)
    assert sum("the other replica has it damaged too" in each.getMessage() for each in caplog.records) == len(PAUSES_S)
    assert "is not mended, and not asked for again" in caplog.records[-1].getMessage()
    assert slave.damage.mended == 0
    master.close()
    slave.close()


def test_without_a_master_nobody_is_asked(tmp_path: Path) -> None:
    slave = open_slave(tmp_path)
    slave.damage.note(0, 100, "it is", "here")
    asyncio.run(SelfMending(slave, ManualClock(), LinkSecurity(), lambda: None).mend())
    assert slave.damage.places == {0: 100}
    slave.close()
