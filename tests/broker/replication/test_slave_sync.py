"""A slave's tables: taken over from the master, kept while the master is away, changed by nobody
else."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.replication.accepted_offsets import AcceptedOffsets, AcceptedOffsetTable
from aiorocketmq.broker.replication.slave_sync import (
    SOON_S,
    SYNC_S,
    SlaveSync,
)
from aiorocketmq.broker.state.consumer_offsets import NO_OFFSET, ConsumerOffsets
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.offset import UpdateConsumerOffsetRequest
from aiorocketmq.remoting.protocol.commands.pull import (
    PullMessageRequest,
    PullSysFlag,
    ViewMessageRequest,
)
from aiorocketmq.remoting.protocol.commands.route import RegisterBrokerResponse
from aiorocketmq.remoting.protocol.commands.topic import KnownTableRequest
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.system_disk import SystemDisk
from aiorocketmq.store.model.config import BrokerRole, MessageStoreConfig

from ..sim_broker import SimBroker, SimClient, sim_broker
from ..transaction_scenes import GROUP, HALF, half

MASTER = "10.0.0.1:10911"
KEY = "T@g"
NOT_SERVED = RequestCode.DLEDGER_HANDSHAKE
TABLES = 4
"""Requests with which all tables are taken over."""


# -- whose offset counts


def accepted_after(*commits: int, master: int = 50) -> AcceptedOffsets:
    accepted = AcceptedOffsets()
    accepted.heard({KEY: {0: master}})
    for offset in commits:
        accepted.accept(KEY, 0, offset)
    return accepted


def test_what_was_accepted_is_kept_until_the_master_comes_to_it() -> None:
    accepted = accepted_after(80, 100)
    assert not accepted.settled(KEY, 0, 50), "a master that was restarted knows what it knew"
    assert not accepted.settled(KEY, 0, 99)
    assert accepted.settled(KEY, 0, 120)
    assert accepted.settled(KEY, 0, 60), "from then on it is the master's again"


def test_a_reset_at_the_master_counts() -> None:
    assert accepted_after(100).settled(KEY, 0, 49)
    on_its_way = accepted_after(100)
    assert not on_its_way.settled(KEY, 0, 70)
    assert on_its_way.settled(KEY, 0, 60)


def test_a_consumer_may_go_back_at_the_slave_too() -> None:
    accepted = accepted_after(100, 60)
    assert not accepted.settled(KEY, 0, 50)
    assert accepted.settled(KEY, 0, 60)
    assert accepted_after(100, 40).settled(KEY, 0, 50)


def test_other_queues_are_the_masters() -> None:
    accepted = accepted_after(100)
    assert accepted.settled(KEY, 1, 5)
    assert accepted.settled("T@other", 0, 5)


def test_it_survives_a_restart() -> None:
    again = AcceptedOffsets()
    again.load(decode_body(AcceptedOffsetTable, encode_body(accepted_after(100).record())))
    assert not again.settled(KEY, 0, 50)
    assert again.settled(KEY, 0, 49)


@pytest.mark.parametrize(("saved", "begun"), [(None, 100), (40, 100), (120, 120)])
def test_a_start_knows_what_was_accepted_though_the_other_file_is_older(
    saved: int | None, begun: int
) -> None:
    """Or the group has no place at all: the master's counts only when it has come to this one."""
    offsets = ConsumerOffsets()
    if saved is not None:
        offsets.commit("g", "T", 0, saved)
    accepted_after(100).restore(offsets)
    assert offsets.get("g", "T", 0) == begun


@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 50), min_size=1))
def test_a_place_is_lowered_by_a_reset_only(commits: list[int], heard: list[int]) -> None:
    accepted = accepted_after(*commits, master=heard[0])
    place = max([heard[0], *commits[-1:]]) if commits else heard[0]
    before = heard[0]
    for master in heard:
        if accepted.settled(KEY, 0, master):
            assert master >= place or master < before or not commits
            place = master
        before = master


# -- the service


class Network:
    """Asks the master's broker, or nobody when it is away."""

    def __init__(self, client: SimClient) -> None:
        self.client: SimClient | None = client
        self.asked: list[tuple[str, RequestCode]] = []
        self.told: dict[RequestCode, bytes] = {}
        """The last answer."""
        self.original = False
        """A master of the original, which reads over what a slave of ours tells."""
        self.vip = True
        self.backs_off = False
        """As a client does whose last attempt was in vain a moment ago."""
        self.next: SimClient | None = None
        """Behind the same address, once the last record was asked for."""

    def connected_to(self, _address: str) -> SimClient | None:
        return self.client

    async def connection(self, address: str, *, timeout: float) -> SimClient:
        if self.client is None or self.backs_off:
            raise ConnectError(f"cannot connect to {address}")
        return self.client

    def try_again(self, _address: str) -> None:
        self.backs_off = False

    async def invoke(
        self, address: str, code: RequestCode, header: Record | None = None, *, timeout: float
    ) -> Response:
        if code not in (RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.GET_QUEUE_ENDS):
            self.asked.append((address, code))
        if self.client is None or self.backs_off or (not self.vip and address.endswith(":10909")):
            raise ConnectError(f"cannot connect to {address}")
        tables = code in (
            RequestCode.GET_ALL_TOPIC_CONFIG,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            RequestCode.GET_ALL_CONSUMER_OFFSET,
        )
        if self.original and isinstance(header, ViewMessageRequest):
            header = ViewMessageRequest(offset=header.offset)
        if self.original and code is RequestCode.GET_QUEUE_ENDS:
            return await self.client.ask(NOT_SERVED)
        response = await self.client.ask(code, None if self.original and tables else header)
        self.told[code] = response.body
        if self.next is not None and code is RequestCode.VIEW_MESSAGE_BY_ID:
            self.client, self.next = self.next, None
        return response


class Pair:
    """A master, a slave that was told of it, and a client of each."""

    def __init__(self, master: SimBroker, slave: SimBroker) -> None:
        self.master, self.slave = master, slave
        self.at_master, self.at_slave = master.connect(), slave.connect()
        self.network = Network(master.connect())
        assert slave.broker.replication.slave is not None
        self.sync: SlaveSync = slave.broker.replication.slave.sync
        self.sync._remoting = self.network  # type: ignore[assignment]
        slave.broker.replication.slave.registered(
            RegisterBrokerResponse(ha_server_addr="10.0.0.1:10912", master_addr=MASTER)
        )

    async def once(self) -> None:
        await self.sync.sync(MASTER)

    def replicate(self, end: int | None = None) -> None:
        source, target = self.master.broker.store, self.slave.broker.store
        data = source.read(
            target.max_phy_offset, (end or source.max_phy_offset) - target.max_phy_offset
        )
        assert data is not None
        target.replica.append(target.max_phy_offset, data)

    async def passes(self, seconds: float) -> None:
        self.slave.clock.advance(seconds)
        await turns()

    async def synced(self) -> None:
        await self.slave.broker.store.sync()
        await turns()

    def offset(self) -> int:
        return self.slave.broker.state.offsets.get("g", "T", 0)


def config_of(folder: Path, role: BrokerRole) -> MessageStoreConfig:
    return MessageStoreConfig(
        store_path_root_dir=str(folder),
        broker_role=role,
        mapped_file_size_commit_log=1 << 20,
        mapped_file_size_consume_queue=20_000,
        max_hash_slot_num=100,
        max_index_num=400,
    )


def play(folder: Path, scene: Callable[[Pair], Awaitable[None]], **config: Any) -> None:
    async def run() -> None:
        async with (
            sim_broker(
                folder / "m", store=config_of(folder / "m", BrokerRole.ASYNC_MASTER), **config
            ) as master,
            sim_broker(
                folder / "s", store=config_of(folder / "s", BrokerRole.SLAVE), broker_id=1, **config
            ) as slave,
        ):
            await scene(Pair(master, slave))

    asyncio.run(run())


async def turns() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


def commit(offset: int) -> UpdateConsumerOffsetRequest:
    return UpdateConsumerOffsetRequest(
        consumer_group="g", topic="T", queue_id=0, commit_offset=offset
    )


def test_topics_groups_and_offsets_become_those_of_the_master(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        master, slave = pair.master.broker, pair.slave.broker
        master.state.topics.update(
            TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=3)
        )
        master.state.groups.update(SubscriptionGroupConfig(group_name="g", retry_max_times=3))
        await pair.at_master.send("T", b"")
        pair.replicate()
        pair.slave.clock.advance(5)
        slave.state.topics.update(TopicConfig(topic_name="Gone"))
        slave.state.groups.update(SubscriptionGroupConfig(group_name="gone"))
        master.tables.delay_offsets.set(3, 17)
        await pair.at_master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(7))
        await pair.once()
        assert slave.state.topics.record() == master.state.topics.record()
        assert slave.state.groups.record() == master.state.groups.record()
        assert slave.state.offsets.record() == master.state.offsets.record()
        await pair.synced()
        assert slave.tables.delay_offsets.get(3) == 17
        await asyncio.gather(*(file.saved() for file in slave.tables.files._files))
        for name in ("topics.json", "subscriptionGroup.json", "delayOffset.json"):
            assert (tmp_path / "s" / "config" / name).exists()
        assert [address for address, _ in pair.network.asked] == [
            "10.0.0.1:10909",
            MASTER,
            MASTER,
            MASTER,
        ]

    play(tmp_path, scene)


@pytest.mark.parametrize("original", [False, True])
def test_topics_and_groups_that_are_known_are_not_sent(tmp_path: Path, original: bool) -> None:
    async def scene(pair: Pair) -> None:
        master, slave, told = pair.master.broker, pair.slave.broker, pair.network.told
        topics = RequestCode.GET_ALL_TOPIC_CONFIG
        groups = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        pair.network.original = original

        def are_the_same() -> bool:
            return (
                slave.state.topics.record() == master.state.topics.record()
                and slave.state.groups.record() == master.state.groups.record()
            )

        master.state.topics.update(TopicConfig(topic_name="T"))
        master.state.groups.update(SubscriptionGroupConfig(group_name="g"))
        await pair.once()
        assert told[topics]
        assert told[groups]
        assert are_the_same()
        await pair.once()
        assert bool(told[topics]) == bool(told[groups]) == original
        assert told[RequestCode.GET_ALL_CONSUMER_OFFSET]
        assert are_the_same()
        master.state.topics.update(TopicConfig(topic_name="T2"))
        slave.state.groups.update(SubscriptionGroupConfig(group_name="gone"))
        await pair.once()
        assert told[topics]
        assert told[groups]
        assert are_the_same()

    play(tmp_path, scene)


@pytest.mark.parametrize("original", [False, True])
def test_of_offsets_what_has_changed_is_sent(tmp_path: Path, original: bool) -> None:
    async def scene(pair: Pair) -> None:
        master, slave = pair.master.broker.state.offsets, pair.slave.broker.state.offsets
        pair.network.original = original

        async def sent() -> set[str]:
            """By whom it was sent offsets; it has the master's then."""
            await pair.once()
            assert slave.record() == master.record()
            body = pair.network.told[RequestCode.GET_ALL_CONSUMER_OFFSET]
            return {
                key.partition("@")[2] for key in decode_body(ConsumerOffsetTable, body).offset_table
            }

        for group in (groups := ["a", "b", "c"]):
            master.commit(group, "T", 0, 5)
        assert await sent() == set(groups)
        assert await sent() == (set(groups) if original else set())
        master.commit(groups[2], "T", 0, 6)
        master.commit("a", "T", 0, 5)
        assert await sent() == (set(groups) if original else {groups[2]})
        slave.commit("b", "T", 0, 3)
        master.clone("a", "d", "T")
        assert await sent() == ({*groups, "d"} if original else {"d"})
        at_once(slave.remove_group("d"))
        at_once(master.remove_group("d"))
        assert await sent() == set(groups), "nothing comes back"
        pair.sync.forget_master()
        assert await sent() == set(groups), "another master"

    play(tmp_path, scene)


def test_offsets_that_the_master_deletes_go_at_its_slave(tmp_path: Path) -> None:
    """A group that is made anew must not go on at its old place after a failover."""

    async def scene(pair: Pair) -> None:
        master, slave = pair.master.broker.state.offsets, pair.slave.broker.state.offsets
        for group in ("a", "b"):
            master.commit(group, "T", 0, 5)
        slave.commit("own", "T", 0, 5)
        await pair.once()
        for group in ("a", "b"):
            pair.sync._accepted.accept(f"T@{group}", 0, 9)
        at_once(master.remove_group("a"))
        changes = slave.changes
        await pair.once()
        assert [slave.get(group, "T", 0) for group in ("a", "b", "own")] == [-1, 5, 5]
        assert slave.changes == changes + 1, "it is written"
        assert pair.sync._accepted.record().accepted_table.keys() == {"T@b"}

    play(tmp_path, scene)


def test_offsets_that_a_master_started_again_lacks_are_kept(tmp_path: Path) -> None:
    """It may have lost them."""

    async def scene(pair: Pair) -> None:
        slave = pair.slave.broker.state.offsets
        pair.master.broker.state.offsets.commit("a", "T", 0, 5)
        await pair.once()
        async with sim_broker(
            tmp_path / "n", store=config_of(tmp_path / "n", BrokerRole.ASYNC_MASTER)
        ) as again:
            again.broker.state.offsets.commit("b", "T", 0, 6)
            pair.network.client = again.connect()
            await pair.once()
            await pair.once()
            assert [slave.get(group, "T", 0) for group in ("a", "b")] == [5, 6]

    play(tmp_path, scene)


def test_what_changed_since_is_nothing_for_who_has_forgotten(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        offsets = pair.master.broker.state.offsets
        for group in ("a", "b"):
            offsets.commit(group, "T", 0, 5)
        await pair.once()
        ask = pair.network.invoke

        async def ask_and_forget(*args: Any, **how: Any) -> Response:
            response = await ask(*args, **how)
            if args[1] is RequestCode.GET_ALL_CONSUMER_OFFSET:
                pair.sync.forget_master()
            return response

        offsets.commit("a", "T", 0, 6)
        pair.network.invoke = ask_and_forget  # type: ignore[method-assign]
        await pair.once()
        pair.network.invoke = ask  # type: ignore[method-assign]
        pair.slave.broker.state.offsets.commit("b", "T", 0, 3)
        await pair.once()
        assert pair.slave.broker.state.offsets.record() == offsets.record()

    play(tmp_path, scene)


@pytest.mark.parametrize("known", ["", "-", "-0", "x-0", "~-", "~-+1", "~-99", "~-" + "9" * 5000])
def test_who_knows_nothing_gets_all_offsets(tmp_path: Path, known: str) -> None:
    async def scene(pair: Pair) -> None:
        pair.master.broker.state.offsets.commit("g", "T", 0, 7)
        code = RequestCode.GET_ALL_CONSUMER_OFFSET
        plain = await pair.at_master.ask(code)
        assert plain.ext_fields == {}, "as the original answers"
        state: str = (await pair.at_master.ask(code, KnownTableRequest(known=""))).header.state
        process = state.partition("-")[0]
        asked = KnownTableRequest(known=known.replace("~", process))
        response = await pair.at_master.ask(code, asked)
        assert response.header.since is None
        assert response.body == plain.body

    play(tmp_path, scene)


@pytest.mark.parametrize("messages", [1, 100], ids=["one record", "a piece of many"])
def test_topics_are_asked_for_when_the_log_brings_one_that_is_not_known(
    tmp_path: Path, messages: int
) -> None:
    """Else a master that is lost within 10 s leaves messages behind that nobody can read."""

    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        assert len(pair.network.asked) == TABLES
        pair.slave.clock.advance(SOON_S)
        await pair.master.make_topic("T")
        for _ in range(messages):
            await pair.at_master.send("T", b"hello")
        assert "T" not in pair.slave.broker.state.topics
        pair.replicate()
        await turns()
        assert [code for _, code in pair.network.asked[TABLES:]] == [
            RequestCode.GET_ALL_TOPIC_CONFIG
        ]
        assert "T" in pair.slave.broker.state.topics
        pair.slave.clock.advance(SOON_S)
        await pair.at_master.send("T", b"hello", queue_id=1)
        pair.replicate()
        await turns()
        assert len(pair.network.asked) == TABLES + 1, "a new queue of a known topic"
        pair.slave.clock.advance(SYNC_S)
        await turns()
        assert len(pair.network.asked) == 2 * TABLES + 1
        service.cancel()

    play(tmp_path, scene)


def test_a_topic_that_was_deleted_and_made_again_is_asked_for_too(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await with_a_deleted_topic(pair, "T")
        at_once(pair.master.broker.store.delete_topic_in_slices("T"))
        await pair.at_master.send("T", b"after")
        pair.replicate()
        await pair.passes(2.1 * SOON_S)
        assert "T" in pair.slave.broker.state.topics
        service.cancel()

    play(tmp_path, scene)


async def with_a_deleted_topic(pair: Pair, name: str) -> None:
    await pair.at_master.send(name, b"hello")
    pair.master.broker.state.topics.delete(name)
    pair.replicate()
    await turns()


def test_the_longer_asking_for_topics_brings_nothing_the_more_seldom_it_is_done(
    tmp_path: Path,
) -> None:
    async def scene(pair: Pair) -> None:
        asked, ends = pair.network.asked, []
        for name in ("A", "B", "C"):
            await pair.at_master.send(name, b"hello")
            pair.master.broker.state.topics.delete(name)
            ends.append(pair.master.broker.store.max_phy_offset)
        service = asyncio.create_task(pair.sync.run())
        await turns()
        pair.replicate(ends[0])
        await turns()
        assert len(asked) == TABLES + 1
        pair.replicate(ends[1])
        await pair.passes(1.9 * SOON_S)
        assert len(asked) == TABLES + 1
        await pair.passes(0.2 * SOON_S)
        assert len(asked) == TABLES + 2
        pair.replicate(ends[2])
        await pair.passes(3.9 * SOON_S)
        assert len(asked) == TABLES + 2
        await pair.passes(0.2 * SOON_S)
        assert len(asked) == TABLES + 3
        await pair.passes(5 * SOON_S)
        assert len(asked) == TABLES + 3, "there is nothing to ask for"
        service.cancel()

    play(tmp_path, scene)


def test_topics_that_could_not_be_asked_for_are_asked_for_again(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await pair.master.make_topic("T")
        await pair.at_master.send("T", b"hello")
        here, pair.network.client = pair.network.client, None
        pair.replicate()
        await turns()
        pair.network.client = here
        assert "T" not in pair.slave.broker.state.topics
        await pair.passes(2.1 * SOON_S)
        assert "T" in pair.slave.broker.state.topics
        service.cancel()

    play(tmp_path, scene)


def test_a_master_that_is_away_for_long_is_asked_now_and_then(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await pair.at_master.send("T", b"hello")
        pair.network.client = None
        pair.replicate()
        await turns()
        for _ in range(60):
            await pair.passes(SYNC_S / 20)
        each_time = (
            7 + TABLES
        )  # 0.1, 0.2, 0.4, ... s later, then all tables; at two ports where topics are asked for
        assert len(pair.network.asked) < 3 * 2 * each_time
        service.cancel()

    play(tmp_path, scene)


def test_a_master_without_its_second_port_is_asked_at_the_first(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        pair.master.broker.state.topics.update(TopicConfig(topic_name="T"))
        pair.network.vip = False
        await pair.once()
        assert "T" in pair.slave.broker.state.topics

    play(tmp_path, scene)


def test_a_place_committed_while_the_master_was_away_is_not_lowered_when_it_comes_back(
    tmp_path: Path,
) -> None:
    async def scene(pair: Pair) -> None:
        await pair.at_master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(50))
        await pair.once()
        assert pair.offset() == 50
        here, pair.network.client = pair.network.client, None
        await pair.at_slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(100))
        await pair.once()
        pair.network.client = here
        await pair.once()
        assert pair.offset() == 100
        await pair.at_master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(60))
        await pair.once()
        assert pair.offset() == 100, "somebody began at the master's old place"
        await pair.at_master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(10))
        await pair.once()
        assert pair.offset() == 10, "a reset"

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (RequestCode.SEND_MESSAGE, ResponseCode.SERVICE_NOT_AVAILABLE),
        (RequestCode.SEND_MESSAGE_V2, ResponseCode.SERVICE_NOT_AVAILABLE),
        (RequestCode.SEND_BATCH_MESSAGE, ResponseCode.SERVICE_NOT_AVAILABLE),
        (RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SERVICE_NOT_AVAILABLE),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SYSTEM_ERROR),
        (RequestCode.DELETE_TOPIC_IN_BROKER, ResponseCode.SYSTEM_ERROR),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ResponseCode.SYSTEM_ERROR),
        (RequestCode.DELETE_SUBSCRIPTIONGROUP, ResponseCode.SYSTEM_ERROR),
        (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, ResponseCode.SYSTEM_ERROR),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_what_a_slave_refuses(tmp_path: Path, code: RequestCode, answer: ResponseCode) -> None:
    async def scene(pair: Pair) -> None:
        table = pair.slave.broker.table
        reply = table[code](None, b"", None)  # type: ignore[arg-type]  # it looks at nothing
        assert reply.code == answer  # type: ignore[union-attr]
        assert "slave" in reply.remark  # type: ignore[union-attr, operator]
        is_send = code.name.startswith("SEND_")
        assert (reply.header is not None) == is_send, "region and trace stand on answers to sends"  # type: ignore[union-attr]

    play(tmp_path, scene)


def test_a_slave_that_becomes_a_master_has_no_offsets_behind_its_end(tmp_path: Path) -> None:
    """Consumers may have read at the old master what never came here: the next messages would be
    passed over."""

    async def scene(pair: Pair) -> None:
        await pair.at_master.send("T", b"one")
        await pair.once()
        pair.replicate()
        await pair.at_slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit(3))
        pair.slave.broker.tables.offsets_file.changed()

    async def as_master() -> None:
        store = config_of(tmp_path / "s", BrokerRole.ASYNC_MASTER)
        async with sim_broker(tmp_path / "s", store=store) as promoted:
            assert promoted.broker.state.offsets.get("g", "T", 0) == 1
            assert not (tmp_path / "s" / "config" / "slaveOffset.json").exists()

    play(tmp_path, scene)
    assert (tmp_path / "s" / "config" / "slaveOffset.json").exists()
    asyncio.run(as_master())


def test_a_slave_is_not_ahead_of_its_log_with_what_its_master_has_delivered(
    tmp_path: Path,
) -> None:
    """Should it become master, what was delivered and has not come here is delivered by it."""

    async def scene(pair: Pair) -> None:
        master, slave = pair.master.broker, pair.slave.broker
        await pair.at_master.send("T", b"later", properties="DELAY\x011")
        await half(pair.master, pair.at_master)
        pair.replicate()
        pair.master.clock.advance(60)
        while not master.storage.schedule.deliver_due():
            pass
        await master.storage.transaction_check.check()
        assert master.tables.delay_offsets.get(1) == 1
        for _ in range(2):
            await pair.once()
            assert slave.tables.delay_offsets.get(1) == 0
            assert slave.state.offsets.get(GROUP, HALF, 0) == NO_OFFSET
        pair.replicate()
        await pair.passes(SOON_S)
        assert slave.tables.delay_offsets.get(1) == 0, "a power failure would cost its log the end"
        assert slave.state.offsets.get(GROUP, HALF, 0) == NO_OFFSET
        await pair.synced()
        assert slave.tables.delay_offsets.get(1) == 1
        assert slave.state.offsets.get(GROUP, HALF, 0) == 1

    play(tmp_path, scene)


def test_a_slave_with_nothing_yet_does_not_go_on_where_its_master_is(tmp_path: Path) -> None:
    """It follows a master that has much for it, and is lost before that has come."""

    async def scene(pair: Pair) -> None:
        master, slave = pair.master.broker, pair.slave.broker
        await pair.at_master.send("T", b"later", properties="DELAY\x011")
        end = master.store.max_phy_offset
        pair.master.clock.advance(60)
        while not master.storage.schedule.deliver_due():
            pass
        for _ in range(2):
            await pair.once()
            assert slave.tables.delay_offsets.get(1) == 0
        pair.replicate(end)
        await pair.once()
        assert slave.tables.delay_offsets.get(1) == 0, "it has the message, and not what came of it"
        pair.replicate()
        await pair.synced()
        await pair.passes(SOON_S)
        assert slave.tables.delay_offsets.get(1) == 1

    play(tmp_path, scene)


# -- reading


def pull(offset: int = 0) -> PullMessageRequest:
    return PullMessageRequest(
        consumer_group="g", topic="T", queue_id=0, queue_offset=offset, max_msg_nums=32,
        commit_offset=99,
        sys_flag=PullSysFlag.SUBSCRIPTION | PullSysFlag.COMMIT_OFFSET, suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )  # fmt: skip


@pytest.mark.parametrize(("slave_read_enable", "suggested"), [(False, 0), (True, 4)])
def test_a_slave_hands_out_messages_and_says_where_to_go_on(
    tmp_path: Path, slave_read_enable: bool, suggested: int
) -> None:
    async def scene(pair: Pair) -> None:
        pair.master.broker.state.groups.update(SubscriptionGroupConfig(group_name="g", broker_id=4))
        await pair.at_master.send("T", b"hello")
        await pair.once()
        pair.replicate()
        answer = (await pair.at_slave.ask(RequestCode.PULL_MESSAGE, pull())).check()
        assert b"hello" in bytes(answer.body)
        assert answer.header.suggest_which_broker_id == suggested
        assert pair.offset() == -1, "an offset in a pull is for the master"
        beyond = await pair.at_slave.ask(RequestCode.PULL_MESSAGE, pull(500))
        assert beyond.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert beyond.header.next_begin_offset == 500

    play(tmp_path, scene, slave_read_enable=slave_read_enable)


@pytest.mark.parametrize("master", ["ours", "original", "away"])
def test_a_deleted_group_that_goes_on_reading_at_a_slave_is_served_and_made_by_nobody(
    tmp_path: Path, master: str
) -> None:
    async def scene(pair: Pair) -> None:
        await pair.at_master.send("T", b"hello")
        await pair.at_master.heartbeat("c", "g")
        pair.replicate()
        pair.network.original = master == "original"
        await pair.once()
        slave, served = pair.slave.broker.state, pair.at_slave
        assert "g" in slave.groups
        pair.master.broker.state.groups.delete("g")
        pair.master.broker.state.topics.delete("%RETRY%g")
        await pair.once()
        if master == "away":
            pair.network.client = None
        before = slave.topics.record(), slave.groups.record()
        assert (await served.heartbeat("c", "g")).code == 0
        answer = (await served.ask(RequestCode.PULL_MESSAGE, pull())).check()
        assert b"hello" in bytes(answer.body)
        assert (slave.topics.record(), slave.groups.record()) == before
        assert slave.consumers.client_ids("g") == ["c"]

    play(tmp_path, scene)


def test_what_a_slave_takes_counts_as_put(tmp_path: Path) -> None:
    """As in the original: clusterList shows InTPS of slaves."""

    async def scene(pair: Pair) -> None:
        broker = pair.slave.broker
        await pair.at_master.send("T", b"first")
        pair.replicate()
        for _ in range(11):
            broker.monitoring.sampler.sample()
            pair.slave.clock.advance(1.0)
        for number in range(50):
            await pair.at_master.send("T", b"%d" % number, queue_id=number % 4)
        pair.replicate()
        broker.monitoring.sampler.sample()
        (ten, *_) = broker.monitoring.sampler.rates()
        assert ten is not None
        assert ten.put == 5.0
        answer = (await pair.at_slave.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).check()
        table = decode_body(KVTable, answer.body).table
        assert table["putMessageTimesTotal"] == table["msgPutTotalTodayNow"] == "51"
        assert table["putMessageSizeTotal"] == str(broker.store.max_phy_offset)

    play(tmp_path, scene)


def test_topics_that_a_master_did_not_live_to_tell_of_are_known_to_the_next_one(
    tmp_path: Path,
) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await pair.master.make_topic("Told")
        await pair.at_master.send("Told", b"x")
        pair.replicate()
        pair.slave.clock.advance(SOON_S)
        await turns()
        assert "Told" in pair.slave.broker.state.topics
        pair.network.client = None
        await pair.master.make_topic("Untold")
        await pair.at_master.send("Untold", b"x")
        pair.replicate()
        pair.slave.clock.advance(SOON_S)
        await turns()
        assert pair.sync.leads() == ["Untold"]
        assert pair.sync.leads() == []
        assert pair.sync.master is None
        service.cancel()

    play(tmp_path, scene)


def test_what_is_left_in_the_log_of_a_deleted_topic_makes_none(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await pair.master.make_topic("T")
        await pair.at_master.send("T", b"x")
        pair.master.broker.state.topics.delete("T")
        pair.replicate()
        pair.slave.clock.advance(SOON_S)
        await turns()
        assert pair.sync.leads() == []
        service.cancel()

    play(tmp_path, scene)


def test_who_has_another_master_takes_over_from_nobody_until_it_is_known(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        pair.sync.forget_master()
        service = asyncio.create_task(pair.sync.run())
        await turns()
        assert not pair.network.asked
        pair.sync.master_is(MASTER)
        await turns()
        assert len(pair.network.asked) == TABLES
        pair.sync.forget_master()
        await pair.passes(SYNC_S)
        assert len(pair.network.asked) == TABLES
        service.cancel()

    play(tmp_path, scene)


def test_what_a_master_says_that_it_has_changed_is_taken_over_soon(tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        service = asyncio.create_task(pair.sync.run())
        await turns()
        await pair.master.make_topic("T")
        pair.master.broker.state.groups.update(SubscriptionGroupConfig(group_name="g"))
        await pair.passes(SOON_S)
        assert "T" not in pair.slave.broker.state.topics
        pair.sync.tables_changed()
        await turns()
        assert "T" in pair.slave.broker.state.topics
        assert pair.slave.broker.state.groups.get("g") is not None
        assert len(pair.network.asked) == TABLES + 2
        service.cancel()

    play(tmp_path, scene)


def test_a_master_that_came_back_empty_is_not_believed(tmp_path: Path) -> None:
    """Its disk is lost; the tables of its slave may be the only ones."""

    async def scene(pair: Pair) -> None:
        await pair.master.make_topic("T")
        await pair.at_master.send("T", b"hello")
        pair.replicate()
        await pair.once()
        before = pair.slave.broker.state.topics.record()
        assert "T" in pair.slave.broker.state.topics
        async with sim_broker(
            tmp_path / "n", store=config_of(tmp_path / "n", BrokerRole.ASYNC_MASTER)
        ) as empty:
            pair.network.client = empty.connect()
            asked = len(pair.network.asked)
            await pair.once()
            assert len(pair.network.asked) == asked, "it is not even asked"
            assert pair.slave.broker.state.topics.record() == before

    play(tmp_path, scene)


def tables_of(sim: SimBroker) -> tuple[object, ...]:
    state = sim.broker.state
    return state.topics.record(), state.groups.record(), state.offsets.record()


def test_nor_is_one_that_comes_while_it_is_asked(tmp_path: Path) -> None:
    """What was asked first is another process."""

    async def scene(pair: Pair) -> None:
        await pair.master.make_topic("T")
        await pair.at_master.send("T", b"hello")
        pair.replicate()
        await pair.once()
        before = tables_of(pair.slave)
        await pair.master.make_topic("U")
        async with sim_broker(
            tmp_path / "n", store=config_of(tmp_path / "n", BrokerRole.ASYNC_MASTER)
        ) as empty:
            master, pair.network.next = pair.network.client, empty.connect()
            asked = len(pair.network.asked)
            await pair.once()
            assert len(pair.network.asked) > asked
            assert tables_of(pair.slave) == before
            pair.network.client = master
            await pair.once()
            assert "U" in pair.slave.broker.state.topics

    play(tmp_path, scene)


class UnreadableDisk(SystemDisk):
    """While it is ``broken``."""

    broken = False

    def read(self, fd: int, length: int, offset: int) -> bytes:
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(fd, length, offset)


def test_who_cannot_read_its_own_log_just_now_asks_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That ends nobody."""

    async def scene() -> None:
        at_m, at_s, disk = tmp_path / "m", tmp_path / "s", UnreadableDisk()

        def slave_of() -> AbstractAsyncContextManager[SimBroker]:
            return sim_broker(at_s, store=config_of(at_s, BrokerRole.SLAVE), broker_id=1, disk=disk)

        async with sim_broker(at_m, store=config_of(at_m, BrokerRole.ASYNC_MASTER)) as master:
            await master.make_topic("T")
            await master.connect().send("T", b"hello")
            async with slave_of() as slave:
                Pair(master, slave).replicate()
            async with slave_of() as slave:  # it looks for its last message in its queues
                pair, disk.broken = Pair(master, slave), True
                await pair.once()
                assert "T" not in slave.broker.state.topics
                assert "no tables are taken over from the master" in caplog.text
                disk.broken = False
                await pair.once()
                assert "T" in slave.broker.state.topics

    asyncio.run(scene())
