"""Which answers of a SYNC_MASTER wait for a slave: sends, replies, commits and what is given back;
not what is delivered later.

As in the original, where all others have WAIT=false when they are stored (SendMessageProcessor,
EndTransactionProcessor, ReplyMessageProcessor, ScheduleMessageService), but for what is given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.sends.durability import Durability
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import (
    ConsumerSendMsgBackRequest,
    SendErrorFields,
    SendMessageRequest,
    SendMessageRequestV2,
)
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.wire import to_fields
from aiorocketmq.remoting.responses import Response
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole, FlushDiskType
from aiorocketmq.store.model.status import PutStatus

from ...sim import SimTransport, connect
from ..sim_broker import SimBroker, SimClient, sim_broker, store_config
from ..transaction_scenes import (
    COMMIT,
    HALF,
    OP,
    ROLLBACK,
    answer_to,
    asked,
    checked,
    end,
    half,
    word,
)

PUSH = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT


class Slave:
    """What the master knows of its only slave, which says nothing until the test wants it."""

    def __init__(self, sim: SimBroker) -> None:
        self._sim = sim
        self._acks = sim.broker.replication.master.server._acks
        self._acks.update([0])

    def acknowledge(self) -> None:
        self._acks.update([self._sim.broker.store.max_phy_offset])

    def go(self) -> None:
        self._acks.update([])

    @property
    def is_waited_for(self) -> bool:
        return bool(self._acks.waiting)

    async def must_acknowledge(self, request: Awaitable[Any]) -> Any:
        """The answer comes, but not before the slave has the message."""
        task = asyncio.ensure_future(request)
        while not self.is_waited_for:
            assert not task.done(), "it was answered at once"
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not task.done()
        self.acknowledge()
        return await task


@asynccontextmanager
async def sync_master(folder: Path) -> AsyncIterator[tuple[SimBroker, SimClient, Slave]]:
    store = store_config(folder, broker_role=BrokerRole.SYNC_MASTER)
    async with asyncio.timeout(30), sim_broker(folder, store=store) as sim:
        client = sim.connect()
        await sim.make_topic("T")
        await client.heartbeat("c1", "g", producers=("pg",))
        yield sim, client, Slave(sim)


def message(properties: dict[str, str], topic: str = "T") -> SendMessageRequest:
    return SendMessageRequest(
        producer_group="pg", topic=topic, default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties=encode_properties(properties).decode(),
    )  # fmt: skip


def test_a_send_waits_unless_its_producer_does_not_want_to(tmp_path: Path) -> None:
    async def scene() -> None:
        async with sync_master(tmp_path) as (_, client, slave):
            send = RequestCode.SEND_MESSAGE
            assert (
                await slave.must_acknowledge(client.ask(send, message({}), b"x"))
            ).code == ResponseCode.SUCCESS
            delayed = client.ask(send, message({"DELAY": "1"}), b"x")
            assert (await slave.must_acknowledge(delayed)).code == ResponseCode.SUCCESS
            assert (
                await client.ask(send, message({"WAIT": "false"}), b"x")
            ).code == ResponseCode.SUCCESS
            slave.go()
            assert (
                await client.ask(send, message({}), b"x")
            ).code == ResponseCode.SLAVE_NOT_AVAILABLE

    asyncio.run(scene())


def test_a_reply_waits_and_is_answered_with_success_whatever_comes_of_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with sync_master(tmp_path) as (sim, replier, slave):
            asker = sim.connect()
            await asker.heartbeat("asker", producers=("askers",))
            asker.answers[PUSH] = lambda *_: Reply()

            def reply(**more: str) -> Awaitable[Response]:
                header = message({"REPLY_TO_CLIENT": "asker", **more}, topic="C_REPLY_TOPIC")
                fields = {name: getattr(header, name) for name in header.__struct_fields__}
                return replier.ask(
                    RequestCode.SEND_REPLY_MESSAGE_V2, SendMessageRequestV2(**fields), b"the reply"
                )

            assert (await slave.must_acknowledge(reply())).code == ResponseCode.SUCCESS
            assert len(asker.pushed) == 1, "its requester has not waited"
            assert (await reply(WAIT="false")).code == ResponseCode.SUCCESS
            slave.go()
            assert (await reply()).code == ResponseCode.SUCCESS
            assert sim.broker.store.max_offset("C_REPLY_TOPIC", 0) == 3

    asyncio.run(scene())


def test_a_commit_waits_and_is_answered_with_success_whatever_comes_of_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with sync_master(tmp_path) as (sim, client, slave):
            first, second, third = [
                await slave.must_acknowledge(half(sim, client, key)) for key in "ABC"
            ]
            await slave.must_acknowledge(end(client, first, COMMIT))
            assert sim.broker.store.max_offset(OP, 0) == 1
            await end(client, second, ROLLBACK)
            slave.go()
            await end(client, third, COMMIT)
            assert sim.broker.store.max_offset("T", 1) == 2

    asyncio.run(scene())


def test_that_a_transaction_is_decided_is_noted_when_its_message_is_safe(tmp_path: Path) -> None:
    """A power failure may leave a note without what was written before it. What is said again
    meanwhile changes nothing."""

    async def scene() -> None:
        async with sync_master(tmp_path) as (sim, client, slave):
            stored = await slave.must_acknowledge(half(sim, client, "A"))
            committed = asyncio.ensure_future(end(client, stored, COMMIT))
            while not slave.is_waited_for:
                await asyncio.sleep(0)
            await end(client, stored, ROLLBACK)
            await end(client, stored, COMMIT)
            assert sim.broker.store.max_offset(OP, 0) == 0
            slave.acknowledge()
            await committed
            ends = sim.broker.store.max_offset(OP, 0), sim.broker.store.max_offset("T", 1)
            assert ends == (1, 1)

    asyncio.run(scene())


def test_words_about_a_half_message_and_its_copy_at_once_commit_once(tmp_path: Path) -> None:
    """Nor does a check meanwhile put another copy."""

    async def scene() -> None:
        async with sync_master(tmp_path) as (sim, client, slave):
            await client.heartbeat("c1", producers=("pg",))
            first = await slave.must_acknowledge(half(sim, client, "A"))
            await checked(sim)
            [(request, _)] = asked(client)
            committed = asyncio.ensure_future(end(client, first, COMMIT))
            while not slave.is_waited_for:
                await asyncio.sleep(0)
            (await client.ask(RequestCode.END_TRANSACTION, answer_to(request, COMMIT))).check()
            sim.clock.advance(60.0)
            await sim.broker.storage.transaction_check.check()
            assert (sim.broker.store.max_offset(HALF, 0), asked(client)) == (2, [])
            slave.acknowledge()
            await committed
            ends = sim.broker.store.max_offset(OP, 0), sim.broker.store.max_offset("T", 1)
            assert ends == (2, 1)

    asyncio.run(scene())


@pytest.mark.parametrize(("level", "topic"), [(0, "SCHEDULE_TOPIC_XXXX"), (-1, "%DLQ%g")])
def test_what_a_consumer_gives_back_is_safe_before_it_goes_on(
    tmp_path: Path, level: int, topic: str
) -> None:
    async def scene() -> None:
        async with sync_master(tmp_path) as (sim, client, slave):
            sent = await client.send("T", b"x", properties="WAIT\x01false")
            header = ConsumerSendMsgBackRequest(
                offset=int(sent.msg_id[16:], 16), group="g", delay_level=level
            )

            def give_back() -> Awaitable[Response]:
                return client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)

            assert (await slave.must_acknowledge(give_back())).code == ResponseCode.SUCCESS
            slave.go()
            assert (await give_back()).code == ResponseCode.SUCCESS, "as sends are"
            assert sim.broker.store.max_offset(topic, 2 if level == 0 else 0) == 2

    asyncio.run(scene())


def test_the_delivery_of_a_delayed_message_waits_for_nobody(tmp_path: Path) -> None:
    """Nor does the next one wait for it."""

    async def scene() -> None:
        async with sync_master(tmp_path) as (sim, client, slave):
            for _ in range(2):
                request = client.ask(RequestCode.SEND_MESSAGE, message({"DELAY": "1"}), b"x")
                await slave.must_acknowledge(request)
            sim.clock.advance(1.1)
            sim.broker.storage.schedule.deliver_due()
            assert sim.broker.store.max_offset("T", 0) == 2

    asyncio.run(scene())


def frames(*opaques: int, form: int = SerializeType.JSON, flag: int = 0) -> bytes:
    """Sends, one after the other."""
    header = to_fields(message({"KEYS": "k"}))
    commands = (
        RemotingCommand(code=10, opaque=opaque, flag=flag, ext_fields=header) for opaque in opaques
    )
    return b"".join(encode_frame(form, encode_header(command, form), b"x") for command in commands)


def told(transport: SimTransport) -> list[tuple[int, int]]:
    """Opaque and code of the answers so far; all of them say where the message lies."""
    commands = [
        decode_header(form, header)
        for form, header, _ in FrameDecoder().feed(bytes(transport.written))
    ]
    assert all("msgId" in (command.ext_fields or {}) for command in commands)
    return [(command.opaque, command.code) for command in commands]


def test_answers_of_a_group_leave_in_their_order_with_one_write_per_connection(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with sync_master(tmp_path) as (sim, _, slave):
            (here, at_one), (there, at_two), (gone, at_three) = (
                connect(sim.owner) for _ in range(3)
            )
            for opaque in (1, 2, 3):
                here.data_received(frames(opaque))
                there.data_received(
                    frames(10 * opaque, 10 * opaque + 1, form=SerializeType.ROCKETMQ)
                )
            there.data_received(frames(99, flag=2))
            gone.data_received(frames(5, 6))
            at_three.close()
            await asyncio.sleep(0)
            assert (at_one.writes, at_two.writes) == (0, 0)
            assert (here.in_flight, there.in_flight) == (3, 7)
            slave.acknowledge()
            await asyncio.sleep(0)
            assert (at_one.writes, at_two.writes, at_three.writes) == (1, 1, 0)
            assert told(at_one) == [(1, 0), (2, 0), (3, 0)]
            assert told(at_two) == [(10, 0), (11, 0), (20, 0), (21, 0), (30, 0), (31, 0)], (
                "nobody waits for the oneway one"
            )
            assert (here.in_flight, there.in_flight, gone.in_flight) == (0, 0, 0)

    asyncio.run(scene())


@pytest.mark.parametrize("form", list(SerializeType))
def test_an_answer_that_waited_in_vain_says_so_and_where_the_message_is(
    tmp_path: Path, form: SerializeType
) -> None:
    async def scene() -> None:
        async with sync_master(tmp_path) as (sim, _, slave):
            connection, transport = connect(sim.owner)
            connection.data_received(frames(1, 2, form=form))
            slave._acks.expire(sim.clock.monotonic() + 100)
            slave.go()
            connection.data_received(frames(3, form=form))
            await asyncio.sleep(0)
            late, none = ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE
            assert told(transport) == [(1, late), (2, late), (3, none)]

    asyncio.run(scene())


@pytest.mark.parametrize("form", list(SerializeType))
def test_with_sync_flush_answers_wait_for_the_disk(tmp_path: Path, form: SerializeType) -> None:
    async def scene() -> None:
        store = store_config(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH)
        async with asyncio.timeout(30), sim_broker(tmp_path, store=store) as sim:
            await sim.connect().heartbeat("c1", "g", producers=("pg",))
            connection, transport = connect(sim.owner)
            flush = sim.broker.store.flush
            await sim.make_topic("T")
            connection.data_received(frames(1, 2, form=form))
            await flush.sync_log()
            connection.data_received(frames(3, form=form))
            assert flush.waiting == 3
            flush._complete()
            await asyncio.sleep(0)
            assert told(transport) == [(1, 0), (2, 0)]
            sim.clock.advance(100)
            flush._complete()
            await asyncio.sleep(0)
            assert told(transport)[2:] == [(3, ResponseCode.FLUSH_DISK_TIMEOUT)]
            assert flush.take_waits_ms() == {0: 2, 100_000: 1}

    asyncio.run(scene())


def test_of_disk_and_slave_an_answer_waits_for_both(tmp_path: Path) -> None:
    async def scene() -> None:
        store = store_config(
            tmp_path,
            broker_role=BrokerRole.SYNC_MASTER,
            flush_disk_type=FlushDiskType.SYNC_FLUSH,
        )
        async with asyncio.timeout(30), sim_broker(tmp_path, store=store) as sim:
            await sim.make_topic("T")
            slave, flush = Slave(sim), sim.broker.store.flush
            connection, transport = connect(sim.owner)
            connection.data_received(frames(1))
            slave.acknowledge()
            await asyncio.sleep(0)
            assert not transport.writes
            await flush.sync_log()
            flush._complete()
            await asyncio.sleep(0)
            assert told(transport) == [(1, 0)]
            connection.data_received(frames(2))
            slave._acks.expire(sim.clock.monotonic() + 100)
            await flush.sync_log()
            flush._complete()
            await asyncio.sleep(0)
            assert told(transport)[1:] == [(2, ResponseCode.FLUSH_SLAVE_TIMEOUT)]

    asyncio.run(scene())


def test_a_stop_tells_nobody_whose_connection_has_ended(tmp_path: Path) -> None:
    """The store is closed in a thread; a sync that goes on then may complete those who waited."""

    async def scene() -> None:
        store = store_config(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH)
        async with asyncio.timeout(30), sim_broker(tmp_path, store=store) as sim:
            await sim.make_topic("T")
            connection, transport = connect(sim.owner)
            connection.data_received(frames(1, 2))
            assert sim.broker.store.flush.waiting == 2
            transport.close()
            await asyncio.to_thread(sim.broker.store.flush.close)
            assert sim.broker.store.flush.waiting == 0

    asyncio.run(scene())


# -- a member of a group


class Majority:
    """Has what is stored when the test wants it."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[PutStatus], None]] = []
        self.offsets: list[int] = []

    def when_acked(self, phy_offset: int, done: Callable[[PutStatus], None]) -> None:
        self.offsets.append(phy_offset)
        if phy_offset:
            self.waiting.append(done)
        else:
            done(PutStatus.PUT_OK)

    def when_committed(
        self, phy_offset: int, tell: Callable[[list[Any], PutStatus], None], who: object
    ) -> None:
        self.when_acked(phy_offset, lambda status: tell([who], status))

    async def answers(self, request: Awaitable[Any], status: PutStatus) -> Any:
        """The answer to a request that waits until a majority has it, or not."""
        task = asyncio.ensure_future(request)
        while not self.waiting:
            assert not task.done(), "it was answered at once"
            await asyncio.sleep(0)
        for done in self.waiting:
            done(status)
        self.waiting.clear()
        return await task


@asynccontextmanager
async def member(folder: Path) -> AsyncIterator[tuple[SimBroker, SimClient, Majority]]:
    majority = Majority()

    def durability(store: MessageStore, **_: Any) -> Durability:
        return Durability(
            store,
            members=majority,
            end=lambda: store.max_phy_offset,
            refusal_fields=SendErrorFields(msg_region="r", trace_on=True),
        )

    store = store_config(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aiorocketmq.broker.replication.roles.Durability", durability)
        async with asyncio.timeout(30), sim_broker(folder, store=store) as sim:
            client = sim.connect()
            await sim.make_topic("T")
            await client.heartbeat("c1", "g", producers=("pg",))
            await sim.broker.tables.topics_file.saved()
            yield sim, client, majority


def test_at_a_member_every_send_waits_for_the_majority(tmp_path: Path) -> None:
    """Also of those who do not want to wait: what a majority does not have is no message."""

    async def scene() -> None:
        async with member(tmp_path) as (sim, client, majority):
            for properties in ({}, {"WAIT": "false"}, {"DELAY": "1"}):
                request = client.ask(RequestCode.SEND_MESSAGE, message(properties), b"x")
                assert (await majority.answers(request, PutStatus.PUT_OK)).code == 0
                assert majority.offsets[-1] == sim.broker.store.max_phy_offset

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("status", "code", "remark"),
    [
        (PutStatus.SERVICE_NOT_AVAILABLE, 14, "lost the leadership"),
        (PutStatus.OS_PAGECACHE_BUSY, 1, "[PC_SYNCHRONIZED]broker busy"),
    ],
)
def test_a_message_that_may_be_gone_is_not_said_to_lie_anywhere(
    tmp_path: Path, status: PutStatus, code: int, remark: str
) -> None:
    async def scene() -> None:
        async with member(tmp_path) as (_, client, majority):
            send = client.ask(RequestCode.SEND_MESSAGE, message({}), b"x")
            answer = await majority.answers(send, status)
            assert answer.code == code
            assert remark in (answer.remark or "")
            assert "msgId" not in answer.ext_fields
            assert answer.ext_fields["MSG_REGION"] == "r"

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("status", "code"), [(PutStatus.PUT_OK, 0), (PutStatus.SERVICE_NOT_AVAILABLE, 14)]
)
def test_a_new_topic_keeps_no_message_from_being_committed(
    tmp_path: Path, status: PutStatus, code: int
) -> None:
    """Asked for when the topic is in its file it would be whatever lies there then."""

    async def scene() -> None:
        async with member(tmp_path) as (sim, client, majority):
            asked = client.ask(RequestCode.SEND_MESSAGE, message({}, topic="New"), b"x")
            task = asyncio.ensure_future(asked)
            while "New" not in sim.broker.state.topics:
                await asyncio.sleep(0)
            assert majority.offsets == [sim.broker.store.max_phy_offset], "in the same turn"
            assert (await majority.answers(task, status)).code == code
            assert majority.offsets[1:] in ([], [0])

    asyncio.run(scene())


def test_what_a_consumer_gives_back_to_a_member_waits_too(tmp_path: Path) -> None:
    async def scene() -> None:
        async with member(tmp_path) as (_, client, majority):
            sent = client.ask(RequestCode.SEND_MESSAGE, message({}), b"x")
            msg_id = (await majority.answers(sent, PutStatus.PUT_OK)).header.msg_id
            header = ConsumerSendMsgBackRequest(
                offset=int(msg_id[16:], 16), group="g", delay_level=0
            )
            for status, code in ((PutStatus.SERVICE_NOT_AVAILABLE, 14), (PutStatus.PUT_OK, 0)):
                back = client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
                assert (await majority.answers(back, status)).code == code

    asyncio.run(scene())


def test_a_commit_that_may_be_gone_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        async with member(tmp_path) as (sim, client, majority):
            first = await majority.answers(half(sim, client, "A"), PutStatus.PUT_OK)
            ending = client.ask(RequestCode.END_TRANSACTION, word(first, COMMIT))
            assert (await majority.answers(ending, PutStatus.SERVICE_NOT_AVAILABLE)).code == 14

    asyncio.run(scene())
