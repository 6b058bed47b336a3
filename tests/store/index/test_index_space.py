"""Disk space for the index: nothing is written where there is none, and messages are refused until
there is."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from aiorocketmq.store.disk.system_disk import SystemDisk
from aiorocketmq.store.index import index_files
from aiorocketmq.store.index.index_files import IndexFiles
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import OutOfSpaceError
from aiorocketmq.store.model.status import PutStatus

from ...fault.disks import FullDisk
from ...sim import ManualClock
from ..world import NOW, STORE_HOST, config_of, crash, open_store, put
from .index_world import bodies, build, files_of, send


def test_no_room_for_the_index_refuses_messages_until_there_is(tmp_path: Path) -> None:
    store: MessageStore

    class Disk(FullDisk):
        def allocate(self, fd: int, offset: int, length: int) -> None:
            if length == store._index._size and self.free < 1 << 20:
                raise OSError(28, "No space left on device")
            super().allocate(fd, offset, length)

    async def until(condition: Any, clock: ManualClock) -> None:
        while not condition():
            clock.advance(1)
            await asyncio.sleep(0.001)

    async def main() -> None:
        nonlocal store
        clock = ManualClock()
        disk = Disk(1 << 30)
        store = MessageStore.open(config_of(tmp_path), clock, store_host=STORE_HOST, disk=disk)
        services = asyncio.ensure_future(store.run())
        await asyncio.sleep(0)
        for number in range(3):
            send(store, number)
        disk.free = 1 << 19
        await until(lambda: not store.writeable, clock)
        refusal = put(store)
        assert refusal.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert "no room for the index" in refusal.remark
        disk.free = 1 << 30
        await until(lambda: store.writeable and not store._indexing.waits, clock)
        assert bodies(store, "u2") == ["2"]
        services.cancel()
        await asyncio.wait([services])
        store.close()

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("first", ["a sync", "a message"])
@pytest.mark.parametrize("gone", ["the last file", "the folder"])
def test_an_index_that_somebody_deletes_stops_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    gone: str,
    first: str,
) -> None:
    """To have space, of a running broker: it is derived."""
    monkeypatch.setattr(index_files, "RESERVE_STEP", 100)
    store = open_store(tmp_path)
    for number in range(45):
        send(store, number)
    build(store)
    if gone == "the folder":
        shutil.rmtree(tmp_path / "index")
    else:
        files_of(tmp_path)[-1].unlink()
    if first == "a sync":
        send(store, 45)
        build(store)
        asyncio.run(store.sync())
    for number in range(46, 70):
        send(store, number)
    build(store)
    asyncio.run(store.sync())
    assert store._checkpoint.saved_phy_offset == store.max_phy_offset, "or no file expires"
    assert [line for line in caplog.messages if "is gone" in line] != []
    found = [number for number in range(70) if bodies(store, f"u{number}")]
    assert found[-20:] == list(range(50, 70))
    store.close()
    caplog.clear()
    store = open_store(tmp_path)
    assert bodies(store, "u69") == ["69"]
    assert [line for line in caplog.messages if "has lost files" in line] != []
    store.close()


def test_a_full_disk_at_close_leaves_the_rest_to_the_next_start(tmp_path: Path) -> None:
    disk = FullDisk(1 << 30)
    store = open_store(tmp_path, disk)
    send(store, 1)
    disk.free = 0
    store.close()
    assert (tmp_path / "abort").exists()
    store = open_store(tmp_path)
    assert bodies(store, "u1") == ["1"]


def test_a_full_disk_does_not_keep_a_store_from_opening(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, 1)
    store.close()
    store = open_store(tmp_path, FullDisk(0))
    assert bodies(store, "u1") == ["1"]


def test_nothing_is_put_into_a_file_without_disk_space_for_it(tmp_path: Path) -> None:
    """A crash takes the newest files; the one in front of them may be a sparse one, of the
    original."""
    store = open_store(tmp_path)
    for number in range(50):
        send(store, number)
    build(store)
    store.close()
    index = IndexFiles(tmp_path / "index", 10, 40, SystemDisk(), lambda: NOW)
    index.load()
    assert index.current() is None
    index.reserve_current()
    assert index.current() is not None
    first, last = index._entries
    last.table.end_timestamp += 1
    first.table.count -= 1
    assert index.drop_newer(first.table.end_timestamp) is not None
    assert index.paths == [first.file.path]
    assert index.current() is None
    assert index.make() is first.file
    index.use(first.file)
    assert index.current() == (first.table, 1)
    index.close()


SPARSE: Final[dict[str, Any]] = {"max_hash_slot_num": 1000, "max_index_num": 1_000_000}
"""A file of 20 MB."""


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_a_file_takes_the_disk_space_of_its_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In steps, and what they cost is all that a first message takes."""
    monkeypatch.setattr(index_files, "RESERVE_STEP", 64 << 10)
    store = open_store(tmp_path, **SPARSE)
    send(store, 0)
    build(store)
    (path,) = files_of(tmp_path)
    assert path.stat().st_size == 40 + 4 * 1000 + 20 * 1_000_000
    assert on_disk(path) < 100 << 10
    for number in range(1, 20_000):
        send(store, number)
    build(store)
    assert 400_000 <= on_disk(path) < 600_000
    store.close()
    store = open_store(tmp_path, **SPARSE)
    send(store, 20_000)
    assert asyncio.run(asyncio.wait_for(store.indexed(), 20))  # there is room: nobody makes any
    assert [bodies(store, f"u{n}") for n in (0, 19_999, 20_000)] == [["0"], ["19999"], ["20000"]]
    store.close()


def test_a_disk_that_is_full_in_the_middle_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No item is written where there is no disk space; when there is again, it goes on in the same
    file."""
    monkeypatch.setattr(index_files, "RESERVE_STEP", 4096)
    disk = FullDisk(1 << 30)
    store = open_store(tmp_path, disk, **SPARSE)
    send(store, 0)
    build(store)
    for number in range(1, 1000):
        send(store, number)
    disk.free = 4096
    with pytest.raises(OutOfSpaceError):
        build(store)
    (_, index) = store._index._entries[-1]
    assert 0 < index.count < 1000
    assert index.end <= store._index._entries[-1].file.reserved
    disk.free = 1 << 30
    build(store)
    assert len(files_of(tmp_path)) == 1
    assert [bodies(store, f"u{n}") for n in (0, 500, 999)] == [["0"], ["500"], ["999"]]
    crash(store)
    store = open_store(tmp_path, **SPARSE)
    assert [bodies(store, f"u{n}") for n in (0, 500, 999)] == [["0"], ["500"], ["999"]]
    store.close()
