"""Where a log of entries ends and begins: entries are taken back, blanks go with them, files in
front are deleted."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.raft.entry_log import EntryLogError

from .entry_world import BODIES, DATA, FILE_SIZE, INDEX, EntryWorld, made, state


def refuse(file: MappedFile, *_: Any) -> None:
    """The disk fails."""
    raise StoreFileError(file.path, "EIO")


def with_others_that_went_on() -> tuple[EntryWorld, EntryWorld, EntryWorld]:
    """A log, and two that have one entry more: a long one, with a blank in front, and a short one
    of a later term."""
    world, long, short = EntryWorld(), EntryWorld(), EntryWorld()
    for each in (world, long, short):
        each.put(*BODIES)
    long.put(bytes(1800), term=5)
    short.put(b"short", term=6)
    return world, long, short


def test_a_blank_in_front_of_what_could_not_be_written_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever leads next may have a shorter one, and no blank."""
    world, long, short = with_others_that_went_on()
    end = world.commit_log.max_phy_offset
    assert long.all()[-1].pos > short.all()[-1].pos == end
    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "write", refuse)
        with pytest.raises(EntryLogError, match="EIO"):
            world.log.append(long.all()[40:])
    assert world.commit_log.max_phy_offset == end
    world.log.append(short.all()[40:])
    assert world.all() == short.all() == world.killed().all()


def test_a_blank_that_could_not_be_taken_back_goes_before_the_next_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file behind it is deleted by then, and another one that could not get its length may
    stand at its place: nothing is written there."""
    world, long, short = with_others_that_went_on()
    end = world.commit_log.max_phy_offset
    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "clear_from", refuse)
        with monkeypatch.context() as first:
            first.setattr(MappedFile, "write", refuse)
            with pytest.raises(EntryLogError, match="EIO"):
                world.log.append(long.all()[40:])
        following = f"{DATA}/{world.commit_log.files.end:020d}"
        world.disk.close(world.disk.open(following, "make"))
        with pytest.raises(EntryLogError, match="EIO"):
            world.log.append(short.all()[40:])
        assert world.disk.files[following] == b""
    world.log.append(short.all()[40:])
    assert world.commit_log.max_phy_offset > end
    assert world.all() == short.all() == world.killed().all()


def test_a_log_that_begins_anew_has_nothing_left_to_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    world = EntryWorld()
    world.put(b"a")
    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "clear_from", refuse)
        with pytest.raises(StoreFileError, match="EIO"):
            world.commit_log.take_back(0)
    world.commit_log.begin_at(FILE_SIZE)
    world.commit_log.make_room(10)
    assert world.commit_log.max_phy_offset == FILE_SIZE


def test_a_log_that_could_not_begin_anew_does_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or a file of the old one would stay in front of it."""
    world = EntryWorld()
    world.put(b"a")
    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "delete", refuse)
        with pytest.raises(StoreFileError, match="EIO"):
            world.commit_log.begin_at(FILE_SIZE)
        with pytest.raises(StoreFileError, match="EIO"):
            world.commit_log.make_room(10)
    world.commit_log.make_room(10)
    log = world.commit_log
    assert (log.min_phy_offset, log.max_phy_offset, log.divided) == (FILE_SIZE,) * 3


@pytest.mark.parametrize("end", [-1, 0, 3, 10, 20, 38, 39, 50])
def test_truncation(end: int) -> None:
    """The bytes are those of a log that never went on, and it goes on as such."""
    world, other = EntryWorld(), EntryWorld()
    world.put(*BODIES)
    entries = world.all()
    world.log.truncate(end)
    other.log.append(entries[: end + 1])
    other.log.note()
    kept = min(end, 39)
    assert state(world) == ((0, kept, 1) if kept >= 0 else (-1, -1, -1))
    if kept < 39:
        assert world.killed().all() == entries[: end + 1]
    more = made([b"other"] * 9, entries[kept] if kept >= 0 else None, term=2)
    for log in (world.log, other.log):
        log.append(more)
        log.note()
    assert world.data() == other.data()


def test_truncation_takes_back_what_was_flushed_and_the_spare_file() -> None:
    world = EntryWorld()
    world.put(*BODIES)
    files = world.commit_log.files
    world.commit_log.spare = files.make(files.end)
    world.commit_log.flushed_offset, cuts = world.commit_log.max_phy_offset, world.commit_log.cuts
    world.log.truncate(2)
    assert world.commit_log.flushed_offset == world.log.end_of(2)
    assert world.commit_log.cuts == cuts + 1
    assert [path for path in world.disk.files if path.startswith(DATA)] == [f"{DATA}/{0:020d}"]
    assert world.disk.syncs


def test_a_log_cannot_end_in_front_of_its_beginning() -> None:
    world = EntryWorld()
    entries = made(BODIES)
    world.log.begin_with(next(entry for entry in entries[9:] if not entry.pos % FILE_SIZE))
    with pytest.raises(EntryLogError, match="begins with entry"):
        world.log.truncate(5)


def test_beginning_with_an_entry() -> None:
    entries = made(BODIES)
    world = EntryWorld()
    world.log.append(entries[:20])
    first = next(entry for entry in entries[20:] if not entry.pos % FILE_SIZE)
    world.log.begin_with(first)
    world.log.append(entries[first.index + 1 :])
    assert world.all() == entries[first.index :]
    assert state(world) == (first.index, 39, 1)
    again = world.killed()
    assert again.all() == entries[first.index :]
    assert state(again) == (first.index, 39, 1)
    assert again.data() == world.data()
    assert not world.log.matches(entries[0])
    with pytest.raises(EntryLogError, match="no file of 2048 bytes begins there"):
        world.log.begin_with(entries[1])


@pytest.mark.parametrize(
    "change", [{"body": b"no record"}, {"index": -1}, {"pos": -FILE_SIZE}, {"term": -2}]
)
def test_beginning_with_what_is_no_entry_changes_nothing(change: dict[str, Any]) -> None:
    entries = made(BODIES)
    world = EntryWorld()
    world.log.append(entries[:20])
    first = next(entry for entry in entries[20:] if not entry.pos % FILE_SIZE)
    with pytest.raises(EntryLogError):
        world.log.begin_with(structs.replace(first, **change))
    assert world.all() == entries[:20]


def test_a_file_that_is_being_synced_is_cut_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that does it holds the mapping."""

    def held(_file: MappedFile) -> None:
        raise BufferError("cannot close exported pointers exist")

    world = EntryWorld()
    world.put(*BODIES)
    with monkeypatch.context() as syncing:
        syncing.setattr(MappedFile, "close", held)
        with pytest.raises(EntryLogError, match="it is being synced"):
            world.log.truncate(2)
    assert state(world) == (0, 39, 1)
    world.log.truncate(2)
    assert state(world) == (0, 2, 1)


def test_behind_an_older_log() -> None:
    """Entry 0 lies where the old files end (dividedCommitlogOffset)."""
    world = EntryWorld(start=3 * FILE_SIZE)
    assert world.log.position_for(100) == 3 * FILE_SIZE
    world.put(*BODIES)
    assert world.all()[0].pos == 3 * FILE_SIZE
    world.log.truncate(-1)
    assert world.log.position_for(100) == 3 * FILE_SIZE
    world.put(b"again")
    again = world.killed()
    assert (state(again), again.log.end_of(-1)) == ((0, 0, 1), 3 * FILE_SIZE)


def test_files_in_front_are_deleted() -> None:
    world = EntryWorld()
    world.put(*BODIES)
    entries, files = world.all(), world.commit_log.files
    for _ in range(3):
        files.drop_first().delete()
    world.log.first_file_gone()
    world.log.first_file_deleted()
    first = next(entry for entry in entries if entry.pos == files.start)
    assert (world.log.begin_index, world.all()) == (first.index, entries[first.index :])
    assert world.log.end_of(first.index - 1) == files.start
    starts = [int(path.rpartition("/")[2]) for path in world.disk.files if INDEX in path]
    assert min(starts) == first.index * 32 // 320 * 320
    assert world.killed().all() == entries[first.index :]
