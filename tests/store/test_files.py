"""Mapped files and queues of them, the checkpoint, the lock."""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.wire import fields_of
from aiorocketmq.store.disk.checkpoint import Checkpoint
from aiorocketmq.store.disk.lock_file import LockFile
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.disk.mapped_file_queue import MappedFileQueue
from aiorocketmq.store.disk.system_disk import PosixDisk, SystemDisk
from aiorocketmq.store.model.config import MessageStoreConfig
from aiorocketmq.store.model.delay_levels import level_of, parse_delay_levels
from aiorocketmq.store.model.errors import (
    BrokenPromiseError,
    OutOfSpaceError,
    StoreFileError,
    StoreLockedError,
)

from ..fault.disks import FullDisk

SIZE = 64 << 10


# -- one file


def test_a_file_has_its_length_at_once_and_blocks_when_reserved(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path / "a/b", 3 * SIZE, SIZE, PosixDisk())
    assert file.path == tmp_path / "a/b" / "00000000000000196608"
    assert (file.start, file.end) == (3 * SIZE, 4 * SIZE)
    assert file.path.stat().st_size == SIZE
    assert file.path.stat().st_blocks == 0
    file.reserve(SIZE // 2)
    assert file.path.stat().st_blocks * 512 >= SIZE // 2
    file.map[0:3] = b"abc"
    file.reserve(10 * SIZE)
    assert file.reserved == SIZE
    assert file.read(0, 4) == b"abc\0"
    assert file.read(SIZE - 1, 10) == b"\0"
    file.touch(0, SIZE)
    file.touch(100, 100)
    file.sync()
    file.close()
    assert not file.mapped
    assert file.read(0, 3) == b"abc"
    file.delete()
    assert not file.path.exists()


class CountingDisk(SystemDisk):
    """Syncs parts, wherever it is; counts those that are of everything."""

    syncs_parts = True

    def __init__(self) -> None:
        self.syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        super().sync(fd)


def test_a_part_is_synced_by_the_mapping_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = CountingDisk()
    file = MappedFile.create(tmp_path, 0, SIZE, disk)
    calls: list[tuple[object, ...]] = []
    failure = [0]
    monkeypatch.setattr(MappedFile, "_advise", lambda file, *call: calls.append(call) or failure[0])
    file.sync(0, 100)
    assert (calls, disk.syncs) == ([], 1), "it is not mapped"
    assert file.map[0] == 0
    file.sync(2 * mmap.PAGESIZE + 5, SIZE)
    assert (calls, disk.syncs) == ([("msync", 2 * mmap.PAGESIZE, SIZE, 4)], 1)
    file.sync()
    assert (len(calls), disk.syncs) == (1, 2)
    failure[0] = errno.ENOSYS
    file.sync(0, 100)
    assert (len(calls), disk.syncs) == (2, 3), "the C library cannot"
    failure[0] = errno.EIO
    with pytest.raises(StoreFileError, match="cannot be synced: Input/output error"):
        file.sync(0, 100)
    assert disk.syncs == 3, (
        "what failed once must not be asked for again: the next one would succeed"
    )
    file.deleted = True
    file.sync(0, 100)
    file.close()


def test_a_part_is_really_synced(tmp_path: Path) -> None:
    disk = CountingDisk()
    file = MappedFile.create(tmp_path, 0, SIZE, disk)
    file.reserve(SIZE)
    file.map[9000:9003] = b"abc"
    file.sync(9000, 9003)
    file.sync(SIZE - 1, SIZE)
    assert disk.syncs == 0 or sys.platform != "linux"
    file.close()
    file.delete()


def test_a_disk_of_a_test_sees_every_sync(tmp_path: Path) -> None:
    disk = PosixDisk()
    assert not disk.syncs_parts


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems may not tell")
def test_what_was_written_is_in_memory_and_what_never_was_is_not(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path, 0, SIZE, PosixDisk())
    assert not file.is_in_memory(0, SIZE)
    file.write(0, bytes(SIZE // 2))
    assert file.is_in_memory(0, SIZE // 2)
    assert file.is_in_memory(100, SIZE // 2 - 100)
    assert not file.is_in_memory(100, SIZE)
    file.write(SIZE // 2, b"x" * (SIZE // 2))
    assert file.is_in_memory(SIZE - 1, 10 * SIZE)
    assert file.read(SIZE // 2 - 1, 2) == b"\0x"
    file.close()


def test_a_read_that_gets_less_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does in front of a bad sector, and may on a network: nobody has cut the file."""
    real, bad = os.pread, 2 * SIZE

    def pread(fd: int, length: int, position: int) -> bytes:
        if position >= bad:
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, min(length, 100, bad - position), position)

    file = MappedFile.create(tmp_path, 0, SIZE, PosixDisk())
    data = bytes(range(250)) * 4
    file.write(SIZE - 1000, data)
    monkeypatch.setattr(os, "pread", pread)
    assert file.read_unmapped(SIZE - 1000, 2000) == data
    assert file.read(SIZE - 1000, 990) == data[:990]
    bad = SIZE - 500
    assert file.read(SIZE - 1000, 500) == data[:500]
    with pytest.raises(StoreFileError, match="cannot be read: Input/output error"):
        file.read(SIZE - 1000, 600)
    file.close()


class ClosingDisk(PosixDisk):
    """Others have a turn while a mapping or a descriptor is closed: the interpreter lets them."""

    syncs_parts = True

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] | None = None
        """Once."""
        self.closed: list[int] = []

    def map(self, fd: int, size: int, *, bare: bool) -> Any:
        others = self._others

        class Mapping(mmap.mmap):
            def close(self) -> None:
                super().close()
                others()

        return Mapping(fd, size)

    def close(self, fd: int) -> None:
        self.closed.append(fd)
        super().close(fd)
        self._others()

    def _others(self) -> None:
        others, self.meanwhile = self.meanwhile, None
        if others is not None:
            others()


def test_who_asks_for_a_file_while_a_thread_closes_it_comes_upon_no_half_closed_mapping(
    tmp_path: Path,
) -> None:
    """The scrub, or a sync: it was the end of the broker."""
    disk = ClosingDisk()
    file = MappedFile.create(tmp_path, 0, SIZE, disk)
    file.write(0, bytes(100))
    file.end_writing()
    file.map_now()
    seen: list[bool] = []

    def others() -> None:
        file.touch(0, 10)
        file.sync(0, 10)
        seen.append(file.is_in_memory(0, 10))

    disk.meanwhile = others
    file.delete()
    assert seen == [False]


def test_a_descriptor_is_closed_once(tmp_path: Path) -> None:
    """The second time it may be another file's."""
    disk = ClosingDisk()
    file = MappedFile.create(tmp_path, 0, SIZE, disk)
    file.write(0, b"abc")
    disk.closed.clear()
    disk.meanwhile = file.end_writing
    file.end_writing()
    assert len(disk.closed) == 1


def test_making_a_file_that_is_there_changes_nothing(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path, 0, SIZE, PosixDisk())
    file.map[5] = 1
    again = MappedFile.create(tmp_path, 0, SIZE, PosixDisk())
    assert again.map[5] == 1


def test_a_full_disk_and_other_trouble_name_the_file(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path, 0, SIZE, FullDisk(100))
    with pytest.raises(OutOfSpaceError, match=r"0{20}: .*No space left"):
        file.reserve(101)
    assert file.reserved == 0
    file.reserve(100)
    file.path.unlink()
    with pytest.raises(StoreFileError, match="No such file"):
        file.sync()
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(StoreFileError, match="cannot be created"):
        MappedFile.create(tmp_path / "x", 0, SIZE, PosixDisk())


def test_reserving_where_the_system_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros are written then; what is there already is not reserved again."""

    def refuse(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    file = MappedFile.create(tmp_path, 0, SIZE, PosixDisk())
    file.reserve(100)
    file.map[0:100] = b"x" * 100
    file.reserve(5000)
    assert file.read(0, 101) == b"x" * 100 + b"\0"
    assert file.path.stat().st_blocks > 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.lists(st.integers(0, SIZE - 1), max_size=5), st.integers(0, SIZE))
def test_clearing_takes_everything_behind_a_position_and_nothing_before(
    tmp_path: Path, marks: list[int], position: int
) -> None:
    (tmp_path / ("0" * 20)).unlink(missing_ok=True)
    file = MappedFile.create(tmp_path, 0, SIZE, PosixDisk())
    for mark in marks:
        file.map[mark] = 0xFF
    assert file.clear_from(position) == any(mark >= position for mark in marks)
    assert {at for at in range(SIZE) if file.map[at]} == {mark for mark in marks if mark < position}
    assert not file.clear_from(position)
    file.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    st.lists(st.integers(0, SIZE - 1), max_size=3), st.integers(0, SIZE - 1), st.integers(1, SIZE)
)
def test_a_read_to_the_end_of_a_page_tells_whether_that_is_all(
    tmp_path: Path, marks: list[int], position: int, length: int
) -> None:
    (tmp_path / ("0" * 20)).unlink(missing_ok=True)
    file = MappedFile.create(tmp_path, 0, SIZE, PosixDisk())
    for mark in marks:
        file.map[mark] = 0xFF
    data, is_all = file.read_to_page_end(position, length)
    stop = position + len(data)
    assert stop == SIZE or stop % mmap.PAGESIZE == 0
    assert min(SIZE, position + length) <= stop < position + length + mmap.PAGESIZE
    assert {position + at for at, byte in enumerate(data) if byte} == {
        mark for mark in marks if position <= mark < stop
    }
    assert is_all == all(mark < stop for mark in marks)
    file.close()


def test_holes_are_not_read(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path, 0, 1 << 40, PosixDisk())
    file.map[1 << 30 : (1 << 30) + 3] = b"abc"
    ranges = list(file.data_ranges(100))
    assert sum(stop - start for start, stop in ranges) < 1 << 24
    assert any(start <= 1 << 30 < stop for start, stop in ranges)
    file.clear_from(0)
    assert file.read(1 << 30, 3) == bytes(3)
    file.close()


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems may not tell where holes are"
)
@pytest.mark.parametrize("random", [False, True], ids=["few files", "very many"])
def test_only_what_has_no_hole_is_touched(tmp_path: Path, random: bool) -> None:
    file = MappedFile.create(tmp_path, 0, SIZE, PosixDisk())
    file.random = random
    file.write(0, b"a" * 4096)
    file.write(12288, b"b" * 4096)
    assert file.read(12288, 2) == b"bb"
    assert not file.mapped
    file.map_now()
    assert file.solid == 4096
    assert (file.read(4095, 2), file.read(12288, 2), file.read(SIZE - 1, 5)) == (
        b"a\0",
        b"bb",
        b"\0",
    )
    assert bytes(file.view(12288, 2)) == b"bb"
    held, at = file.around(4000, 4096, 0) or (b"", -1)
    assert (len(held), at) == (4096, 0)
    del held
    assert file.around(4000, 12289, 8289) == (b"a" * 96 + bytes(8192) + b"b", 4000)
    assert file.around(4000, 12289, 8288) is None
    file.reserve(20_000)
    assert file.solid == file.reserved == 20_000
    assert (file.read(4095, 2), file.read(12288, 2)) == (b"a\0", b"bb"), "and it is what it was"
    file.seal()
    assert file.solid == 0
    assert file.read(4095, 2) == b"a\0"
    file.close()
    assert file.read(12288, 2) == b"bb"


def test_a_file_that_has_become_shorter_is_an_error(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path, 0, SIZE, PosixDisk())
    file.write(0, b"abc")
    os.truncate(file.path, 100)
    assert file.read(0, 100)[:3] == b"abc"
    for look in (
        lambda: file.read(99, 2),
        lambda: file.read_unmapped(99, 2),
        lambda: file.map_now(),
        lambda: file.is_in_memory(0, 100),
        lambda: file.view(99, 2),
    ):
        with pytest.raises(
            StoreFileError, match=rf"0{{20}}: has become shorter than its {SIZE} bytes"
        ):
            look()
    file.close()


def test_what_is_in_memory_is_known_without_a_mapping_that_stays(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path, 0, SIZE, PosixDisk())
    file.write(0, bytes(SIZE))
    assert file.is_in_memory(0, SIZE) or not sys.platform.startswith("linux")
    assert (file.mapped, file.solid) == (False, 0)
    file.close()


# -- many files


def test_reserving_a_range_makes_the_files_it_needs(tmp_path: Path) -> None:
    queue = MappedFileQueue(tmp_path / "q", SIZE, PosixDisk())
    assert (queue.start, queue.end, queue.find(0), queue.read(0, 1)) == (0, 0, None, b"")
    first = queue.reserve(SIZE + 10, 3 * SIZE + 1)
    assert [file.start for file in queue.files] == [SIZE, 2 * SIZE, 3 * SIZE]
    assert [file.reserved for file in queue.files] == [SIZE, SIZE, 1]
    assert first is queue.files[0]
    assert queue.find(SIZE - 1) is None
    assert queue.find(4 * SIZE) is None
    assert queue.find(2 * SIZE) is queue.files[1]
    again = MappedFileQueue(tmp_path / "q", SIZE, PosixDisk())
    again.load()
    assert (again.start, again.end) == (SIZE, 4 * SIZE)
    assert [file.start for file in again.drop_from(2 * SIZE)] == [3 * SIZE, 2 * SIZE]
    assert again.end == 2 * SIZE
    with pytest.raises(BrokenPromiseError, match="does not follow"):
        again.add(queue.files[2])
    again.delete()
    assert not (tmp_path / "q").exists()


def test_a_full_disk_in_the_middle_of_a_range(tmp_path: Path) -> None:
    queue = MappedFileQueue(tmp_path, SIZE, FullDisk(SIZE + 5))
    with pytest.raises(OutOfSpaceError):
        queue.reserve(0, 2 * SIZE)
    queue.reserve(0, SIZE + 5)


# -- checkpoint


def checkpoint_at(path: Path) -> Checkpoint:
    checkpoint = Checkpoint(path, PosixDisk())
    checkpoint.load()
    return checkpoint


def test_the_checkpoint_has_the_layout_of_the_original(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    written = checkpoint_at(path)
    written.physic_msg_timestamp, written.logics_msg_timestamp, written.index_msg_timestamp = (
        5000,
        6000,
        7,
    )
    written.safe_phy_offset = 123
    written.save()
    data = path.read_bytes()
    assert len(data) == 4096
    assert data[:40].hex() == f"{5000:016x}{6000:016x}{7:016x}" + "00" * 16
    read = checkpoint_at(path)
    assert (read.physic_msg_timestamp, read.logics_msg_timestamp, read.index_msg_timestamp) == (
        5000,
        6000,
        7,
    )
    assert read.min_timestamp == 2000
    assert read.safe_phy_offset == 123
    assert checkpoint_at(tmp_path / "none").min_timestamp == 0


@pytest.mark.parametrize("at", [0, 15, 4056, 4072, 4087, 4095])
def test_the_safe_position_counts_only_while_nobody_else_wrote(tmp_path: Path, at: int) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = checkpoint_at(path)
    checkpoint.safe_phy_offset = 123
    checkpoint.save()
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert checkpoint_at(path).safe_phy_offset is None


def test_what_5x_keeps_in_the_checkpoint_stays(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(bytes(24) + b"masterflconfirmp" + bytes(4056))
    checkpoint = checkpoint_at(path)
    checkpoint.save()
    assert path.read_bytes()[24:40] == b"masterflconfirmp"
    assert path.read_bytes()[4056:] == bytes(40)


# -- lock and configuration


def test_the_lock_is_for_one_only(tmp_path: Path) -> None:
    lock = LockFile(tmp_path / "lock")
    lock.acquire()
    with pytest.raises(StoreLockedError, match="in use by another process"):
        LockFile(tmp_path / "lock").acquire()
    lock.release()
    lock.release()
    other = LockFile(tmp_path / "lock")
    other.acquire()
    other.release()
    with pytest.raises(StoreFileError, match="cannot be opened"):
        LockFile(tmp_path / "no/lock").acquire()


def test_names_and_defaults_are_those_of_the_original() -> None:
    names = {field.wire_name for field in fields_of(MessageStoreConfig)}
    assert {
        "storePathRootDir",
        "mappedFileSizeConsumeQueue",
        "checkCRCOnRecover",
        "warmMapedFileEnable",
    } <= names
    config = MessageStoreConfig()
    assert config.mapped_file_size_commit_log == 1073741824
    assert config.consume_queue_file_size == 6000000
    assert config.root == Path.home() / "store"
    assert config.commit_log_path == config.root / "commitlog"


def test_delay_levels() -> None:
    levels = parse_delay_levels(MessageStoreConfig().message_delay_level)
    assert len(levels) == 18
    assert (levels[0], levels[4], levels[17]) == (1000, 60_000, 7_200_000)
    assert parse_delay_levels("1d") == (86_400_000,)
    with pytest.raises(ValueError, match="'5x'"):
        parse_delay_levels("1s 5x")
    with pytest.raises(ValueError, match=r"'9{40}' is not a number"):
        parse_delay_levels("9" * 5000 + "s")
    with pytest.raises(ValueError, match="no delay level"):
        parse_delay_levels(" ")


def test_the_level_of_a_message_is_a_number_or_none() -> None:
    assert [level_of(b"DELAY\x01" + text) for text in (b"3", b"x", b"", b"9" * 5000)] == [
        3,
        0,
        0,
        0,
    ]
