"""A store that becomes a member's keeps the messages that it had, in front of its entries."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.record import blank_record
from aiorocketmq.store.dledger import opening
from aiorocketmq.store.log.commit_log import CommitLog
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.raft.old_log import NO_OLD_LOG, UNTOLD, OldLog, differ
from tests.store.dledger.world import (
    all_entries,
    commit_all,
    follower,
    leader,
    leader_with,
    open_member,
    raft_of,
    replicate,
)
from tests.store.world import bodies_of, crash, open_store, put, put_ok

OLD = [b"old %d" % number for number in range(120)]


def plain_store(root: Path, *, clean: bool = True) -> int:
    """Where its log ends."""
    store = open_store(root)
    for body in OLD:
        put_ok(store, body=body, properties={"KEYS": "k"})
    end = store.max_phy_offset
    store.close() if clean else crash(store)
    return end


@pytest.mark.parametrize("clean", [True, False])
def test_entries_begin_in_the_next_file(tmp_path: Path, clean: bool) -> None:
    end = plain_store(tmp_path, clean=clean)
    begin = -(-end // 8192) * 8192
    store = leader(tmp_path)
    assert (store.max_phy_offset, bodies_of(store)) == (begin, OLD)
    result = put_ok(store, body=b"new")
    assert (result.phy_offset, result.queue_offset) == (begin + 48, len(OLD))
    commit_all(store)
    (entry,) = all_entries(store)
    assert (entry.index, entry.pos) == (0, begin)
    store.close()
    last = (tmp_path / "commitlog" / f"{begin - 8192:020d}").read_bytes()
    assert last[end - begin :][:8] == blank_record(begin - end)
    assert (tmp_path / "dledger-n0" / "data" / f"{begin:020d}").exists()
    store = open_member(tmp_path)
    assert bodies_of(store) == [*OLD, b"new"]
    assert (raft_of(store).log.begin_index, raft_of(store).log.end_index) == (0, 0)
    store.close()


def test_it_may_be_stopped_before_the_first_entry(tmp_path: Path) -> None:
    plain_store(tmp_path)
    crash(open_member(tmp_path))
    open_member(tmp_path).close()
    store = leader(tmp_path)
    put_ok(store, body=b"new")
    commit_all(store)
    assert bodies_of(store) == [*OLD, b"new"]
    store.close()


def test_what_was_voted_for_before_the_first_entry_is_known(tmp_path: Path) -> None:
    plain_store(tmp_path)
    store = open_member(tmp_path)
    raft_of(store).files.save_hard_state(7, "n2")
    crash(store)
    store = open_member(tmp_path)
    assert (raft_of(store).files.hard_state, raft_of(store).files.votes) == ((7, "n2"), True)
    assert bodies_of(store) == OLD
    store.close()


def test_a_follower_with_the_same_old_log(tmp_path: Path) -> None:
    for name in ("a", "b"):
        plain_store(tmp_path / name)
    source, target = leader(tmp_path / "a"), follower(tmp_path / "b")
    for number in range(40):
        put_ok(source, body=b"%d" % number)
    commit_all(source)
    replicate(source, target)
    assert bodies_of(target) == bodies_of(source)
    assert len(bodies_of(target)) == 160
    assert raft_of(target).log.begin_index == 0
    target.close()
    target = open_member(tmp_path / "b", "n1")
    assert bodies_of(target) == bodies_of(source)
    source.close()
    target.close()


def test_a_group_that_has_its_old_log_no_more(tmp_path: Path) -> None:
    for name in ("a", "b"):
        plain_store(tmp_path / name)
    source, target = leader(tmp_path / "a"), follower(tmp_path / "b")
    for number in range(300):
        put_ok(source, body=b"%d" % number)
    commit_all(source)
    source.close()
    for path in (tmp_path / "a" / "commitlog").iterdir():
        path.unlink()
    sorted((tmp_path / "a" / "dledger-n0" / "data").iterdir())[0].unlink()
    source = leader(tmp_path / "a", 2)
    begin = raft_of(source).log.begin_index
    assert begin > 0
    commit_all(source)
    replicate(source, target)
    assert bodies_of(target) == bodies_of(source)
    target.close()
    target = open_member(tmp_path / "b", "n1")
    assert raft_of(target).log.begin_index == begin
    assert bodies_of(target) == bodies_of(source)
    (aside,) = (tmp_path / "b").glob("commitlog.before-*")
    assert [path.name for path in aside.iterdir()]
    source.close()
    target.close()


def old_log_of(root: Path, self_id: str = "n0") -> OldLog:
    """What a member tells the others."""
    store = open_member(root, self_id)
    try:
        return raft_of(store).log.old_log
    finally:
        store.close()


@pytest.mark.parametrize("clean", [True, False])
def test_where_it_ends_is_told_at_every_start(tmp_path: Path, clean: bool) -> None:
    end = plain_store(tmp_path, clean=clean)
    (first, last) = sorted((tmp_path / "commitlog").iterdir())[-2:]
    told = old_log_of(tmp_path)
    assert told == (end, zlib.crc32(last.read_bytes()[: end % 8192]))
    first.unlink()  # it was expired before the other member's was
    assert old_log_of(tmp_path) == told


def test_its_last_file_may_have_nothing(tmp_path: Path) -> None:
    """It was made, and what came into it is gone."""
    plain_store(tmp_path)
    files = sorted((tmp_path / "commitlog").iterdir())
    closed = files[-2].read_bytes()
    files[-1].write_bytes(bytes(8192))
    end, crc = old_log_of(tmp_path)
    assert end is not None
    assert int(files[-2].name) < end <= int(files[-1].name) - 8
    assert crc == zlib.crc32(closed[: end % 8192])
    assert closed[end % 8192 :].startswith(blank_record(8192 - end % 8192))


def test_a_replica_has_the_same_and_another_log_is_told_apart(tmp_path: Path) -> None:
    for name in "abc":
        plain_store(tmp_path / name)
    shutil.rmtree(tmp_path / "b" / "commitlog")
    shutil.copytree(tmp_path / "a" / "commitlog", tmp_path / "b" / "commitlog")
    store = open_store(tmp_path / "c")
    put_ok(store, body=b"nobody else has that")
    store.close()
    told = [old_log_of(tmp_path / name, f"n{number}") for number, name in enumerate("abc")]
    assert told[0] == told[1]
    assert differ(told[0], told[2])


def test_none_is_told_where_there_is_none(tmp_path: Path) -> None:
    store = leader(tmp_path)
    put_ok(store)
    commit_all(store)
    assert raft_of(store).log.old_log == NO_OLD_LOG
    store.close()
    assert old_log_of(tmp_path) == NO_OLD_LOG


def test_none_is_told_where_it_was_removed_or_put_aside(tmp_path: Path) -> None:
    for name in "ab":
        plain_store(tmp_path / name)
    source = leader(tmp_path / "a")
    for number in range(100):
        put_ok(source, body=b"%d" % number)
    commit_all(source)
    source.close()
    shutil.rmtree(tmp_path / "a" / "commitlog")
    assert old_log_of(tmp_path / "a") == NO_OLD_LOG
    sorted((tmp_path / "a" / "dledger-n0" / "data").iterdir())[0].unlink()
    source, target = leader(tmp_path / "a", 2), follower(tmp_path / "b")
    assert raft_of(target).log.old_log.end
    commit_all(source)
    replicate(source, target)
    assert raft_of(target).log.old_log == NO_OLD_LOG
    source.close()
    target.close()


@pytest.mark.parametrize("left", [b"\1", b"\xda\xa3\x20\xa7"])
def test_nothing_is_told_where_its_end_cannot_be_seen(tmp_path: Path, left: bytes) -> None:
    """The original does not clear what a crash has left behind the end."""
    plain_store(tmp_path)
    open_member(tmp_path).close()
    last = sorted((tmp_path / "commitlog").iterdir())[-1]
    last.write_bytes(last.read_bytes()[: -len(left)] + left)
    assert old_log_of(tmp_path) == UNTOLD


def test_a_disk_that_cannot_read_it_keeps_no_member_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain_store(tmp_path)

    def broken(_log: CommitLog) -> OldLog:
        raise StoreFileError(Path("commitlog/0"), "cannot be read")

    monkeypatch.setattr(opening, "find_old_log", broken)
    assert old_log_of(tmp_path) == UNTOLD
    assert "other members are not told where the old commit log ends: commitlog/0: " in caplog.text


def test_nothing_expires_while_there_is_an_old_log(tmp_path: Path) -> None:
    plain_store(tmp_path)
    store = leader_with(tmp_path, 100)
    commit_all(store)
    store.flush.save()
    assert raft_of(store).needed_from() == 0
    store.close()
    for path in (tmp_path / "commitlog").iterdir():
        path.unlink()
    store = open_member(tmp_path)
    assert raft_of(store).needed_from() > 0
    assert bodies_of(store) == [b"%d" % number for number in range(100)]
    store.close()


def test_an_old_log_that_lacks_files_is_refused(tmp_path: Path) -> None:
    plain_store(tmp_path)
    sorted((tmp_path / "commitlog").iterdir())[-1].unlink()
    with pytest.raises(StoreFileError, match="files are missing"):
        open_member(tmp_path)


def test_a_member_that_goes_back_is_told_what_is_missing(tmp_path: Path) -> None:
    store = leader(tmp_path)
    put_ok(store)
    commit_all(store)
    store.close()
    with pytest.raises(StoreFileError, match="there is no commit log, but"):
        put(open_store(tmp_path))


def test_a_member_that_lost_all_but_the_old_log(tmp_path: Path) -> None:
    for name in ("a", "b"):
        plain_store(tmp_path / name)
    source, target = leader(tmp_path / "a"), follower(tmp_path / "b")
    for number in range(40):
        put_ok(source, body=b"%d" % number)
    commit_all(source)
    replicate(source, target)
    target.close()
    shutil.rmtree(tmp_path / "b" / "dledger-n1")
    shutil.rmtree(tmp_path / "b" / "consumequeue")
    target = open_member(tmp_path / "b", "n1")
    assert not raft_of(target).files.votes
    assert bodies_of(target) == OLD
    raft_of(target).follow()
    replicate(source, target)
    assert bodies_of(target) == bodies_of(source)
    assert (tmp_path / "b" / "commitlog").exists()
    source.close()
    target.close()


def test_back_at_once(tmp_path: Path) -> None:
    plain_store(tmp_path)
    store = open_member(tmp_path)
    raft_of(store).files.save_hard_state(1, "n0")
    store.close()
    shutil.rmtree(tmp_path / "dledger-n0")
    (tmp_path / "config" / "dledgerMember.json").unlink()
    store = open_store(tmp_path)
    assert put_ok(store, body=b"new").queue_offset == len(OLD)
    assert bodies_of(store) == [*OLD, b"new"]
    store.close()
