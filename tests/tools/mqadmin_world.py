"""A cluster with the topics, groups and messages of the golden material, for tests of all commands
of ``mqadmin``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from aiorocketmq import Admin, Message, MessageQueue, Producer, PushConsumer, StartFrom
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.message.topic_names import retry_topic
from aiorocketmq.testing import LocalCluster

GOLDEN_BROKER = "127.0.0.1:27811"
GOLDEN_NAMESRV = "127.0.0.1:27776"
GROUP = "GID_gold_tag"
OFFLINE_GROUP = "GID_gold_pull"
PRODUCERS = "PID_gold"
TOPIC = "GoldNormal"
ID = r"\b[0-9A-F]{32}(?:[0-9A-F]{24})?\b"

PATIENCE_S = 30.0

T = TypeVar("T")


class World(NamedTuple):
    """A consumer and a producer are online as long as it is there."""

    cluster: LocalCluster
    msg_id: str
    """Of the first message, by its producer: queue 0, offset 0, ``hello 0``, key0 and shared,
    TagA."""
    offset_msg_id: str
    client_id: str
    """Of the consumer."""

    def words(self, line: str) -> list[str]:
        """The words of a command line with the addresses and ids of this world."""
        names = {
            "{b}": self.cluster.broker_address,
            "{id}": self.msg_id,
            "{oid}": self.offset_msg_id,
            "{client}": self.client_id,
        }
        return [names.get(word, word) for word in line.split()]

    def masked(self, text: str) -> str:
        """Without what differs from run to run: addresses, ids, times, sizes, rates."""
        text = text.replace(self.cluster.broker_address, GOLDEN_BROKER)
        text = text.replace(self.cluster.namesrv_address, GOLDEN_NAMESRV)
        text = text.replace(str(self.cluster.data_dir), "<data>").replace(
            self.client_id, "<client>"
        )
        text = re.sub(
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?", lambda m: "<ms>" if m[1] else "<s>", text
        )
        text = re.sub(ID, "<id>", text)
        numbers = (
            "storeSize|commitLogOffset|bodyCRC|(?:born|store)Timestamp|physicOffset|physicSize|"
            "spentTimeMills"
        )
        text = re.sub(rf"({numbers})=\d+", r"\1=#", text)
        text = re.sub(r"(CommitLog Offset: +)\d+", r"\1#", text)
        text = re.sub(r"(bornHost=/|Born Host: +|remoteIP=/)127\.0\.0\.1:\d+", r"\1<peer>", text)
        return re.sub(r"<client>( +)127\.0\.0\.1:\d+ +", r"<client> <peer> ", text)


@contextmanager
def world(**properties: str) -> Iterator[World]:
    with LocalCluster(properties={"brokerName": "broker-g", **properties}) as cluster:
        ready: asyncio.Queue[World] = _on(cluster, _made_queue())
        done = asyncio.Event()
        running = asyncio.run_coroutine_threadsafe(_live(cluster, ready, done), cluster.loop)
        try:
            yield _on(cluster, _first(ready, asyncio.wrap_future(running, loop=cluster.loop)))
        finally:
            cluster.loop.call_soon_threadsafe(done.set)
            running.result(30)


async def _made_queue() -> asyncio.Queue[World]:
    return asyncio.Queue()


async def _first(ready: asyncio.Queue[World], running: asyncio.Future[None]) -> World:
    waiting = asyncio.ensure_future(ready.get())
    await asyncio.wait((waiting, running), return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        await running
    return await waiting


def _on(cluster: LocalCluster, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, cluster.loop).result(4 * PATIENCE_S)


async def _live(cluster: LocalCluster, ready: asyncio.Queue[World], done: asyncio.Event) -> None:
    namesrv = cluster.namesrv_address
    consumer = PushConsumer(
        GROUP,
        namesrv=namesrv,
        start_from=StartFrom.FIRST,
        instance_name="tag@inst",
        client_ip="192.0.2.2",
    )
    consumer.subscribe(TOPIC, "TagA || TagB")
    consumed = asyncio.Event()
    left = 12

    async def handle(_message: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            consumed.set()

    consumer.on_message(handle)
    async with (
        Admin(namesrv=namesrv) as admin,
        Producer(
            PRODUCERS, namesrv=namesrv, instance_name="prod", client_ip="192.0.2.2", trace=True
        ) as producer,
    ):
        await admin.create_topic_on(
            cluster.broker_address,
            TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4),
        )
        await _until(_known(admin, TOPIC), "the topic is known")
        sent = [
            await producer.send(
                Message(
                    TOPIC,
                    f"hello {n}".encode(),
                    tags=f"Tag{'AB'[n % 2]}",
                    keys=[f"key{n}", "shared"],
                ),
                queue=MessageQueue(TOPIC, "broker-g", n % 4),
            )
            for n in range(12)
        ]
        for queue_id in range(4):
            await admin.update_consumer_offset(
                OFFLINE_GROUP, MessageQueue(TOPIC, "broker-g", queue_id), 1
            )
        async with consumer:
            await _until(consumed.wait(), "the group has consumed all messages")
            for queue_id in range(4):
                await admin.update_consumer_offset(
                    GROUP, MessageQueue(TOPIC, "broker-g", queue_id), 3
                )
            await _until(_known(admin, retry_topic(GROUP)), "the retry topic is known")
            await admin.update_consumer_offset(
                GROUP, MessageQueue(retry_topic(GROUP), "broker-g", 0), 0
            )
            await _until(_known(admin, "RMQ_SYS_TRACE_TOPIC"), "the trace topic is known")
            await _until(_traced(admin, sent[0].msg_id), "the first message is traced")
            ready.put_nowait(
                World(cluster, sent[0].msg_id, sent[0].offset_msg_id, consumer.instance.client_id)
            )
            await done.wait()


async def _until(condition: Coroutine[Any, Any, Any], what: str) -> None:
    try:
        await asyncio.wait_for(condition, PATIENCE_S)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE_S} s in vain until {what}") from None


async def _known(admin: Admin, topic: str) -> None:
    while topic not in await admin.topic_list():
        await asyncio.sleep(0.01)


async def _traced(admin: Admin, msg_id: str) -> None:
    while not await admin.message_trace(msg_id):
        await asyncio.sleep(0.02)
