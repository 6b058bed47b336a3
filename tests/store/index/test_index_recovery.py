"""What the index is after a stop, a kill or a power failure: everything is found once, and a
checkpoint vouches for no more than is on the disk."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.index_keys import keys_of
from aiorocketmq.store.disk.checkpoint import Checkpoint
from aiorocketmq.store.disk.system_disk import PosixDisk, SystemDisk
from aiorocketmq.store.log.log_scanner import LogScanner
from aiorocketmq.store.services.flush import FlushService

from ...fault.disks import BadSectorDisk, LossyDisk
from ..world import NOW, crash, open_store
from .index_world import ITEMS, bodies, build, files_of, items_in, items_of, not_found, send


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
    assert not_found(store, 30) == []


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
    assert not_found(store, 60) == []


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
    assert not_found(store, 120) == []
    store.close()
    assert len(items_of(tmp_path)) == len(set(items_of(tmp_path))) == 120


@pytest.mark.parametrize("number", [0, 1, 2])
def test_after_a_kill_a_file_with_a_bad_sector_is_made_again(tmp_path: Path, number: int) -> None:
    """Through its mapping that would be a SIGBUS, at each start."""
    large: dict[str, Any] = {"max_index_num": 400, "mapped_file_size_commit_log": 1 << 20}
    store = open_store(tmp_path, **large)
    for message in range(1000):
        send(store, message)
    build(store)
    asyncio.run(store.sync())
    store._checkpoint.index_msg_timestamp = 0  # nobody vouches for them
    store._checkpoint.save()
    crash(store)
    disk = BadSectorDisk()
    disk.bad = {f"index/{files_of(tmp_path)[number].name}": 4096}
    store = open_store(tmp_path, disk, **large)
    assert disk.bad == {}
    assert [message for message in range(1000) if bodies(store, f"u{message}") == []] == []
    assert len(items_in(tmp_path, 400)) == 1000
    store.close()


def test_a_file_whose_header_cannot_be_read_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path)
    for number in range(60):
        send(store, number)
    store.close()
    disk = BadSectorDisk()
    disk.bad = {f"index/{files_of(tmp_path)[0].name}": 0}
    store = open_store(tmp_path, disk)
    assert any("is on a bad sector" in line for line in caplog.messages)
    assert any("has lost files" in line for line in caplog.messages)
    assert bodies(store, "u59") == ["59"]
    assert bodies(store, "u1") == []
    send(store, 60)
    build(store)
    assert bodies(store, "u60") == ["60"]
    store.close()


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
    assert not_found(store, 20) == []
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
    assert not_found(store, 60) == []
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
    assert not_found(store, 60) == []
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
