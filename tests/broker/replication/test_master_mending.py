"""A master gets what is damaged in its log from its slaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from aiorocketmq.broker.replication.damage_watch import LOOK_S, PAUSES_S
from aiorocketmq.broker.replication.master_mending import PATIENCE_S, MasterMending
from aiorocketmq.remoting.protocol.record import MAGIC
from aiorocketmq.remoting.protocol.record.verdict import SECTOR
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.queues.consume_queue import CQ_UNIT, FILLER_SIZE
from tests.sim import ManualClock, turns
from tests.store.world import bodies_of

from .slave_scenes import Network, Pair, play

COUNT = 6


class World:
    """A master with some messages, and a slave that has them."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.clock = ManualClock()
        self.network = Network(pair.slave.connect())
        self.slaves = ["10.0.0.2:10911"]
        self.asked_for_slaves = 0
        self.connected = False
        self.start()
        self.places: list[tuple[int, int]] = []
        """Where each message lies, and its size."""

    def start(self, *, has_slave: bool = False) -> None:
        self.mending = MasterMending(
            self.store,
            self.network,  # type: ignore[arg-type]
            self.addresses,
            lambda: self.connected,
            self.clock,
            has_slave=has_slave,
        )

    async def lose_slave(self) -> None:
        """It was connected, and no name server knows it any more."""
        self.connected = True
        await self.mending.mend()
        self.connected, self.slaves = False, []

    @property
    def store(self) -> MessageStore:
        return self.pair.master.broker.store

    async def addresses(self) -> list[str]:
        self.asked_for_slaves += 1
        return self.slaves

    async def send(self) -> None:
        for number in range(COUNT):
            begin = self.store.max_phy_offset
            await self.pair.at_master.send("T", b"body %d" % number, properties="K\x01v")
            self.places.append((begin, self.store.max_phy_offset - begin))
        await self.store.sync()
        self.pair.replicate()

    def flip(self, number: int, store: MessageStore | None = None, at: bytes = b"body") -> None:
        """In the file; what comes from there is checked."""
        store = store or self.store
        begin, size = self.places[number]
        where = bytes(store._log.buffer[begin : begin + size]).index(at)
        store._log.buffer[begin + where] ^= 1
        store._reader.proven_from = store.max_phy_offset

    async def lose_sector_behind(self) -> tuple[int, int]:
        """Of another message, whose properties reach into it: at both, as the master had lost it
        already. Where it lies, and its size."""
        begin = self.store.max_phy_offset
        for _ in range(2):
            await self.pair.at_master.send("T", b"x" * 50, properties="K\x01" + "v" * 700)
            size = self.store.max_phy_offset - begin
        await self.store.sync()
        self.pair.replicate()
        size //= 2
        sector = (begin + size) // SECTOR * SECTOR
        assert begin < sector <= begin + size - 8
        for store in (self.store, self.pair.slave.broker.store):
            store._log.buffer[sector : sector + SECTOR] = bytes(SECTOR)
            store._reader.proven_from = store.max_phy_offset
        return begin, size

    def numbers(self, offset: int = 0) -> tuple[int, int]:
        """How many messages a pull brings, and where the next one begins."""
        result = self.store.get("T", 0, offset)
        return result.count, result.next_begin_offset


def cannot_read(_phy_offset: int) -> None:
    raise StoreFileError(Path("slave/commitlog"), "cannot be read: No space left on device")


def scene(folder: Path, test: Callable[[World], Awaitable[None]]) -> None:
    async def with_world(pair: Pair) -> None:
        world = World(pair)
        await world.send()
        await test(world)

    play(folder, with_world)


def test_a_record_with_another_body_comes_from_the_slave(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: World) -> None:
        world.flip(2)
        assert [world.numbers(), world.numbers(2)] == [(2, 2), (0, 2)]
        with caplog.at_level("INFO"):
            await world.mending.mend()
        assert world.numbers() == (COUNT, COUNT)
        assert (world.store.damage.mended, world.store.damage.places) == (1, {})
        assert "a damaged record is mended" in caplog.text

    scene(tmp_path, test)


def test_readers_wait_for_a_slave_only_until_it_has_told_what_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: World) -> None:
        store = world.store
        world.flip(2)
        store.damage.is_watched = False
        assert world.numbers(1) == (4, 6), "nobody is asked"
        store.damage.is_watched = True
        assert world.numbers(2) == (0, 2)
        world.flip(2, world.pair.slave.broker.store)
        for pause in (0.0, *PAUSES_S, 1e9):
            world.clock.advance(pause)
            await world.mending.mend()
        assert caplog.text.count("the other replica has it damaged too") == len(PAUSES_S)
        assert world.numbers(2) == (3, 6)

    scene(tmp_path, test)


@pytest.mark.parametrize("away", ["does not answer", "cannot read", "is not known", "was here"])
def test_readers_wait_for_a_slave_that_is_away_for_a_moment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, away: str
) -> None:
    """Or their group would never get what its members have passed over (seed 14100249)."""

    async def test(world: World) -> None:
        slave = world.pair.slave
        with pytest.MonkeyPatch.context() as patch:
            match away:
                case "does not answer":
                    world.network.client = None
                case "cannot read":
                    patch.setattr(slave.broker.store, "readable_record", cannot_read)
                case "is not known":
                    world.slaves = []
                    world.start(has_slave=True)
                case _:
                    await world.lose_slave()
            world.flip(2)
            for _ in range(int(PATIENCE_S / LOOK_S)):
                assert world.numbers(2) == (0, 2)
                await world.mending.mend()
                await world.mending.mend()
                assert world.numbers(2) == (0, 2)
                world.clock.advance(LOOK_S)
        world.slaves, world.network.client = ["10.0.0.2:10911"], slave.connect()
        await world.mending.mend()
        assert world.numbers() == (COUNT, COUNT)

    scene(tmp_path, test)


@pytest.mark.parametrize("away", ["does not answer", "is gone", "was here", "has no record"])
def test_readers_wait_for_nobody_who_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: str
) -> None:
    async def test(world: World) -> None:
        match away:
            case "does not answer":
                world.network.client = None
            case "was here":
                await world.lose_slave()
                world.clock.advance(PATIENCE_S)
            case "has no record":
                store = world.pair.slave.broker.store
                monkeypatch.setattr(store, "readable_record", lambda _phy_offset: None)
            case _:
                world.slaves = []
        world.flip(2)
        assert world.numbers(2) == (0, 2)
        if away == "does not answer":
            await world.mending.mend()
            assert world.numbers(2) == (0, 2)
            world.clock.advance(PATIENCE_S)
        await world.mending.mend()
        assert world.numbers(2) == (3, 6)

        world.store.damage.mend(world.places[2][0])  # it expires, say
        await world.mending.mend()
        world.store.damage.remember(*world.places[3])
        await world.mending.mend()
        waits = away == "does not answer"
        assert bool(world.store.damage.unasked) == waits, "that was another time"

    scene(tmp_path, test)


def test_what_lies_around_the_body_has_to_be_alike(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: World) -> None:
        for number, at in ((2, b"K\x01v"), (3, b"\xda\xa3\x20\xa7")):  # properties, magic
            world.flip(number)
            world.flip(number, at=at)
            world.store.damage.remember(*world.places[number])
        await world.mending.mend()
        assert len(world.store.damage.places) == 2
        assert "other properties around the body" in caplog.text
        assert "not only its body is damaged" in caplog.text
        begin, size = world.places[2]
        assert b"K\x01v" not in bytes(world.store._log.buffer[begin : begin + size])

    scene(tmp_path, test)


def test_of_a_stretch_each_record_is_asked_for(tmp_path: Path) -> None:
    """As a start finds them."""

    async def test(world: World) -> None:
        for number in (1, 2, 4):
            world.flip(number)
        world.store.damage.remember(world.places[1][0], sum(size for _, size in world.places[1:3]))
        world.store.damage.remember(*world.places[4])
        await world.mending.mend()
        assert world.store.damage.places == {}
        assert bodies_of(world.store) == [b"body %d" % number for number in range(COUNT)]

    scene(tmp_path, test)


def test_a_record_that_cannot_be_mended_hides_nothing_behind_it(tmp_path: Path) -> None:
    """Of a stretch: it has lost its head, say."""

    async def test(world: World) -> None:
        world.flip(1, at=MAGIC.to_bytes(4, "big"))
        world.flip(2)
        first, second = world.places[1:3]
        world.store.damage.remember(first[0], first[1] + second[1])
        await world.mending.mend()
        assert world.store.damage.places == dict([first])
        assert world.numbers(2) == (4, COUNT)

    scene(tmp_path, test)


def test_what_was_mended_of_a_stretch_before_a_kill_hides_nothing_behind_it(
    tmp_path: Path,
) -> None:
    """Its file still has the stretch as one place (seed 14110923)."""

    async def test(world: World) -> None:
        world.flip(2)
        world.store.damage.remember(world.places[1][0], sum(size for _, size in world.places[1:3]))
        await world.mending.mend()
        assert bodies_of(world.store) == [b"body %d" % number for number in range(COUNT)]
        assert world.store.damage.places == {}

    scene(tmp_path, test)


def test_what_was_mended_before_a_kill_gets_into_its_queue(tmp_path: Path) -> None:
    """Which has a filler for it: a start found it damaged."""

    async def test(world: World) -> None:
        begin, size = world.places[2]
        queue = world.store._table["T", 0]
        queue.overwrite(2, CQ_UNIT.pack(begin + size, FILLER_SIZE, 0))
        world.store.damage.remember(begin, size)
        assert world.numbers() == (2, 2)
        await world.mending.mend()
        assert (world.numbers(), world.store.damage.places) == ((COUNT, COUNT), {})

    scene(tmp_path, test)


def test_what_the_slave_has_alike_is_not_mended_and_not_waited_for_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A record may be damaged by what lies behind it: a sector of zeros."""

    async def test(world: World) -> None:
        begin, size = await world.lose_sector_behind()
        for _ in range(2):
            assert world.numbers(COUNT) == (0, COUNT)
            await world.mending.mend()
            assert world.numbers(COUNT) == (0, COUNT + 2)
            assert world.store.damage.places[begin] == size
            for known in world.store.damage.places:  # somebody takes it for mended
                world.store.damage.mend(known)
        assert caplog.text.count("the other replica has it damaged too: it is the same") == 1

    scene(tmp_path, test)


@pytest.mark.parametrize("nobody", ["is known", "answers"])
def test_nobody_is_asked_for_each_of_many(tmp_path: Path, nobody: str) -> None:
    async def test(world: World) -> None:
        if nobody == "is known":
            world.slaves = []
        world.network.client = None
        for number in range(3):
            world.store.damage.remember(*world.places[number])
        await world.mending.mend()
        if nobody == "answers":
            assert len(world.store.damage.unasked) == 3
            world.clock.advance(PATIENCE_S)
            await world.mending.mend()
        assert world.store.damage.unasked == {}
        asked = world.asked_for_slaves
        world.store.damage.remember(*world.places[4])
        await world.mending.mend()
        assert world.store.damage.unasked == {}
        assert world.asked_for_slaves == asked + (nobody == "answers")
        world.clock.advance(60)
        world.slaves, world.network.client = ["10.0.0.2:10911"], world.pair.slave.connect()
        for number in range(3):
            world.flip(number)
        await world.mending.mend()
        assert len(bodies_of(world.store)) == COUNT

    scene(tmp_path, test)


def test_another_record_is_not_taken(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        begin, size = world.places[2]
        world.flip(2)
        world.store.damage.remember(begin, size - 1)
        await world.mending.mend()
        assert world.store.damage.places == {begin: size - 1}
        world.slaves = []
        world.clock.advance(PAUSES_S[1])
        await world.mending.mend()
        assert world.store.damage.unasked == {}

    scene(tmp_path, test)


def test_a_master_has_the_service_and_asks_as_soon_as_something_is_found(tmp_path: Path) -> None:
    """That of a slave is another one."""

    async def test(world: World) -> None:
        master, slave = (each.broker.replication for each in (world.pair.master, world.pair.slave))
        found = [[type(each) for each in side.services] for side in (master, slave)]
        assert [MasterMending in each for each in found] == [True, False]
        service = asyncio.create_task(world.mending.run())
        await turns()
        world.flip(2)
        assert world.numbers(2) == (0, 2)
        while world.store.damage.places:
            await asyncio.sleep(0)
        assert world.numbers() == (COUNT, COUNT)
        service.cancel()

    scene(tmp_path, test)
