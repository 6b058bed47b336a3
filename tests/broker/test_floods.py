"""What lasts at a broker, because of a peer, the network or a disk, is some lines in its log."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from aiorocketmq.broker.acl.files import AclFiles
from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.filter.bloom import BloomFilter
from aiorocketmq.broker.pulls.offset_moved import OffsetMovedEvents
from aiorocketmq.broker.replication import slave_sync
from aiorocketmq.broker.replication.admission import Admission, NotAdmittedError, Visitor
from aiorocketmq.broker.replication.door import LinkSecurity, ReplicationDoor
from aiorocketmq.broker.replication.last_record import FirstAnswer
from aiorocketmq.broker.replication.slave import LONGEST_RETRY_S, MasterLink, ReplicationClient
from aiorocketmq.broker.state.consumer_filters import ConsumerFilters
from aiorocketmq.broker.state.queue_locks import QueueLocks
from aiorocketmq.broker.stats.broker_stats import BrokerStats
from aiorocketmq.remoting.outages import Outages
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.remoting.transport.accepting import Seats
from aiorocketmq.store.model.errors import StoreError
from aiorocketmq.store.model.status import PutResult, PutStatus
from aiorocketmq.store.replica.replication import ReplicationError, ReplicationSettings

from ..floods import TWO_MINUTES, told
from ..sim import ManualClock
from ..store.world import open_store
from .raft.test_door import door
from .raft.test_link import World as LinkWorld
from .raft.test_mending import World as MendingWorld
from .raft.world import PEERS, Group, ListStore
from .replication.slave_scenes import Pair, play
from .sends.test_fast_failure import Judged
from .sim_broker import SimBroker, SimClient
from .state.test_consumer_filters import sql
from .transaction_scenes import checked, half
from .transaction_scenes import play as play_transactions


@pytest.fixture(autouse=True)
def from_info_on(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, "aiorocketmq"):
        yield


def test_a_member_that_is_not_reached(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        world = LinkWorld(monkeypatch)
        world.there = False
        for second in range(130):
            world.send(b"1")
            await world.settled(second + 1)
            world.clock.advance(1)
        world.there = True
        world.send(b"1")
        await world.settled(131)

    asyncio.run(main())
    assert told(caplog, "member not reached peer=n1") == TWO_MINUTES


def test_strangers_at_a_members_port(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    it = door(clock=clock)
    for _ in range(130):
        for _ in range(10):
            it.enter("10.9.9.9")
        clock.advance(1)
    lines = [each.getMessage() for each in caplog.records]
    assert len(lines) == 3
    assert lines[2].endswith("and it is no member's address times=600")


def test_a_member_whose_vote_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = {"full": True}
    save = ListStore.save

    async def fails(store: ListStore, *values: Any) -> None:
        if disk["full"]:
            raise StoreError("No space left on device")
        await save(store, *values)

    monkeypatch.setattr(ListStore, "save", fails)

    async def main() -> None:
        group = Group({"n0": PEERS["n0"]})
        group.start()
        end = group.clock.monotonic() + 130
        await group.until(lambda: group.clock.monotonic() >= end, 200)
        disk["full"] = False
        await group.until(lambda: "over: member is silent" in caplog.text)
        await group.close()

    asyncio.run(main())
    assert told(caplog, "member is silent") == TWO_MINUTES


def test_a_damaged_log_of_a_member(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = MendingWorld(tmp_path)
    world.answer = world.entries[3]
    for _ in range(30):
        for place in world.store.damage.places:
            world.mending._tries.forget(place)  # as if each time another one had been found
        world.mend(5)
    assert len(told(caplog, "a damaged record is not mended")) == 3
    world.store.close()


class _ALink:
    """A connection to the master, for ``lasts`` seconds."""

    start = 0
    paused = False
    reason = "closed by the master"

    def __init__(self, clock: ManualClock, lasts: float) -> None:
        self._clock, self._end = clock, clock.monotonic() + lasts

    @property
    def ended(self) -> bool:
        return self._clock.monotonic() >= self._end

    def check(self, _now: float) -> None: ...

    async def wait(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def end(self, _reason: str) -> None: ...


def test_a_master_that_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, store = ManualClock(), open_store(tmp_path)
    away = {"is": True}

    async def verify(_address: str) -> None:
        if away["is"]:
            raise ReplicationError(f"it has another history at {clock.monotonic():.0f}")

    client = ReplicationClient(
        store, ReplicationSettings(), clock, verify, operating_errors=(ReplicationError,)
    )

    async def connect(_address: str) -> MasterLink:
        return cast(MasterLink, _ALink(clock, 2 * LONGEST_RETRY_S))

    monkeypatch.setattr(client, "_connect", connect)
    monkeypatch.setattr(asyncio, "timeout", lambda _seconds: asyncio.Lock())

    async def main() -> None:
        client.follow("10.0.0.1:10912")
        service = asyncio.ensure_future(client.run())
        for _ in range(130):
            await asyncio.sleep(0)
            clock.advance(1)
        away["is"] = False
        while "over: not following" not in caplog.text:
            await asyncio.sleep(0)
            clock.advance(1)
        service.cancel()
        await asyncio.wait([service])

    asyncio.run(main())
    assert told(caplog, "not following the master") == TWO_MINUTES
    store.close()


def test_slaves_that_may_not_come_in(caplog: pytest.LogCaptureFixture) -> None:
    class Full(Admission):
        def enter(self, _visitor: Visitor) -> Visitor | None:
            raise NotAdmittedError("too many of this address")

    async def nobody() -> frozenset[str]:
        return frozenset()

    async def main() -> None:
        clock = ManualClock()
        it = ReplicationDoor(
            Full(8), LinkSecurity(), clock, 1.0, Seats(1), lambda _: asyncio.Protocol(), nobody
        )
        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                ours, theirs = socket.socketpair()
                theirs.close()
                monkey = cast(socket.socket, _Named(ours))
                it.receive(monkey, group)
                clock.advance(1)

    asyncio.run(main())
    assert told(caplog, "slave refused slave=10.0.0.9") == [""]


class _Named:
    """A connection from another machine."""

    def __init__(self, sock: socket.socket) -> None:
        self.close = sock.close

    def getpeername(self) -> tuple[str, int]:
        return "10.0.0.9", 4711


def test_tables_of_a_master_that_does_not_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(pair: Pair) -> None:
        there, pair.network.client = pair.network.client, None
        for _ in range(13):
            await pair.once()
            pair.slave.clock.advance(10)
        pair.network.client = there
        await pair.once()

    play(tmp_path, scene)
    assert told(caplog, "no tables are taken over from the master") == TWO_MINUTES


def test_a_master_that_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lacks(*_question: object) -> FirstAnswer:
        return FirstAnswer("its log ends at 0", None)

    async def scene(pair: Pair) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(slave_sync, "ask_for_last_record", lacks)
            for _ in range(13):
                await pair.once()
                pair.slave.clock.advance(10)
        await pair.once()

    play(tmp_path, scene)
    assert told(caplog, "no tables are taken over") == TWO_MINUTES


def test_a_broker_on_the_brink_of_its_load(caplog: pytest.LogCaptureFixture) -> None:
    judged = Judged()
    for _ in range(600):
        judged.look(oldest_s=0.25, waiting=1)
        judged.clock.advance(0.1)
        judged.look(oldest_s=0.1, waiting=1)
        judged.clock.advance(0.1)
    assert told(caplog, "messages are refused") == ["", "over", "", "over"]


def test_more_filters_than_there_may_be(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    filters = ConsumerFilters(BloomFilter.for_groups(32, 20), Outages(clock))
    long = "a IN (" + ",".join(["'" + "x" * 100 + "'"] * 78) + ")"
    for number in range(200):
        at_once(filters.register(f"g{number}", [sql("T", long)], lambda: 100))
    for _ in range(130 // 10):  # heartbeats
        clock.advance(10)
        at_once(filters.register("g199", [sql("T", long)], lambda: 100))
    at_once(filters.register("g1", [sql("T", "a > 1", 200)], lambda: 200))
    assert told(caplog, "too many filters") == TWO_MINUTES


def test_who_unlocks_what_others_hold(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    locks, queue = QueueLocks(Outages(clock)), MessageQueue("T", "b", 0)
    for _ in range(130):
        locks.lock("g", "me", [queue], clock.time_ms())
        locks.unlock("g", "you", [queue])
        clock.advance(1)
    assert told(caplog, "unlock refused") == [""] * 3


def test_who_asks_again_and_again_for_what_is_not_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the event, that it cannot be stored is told, and that it can be again."""
    store, clock = open_store(tmp_path), ManualClock()
    events = OffsetMovedEvents(
        BrokerConfig(broker_ip1="127.0.0.1"),
        store,
        BrokerStats(),
        ("127.0.0.1", 1),
        clock,
    )
    request = PullMessageRequest(
        consumer_group="g", topic="T", queue_id=0, queue_offset=99, max_msg_nums=1, sys_flag=0,
        commit_offset=0, suspend_timeout_millis=0, sub_version=0,
    )  # fmt: skip
    store._refusals.by_role(PutResult(PutStatus.SERVICE_NOT_AVAILABLE))
    for _ in range(130):
        events.tell(request, 5)
        clock.advance(1)
    store._refusals.by_role(None)
    events.tell(request, 5)
    assert told(caplog, "no event of it stored") == TWO_MINUTES
    assert told(caplog, "offset out of range group=g") == [""] * 3
    store.close()


def test_members_of_a_group_with_several_wrong_expressions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    filters = ConsumerFilters(BloomFilter.for_groups(32, 20), Outages(clock))
    for number in range(130):
        for wrong in ("a >", "b <"):
            at_once(filters.register("g", [sql("T", wrong, number)], lambda: 100))
        clock.advance(1)
    assert told(caplog, "expression refused") == [""] * 6


def test_accounts_that_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        (tmp_path / "conf").mkdir()
        clock = ManualClock()
        files = AclFiles(tmp_path, "conf/plain_acl.yml", clock)
        files.default.write_text("accounts: [{accessKey: newcomer, secretKey: short}]")
        for _ in range(26):
            assert not await files.refresh()
            clock.advance(5)
        files.default.write_text("accounts: [{accessKey: newcomer, secretKey: my-secret}]")
        assert await files.refresh()

    asyncio.run(main())
    assert told(caplog, "ACL file cannot be used") == TWO_MINUTES


def test_transactions_whose_producers_are_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await half(world, client)
        producers = world.broker.state.producers
        for connection in list(producers.connections("pg")):
            producers.unregister("pg", connection)
        await checked(world)
        for _ in range(12):
            await checked(world, 10)
        await client.heartbeat("c1", producers=("pg",))
        await checked(world, 10)

    play_transactions(tmp_path, scene, transaction_check_max=99)
    assert told(caplog, "transactions have no producer to ask") == TWO_MINUTES
