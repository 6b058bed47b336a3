"""Ordered and broadcasting consumers against real daemons (client.md §4.9, §4.10)."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from aiorocketmq import (
    Message,
    MessageExt,
    MessageModel,
    Producer,
    PushConsumer,
    StartFrom,
    SuspendQueue,
)

from .cluster import SUSPEND, Cluster, asynchronous, create_topic, until
from .ordered_group import OrderedGroup, ordered_consumer


@asynchronous
async def test_order_is_kept_while_members_come_and_go(
    shared: Cluster, topic: str, group: str
) -> None:
    """No queue has two owners at a time, and nothing overtakes; what is repeated comes in order
    again."""
    await create_topic(shared.namesrv, topic, 4)
    members = OrderedGroup(topic, group, namesrv=shared.namesrv)

    async with Producer("p", namesrv=shared.namesrv) as producer:

        async def send(count: int) -> None:
            for number in range(count):
                await producer.send(Message(topic, b"%d" % number), sharding_key=number % 7)

        async with members.member("first") as first:
            sending = asyncio.create_task(send(600))
            await until(lambda: len(first.assignment()) >= 4, "the first has every queue")
            async with members.member("second") as second:
                await until(
                    lambda: {q.topic for q in second.assignment()} >= {topic}, "the second has some"
                )
                await sending
            await until(lambda: members.handled() == 600, "every message")
    members.assert_in_order()
    for offsets in members.offsets.values():
        repeated = [now for before, now in itertools.pairwise(offsets) if now <= before]
        assert len(repeated) <= 3, (
            "only what was not yet committed when the queue moved comes again"
        )


@asynchronous
async def test_a_suspended_queue_goes_on_with_the_same_message(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    handled: list[bytes] = []
    consumer = ordered_consumer(topic, group, namesrv=shared.namesrv, suspend_queue=0.05)

    @consumer.on_message
    async def handle(message: MessageExt) -> None:
        handled.append(message.body)
        if handled.count(b"1") == 1:
            raise SuspendQueue
        if handled.count(b"1") == 2 and message.body == b"1":
            raise ValueError("not yet")

    async with Producer("p", namesrv=shared.namesrv) as producer, consumer:
        for body in (b"0", b"1", b"2"):
            await producer.send(Message(topic, body))
        await until(lambda: handled[-1:] == [b"2"], "the last message")
    assert handled == [b"0", b"1", b"1", b"1", b"2"]


@asynchronous
async def test_an_ordered_message_that_always_fails_becomes_a_dead_letter(
    shared: Cluster, topic: str, group: str
) -> None:
    await create_topic(shared.namesrv, topic, 1)
    handled: list[bytes] = []
    consumer = ordered_consumer(
        topic, group, namesrv=shared.namesrv, suspend_queue=0.01, max_reconsume_times=2
    )

    @consumer.on_message
    async def handle(message: MessageExt) -> None:
        handled.append(message.body)
        if message.body == b"bad":
            raise ValueError("never")

    dead: list[bytes] = []
    undertaker = PushConsumer(
        f"{group}-u", namesrv=shared.namesrv, suspend=SUSPEND, start_from=StartFrom.FIRST
    )
    undertaker.subscribe(f"%DLQ%{group}")
    undertaker.on_message(lambda message: dead.append(message.body))
    async with Producer("p", namesrv=shared.namesrv) as producer, consumer:
        for body in (b"bad", b"good"):
            await producer.send(Message(topic, body))
        await until(lambda: handled[-1:] == [b"good"], "the message behind it")
        async with undertaker:
            await until(lambda: dead == [b"bad"], "the dead letter")
    # once more where the dead letter could not be sent: its topic was not known everywhere yet
    assert handled[:3] == [b"bad"] * 3
    assert set(handled[3:-1]) <= {b"bad"}
    assert handled[-1] == b"good"


@asynchronous
async def test_broadcasting_reaches_every_member_and_remembers(
    shared: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    await create_topic(shared.namesrv, topic, 2)
    received: dict[str, list[bytes]] = {"a": [], "b": []}

    def member(name: str) -> PushConsumer:
        consumer = PushConsumer(
            group,
            namesrv=shared.namesrv,
            suspend=SUSPEND,
            model=MessageModel.BROADCASTING,
            start_from=StartFrom.FIRST,
            instance_name=name,
            offset_folder=tmp_path,
        )
        consumer.subscribe(topic)

        @consumer.on_message
        async def handle(message: MessageExt) -> None:
            received[name].append(message.body)
            if message.body == b"3":
                raise ValueError("counts as consumed")

        return consumer

    async with Producer("p", namesrv=shared.namesrv) as producer:
        for number in range(10):
            await producer.send(Message(topic, b"%d" % number))
        async with member("a"), member("b"):
            await until(
                lambda: all(len(bodies) == 10 for bodies in received.values()),
                "every message at each member",
            )
        await producer.send(Message(topic, b"later"))
        async with member("a"):
            await until(lambda: received["a"][-1:] == [b"later"], "the message that came meanwhile")
    assert (
        sorted(received["a"][:10])
        == sorted(received["b"])
        == [b"%d" % number for number in range(10)]
    )
    assert len(received["a"]) == 11


@asynchronous
async def test_a_suspended_consumer_pulls_nothing(shared: Cluster, topic: str, group: str) -> None:
    received: list[bytes] = []
    consumer = PushConsumer(group, namesrv=shared.namesrv, suspend=0.2, start_from=StartFrom.FIRST)
    consumer.subscribe(topic)
    consumer.on_message(lambda message: received.append(message.body))
    async with Producer("p", namesrv=shared.namesrv) as producer, consumer:
        await producer.send(Message(topic, b"0"))
        await until(lambda: received == [b"0"], "the first message")
        consumer.suspend()
        waiting = consumer._gate._waiters  # the pulls that are under way come back, empty
        await until(lambda: len(waiting) == len(consumer.assignment()), "nothing is pulled")
        await producer.send(Message(topic, b"1"))
        await asyncio.sleep(0.5)
        assert received == [b"0"]
        consumer.resume()
        await until(lambda: received == [b"0", b"1"], "the second message")
