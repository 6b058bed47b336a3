"""A commit log on several paths (class MultiPathMappedFileQueue)."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.disk.mapped_file_queue import MappedFileQueue
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import MissingFileError, StoreConfigError, StoreFileError
from aiorocketmq.store.model.status import PutStatus
from aiorocketmq.store.services.cleaning import CleaningService
from aiorocketmq.store.services.retention import Space

from .world import bodies_of, crash, open_store, put, put_ok

LOG_FILE = 8192


def spread(root: Path, paths: str = "b,a", **changes: Any) -> MessageStore:
    """A store whose commit log lies in the folders a, b ... of ``root``."""
    configured = ",".join(str(root / name) for name in paths.split(","))
    return open_store(root / "store", store_path_commit_log=configured, **changes)


def names_in(root: Path) -> dict[str, list[int]]:
    return {
        path.name: sorted(int(file.name) // LOG_FILE for file in path.iterdir())
        for path in sorted(root.iterdir())
        if path.name != "store"
    }


def test_files_are_spread_over_the_paths(tmp_path: Path) -> None:
    """File number n goes to path n % count of the paths sorted by name."""
    store = spread(tmp_path)
    bodies = [b"%d" % number + bytes(3000) for number in range(9)]
    for body in bodies:
        put_ok(store, body=body)
    assert names_in(tmp_path) == {"a": [0, 2, 4], "b": [1, 3]}
    assert bodies_of(store) == bodies
    store.close()
    store = spread(tmp_path)
    assert bodies_of(store) == bodies
    crash(store)
    store = spread(tmp_path, "a,c,b")
    assert bodies_of(store) == bodies
    for body in bodies:
        put_ok(store, body=body)
    assert names_in(tmp_path) == {"a": [0, 2, 4, 6], "b": [1, 3, 7], "c": [5, 8]}
    store.close()
    store = spread(tmp_path, "a,b,c")
    assert bodies_of(store) == bodies + bodies
    store.close()


def test_read_only_paths_get_no_new_files(tmp_path: Path) -> None:
    store = spread(tmp_path, "a,b")
    for number in range(5):
        put_ok(store, body=b"%d" % number + bytes(5000))
    store.close()
    for paths in ("a,b,c", "a,c"):  # named in both or only there
        read_only = str(tmp_path / "b")
        store = spread(tmp_path, paths, read_only_commit_log_store_paths=read_only)
        for number in range(2):
            put_ok(store, body=b"%d" % number + bytes(5000))
        store.close()
    assert names_in(tmp_path) == {"a": [0, 2, 4, 6, 8], "b": [1, 3], "c": [5, 7]}
    store = spread(
        tmp_path, "a", read_only_commit_log_store_paths=f"{tmp_path / 'b'},{tmp_path / 'c'}"
    )
    assert len(bodies_of(store)) == 9
    store.close()
    with pytest.raises(StoreConfigError, match="readOnlyCommitLogStorePaths"):
        spread(tmp_path, "b", read_only_commit_log_store_paths=str(tmp_path / "b"))


def test_full_paths_are_passed_over_unless_all_are_full(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    queue = MappedFileQueue.on_paths(paths, [tmp_path / "c"], LOG_FILE, PosixDisk())
    assert queue.writable == paths[:2]
    queue.full = frozenset({paths[0]})
    assert [queue.directory_of(number * LOG_FILE).name for number in range(4)] == ["b"] * 4
    queue.full = frozenset(paths)
    assert [queue.directory_of(number * LOG_FILE).name for number in range(4)] == [
        "a",
        "b",
        "a",
        "b",
    ]


def test_a_path_that_is_not_there_is_a_hole(tmp_path: Path) -> None:
    store = spread(tmp_path)
    bodies = [b"%d" % number + bytes(5000) for number in range(5)]
    for body in bodies:
        put_ok(store, body=body)
    crash(store)
    (tmp_path / "b").rename(tmp_path / "away")
    with pytest.raises(StoreFileError, match="is missing between"):
        spread(tmp_path)
    (tmp_path / "b").rmdir()
    (tmp_path / "away").rename(tmp_path / "b")
    store = spread(tmp_path)
    assert bodies_of(store) == bodies
    store.close()
    shutil.copy(tmp_path / "a" / ("0" * 20), tmp_path / "b")
    with pytest.raises(StoreFileError, match="is there twice"):
        spread(tmp_path)


def test_a_hole_is_named_where_the_file_would_be(tmp_path: Path) -> None:
    queue = MappedFileQueue.on_paths([tmp_path / "a", tmp_path / "b"], [], LOG_FILE, PosixDisk())
    for number in (0, 1, 2, 3):
        queue.make(number * LOG_FILE)
    (tmp_path / "b" / f"{LOG_FILE:020d}").unlink()
    with pytest.raises(MissingFileError) as caught:
        queue.load()
    assert (caught.value.start, caught.value.path.parent.name) == (LOG_FILE, "b")


class SmallDisks(PosixDisk):
    """Some folders have no space left; how full they look."""

    def __init__(self) -> None:
        self.full: set[str] = set()
        self.ratios: dict[str, float] = {}

    def allocate(self, fd: int, offset: int, length: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{fd}")).parent.name in self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().allocate(fd, offset, length)

    def used_ratio(self, path: Path) -> float:
        return self.ratios.get(path.name, 0.5)


def test_a_path_without_space_is_passed_over(tmp_path: Path) -> None:
    disk = SmallDisks()
    store = spread(tmp_path, "a,b,c", disk=disk)
    put_ok(store, body=bytes(8000))
    disk.full = {"b"}
    for _ in range(3):
        put_ok(store, body=bytes(8000))
    assert names_in(tmp_path) == {"a": [0, 2], "b": [], "c": [1, 3]}
    disk.full = {"a", "b", "c"}
    refused = put(store, body=bytes(8000))
    assert (refused.status, "No space left" in refused.remark) == (
        PutStatus.SERVICE_NOT_AVAILABLE,
        True,
    )
    disk.full = set()
    put_ok(store, body=bytes(8000), store_timestamp=1 << 60)
    assert store.max_offset("T", 0) == 5
    store.close()
    assert len(bodies_of(spread(tmp_path, "a,b,c"))) == 5


def test_the_spare_file_goes_where_there_is_space(tmp_path: Path) -> None:
    disk = SmallDisks()
    disk.full = {"b"}
    store = spread(tmp_path, "a,b", disk=disk)
    put_ok(store)

    async def script() -> None:
        services = asyncio.ensure_future(store.run())
        while store._log.spare is None:
            await asyncio.sleep(0.001)
        services.cancel()
        await asyncio.wait([services])

    asyncio.run(asyncio.wait_for(script(), 20))
    assert names_in(tmp_path) == {"a": [0, 1], "b": []}
    crash(store)


@pytest.mark.parametrize("where", ["a", "b"])
def test_a_file_that_was_made_on_two_paths_is_the_one_with_messages(
    tmp_path: Path, where: str
) -> None:
    """It was to be deleted on one of them, for want of space there: a stop may come before, and a
    power failure bring it back."""
    store = spread(tmp_path, "a,b")
    bodies = [b"%d" % number + bytes(5000) for number in range(4)]
    for body in bodies:
        put_ok(store, body=body)
    crash(store)
    name, other = ("0" * 20, "b") if where == "a" else (f"{LOG_FILE:020d}", "a")
    (tmp_path / other / name).write_bytes(bytes(LOG_FILE))
    store = spread(tmp_path, "a,b")
    assert bodies_of(store) == bodies
    assert names_in(tmp_path) == {"a": [0, 2], "b": [1, 3]}
    store.close()


def test_the_path_with_most_space_counts_and_full_ones_get_no_files(tmp_path: Path) -> None:
    disk = SmallDisks()
    store = spread(
        tmp_path, "a,b,c", disk=disk, read_only_commit_log_store_paths=str(tmp_path / "c")
    )
    looks: list[Space] = []
    cleaning: CleaningService = store.cleaning
    for a, b in ((0.95, 0.2), (0.95, 0.8), (0.95, 0.88), (0.95, 0.93)):
        disk.ratios = {"a": a, "b": b, "c": 0.1}
        looks.append(asyncio.run(cleaning.look()))
        assert store.writeable is (b < 0.9)
    assert looks == [Space.ENOUGH, Space.SCARCE, Space.URGENT, Space.FULL]
    assert store.disk_ratios()["commit_log"] == 0.93
    disk.ratios = {"a": 0.95}
    asyncio.run(cleaning.look())
    for _ in range(4):
        put_ok(store, body=bytes(8000))
    assert names_in(tmp_path) == {"a": [], "b": [0, 1, 2, 3], "c": []}
    store.close()


def test_old_files_go_from_every_path(tmp_path: Path) -> None:
    store = spread(
        tmp_path, "a,b", file_reserved_time=-100_000_000, delete_commit_log_files_interval=0
    )
    for _ in range(5):
        put_ok(store, body=bytes(8000))
    asyncio.run(store.sync())
    store.cleaning.clean_at_any_hour()
    asyncio.run(store.cleaning.clean())
    assert names_in(tmp_path) == {"a": [4], "b": []}
    assert store.min_offset("T", 0) == 4
    store.close()
