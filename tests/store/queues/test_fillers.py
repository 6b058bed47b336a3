"""Messages that were taken to be lost and turn up: what goes into a queue, and what cannot be
its."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.store.disk.mapped_file_queue import MappedFileQueue
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.queues.consume_queue import CQ_UNIT, FILLER_SIZE, ConsumeQueue
from aiorocketmq.store.queues.fillers import fill_in


def queue_with(folder: Path, begin: int, *units: tuple[int, int]) -> ConsumeQueue:
    """Its units from number ``begin`` on: physical offset and size, 0 for a filler."""
    queue = ConsumeQueue("T", 0, MappedFileQueue(folder, 200, PosixDisk()))
    queue.begin_at(begin)
    for phy_offset, size in units:
        queue.append(CQ_UNIT.pack(phy_offset, size or FILLER_SIZE, 0))
    return queue


def units_of(queue: ConsumeQueue) -> list[tuple[int, int]]:
    units = CQ_UNIT.iter_unpack(queue.read_units(queue.min_offset, queue.max_offset))
    return [(phy_offset, 0 if size == FILLER_SIZE else size) for phy_offset, size, _ in units]


@pytest.mark.parametrize(
    ("begin", "units", "number", "phy_offset", "expected"),
    [
        (0, [(0, 100), (300, 0), (300, 100)], 1, 100, [(0, 100), (100, 100), (300, 100)]),
        (
            0,
            [(0, 100), (300, 0), (300, 0), (300, 100)],
            2,
            200,
            [(0, 100), (200, 0), (200, 100), (300, 100)],
        ),
        (
            0,
            [(0, 100), (100, 0), (100, 0), (300, 100)],
            1,
            150,
            [(0, 100), (150, 100), (300, 0), (300, 100)],
        ),
        (0, [(0, 100), (200, 0)], 1, 200, [(0, 100), (200, 100)]),
        (3, [(300, 100)], 0, 50, [(50, 100), (300, 0), (300, 0), (300, 100)]),
        (3, [], 2, 50, [(50, 100)]),
        (12, [(300, 100)], 11, 50, [(50, 100), (300, 100)]),
    ],
)
def test_it_comes_in_the_place_of_its_filler(
    tmp_path: Path,
    begin: int,
    units: list[tuple[int, int]],
    number: int,
    phy_offset: int,
    expected: list[tuple[int, int]],
) -> None:
    queue = queue_with(tmp_path, begin, *units)
    queue.flushed_offset = queue.max_offset
    fill_in(queue, number, CQ_UNIT.pack(phy_offset, 100, 7))
    assert units_of(queue) == expected
    assert queue.min_offset == min(begin, number)
    assert queue.flushed_offset <= number, "it is synced"
    assert queue.unit(number) == (phy_offset, 100, 7)


@pytest.mark.parametrize(
    ("begin", "units", "number", "phy_offset"),
    [
        (0, [(0, 100), (100, 100)], 1, 100),
        (0, [(0, 100), (300, 0), (300, 100)], 1, 50),
        (0, [(0, 100), (300, 0), (300, 100)], 1, 250),
        (0, [(500, 100), (600, 0)], 1, 100),
        (3, [(300, 100)], 1, 250),
        (12, [(300, 100)], 9, 50),
        (0, [(0, 100)], 1, 100),
        (0, [(0, 100)], -1, 100),
    ],
    ids=[
        "no filler",
        "in front",
        "behind",
        "behind the end",
        "between fillers",
        "no file",
        "no unit",
        "no number",
    ],
)
def test_where_it_does_not_fit_nothing_changes(
    tmp_path: Path, begin: int, units: list[tuple[int, int]], number: int, phy_offset: int
) -> None:
    queue = queue_with(tmp_path, begin, *units)
    fill_in(queue, number, CQ_UNIT.pack(phy_offset, 100, 7))
    assert (queue.min_offset, units_of(queue)) == (begin, [(phy, size) for phy, size in units])


def test_what_expired_stays_so(tmp_path: Path) -> None:
    queue = queue_with(tmp_path, 2, (300, 100), (400, 100), (500, 100))
    queue.min_offset = 3
    fill_in(queue, 1, CQ_UNIT.pack(100, 100, 7))
    assert (queue.min_offset, units_of(queue)) == (3, [(400, 100), (500, 100)])
