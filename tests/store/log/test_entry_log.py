"""Entries by index: put by a leader, pushed to a follower, and what is not taken."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.remoting.protocol.record.entry import entry_blank
from aiorocketmq.store.log import entry_log
from aiorocketmq.store.raft.entry_log import EntryLogError

from .entry_world import BODIES, DATA, FILE_SIZE, SMALL, EntryWorld, made, state


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


def test_an_entry_longer_than_any_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end would not be seen by who reads entries in steps."""
    monkeypatch.setattr(entry_log, "MAX_ENTRY_SIZE", SMALL + 100)
    world = EntryWorld()
    with pytest.raises(EntryLogError, match="takes more than"):
        world.log.append(made([b"", bytes(101)]))
    world.log.append(made([b"", bytes(100)]))
    assert state(world) == (0, 1, 1)


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
