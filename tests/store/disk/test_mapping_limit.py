"""Queues that are not used are not mapped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.disk.mapped_file_queue import MappedFileQueue
from aiorocketmq.store.disk.mapping_limit import MappingLimit
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.queues.consume_queue import CQ_UNIT, ConsumeQueue

from ..world import bodies_of, open_store, put_ok

PER_FILE = 10


def queues_in(folder: Path, count: int, limit: MappingLimit) -> list[ConsumeQueue]:
    return [
        ConsumeQueue(
            "T", number, MappedFileQueue(folder / str(number), PER_FILE * 20, PosixDisk()), limit
        )
        for number in range(count)
    ]


def append(queue: ConsumeQueue, phy_offset: int) -> None:
    queue.append(CQ_UNIT.pack(phy_offset, 100, 7))


def mapped(queues: list[ConsumeQueue]) -> list[int]:
    return [queue.queue_id for queue in queues if any(file.mapped for file in queue.files.files)]


def test_the_queue_that_was_not_used_lately_goes(tmp_path: Path) -> None:
    queues = queues_in(tmp_path, 5, MappingLimit(3))
    for queue in queues[:3]:
        append(queue, 0)
    assert mapped(queues) == [0, 1, 2]
    append(queues[3], 0)  # all were used: the first one asked goes
    assert len(mapped(queues)) == 3
    assert 3 in mapped(queues)
    append(queues[2], 100)
    append(queues[4], 0)
    assert {2, 4} <= set(mapped(queues))
    for round_ in range(3):
        for queue in queues:
            append(queue, 1000 + round_ * 100)
            assert len(mapped(queues)) <= 3
    for queue in queues:
        unit = queue.unit(queue.max_offset - 1)
        assert unit == (1200, 100, 7)
        first = queue.first_message()
        assert first is not None
        assert first[1] == 0


@pytest.mark.parametrize("write", [True, False])
def test_a_queue_in_use_stays_mapped(tmp_path: Path, write: bool) -> None:
    queues = queues_in(tmp_path, 20, MappingLimit(3))
    append(queues[0], 0)
    mapping = queues[0].buffer
    for number, queue in enumerate(queues[1:], 1):
        append(queue, number * 100)
        if write and number < PER_FILE:
            append(queues[0], number * 100)
        else:
            assert queues[0].unit(0) == (0, 100, 7)
        assert queues[0].buffer is mapping
    assert len(mapped(queues)) == 3


def test_reading_an_idle_queue_now_and_then_does_not_map_it(tmp_path: Path) -> None:
    limit = MappingLimit(100)
    (queue,) = queues_in(tmp_path, 1, limit)
    for number in range(25):
        append(queue, number * 100)
    queue.close()
    assert limit.count == 0
    for number in range(10):
        assert queue.unit(number) == (number * 100, 100, 7)
    assert mapped([queue]) == []
    for _ in range(10):
        assert queue.unit(3) == (300, 100, 7)
    assert [file.mapped for file in queue.files.files] == [True, False, False]
    for _ in range(20):
        assert queue.unit(13) == (1300, 100, 7)  # a reader moves on
    assert [file.mapped for file in queue.files.files] == [False, True, False]
    append(queue, 2500)
    assert [file.mapped for file in queue.files.files] == [False, True, True]
    assert limit.count == 2
    queue.clear()
    assert limit.count == 0


def test_a_store_with_more_queues_than_may_be_mapped(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    store = open_store(tmp_path, max_mapped_queue_files=4)
    for number in range(3):
        for queue_id in range(40):
            put_ok(store, queue_id=queue_id, body=b"%d-%d" % (queue_id, number))
            assert len(mapped(list(store._queues.all()))) <= 4
    assert descriptors() - before < 20
    store.close()
    store = open_store(tmp_path, max_mapped_queue_files=4)
    assert store.recovery is not None
    assert (store.recovery.clean, store.recovery.records) == (True, 0)
    assert mapped(list(store._queues.all())) == []
    for queue_id in range(40):
        assert bodies_of(store, queue_id=queue_id) == [
            b"%d-%d" % (queue_id, number) for number in range(3)
        ]
    store.close()


def test_the_limit_in_bytes_counts_whole_files(tmp_path: Path) -> None:
    store = open_store(tmp_path, mapped_file_size_consume_queue=2000, max_mapped_queue_bytes=7000)
    for queue_id in range(10):
        put_ok(store, queue_id=queue_id)
    assert len(mapped(list(store._queues.all()))) == 3
    store.close()


def descriptors(folder: Path) -> int:
    """How many of this process belong to files below."""
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return sum(os.path.islink(link) and os.readlink(link).startswith(str(folder)) for link in links)


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="the system does not tell which files are open"
)
def test_only_some_of_the_files_that_are_written_without_their_mapping_have_a_descriptor_more(
    tmp_path: Path,
) -> None:
    limit = MappingLimit(3)
    files = [
        MappedFile.create(tmp_path / str(number), 0, 1 << 16, PosixDisk()) for number in range(70)
    ]
    before = descriptors(tmp_path)
    for _ in range(2):
        for number, file in enumerate(files):
            limit.write(file, 0, bytes([number]) * 4096)
        assert 1 <= descriptors(tmp_path) - before <= 64
    assert [file.read(4095, 1) for file in files] == [bytes([number]) for number in range(70)]
    for file in files:
        file.close()
    assert descriptors(tmp_path) == 0
