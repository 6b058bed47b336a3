"""The index of a store: built behind the writer, searched, rolled, synced, recovered, expired."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.index_keys import keys_of
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record.batch import BatchItem
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.checkpoint import Checkpoint
from aiorocketmq.store.disk.system_disk import PosixDisk, SystemDisk
from aiorocketmq.store.index import index_files
from aiorocketmq.store.index.index_file import IndexFile
from aiorocketmq.store.index.index_files import IndexFiles
from aiorocketmq.store.log.log_scanner import LogScanner
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import OutOfSpaceError
from aiorocketmq.store.model.put import PutBatch
from aiorocketmq.store.model.status import PutStatus
from aiorocketmq.store.services.flush import FlushService
from tests.stored import decode_messages

from ...fault.disks import FullDisk, LossyDisk
from ...sim import ManualClock
from ..world import BORN_HOST, NOW, STORE_HOST, config_of, crash, open_store, put, put_ok

FOREVER = (0, 1 << 62)
ITEMS = 39
"""So many fit into a file."""


def send(store: MessageStore, number: int, keys: str = "", topic: str = "T", **fields: Any) -> int:
    properties = {"UNIQ_KEY": f"u{number}"} | ({"KEYS": keys} if keys else {})
    return put_ok(store, topic, body=b"%d" % number, properties=properties, **fields).phy_offset


def bodies(
    store: MessageStore,
    key: str,
    topic: str = "T",
    count: int = 64,
    begin: int = 0,
    end: int = 1 << 62,
) -> list[str]:
    found = at_once(store.query.steps(topic, key, count, begin, end))
    return [message.body.decode() for message in decode_messages(found.records)]


def build(store: MessageStore) -> None:
    store._indexing.build_all()


def files_of(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir()) if (root / "index").is_dir() else []


def items_of(root: Path) -> list[tuple[int, int]]:
    """Hash and physical offset of every item of every file."""
    return [
        item[:2] for path in files_of(root) for item in IndexFile(path.read_bytes(), 10, 40).items()
    ]


# --- what is found
# --------------------------------------------------------------------------------------------------


def test_messages_are_found_by_key_and_unique_key(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = [send(store, number, f"k{number % 3} all") for number in range(9)]
    send(store, 100, "all", topic="U")
    build(store)
    assert bodies(store, "u4") == ["4"]
    assert bodies(store, "k1") == ["1", "4", "7"]
    assert bodies(store, "all") == [str(number) for number in range(9)]
    assert bodies(store, "all", count=2) == ["7", "8"]  # the newest
    assert bodies(store, "all", topic="U") == ["100"]
    assert (
        bodies(store, "k") == bodies(store, "u4", topic="U") == bodies(store, "all", count=0) == []
    )
    result = at_once(store.query.steps("T", "u1", 1, *FOREVER))
    assert result.index_last_update_timestamp == NOW
    assert result.index_last_update_phyoffset > offsets[-1]


def test_the_range_of_time_is_exact(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(5):
        send(store, number, "k", store_timestamp=NOW + number * 400)
    build(store)
    assert bodies(store, "k", begin=NOW + 400, end=NOW + 1200) == ["1", "2", "3"]
    assert bodies(store, "k", begin=NOW + 401, end=NOW + 1199) == ["2"]
    assert bodies(store, "k", begin=NOW + 1601) == bodies(store, "k", end=NOW - 1) == []


def test_a_hash_that_collides_is_not_found(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, 1, "Aa")
    send(store, 2, "BB")  # the same hash
    build(store)
    assert bodies(store, "Aa") == ["1"]
    assert bodies(store, "BB") == ["2"]


def test_prepared_messages_are_indexed_and_rolled_back_ones_are_not(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, 1, sys_flag=0x4)
    send(store, 2, sys_flag=0x8)
    send(store, 3, sys_flag=0xC)
    build(store)
    assert [bodies(store, key) for key in ("u1", "u2", "u3")] == [["1"], ["2"], []]


def test_every_message_of_a_batch(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    items = [BatchItem(0, b"%d" % n, encode_properties({"UNIQ_KEY": f"u{n}"})) for n in range(3)]
    shared = encode_properties({"KEYS": "shared"})
    store.put_batch(
        PutBatch(
            topic="T",
            queue_id=0,
            items=items,
            properties=shared,
            born_host=BORN_HOST,
            born_timestamp=NOW,
            store_timestamp=NOW,
        )
    )
    build(store)
    assert bodies(store, "u1") == ["1"]
    assert bodies(store, "shared") == ["0", "1", "2"]


def test_without_an_index_nothing_is_kept_and_nothing_made(tmp_path: Path) -> None:
    store = open_store(tmp_path, message_index_enable=False)
    send(store, 1)
    assert not store._indexing.waits
    assert bodies(store, "u1") == []
    store.close()
    assert not files_of(tmp_path)
    open_store(tmp_path).close()  # nor later: what was stored without index stays without
    assert not files_of(tmp_path)


def test_one_message_with_more_keys_than_a_file_has_items(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, 1, " ".join(f"k{number}" for number in range(100)))
    build(store)
    assert len(files_of(tmp_path)) == 3
    assert bodies(store, "k0") == bodies(store, "k99") == ["1"]


# --- files
# --------------------------------------------------------------------------------------------------


def test_files_are_named_by_local_time_in_order_even_when_the_clock_is_set_back(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    store = MessageStore.open(config_of(tmp_path), clock, store_host=STORE_HOST)
    for number in range(100):
        send(store, number)
        if number == 50:
            build(store)
            clock.advance(-7200)
    store.close()
    names = [path.name for path in files_of(tmp_path)]
    assert len(names) == 3
    assert all(re.fullmatch(r"2023111[3-6]\d{9}", name) for name in names)
    assert [offset for _, offset in items_of(tmp_path)] == sorted(
        offset for _, offset in items_of(tmp_path)
    )
    store = open_store(tmp_path)
    assert all(bodies(store, f"u{number}") == [str(number)] for number in range(100))


def test_what_was_put_or_cut_is_synced_and_files_without_items_go(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = [send(store, number) for number in range(ITEMS + 5)]
    build(store)
    index = store._indexing._files
    first, second = index.paths

    def synced() -> list[Path]:
        work = index.sync_work()
        index.sync(work)
        assert index.synced
        return [file.path for file in work.files]

    assert synced() == [first, second]
    assert synced() == []
    index.cut(offsets[3], lambda _hashed, _phy_offset: True)
    assert files_of(tmp_path) == index.paths == [first]
    assert len(items_of(tmp_path)) == 3
    assert synced() == [first]
    index.cut(0, lambda _hashed, _phy_offset: True)
    assert files_of(tmp_path) == index.paths == []
    assert index.sync_work().directory


def test_files_expire_with_the_log_but_never_the_last_one(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = [send(store, number) for number in range(100)]
    build(store)
    paths = files_of(tmp_path)
    assert store._index.drop_expired(offsets[ITEMS - 1]) == []
    expired = store._index.drop_expired(offsets[ITEMS])
    assert [file.path for file in expired] == paths[:1]
    assert bodies(store, "u0") == []
    assert bodies(store, f"u{ITEMS}") == [str(ITEMS)]
    assert [file.path for file in store._index.drop_expired(1 << 60)] == paths[1:2]


def test_foreign_files_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(tmp_path)
    send(store, 1)
    store.close()
    (tmp_path / "index" / "notes.txt").write_text("mine")
    (tmp_path / "index" / "20200101000000000").write_bytes(bytes(99))
    (tmp_path / "index" / "20200101000000001").touch()
    with caplog.at_level(logging.WARNING):
        store = open_store(tmp_path)
    assert "notes.txt" in caplog.text
    assert "is 99 bytes long" in caplog.text
    assert bodies(store, "u1") == ["1"]
    store.close()
    assert (tmp_path / "index" / "20200101000000000").read_bytes() == bytes(99)
    assert not (tmp_path / "index" / "20200101000000001").exists()


def test_messages_with_many_keys_wait_for_their_turn(tmp_path: Path) -> None:
    """A call makes entries of as many as fill a step, and writes what one after the other would
    have become."""
    one_by_one, together = open_store(tmp_path / "a"), open_store(tmp_path / "b")
    for number in range(20):
        keys = " ".join(f"{number}k{at}" for at in range(60)) if number % 4 else ""
        for store in (one_by_one, together):
            send(store, number, keys, sys_flag=0xC if number % 5 == 0 else 0)
        build(one_by_one)
    indexing, steps = together._indexing, list[int]()
    while indexing.waits:
        before = len(items_of(tmp_path / "b"))
        if not indexing.step():
            indexing._files.use(indexing._files.make())
        steps.append(len(items_of(tmp_path / "b")) - before)
    assert max(steps) <= 128 < sum(steps), "a step has 128 keys"
    assert items_of(tmp_path / "a") == items_of(tmp_path / "b") != []


# --- the service
# --------------------------------------------------------------------------------------------------


def test_the_service_builds_a_moment_after_the_put(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        store = MessageStore.open(config_of(tmp_path), clock, store_host=STORE_HOST)
        services = asyncio.ensure_future(store.run())
        await asyncio.sleep(0)
        for number in range(1000):
            send(store, number)
        while store._indexing.waits:
            clock.advance(0.005)
            await asyncio.sleep(0)
        assert len(files_of(tmp_path)) == -(-1000 // ITEMS)
        assert bodies(store, "u999") == ["999"]
        services.cancel()
        await asyncio.wait([services])
        store.close()

    asyncio.run(asyncio.wait_for(main(), 60))


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


# --- syncing and recovery
# -------------------------------------------------------------------------------------------


def checkpoint_of(root: Path) -> Checkpoint:
    checkpoint = Checkpoint(root / "checkpoint", PosixDisk())
    checkpoint.load()
    return checkpoint


def test_the_checkpoint_never_claims_what_still_waits(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first = send(store, 0)  # there is no file yet, and nobody who makes one
    asyncio.run(store.sync())
    assert checkpoint_of(tmp_path).safe_phy_offset == first
    build(store)
    asyncio.run(store.sync())
    assert checkpoint_of(tmp_path).safe_phy_offset == store.max_phy_offset
    assert checkpoint_of(tmp_path).index_msg_timestamp == 0  # no file is complete
    for number in range(1, 50):
        send(store, number, store_timestamp=NOW + number)
    store.close()
    assert checkpoint_of(tmp_path).index_msg_timestamp == NOW + ITEMS - 1


def test_after_a_clean_stop_the_last_file_goes_on(tmp_path: Path) -> None:
    for round_ in range(3):
        store = open_store(tmp_path)
        for number in range(round_ * 10, round_ * 10 + 10):
            send(store, number)
        store.close()
    assert len(files_of(tmp_path)) == 1
    store = open_store(tmp_path)
    assert all(bodies(store, f"u{number}") == [str(number)] for number in range(30))


@pytest.mark.parametrize("synced", [0, 20, 39, 45])
@pytest.mark.parametrize("built", [True, False])
def test_after_a_kill_everything_is_found_once(synced: int, built: bool, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(60):
        send(store, number, "k")
        if number + 1 == synced:
            build(store)
            asyncio.run(store.sync())
    if built:
        build(store)
    crash(store)
    store = open_store(tmp_path)
    store.close()
    assert len(items_of(tmp_path)) == len(set(items_of(tmp_path))) == 120
    store = open_store(tmp_path)
    assert all(bodies(store, f"u{number}") == [str(number)] for number in range(60))


def test_the_first_of_several_damaged_files_counts(tmp_path: Path) -> None:
    """A power failure tore items below and above the place up to which the checkpoint vouches."""
    store = open_store(tmp_path)
    for number in range(120):
        send(store, number)
        if number == 49:
            build(store)
            asyncio.run(store.sync())
    build(store)
    crash(store)
    for path, item in zip(files_of(tmp_path)[1:3], (5, 1), strict=True):
        with path.open("r+b") as file:
            file.seek(40 + 10 * 4 + item * 20)
            file.write(bytes(20))
    store = open_store(tmp_path)
    assert [number for number in range(120) if bodies(store, f"u{number}") != [str(number)]] == []
    store.close()
    assert len(items_of(tmp_path)) == len(set(items_of(tmp_path))) == 120


def test_damaged_items_are_kept_until_nothing_vouches_for_them(tmp_path: Path) -> None:
    """Or a power failure during recovery would leave an index without them, which the checkpoint
    claims to be whole."""

    class Watched(SystemDisk):
        seen = b""

        def write(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
            if not self.seen and os.readlink(f"/proc/self/fd/{fd}").endswith("checkpoint"):
                self.seen = files_of(tmp_path)[0].read_bytes()
            return super().write(fd, data, position)

    store = open_store(tmp_path)
    for number in range(20):
        send(store, number)
    build(store)
    asyncio.run(store.sync())
    crash(store)
    with files_of(tmp_path)[0].open("r+b") as file:
        file.seek(40 + 10 * 4 + 15 * 20)
        file.write(bytes(20))
    before, disk = files_of(tmp_path)[0].read_bytes(), Watched()
    store = open_store(tmp_path, disk=disk)
    assert disk.seen == before
    assert all(bodies(store, f"u{number}") == [str(number)] for number in range(20))
    store.close()


@pytest.mark.parametrize("keys", ["k", "a b c"])
def test_a_checkpoint_of_the_original_does_not_lead_to_double_items(
    keys: str, tmp_path: Path
) -> None:
    """It has no position: complete files are kept, others are deleted and made again."""
    store = open_store(tmp_path)
    for number in range(60):
        send(store, number, keys, store_timestamp=NOW + number * 500)
    build(store)
    asyncio.run(store.sync())
    before = items_of(tmp_path)
    crash(store)
    content = bytearray((tmp_path / "checkpoint").read_bytes())
    content[4056:] = bytes(40)
    (tmp_path / "checkpoint").write_bytes(content)
    store = open_store(tmp_path)
    store.close()
    assert items_of(tmp_path) == before


def test_a_start_that_was_interrupted_when_it_had_deleted_files_has_the_next_one_make_them(
    tmp_path: Path,
) -> None:
    """Times vouch for the log up to its last file, and the index was to be made from further in
    front."""
    store = open_store(tmp_path, mapped_file_size_commit_log=4096)
    for number in range(60):
        send(store, number, store_timestamp=NOW + number * 500)
    build(store)
    asyncio.run(store.sync())
    crash(store)
    content = bytearray((tmp_path / "checkpoint").read_bytes())
    content[16:24], content[4056:] = bytes(8), bytes(40)
    (tmp_path / "checkpoint").write_bytes(content)

    class Stops(SystemDisk):
        def delete(self, path: Path | str) -> None:
            super().delete(path)
            if Path(path).parent.name == "index":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_store(tmp_path, disk=Stops(), mapped_file_size_commit_log=4096)
    store = open_store(tmp_path, mapped_file_size_commit_log=4096)
    build(store)
    assert all(bodies(store, f"u{number}") == [str(number)] for number in range(60))
    store.close()


def test_a_replay_from_below_the_checkpoint_vouches_for_no_index_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a power failure soon after would leave files that were made again, and never synced, and
    nobody looks into."""
    store = open_store(tmp_path)
    for number in range(60):
        send(store, number, store_timestamp=NOW + number)
    build(store)
    asyncio.run(store.sync())
    crash(store)
    assert checkpoint_of(tmp_path).index_msg_timestamp == NOW + ITEMS - 1
    lost = sorted((tmp_path / "consumequeue" / "T" / "0").iterdir())[1]
    lost.unlink()  # the queue needs the log from there on
    with monkeypatch.context() as patch:
        patch.setattr(FlushService, "save", lambda _: None)
        store = open_store(tmp_path)
    assert checkpoint_of(tmp_path).index_msg_timestamp == 0
    assert all(bodies(store, f"u{number}") == [str(number)] for number in range(60))
    asyncio.run(store.sync())
    assert checkpoint_of(tmp_path).index_msg_timestamp == NOW + ITEMS - 1
    store.close()


def test_items_of_records_that_are_lost_go(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = [send(store, number) for number in range(10)]
    build(store)
    path = store._log.current.path if store._log.current else tmp_path
    crash(store)
    with path.open("r+b") as file:
        file.seek(offsets[7])
        file.write(bytes(4096 - offsets[7]))
    store = open_store(tmp_path)
    assert store.max_phy_offset == offsets[7]
    assert bodies(store, "u7") == []
    send(store, 70)
    store.close()
    assert len(items_of(tmp_path)) == 8


@settings(max_examples=settings().max_examples * 2 // 5)
@given(
    st.lists(
        st.sampled_from(["put", "put", "put", "build", "sync", "power", "kill", "close"]),
        max_size=25,
    ),
    st.randoms(),
)
def test_whatever_happens_the_index_agrees_with_the_log(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], chance: random.Random
) -> None:
    """Every record that is left has exactly its items, in order, and is found."""
    root = tmp_path_factory.mktemp("store")
    disk = LossyDisk()
    one_file: dict[str, Any] = {
        "mapped_file_size_commit_log": 1 << 17,
        "mapped_file_size_consume_queue": 20_000,
    }
    store = open_store(root, disk, **one_file)
    send(store, 0)
    asyncio.run(store.sync())  # the folders are there to stay
    count = 1
    for step in [*steps, "close"]:
        if step == "put":
            for _ in range(7):
                send(store, count, "k" if count % 2 else "")
                count += 1
        elif step == "build":
            build(store)
        elif step == "sync":
            asyncio.run(store.sync())
        else:
            if step == "close":
                store.close()
            else:
                crash(store)
            if step == "power":
                disk.fail(root, chance)
            store = open_store(root, disk, **one_file)
            asyncio.run(store.sync())
    expected = []
    for record in LogScanner(store._log).scan(0):
        keys = keys_of(record.properties)
        expected += [record.phy_offset] * len(keys)
        # none when the page with its properties was lost: the CRC of a record covers the body only
        if keys:
            assert len(bodies(store, keys[0].decode("utf-8", "replace"))) == 1
    store.close()
    assert [offset for _, offset in items_of(root)] == expected
