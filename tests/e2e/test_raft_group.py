"""A group that elects its master: what it has acknowledged survives whatever happens to one member,
and nobody has to do anything."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aiorocketmq import (
    Admin,
    Message,
    MessageExt,
    Producer,
    PullConsumer,
    PushConsumer,
    StartFrom,
    TransactionProducer,
    TransactionState,
)
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import (
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest
from aiorocketmq.remoting.protocol.commands.topic import CreateTopicRequest
from aiorocketmq.remoting.transport.client import RemotingClient
from tests.stored import decode_messages

from .cluster import SUSPEND, asynchronous, total_of, until
from .raft_group import RaftGroup

FAST = 0.1


@pytest.fixture
def group(tmp_path: Path) -> Iterator[RaftGroup]:
    """All three members run."""
    with RaftGroup(
        tmp_path,
        messageDelayLevel="1s 2s",
        transactionCheckInterval=500,
        transactionTimeOut=300,
        transactionCheckMax=1000,
    ) as group:
        group.start()
        yield group


class Sender:
    """Sends one message after the other until it is stopped, and knows what was acknowledged."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self.acknowledged: list[int] = []
        self.failures: list[RocketMQError] = []
        self.longest_s = 0.0
        """Between two acknowledgements."""
        self._going_on = True

    async def run(self) -> None:
        number, last = 0, time.monotonic()
        while self._going_on:
            try:
                await self._producer.send(Message(self._topic, b"%d" % number), timeout=10)
            except RocketMQError as error:
                self.failures.append(error)
                await asyncio.sleep(0.01)
            else:
                self.acknowledged.append(number)
                now = time.monotonic()
                self.longest_s, last = max(self.longest_s, now - last), now
            number += 1

    async def more(self, count: int) -> None:
        """Wait for so many further acknowledgements."""
        wanted = len(self.acknowledged) + count
        await until(lambda: len(self.acknowledged) >= wanted, f"{count} more acknowledgements")

    def stop(self) -> None:
        self._going_on = False


@contextlib.asynccontextmanager
async def sending(group: RaftGroup, topic: str) -> AsyncIterator[Sender]:
    """Until the end of the block; the last send is waited for."""
    async with (
        Producer("p", namesrv=group.namesrv) as producer,
        asyncio.TaskGroup() as tasks,
    ):
        sender = Sender(producer, topic)
        tasks.create_task(sender.run())
        yield sender
        sender.stop()


async def read(group: RaftGroup, topic: str, count: int, name: str = "reader") -> list[MessageExt]:
    """The first messages of a topic, as a consumer gets them."""
    async with PullConsumer(
        name, topic, namesrv=group.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
    ) as consumer:
        return await total_of(consumer, count)


async def pulled_from(group: RaftGroup, name: str, topic: str) -> list[bytes]:
    """What one member hands out of queue 0."""
    bodies: list[bytes] = []
    async with RemotingClient() as remoting:
        while len(bodies) < await group.max_offset(name, topic):
            request = PullMessageRequest(
                consumer_group="g", topic=topic, queue_id=0, queue_offset=len(bodies),
                max_msg_nums=32, sys_flag=4, commit_offset=0, suspend_timeout_millis=0,
                subscription="*", sub_version=0, expression_type="TAG",
            )  # fmt: skip
            answer = await remoting.invoke(
                group.address(name), RequestCode.PULL_MESSAGE, request, timeout=5
            )
            assert answer.check().header.suggest_which_broker_id == 0
            bodies += [message.body for message in decode_messages(answer.body)]
    return bodies


@asynchronous
async def test_a_group_elects_its_master_and_every_member_has_every_message(
    group: RaftGroup,
) -> None:
    """Followers serve reads, refuse messages (14) and administration (1), and are registered with
    the number in their ids and one."""
    leader = await group.complete()
    ids = await group.ids()
    assert {i: name for i, name in ids.items() if i} == {
        int(name[1:]) + 1: name for name in group.names if name != leader
    }
    await group.create_topic("T")
    async with Producer("p", namesrv=group.namesrv) as producer:
        for number in range(50):
            await producer.send(Message("T", b"%d" % number))
    await group.all_have(50, "T")
    for name in group.names:
        assert await pulled_from(group, name, "T") == [b"%d" % n for n in range(50)]
    async with Admin(namesrv=group.namesrv) as admin:
        for name in group.names:
            figures = await admin.broker_runtime_info(group.address(name))
            own = await group.max_offset(name, "SELF_TEST_TOPIC")
            each_once = (str(49 + own), str(50 + own))  # the first may be of before the day
            assert figures["msgPutTotalTodayNow"] in each_once
    follower = next(name for name in group.names if name != leader)
    async with RemotingClient() as remoting:
        send = SendMessageRequest(
            producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=1,
            queue_id=0, sys_flag=0, born_timestamp=1, flag=0,
        )  # fmt: skip
        address = group.address(follower)
        answer = await remoting.invoke(address, RequestCode.SEND_MESSAGE, send, b"x", timeout=5)
        assert answer.code == 14
        change = CreateTopicRequest(
            topic="U", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
            topic_filter_type="SINGLE_TAG",
        )  # fmt: skip
        answer = await remoting.invoke(
            address, RequestCode.UPDATE_AND_CREATE_TOPIC, change, timeout=5
        )
        assert (answer.code, "Can't modify" in (answer.remark or "")) == (1, True)


@asynchronous
async def test_when_the_leader_is_killed_another_one_goes_on(group: RaftGroup) -> None:
    leader = await group.complete()
    await group.create_topic("T")
    async with sending(group, "T") as sender:
        await sender.more(100)
        sender.longest_s = 0.0
        await asyncio.to_thread(group.kill, leader)
        await sender.more(100)
        print(f"next acknowledgement {sender.longest_s:.2f} s after SIGKILL")
        assert await group.leader() != leader
        group.start(leader)
        await group.complete()
        await sender.more(50)
    count = await group.max_offset(await group.leader(), "T")
    bodies = [int(each.body) for each in await read(group, "T", count)]
    assert set(sender.acknowledged) <= set(bodies)
    first = list(dict.fromkeys(bodies))
    assert first == sorted(first), "the order in which they were sent"
    await group.all_have(count, "T")
    logs = [await pulled_from(group, name, "T") for name in group.names]
    assert logs[0] == logs[1] == logs[2]


@asynchronous
async def test_a_leader_that_stands_still_is_followed_by_another_one(group: RaftGroup) -> None:
    """When it goes on it knows at once that it leads no more, and so do the name servers."""
    leader = await group.complete()
    await group.create_topic("T")
    async with sending(group, "T") as sender:
        await sender.more(100)
        group.brokers[leader].process.send_signal(signal.SIGSTOP)
        following = await group.leader(leader)
        await sender.more(100)
        group.brokers[leader].process.send_signal(signal.SIGCONT)
        assert await group.complete() == following
        assert (await group.ids())[int(leader[1:]) + 1] == leader
        await sender.more(50)
    count = await group.max_offset(following, "T")
    await group.all_have(count, "T")
    logs = [await pulled_from(group, name, "T") for name in group.names]
    assert logs[0] == logs[1] == logs[2]
    assert set(sender.acknowledged) <= set(map(int, logs[0]))


@asynchronous
async def test_a_leader_that_is_stopped_hands_over_and_no_send_fails(group: RaftGroup) -> None:
    leader = await group.complete()
    await group.create_topic("T")
    async with sending(group, "T") as sender:
        await sender.more(100)
        sender.longest_s = 0.0
        await asyncio.to_thread(group.stop_broker, leader)
        await sender.more(100)
        print(f"longest wait {sender.longest_s:.2f} s around a clean stop")
    assert not sender.failures
    assert leader not in (await group.ids()).values(), "it has taken leave"
    count = await group.max_offset(await group.leader(), "T")
    assert set(sender.acknowledged) <= {int(m.body) for m in await read(group, "T", count)}


@asynchronous
async def test_a_follower_that_was_away_catches_up(group: RaftGroup) -> None:
    leader = await group.complete()
    follower = next(name for name in group.names if name != leader)
    async with Producer("p", namesrv=group.namesrv) as producer:
        await group.create_topic("T")
        await producer.send(Message("T", b"0"))
        group.kill(follower)
        await group.create_topic("U")
        for number in range(200):
            await producer.send(Message("U", b"%d" % number))
        group.start(follower)
        await group.all_have(200, "U")
        assert await pulled_from(group, follower, "U") == [b"%d" % n for n in range(200)]
        assert await group.leader() == leader, "it disturbs nobody"


@asynchronous
async def test_all_members_may_be_killed_at_once(group: RaftGroup) -> None:
    """The machines keep their power: what is in the page caches is written."""
    await group.complete()
    await group.create_topic("T")
    async with Producer("p", namesrv=group.namesrv) as producer:
        for number in range(100):
            await producer.send(Message("T", b"%d" % number))
    group.kill(*group.names)
    group.start()
    await group.complete()
    assert [int(m.body) for m in await read(group, "T", 100)] == list(range(100))
    async with Producer("p", namesrv=group.namesrv) as producer:
        await producer.send(Message("T", b"100"))
    await group.all_have(101, "T")


@asynchronous
async def test_one_of_three_serves_reads_and_takes_nothing(group: RaftGroup) -> None:
    async def is_known(survivor: str) -> bool:
        return await group.ids() == {int(survivor[1:]) + 1: survivor}

    async def accepted(producer: Producer) -> bool:
        await producer.send(Message("T", b"more"))
        return True

    leader = await group.complete()
    await group.create_topic("T")
    async with Producer("p", namesrv=group.namesrv, retries=0) as producer:
        for number in range(100):
            await producer.send(Message("T", b"%d" % number))
        await group.all_have(100, "T")
        survivor = next(name for name in group.names if name != leader)
        group.kill(*(name for name in group.names if name != survivor))
        assert [int(m.body) for m in await read(group, "T", 100)] == list(range(100))
        with pytest.raises(RocketMQError):
            await producer.send(Message("T", b"lost"), timeout=1)
        group.kill(survivor)
        group.start(survivor)  # alone, it is neither leader nor follower
        await until(lambda: is_known(survivor), "it is registered all the same")
        found = await pulled_from(group, survivor, "T")
        assert found == [b"%d" % n for n in range(len(found))], "what it knows is committed"
        group.start(leader)
        await group.leader()
        await until(lambda: accepted(producer), "a message is taken again")
    assert b"lost" not in await pulled_from(group, survivor, "T")


@asynchronous
async def test_a_consumer_goes_on_where_it_was_at_the_next_leader(group: RaftGroup) -> None:
    """Every acknowledged message is seen; again only what was consumed in the last second."""
    leader = await group.complete()
    await group.create_topic("T")
    seen: Counter[int] = Counter()
    consumer = PushConsumer("g", namesrv=group.namesrv, suspend=SUSPEND, commit_interval=FAST)
    consumer.subscribe("T")
    consumer.on_message(lambda message: seen.update([int(message.body)]))
    async with consumer:
        async with sending(group, "T") as sender:
            await until(lambda: len(seen) > 200, "some hundred messages")
            await asyncio.to_thread(group.kill, leader)
            await sender.more(100)
        await until(lambda: seen.keys() >= set(sender.acknowledged), "every message")
    again = sum(count - 1 for count in seen.values())
    print(f"{again} of {len(seen)} messages were seen again")


@asynchronous
async def test_offsets_are_at_every_member_within_a_moment(group: RaftGroup) -> None:
    leader = await group.complete()
    await group.create_topic("T")
    async with Producer("p", namesrv=group.namesrv) as producer:
        for number in range(20):
            await producer.send(Message("T", b"%d" % number))
    async with RemotingClient() as remoting:
        commit = UpdateConsumerOffsetRequest(
            consumer_group="g", topic="T", queue_id=0, commit_offset=17
        )
        address = group.address(leader)
        answer = await remoting.invoke(
            address, RequestCode.UPDATE_CONSUMER_OFFSET, commit, timeout=5
        )
        answer.check()
        begun = time.monotonic()

        async def offset(name: str) -> int:
            query = QueryConsumerOffsetRequest(consumer_group="g", topic="T", queue_id=0)
            answer = await remoting.invoke(
                group.address(name), RequestCode.QUERY_CONSUMER_OFFSET, query, timeout=5
            )
            return int(answer.check().header.offset)

        async def everywhere() -> bool:
            return [await offset(name) for name in group.names] == [17, 17, 17]

        await until(everywhere, "the offset is at every member")
        print(f"{time.monotonic() - begun:.2f} s until every member had it")


@asynchronous
async def test_delayed_messages_are_delivered_by_the_next_leader(group: RaftGroup) -> None:
    leader = await group.complete()
    await group.create_topic("T")
    async with Producer("p", namesrv=group.namesrv) as producer:
        for number in range(40):
            await producer.send(Message("T", b"%d" % number, delay_level=number % 2 + 1))
    await asyncio.to_thread(group.kill, leader)
    await group.leader(leader)
    found: Counter[int] = Counter()
    async with PullConsumer(
        "g", "T", namesrv=group.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
    ) as consumer:

        async def everything() -> bool:
            found.update(int(message.body) for message in await consumer.poll(timeout=FAST))
            return found.keys() == set(range(40))

        await until(everything, "every delayed message")


@asynchronous
async def test_a_transaction_is_decided_whoever_leads(group: RaftGroup) -> None:
    """A half message whose leader is killed is asked about by the next one, and is there once."""
    leader = await group.complete()
    await group.create_topic("T")
    asked: list[bytes] = []

    async def decide(message: MessageExt) -> TransactionState:
        asked.append(message.body)
        good = message.body == b"good"
        return TransactionState.COMMIT if good else TransactionState.ROLLBACK

    async with TransactionProducer("pg", checker=decide, namesrv=group.namesrv) as producer:
        async with producer.transaction(Message("T", b"before")):
            pass
        for body in (b"good", b"bad"):
            async with producer.transaction(Message("T", body)) as transaction:
                transaction.leave_unknown()
        await asyncio.to_thread(group.kill, leader)
        await group.leader(leader)
        async with producer.transaction(Message("T", b"after")):
            pass
        await until(lambda: {b"good", b"bad"} <= set(asked), "both are asked about")
        messages = await read(group, "T", 3)
    bodies = sorted(message.body for message in messages)
    assert bodies == [b"after", b"before", b"good"]
    assert await group.max_offset(await group.leader(), "T") == 3


def test_what_a_member_is_told_wrongly_keeps_it_from_starting(tmp_path: Path) -> None:
    with (
        RaftGroup(tmp_path) as group,
        pytest.raises(AssertionError, match="dLegerSelfId n7 is not among"),
    ):
        group.start("n0", dLegerSelfId="n7")
    assert not (tmp_path / "n0" / "store" / "dledger-n7").exists()
