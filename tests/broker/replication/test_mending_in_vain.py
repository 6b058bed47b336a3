"""What a slave does where its master cannot help: it has the same damaged, or not any more, or is
away. It is asked a few times, and what nobody has is not waited for."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.replication.damage_watch import LOOK_S, PAUSES_S
from aiorocketmq.broker.replication.door import LinkSecurity
from aiorocketmq.broker.replication.self_mending import SelfMending
from aiorocketmq.store.replica.replication import ReplicationError

from ...fault.damage import LOG_FILE, flip, log_file_of, overwrite
from ...sim import ManualClock
from ...store.replica.replica_port import replica_of
from ...store.replica.replica_world import open_slave, replicate
from ...store.world import bodies_of, crash, open_store, put_ok
from .mending_scenes import (
    BAD,
    assert_whole,
    mend,
    mending,
    not_told,
    put_long,
    slave_of,
    stores,
    without_first_file,
)


def test_a_master_that_has_it_damaged_too_is_asked_a_few_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    master, places = stores(tmp_path)
    flip(tmp_path / "master", places[BAD] + 90)
    slave = slave_of(master, tmp_path)
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


def test_another_master_is_asked_as_if_for_the_first_time(tmp_path: Path) -> None:
    """What the last one had damaged, too."""
    master, places = stores(tmp_path)
    slave = slave_of(master, tmp_path)
    flip(tmp_path / "slave", places[BAD] + 90)
    slave.damage.note(places[BAD], places[1] - places[0], "it is", "here")
    shutil.copytree(tmp_path / "master", tmp_path / "next")
    flip(tmp_path / "master", places[BAD] + 90)
    clock = ManualClock()
    with replica_of(tmp_path / "master") as first, replica_of(tmp_path / "next") as second:
        address = first.address
        service = SelfMending(slave, clock, LinkSecurity(), lambda: address, not_told)
        for pause in (*PAUSES_S, 1e9):
            clock.advance(pause)
            asyncio.run(service.mend())
        assert (len(first.reports), list(slave.damage.places)) == (len(PAUSES_S), [places[BAD]])
        address = second.address
        asyncio.run(service.mend())
    flip(tmp_path / "master", places[BAD] + 90)
    assert_whole(slave, master)


def test_a_record_that_shows_by_the_sector_behind_its_end_is_damaged_at_both(
    tmp_path: Path,
) -> None:
    """The zeros at the end of its properties could be the user's, were it not for those behind
    them. Its bytes alone are the master's: nothing is mended by them."""
    master = open_store(tmp_path / "master")
    place = put_ok(master, body=b"x" * 500)
    while not 100 < (place.phy_offset + place.size) % 512 < 300:
        place = put_ok(master, body=b"x" * 77, properties={"TAGS": "a", "k": "v" * 350})
    for _ in range(9):
        put_ok(master)
    sector = (place.phy_offset + place.size) // 512 * 512
    path, position = log_file_of(tmp_path / "master", sector)
    overwrite(path, position, bytes(512))
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    assert slave.damage.places[place.phy_offset] == place.size
    number = slave.max_offset("T", 0) - 10
    mend(slave, tmp_path / "master")
    assert slave.damage.mended == 0
    assert slave.get("T", 0, number).next_begin_offset > number, "nobody waits for it"
    master.close()
    slave.close()


def test_what_the_master_has_damaged_too_is_not_waited_for(tmp_path: Path) -> None:
    """Before that is known nothing behind it is handed out: consumers would never see it."""
    master, places = stores(tmp_path)
    slave = open_slave(tmp_path / "slave")
    flip(tmp_path / "master", places[BAD] + 90)
    replicate(master, slave)
    assert [slave.get("T", 0, BAD).next_begin_offset for _ in range(2)] == [BAD, BAD]
    mend(slave, tmp_path / "master")
    passed_over = slave.get("T", 0, BAD)
    assert passed_over.count
    assert passed_over.next_begin_offset == BAD + 1 + passed_over.count

    flip(tmp_path / "master", places[BAD] + 90)  # intact again when it is asked the next time
    mend(slave, tmp_path / "master")
    assert_whole(slave, master)


def test_what_has_expired_at_the_master_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its port for slaves closes the connection, whatever the reason; so it is asked."""
    master = open_store(tmp_path / "master")
    results = put_long(master)
    slave = slave_of(master, tmp_path)
    crash(slave)
    flip(tmp_path / "slave", results[BAD].phy_offset + 90)
    slave = open_slave(tmp_path / "slave")
    assert slave.get("T", 0, BAD).next_begin_offset == BAD, "somebody may have it"
    without_first_file(tmp_path)
    clock, told = ManualClock(), [None, results[BAD].phy_offset + 1]

    async def begin_of_log() -> int | None:
        return told.pop(0) if told else LOG_FILE

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
    slave = slave_of(master, tmp_path)
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
    slave = slave_of(master, tmp_path)
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
    slave = slave_of(master, tmp_path)
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
    slave = slave_of(master, tmp_path)
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
