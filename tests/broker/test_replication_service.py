"""The two ends of replication on a connection that the test owns, and what answers wait for."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.replication.door import LinkSecurity
from aiorocketmq.broker.replication.master import ReplicationServer, SlaveLink, SlavePort
from aiorocketmq.broker.replication.slave import (
    FIRST_RETRY_S,
    PATIENCE_S,
    PAUSED_CHECK_S,
    MasterLink,
    ReplicationClient,
)
from aiorocketmq.broker.sends.durability import Durability
from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.transport.tls import TlsConfig, client_context
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.model.config import BrokerRole, FlushDiskType
from aiorocketmq.store.model.errors import StoreError, StoreFileError, SyncFailedError
from aiorocketmq.store.replica.replica_acks import ReplicaAcks
from aiorocketmq.store.replica.replication import BATCH_HEAD, ReplicationSettings
from aiorocketmq.store.replica.replication_secret import MAGIC

from ..sim import ManualClock, turns
from ..store.world import bodies_of, open_store, put_ok
from .replication_world import TlsWire, Wire, World, carry, fill, play


def test_the_slave_follows_and_acknowledges(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        end = fill(world.master, 100)
        here, there = world.connect()
        await carry(here, there)
        assert world.slave.max_phy_offset == end
        assert bodies_of(world.slave) == bodies_of(world.master)
        assert isinstance(here.own, SlaveLink)
        assert here.own.side.acked == end

    play(tmp_path, scene)


def test_nothing_is_sent_while_something_waits_to_be_read(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        fill(world.master, 700, 4000)
        here, there = world.connect()
        there.deliver()
        await turns(100)
        assert here.writes == [32_768 + BATCH_HEAD.size], (
            "this wire takes nothing at once: the batch that had begun"
        )
        await carry(here, there)
        assert world.slave.max_phy_offset == world.master.max_phy_offset

    play(tmp_path, scene)


def test_over_tls_a_master_sends_on_for_as_long_as_the_socket_takes_it(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        end = fill(world.master, 700, 4000)
        here, there = world.connect(TlsWire)
        there.deliver()
        await turns(100)
        assert sum(here.writes) > end, "without a word of the slave in between"
        await carry(here, there)
        assert world.slave.max_phy_offset == end

    play(tmp_path, scene)


def waiting(world: World, durability: Durability) -> list[int]:
    told: list[int] = []
    durability.when_stored(world.master.max_phy_offset, told.append)
    return told


def test_sends_wait_for_the_slave_and_wake_the_sender(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        durability = Durability(world.master, server=world.server)
        assert durability.waits
        fill(world.master, 1)
        assert waiting(world, durability) == [ResponseCode.SLAVE_NOT_AVAILABLE]
        here, there = world.connect()
        await carry(here, there)
        fill(world.master, 3)
        told = waiting(world, durability)
        await turns()
        assert not told
        here.deliver()
        assert not told, "the slave has it, but has not said so"
        world.clock.advance(0.25)
        assert (world.server.waiting, world.server.oldest_wait_s) == (1, 0.25)
        assert list(world.server.lags().values()) == [world.master.max_phy_offset // 4 * 3]
        there.deliver()
        assert told == [ResponseCode.SUCCESS]
        assert (world.server.waiting, world.server.oldest_wait_s) == (0, 0.0)
        assert list(world.server.lags().values()) == [0]

    play(tmp_path, scene)


def test_who_has_connected_and_said_nothing_is_no_slave_yet(tmp_path: Path) -> None:
    """A port scan, or one without the secret: it would be missed when it is gone."""

    async def scene(world: World) -> None:
        here, there = world.connect()
        assert world.server.lags() == {}
        await carry(here, there)
        assert list(world.server.lags().values()) == [0]

    play(tmp_path, scene)


def test_a_slave_gets_what_is_on_its_masters_disk_as_soon_as_it_is_there(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        durability = Durability(world.master, sync_flush=True, server=world.server)
        here, there = world.connect()
        await carry(here, there)
        fill(world.master, 3)
        told = waiting(world, durability)
        await carry(here, there)
        assert world.slave.max_phy_offset == 0
        await world.master.flush.sync_log()
        await turns()
        assert here.unread, "the sync has woken the sender"
        fill(world.master, 1)
        await carry(here, there)
        assert world.slave.max_phy_offset == world.master.flushed_offset
        assert world.master.flushed_offset < world.master.max_phy_offset
        world.master.flush._complete()
        assert told == [ResponseCode.SUCCESS]

    play(tmp_path, scene, flush=FlushDiskType.SYNC_FLUSH)


def test_a_slave_with_what_its_master_has_not_synced_is_not_ahead(tmp_path: Path) -> None:
    """The master's disk may fail when it starts again: what it has is there all the same."""

    async def scene(world: World) -> None:
        fill(world.master, 3)
        await world.master.flush.sync_log()
        here, there = world.connect()
        await carry(here, there)
        assert world.slave.max_phy_offset == world.master.max_phy_offset
        here.abort()
        await turns()
        world.master._log.flushed_offset = 0
        here, there = world.connect()
        await carry(here, there)
        assert not here.ended
        end = fill(world.master, 1)
        await world.master.flush.sync_log()
        world.server._send_to_all()
        await carry(here, there)
        assert world.slave.max_phy_offset == end

    play(tmp_path, scene, flush=FlushDiskType.SYNC_FLUSH)


def test_who_waits_too_long_gets_its_code_and_a_slave_that_goes_is_not_waited_for(
    tmp_path: Path,
) -> None:
    async def scene(world: World) -> None:
        durability = Durability(world.master, server=world.server)
        here, there = world.connect()
        await carry(here, there)
        watching = asyncio.create_task(world.server._watch())
        await turns()
        fill(world.master, 1)
        told = waiting(world, durability)
        world.clock.advance(2.9)
        await turns()
        assert not told
        world.clock.advance(0.2)
        await turns()
        assert told == [ResponseCode.FLUSH_SLAVE_TIMEOUT]
        here.abort()
        await turns()
        assert waiting(world, durability) == [ResponseCode.SLAVE_NOT_AVAILABLE]
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    play(tmp_path, scene)


def test_who_waits_when_the_master_stops_is_told(tmp_path: Path) -> None:
    class Listening:
        def close(self) -> None: ...

    async def nobody_comes(*_: object) -> None:
        await asyncio.Event().wait()

    async def scene(world: World) -> None:
        world.server._socket = Listening()  # type: ignore[assignment]
        world.server._accept = nobody_comes  # type: ignore[method-assign,assignment]
        here, there = world.connect()
        await carry(here, there)
        serving = asyncio.create_task(world.server.run())
        await turns()
        fill(world.master, 1)
        told = waiting(world, Durability(world.master, server=world.server))
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        assert told == [ResponseCode.FLUSH_SLAVE_TIMEOUT]

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("connected", "code"),
    [(False, ResponseCode.SLAVE_NOT_AVAILABLE), (True, ResponseCode.FLUSH_DISK_TIMEOUT)],
)
def test_of_disk_and_slaves_the_slaves_code_wins(
    tmp_path: Path, connected: bool, code: int
) -> None:
    async def scene(world: World) -> None:
        durability = Durability(world.master, sync_flush=True, server=world.server)
        if connected:
            await carry(*(wires := world.connect()))
        fill(world.master, 1)
        told = waiting(world, durability)
        await (carry(*wires) if connected else turns())
        assert not told, "it waits for both"
        world.clock.advance(10)
        flush: Any = world.master.flush
        flush._clock = world.clock  # the store's own clock stands still
        world.master.flush._complete()
        assert told == [code]

    play(tmp_path, scene)


def test_without_anything_to_wait_for_nobody_waits(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        assert not Durability(world.master).waits
        assert Durability(world.master, sync_flush=True).waits

    play(tmp_path, scene)


def test_with_ack_after_flush_the_disk_comes_first(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        here, there = world.connect()
        await carry(here, there)
        end = fill(world.master, 5)
        world.server._send_to_all()
        await carry(here, there)
        assert world.slave.max_phy_offset == end
        assert isinstance(here.own, SlaveLink)
        assert here.own.side.acked == 0
        flushing = asyncio.create_task(world.slave.run())
        async with asyncio.timeout(30):
            while here.own.side.acked != end:
                await asyncio.sleep(0.001)
                there.deliver()
        assert world.slave.flushed_offset == end
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)

    play(tmp_path, scene, ack_after_flush=True)


@pytest.mark.parametrize("for_good", [False, True])
def test_with_ack_after_flush_a_slave_whose_disk_fails_does_not_come(
    tmp_path: Path, for_good: bool
) -> None:
    """What it says first would be taken for something that its disk has."""

    async def scene(world: World) -> None:
        def fails(*_args: object) -> None:
            kind = SyncFailedError if for_good else StoreFileError
            raise kind(tmp_path, "cannot be synced")

        async def connects(make: Callable[[], MasterLink], *_args: Any, **_how: Any) -> None:
            connected.append(make())

        connected: list[MasterLink] = []
        asyncio.get_running_loop().create_connection = connects  # type: ignore[method-assign, assignment]
        await world.client._connect("10.0.0.1:10912")
        fill(world.master, 5)
        here, there = world.connect()
        await carry(here, there)
        assert world.slave.max_phy_offset > world.slave.flushed_offset == 0
        sync, world.slave.flush._sync_files = world.slave.flush._sync_files, fails  # type: ignore[method-assign, assignment]
        with pytest.raises(StoreError):
            await world.client._connect("10.0.0.1:10912")
        assert len(connected) == 1
        world.slave.flush._sync_files = sync  # type: ignore[method-assign]
        if not for_good:
            await world.client._connect("10.0.0.1:10912")
            assert len(connected) == 2

    play(tmp_path, scene, ack_after_flush=True)


def test_with_ack_after_flush_a_slave_whose_disk_fails_leaves(tmp_path: Path) -> None:
    """It would ask for a sync in every turn of the loop until its master said something."""

    async def scene(world: World) -> None:
        here, there = world.connect()
        await carry(here, there)
        fill(world.master, 5)
        world.server._send_to_all()
        await carry(here, there)
        assert world.slave.max_phy_offset > world.slave.flushed_offset
        world.slave.flush.broken = SyncFailedError(tmp_path, "cannot be synced")
        world.slave.flush._complete()
        await turns()
        assert there.ended

    play(tmp_path, scene, ack_after_flush=True)


def test_a_slave_that_nobody_tells_of_a_master_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its brokerName is misspelled, say."""

    async def scene(world: World) -> None:
        following = asyncio.create_task(world.client.run())
        await turns()
        assert not caplog.records
        world.clock.advance(PATIENCE_S)
        await turns()
        assert "not following the master" in caplog.text
        assert "no name server has told of one" in caplog.text
        verified = asyncio.Event()

        async def verify(_address: str) -> None:
            verified.set()
            raise StoreError("not now")

        world.client._verify = verify
        world.client.follow("10.0.0.1:10912")
        await verified.wait()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    play(tmp_path, scene)


@pytest.mark.parametrize("meanwhile", ["verify", "connect"])
def test_a_master_that_moves_before_it_is_followed_is_followed_where_it_is(
    tmp_path: Path, meanwhile: str
) -> None:
    """And not before it is known there that the logs are the same."""
    before, now = "10.0.0.1:10912", "10.0.0.2:10912"

    async def scene(world: World) -> None:
        done: list[tuple[str, str]] = []
        links: list[MasterLink] = []

        def does(what: str, address: str) -> None:
            done.append((what, address))
            if (what, address) == (meanwhile, before):
                world.client.follow(now)

        async def verify(address: str) -> None:
            does("verify", address)

        async def connects(make: Callable[[], MasterLink], host: str, port: int, **_: Any) -> None:
            links.append(make())
            does("connect", f"{host}:{port}")

        asyncio.get_running_loop().create_connection = connects  # type: ignore[method-assign, assignment]
        world.client._verify = verify
        world.client.follow(before)
        following = asyncio.create_task(world.client.run())
        await turns()
        world.clock.advance(FIRST_RETRY_S)
        await turns()
        assert done == [(what, at) for at in (before, now) for what in ("verify", "connect")]
        assert [link.ended for link in links] == [True, False]
        assert world.client.link is links[1]
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    play(tmp_path, scene)


def test_a_master_that_proves_nothing_is_left_after_five_seconds(tmp_path: Path) -> None:
    """One of the original takes the hello for offsets and says nothing."""

    async def scene(world: World) -> None:
        security = LinkSecurity(secret=b"a secret of slave and master")
        client = ReplicationClient(
            world.slave, world.settings, world.clock, world._verify, security=security
        )
        link = MasterLink(client)
        wire = Wire(link)
        link.connection_made(wire)
        assert bytes(wire.unread[:8]) == MAGIC
        for seconds, ended in ((4.9, False), (0.2, True)):
            world.clock.advance(seconds)
            link.check(world.clock.monotonic())
            assert link.ended is ended
        assert "haSecret" in link.reason

    play(tmp_path, scene)


def test_a_master_without_tls_is_not_followed_where_it_is_enforced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One of the original takes the handshake for offsets and says nothing."""
    monkeypatch.setattr("aiorocketmq.broker.replication.slave.TLS_HANDSHAKE_S", 0.05)

    async def scene(world: World) -> None:
        security = LinkSecurity(outbound=client_context(TlsConfig()))
        client = ReplicationClient(
            world.slave, world.settings, world.clock, world._verify, security=security
        )
        said = asyncio.Event()

        async def original(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(8):
                said.set()
            writer.close()

        server = await asyncio.start_server(original, "127.0.0.1", 0)
        client.follow(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        following = asyncio.create_task(client.run())
        async with asyncio.timeout(30):
            while "not following" not in caplog.text:
                await asyncio.sleep(0.001)
        assert said.is_set()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        server.close()
        await server.wait_closed()

    play(tmp_path, scene)
    assert (
        "enforcing demands: a master of the original has none on its port for slaves" in caplog.text
    )


def test_with_a_secret_the_log_is_copied_as_ever(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        security = LinkSecurity(secret=b"a secret of slave and master")
        acks = ReplicaAcks(1, 1 << 28, 3.0)
        server = ReplicationServer(
            world.master, world.settings, acks, world.clock, SlavePort(1), security=security
        )
        client = ReplicationClient(
            world.slave, world.settings, world.clock, world._verify, security=security
        )
        end = fill(world.master, 5)
        here, there = Wire(SlaveLink(server)), Wire(MasterLink(client))
        here.other, there.other = there, here
        for wire in (here, there):
            wire.own.connection_made(wire)
        await carry(here, there)
        assert world.slave.max_phy_offset == end

    play(tmp_path, scene)


def test_a_slave_that_is_ahead_is_refused_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: World) -> None:
        fill(world.master, 5)
        await carry(*world.connect())
        record = world.slave.message_by_offset(0)
        assert record is not None
        at = world.slave.max_phy_offset
        world.slave.replica.append(at, record[:28] + at.to_bytes(8, "big") + record[36:])
        for _ in range(3):
            here, there = world.connect()
            await carry(here, there)
            assert here.ended
        assert world.slave.max_phy_offset == at + len(record)

    with caplog.at_level(logging.ERROR):
        play(tmp_path, scene)
    lines = [
        record.getMessage() for record in caplog.records if "slave refused" in record.getMessage()
    ]
    assert len(lines) == 1
    assert "the slave is ahead" in lines[0]


@pytest.mark.parametrize("at", [0, 4, 84], ids=["magic", "crc", "body"])
def test_a_damaged_record_stops_no_replication(tmp_path: Path, at: int) -> None:
    async def scene(world: World) -> None:
        fill(world.master, 5)
        here, there = world.connect()
        there.deliver()
        await turns()
        here.unread[here.unread.index(b"\xda\xa3\x20\xa7") + at] ^= 1
        here.deliver()
        await turns()
        assert not there.ended
        assert world.slave.max_phy_offset == world.master.max_phy_offset
        assert world.slave.damage.found == 1

    play(tmp_path, scene)


def test_a_master_that_cannot_be_followed_is_tried_ever_more_seldom(tmp_path: Path) -> None:
    async def refused(_address: str) -> None:
        raise OSError("connection refused")

    async def main() -> None:
        slept: list[float] = []
        lost = 0

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 6:
                raise asyncio.CancelledError

        def is_lost() -> None:
            nonlocal lost
            lost += 1

        store = open_store(tmp_path, broker_role=BrokerRole.SLAVE)
        clock = ManualClock()
        clock.sleep = sleep  # type: ignore[method-assign]
        client = ReplicationClient(store, ReplicationSettings(), clock, refused, lost=is_lost)
        client.follow("10.0.0.1:10912")
        with pytest.raises(asyncio.CancelledError):
            await client.run()
        assert (slept, lost) == ([0.5, 1.0, 2.0, 4.0, 5.0, 5.0], 6)
        store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("mq..example", "mq..example"),
        ("x" * 64, "x" * 64),
        ("a\0b", ""),
        ("127.0.0.1", "look at its brokerIP2 and haListenPort"),
    ],
    ids=ascii,
)
def test_a_master_at_what_is_no_host_ends_no_slave(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, host: str, told: str
) -> None:
    """Name servers tell what whoever registered has said, and masters of a wrong port."""

    async def verified(_address: str) -> None: ...

    async def main() -> None:
        store = open_store(tmp_path, broker_role=BrokerRole.SLAVE)
        lost = asyncio.Event()
        client = ReplicationClient(
            store, ReplicationSettings(), ManualClock(), verified, lost=lost.set
        )
        client.follow(f"{host}:1")
        running = asyncio.create_task(client.run())
        await asyncio.wait(
            {running, waited := asyncio.create_task(lost.wait())}, return_when="FIRST_COMPLETED"
        )
        assert waited.done()
        assert not running.done()
        assert told in caplog.text
        running.cancel()
        store.close()

    asyncio.run(main())


def test_a_slave_whose_disk_has_failed_acknowledges_nothing_more(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        here, there = world.connect()
        await carry(here, there)
        world.slave.flush.broken = StoreFileError(tmp_path, "cannot be synced")
        fill(world.master, 1)
        world.server._send_to_all()
        await carry(here, there)
        assert isinstance(there.own, MasterLink)
        assert "cannot be synced" in there.own.reason
        assert there.ended
        assert world.slave.max_phy_offset == 0
        world.slave.flush.broken = None

    play(tmp_path, scene)


def test_house_keeping_ends_silent_connections(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        here, there = world.connect()
        await carry(here, there)
        assert isinstance(here.own, SlaveLink)
        assert isinstance(there.own, MasterLink)
        for _ in range(10):
            world.clock.advance(5.5)
            for end in (here.own, there.own):
                end.check(world.clock.monotonic())
            await carry(here, there)
        assert not here.ended, "heartbeats and reports go to and fro"
        world.clock.advance(20.1)
        there.own.check(world.clock.monotonic())
        await turns()
        assert here.ended
        assert there.ended

    play(tmp_path, scene)


@pytest.mark.parametrize("in_memory", [False, True])
def test_what_lies_far_back_is_brought_in_by_a_thread_if_it_is_not_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    monkeypatch.setattr("aiorocketmq.broker.replication.master.WARM_BYTES", 1000)
    monkeypatch.setattr("aiorocketmq.broker.replication.master.COLD_BYTES", 300_000)
    monkeypatch.setattr(MappedFile, "is_in_memory", lambda _file, _position, _length: in_memory)

    async def scene(world: World) -> None:
        end = fill(world.master, 300, 8000)
        loop_thread = threading.get_ident()
        asked: list[int] = []
        cold: list[int] = []
        bring_in = world.master.bring_in

        def watched(phy_offset: int, size: int) -> Callable[[], None] | None:
            read = bring_in(phy_offset, size)
            asked.append(phy_offset)
            return None if read is None else lambda: (read(), cold.append(threading.get_ident()))[0]

        world.master.bring_in = watched  # type: ignore[method-assign]
        async with asyncio.TaskGroup() as group:
            world.server._group = group
            here, there = world.connect()
            while world.slave.max_phy_offset < end:
                await asyncio.sleep(0.001)
                for wire in (here, there):
                    wire.deliver()
        files = end // world.master.config.mapped_file_size_commit_log + 1
        assert end // 300_000 <= len(asked) <= end // 300_000 + 1 + files, "not for every batch"
        assert cold == [] if in_memory else len(cold) == len(asked)
        assert loop_thread not in cold

    play(tmp_path, scene)


@pytest.mark.parametrize("warm_bytes", [1000, 1 << 30], ids=["far back", "near the end"])
def test_what_cannot_be_read_ends_the_connection_with_the_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    warm_bytes: int,
) -> None:
    monkeypatch.setattr("aiorocketmq.broker.replication.master.WARM_BYTES", warm_bytes)

    def refuse(_phy_offset: int, _size: int) -> None:
        raise StoreFileError(tmp_path, "has become shorter")

    async def scene(world: World) -> None:
        fill(world.master, 10)
        for name in ("bring_in", "view"):
            monkeypatch.setattr(world.master, name, refuse)
        here, there = world.connect()
        await carry(here, there)
        assert here.ended

    with caplog.at_level(logging.ERROR):
        play(tmp_path, scene)
    assert "has become shorter" in caplog.text


def test_while_the_index_comes_after_nothing_is_read_and_the_slave_looks_often_until_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq.broker.replication.slave.MAX_UNINDEXED", 100)

    async def scene(world: World) -> None:
        for number in range(150):
            put_ok(world.master, properties={"UNIQ_KEY": f"id{number}"})
        here, there = world.connect()
        link = there.own
        assert isinstance(link, MasterLink)
        follower = asyncio.create_task(world.client._follow(link, 0))
        await turns()
        await carry(here, there)
        assert link.paused
        world.slave._indexing.build_all()
        world.clock.advance(PAUSED_CHECK_S)
        await turns()
        assert not link.paused, "and not only at the next second"
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)

    play(tmp_path, scene)


def test_small_batches_go_out_as_many_as_the_system_takes_at_once(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        fill(world.master, 300, 4000)
        parts: list[int] = []
        here, there = world.connect()
        assert isinstance(here.own, SlaveLink)
        batches = here.own.side.batches

        def counted(data: bytes | memoryview, now: float) -> list[bytes | memoryview]:
            found = batches(data, now)
            parts.append(len(found))
            return found

        here.own.side.batches = counted  # type: ignore[method-assign]
        for _ in range(100):
            await carry_once(here, there)
        assert world.slave.max_phy_offset > 0
        assert max(parts) == 512

    async def carry_once(*wires: Wire) -> None:
        await turns(3)
        for wire in wires:
            wire.deliver()

    play(tmp_path, scene, batch_size=100)
