"""Clients of a simulated cluster, and what they saw."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from aiorocketmq import Message, MessageExt, Producer, PushConsumer, StartFrom
from aiorocketmq.client.producer.sending import SendStatus
from aiorocketmq.remoting.errors import RocketMQError

from .loop import Process
from .world import NAMESRV, World

TOPIC = "T"
GROUP = "g"


class Acknowledged(NamedTuple):
    """What a producer was told."""

    broker: str
    queue_id: int
    offset: int
    body: bytes


class Delivered(NamedTuple):
    """What a consumer was given."""

    broker: str
    queue_id: int
    offset: int
    body: bytes


class Clients:
    """A producer and a consumer, each a process of its own, that live as long as the world."""

    def __init__(self, world: World, *, messages: int) -> None:
        self.world = world
        self.messages = messages
        self.sent: list[bytes] = []
        self.acknowledged: list[Acknowledged] = []
        self.failed: list[bytes] = []
        self.delivered: list[Delivered] = []
        self.done = False
        """The producer has sent all."""
        for name, host, main in (
            ("producer", "10.0.2.1", self._produce()),
            ("consumer", "10.0.2.2", self._consume()),
        ):
            machine = world.machine(name, host)
            machine.process = Process(world.loop, name, host)
            machine.process.start(main).add_done_callback(machine.has_ended)

    async def _produce(self) -> None:
        world = self.world
        producer = Producer(
            "p", namesrv=NAMESRV, clock=world.machines["producer"].clock, client_ip="10.0.2.1",
            instance_name="p", retries=2,
        )  # fmt: skip
        async with producer:
            number = 0
            while number < self.messages:
                count = min(self.messages - number, world.random.choice([1, 1, 1, 5]))
                await asyncio.gather(
                    *(self._send(producer, b"%d" % (number + each)) for each in range(count))
                )
                number += count
                await asyncio.sleep(world.random.expovariate(1 / 0.3))
            self.done = True
            world.note(f"all sent, {len(self.acknowledged)} acknowledged")
            await asyncio.Event().wait()

    async def _send(self, producer: Producer, body: bytes) -> None:
        self.sent.append(body)
        try:
            result = await producer.send(Message(TOPIC, body), timeout=10)
        except RocketMQError:
            self.failed.append(body)
            return
        if result.status is SendStatus.SEND_OK:
            queue = result.queue
            self.acknowledged.append(
                Acknowledged(queue.broker_name, queue.queue_id, result.queue_offset, body)
            )
        else:
            self.failed.append(body)

    async def _consume(self) -> None:
        consumer = PushConsumer(
            GROUP, namesrv=NAMESRV, clock=self.world.machines["consumer"].clock,
            client_ip="10.0.2.2", instance_name="c", start_from=StartFrom.FIRST,
        )  # fmt: skip

        async def handle(message: MessageExt) -> None:
            self.delivered.append(
                Delivered(message.broker_name, message.queue_id, message.queue_offset, message.body)
            )

        consumer.subscribe(TOPIC)
        consumer.on_message(handle)
        async with consumer:
            await asyncio.Event().wait()
