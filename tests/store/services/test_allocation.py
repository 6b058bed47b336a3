"""Space for the commit log: the next file is ready before it is needed."""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.model.config import BrokerRole, FlushDiskType
from aiorocketmq.store.model.errors import StoreFileError

from ..replica.replica_world import RECORD_FIELDS, open_slave
from ..world import bodies_of, crash, open_store, put_ok
from .flush_world import Running, WatchedDisk

STEP = 16 << 20


def test_the_next_file_is_made_ahead_and_an_unused_one_is_deleted_on_closing(
    tmp_path: Path,
) -> None:
    running = Running(tmp_path)
    folder = tmp_path / "commitlog"

    def files() -> list[int]:
        return sorted(int(path.name) for path in folder.iterdir())

    def last_is(start: int) -> bool:
        return files()[-1] == start

    async def script() -> None:
        await running.until(lambda: files() == [0])
        for number in range(1, 5):
            await running.until(lambda: running.store._log.spare is not None)
            assert put_ok(running.store, body=bytes(8000)).phy_offset == (number - 1) * 8192
            await running.until(functools.partial(last_is, number * 8192))
        await running.until(lambda: running.store._log.spare is not None)

    running.run(script)
    assert files() == [0, 8192, 16384, 24576, 32768]
    running.store.close()
    assert files() == [0, 8192, 16384, 24576]


def test_a_kill_with_a_file_made_ahead(tmp_path: Path) -> None:
    running = Running(tmp_path)

    async def script() -> None:
        put_ok(running.store, body=bytes(8000))
        await running.until(lambda: running.store._log.spare is not None)

    running.run(script)
    running.store._log.spare = None  # a kill deletes nothing
    crash(running.store)
    assert len(list((tmp_path / "commitlog").iterdir())) == 2
    running = Running(tmp_path)
    assert len(list((tmp_path / "commitlog").iterdir())) == 1
    assert put_ok(running.store).phy_offset == 8192
    running.store.close()


def test_space_is_reserved_ahead_of_the_writer(tmp_path: Path) -> None:
    running = Running(tmp_path, mapped_file_size_commit_log=64 << 20)
    log = running.store._log
    step = 16 << 20

    async def script() -> None:
        await running.until(lambda: log.spare is not None)
        put_ok(running.store, body=bytes(4 << 20))
        assert log.current is not None
        assert log.current.reserved == step
        assert log.limit == step // 2 - 8
        put_ok(running.store, body=bytes(4 << 20))  # more than half of the reserve is used now
        assert log.limit == step - 8
        await running.until(lambda: log.limit == log.position + step // 2 - 8)
        assert log.current.reserved == log.position + step

    running.run(script)
    running.store.close()


def test_the_whole_next_file_is_ready_when_it_is_warmed(tmp_path: Path) -> None:
    running = Running(tmp_path, mapped_file_size_commit_log=3 * STEP, warm_maped_file_enable=True)
    log = running.store._log

    async def script() -> None:
        await running.until(lambda: log.spare is not None and log.spare.reserved == log.spare.size)

    running.run(script)
    running.store.close()


def record_at(phy_offset: int) -> bytes:
    return encode_record(
        NewRecord("T", 0, b"", b"", **RECORD_FIELDS, queue_offset=0, phy_offset=phy_offset)
    )


def test_a_slave_begins_elsewhere_once_its_next_file_can_go(tmp_path: Path) -> None:
    """The thread that warms it has a view of it just then."""
    running = Running(tmp_path, broker_role=BrokerRole.SLAVE, warm_maped_file_enable=True)
    store, begin = running.store, 3 * 8192
    log, record = store._log, record_at(begin)

    async def script() -> None:
        await running.until(lambda: log.spare is not None and log.spare.reserved == log.spare.size)
        assert log.spare is not None
        view = memoryview(log.spare.map)
        for _ in range(2):
            with pytest.raises(StoreFileError, match="cannot be deleted yet"):
                store.replica.append(begin, record)
        assert (log.spare.start, store.max_phy_offset) == (0, 0), "nothing has changed"
        view.release()
        store.replica.append(begin, record)
        await running.until(lambda: log.spare is not None)  # the one behind it

    running.run(script)
    assert store.max_phy_offset == begin + len(record)
    store.close()
    assert [int(path.name) for path in (tmp_path / "commitlog").iterdir()] == [begin]
    store = open_slave(tmp_path)
    assert (store.min_phy_offset, store.max_phy_offset) == (begin, begin + len(record))
    store.close()


def test_a_next_file_of_another_beginning_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made while the slave knew where its log begins and had no file there."""
    store, begin = open_slave(tmp_path), 3 * 8192
    log = store._log

    def refuse(_: Path, *others: object) -> MappedFile:
        raise StoreFileError(tmp_path, "cannot be created")

    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "create", refuse)
        with pytest.raises(StoreFileError, match="cannot be created"):
            store.replica.append(begin, record_at(begin))
    log.spare = asyncio.run(store._allocation._make_file(log.files.end))
    assert log.spare.start == 0
    store.replica.append(begin, record_at(begin))
    store.close()
    assert [int(path.name) for path in (tmp_path / "commitlog").iterdir()] == [begin]


def test_without_warming_its_beginning_is_ready(tmp_path: Path) -> None:
    running = Running(tmp_path, mapped_file_size_commit_log=3 * STEP)
    log = running.store._log

    async def script() -> None:
        await running.until(lambda: log.spare is not None)
        put_ok(running.store)  # takes it
        await running.until(lambda: log.spare is not None)
        for _ in range(20):
            await asyncio.get_running_loop().run_in_executor(
                running.store._allocation._threads, lambda: None
            )
        assert log.spare is not None
        assert log.spare.reserved == STEP

    running.run(script)
    running.store.close()


class OldDisk(PosixDisk):
    """Has no call that reserves space: the C library looks at the last byte of each block, and
    writes a zero where there is one. So does ours where there is no such library."""

    def __init__(self) -> None:
        self.looked, self.goes_on = threading.Event(), threading.Event()

    def allocate(self, fd: int, offset: int, length: int) -> None:
        if threading.current_thread() is threading.main_thread():
            super().allocate(fd, offset, length)
            return
        at = offset + 4095
        is_zero = os.pread(fd, 1, at) == b"\0"
        self.looked.set()
        self.goes_on.wait()
        if is_zero:
            os.pwrite(fd, b"\0", at)

    def new_lock(self) -> Any:
        disk, lock = self, threading.Lock()

        class Asked:
            def __enter__(self) -> None:
                if not lock.acquire(blocking=False):
                    disk.goes_on.set()
                    lock.acquire()

            def __exit__(self, *_: object) -> None:
                lock.release()

        return Asked()


def test_nothing_is_written_where_a_thread_reserves_space(tmp_path: Path) -> None:
    disk = OldDisk()
    store = open_store(tmp_path, disk, mapped_file_size_commit_log=3 * STEP)
    body = b"x" * 4_000_000
    put_ok(store, body=body)
    file = store._log.current
    assert file is not None
    thread = threading.Thread(target=store._allocation._extend, args=(file, STEP + 4096))
    thread.start()
    disk.looked.wait()
    for _ in range(5):
        put_ok(store, body=body)  # the writer was faster
    disk.goes_on.set()
    thread.join()
    assert bodies_of(store) == [body] * 6
    store.close()


class FullInBetween(WatchedDisk):
    """Has no space where a thread asked first, and some when the writer asks meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.goes_on = threading.Event(), threading.Event()

    def allocate(self, fd: int, offset: int, length: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.endswith("/b/00000000000000008192") and in_thread():
            self.asked.set()
            self.goes_on.wait()
            raise OSError(errno.ENOSPC, "No space left on device")
        super().allocate(fd, offset, length)


def in_thread() -> bool:
    return threading.current_thread() is not threading.main_thread()


def test_a_file_that_the_writer_has_begun_stays(tmp_path: Path) -> None:
    """Though the disk was full for the thread that was to make it."""
    disk, paths = FullInBetween(), f"{tmp_path / 'a'},{tmp_path / 'b'}"
    running = Running(tmp_path / "store", disk, store_path_commit_log=paths)
    bodies = [b"1" * 5000, b"2" * 5000]

    async def script() -> None:
        put_ok(running.store, body=bodies[0])
        await running.until(disk.asked.is_set)
        put_ok(running.store, body=bodies[1])
        assert await running.store.sync()
        disk.goes_on.set()
        await running.until(lambda: running.store._log.spare is not None)

    running.run(script)
    crash(running.store)
    store = open_store(tmp_path / "store", store_path_commit_log=paths)
    assert bodies_of(store) == bodies
    store.close()


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, True),
        ({"broker_role": BrokerRole.SLAVE}, False),
        ({"flush_disk_type": FlushDiskType.SYNC_FLUSH}, False),
        ({"flush_disk_type": FlushDiskType.SYNC_FLUSH, "warm_maped_file_enable": True}, True),
    ],
    ids=["usual", "slave", "sync flush", "sync flush, but warmed"],
)
def test_pages_are_touched_where_that_is_of_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], wanted: bool
) -> None:
    touched: list[int] = []
    monkeypatch.setattr(MappedFile, "touch", lambda file, _start, _stop: touched.append(file.start))
    running = Running(tmp_path, **settings)

    async def script() -> None:
        await running.until(lambda: running.store._log.spare is not None)
        assert bool(touched) is wanted

    running.run(script)
    running.store.close()


def test_files_are_locked_in_memory_until_they_are_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[tuple[int, int, int]] = []
    unlocked: list[int] = []
    monkeypatch.setattr(
        MappedFile, "lock", lambda file, start, stop: locked.append((file.start, start, stop))
    )
    monkeypatch.setattr(MappedFile, "unlock", lambda file: unlocked.append(file.start))
    running = Running(tmp_path, mlock_mapped_file_enable=True)

    async def script() -> None:
        await running.until(lambda: running.store._log.spare is not None)
        assert locked == [(0, 0, 8192)]
        for start in (0, 8192):
            await running.until(lambda: running.store._log.spare is not None)
            assert put_ok(running.store, body=bytes(8000)).phy_offset == start
        await running.until(lambda: unlocked == [0])

    running.run(script)
    running.store.close()


def test_a_lock_that_is_not_permitted_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(file: MappedFile, _start: int, _stop: int) -> None:
        raise StoreFileError(file.path, "cannot be locked in memory: Operation not permitted")

    monkeypatch.setattr(MappedFile, "lock", refuse)
    running = Running(tmp_path, mlock_mapped_file_enable=True)

    async def script() -> None:
        for start in (0, 8192):
            await running.until(lambda: running.store._log.spare is not None)
            assert put_ok(running.store, body=bytes(8000)).phy_offset == start

    with caplog.at_level(logging.WARNING):
        running.run(script)
    running.store.close()
    told = [record.getMessage() for record in caplog.records if "mlock" in record.getMessage()]
    assert len(told) == 1
    assert "ulimit -l" in told[0]
    assert "mlockMappedFileEnable" in told[0]


def test_pages_are_locked_and_unlocked(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path, 0, 64 << 10, PosixDisk())
    file.reserve(64 << 10)

    def locked_kib() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmLck"))

    before = locked_kib()
    try:
        file.lock(0, 8192)
    except StoreFileError as error:
        pytest.skip(f"{error}")
    assert locked_kib() == before + 8
    file.unlock()
    assert locked_kib() == before
    file.close()
