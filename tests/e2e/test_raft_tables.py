"""What an administrator of a group was told to be done is done, whoever leads in a moment."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiorocketmq import Admin, Message, Producer
from aiorocketmq.remoting.errors import BrokerError
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.subscription_group import (
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfigTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.base import TopicRequest
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest, SendMessageResponse
from aiorocketmq.remoting.protocol.commands.topic import CreateTopicRequest
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.remoting.transport.client import RemotingClient

from .cluster import asynchronous
from .raft_group import RaftGroup


@pytest.fixture
def group(tmp_path: Path) -> Iterator[RaftGroup]:
    with RaftGroup(tmp_path) as started:
        yield started


async def ask(
    group: RaftGroup, name: str, code: RequestCode, header: Record | None = None, body: bytes = b""
) -> bytes:
    async with RemotingClient() as remoting:
        answer = await remoting.invoke(group.address(name), code, header, body, timeout=5)
        return bytes(answer.check().body)


async def topics_of(group: RaftGroup, name: str) -> dict[str, int]:
    """Their write queues."""
    body = await ask(group, name, RequestCode.GET_ALL_TOPIC_CONFIG)
    table = decode_body(TopicConfigTable, body).topic_config_table
    return {topic: config.write_queue_nums for topic, config in table.items()}


async def groups_of(group: RaftGroup, name: str) -> dict[str, int]:
    """How often they retry."""
    body = await ask(group, name, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    table = decode_body(SubscriptionGroupTable, body).subscription_group_table
    return {each: config.retry_max_times for each, config in table.items()}


def topic(name: str, queues: int) -> CreateTopicRequest:
    return CreateTopicRequest(
        topic=name, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues,
        perm=6, topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
    )  # fmt: skip


async def change(group: RaftGroup, leader: str) -> None:
    """Everything that an administrator changes; the last change of each kind was told to be
    done."""
    await ask(group, leader, RequestCode.UPDATE_AND_CREATE_TOPIC, topic("Gone", 1))
    await ask(group, leader, RequestCode.UPDATE_AND_CREATE_TOPIC, topic("Kept", 1))
    for times in (3, 5):
        body = encode_body(SubscriptionGroupConfig(group_name="g", retry_max_times=times))
        await ask(group, leader, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
    await ask(group, leader, RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="Gone"))
    await ask(group, leader, RequestCode.UPDATE_AND_CREATE_TOPIC, topic("Kept", 7))


def test_changes_that_were_answered_survive_their_leader(group: RaftGroup) -> None:
    group.start()

    @asynchronous
    async def scenario() -> None:
        leader = await group.complete()
        await change(group, leader)
        group.kill(leader)
        second = await group.leader(leader)
        topics = await topics_of(group, second)
        assert topics.get("Kept") == 7
        assert "Gone" not in topics
        assert (await groups_of(group, second)).get("g") == 5
        group.start(leader)

    scenario()


def test_changes_that_were_answered_survive_the_death_of_all(group: RaftGroup) -> None:
    group.start()

    @asynchronous
    async def scenario() -> None:
        leader = await group.complete()
        await change(group, leader)
        group.kill(*group.names)
        for name in group.names:  # no file of them had been written yet
            for file in (Path(group.store_of(name)) / "config").glob("*.json*"):
                if file.name.startswith(("topics", "subscriptionGroup")):
                    file.unlink()
        group.start()
        leader = await group.complete()
        topics = await topics_of(group, leader)
        assert topics.get("Kept") == 7
        assert "Gone" not in topics
        assert (await groups_of(group, leader)).get("g") == 5

    scenario()


def test_a_topic_that_was_made_by_sending_survives_the_death_of_all(group: RaftGroup) -> None:
    group.start(autoCreateTopicEnable="true")

    @asynchronous
    async def scenario() -> None:
        await group.complete()
        async with Producer("p", namesrv=group.namesrv) as producer:
            await producer.send(Message("New", b"x"))
        group.kill(*group.names)
        for name in group.names:
            for file in (Path(group.store_of(name)) / "config").glob("topics.json*"):
                file.unlink()
        group.start()
        await group.complete()
        async with Admin(namesrv=group.namesrv) as admin:
            assert (await admin.topic_stats("New")).offset_table
        async with Producer("p", namesrv=group.namesrv) as producer:
            await producer.send(Message("New", b"y"))

    scenario()


async def send(group: RaftGroup, leader: str, count: int) -> list[int]:
    """Messages into queue 0 of Topic, to this member; the numbers that they got."""
    header = SendMessageRequest(
        producer_group="p", topic="Topic", default_topic="TBW102", default_topic_queue_nums=1,
        queue_id=0, sys_flag=0, born_timestamp=1, flag=0,
    )  # fmt: skip
    numbers = []
    async with RemotingClient() as remoting:
        for number in range(count):
            answer = await remoting.invoke(
                group.address(leader), RequestCode.SEND_MESSAGE, header, b"%d" % number, timeout=5
            )
            found = answer.check().header
            assert isinstance(found, SendMessageResponse)
            numbers.append(found.queue_offset)
    return numbers


async def delete(group: RaftGroup, leader: str) -> None:
    await ask(group, leader, RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="Topic"))


def test_a_deletion_that_no_majority_has_deletes_nothing(group: RaftGroup) -> None:
    """The leader's queues least of all: it may lead again."""
    group.start()

    @asynchronous
    async def scenario() -> None:
        first = await group.complete()
        others = [name for name in group.names if name != first]

        def signal_to(names: list[str], number: signal.Signals) -> None:
            for name in names:
                group.brokers[name].process.send_signal(number)

        await group.create_topic("Topic")
        await send(group, first, 20)
        await group.all_have(20, "Topic")
        signal_to(others, signal.SIGSTOP)
        try:
            with pytest.raises(BrokerError, match="majority"):
                await delete(group, first)
            signal_to([first], signal.SIGSTOP)
        finally:
            signal_to(others, signal.SIGCONT)
        await group.leader(first)
        signal_to([first], signal.SIGCONT)
        # what lay in buffers of those that stood still may have come to a majority after all
        await group.all_have_the_same("Topic", {0, 20})

    scenario()


def test_a_topic_that_is_made_again_begins_at_0_whoever_leads(group: RaftGroup) -> None:
    group.start()

    @asynchronous
    async def scenario() -> None:
        first = await group.complete()
        await group.create_topic("Topic")
        await send(group, first, 20)
        await group.all_have(20, "Topic")
        await delete(group, first)
        await group.all_have(0, "Topic")
        group.kill(first)
        second = await group.leader(first)
        group.start(first)
        await group.create_topic("Topic")
        assert await send(group, second, 1) == [0]
        await group.all_have(1, "Topic")

    scenario()


def test_what_was_deleted_stays_so_when_all_are_killed(group: RaftGroup) -> None:
    """Though recovery makes queues of it, and the topic is there again."""
    group.start()

    @asynchronous
    async def scenario() -> None:
        first = await group.complete()
        await group.create_topic("Topic")
        await send(group, first, 20)
        await group.all_have(20, "Topic")
        await delete(group, first)
        await group.create_topic("Topic")
        group.kill(*group.names)
        group.start()
        leader = await group.complete()
        await group.all_have(0, "Topic")
        assert await send(group, leader, 1) == [0]

    scenario()
