"""A slave gets what is damaged in its log from its master, over a real connection."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.model.errors import OutOfSpaceError

from ...fault.damage import LOG_FILE, flip, log_file_of, overwrite
from ...fault.disks import BadSectorDisk
from ...sim import ManualClock
from ...store.replica.replica_port import replica_of
from ...store.replica.replica_world import open_slave, replicate
from ...store.services.test_scrub import in_a_loop
from ...store.world import bodies_of, crash, open_store, put_ok
from .mending_scenes import (
    BAD,
    COUNT,
    assert_whole,
    mend,
    mending,
    put_long,
    slave_of,
    stores,
    without_first_file,
)


@pytest.mark.parametrize("at", [3, 5, 90], ids=["size", "magic", "body"])
def test_what_rots_at_the_slave_comes_from_the_master(
    tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    master, places = stores(tmp_path)
    slave = slave_of(master, tmp_path)
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
    slave = slave_of(master, tmp_path)
    assert list(slave.damage.places) == [places[BAD]]
    mend(slave, tmp_path / "intact")
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
    master = open_store(tmp_path / "master")
    results = put_long(master)
    blank_at = max(end for each in results if (end := each.phy_offset + each.size) < LOG_FILE)
    assert blank_at > LOG_FILE - 600
    shutil.copytree(tmp_path / "master", tmp_path / "intact")
    flip(tmp_path / "master", blank_at + at, bit)
    slave = slave_of(master, tmp_path)
    assert bodies_of(slave) == bodies_of(master)
    assert slave.damage.places == {blank_at: LOG_FILE - blank_at}
    mend(slave, tmp_path / "intact")
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
    slave = slave_of(master, tmp_path)
    crash(slave)
    for number in bad:
        flip(tmp_path / "slave", places[number] + 5)
    slave = open_slave(tmp_path / "slave")
    assert list(slave.damage.places) == [places[number] for number in bad], "opening found them"
    mend(slave, tmp_path / "master")
    assert_whole(slave, master)


@pytest.mark.parametrize("number", [0, 1])
def test_where_the_master_has_deleted_the_file_in_front(tmp_path: Path, number: int) -> None:
    """Nothing of it is asked for where the damaged one tells enough."""
    master = open_store(tmp_path / "master")
    results = put_long(master)
    slave = slave_of(master, tmp_path)
    crash(slave)
    places = [each.phy_offset for each in results if each.phy_offset >= LOG_FILE]
    flip(tmp_path / "slave", places[number] + 90)
    slave = open_slave(tmp_path / "slave")
    assert list(slave.damage.places) == places[number : number + 1]
    without_first_file(tmp_path)
    mend(slave, tmp_path / "shorter")
    assert_whole(slave, master)


@pytest.mark.parametrize("lost", [(0,), (1,), (0, 1), (1, 2)], ids=str)
def test_files_that_were_lost_as_a_whole_are_told_by_those_beside_them(
    tmp_path: Path, lost: tuple[int, ...]
) -> None:
    master = open_store(tmp_path / "master")
    while master.max_phy_offset < 3 * LOG_FILE:
        put_ok(master, body=b"x" * 300)
    slave = slave_of(master, tmp_path)
    crash(slave)
    for number in lost:
        path, _ = log_file_of(tmp_path / "slave", number * LOG_FILE)
        path.write_bytes(bytes(LOG_FILE))
    slave = open_slave(tmp_path / "slave")
    assert list(slave.damage.places) == [number * LOG_FILE for number in lost]
    clock = ManualClock()
    with replica_of(tmp_path / "master") as replica:
        asyncio.run(mending(slave, replica, clock).mend())  # of two the first is told by the second
    assert slave.damage.places == {}
    end = master.max_phy_offset
    for begin in (0, LOG_FILE, 2 * LOG_FILE):
        size = min(LOG_FILE, end - begin)
        assert slave.read(begin, size) == master.read(begin, size)
    master.close()
    slave.close()


def test_of_many_side_by_side_each_is_told_by_the_one_that_was_mended_before(
    tmp_path: Path,
) -> None:
    """Whose first attempt came too early is asked for again in the same turn."""
    master, places = stores(tmp_path)
    slave = slave_of(master, tmp_path)
    for number in range(4):  # from the begin of the log on: nothing is in front of them
        flip(tmp_path / "slave", places[number] + 90)
        slave.damage.note(places[number], places[1] - places[0], "it is", "here")
    assert list(slave.damage.places) == places[:4]
    mend(slave, tmp_path / "master")
    assert_whole(slave, master)


def test_a_place_between_damaged_ones_is_told_by_what_lies_beyond_them(tmp_path: Path) -> None:
    """The master has only that one."""
    master, places = stores(tmp_path)
    slave = slave_of(master, tmp_path)
    master.close()
    crash(slave)
    for number in (BAD - 1, BAD, BAD + 1):
        flip(tmp_path / "slave", places[number] + 90)
        if number != BAD:
            flip(tmp_path / "master", places[number] + 90)
    slave = open_slave(tmp_path / "slave")
    assert slave.damage.places == {places[BAD - 1]: 3 * (places[1] - places[0])}
    with replica_of(tmp_path / "master") as replica:
        service = mending(slave, replica, ManualClock())
        asyncio.run(service.mend())  # which tells that the master has one of the three
        asyncio.run(service.mend())
    assert list(slave.damage.places) == [places[BAD - 1], places[BAD + 1]]
    assert slave.get("T", 0, BAD, 1).count == 1
    slave.close()


def test_a_record_is_told_by_what_lies_beyond_the_stretch_that_it_lies_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A pull found it, and then the scrub all of them."""
    master, places = stores(tmp_path)
    slave = slave_of(master, tmp_path)
    size = places[1] - places[0]
    for number in range(3):
        flip(tmp_path / "slave", places[number] + 5)
    slave.damage.note(places[1], size, "it is", "queue=T/0 offset=1")
    slave.damage.note(0, 3 * size, "it is", "seen=scrub")
    mend(slave, tmp_path / "master")
    assert "not mended" not in caplog.text
    assert_whole(slave, master)


def test_a_record_that_was_found_before_the_stretch_that_it_lies_in(tmp_path: Path) -> None:
    """The master has a part of that damaged, too; the rest is asked for as if for the first
    time."""
    master, places = stores(tmp_path)
    slave = slave_of(master, tmp_path)
    size = places[1] - places[0]
    master.close()
    for number in range(3):
        flip(tmp_path / "slave", places[number] + 5)
    flip(tmp_path / "master", places[0] + 5)
    slave.damage.note(places[1], size, "it is", "queue=T/0 offset=1")
    slave.damage.note(0, 3 * size, "it is", "seen=scrub")
    with replica_of(tmp_path / "master") as replica:
        service = mending(slave, replica, ManualClock())
        asyncio.run(service.mend())
        asyncio.run(service.mend())
    assert slave.damage.places == {0: size}
    assert slave.get("T", 0, 1, 2).count == 2
    slave.close()


def test_a_record_with_a_lost_sector_in_its_properties_is_mended(tmp_path: Path) -> None:
    """They are not the master's, but for what is lost they are."""
    master = open_store(tmp_path / "master")
    put_ok(master)
    place = put_ok(master, properties={"TAGS": "a", "k": "v" * 1200})
    put_ok(master)
    slave = slave_of(master, tmp_path)
    crash(slave)
    sector = (place.phy_offset + place.size) // 512 * 512 - 512
    path, position = log_file_of(tmp_path / "slave", sector)
    overwrite(path, position, bytes(512))
    slave = open_slave(tmp_path / "slave")
    assert slave.damage.places == {place.phy_offset: place.size}
    mend(slave, tmp_path / "master")
    assert_whole(slave, master)


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
    slave = slave_of(master, tmp_path)
    crash(slave)
    path, position = log_file_of(tmp_path / "slave", places[-1])
    with path.open("r+b") as file:
        file.seek(position - places[-1] % 512)
        file.write(bytes(512))
    slave = open_slave(tmp_path / "slave")
    assert list(slave.damage.places) == [places[-1]]
    mend(slave, tmp_path / "master")
    assert slave.damage.places == {}
    end = master.max_phy_offset
    assert slave.read(0, end) == master.read(0, end)
    master.close()
    slave.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("page", [0, 8192, 65536, 126976])
def test_what_cannot_be_read_comes_from_the_master(tmp_path: Path, page: int, clean: bool) -> None:
    """A bad sector: once it is written the disk has another one for it. Records lie across its ends
    and those of what the scrub reads at once."""
    size: dict[str, Any] = {"mapped_file_size_commit_log": 256 << 10}
    master = open_store(tmp_path / "master", **size)
    for number in range(500):
        put_ok(master, body=b"%03d" % number + b"x" * 300)
    disk = BadSectorDisk()
    slave = open_slave(tmp_path / "slave", disk=disk, **size)
    replicate(master, slave)
    slave.flush.save()
    disk.bad = {f"commitlog/{0:020d}": page}
    in_a_loop(slave)
    places = slave.damage.places
    assert page - 400 < min(places) <= page
    assert page + 4096 <= max(at + size for at, size in places.items()) < page + 4096 + 400
    with replica_of(tmp_path / "master") as replica:
        asyncio.run(mending(slave, replica, ManualClock()).mend())
    assert slave.damage.places == {}
    assert disk.bad == {}
    slave.close() if clean else crash(slave)
    slave = open_slave(tmp_path / "slave", **size)
    assert bodies_of(slave) == bodies_of(master)
    end = master.max_phy_offset
    assert slave.read(0, end) == master.read(0, end)
    master.close()
    slave.close()


def test_a_full_disk_keeps_a_mended_message_out_of_its_queue_for_a_while(tmp_path: Path) -> None:
    master, places = stores(tmp_path)
    shutil.copytree(tmp_path / "master", tmp_path / "intact")
    flip(tmp_path / "master", places[BAD] + 3)
    slave = open_slave(tmp_path / "slave")
    replicate(master, slave)
    fill_in, clock = slave.replica.fill_in, ManualClock()

    def is_full(*_what: object) -> None:
        raise OutOfSpaceError(tmp_path, "no space")

    slave.replica.fill_in = is_full  # type: ignore[method-assign,assignment]
    with replica_of(tmp_path / "intact") as replica:
        service = mending(slave, replica, clock)
        asyncio.run(service.mend())
        assert list(slave.damage.places) == [places[BAD]]
        slave.replica.fill_in = fill_in  # type: ignore[method-assign]
        clock.advance(60.0)
        asyncio.run(service.mend())
    assert slave.damage.places == {}
    assert slave.get("T", 0, BAD, 1).count == 1
    master.close()
    slave.close()


def test_what_is_mended_during_a_sync_is_not_forgotten_before_its_unit_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That round syncs the queues that it knew when it began; a start does not read so far back."""
    master, places = stores(tmp_path)
    slave = slave_of(master, tmp_path)
    slave.damage.note(places[BAD], places[1] - places[0], "it is", "here")
    sync_log, mended = slave.flush.sync_log, False

    async def and_mend() -> bool:
        nonlocal mended
        if not mended:
            mended = True
            slave.mended(places[BAD], places[1] - places[0])
        return await sync_log()

    monkeypatch.setattr(slave.flush, "sync_log", and_mend)
    file = tmp_path / "slave" / "damaged"
    for known in (True, False):
        assert asyncio.run(slave.sync())
        assert slave.damage.places == {}
        assert file.exists() == known
    master.close()
    slave.close()
