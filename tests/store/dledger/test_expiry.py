"""Files of a member's log that expire, and a log on several disks."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.raft.entry_log import EntryLogError
from tests.sim import ManualClock
from tests.store.dledger.world import (
    all_entries,
    commit_all,
    follower,
    leader,
    open_member,
    raft_of,
    replicate,
)
from tests.store.world import bodies_of, crash, put_ok

HOUR_S = 3600
EXPIRES: dict[str, Any] = {
    "delete_when": ";".join(map(str, range(24))),
    "file_reserved_time": 6,
    "delete_commit_log_files_interval": 0,
    "delete_consume_queue_files_interval": 0,
}


def test_old_files_go_and_the_log_begins_later(tmp_path: Path) -> None:
    store = leader(tmp_path, 1, **EXPIRES)
    clock = store._clock
    assert isinstance(clock, ManualClock)
    for number in range(36):
        put_ok(store, body=b"%d-" % number + bytes(2500))
    raft_of(store).commit(20)  # in the 7th file
    asyncio.run(store.sync())
    files = sorted((tmp_path / "dledger-n0" / "data").iterdir())
    for number, path in enumerate(files):
        os.utime(path, times=(clock.time_ms() / 1000 - (12 - number) * HOUR_S,) * 2)
    asyncio.run(store.cleaning.clean())
    assert raft_of(store).log.begin_index == 18, "the 7th holds more than is committed"
    commit_all(store)
    asyncio.run(store.sync())
    for number, path in enumerate(files[6:], 6):
        os.utime(path, times=(clock.time_ms() / 1000 - (19 - number) * HOUR_S,) * 2)
    asyncio.run(store.cleaning.clean())
    assert raft_of(store).log.begin_index == 33, "never the last one"
    assert store.min_offset("T", 0) == 33
    third = follower(tmp_path / "c", "n2")
    replicate(store, third)
    assert bodies_of(third) == bodies_of(store)
    assert third.min_phy_offset == store.min_phy_offset == 11 * 8192
    third.close()
    store.close()
    store = open_member(tmp_path)
    assert (raft_of(store).log.begin_index, raft_of(store).log.end_index) == (33, 35)
    store.close()


def _old_files(store: MessageStore) -> list[Path]:
    """Of a store of 12 files, all of them old enough to go."""
    clock = store._clock
    assert isinstance(clock, ManualClock)
    for number in range(36):
        put_ok(store, body=b"%d-" % number + bytes(2500))
    commit_all(store)
    asyncio.run(store.sync())
    paths = sorted(file.path for file in store._log.files.files)
    for path in paths:
        os.utime(path, times=(clock.time_ms() / 1000 - 12 * HOUR_S,) * 2)
    return paths


def test_the_log_begins_later_though_the_file_cannot_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a follower that needs what is gone would not be told to begin anew, and an entry that
    expired counted as damaged."""
    store = leader(tmp_path, 1, **EXPIRES)
    paths = _old_files(store)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _refuse)
        asyncio.run(store.cleaning.clean())
    assert paths[0].exists()
    assert raft_of(store).log.begin_index == 3
    assert not raft_of(store).log.entries(0, 100)
    assert "cannot be read" not in caplog.text
    third = follower(tmp_path / "c", "n2")
    replicate(store, third)
    assert bodies_of(third) == bodies_of(store)
    asyncio.run(store.cleaning.clean())
    assert not paths[0].exists()
    third.close()
    store.close()


def _refuse(path: Path, missing_ok: bool = False) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_where_the_log_begins_is_looked_up_until_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = leader(tmp_path, 1, **EXPIRES)
    for path in _old_files(store)[1:]:
        os.utime(path, times=(store._clock.time_ms() / 1000,) * 2)

    def cannot_be_read(_self: MappedFile, _position: int, _length: int) -> bytes:
        raise StoreFileError(tmp_path, "cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "read_unmapped", cannot_be_read)
        asyncio.run(store.cleaning._clean_log())
    assert raft_of(store).log.begin_index == 0
    asyncio.run(store.cleaning._clean_log())
    assert raft_of(store).log.begin_index == 3
    store.close()


def test_a_log_that_begins_anew_leaves_no_file_that_was_about_to_be_deleted(
    tmp_path: Path,
) -> None:
    """A hole behind it would keep the member from starting."""
    source = leader(tmp_path / "a", 1, **EXPIRES)
    _old_files(source)
    target = follower(tmp_path / "b", **EXPIRES)
    raft_of(target).log.begin_with(all_entries(source)[0])
    for entry in all_entries(source)[1:10]:
        raft_of(target).log.append([entry])
    raft_of(target).commit(8)
    while raft_of(target).lag:
        raft_of(target)._dispatch_one()
    asyncio.run(target.sync())
    oldest = target._log.files.files[0]
    os.utime(oldest.path, times=(0, 0))
    view = memoryview(oldest.map)
    asyncio.run(target.cleaning.clean())
    assert raft_of(target).log.begin_index == 3
    asyncio.run(source.cleaning.clean())
    entries = all_entries(source)
    with pytest.raises(EntryLogError, match="somebody still reads it"):
        raft_of(target).log.begin_with(entries[0])
    view.release()
    raft_of(target).log.begin_with(entries[0])
    crash(target)
    target = follower(tmp_path / "b", **EXPIRES)
    assert raft_of(target).log.begin_index == entries[0].index == 30
    target.close()
    source.close()


def test_a_file_stays_an_hour_longer_than_configured(tmp_path: Path) -> None:
    store = leader(tmp_path, 1, **EXPIRES)
    clock = store._clock
    assert isinstance(clock, ManualClock)
    for number in range(12):
        put_ok(store, body=b"%d-" % number + bytes(2500))
    commit_all(store)
    asyncio.run(store.sync())
    oldest = min((tmp_path / "dledger-n0" / "data").iterdir())
    for hours, left in ((6.9, True), (7.1, False)):
        os.utime(oldest, times=(clock.time_ms() / 1000 - hours * HOUR_S,) * 2)
        asyncio.run(store.cleaning.clean())
        assert oldest.exists() is left
    store.close()


def test_data_files_lie_on_the_paths_in_turn(tmp_path: Path) -> None:
    paths = f"{tmp_path}/x,{tmp_path}/y"
    store = leader(tmp_path, store_path_dledger_commit_log=paths)
    for number in range(200):
        put_ok(store, body=b"%d" % number)
    commit_all(store)
    store.close()
    for number, name in enumerate("xy"):
        starts = [int(path.name) for path in sorted((tmp_path / name).iterdir())]
        assert starts
        assert all(start // 8192 % 2 == number for start in starts)
    assert not (tmp_path / "dledger-n0" / "data").exists()
    store = open_member(tmp_path, store_path_dledger_commit_log=paths)
    assert bodies_of(store) == [b"%d" % number for number in range(200)]
    store.close()


def test_an_expired_queue_begins_at_0_again_unless_something_is_on_its_way(tmp_path: Path) -> None:
    store = leader(tmp_path, 1, **EXPIRES)
    for _ in range(3):
        put_ok(store, "Old")
        put_ok(store, "Busy")
        put_ok(store, "Busy", 1)
    put_ok(store, "T", body=bytes(7000))
    commit_all(store)
    asyncio.run(store.sync())
    store._log.files.drop_first().delete()
    put_ok(store, "Busy")
    put_ok(store, "Busy", 1)
    raft_of(store).commit(raft_of(store).log.end_index - 2)
    deleted = asyncio.run(store.cleaning.delete_expired_queues())
    assert deleted == ["Old-0"]
    assert put_ok(store, "Old").queue_offset == 0
    assert put_ok(store, "Busy", 1).queue_offset == 4
    commit_all(store)
    assert (store.max_offset("Old", 0), store.max_offset("Busy", 0)) == (1, 4)
    store.close()
