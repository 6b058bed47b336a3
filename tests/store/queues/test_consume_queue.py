"""One consume queue: units in files, beginnings that are not 0, ends that have to be found."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiorocketmq.store.disk.disk import Disk
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.disk.mapped_file_queue import MappedFileQueue
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.model.errors import BrokenPromiseError, OutOfSpaceError, StoreFileError
from aiorocketmq.store.queues.consume_queue import CQ_UNIT, FILLER_SIZE, ConsumeQueue
from aiorocketmq.store.queues.queue_survey import believe
from aiorocketmq.store.queues.queue_units import UnitChain

from ...fault.disks import FullDisk

PER_FILE = 10


def queue_in(path: Path, disk: Disk | None = None) -> ConsumeQueue:
    queue = ConsumeQueue("T", 0, MappedFileQueue(path, PER_FILE * 20, disk or PosixDisk()))
    queue.load()
    believe(queue, UnitChain())
    return queue


def unit(number: int) -> bytes:
    return CQ_UNIT.pack(100 * number, 100, number)


def reloaded(queue: ConsumeQueue) -> ConsumeQueue:
    queue.close()
    return queue_in(queue.files.directory)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.integers(0, 25), max_size=6))
def test_units_come_back_however_they_were_appended(tmp_path: Path, sizes: list[int]) -> None:
    queue = queue_in(tmp_path / "q")
    for size in sizes:
        start = queue.max_offset
        if size == 1:
            queue.append(unit(start))
        else:
            queue.extend([unit(number) for number in range(start, start + size)])
    queue = reloaded(queue)
    assert queue.max_offset == sum(sizes)
    for number in range(queue.max_offset):
        assert queue.unit(number) == (100 * number, 100, number)
        assert queue.first_where(lambda phy, _size, wanted=number: phy >= 100 * wanted) == number  # type: ignore[misc]
    assert queue.unit(queue.max_offset) is None
    assert queue.unit(-1) is None
    assert queue.end_phy_offset() == (100 * queue.max_offset if sum(sizes) else -1)
    queue.clear()
    assert not queue.files.directory.exists()


def units(start: int, stop: int) -> bytes:
    return b"".join(map(unit, range(start, stop)))


def test_very_many_units_are_written_without_the_mapping_and_read_through_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    write = MappedFile.write

    def watched(file: MappedFile, position: int, data: bytes) -> None:
        written.append(len(data))
        if len(written) == 3:
            raise StoreFileError(file.path, "cannot be written")
        write(file, position, data)

    monkeypatch.setattr(MappedFile, "write", watched)
    queue = ConsumeQueue("T", 0, MappedFileQueue(tmp_path, 500 * 20, PosixDisk()))
    queue.extend_much(units(0, 100))
    assert queue.unit(0) == (0, 100, 0)
    queue.extend_much(units(100, 400))
    queue.extend_much(units(400, 800))
    queue.extend_much(units(800, 1000))
    queue.extend_much(units(1000, 1300))
    assert written == [300 * 20, 300 * 20], (
        "few ones, and those of two files, go through the mapping"
    )
    queue.append(unit(1300))
    queue.extend_much(units(1301, 1500))
    with pytest.raises(StoreFileError, match="cannot be written"):
        queue.extend_much(units(1500, 1900))
    assert queue.max_offset == 1500
    queue.extend_much(units(1500, 1900))
    queue = ConsumeQueue("T", 0, MappedFileQueue(tmp_path, 500 * 20, PosixDisk()))
    queue.load()
    believe(queue, UnitChain())
    assert queue.max_offset == 1900
    assert [queue.unit(number) for number in range(1900)] == [
        (100 * number, 100, number) for number in range(1900)
    ]


def test_units_are_read_to_the_end_of_their_file(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    queue.extend([unit(number) for number in range(25)])
    assert len(queue.units(3, 100)) == 7 * 20
    assert len(queue.units(3, 2)) == 2 * 20
    assert len(queue.units(20, 100)) == 5 * 20
    assert queue.units(25, 1) == b""
    assert [queue.first_of_next_file(offset) for offset in (0, 9, 10)] == [10, 10, 20]


@pytest.mark.parametrize("offset", [0, 3, 10, 34])
def test_a_queue_that_begins_later(tmp_path: Path, offset: int) -> None:
    """The file is filled up to the first unit, as the original does it (consumequeue-index.md
    §1.3)."""
    queue = queue_in(tmp_path)
    queue.append(unit(0))
    queue.min_offset = queue.max_offset  # it has expired
    queue.begin_at(offset)
    queue.append(CQ_UNIT.pack(5000, 100, 7))
    assert (queue.min_offset, queue.max_offset) == (offset, offset + 1)
    assert queue.files.start == offset // PER_FILE * PER_FILE * 20
    queue = reloaded(queue)
    queue.correct_min_offset(0)
    assert (queue.min_offset, queue.max_offset) == (offset, offset + 1)
    first = queue.first_message()
    assert first is not None
    assert first[1] == 5000
    assert queue.units(offset - 1, 1) == b""
    data = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    filler = CQ_UNIT.pack(0, 0x7FFFFFFF, 0)
    assert data.startswith(filler * (offset % PER_FILE) + CQ_UNIT.pack(5000, 100, 7))


def test_a_queue_with_messages_does_not_begin_elsewhere(tmp_path: Path) -> None:
    """Their numbers would be given again."""
    queue = queue_in(tmp_path)
    queue.extend([unit(0), unit(1), unit(2)])
    for offset in (1, 3, 40):
        with pytest.raises(BrokenPromiseError, match=f"cannot begin at {offset}"):
            queue.begin_at(offset)
    assert (queue.min_offset, queue.max_offset) == (0, 3)
    queue.begin_at(0)  # its topic was deleted and made again
    assert (queue.min_offset, queue.max_offset) == (0, 0)


def test_lost_messages_keep_their_numbers(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    queue.append(unit(0))
    queue.fill_to(13, 1300)
    queue.append(unit(13))
    assert queue.unit(1) == queue.unit(12) == (1300, FILLER_SIZE, 0)
    assert queue.max_offset == 14
    assert queue.count_below(1299) == 1
    assert queue.count_below(1300) == 13  # what they stand for lies in front of that
    queue.correct_min_offset(50)
    assert queue.min_offset == 1


def test_the_oldest_messages_are_skipped_when_the_log_lost_them(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    queue.extend([unit(number) for number in range(25)])
    for phy_offset, first in ((0, 0), (1, 1), (100, 1), (1050, 11), (2400, 24), (9999, 25)):
        queue.correct_min_offset(phy_offset)
        assert queue.min_offset == first


def test_cutting_and_finishing(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    queue.extend([unit(number) for number in range(25)])
    queue.cut(1200)
    assert queue.max_offset == 12
    assert queue.has_unit(12, 1200, 100)  # the bytes are still there
    assert not queue.has_unit(12, 1200, 99)
    assert not queue.has_unit(99, 1200, 100)
    assert not queue.has_unit(-1, 1200, 100)
    assert queue.finish()
    assert not queue.finish()
    assert not queue.has_unit(12, 1200, 100)
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == [0, 200]
    queue.append(unit(12))
    assert reloaded(queue).max_offset == 13


def test_nothing_changes_when_the_disk_is_full(tmp_path: Path) -> None:
    disk = FullDisk(200)
    queue = queue_in(tmp_path, disk)
    queue.extend([unit(number) for number in range(8)])
    for _ in range(3):
        with pytest.raises(OutOfSpaceError):
            queue.extend([unit(number) for number in range(8, 13)])
    assert queue.max_offset == 8
    queue.extend([unit(8), unit(9)])
    with pytest.raises(OutOfSpaceError):
        queue.append(unit(10))
    disk.free = 1000
    queue.append(unit(10))
    assert [queue.unit(number) for number in (7, 10)] == [(700, 100, 7), (1000, 100, 10)]


def test_a_file_that_is_gone_on_with_has_no_holes(tmp_path: Path) -> None:
    """Its units are read through the mapping that the next ones are written through."""
    disk = PosixDisk()
    queue = ConsumeQueue("T", 0, MappedFileQueue(tmp_path, 4 * 4096, disk))
    queue.extend([unit(number) for number in range(1, 700)])
    queue.close()
    path = tmp_path / ("0" * 20)
    data = path.read_bytes()
    path.unlink()
    with path.open("wb") as file:  # a copy with a hole where nobody looked
        file.write(data[:4096])
        file.seek(8192)
        file.write(data[8192:])
    queue = ConsumeQueue("T", 0, MappedFileQueue(tmp_path, 4 * 4096, disk))
    queue.load()
    queue.accept(699)
    assert queue.units(300, 1) == bytes(20)
    assert not queue.files.files[0].reserved, "nobody writes yet"
    queue.append(unit(700))
    assert queue.files.files[0].solid >= 700 * 20
    assert path.stat().st_blocks * 512 >= 700 * 20
    assert queue.units(300, 1) == bytes(20)
    assert queue.unit(0) == (100, 100, 1)


def test_what_lies_behind_the_last_certain_unit_may_be_anything(tmp_path: Path) -> None:
    """After a power failure: the second file lost its first sectors, what follows was newer."""
    queue = queue_in(tmp_path)
    queue.extend([unit(number) for number in range(25)])
    path = sorted(tmp_path.iterdir())[1]
    path.write_bytes(bytes(100) + path.read_bytes()[100:])
    queue = reloaded(queue)
    assert queue.max_offset == 10
    queue.cut(1000)
    assert queue.finish()
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == [0, 200]


def test_units_that_a_kill_has_left_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = queue_in(tmp_path)
    queue.extend_bytes(units(0, 5))
    queue.close()
    monkeypatch.setattr(MappedFileQueue, "reserve", None)
    again = ConsumeQueue("T", 0, MappedFileQueue(tmp_path, PER_FILE * 20, PosixDisk()))
    again.load()
    again.accept(2, {0: (0, 100, 0), 1: (100, 100, 1)}, units(2, 5))
    for number in range(2, 5):
        assert again.end_phy_offset() == 100 * number
        again.append(unit(number))
    assert (again.max_offset, again.flushed_offset, again.known_end()) == (5, 2, 500)
    assert not again.finish()
    assert [again.unit(number) for number in range(5)] == [
        (100 * number, 100, number) for number in range(5)
    ]
    monkeypatch.undo()
    again.append(unit(5))
    assert reloaded(again).max_offset == 6


def test_units_that_a_kill_has_left_but_the_log_does_not_have_are_gone(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    queue.extend_bytes(units(0, 5))
    for written in (unit(2), CQ_UNIT.pack(777, 100, 0)):
        again = ConsumeQueue("T", 0, MappedFileQueue(tmp_path, PER_FILE * 20, PosixDisk()))
        again.load()
        again.accept(2, {0: (0, 100, 0), 1: (100, 100, 1)}, units(2, 5))
        again.append(written)
        assert again.finish()
        assert not again.finish()
        assert queue_in(tmp_path).max_offset == 3
        assert again.unit(2) == CQ_UNIT.unpack(written)
        again.keep(2)
        again.extend_bytes(units(2, 5))
