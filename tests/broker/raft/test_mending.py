"""Damaged entries of a member come from others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from aiorocketmq.broker.raft.mending import (
    HAND_OVER_PAUSE_S,
    PATIENCE_S,
    EntryMending,
    ExpiredEverywhereError,
)
from aiorocketmq.broker.replication.damage_watch import LOOK_S, PAUSES_S
from aiorocketmq.remoting.protocol.bodies.dledger import Entry
from aiorocketmq.store.message_store import MessageStore
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
from tests.store.services.test_scrub import in_a_loop
from tests.store.world import bodies_of, put_ok


class World:
    """A follower with one damaged message of ten, seen by a pull."""

    def __init__(self, root: Path, at: int = 48 + 88, seen: int = 9) -> None:
        source, target = leader(root / "a"), follower(root / "b")
        for number in range(10):
            put_ok(source, body=b"%d" % number, properties={"K": "value"})
        commit_all(source)
        replicate(source, target)
        self.entries: list[Entry] = all_entries(source)
        source.close()
        target.close()
        (self.path,) = (root / "b" / "dledger-n1" / "data").iterdir()
        data = bytearray(self.path.read_bytes())
        data[self.entries[4].pos + at] ^= 1
        self.path.write_bytes(data)
        self.store: MessageStore = open_member(root / "b", "n1")
        raft_of(self.store).follow()
        assert len(bodies_of(self.store)) == seen
        self.asked: list[int] = []
        self.handed_over = 0
        self.answer: Entry | None = self.entries[4]
        """Of the first member; then one has nothing."""
        self.second: Entry | None = None
        self.clock = ManualClock()
        self.told_mended = 0
        self.mending = EntryMending(
            self.store, self.entries_of_others, self.hand_over, self.mended, self.clock
        )

    def cleared(self, first: int, stop: int) -> tuple[int, int]:
        """From the head of one entry to that of another one nothing is left; where that is. What
        was damaged before is mended."""
        begin, end = self.entries[first].pos, self.entries[stop].pos
        with self.path.open("r+b") as file:
            file.seek(begin)
            file.write(bytes(end - begin))
        for known in self.store.damage.places:
            self.store.damage.mend(known)
        return begin, end

    def mended(self) -> None:
        self.told_mended += 1

    async def entries_of_others(self, index: int) -> AsyncIterator[Entry]:
        self.asked.append(index)
        for each in (self.answer, self.second):
            if each is not None:
                yield each

    async def hand_over(self) -> None:
        self.handed_over += 1

    def mend(self, seconds: float = 0) -> None:
        self.clock.advance(seconds)
        asyncio.run(self.mending.mend())


@pytest.mark.parametrize("at", [16 + 7, 48 + 40, 48 + 94], ids=["term", "born time", "properties"])
def test_what_only_a_checksum_shows_is_found_by_the_scrub(tmp_path: Path, at: int) -> None:
    world = World(tmp_path, at, seen=10)
    assert world.store.flush.save()
    assert world.store.damage.places == {}
    in_a_loop(world.store)
    assert list(world.store.damage.places) == [world.entries[4].pos + 48]
    world.answer = replace(world.entries[4], term=9)
    world.mend()
    assert world.store.damage.mended == 0, "not what was written"
    world.answer = world.entries[4]
    world.mend(60)
    assert all_entries(world.store) == world.entries
    assert (world.store.damage.places, world.store.damage.mended) == ({}, 1)
    world.store.close()


def test_a_damaged_message_is_there_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.mend()
    assert world.asked == [4]
    assert bodies_of(world.store) == [b"%d" % number for number in range(10)]
    assert all_entries(world.store) == world.entries
    assert (world.store.damage.places, world.store.damage.mended) == ({}, 1)
    world.mend()
    assert world.asked == [4]
    world.store.close()


def test_a_place_of_several_entries_is_mended_one_by_one(tmp_path: Path) -> None:
    """As a start tells it: from the head of the first to the next intact one, heads and all."""
    world = World(tmp_path)
    begin, end = world.cleared(3, 6)
    asked: list[int] = []

    async def entries_of_others(index: int) -> AsyncIterator[Entry]:
        asked.append(index)
        yield world.entries[index]

    mending = EntryMending(
        world.store, entries_of_others, world.hand_over, world.mended, world.clock
    )
    damage = world.store.damage
    damage.remember(begin, end - begin)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aiorocketmq.broker.raft.mending._AT_ONCE", 2)
        asyncio.run(mending.mend())
        assert asked == [3, 4]
        assert damage.places == {world.entries[5].pos: end - world.entries[5].pos}
        asyncio.run(mending.mend())
    assert asked == [3, 4, 5]
    assert (damage.places, damage.mended) == ({}, 4)
    assert all_entries(world.store) == world.entries
    assert bodies_of(world.store) == [b"%d" % number for number in range(10)]
    world.store.close()


def test_without_a_leader_it_waits(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.answer = None
    world.mend()
    world.mend(LOOK_S)
    world.answer = world.entries[4]
    world.mend(LOOK_S)
    assert world.asked == [4, 4, 4]
    assert world.store.damage.places == {}
    world.store.close()


@pytest.mark.parametrize("answers", [True, False])
def test_readers_of_a_leader_wait_until_others_were_asked(tmp_path: Path, *, answers: bool) -> None:
    world = World(tmp_path)
    raft_of(world.store).lead(3)
    world.store.raft.commit(world.store.raft.log.end_index)  # type: ignore[union-attr]

    def numbers() -> tuple[int, int]:
        result = world.store.get("T", 0, 4)
        return result.count, result.next_begin_offset

    assert [numbers(), numbers()] == [(0, 4), (0, 4)]
    world.answer = world.entries[5] if answers else None
    if not answers:
        for pause in (0.0, 0.0, 1.0, PATIENCE_S - 2):  # finds come as they like
            world.mend(pause)
            assert numbers() == (0, 4)
    world.mend(1.0)
    assert numbers() == (5, 10)
    assert world.store.damage.places
    world.answer = world.entries[4]
    world.mend(HAND_OVER_PAUSE_S)
    assert numbers() == (6, 10)
    world.store.close()


def test_of_many_that_nobody_tells_none_is_waited_for_any_longer(tmp_path: Path) -> None:
    world = World(tmp_path)
    begin, end = world.cleared(3, 6)
    world.store.damage.remember(begin, end - begin)
    world.answer = None
    world.mend()
    assert len(world.store.damage.places) == len(world.store.damage.unasked) == 3
    world.mend(PATIENCE_S)
    assert world.store.damage.unasked == {}
    for known in world.store.damage.places:  # they expire, say
        world.store.damage.mend(known)
    world.mend()
    world.store.damage.remember(world.entries[4].pos + 48, world.entries[4].size - 48)
    world.mend()
    assert len(world.store.damage.unasked) == 1, "that was another time"
    world.store.close()


def test_what_nobody_has_any_more_keeps_nothing_else_waiting(tmp_path: Path) -> None:
    """It has expired at all others."""
    world = World(tmp_path)
    begin, end = world.cleared(3, 6)

    async def entries_of_others(index: int) -> AsyncIterator[Entry]:
        if index > 3:
            yield world.entries[index]

    mending = EntryMending(
        world.store, entries_of_others, world.hand_over, world.mended, world.clock
    )
    world.store.damage.remember(begin, end - begin)
    for _ in range(2):
        asyncio.run(mending.mend())
        world.clock.advance(LOOK_S)
    assert list(world.store.damage.places) == [world.entries[3].pos + 48]
    world.store.close()


def test_what_has_expired_at_all_others_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody else has to lead for it."""
    world = World(tmp_path)
    asked: list[int] = []

    async def entries_of_others(index: int) -> AsyncIterator[Entry]:
        asked.append(index)
        if index < 0:
            yield world.entries[index]
        raise ExpiredEverywhereError("it has expired")

    mending = EntryMending(
        world.store, entries_of_others, world.hand_over, world.mended, world.clock
    )
    assert len(world.store.damage.awaited) == 1
    for pause in (*PAUSES_S, 1e9):
        world.clock.advance(pause)
        asyncio.run(mending.mend())
        assert world.store.damage.awaited == {}
    assert asked == [4, 4, 4]
    assert (world.handed_over, caplog.text.count("reason=it has expired")) == (0, 3)
    world.store.close()


def test_what_is_another_entry_or_damaged_itself_is_not_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    right = world.entries[4]
    damaged = bytearray(right.body)
    damaged[88] ^= 1
    pauses = [0.0, 60.0, 3600.0, 1e9]
    wrong = [world.entries[5], replace(right, term=2), replace(right, body=bytes(damaged)), right]
    for pause, answer in zip(pauses, wrong, strict=True):
        world.answer = answer
        world.mend(pause)
    assert caplog.text.count("a damaged record is not mended") == 3
    assert world.asked == [4, 4, 4], "then never again"
    assert world.store.damage.places
    world.store.close()


def test_of_two_that_answer_one_may_have_the_same_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    right = world.entries[4]
    world.answer, world.second = replace(right, body=right.body[:-1] + b"?"), right
    world.mend()
    assert (world.store.damage.places, world.store.damage.mended) == ({}, 1)
    assert (world.handed_over, world.told_mended) == (0, 1)
    assert "not mended" not in caplog.text
    world.store.close()


def test_what_is_found_is_asked_for_at_once_and_who_waits_reads_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    raft_of(world.store).lead(3)
    commit_all(world.store)
    for known in world.store.damage.places:
        world.store.damage.forget_before(known + 1)
    arrived: list[tuple[str, int]] = []
    world.store.arrivals.listeners.append(lambda topic, queue, *_: arrived.append((topic, queue)))
    world.store.arrivals.watch("T", 0)

    async def run() -> None:
        service = asyncio.create_task(world.mending.run())
        await asyncio.sleep(0)
        assert world.store.get("T", 0, 4).count == 0
        while not world.store.damage.mended:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        world.store.arrivals.notify()
        assert arrived == [("T", 0)]
        assert world.store.get("T", 0, 4).count == 6
        service.cancel()

    asyncio.run(run())
    world.store.close()


def test_it_looks_now_and_then(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def run() -> None:
        service = asyncio.create_task(world.mending.run())
        while world.store.damage.places:
            world.clock.advance(1)
            await asyncio.sleep(0)
        service.cancel()

    asyncio.run(run())
    assert len(bodies_of(world.store)) == 10
    world.store.close()


def test_a_leader_that_nobody_tells_has_another_one_lead(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.answer = None
    world.mend()
    assert (world.handed_over, world.store.damage.mended) == (1, 0)
    world.mend(LOOK_S)
    assert world.handed_over == 1, "nobody took it: not again at once"
    world.mend(HAND_OVER_PAUSE_S)
    assert world.handed_over == 2
    world.answer = world.entries[4]  # now somebody else does
    world.mend(LOOK_S)
    assert (world.handed_over, world.store.damage.mended) == (2, 1)
    world.store.close()
