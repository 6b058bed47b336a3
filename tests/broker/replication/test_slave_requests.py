"""What a slave answers clients: it hands out messages and takes none."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag

from .slave_scenes import Pair, play


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
