"""A whole store on a disk of bytearrays: nothing of it asks the operating system about files."""

from __future__ import annotations

import asyncio
import builtins
import io
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.message.topic_names import TopicName
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.put import PutBatch
from aiorocketmq.store.model.status import GetMessageStatus, PutStatus

from ..stored import decode_messages
from .memory_disk import MemoryDisk
from .world import BORN_HOST, NOW, bodies_of, crash, messages_of, open_store, put_ok

_CALLS = (
    "open", "stat", "lstat", "scandir", "listdir", "mkdir", "unlink", "rmdir", "rename", "replace",
    "access", "statvfs", "pread", "preadv", "pwrite", "ftruncate", "posix_fallocate", "fdatasync",
    "fsync", "lseek",
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is not there, below which every call fails the test."""
    nowhere = tmp_path / "nowhere"
    asked: list[tuple[str, Any]] = []

    def watched(name: str, call: Any) -> Any:
        def watch(path: Any = ".", *args: Any, **options: Any) -> Any:
            if not isinstance(path, int) and os.fsdecode(path).startswith(str(nowhere)):
                asked.append((name, path))
            return call(path, *args, **options)

        return watch

    with monkeypatch.context() as patched:
        for name in _CALLS:
            patched.setattr(os, name, watched(name, getattr(os, name)))
        for owner in (io, builtins):
            patched.setattr(owner, "open", watched("io.open", io.open))
        patched.setattr(mmap, "mmap", None)
        yield nowhere
    assert asked == []
    assert not nowhere.exists()


def with_key(store: MessageStore, key: str) -> list[bytes]:
    store._indexing.build_all()
    found = at_once(store.query.steps("T", key, 10, 0, NOW * 2))
    return [message.body for message in decode_messages(found.records)]


def fill(store: MessageStore) -> None:
    for number in range(100):
        properties = {"TAGS": "ab"[number % 2], "KEYS": f"k{number}"}
        put_ok(store, "T", 0, b"m%d" % number, properties=properties)
    items = [BatchItem(0, b"b%d" % n, encode_properties({"KEYS": "batched"})) for n in range(20)]
    batch = PutBatch(
        topic="T", queue_id=1, items=encode_batch(items), born_host=BORN_HOST, born_timestamp=1,
        store_timestamp=NOW,
    )  # fmt: skip
    assert store.put_batch(batch).status is PutStatus.PUT_OK
    later = {"DELAY": "3", "REAL_TOPIC": "T", "REAL_QID": "2"}
    put_ok(store, TopicName.SCHEDULE, 2, b"later", properties=later)
    asyncio.run(store.sync())


def check(store: MessageStore) -> None:
    assert bodies_of(store) == [b"m%d" % number for number in range(100)]
    assert bodies_of(store, queue_id=1) == [b"b%d" % number for number in range(20)]
    (later,) = messages_of(store, TopicName.SCHEDULE, 2)
    assert later.properties["REAL_QID"] == "2"
    found = store.get("T", 0, 40, 7)
    assert (found.status, found.next_begin_offset) == (GetMessageStatus.FOUND, 47)
    assert with_key(store, "k41") == [b"m41"]
    assert with_key(store, "batched") == [b"b%d" % number for number in range(10, 20)]


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_store_lives_on_a_disk_of_bytearrays(root: Path, clean: bool) -> None:
    disk = MemoryDisk()
    store = open_store(root, disk)
    fill(store)
    check(store)
    end = store.max_phy_offset
    if clean:
        store.close()
    disk, before = disk.copy(), disk
    if not clean:
        crash(store)
    assert (f"{root}/abort" in disk.files) is not clean
    store = open_store(root, disk)
    assert store.recovery is not None
    assert store.max_phy_offset == end
    check(store)
    assert put_ok(store, "T", 0, b"more").queue_offset == 100
    store.close()
    assert disk.files != before.files, "the copy is another disk"


def test_what_was_not_synced_is_read_again_after_a_kill(root: Path) -> None:
    disk = MemoryDisk()
    store = open_store(root, disk)
    fill(store)
    put_ok(store, "New", 3, b"after the checkpoint")
    disk = disk.copy()
    crash(store)
    store = open_store(root, disk)
    check(store)
    assert bodies_of(store, "New", 3) == [b"after the checkpoint"]
    store.close()


def test_a_topic_is_deleted_with_its_folder(root: Path) -> None:
    disk = MemoryDisk()
    store = open_store(root, disk)
    fill(store)
    for _ in store.delete_topic_in_slices("T"):
        pass
    assert f"{root}/consumequeue/T" not in disk.folders
    store.close()
    store = open_store(root, disk)
    assert store.topics() == {TopicName.SCHEDULE}
    store.close()
