"""Entries by index: put by a leader, pushed to a follower, taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.remoting.protocol.record.entry import entry_blank
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.log import entry_log
from aiorocketmq.store.log.entry_checksums import EntryChecksums
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.raft.entry_log import EntryLogError

from ..memory_disk import MemoryDisk
from .entry_world import CHECKSUMS, DATA, FILE_SIZE, INDEX, SMALL, EntryWorld, made

BODIES = [bytes([number]) * (number * 37 % 300) for number in range(40)]


def state(world: EntryWorld) -> tuple[int, int, int]:
    return world.log.begin_index, world.log.end_index, world.log.end_term


def test_empty() -> None:
    world = EntryWorld()
    assert state(world) == (-1, -1, -1)
    assert world.log.entries(0, 100) == []
    assert world.log.position_for(100) == 0
    assert not world.log.matches(made([b"a"])[0])
    with pytest.raises(EntryLogError, match="there is no entry 0"):
        world.log.term_of(0)


def test_what_a_leader_puts() -> None:
    world = EntryWorld()
    world.put(*BODIES[:30])
    world.put(*BODIES[30:], term=3)
    entries = world.all()
    assert [entry.index for entry in entries] == [*range(40)]
    assert [entry.body[88 : -4 or None] for entry in entries] == BODIES
    assert entries == made(BODIES[:30]) + made(BODIES[30:], entries[29], term=3)
    assert state(world) == (0, 39, 3)
    assert [world.log.term_of(index) for index in (0, 29, 30, 39)] == [1, 1, 3, 3]
    assert world.log.end_of(-1) == 0
    assert world.log.end_of(39) == world.commit_log.max_phy_offset
    assert [world.log.position_of(entry.index) for entry in entries] == [
        entry.pos for entry in entries
    ]


def test_a_follower_has_the_same_bytes() -> None:
    leader, follower = EntryWorld(), EntryWorld()
    leader.put(*BODIES)
    follower.log.append(leader.all()[:7])
    follower.log.append(leader.all()[7:])
    follower.log.note()
    assert follower.data() == leader.data()
    assert follower.commit_log.last_store_timestamp == 5
    assert all(follower.log.matches(entry) for entry in leader.all())


def test_a_file_ends_as_the_original_ends_it() -> None:
    world = EntryWorld()
    world.put(bytes(FILE_SIZE - SMALL - 8), b"next")
    assert (world.log.position_of(1), len(world.disk.files[f"{DATA}/{0:020d}"])) == (2048, 2048)
    assert world.disk.files[f"{DATA}/{0:020d}"][-8:] == entry_blank(8)
    world.put(bytes(1700), bytes(100))
    end = world.log.end_of(2) - 2048
    blank = entry_blank(FILE_SIZE - end)
    assert world.disk.files[f"{DATA}/{2048:020d}"][end:] == blank.ljust(FILE_SIZE - end, b"\0")


def test_a_blank_in_front_of_what_could_not_be_written_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever leads next may have a shorter one, and no blank."""
    world, long, short = EntryWorld(), EntryWorld(), EntryWorld()
    for each in (world, long, short):
        each.put(*BODIES)
    end = world.commit_log.max_phy_offset
    long.put(bytes(1800), term=5)
    short.put(b"short", term=6)
    assert long.all()[-1].pos > short.all()[-1].pos == end

    def refuse(self: MappedFile, *_: Any) -> None:
        raise StoreFileError(self.path, "EIO")

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
    world, long, short = EntryWorld(), EntryWorld(), EntryWorld()
    for each in (world, long, short):
        each.put(*BODIES)
    end = world.commit_log.max_phy_offset
    long.put(bytes(1800), term=5)
    short.put(b"short", term=6)

    def refuse(self: MappedFile, *_: Any) -> None:
        raise StoreFileError(self.path, "EIO")

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

    def refuse(self: MappedFile, *_: Any) -> None:
        raise StoreFileError(self.path, "EIO")

    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "clear_from", refuse)
        with pytest.raises(StoreFileError, match="EIO"):
            world.commit_log.take_back(0)
    world.commit_log.begin_at(FILE_SIZE)
    world.commit_log.make_room(10)
    assert world.commit_log.max_phy_offset == FILE_SIZE


def test_what_was_damaged_before_it_had_a_checksum_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The index could not be written for a while; then checksums are of what is read back."""
    world = EntryWorld()

    def refuse(self: EntryChecksums, *_: Any) -> None:
        raise StoreFileError(Path(CHECKSUMS), "it is full")

    with monkeypatch.context() as patch:
        patch.setattr(EntryChecksums, "write", refuse)
        world.put(*[bytes([65 + number]) * 100 for number in range(40)])
        world.log.note()
        position = world.log.position_of(3)
    assert position < FILE_SIZE < world.commit_log.max_phy_offset
    world.disk.files[f"{DATA}/{0:020d}"][position + 48 + 95] ^= 1
    world.log.note(whole=True)
    assert [len(world.log.entries(number, 1)) for number in (2, 3, 4)] == [1, 0, 1]


def test_entries_are_bounded_by_bytes() -> None:
    world = EntryWorld()
    world.put(*[bytes(60)] * 9)
    assert [len(world.log.entries(0, most)) for most in (0, 1, 200, 399, 400, 600)] == [
        1, 1, 1, 1, 2, 3,
    ]  # fmt: skip
    assert world.log.entries(9, 100) == []
    assert world.log.entries(-1, 100) == []


def test_the_same_list_for_all_peers() -> None:
    world = EntryWorld()
    world.put(b"a", b"b")
    first = world.log.entries(0, 400)
    assert world.log.entries(0, 400) is first
    world.put(b"c")
    assert len(world.log.entries(0, 1000)) == 3
    world.log.truncate(0)
    assert len(world.log.entries(0, 1000)) == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"pos": 8}, "it is at 0"),
        ({"index": 1}, "has the index 1, 0 is next"),
        ({"term": -1}, "has the term -1"),
        ({"magic": 2}, "the magic is"),
        ({"size": 300}, "the entry says"),
        ({"channel": 1}, "are 0"),
        ({"chain_crc": 1}, "are 0"),
        ({"body_crc": 1}, "are 0"),
        ({"body": b""}, "the entry says"),
        ({"body": bytes(92)}, "without its record"),
    ],
)
def test_what_no_follower_takes(change: dict[str, Any], problem: str) -> None:
    world = EntryWorld()
    entry = made([b""])[0]
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__} | change
    with pytest.raises(EntryLogError, match=problem):
        world.log.append([Entry(**fields)])
    assert (state(world), world.commit_log.max_phy_offset) == ((-1, -1, -1), 0)
    world.log.append([entry])
    assert state(world) == (0, 0, 1)


def test_a_damaged_body_is_not_taken() -> None:
    world = EntryWorld()
    good, bad = made([b"good", b"bad"])
    with pytest.raises(
        EntryLogError, match=r"entry 1 of the leader cannot be stored at 144: .*CRC"
    ):
        world.log.append(
            [good, Entry(1, 1, bad.pos, bad.body.replace(b"bad", b"BAD"), bad.size, 1)]
        )
    assert world.log.end_index == -1


def test_an_older_term_is_not_taken() -> None:
    world = EntryWorld()
    entries = made([b"a"], term=4)
    world.log.append(entries)
    with pytest.raises(EntryLogError, match="the term 3, behind one of the term 4"):
        world.log.append(made([b"b"], entries[0], term=3))


def test_an_entry_longer_than_a_file() -> None:
    world = EntryWorld()
    with pytest.raises(EntryLogError, match="need the same mappedFileSizeCommitLog"):
        world.log.append(made([bytes(FILE_SIZE)]))


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


def test_an_entry_longer_than_any_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end would not be seen by who reads entries in steps."""
    monkeypatch.setattr(entry_log, "MAX_ENTRY_SIZE", SMALL + 100)
    world = EntryWorld()
    with pytest.raises(EntryLogError, match="takes more than"):
        world.log.append(made([b"", bytes(101)]))
    world.log.append(made([b"", bytes(100)]))
    assert state(world) == (0, 1, 1)


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


@pytest.mark.parametrize("damage", ["gone", "zeros", "garbage", "shifted"])
def test_entries_are_found_without_the_index(damage: str) -> None:
    world = EntryWorld()
    world.put(*BODIES)
    entries, whole = world.all(), world.data()
    for path in [path for path in world.disk.files if path.startswith(INDEX)]:
        content = world.disk.files[path]
        content[:] = {
            "gone": bytes(320),
            "zeros": content[:96] + bytes(320 - 96),
            "garbage": b"\xa5" * 320,
            "shifted": content[32:] + content[:32],
        }[damage]
    world.log._places.clear()
    for index in (39, 0, 17, 5, 38):
        assert world.log.entries(index, 1) == [entries[index]]
        assert world.log.term_of(index) == 1
    assert world.log.end_index == 39
    world.log.entries(0, 1)
    assert world.index.end == 40
    if damage == "gone":
        world.log._places.clear()
        assert world.log.term_of(39) == 1
        assert world.data() == whole


def test_a_damaged_entry_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    """Those around it are."""
    world = EntryWorld()
    world.put(*BODIES)
    third = world.log.entries(3, 1)[0]
    place, file = world.log.position_of(3), world.commit_log.files.files[0]
    file.map[place : place + 4] = b"oops"
    world.log.entries(0, 1)
    for _ in range(3):
        assert world.log.entries(3, 100) == []
    assert not world.log.matches(third)
    assert [record.message[:25] for record in caplog.records] == ["entry 3 cannot be read, a"]
    assert [entry.index for entry in world.log.entries(4, 1)] == [4]
    assert [entry.index for entry in world.log.entries(0, 9999)] == [0, 1, 2]
    with pytest.raises(EntryLogError, match="damaged"):
        world.log.term_of(3)


def test_a_body_that_rots_in_a_full_file(caplog: pytest.LogCaptureFixture) -> None:
    """No follower would take it."""
    world = EntryWorld()
    world.put(*BODIES)
    place = world.log.position_of(5) + 48 + 90
    world.disk.files[f"{DATA}/{0:020d}"][place] ^= 1
    assert [entry.index for entry in world.log.entries(0, 2000)] == [0, 1, 2, 3, 4]
    assert world.log.entries(5, 2000) == []
    assert [record.message[:25] for record in caplog.records] == ["entry 5 cannot be read, a"]
    assert world.log.entries(6, 2000)[0].index == 6


class NoDescriptors(MemoryDisk):
    """No more files can be read."""

    short = False

    def open(self, path: Any, mode: Any) -> int:
        if self.short and mode == "read":
            raise OSError(24, "Too many open files")
        return super().open(path, mode)


def test_the_last_term_is_known_when_nothing_can_be_read() -> None:
    """A vote depends on it, and the whole member on that."""
    disk = NoDescriptors()
    world = EntryWorld(disk)
    world.put(*BODIES)
    assert world.log.end_term == 1
    disk.short = True
    world.put(*BODIES, term=2)
    assert world.log.end_term == 2
    with pytest.raises(EntryLogError, match="Too many open files"):
        world.log.note()
    disk.short = False
    world.log.note()
    assert world.log.end_term == 2


def test_the_same_of_what_a_leader_sent() -> None:
    disk = NoDescriptors()
    world, first = EntryWorld(disk), made(BODIES)
    world.log.append(first)
    disk.short = True
    world.log.append(made(BODIES, first[-1], term=4))
    assert world.log.end_term == 4
    disk.short = False
    world.log.truncate(39)
    disk.short = True
    world.put(*BODIES, term=5)
    assert world.log.end_term == 5


def test_who_begins_a_term_without_an_entry_of_it_ends_with_the_one_before() -> None:
    """A vote may be asked for before the first entry of the new term is there."""
    world = EntryWorld()
    for term, before in ((2, -1), (5, 2), (7, 5)):
        world.log.begin_term(term)
        assert world.log.end_term == before
        world.log.begin_term(term)
        assert world.log.end_term == before
        world.put(b"a", term=term)
        assert world.log.end_term == term
    world.log.append(made([b"b"], world.all()[-1], term=9))
    world.log.begin_term(11)
    assert world.log.end_term == 9
    assert world.killed().log.end_term == 9


def test_much_is_noted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stop leaves without units gets them when the log is opened, but no checksums."""
    monkeypatch.setattr(entry_log, "_NOTED_BYTES", 1000)
    leader, follower = EntryWorld(), EntryWorld()
    # who does not know where the first one is that it reads looks into the index
    for first, last, noted in ((0, 4, [4, 0]), (4, 9, [4, 9]), (9, 12, [12, 9])):
        leader.put(*[bytes(20)] * (last - first))
        entries = leader.log.entries(first, 10_000)
        assert len(entries) == last - first
        follower.log.append(entries)
        assert [world.index.end for world in (leader, follower)] == noted
        assert [world.index.checksums.end for world in (leader, follower)] == noted
    killed = follower.killed()
    assert (killed.log.end_index, killed.index.end) == (11, 12)
    assert [killed.index.checksums.of(index) is not None for index in (0, 8, 9, 11)] == [
        True, True, False, False,
    ]  # fmt: skip
    follower.log.note()
    assert follower.killed().data() == killed.data()


class FullIndex(MemoryDisk):
    """No index file can be made."""

    full = False

    def open(self, path: Any, mode: Any) -> int:
        if self.full and mode == "make" and str(path).startswith(INDEX):
            raise OSError(28, "No space left on device")
        return super().open(path, mode)


def killed_without_trouble() -> dict[str, bytes]:
    world = EntryWorld()
    world.put(*BODIES)
    world.log.note()
    return world.killed().data()


def test_a_full_disk_stops_no_reader(caplog: pytest.LogCaptureFixture) -> None:
    """Entries that got no unit get it later, and nobody sees that they came late."""
    disk = FullIndex()
    world, other = EntryWorld(disk), EntryWorld()
    for member in (world, other):
        member.put(*BODIES[:12])
        member.log.note()
        disk.full = True
        member.put(*BODIES[12:])
    assert world.all() == made(BODIES)
    assert (world.log.term_of(20), world.log.end_term) == (1, 1)
    assert world.index.end <= 20
    assert world.log.entries(30, 1)[0].index == 30
    again = EntryWorld(disk.copy())  # killed, and there is room
    assert (again.data(), again.found.end_index) == (killed_without_trouble(), 39)
    world.log.truncate(35)
    world.put(b"more", term=2)
    assert world.log.end_term == 2
    disk.full = False
    world.log.note(whole=True)
    other.log.truncate(35)
    other.put(b"more", term=2)
    other.log.note()
    assert (world.index.end, world.data()) == (37, other.data())
    assert [record.message[:42] for record in caplog.records].count(
        "entries are found without the index for no"
    ) == 1
    world.put(b"again", term=2)
    assert world.log.entries(37, 1)[0].term == 2


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("full", [False, True])
def test_files_are_deleted_before_their_entries_have_units(full: bool, files: int) -> None:
    """They get none; those that are left do."""
    disk = FullIndex()
    world = EntryWorld(disk)
    disk.full = full
    world.put(*BODIES)
    if full:
        world.log.note()
    for _ in range(files):
        world.commit_log.files.drop_first().delete()
    world.log.first_file_gone()
    disk.full = False
    world.put(b"more", term=2)
    world.log.note(whole=True)
    entries = made(BODIES)
    entries += made([b"more"], entries[-1], term=2)
    start = world.commit_log.files.start
    assert world.all() == [entry for entry in entries if entry.pos >= start]
    assert state(world) == (world.all()[0].index, 40, 2)
    assert world.index.end == 41
    assert world.killed().all() == world.all()


@given(st.data())
def test_against_a_list(data: st.DataObject) -> None:
    """Whatever is done, and over kills."""
    world, model, term = EntryWorld(), list[Entry](), 1
    for _ in range(data.draw(st.integers(1, 12))):
        step = data.draw(st.sampled_from(["put", "append", "truncate", "kill", "read", "term"]))
        bodies = [bytes(size) for size in data.draw(st.lists(st.integers(0, 900), max_size=6))]
        if step == "put":
            world.put(*bodies, term=term)
            model += made(bodies, model[-1] if model else None, term)
        elif step == "append":
            more = made(bodies, model[-1] if model else None, term)
            world.log.append(more)
            model += more
        elif step == "truncate":
            end = data.draw(st.integers(-1, len(model)))
            world.log.truncate(end)
            del model[end + 1 :]
        elif step == "kill":
            world = world.killed()
            assert not world.found.damaged
        elif step == "term":
            term += 1
        elif model:
            first = data.draw(st.integers(0, len(model) - 1))
            found = world.log.entries(first, data.draw(st.integers(0, 3000)))
            assert found == model[first : first + len(found)]
            assert found
        assert world.log.end_index == len(model) - 1
        assert world.log.end_term == (model[-1].term if model else -1)
    assert world.all() == model
