"""What is put back into a log; most of it is tried where replicas are asked
(``broker/replication``)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.model.errors import SyncFailedError
from aiorocketmq.store.model.status import PutStatus

from ...fault.disks import BadSectorDisk, BrokenDisk
from ..world import open_store, put, put_ok


def test_a_record_whose_body_cannot_be_read_is_put_back(tmp_path: Path) -> None:
    """Written as a whole, a bad sector is a good one again."""
    disk = BadSectorDisk()
    store = open_store(tmp_path, disk, mapped_file_size_commit_log=1 << 16)
    put_ok(store)
    place = put_ok(store, body=bytes(range(256)) * 50)
    record = store.read(place.phy_offset, place.size)
    assert record is not None
    disk.bad = {"0" * 20: 4096}
    file = store._log.files.files[0]
    assert file.read_unmapped(4096, 4096) == bytes(4096)
    store.put_record_back(place.phy_offset, record)
    assert disk.bad == {}
    assert file.read_unmapped(place.phy_offset, place.size) == record
    store.close()


class TwoMenders(PosixDisk):
    """While one syncs what he has mended another one comes, and ends after him."""

    def __init__(self, other: Callable[[], None]) -> None:
        self.other = threading.Thread(target=other)
        self.came, self.first_is_done = threading.Event(), threading.Event()
        self.mending = False

    def sync(self, fd: int) -> None:
        super().sync(fd)
        if self.mending and threading.current_thread() is not self.other:
            self.other.start()
            assert self.came.wait(30)
        elif self.mending:
            assert self.first_is_done.wait(30)

    def times(self, fd: int) -> tuple[int, int]:
        times = super().times(fd)
        if threading.current_thread() is self.other:
            self.came.set()
        return times

    def new_lock(self) -> Any:
        disk, lock = self, threading.Lock()

        class Asked:
            def __enter__(self) -> None:
                if not lock.acquire(blocking=False):
                    disk.came.set()
                    lock.acquire()

            def __exit__(self, *_: object) -> None:
                lock.release()

        return Asked()


def test_a_full_file_keeps_its_age_where_two_mend_it_at_once(tmp_path: Path) -> None:
    """The one that came second saw what the first had written."""
    disk = TwoMenders(lambda: store._log.put_back(file, second.phy_offset, b"2" * second.size))
    store = open_store(tmp_path, disk, mapped_file_size_commit_log=1 << 16)
    first, second = put_ok(store), put_ok(store)
    while len(store._log.files.files) < 2:
        put_ok(store, body=bytes(1000))
    assert store.flush.save()
    file = store._log.files.files[0]
    os.utime(file.path, (1, 1))
    disk.mending = True
    store._log.put_back(file, first.phy_offset, b"1" * first.size)
    disk.first_is_done.set()
    disk.other.join()
    disk.mending = False
    assert file.read(0, second.phy_offset + second.size) == b"1" * first.size + b"2" * second.size
    assert file.path.stat().st_mtime == 1
    store.close()


@pytest.mark.parametrize("is_written", [True, False])
def test_a_sync_that_fails_then_is_one_of_the_log(tmp_path: Path, is_written: bool) -> None:
    """It may have dropped what was written behind, which no later sync writes. Where nothing was,
    the place is not mended, and that is all."""
    disk = BrokenDisk()
    store = open_store(tmp_path, disk)
    place = put_ok(store)
    record = store.read(place.phy_offset, place.size)
    assert record is not None
    if not is_written:
        while store.max_phy_offset < store.config.mapped_file_size_commit_log:
            put_ok(store, body=bytes(1000))
        assert store.flush.save()
    store._log.files.files[0].put_back(place.phy_offset + 88, b"?")
    disk.broken = True
    with pytest.raises(SyncFailedError):
        store.put_record_back(place.phy_offset, record)
    disk.broken = False
    assert (store.flush.broken is not None) == is_written
    assert (put(store).status is not PutStatus.PUT_OK) == is_written
    assert store.flush.save_log() != is_written
    store.close()
