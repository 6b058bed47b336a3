"""A slave gets what is damaged in its log from its master, over a real connection."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.replication.damage_watch import LOOK_S, PAUSES_S
from aiorocketmq.broker.replication.door import LinkSecurity
from aiorocketmq.broker.replication.self_mending import SelfMending
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.replica.replication import ReplicationError

from ...fault.damage import log_file_of
from ...sim import ManualClock
from ...store.log.test_damage import flip
from ...store.replica.test_replica_log import open_slave, replicate
from ...store.world import bodies_of, crash, open_store, put_ok
from ...tools.test_mqstore_repair import Replica, replica_of

COUNT, BAD = 30, 11


def stores(root: Path) -> tuple[MessageStore, list[int]]:
    """A master's store, and where its messages lie."""
    master = open_store(root / "master")
    places = [
        put_ok(master, body=b"%02d" % number + b"x" * 60, properties={"TAGS": "a"}).phy_offset
        for number in range(COUNT)
    ]
    return master, places


async def not_told() -> int | None:
    return None


def mending(
    slave: MessageStore,
    replica: Replica,
    clock: ManualClock,
    begin_of_log: Callable[[], Awaitable[int | None]] = not_told,
) -> SelfMending:
    return SelfMending(slave, clock, LinkSecurity(), lambda: replica.address, begin_of_log)


@pytest.mark.parametrize("at", [3, 5, 90], ids=["size", "magic", "body"])
def test_what_rots_at_the_slave_comes_from_the_master(
    tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture
) -> None:
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
    assert all(0 < report < places[BAD] for report in replica.reports), (
        "nothing that it does not have is acknowledged"
    )
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


@pytest.mark.parametrize(
    ("at", "bit"), [(2, 2), (1, 7), (0, 7)], ids=["larger", "larger than the file", "negative"]
)
def test_a_blank_that_came_damaged_hides_nothing_and_is_mended(
    tmp_path: Path, at: int, bit: int
) -> None:
    master = open_store(tmp_path / "master", mapped_file_size_commit_log=8192)
    results = [put_ok(master, body=b"%02d" % number + b"x" * 300) for number in range(COUNT)]
    blank_at = max(end for each in results if (end := each.phy_offset + each.size) < 8192)
    assert blank_at > 8192 - 600
    shutil.copytree(tmp_path / "master", tmp_path / "intact")
    flip(tmp_path / "master", blank_at + at, bit)
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    assert bodies_of(slave) == bodies_of(master)
    assert slave.damage.places == {blank_at: 8192 - blank_at}
    with replica_of(tmp_path / "intact") as replica:
        asyncio.run(mending(slave, replica, ManualClock()).mend())
    assert (slave.damage.mended, slave.damage.places) == (1, {})
    assert (
        slave.read(blank_at, 8)
        == (tmp_path / "intact" / "commitlog" / ("0" * 20)).read_bytes()[blank_at : blank_at + 8]
    )
    master.close()
    slave.close()


@pytest.mark.parametrize("bad", [(0, 2), (10, 12), (11, 13, 15)], ids=str)
def test_places_side_by_side_do_not_keep_each_other_damaged(
    tmp_path: Path, bad: tuple[int, ...]
) -> None:
    """A record lies between two of them: neither is what the other is told by."""
    master, places = stores(tmp_path)
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    crash(slave)
    for number in bad:
        flip(tmp_path / "slave", places[number] + 5)
    slave = open_slave(tmp_path / "slave")
    assert list(slave.damage.places) == [places[number] for number in bad], "opening found them"
    with replica_of(tmp_path / "master") as replica:
        asyncio.run(mending(slave, replica, ManualClock()).mend())
    assert slave.damage.places == {}
    assert bodies_of(slave) == bodies_of(master)
    master.close()
    slave.close()


@pytest.mark.parametrize("number", [0, 1])
def test_where_the_master_has_deleted_the_file_in_front(tmp_path: Path, number: int) -> None:
    """Nothing of it is asked for where the damaged one tells enough."""
    sizes: dict[str, Any] = {"mapped_file_size_commit_log": 8192}
    master = open_store(tmp_path / "master", **sizes)
    results = [put_ok(master, body=b"%02d" % each + b"x" * 300) for each in range(COUNT)]
    slave = open_slave(tmp_path / "slave", **sizes)
    replicate(master, slave)
    crash(slave)
    places = [each.phy_offset for each in results if each.phy_offset >= 8192]
    flip(tmp_path / "slave", places[number] + 90)
    slave = open_slave(tmp_path / "slave", **sizes)
    assert list(slave.damage.places) == places[number : number + 1]
    shutil.copytree(tmp_path / "master", tmp_path / "shorter")
    (tmp_path / "shorter" / "commitlog" / ("0" * 20)).unlink()
    with replica_of(tmp_path / "shorter") as replica:
        asyncio.run(mending(slave, replica, ManualClock()).mend())
    assert slave.damage.places == {}
    assert bodies_of(slave) == bodies_of(master)
    master.close()
    slave.close()


@pytest.mark.parametrize("lost", [(0,), (1,), (0, 1), (1, 2)], ids=str)
def test_files_that_were_lost_as_a_whole_are_told_by_those_beside_them(
    tmp_path: Path, lost: tuple[int, ...]
) -> None:
    master = open_store(tmp_path / "master", mapped_file_size_commit_log=8192)
    while master.max_phy_offset < 3 * 8192:
        put_ok(master, body=b"x" * 300)
    slave = open_slave(tmp_path / "slave", mapped_file_size_commit_log=8192)
    replicate(master, slave)
    crash(slave)
    for number in lost:
        path, _ = log_file_of(tmp_path / "slave", number * 8192)
        path.write_bytes(bytes(8192))
    slave = open_slave(tmp_path / "slave", mapped_file_size_commit_log=8192)
    assert list(slave.damage.places) == [number * 8192 for number in lost]
    clock = ManualClock()
    with replica_of(tmp_path / "master") as replica:
        asyncio.run(mending(slave, replica, clock).mend())  # of two the first is told by the second
    assert slave.damage.places == {}
    end = master.max_phy_offset
    assert slave.read(0, 8192) == master.read(0, 8192)
    assert slave.read(8192, 8192) == master.read(8192, 8192)
    assert slave.read(16384, end - 16384) == master.read(16384, end - 16384)
    master.close()
    slave.close()


def test_of_many_side_by_side_each_is_told_by_the_one_that_was_mended_before(
    tmp_path: Path,
) -> None:
    """Whose first attempt came too early is asked for again in the same turn."""
    master, places = stores(tmp_path)
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    for number in range(4):  # from the begin of the log on: nothing is in front of them
        flip(tmp_path / "slave", places[number] + 90)
        slave.damage.note(places[number], places[1] - places[0], "it is", "here")
    assert list(slave.damage.places) == places[:4]
    with replica_of(tmp_path / "master") as replica:
        asyncio.run(mending(slave, replica, ManualClock()).mend())
    assert slave.damage.places == {}
    assert bodies_of(slave) == bodies_of(master)
    master.close()
    slave.close()


def test_a_lost_sector_takes_the_end_of_the_record_before_along(tmp_path: Path) -> None:
    """A few zeros at the end of its properties could be the user's: that record counts as intact,
    and is not what the master has."""
    master = open_store(tmp_path / "master")
    places = [put_ok(master, body=b"x" * 60, properties={"TAGS": "a"}).phy_offset]
    while not 1 <= places[-1] % 512 <= 7:
        body = b"x" * (60 + len(places) % 13)
        places.append(put_ok(master, body=body, properties={"TAGS": "abcdefgh"}).phy_offset)
    put_ok(master, body=b"x" * 600)
    put_ok(master, body=b"last")
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    crash(slave)
    path, position = log_file_of(tmp_path / "slave", places[-1])
    with path.open("r+b") as file:
        file.seek(position - places[-1] % 512)
        file.write(bytes(512))
    slave = open_slave(tmp_path / "slave")
    assert list(slave.damage.places) == [places[-1]]
    with replica_of(tmp_path / "master") as replica:
        asyncio.run(mending(slave, replica, ManualClock()).mend())
    assert slave.damage.places == {}
    end = master.max_phy_offset
    assert slave.read(0, end) == master.read(0, end)
    master.close()
    slave.close()


def test_a_master_that_has_it_damaged_too_is_asked_a_few_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
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
    assert sum(
        "the other replica has it damaged too" in each.getMessage() for each in caplog.records
    ) == len(PAUSES_S)
    assert "is not mended, and not asked for again" in caplog.records[-1].getMessage()
    assert slave.damage.mended == 0
    master.close()
    slave.close()


def test_what_the_master_has_damaged_too_is_not_waited_for(tmp_path: Path) -> None:
    """Before that is known nothing behind it is handed out: consumers would never see it."""
    master, places = stores(tmp_path)
    slave = open_slave(tmp_path / "slave")
    flip(tmp_path / "master", places[BAD] + 90)
    replicate(master, slave)
    assert [slave.get("T", 0, BAD).next_begin_offset for _ in range(2)] == [BAD, BAD]
    with replica_of(tmp_path / "master") as replica:
        asyncio.run(mending(slave, replica, ManualClock()).mend())
    passed_over = slave.get("T", 0, BAD)
    assert passed_over.count
    assert passed_over.next_begin_offset == BAD + 1 + passed_over.count

    flip(tmp_path / "master", places[BAD] + 90)  # intact again when it is asked the next time
    with replica_of(tmp_path / "master") as replica:
        asyncio.run(mending(slave, replica, ManualClock()).mend())
    assert slave.damage.places == {}
    assert bodies_of(slave) == bodies_of(master)
    master.close()
    slave.close()


def test_what_has_expired_at_the_master_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its port for slaves closes the connection, whatever the reason; so it is asked."""
    sizes: dict[str, Any] = {"mapped_file_size_commit_log": 8192}
    master = open_store(tmp_path / "master", **sizes)
    results = [put_ok(master, body=b"%02d" % each + b"x" * 300) for each in range(COUNT)]
    slave = open_slave(tmp_path / "slave", **sizes)
    replicate(master, slave)
    crash(slave)
    flip(tmp_path / "slave", results[BAD].phy_offset + 90)
    slave = open_slave(tmp_path / "slave", **sizes)
    assert slave.get("T", 0, BAD).next_begin_offset == BAD, "somebody may have it"
    shutil.copytree(tmp_path / "master", tmp_path / "shorter")
    (tmp_path / "shorter" / "commitlog" / ("0" * 20)).unlink()
    clock, told = ManualClock(), [None, results[BAD].phy_offset + 1]

    async def begin_of_log() -> int | None:
        return told.pop(0) if told else 8192

    with replica_of(tmp_path / "shorter") as replica:
        service = mending(slave, replica, clock, begin_of_log)
        for _ in range(3):
            assert list(slave.damage.awaited) == [results[BAD].phy_offset]
            asyncio.run(service.mend())
            clock.advance(60.0)
        assert slave.damage.awaited == {}
        asked = len(replica.reports)
        for pause in PAUSES_S:
            clock.advance(pause)
            asyncio.run(service.mend())
        assert len(replica.reports) == asked
    assert caplog.text.count("it has expired at the master phy_offset") == 1
    passed_over = slave.get("T", 0, BAD)
    assert passed_over.count
    assert passed_over.next_begin_offset == BAD + 1 + passed_over.count
    master.close()
    slave.close()


@pytest.mark.parametrize("bad", [10, 14, 19])
@pytest.mark.parametrize("units", ["whole", "lost"])
def test_of_a_lost_stretch_comes_what_the_master_has_intact(
    tmp_path: Path, units: str, bad: int
) -> None:
    """It has one of these messages damaged, too: the others are not passed over."""
    master, places = stores(tmp_path)
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    crash(slave)
    path, position = log_file_of(tmp_path / "slave", places[10])
    with path.open("r+b") as file:
        file.seek(position)
        file.write(bytes(places[20] - places[10]))
    if units == "lost":
        shutil.rmtree(tmp_path / "slave" / "consumequeue")
    slave = open_slave(tmp_path / "slave")
    assert slave.damage.places == {places[10]: places[20] - places[10]}
    expected = [body for number, body in enumerate(bodies_of(master)) if number != bad]
    flip(tmp_path / "master", places[bad] + 90)
    clock = ManualClock()
    with replica_of(tmp_path / "master") as replica:
        service = mending(slave, replica, clock)
        for _ in range(3):
            asyncio.run(service.mend())
            clock.advance(LOOK_S)
    assert slave.damage.places == {places[bad]: places[bad + 1] - places[bad]}
    assert slave.damage.awaited == {}
    assert bodies_of(slave) == expected
    master.close()
    slave.close()


def test_a_master_that_is_away_is_asked_until_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    master, places = stores(tmp_path)
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    slave.damage.note(places[BAD], places[BAD + 1] - places[BAD], "it is", "here")
    clock = ManualClock()
    with replica_of(tmp_path / "master") as replica:
        there = mending(slave, replica, clock)._master()
        known = ["127.0.0.1:1"]
        service = SelfMending(slave, clock, LinkSecurity(), lambda: known[-1], not_told)
        for _ in range(2 * len(PAUSES_S)):
            clock.advance(60.0)
            asyncio.run(service.mend())
        assert "cannot be connected to" in caplog.records[-1].getMessage()
        assert "not asked for again" not in caplog.text
        assert there is not None
        known.append(there)
        clock.advance(60.0)
        asyncio.run(service.mend())
    assert slave.damage.places == {}
    master.close()
    slave.close()


def test_when_there_is_another_master_it_is_asked_for_the_rest(tmp_path: Path) -> None:
    """Each question to one that is gone takes up to ten seconds."""
    master, places = stores(tmp_path)
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    for number in (BAD, BAD + 2):
        slave.damage.note(places[number], places[number + 1] - places[number], "it is", "here")
    fetch_again = slave.fetch_again

    def in_vain(*_what: object) -> None:
        known.append(there)
        slave.fetch_again = fetch_again  # type: ignore[method-assign]
        raise ReplicationError("it is gone")

    slave.fetch_again = in_vain  # type: ignore[method-assign,assignment]
    with replica_of(tmp_path / "master") as replica:
        there, known = str(replica.address), ["127.0.0.1:1"]
        service = SelfMending(slave, ManualClock(), LinkSecurity(), lambda: known[-1], not_told)
        asyncio.run(service.mend())
        assert len(slave.damage.places) == 2
        asyncio.run(service.mend())
        assert slave.damage.places == {}
    master.close()
    slave.close()


def test_when_the_broker_stops_no_thread_is_left_behind(tmp_path: Path) -> None:
    master, places = stores(tmp_path)
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    slave.damage.note(places[BAD], places[1] - places[0], "it is", "here")
    ended = threading.Event()
    fetch_again = slave.fetch_again

    def noted(*arguments: Any) -> None:
        try:
            fetch_again(*arguments)
        finally:
            ended.set()

    slave.fetch_again = noted  # type: ignore[method-assign,assignment]

    async def main(address: str, server: socket.socket) -> None:
        clock = ManualClock()
        service = asyncio.create_task(
            SelfMending(slave, clock, LinkSecurity(), lambda: address, not_told).run()
        )
        await asyncio.sleep(0)
        clock.advance(LOOK_S)
        connection, _ = await asyncio.to_thread(server.accept)
        with connection:
            await asyncio.to_thread(connection.recv, 8)  # its question, which is not answered
            service.cancel()
            with pytest.raises(asyncio.CancelledError):
                await service
            assert ended.is_set()

    with socket.create_server(("127.0.0.1", 0)) as server:
        asyncio.run(main(f"127.0.0.1:{server.getsockname()[1]}", server))
    master.close()
    slave.close()


def test_without_a_master_nobody_is_asked(tmp_path: Path) -> None:
    slave = open_slave(tmp_path)
    slave.damage.note(0, 100, "it is", "here")
    asyncio.run(SelfMending(slave, ManualClock(), LinkSecurity(), lambda: None, not_told).mend())
    assert slave.damage.places == {0: 100}
    slave.close()
