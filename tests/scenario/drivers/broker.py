"""One broker on a store of small files, and clients that speak to it over pipes.

Here are the steps that all areas of the broker have; ``T/0`` is queue 0 of topic T, which is what
``T`` alone means too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest
from aiorocketmq.remoting.protocol.java_properties import parse_properties, update_record
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from tests.stored import decode_messages

from ...broker.sim_broker import SimBroker, SimClient, sim_broker, store_config
from ..language import Driver, step
from .simulated import code_of, keep_running, pass_time, settle

LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


class BrokerDriver(Driver):
    """Restarts leave the files and the clock as they are."""

    async def start(self) -> None:
        self.levels = LEVELS
        self.config: dict[str, Any] = {}
        await self._open()
        self.stack.push_async_callback(lambda: self._life.aclose())

    async def _open(self) -> None:
        store = store_config(self.folder, message_delay_level=self.levels)
        self._life = AsyncExitStack()
        self.sim: SimBroker = await self._life.enter_async_context(
            sim_broker(self.folder, store=store, clock=self.clock, **self.config)
        )
        self.clients: dict[str, SimClient] = {}
        await self.opened()

    async def opened(self) -> None:
        """The broker has started, now or again."""
        keep_running(
            self._life, self.sim.broker.storage.schedule.run(), self.sim.broker.clients.watch.run()
        )

    def client(self, name: str) -> SimClient:
        if name not in self.clients:
            self.clients[name] = self.sim.connect()
        return self.clients[name]

    # -- administration

    @step("topic {name} queues {queues}")
    async def topic(self, name: str, queues: int) -> None:
        config = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
        self.sim.broker.state.topics.update(config)
        await self.sim.broker.tables.topics_file.saved()

    @step("group {name}[ retries {retries}][ retry queues {queues}]")
    async def group(self, name: str, retries: int = 16, queues: int = 1) -> None:
        self.sim.broker.state.groups.update(
            SubscriptionGroupConfig(
                group_name=name, retry_max_times=retries, retry_queue_nums=queues
            )
        )
        await self.sim.broker.tables.groups_file.saved()

    @step("config {name}={value}")
    def change_config(self, name: str, value: str) -> None:
        """A property of the broker, while it runs."""
        update_record(self.sim.broker.settings.broker, parse_properties(f"{name}={value}"))

    # -- life

    @step("advance {seconds} s")
    async def advance(self, seconds: float) -> None:
        await pass_time(self.clock, seconds)

    @step("restart[ after {seconds} s]")
    async def restart(self, seconds: float = 0) -> None:
        """In order: what is in memory is written first. It may be away for a while."""
        broker = self.sim.broker
        broker.tables.offsets_file.changed()
        await self._life.aclose()
        broker.storage.save_delay_offsets()
        self.clock.advance(seconds)
        await self._open()

    @step("{name} disconnects")
    async def disconnects(self, name: str) -> None:
        self.clients.pop(name).connection.close("gone")
        await settle()

    # -- messages

    @step("send {body} to {queue}[ tag {tag}][ key {key}][ delay {level}][ with {properties}]")
    async def send(
        self,
        body: str,
        queue: str,
        tag: str = "",
        key: str = "",
        level: int = 0,
        properties: str = "",
    ) -> str:
        """Properties: ``a=1,b=2``."""
        topic, queue_id = queue_of(queue)
        pairs = dict(pair.split("=") for pair in properties.split(",") if pair)
        pairs |= {"TAGS": tag} if tag else {}
        pairs |= {"KEYS": key} if key else {}
        pairs |= {"DELAY": str(level)} if level else {}
        header = SendMessageRequest(
            producer_group="p",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=self.clock.time_ms(),
            flag=0,
            properties=encode_properties(pairs).decode(),
        )
        answer = await self.client("producer").ask(RequestCode.SEND_MESSAGE, header, body.encode())
        if answer.code:
            return code_of(answer)
        return f"ok, queue {answer.header.queue_id} offset {answer.header.queue_offset}"

    @step("show {queue}")
    def show(self, queue: str) -> list[str]:
        """Its messages, as they are stored."""
        found = [self.describe(message) for message in self.messages(queue)]
        return found or ["empty"]

    def describe(self, message: MessageExt) -> str:
        return f"{message.queue_offset} {message.body.decode()}"

    def messages(self, queue: str) -> Iterator[MessageExt]:
        topic, queue_id = queue_of(queue)
        store = self.sim.broker.store
        number = store.min_offset(topic, queue_id)
        while batch := decode_messages(store.get(topic, queue_id, number).body):
            yield from batch
            number = batch[-1].queue_offset + 1


def queue_of(text: str) -> tuple[str, int]:
    topic, _, queue_id = text.partition("/")
    return topic, int(queue_id or 0)
