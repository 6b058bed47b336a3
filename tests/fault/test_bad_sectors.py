"""A page of the commit log that the disk cannot read any more: damage like any other, to whoever
comes upon it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import StoreFileError

from ..store.replica.replica_world import open_slave, replicate
from ..store.world import bodies_of, crash, open_store, put_ok
from .disks import BadSectorDisk

FILE, PAGE, COUNT = 64 << 10, 8192, 600
SIZE: dict[str, Any] = {"mapped_file_size_commit_log": FILE}


def filled(root: Path, disk: BadSectorDisk) -> tuple[MessageStore, dict[int, tuple[int, bytes]]]:
    """A store with some full files, and its messages: sizes and bodies by their places."""
    store = open_store(root, disk, **SIZE)
    messages = {}
    for number in range(COUNT):
        body = b"%03d" % number + b"x" * 300
        place = put_ok(store, body=body)
        messages[place.phy_offset] = place.size, body
    return store, messages


def lost_in(messages: dict[int, tuple[int, bytes]], begin: int = PAGE) -> set[int]:
    """Those of them that lie on the page."""
    return {at for at, (size, _) in messages.items() if at < begin + 4096 and begin < at + size}


def left_of(messages: dict[int, tuple[int, bytes]], begin: int = PAGE) -> list[bytes]:
    lost = lost_in(messages, begin)
    return [body for at, (_, body) in messages.items() if at not in lost]


@pytest.mark.parametrize("in_memory", [True, False])
def test_pulls_bring_what_is_left_and_name_the_rest(tmp_path: Path, in_memory: bool) -> None:
    disk = BadSectorDisk()
    store, messages = filled(tmp_path, disk)
    store._reader._in_memory = store._reader._in_memory if in_memory else 0
    disk.bad = {f"commitlog/{0:020d}": PAGE}
    assert bodies_of(store) == left_of(messages)
    assert store.damage.places == {at: messages[at][0] for at in lost_in(messages)}
    disk.bad = {}
    store.close()


def test_in_front_of_a_known_one_no_pull_takes_the_short_way_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = BadSectorDisk()
    store, messages = filled(tmp_path, disk)
    disk.bad = {f"commitlog/{FILE:020d}": PAGE}
    assert bodies_of(store) == left_of(messages, FILE + PAGE)
    queue = store._queues.get("T", 0)
    assert queue is not None
    units = queue.units(0, 20)
    for name in ("read", "view", "around"):
        monkeypatch.setattr(MappedFile, name, None)
    assert store._reader._whole(queue, COUNT, 0, units, 20, None, None, False) is None
    monkeypatch.undo()
    store.close()


def test_a_pull_that_reads_across_one_sees_it(tmp_path: Path) -> None:
    """Its first and its last message are intact; only the body of one in the middle is gone."""
    disk = BadSectorDisk()
    store = open_store(tmp_path, disk, **SIZE)
    for body in (b"first", b"x" * 20_000, b"last", bytes(50_000)):
        place = put_ok(store, body=body)
    disk.bad = {f"commitlog/{0:020d}": PAGE}
    assert place.phy_offset == FILE, "the file in front is full"
    assert bodies_of(store) == [b"first", b"last", bytes(50_000)]
    assert len(store.damage.places) == 1
    store.close()


def test_what_a_slave_was_sent_of_it_is_known_a_minute_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slave gets all behind it. Which records lie on the page nobody has looked at yet."""
    disk = BadSectorDisk()
    master, messages = filled(tmp_path / "master", disk)
    asyncio.run(master.sync())
    slave = open_slave(tmp_path / "slave", **SIZE)
    disk.bad = {f"commitlog/{0:020d}": PAGE}
    monkeypatch.setattr(MappedFile, "is_in_memory", lambda *_: False)
    warm = master.bring_in(0, FILE)
    assert warm is not None
    warm()
    replicate(master, slave)
    assert bodies_of(slave) == left_of(messages)
    assert master.damage.places == {}

    async def sleep(_seconds: float) -> None: ...

    monkeypatch.setattr(master.scrub._clock, "sleep", sleep)
    asyncio.run(master.scrub._look_at_bad_sectors())
    assert min(master.damage.places) == min(lost_in(messages))
    assert all(
        at in messages and at + size in messages for at, size in master.damage.places.items()
    )
    for store in (master, slave):
        store.close()


@pytest.mark.parametrize("started", ["before", "synced", "not synced"])
def test_once_it_is_known_the_file_that_is_written_to_is_read_by_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: str
) -> None:
    """Through the mapping such a page is a SIGBUS, for the master of a slave that lacks it too."""
    disk = BadSectorDisk()
    store, messages = filled(tmp_path / "master", disk)
    current = store._log.base
    assert store.max_phy_offset > current + PAGE + 4096
    if started == "synced":
        store.flush.save()
    if started != "before":
        crash(store)
    disk.bad = {f"commitlog/{current:020d}": PAGE}
    if started != "before":
        store = open_store(tmp_path / "master", disk, **SIZE)
    monkeypatch.setattr(MappedFile, "is_in_memory", lambda *_: False)
    warm = store.bring_in(current, FILE)
    assert warm is not None
    warm()
    place = put_ok(store, body=b"new")  # with what it reserves
    messages[place.phy_offset] = place.size, b"new"
    lost = min(lost_in(messages, current + PAGE))
    view, window = store.view(lost, 4096), store._log.window(lost, messages[lost][0])
    assert view is not None
    assert window is not None
    file = store._log.current
    assert file is not None
    assert file.mapped
    assert view.obj is not file.map
    assert window[0] is not file.map
    del view, window
    slave = open_slave(tmp_path / "slave", **SIZE)
    replicate(store, slave)
    assert bodies_of(slave) == bodies_of(store) == left_of(messages, current + PAGE)
    for each in (store, slave):
        each.close()


def test_a_log_that_goes_on_behind_it_reserves_nothing_in_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system has no call for that it reads what is there (``posix_fallocate``)."""
    disk = BadSectorDisk()
    store, _ = filled(tmp_path, disk)
    current, end = store._log.base, store.max_phy_offset
    crash(store)
    disk.bad = {f"commitlog/{current:020d}": PAGE}
    reserved: list[int] = []
    allocate = disk.allocate

    def noted(fd: int, offset: int, length: int) -> None:
        if disk._bad_of(fd)[0]:
            reserved.append(offset)
        allocate(fd, offset, length)

    monkeypatch.setattr(disk, "allocate", noted)
    store = open_store(tmp_path, disk, **SIZE)
    put_ok(store)
    assert reserved == [end - current]
    store.close()


@pytest.mark.parametrize("topic", ["T", "Old"])
@pytest.mark.parametrize("is_synced", [True, False])
def test_a_start_goes_on_behind_it(tmp_path: Path, is_synced: bool, topic: str) -> None:
    """``Old`` has its last message there, which the start looks at."""
    disk = BadSectorDisk()
    store, messages = filled(tmp_path, disk)
    last = put_ok(store, topic, body=b"o" * 300).phy_offset
    body = b"y" * 50_000
    place = put_ok(store, body=body)
    messages[place.phy_offset] = place.size, body
    if is_synced:
        store.flush.save()
    count = store.max_offset("T", 0)
    crash(store)
    page = last - last % 4096
    disk.bad = {f"commitlog/{last - last % FILE:020d}": page % FILE}
    store = open_store(tmp_path, disk, **SIZE)
    assert bodies_of(store) == left_of(messages, page)
    assert put_ok(store).queue_offset == count, "no number is given again"
    if topic == "Old":
        assert bodies_of(store, "Old") == []
        assert put_ok(store, "Old").queue_offset == 1
    store.close()


def test_where_nothing_intact_lies_behind_it_a_start_is_refused(tmp_path: Path) -> None:
    """The log would end there. It may be readable again when somebody has looked at the disk."""
    disk = BadSectorDisk()
    store, messages = filled(tmp_path, disk)
    end = store.max_phy_offset
    crash(store)
    disk.bad = {f"commitlog/{end - end % FILE:020d}": end % FILE - end % 4096}
    with pytest.raises(StoreFileError, match="Input/output error"):
        open_store(tmp_path, disk, **SIZE)
    disk.bad = {}
    store = open_store(tmp_path, disk, **SIZE)
    assert bodies_of(store) == [body for _, body in messages.values()]
    store.close()
