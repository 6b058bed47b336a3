"""What a log of entries does where its index or its disk fails: entries are found all the same,
what is damaged is not served, and the last term is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.log.entry_checksums import EntryChecksums
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.raft.entry_log import EntryLogError

from ..memory_disk import MemoryDisk
from .entry_world import BODIES, CHECKSUMS, DATA, FILE_SIZE, INDEX, EntryWorld, made, state


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
