"""What an entry was when it was written is known, whatever becomes of any bit of it or of that
knowledge."""

from __future__ import annotations

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.store.log.entry_checksums import CHECKSUM_UNIT, EntryChecksums, checksum_in

from .entry_world import CHECKSUMS, DATA, FILE_SIZE, EntryWorld, made

BODIES = [bytes([65 + number]) * (number * 37 % 200) for number in range(40)]


def full() -> tuple[EntryWorld, list[Entry]]:
    world = EntryWorld()
    world.put(*BODIES[:25], term=2)
    world.put(*BODIES[25:], term=5)
    world.log.note()
    return world, world.all()


def flip(world: EntryWorld, entry: Entry, bit: int) -> None:
    start = entry.pos - entry.pos % FILE_SIZE
    world.disk.files[f"{DATA}/{start:020d}"][entry.pos - start + bit // 8] ^= 1 << bit % 8


def sums(world: EntryWorld) -> list[str]:
    return sorted(path for path in world.disk.files if path.startswith(CHECKSUMS))


def test_of_every_entry() -> None:
    world, entries = full()
    for entry in entries:
        file = world.commit_log.files.find(entry.pos)
        assert file is not None
        stored = file.read(entry.pos - file.start, entry.size)
        assert world.index.checksums.of(entry.index) == crc32(stored)
    assert world.index.checksums.of(40) is None


def test_a_follower_has_the_same() -> None:
    world, entries = full()
    other = EntryWorld()
    other.log.append(entries)
    other.log.note()
    assert [bytes(other.disk.files[path]) for path in sums(other)] == [
        bytes(world.disk.files[path]) for path in sums(world)
    ]


@given(st.integers(0, 8 * (48 + 91 + 5 * 37) - 1))
def test_no_bit_is_lost_unseen(bit: int) -> None:
    """Head, record, topic, properties: neither a peer gets it, nor does a start believe it."""
    world, entries = full()
    flip(world, entries[5], bit)
    served = world.log.entries(5, 1)
    assert served == []
    assert world.log.entries(0, 9999)[-1].index == 4
    again = world.killed()
    if again.found.end_index != 39:  # a start reads the last three files
        assert again.found.end_index == 4
    flip(world, entries[5], bit)
    flip(world, entries[36], bit % (8 * entries[36].size))
    again = world.killed()
    assert (again.found.end_index, again.found.damaged) == (35, True)


@given(st.data())
def test_knowledge_that_is_damaged_convicts_nobody(data: st.DataObject) -> None:
    world, entries = full()
    for path in sums(world):
        match data.draw(st.sampled_from(["good", "gone", "empty", "flipped", "cut", "zeros"])):
            case "gone":
                del world.disk.files[path]
            case "empty":
                world.disk.files[path].clear()
            case "flipped":
                bit = data.draw(st.integers(0, 639))
                world.disk.files[path][bit // 8] ^= 1 << bit % 8
            case "cut":
                at = data.draw(st.integers(0, 80))
                world.disk.files[path][at:] = bytes(80 - at)
            case "zeros":
                world.disk.files[path][:] = bytes(80)
            case _:
                pass
    again = world.killed()
    assert again.found[:3] == (0, 39, 5)
    assert again.all() == entries


def test_what_is_taken_back_is_forgotten_durably() -> None:
    world, entries = full()
    before = world.disk.syncs
    world.log.truncate(20)
    assert world.disk.syncs > before
    assert world.index.checksums.of(20) is not None
    assert [world.index.checksums.of(index) for index in range(21, 40)] == [None] * 19
    world.log.append(made([b"other"] * 5, entries[20], 9))
    again = world.killed()
    assert (again.found.end_index, again.found.damaged) == (25, False)


def test_what_a_start_cuts_is_forgotten() -> None:
    world, entries = full()
    flip(world, entries[38], 8 * 100)
    again = world.killed()
    assert again.found.end_index == 37
    assert again.index.checksums.of(38) is None


def test_entries_of_before_have_none() -> None:
    """A log of the original goes on here."""
    world, entries = full()
    again = EntryWorld(world.without_checksums())
    again.log.append(made([b"more"], entries[-1], 9))
    again.log.note()
    assert again.index.checksums.of(39) is None
    assert again.index.checksums.of(40) is not None
    flip(again, entries[5], 8 * 120)
    assert again.killed().found.end_index == 40, "as the original"


def test_files_in_front_go_with_their_entries() -> None:
    world, _ = full()
    world.commit_log.files.drop_first()
    world.log.first_file_gone()
    world.log.first_file_deleted()
    first = world.log.begin_index
    assert world.index.checksums.of(first) is not None
    assert world.index.checksums.files.start == first // 10 * 80


@given(st.integers(0, 2**32 - 1), st.integers(0, 63))
def test_a_unit_knows_whether_it_is_one(crc: int, bit: int) -> None:
    unit = CHECKSUM_UNIT.pack(crc, crc ^ 0xFFFFFFFF)
    assert checksum_in(unit) == crc
    damaged = bytearray(unit)
    damaged[bit // 8] ^= 1 << bit % 8
    assert checksum_in(bytes(damaged)) is None
    assert checksum_in(unit[: bit // 8]) is None
    assert checksum_in(bytes(8)) is None


def test_entries_that_are_right_and_wrong() -> None:
    world, entries = full()
    data = bytearray().join(bytes(world.disk.files[f"{DATA}/{0:020d}"]) for _ in "1")
    known: EntryChecksums = world.index.checksums
    end = entries[9].pos
    assert known.wrong(data, 0, end, 0, 0) == []
    for index in (2, 7):
        data[entries[index].pos + 60] ^= 1
    assert known.wrong(data, 0, end, 0, 0) == [2, 7]
    assert known.wrong(data, entries[2].pos, end, 2, 0) == [0, 5]
