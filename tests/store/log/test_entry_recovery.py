"""Where the log ends after a stop: at every cut, without the index, and behind damage."""

from __future__ import annotations

import pytest

from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.remoting.protocol.record.entry import ENTRY_HEAD

from ..memory_disk import MemoryDisk
from .entry_world import DATA, FILE_SIZE, INDEX, EntryWorld, made

BODIES = [bytes([65 + number]) * (number * 37 % 200) for number in range(40)]


def full() -> tuple[EntryWorld, list[Entry]]:
    world = EntryWorld()
    world.put(*BODIES[:25], term=2)
    world.put(*BODIES[25:], term=5)
    return world, world.all()


def file_of(disk: MemoryDisk, position: int) -> bytearray:
    return disk.files[f"{DATA}/{position // FILE_SIZE * FILE_SIZE:020d}"]


def cut_at(disk: MemoryDisk, position: int, fill: bytes = b"\0") -> None:
    """What was written behind a position is not there."""
    for path in [path for path in disk.files if path.startswith(DATA)]:
        start = int(path.rpartition("/")[2])
        if start >= position:
            disk.files[path][:] = fill * FILE_SIZE
        elif position < start + FILE_SIZE:
            disk.files[path][position - start :] = fill * (start + FILE_SIZE - position)


def test_a_stop_of_any_kind() -> None:
    world, entries = full()
    before = world.data()
    again = world.killed()
    assert again.found[:3] == (0, 39, 5)
    assert again.found.position == world.commit_log.max_phy_offset
    assert (again.found.damaged, again.found.problem) == (False, "")
    assert again.data() == before
    assert again.all() == entries
    again.put(b"more", term=6)
    assert again.killed().all() == [*entries, *made([b"more"], entries[-1], 6)]


def test_every_cut() -> None:
    """Byte by byte through the last entries: what is whole stays, the rest never was."""
    world, entries = full()
    for position in range(entries[35].pos, world.commit_log.max_phy_offset):
        disk = world.disk.copy()
        cut_at(disk, position)
        again = EntryWorld(disk)
        whole = [entry for entry in entries if entry.pos + entry.size - 2 <= position]  # two zeros
        assert again.found.end_index == len(whole) - 1, position
        assert not again.found.damaged, position
        assert again.commit_log.max_phy_offset <= position + 2
        again.log.append(made([b"new"], whole[-1], 7))
        assert again.all()[-1].index == len(whole)


@pytest.mark.parametrize("keep", [0, 1, 4, 48, 90, 300, 1600])
def test_a_blank_whose_entry_never_came(keep: int) -> None:
    """Or came torn, or was damaged: the next one is shorter, and lies where members put it that
    have no blank."""
    world, entries = full()
    end = world.commit_log.max_phy_offset
    world.put(b"L" * 1500, b"x", b"y", term=5)
    first, then = world.all()[40], world.all()[41]
    assert end < first.pos < then.pos
    disk = world.disk.copy()
    if keep < first.size:
        cut_at(disk, first.pos + keep)
    else:
        file_of(disk, first.pos)[100] ^= 1
    again = EntryWorld(disk)
    assert (again.found.position, again.found.end_index) == (end, 39)
    again.put(b"short", term=6)
    other = EntryWorld()
    other.log.append(again.all())
    assert other.all() == [*entries, *again.all()[-1:]] == again.killed().all()


@pytest.mark.parametrize("index", [0, 1, 12, 13, 24, 25, 26, 39])
def test_the_log_cut_at_entries(index: int) -> None:
    """Over whole files, with an index that knows of more."""
    world, entries = full()
    cut_at(world.disk, entries[index].pos)
    again = EntryWorld(world.disk.copy())
    assert again.found.end_index == index - 1
    assert again.found.end_term == (entries[index - 1].term if index else -1)
    assert again.all() == entries[:index]
    other = EntryWorld()
    other.log.append(entries[:index])
    other.log.note()
    for log in (again.log, other.log):
        log.append(entries[index:])
        log.note()
    assert again.data() == other.data()


def test_garbage_behind_the_end() -> None:
    world, entries = full()
    file_of(world.disk, entries[-1].pos)[world.commit_log.position :] = b"\x5a" * (
        FILE_SIZE - world.commit_log.position
    )
    again = world.killed()
    assert (again.found.end_index, again.found.damaged) == (39, False)
    assert "the magic is" in again.found.problem
    assert again.data() == full()[0].data()


@pytest.mark.parametrize("index", [30, 36, 38])
@pytest.mark.parametrize("what", ["head", "body", "zeros"])
def test_damage_in_the_middle_is_told(index: int, what: str) -> None:
    world, entries = full()
    entry = entries[index]
    file, at = file_of(world.disk, entry.pos), entry.pos % FILE_SIZE
    if what == "zeros":
        file[at : at + entry.size] = bytes(entry.size)
    else:
        file[at + (12 if what == "head" else 48 + 88)] ^= 1
    again = world.killed()
    assert again.found.damaged
    assert f"at {entry.pos}: " in again.found.problem
    assert again.found[:3] == (0, index - 1, 5)
    assert again.all() == entries[:index]


def test_damage_in_the_last_entry_looks_like_a_torn_one() -> None:
    world, entries = full()
    file_of(world.disk, entries[39].pos)[entries[39].pos % FILE_SIZE + 48 + 88] ^= 1
    again = world.killed()
    assert (again.found.end_index, again.found.damaged) == (38, False)
    assert "CRC" in again.found.problem


def test_a_file_whose_first_entry_is_damaged() -> None:
    """Reading begins further in front, and everything behind is lost."""
    world, entries = full()
    files = world.commit_log.files.files
    first = next(entry for entry in entries if entry.pos == files[-3].start)
    file_of(world.disk, first.pos)[48 + 90] ^= 1
    again = world.killed()
    assert (again.found.end_index, again.found.damaged) == (first.index - 1, True)
    assert again.found.end_term == entries[first.index - 1].term
    assert again.all() == entries[: first.index]


def test_nothing_is_left() -> None:
    world, _ = full()
    file_of(world.disk, 0)[0] ^= 1
    for path in [path for path in world.disk.files if path.startswith(INDEX)]:
        world.disk.files[path][:] = bytes(320)
    again = world.killed()
    assert again.found[:5] == (-1, -1, -1, 0, True)
    assert again.log.begin_index == -1
    assert again.log.position_for(100) == 0


@pytest.mark.parametrize("damage", ["gone", "last gone", "first gone", "garbage", "half", "more"])
def test_the_index_is_made_again(damage: str) -> None:
    world, entries = full()
    whole, disk = world.data(), world.disk.copy()
    paths = sorted(path for path in disk.files if path.startswith(INDEX))
    if damage == "gone":
        for path in paths:
            del disk.files[path]
    elif damage == "last gone":
        del disk.files[paths[-1]]
    elif damage == "first gone":
        del disk.files[paths[0]]
    elif damage == "garbage":
        for path in paths:
            disk.files[path][:] = b"\xa5" * 320
    elif damage == "half":
        disk.files[paths[-1]][:] = bytes(320)
        disk.files[paths[-2]][160:] = bytes(160)
    else:
        disk.files[paths[-1]][-32:] = ENTRY_HEAD.pack(*range(9))[:32]
        cut_at(disk, entries[38].pos)
    again = EntryWorld(disk)
    if damage == "more":
        again.log.append(entries[38:])
    assert again.all() == entries
    for index in range(40):
        assert again.log.entries(index, 1) == [entries[index]]
    if damage != "first gone":
        assert again.data() == whole


@pytest.mark.parametrize("length", [0, 100])
def test_an_index_file_of_another_length(length: int) -> None:
    world, entries = full()
    path = sorted(path for path in world.disk.files if path.startswith(INDEX))[-1]
    del world.disk.files[path][length:]
    again = world.killed()
    assert again.all() == entries
    assert again.data() == full()[0].data()


def test_a_spare_file_holds_nothing() -> None:
    world, entries = full()
    world.commit_log.files.make(world.commit_log.files.end)
    again = world.killed()
    assert again.found[:3] == (0, 39, 5)
    assert again.all() == entries


def test_leftovers_of_the_original_are_no_damage() -> None:
    """It leaves old bytes behind the end that it cut (store-dirty-n1, after its TRUNCATE)."""
    world, entries = full()
    cut = world.killed()
    cut.log.truncate(36)
    cut.log.append(made([b"longer" * 30], entries[36], 9))
    disk = world.without_checksums()
    stop = cut.commit_log.max_phy_offset
    for position in range(entries[37].pos, stop):
        file_of(disk, position)[position % FILE_SIZE] = file_of(cut.disk, position)[
            position % FILE_SIZE
        ]
    again = EntryWorld(disk)
    assert (again.found.end_index, again.found.end_term, again.found.damaged) == (37, 9, False)
    assert again.data() == cut.killed().data()


@pytest.mark.parametrize("number", [40, 0x2FFFF, 2**62, -5])
def test_a_wrong_number_in_the_oldest_file_empties_no_log(number: int) -> None:
    """That file is not read at a start; a log that began behind its end would count as empty, and
    the member would vote for who has less."""
    world, entries = full()
    file_of(world.disk, 0)[8:16] = number.to_bytes(8, "big", signed=True)
    again = world.killed()
    assert (again.found.end_index, again.found.end_term) == (39, 5)
    assert (again.log.begin_index, again.log.end_index) == (0, 39)
    again.put(b"more", term=6)
    assert again.log.end_index == 40
    assert [entry.index for entry in again.log.entries(40, 1)] == [40]
    assert list(again.log.entries(35, 1)) == [entries[35]]


@pytest.mark.parametrize("number", [1, 2, 5, 39])
@pytest.mark.parametrize("other", [1, 2, 3, 4])
def test_a_wrong_number_in_the_oldest_file_hides_no_entry(
    number: int, other: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where a second head of that file is damaged."""
    world, entries = full()
    oldest = file_of(world.disk, 0)
    oldest[8:16] = number.to_bytes(8, "big")
    oldest[entries[other].pos + 8 : entries[other].pos + 16] = (77).to_bytes(8, "big")
    again = world.killed()
    assert (again.log.begin_index, again.log.end_index) == (0, 39)
    assert again.found.begin_problem == f"its head says that it is {number}"
    assert "entry 0 cannot be read" in caplog.text
    for _ in range(2):
        for entry in entries:
            expected = [] if entry.index in (0, other) else [entry]
            assert list(again.log.entries(entry.index, 1)) == expected


def test_an_oldest_file_without_a_head_begins_with_the_entry_that_its_unit_names() -> None:
    world, entries = full()
    file_of(world.disk, 0)[:4] = b"\xff" * 4
    again = world.killed()
    assert (again.log.begin_index, again.found.begin_problem) == (0, "it has no head")
    assert list(again.log.entries(1, 1)) == [entries[1]]


def test_files_are_deleted_in_front_of_one_whose_head_is_damaged() -> None:
    world, entries = full()
    files = world.commit_log.files
    files.drop_first().delete()
    first = next(entry.index for entry in entries if entry.pos == files.start)
    for wrong in (first - 1, first + 1, 2**40):
        file_of(world.disk, files.start)[8:16] = wrong.to_bytes(8, "big")
        world.log.first_file_gone()
        assert world.log.begin_index == first
    assert list(world.log.entries(first + 1, 1)) == [entries[first + 1]]
