"""The small files of a member: what a stop in the middle leaves, what the original leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.store.disk.system_disk import SystemDisk
from aiorocketmq.store.dledger.state_files import (
    CommitFile,
    HardStateFile,
    MemberFiles,
    self_id_of,
)
from aiorocketmq.store.model.errors import BrokenPromiseError, StoreConfigError
from aiorocketmq.store.raft.ready import HardState
from tests.store.memory_disk import MemoryDisk
from tests.store.world import config_of


def files_of(disk: MemoryDisk, self_id: str = "n0", group: str = "G") -> MemberFiles:
    config = config_of(
        Path("/store"),
        enable_dledger_commit_log=True,
        dledger_self_id=self_id,
        dledger_group=group,
    )
    disk.make_directories(config.dledger_directory)
    files = MemberFiles(config, disk)
    files.load()
    return files


def test_term_and_vote_are_written_as_by_the_original(tmp_path: Path) -> None:
    file = HardStateFile(tmp_path, SystemDisk())
    assert file.load() is None
    file.save(3, "n1")
    assert (tmp_path / "currterm").read_bytes() == b"voteLeader=n1\ncurrTerm=3\n"
    assert file.load() == HardState(3, "n1")
    file.save(4, None)
    assert (tmp_path / "currterm").read_bytes() == b"voteLeader=\ncurrTerm=4\n"
    assert file.load() == HardState(4, None)


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ({"": b"currTerm=5\nvoteLeader=n2\n"}, HardState(5, "n2")),
        ({"": b"#\ncurrTerm=5\n"}, HardState(5)),
        ({".tmp": b"currTerm=5\nvoteLeader=n0\n"}, HardState(5, "n0")),
        ({"": b"", ".tmp": b"currTerm=4\nvoteLeader=n0\n"}, None),
        ({"": b"", ".bak": b"currTerm=4\nvoteLeader=n0\n"}, None),
        ({".tmp": b"currTerm=5\nvoteLeader=n0\n", ".bak": b"currTerm=5\n"}, HardState(5, "n0")),
        ({"": b"currTerm=4\nvoteLeader=n1\n", ".tmp": b"currTer"}, HardState(4, "n1")),
        ({"": b"\\uZZ=5"}, None),
        ({"": b"currTerm=x\n"}, None),
    ],
)
def test_what_the_original_leaves(
    tmp_path: Path, left: dict[str, bytes], expected: HardState | None
) -> None:
    for suffix, content in left.items():
        (tmp_path / f"currterm{suffix}").write_bytes(content)
    assert HardStateFile(tmp_path, SystemDisk()).load() == expected


def test_what_is_committed(tmp_path: Path) -> None:
    file = CommitFile(tmp_path, SystemDisk())
    assert file.load() == (-1, -1)
    file.save(437, 438)
    assert (tmp_path / "checkpoint").read_bytes() == (
        b"committedIndex=437\nendIndex=438\nentryChecksums=1\n"
    )
    assert CommitFile(tmp_path, SystemDisk()).load() == (437, 438)


def test_nothing_is_written_twice() -> None:
    disk = MemoryDisk()
    files = files_of(disk)
    files.save_ends(3, 4, 3)
    syncs = disk.syncs
    files.save_ends(3, 4, 3)
    assert disk.syncs == syncs


@pytest.mark.parametrize("self_id", [None, "", "n", "0n", "node1", "n-1", "n0/.."])
def test_an_id_is_a_letter_and_a_number(self_id: str | None) -> None:
    with pytest.raises(StoreConfigError, match="a letter and a number"):
        self_id_of(config_of(Path("/store"), dledger_self_id=self_id))


def test_the_files_of_another_member_are_refused() -> None:
    disk = MemoryDisk()
    files_of(disk).save_hard_state(1, "n0")
    with pytest.raises(StoreConfigError, match="is the store of member n0 of group G"):
        files_of(disk, "n1")
    with pytest.raises(StoreConfigError, match="not of n0 of H"):
        files_of(disk, group="H")
    files_of(disk, group="")


def test_a_new_member_votes() -> None:
    files = files_of(MemoryDisk())
    files.judge(-1, -1, None, clean=True)
    assert (files.votes, files.was_member, files.hard_state) == (True, False, HardState())


def test_a_member_that_has_voted_and_lost_that_does_not_vote() -> None:
    disk = MemoryDisk()
    files_of(disk).save_hard_state(2, "n1")
    disk.delete_tree(Path("/store/dledger-n0"))
    files = files_of(disk)
    files.judge(-1, -1, None, clean=True)
    assert (files.votes, files.was_member) == (False, True)
    files = files_of(disk)
    files.judge(10, 1, None, clean=True)
    assert not files.votes, "until it has caught up"
    files.save_hard_state(3, None)
    files.save_votes(True)
    files = files_of(disk)
    files.judge(10, 1, None, clean=True)
    assert files.votes


@pytest.mark.parametrize("left", [b"", b"\0\0\0", b"voteLeader=n1\ncurrTe\xff", None])
def test_what_the_original_kept_of_an_earlier_term_is_no_vote(left: bytes | None) -> None:
    """It wrote a ``.bak`` at each change of the term, which nobody has touched since."""
    disk = MemoryDisk()
    file = Path("/store/dledger-n0/currterm")
    files_of(disk).save_hard_state(9, "n1")
    write(disk, file.with_suffix(".bak"), b"currTerm=4\nvoteLeader=n0\n")
    if left is None:
        disk.delete(file)
    else:
        write(disk, file, left)
    files = files_of(disk)
    files.judge(10, 9, None, clean=True)
    assert files.votes is False


def write(disk: MemoryDisk, path: Path, content: bytes) -> None:
    fd = disk.open(path, "replace")
    disk.append(fd, content)
    disk.close(fd)


@pytest.mark.parametrize(
    ("end", "clean", "votes"),
    [(7, True, True), (7, False, True), (6, True, False), (6, False, True), (4, False, False)],
)
def test_who_has_less_than_it_had_does_not_vote(end: int, clean: bool, votes: bool) -> None:
    """7 were there, 5 of them committed and on the disk."""
    disk = MemoryDisk()
    files = files_of(disk)
    files.save_hard_state(1, "n0")
    files.save_ends(5, 7, 5)
    files.save_ends(5, 7, -1)
    files = files_of(disk)
    files.judge(end, 1, None, clean=clean)
    assert files.votes is votes


def test_what_was_committed_is_lost_though_it_was_never_on_the_disk() -> None:
    """A power failure took it, and the checkpoint tells."""
    disk = MemoryDisk()
    files = files_of(disk)
    files.save_hard_state(1, "n0")
    files.save_ends(6, 7, -1)
    files = files_of(disk)
    files.judge(5, 1, None, clean=False)
    assert not files.votes


def test_without_its_checkpoint_it_knows_what_the_marker_tells() -> None:
    disk = MemoryDisk()
    files = files_of(disk)
    files.save_hard_state(1, "n0")
    files.save_ends(5, 7, 5)
    disk.delete(Path("/store/dledger-n0/checkpoint"))
    files = files_of(disk)
    files.judge(7, 1, None, clean=False)
    assert (files.votes, files.committed_index) == (True, 5)


def test_who_has_entries_has_voted() -> None:
    """Neither term nor marker can be read: nobody knows for whom."""
    files = files_of(MemoryDisk())
    files.judge(5, 1, None, clean=False)
    assert not files.votes


def test_damage_takes_the_vote() -> None:
    disk = MemoryDisk()
    files_of(disk).save_hard_state(1, "n0")
    files = files_of(disk)
    files.judge(3, 1, None, clean=False)
    assert files.votes
    files.judge(3, 1, "its log is damaged", clean=False)
    assert not files.votes


def test_a_store_of_the_original_votes() -> None:
    disk = MemoryDisk()
    files_of(disk)
    HardStateFile(Path("/store/dledger-n0"), disk).save(5, "n0")
    CommitFile(Path("/store/dledger-n0"), disk).save(437, 437)
    files = files_of(disk)
    files.judge(437, 5, None, clean=True)
    assert (files.votes, files.was_member, files.committed_index) == (True, True, 437)
    files = files_of(disk)
    files.judge(436, 5, None, clean=True)
    assert not files.votes


def test_a_term_is_never_less_than_that_of_an_entry() -> None:
    disk = MemoryDisk()
    files = files_of(disk)
    files.judge(3, 8, None, clean=False)
    assert files.hard_state == HardState(8, None)


@pytest.mark.parametrize("damage", [b'"', b"\x80", b"\xff" * 40], ids=["JSON", "byte", "bytes"])
def test_a_marker_that_cannot_be_read_takes_the_vote(damage: bytes) -> None:
    disk = MemoryDisk()
    files_of(disk).save_hard_state(1, "n0")
    marker = disk.files["/store/config/dledgerMember.json"]
    at = marker.index(b"n0")
    marker[at : at + 2] = damage
    files = files_of(disk)
    files.judge(3, 1, None, clean=True)
    assert not files.votes


@pytest.mark.parametrize("before", [(3, "n1"), (3, None), (2, "n2")])
@pytest.mark.parametrize("after", [(4, None), (3, "n1")])
def test_a_later_term_and_the_vote_of_a_term_are_written(
    before: tuple[int, str | None], after: tuple[int, str | None]
) -> None:
    files = files_of(MemoryDisk())
    files.save_hard_state(*before)
    files.save_hard_state(*after)
    assert files.hard_state == after


@pytest.mark.parametrize("after", [(2, "n1"), (3, "n2"), (3, None)])
def test_neither_an_earlier_term_nor_another_vote_is_written(after: tuple[int, str | None]) -> None:
    disk = MemoryDisk()
    files = files_of(disk)
    files.save_hard_state(3, "n1")
    with pytest.raises(BrokenPromiseError, match="cannot follow term 3"):
        files.save_hard_state(*after)
    assert files_of(disk).hard_state == (3, "n1")
