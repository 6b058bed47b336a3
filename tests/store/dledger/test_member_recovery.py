"""What a member finds at a start: torn ends, damage, lost disks; and what its leader gives it
again."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import StoreFileError
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


def data_files(root: Path, self_id: str) -> list[Path]:
    return sorted((root / f"dledger-{self_id}" / "data").iterdir())


def pair(root: Path, count: int = 200) -> tuple[MessageStore, MessageStore]:
    """A leader and a follower with the same messages, all committed, in several files."""
    source, target = leader(root / "a"), follower(root / "b")
    for number in range(count):
        put_ok(source, queue_id=number % 2, body=b"%d" % number, properties={"KEYS": f"k{number}"})
    commit_all(source)
    replicate(source, target)
    return source, target


def change(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def same_again(root: Path, source: MessageStore, target: MessageStore) -> None:
    """What the target lacks comes from its leader: then all is as at the leader."""
    raft_of(target).follow()
    replicate(source, target)
    for queue_id in range(2):
        assert bodies_of(target, queue_id=queue_id) == bodies_of(source, queue_id=queue_id)
        assert target.max_offset("T", queue_id) == source.max_offset("T", queue_id)
    source.close()
    target.close()
    for ours, theirs in zip(
        data_files(root / "b", "n1"), data_files(root / "a", "n0"), strict=True
    ):
        assert ours.read_bytes() == theirs.read_bytes()
    for queue in sorted((root / "a" / "consumequeue").rglob("0*")):
        theirs = root / "b" / queue.relative_to(root / "a")
        assert not queue.is_file() or queue.read_bytes() == theirs.read_bytes()


def test_a_write_that_was_cut_off(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    position = raft_of(target).log.position_of(199)
    crash(target)
    last = data_files(tmp_path / "b", "n1")[-1]
    data = bytearray(last.read_bytes())
    data[position - int(last.name) + 100 :] = bytes(len(data) - (position - int(last.name)) - 100)
    last.write_bytes(data)
    target = open_member(tmp_path / "b", "n1")
    assert raft_of(target).log.end_index == 198
    assert raft_of(target).files.votes, "it was never acknowledged"
    same_again(tmp_path, source, target)


def without_a_checksum(root: Path, target: MessageStore, entry: int = 199) -> tuple[Path, int]:
    """It is killed, and none of its last entries is known, as of those that were just written.
    Where that one is: a file, and how far from its begin."""
    position = raft_of(target).log.position_of(entry)
    crash(target)
    shutil.rmtree(root / "b" / "dledger-n1" / "checksums")
    last = data_files(root / "b", "n1")[-1]
    return last, position - int(last.name)


@pytest.mark.parametrize("check_crc", [True, False])
def test_a_body_that_was_cut_off_goes(tmp_path: Path, check_crc: bool) -> None:
    """A member that looks at no bodies when it starts looks at those of entries."""
    source, target = pair(tmp_path)
    last, at = without_a_checksum(tmp_path, target)
    change(last, at + 48 + 88)
    target = open_member(tmp_path / "b", "n1", check_crc_on_recover=check_crc)
    raft = raft_of(target)
    assert (raft.log.end_index, raft.files.votes) == (198, True)
    same_again(tmp_path, source, target)


@pytest.mark.parametrize("whole", [0, 2])
def test_bodies_that_were_cut_off_go_and_so_does_what_lies_behind(
    tmp_path: Path, whole: int
) -> None:
    """The power fails, and sectors are lost: another one than the last, too."""
    source, target = pair(tmp_path)
    ends = [raft_of(target).log.position_of(number) for number in (198 - whole, 199)]
    last, at = without_a_checksum(tmp_path, target, 198 - whole)
    for position in ends:
        change(last, at + position - ends[0] + 48 + 88)
    target = open_member(tmp_path / "b", "n1", check_crc_on_recover=False)
    raft = raft_of(target)
    assert (raft.log.end_index, raft.files.votes) == (197 - whole, not whole)
    same_again(tmp_path, source, target)


def test_an_end_that_cannot_be_read_just_now_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For want of descriptors, say: nothing is wrong with it."""
    source, target = pair(tmp_path)
    last, at = without_a_checksum(tmp_path, target)
    before = last.read_bytes()

    def fails(read: Callable[[MappedFile, int, int], bytes]) -> Callable[..., bytes]:
        def read_other(file: MappedFile, position: int, length: int) -> bytes:
            if (file.path, position) == (last, at):
                raise StoreFileError(last, "cannot be read: too many open files")
            return read(file, position, length)

        return read_other

    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "read", fails(MappedFile.read))
        patch.setattr(MappedFile, "read_unmapped", fails(MappedFile.read_unmapped))
        with pytest.raises(StoreFileError, match="too many open files"):
            open_member(tmp_path / "b", "n1")
    assert last.read_bytes() == before
    target = open_member(tmp_path / "b", "n1")
    assert (raft_of(target).log.end_index, raft_of(target).files.votes) == (199, True)
    same_again(tmp_path, source, target)


def test_damage_at_the_end_takes_the_vote_where_only_the_checkpoint_knows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = pair(tmp_path)
    raft = raft_of(target)
    positions = [raft.log.position_of(198), raft.log.position_of(199)]
    target.close()  # with a checkpoint; the other files are of a moment before it
    (tmp_path / "b" / "abort").touch()
    marker = tmp_path / "b" / "config" / "dledgerMember.json"
    marker.write_text(marker.read_text().replace('"syncedIndex":199', '"syncedIndex":190'))
    ends = tmp_path / "b" / "dledger-n1" / "checkpoint"
    ends.write_text(ends.read_text().replace("Index=199", "Index=190"))
    last = data_files(tmp_path / "b", "n1")[-1]
    for position in positions:
        change(last, position - int(last.name) + 48 + 88)
    target = open_member(tmp_path / "b", "n1")
    assert "has lost entries or votes: it was on the disk and in its queues up to" in caplog.text
    assert (raft_of(target).log.end_index, raft_of(target).files.votes) == (197, False)
    same_again(tmp_path, source, target)


def test_damage_in_front_of_entries_takes_them_and_the_vote(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = pair(tmp_path)
    position = raft_of(target).log.position_of(190)
    crash(target)
    last = data_files(tmp_path / "b", "n1")[-1]
    assert int(last.name) < position
    change(last, position - int(last.name) + 48 + 88)
    with caplog.at_level(logging.ERROR):
        target = open_member(tmp_path / "b", "n1")
    assert "has lost entries or votes: its log is damaged" in caplog.text
    assert (raft_of(target).log.end_index, raft_of(target).files.votes) == (189, False)
    target.close()
    target = open_member(tmp_path / "b", "n1")
    assert not raft_of(target).files.votes, "until it has caught up"
    same_again(tmp_path, source, target)


@pytest.mark.parametrize(("known", "number"), [(10, 10), (10, 20), (-1, 20)])
def test_all_that_is_not_known_to_be_on_the_disk_is_read(
    tmp_path: Path, known: int, number: int
) -> None:
    """Also in front of the last three files, and where nothing is known."""
    source, target = pair(tmp_path, 400)
    raft = raft_of(target)
    raft.files.save_ends(known, known, known)
    position = raft.log.position_of(number)
    crash(target)
    first, *others = data_files(tmp_path / "b", "n1")
    assert position < int(others[0].name)
    assert len(others) >= 3
    change(first, position - int(first.name) + 48 + 88)
    target = open_member(tmp_path / "b", "n1")
    assert (raft_of(target).log.end_index, raft_of(target).files.votes) == (number - 1, False)
    same_again(tmp_path, source, target)


def test_a_bit_that_only_a_checksum_covers(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    raft_of(target).files.save_ends(-1, 199, -1)
    position = raft_of(target).log.position_of(190)
    crash(target)
    last = data_files(tmp_path / "b", "n1")[-1]
    change(last, position - int(last.name) + 48 + 40)  # of the born time
    target = open_member(tmp_path / "b", "n1")
    assert (raft_of(target).log.end_index, raft_of(target).files.votes) == (189, False)
    same_again(tmp_path, source, target)


@pytest.mark.parametrize("at", [40, 88], ids=["the born time", "the body"])
def test_what_a_start_did_not_read_is_looked_at_before_others_get_it(
    tmp_path: Path, at: int
) -> None:
    """It lies in the file that is written to, in front of what an orderly stop had noted."""
    source, target = pair(tmp_path)
    log = raft_of(source).log
    entry, position = log.entries(190, 1)[0], log.position_of(190)
    assert log.matches(entry)
    source.close()
    last = data_files(tmp_path / "a", "n0")[-1]
    change(last, position - int(last.name) + 48 + at)
    source = open_member(tmp_path / "a", "n0")
    raft = raft_of(source)
    assert source.damage.places == {}
    for _ in range(2):
        assert raft.log.entries(190, 1) == []
        assert source.damage.places == {position + 48: entry.size - 48}, "it is asked for"
    assert [each.index for each in raft.log.entries(180, 1 << 20)] == list(range(180, 190))
    source.mended(position + 48, raft.put_right(position + 48, entry))
    assert source.damage.places == {}
    assert raft.log.matches(entry)
    raft.lead(2)
    put_ok(source, body=b"new")
    assert raft.log.entries(200, 1)[0].term == 2
    assert len(raft.log.entries(195, 1 << 20)) == 6
    source.close()
    target.close()


def test_checksums_go_where_the_original_has_written(tmp_path: Path) -> None:
    """It keeps the folder, and leaves their key out of its checkpoint."""
    source, target = pair(tmp_path)
    target.close()
    folder = tmp_path / "b" / "dledger-n1"
    assert raft_of(target).log.index.checksums.end == 200
    (folder / "checkpoint").write_text("committedIndex=199\nendIndex=199\n")
    target = open_member(tmp_path / "b", "n1")
    known = raft_of(target).log.index.checksums
    assert [known.of(index) for index in range(200)] == [None] * 200
    put_ok(source, body=b"more")
    commit_all(source)
    same_again(tmp_path, source, target)
    assert known.end == 201


def test_a_lost_disk_is_filled_again(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    target.close()
    shutil.rmtree(tmp_path / "b" / "dledger-n1")
    target = open_member(tmp_path / "b", "n1")
    raft = raft_of(target)
    assert (raft.log.end_index, raft.committed_index, raft.files.votes) == (-1, -1, False)
    assert target.max_offset("T", 0) == 0, "numbers come from the leader"
    same_again(tmp_path, source, target)


def test_all_that_is_lost_but_the_marker(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    target.close()
    for path in (tmp_path / "b").iterdir():
        if path.name != "config":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    target = open_member(tmp_path / "b", "n1")
    assert not raft_of(target).files.votes
    same_again(tmp_path, source, target)


@pytest.mark.parametrize("lost", ["consumequeue", "dledger-n1/index"])
@pytest.mark.parametrize("clean", [True, False])
def test_what_follows_from_the_log_is_made_again(tmp_path: Path, lost: str, clean: bool) -> None:
    source, target = pair(tmp_path)
    target.flush.save()
    raft_of(target).log.note()
    raft_of(target).files.save_ends(199, 199, 199)
    target.close() if clean else crash(target)
    shutil.rmtree(tmp_path / "b" / lost)
    target = open_member(tmp_path / "b", "n1")
    assert raft_of(target).files.votes
    assert bodies_of(target) == bodies_of(source)
    assert b"k7" in _found(target, "k7")
    same_again(tmp_path, source, target)


def _found(store: MessageStore, key: str) -> bytes:
    return at_once(store.query.steps("T", key, 32, 0, 1 << 62)).records


def test_a_lost_data_file_is_told(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    source.close()
    target.close()
    data_files(tmp_path / "b", "n1")[1].unlink()
    with pytest.raises(StoreFileError, match="remove the folder dledger-"):
        open_member(tmp_path / "b", "n1")


def test_a_start_reads_what_was_not_known_to_be_on_the_disk(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    source.close()
    target.close()
    files = data_files(tmp_path / "b", "n1")
    change(files[-2], 48 + 88)  # damaged since, as a disk may do: a reader finds it, or the scrub
    target = open_member(tmp_path / "b", "n1")
    assert raft_of(target).log.end_index == 199
    target.close()
    target = open_member(tmp_path / "b", "n1")
    put = raft_of(target)
    put.lead(5)
    put_ok(target, body=b"more")
    put.commit(200)
    assert len(bodies_of(target)) >= 99
    crash(target)
    shutil.rmtree(tmp_path / "b" / "dledger-n1" / "index")
    target = open_member(tmp_path / "b", "n1")
    assert raft_of(target).log.end_index < 199, "nothing leads to what is known: all of it is read"
    assert not raft_of(target).files.votes
    target.close()


def test_files_that_expire_take_the_begin_with_them(tmp_path: Path) -> None:
    source, target = pair(tmp_path)
    source.flush.save()
    file = source._log.files.drop_first()
    assert file.end < raft_of(source).needed_from()
    file.delete()
    source.cleaning.on_left()
    source.cleaning.on_deleted()
    begin = raft_of(source).log.begin_index
    assert begin > 0
    raft_of(source).log.entries(begin, 100)
    source.close()
    source = open_member(tmp_path / "a")
    assert (raft_of(source).log.begin_index, raft_of(source).log.end_index) == (begin, 199)
    raft_of(source).commit(199)
    third = follower(tmp_path / "c", "n2")
    replicate(source, third)
    assert raft_of(third).log.begin_index == begin
    assert bodies_of(third) == bodies_of(source)
    assert third.min_offset("T", 0) == source.min_offset("T", 0) > 0
    for store in (source, target, third):
        store.close()


def test_a_log_that_begins_anew_forgets_its_messages(tmp_path: Path) -> None:
    source, target = pair(tmp_path, 40)
    for number in range(300):
        put_ok(source, queue_id=number % 2, body=b"%d" % number)
    commit_all(source)
    source.flush.save()
    for _ in range(3):
        source._log.files.drop_first().delete()
    source.cleaning.on_left()
    source.cleaning.on_deleted()
    begin = raft_of(source).log.begin_index
    assert begin > raft_of(target).log.end_index + 1
    entries = [entry for entry in all_entries(source) if entry.index >= begin]
    raft_of(target).log.begin_with(entries[0])
    raft_of(target).log.append(entries[1:])
    assert bodies_of(target) == []
    raft_of(target).commit(entries[-1].index)
    assert bodies_of(target)[-1] == bodies_of(source)[-1]
    assert target.max_offset("T", 0) == source.max_offset("T", 0)
    target.close()
    target = open_member(tmp_path / "b", "n1")
    assert raft_of(target).log.begin_index == begin
    assert bodies_of(target)[-1] == bodies_of(source)[-1]
    source.close()
    target.close()


@pytest.mark.parametrize("seed", range(12))
def test_any_history(tmp_path: Path, seed: int) -> None:
    """Puts, commits, truncations of what is not committed, changes of the role, stops of both
    kinds: the log is what was appended, and what can be read is what is committed."""
    rng = random.Random(seed)
    store, model, committed, term = leader(tmp_path), list[tuple[int, bytes]](), -1, 1
    for step in range(120):
        raft = raft_of(store)
        match rng.choice(["put"] * 8 + ["commit", "truncate", "stop", "kill", "save", "follow"]):
            case "put":
                body = bytes(rng.choice([1, 50, 400])) + b"%d" % step
                put_ok(store, body=body)
                model.append((term, body))
            case "commit":
                committed = max(committed, rng.randint(-1, len(model) - 1))
                raft.commit(committed)
            case "truncate" if len(model) - 1 > committed:
                end = rng.randint(committed, len(model) - 1)
                if end >= 0:
                    raft.follow()
                    raft.log.truncate(end)
                    del model[end + 1 :]
                    term += 1
                    raft.lead(term)
            case "save":
                assert store.flush.save()
            case "follow":
                raft.follow()
                term += 1
                raft.lead(term)
            case "stop" | "kill" as how:
                store.close() if how == "stop" else crash(store)
                store = open_member(tmp_path)
                raft = raft_of(store)
                assert (raft.log.end_index, raft.files.votes) == (len(model) - 1, True)
                assert raft.committed_index <= committed
                if how == "stop":
                    assert raft.committed_index == committed
                assert bodies_of(store) == [body for _, body in model[: raft.committed_index + 1]]
                raft.commit(committed)
                term += 1
                raft.lead(term)
            case _:
                continue
        assert bodies_of(store) == [body for _, body in model[: committed + 1]]
        assert [entry.term for entry in all_entries(store)] == [term for term, _ in model]
    store.close()
