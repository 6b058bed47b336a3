"""All queues: what is put on the disk, and what is put there once more."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.queues.consume_queue import CQ_UNIT
from aiorocketmq.store.queues.consume_queues import ConsumeQueues

from ..world import bodies_of, crash, open_store, put_ok

PER_FILE = 10
OTHER = CQ_UNIT.pack(1, 1, 1)


class WatchedDisk(PosixDisk):
    """``synced``: the names of files, in order. ``before`` and ``after`` are called once each,
    around the next sync."""

    def __init__(self) -> None:
        self.synced: list[int] = []
        self.before: Callable[[], None] | None = None
        self.after: Callable[[], None] | None = None

    def sync(self, fd: int) -> None:
        self.synced.append(int(Path(f"/proc/self/fd/{fd}").readlink().name) // 20)
        before, self.before = self.before, None
        if before is not None:
            before()
        super().sync(fd)
        after, self.after = self.after, None
        if after is not None:
            after()


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def queues(tmp_path: Path, disk: WatchedDisk) -> ConsumeQueues:
    """One queue with 25 units in three files, 15 of them synced."""
    queues = ConsumeQueues(tmp_path / "consumequeue", PER_FILE * 20, disk)
    queue = queues.get_or_create("T", 0)
    queue.extend([CQ_UNIT.pack(100 * number, 100, 0) for number in range(15)])
    queues.sync([queue])
    queue.extend([CQ_UNIT.pack(100 * number, 100, 0) for number in range(15, 25)])
    disk.synced.clear()
    return queues


@pytest.mark.parametrize(("number", "again"), [(5, [0, 10, 20]), (17, [10, 20]), (24, [20])])
def test_units_that_are_overwritten_while_their_queue_is_synced_are_synced_again(
    queues: ConsumeQueues, disk: WatchedDisk, number: int, again: list[int]
) -> None:
    """By the event loop, in front of those that a thread writes to the disk just now, or among
    them."""
    queue = queues.table["T", 0]
    disk.after = lambda: queue.overwrite(number, OTHER)
    queues.sync([queue])
    assert disk.synced == [10, 20]
    disk.synced.clear()
    queues.sync([queue])
    assert disk.synced == again
    disk.synced.clear()
    queues.sync([queue])
    assert disk.synced == []


def test_what_could_not_be_synced_is_synced_the_next_time(
    queues: ConsumeQueues, disk: WatchedDisk
) -> None:
    queue = queues.table["T", 0]

    def fail() -> None:
        raise OSError(28, "No space left on device")

    disk.before = fail
    with pytest.raises(StoreFileError):
        queues.sync([queue])
    disk.synced.clear()
    queues.sync([queue])
    assert disk.synced == [10, 20]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("folder", ["consumequeue/T", "consumequeue_ext/T"])
def test_queue_files_that_somebody_deletes_do_not_keep_the_log_from_expiring(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, folder: str, clean: bool
) -> None:
    """No file of it goes that no checkpoint claims. What is gone is made again by the next
    start."""
    changes: dict[str, Any] = {"mapped_file_size_consume_queue": 2000}
    changes["enable_consume_queue_ext"] = "ext" in folder
    store = open_store(tmp_path, **changes)
    for number in range(5):
        put_ok(store, body=b"%d" % number)
        put_ok(store, "Other")
    asyncio.run(store.sync())
    shutil.rmtree(tmp_path / folder)
    for number in range(5, 10):
        put_ok(store, body=b"%d" % number)
        put_ok(store, "Other")
        asyncio.run(store.sync())
    assert store._checkpoint.saved_phy_offset == store.max_phy_offset
    assert sum("is gone" in line for line in caplog.messages) == 1
    store.close() if clean else crash(store)
    store = open_store(tmp_path, **changes)
    assert (tmp_path / folder / "0" / f"{0:020d}").exists()
    assert bodies_of(store) == [b"%d" % number for number in range(10)]
    assert len(bodies_of(store, "Other")) == 10
    store.close()
