"""Which answers of a SYNC_MASTER wait for a slave: sends, replies and commits; not what is given back or delivered later.

As in the original, where all others have WAIT=false when they are stored (SendMessageProcessor, EndTransactionProcessor,
ReplyMessageProcessor, ScheduleMessageService).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.invocations import Response
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import ConsumerSendMsgBackRequest, SendMessageRequest, SendMessageRequestV2
from aiorocketmq.remoting.protocol.message import encode_properties
from aiorocketmq.store.config import BrokerRole, MessageStoreConfig

from .sim_broker import SimBroker, SimClient, sim_broker
from .transaction_scenes import COMMIT, ROLLBACK, end, half

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}
PUSH = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT


class Slave:
    """What the master knows of its only slave, which says nothing until the test wants it."""

    def __init__(self, sim: SimBroker) -> None:
        self._sim = sim
        self._acks = sim.broker.master.server._acks
        self._acks.update([0])

    def acknowledge(self) -> None:
        self._acks.update([self._sim.broker.store.max_phy_offset])

    def go(self) -> None:
        self._acks.update([])

    async def must_acknowledge(self, request: Awaitable[Any]) -> Any:
        """The answer comes, but not before the slave has the message."""
        task = asyncio.ensure_future(request)
        while not self._acks.waiting:
            assert not task.done(), "it was answered at once"
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not task.done()
        self.acknowledge()
        return await task


@asynccontextmanager
async def sync_master(folder: Path) -> AsyncIterator[tuple[SimBroker, SimClient, Slave]]:
    store = MessageStoreConfig(store_path_root_dir=str(folder), broker_role=BrokerRole.SYNC_MASTER, **SMALL)
    async with asyncio.timeout(30), sim_broker(folder, store=store) as sim:
        client = sim.connect()
        await client.heartbeat("c1", "g", producers=("pg",))
        yield sim, client, Slave(sim)


def message(properties: dict[str, str], topic: str = "T") -> SendMessageRequest:
    return SendMessageRequest(
        producer_group="pg", topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties=encode_properties(properties).decode(),
    )  # fmt: skip


def test_a_send_waits_unless_its_producer_does_not_want_to(tmp_path: Path) -> None:
    async def scene() -> None:
        async with sync_master(tmp_path) as (_, client, slave):
            send = RequestCode.SEND_MESSAGE
            assert (await slave.must_acknowledge(client.ask(send, message({}), b"x"))).code == ResponseCode.SUCCESS
            delayed = client.ask(send, message({"DELAY": "1"}), b"x")
            assert (await slave.must_acknowledge(delayed)).code == ResponseCode.SUCCESS
            assert (await client.ask(send, message({"WAIT": "false"}), b"x")).code == ResponseCode.SUCCESS
            slave.go()
            assert (await client.ask(send, message({}), b"x")).code == ResponseCode.SLAVE_NOT_AVAILABLE

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
                return replier.ask(RequestCode.SEND_REPLY_MESSAGE_V2, SendMessageRequestV2(**fields), b"the reply")

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
            first, second, third = [await slave.must_acknowledge(half(sim, client, key)) for key in "ABC"]
            await slave.must_acknowledge(end(client, first, COMMIT))
            await end(client, second, ROLLBACK)
            slave.go()
            await end(client, third, COMMIT)
            assert sim.broker.store.max_offset("T", 1) == 2

    asyncio.run(scene())


@pytest.mark.parametrize(("level", "topic"), [(0, "SCHEDULE_TOPIC_XXXX"), (-1, "%DLQ%g")])
def test_what_a_consumer_gives_back_waits_for_nobody(tmp_path: Path, level: int, topic: str) -> None:
    async def scene() -> None:
        async with sync_master(tmp_path) as (sim, client, _):
            sent = await client.send("T", b"x", properties="WAIT\x01false")
            header = ConsumerSendMsgBackRequest(offset=int(sent.msg_id[16:], 16), group="g", delay_level=level)
            assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code == ResponseCode.SUCCESS
            assert sim.broker.store.max_offset(topic, 2 if level == 0 else 0) == 1

    asyncio.run(scene())


def test_the_delivery_of_a_delayed_message_waits_for_nobody(tmp_path: Path) -> None:
    """Nor does the next one wait for it."""

    async def scene() -> None:
        async with sync_master(tmp_path) as (sim, client, slave):
            for _ in range(2):
                request = client.ask(RequestCode.SEND_MESSAGE, message({"DELAY": "1"}), b"x")
                await slave.must_acknowledge(request)
            sim.clock.advance(1.1)
            sim.broker.schedule.deliver_due()
            assert sim.broker.store.max_offset("T", 0) == 2

    asyncio.run(scene())
