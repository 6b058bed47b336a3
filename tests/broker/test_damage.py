"""What a broker makes of damaged records: it leaves them out and says so, and never gives a damaged
body a new CRC."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aiorocketmq.broker.assembly.replication import Replication
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.offset import QueueRequest
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.commands.send import ConsumerSendMsgBackRequest
from aiorocketmq.store.message_store import MessageStore
from tests.stored import decode_messages

from .sim_broker import SimBroker

Play = Callable[..., None]
MAGIC_AT, BODY_AT = 4, 88


def spoil(store: MessageStore, phy_offset: int, at: int) -> None:
    file = store._log.file_of(phy_offset, 1)
    assert file is not None
    file.map[phy_offset - file.start + at] ^= 4


def pull() -> PullMessageRequest:
    return PullMessageRequest(
        consumer_group="g", topic="T", queue_id=0, queue_offset=0, max_msg_nums=32,
        sys_flag=PullSysFlag.SUBSCRIPTION,
        commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0,
        expression_type="TAG",
    )  # fmt: skip


async def ask_others(sim: SimBroker) -> None:
    """There are none: nothing is waited for any longer."""
    replication = sim.broker.replication
    assert isinstance(replication, Replication)
    await replication.mending.mend()


def test_a_pull_tells_how_many_it_leaves_out(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        for number in range(5):
            await client.send("T", b"%d" % number)
        assert (
            "damagedMsgNums" not in (await client.ask(RequestCode.PULL_MESSAGE, pull())).ext_fields
        )
        [unit] = sim.broker.store.entries.some("T", 0, 2, 1) or []
        spoil(sim.broker.store, unit[0], MAGIC_AT)
        answer = (await client.ask(RequestCode.PULL_MESSAGE, pull())).check()
        assert answer.header.next_begin_offset == 2
        await ask_others(sim)
        answer = (await client.ask(RequestCode.PULL_MESSAGE, pull())).check()
        assert [message.body for message in decode_messages(answer.body)] == [
            b"0",
            b"1",
            b"3",
            b"4",
        ]
        assert (answer.header.damaged_msg_nums, answer.header.next_begin_offset) == (1, 5)
        body = (await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).check().body
        assert decode_body(KVTable, body).table["damagedRecords"] == "1"

    play(scenario)


def test_a_damaged_message_is_not_given_back(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"one")
        spoil(sim.broker.store, 0, BODY_AT)
        back = ConsumerSendMsgBackRequest(offset=0, group="g", delay_level=0)
        assert (
            await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
        ).code == ResponseCode.SYSTEM_ERROR
        assert sim.broker.store.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 0

    play(scenario)


def test_a_damaged_delayed_message_is_not_delivered_and_holds_up_none(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        for number in range(3):
            await client.send("T", b"%d" % number, properties="DELAY\x011")
        [unit] = sim.broker.store.entries.some("SCHEDULE_TOPIC_XXXX", 0, 1, 1) or []
        spoil(sim.broker.store, unit[0], BODY_AT)
        sim.clock.advance(2)
        sim.broker.storage.schedule.deliver_due()
        await ask_others(sim)
        sim.clock.advance(2)
        sim.broker.storage.schedule.deliver_due()
        assert (
            await client.ask(RequestCode.GET_MAX_OFFSET, QueueRequest(topic="T", queue_id=0))
        ).check().header.offset == 2
        answer = (await client.ask(RequestCode.PULL_MESSAGE, pull())).check()
        assert [message.body for message in decode_messages(answer.body)] == [b"0", b"2"]
        assert f"delayed message cannot be read phy_offset={unit[0]}" in caplog.text

    play(scenario)
