"""Clients of a simulated cluster: each a process of its own, killed and started like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiorocketmq import (
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    StartFrom,
    TransactionProducer,
    TransactionState,
)
from aiorocketmq.client.producer.sending import SendResult, SendStatus
from aiorocketmq.remoting.errors import RocketMQError

from .journal import KEYED, TOPIC, Acknowledged, Delivered, Journal
from .world import NAMESRV, World

GROUP = "g"
ORDERED = "o"
SEND_S = 10.0
KEYS = 3
KINDS = ("one",) * 8 + ("list",) * 2 + ("keyed",) * 4 + ("delayed",) * 2 + ("transaction",) * 3
"""What a producer does next."""
HOSTS = ("10.0.2.1", "10.0.2.2", "10.0.2.3", "10.0.2.4")


class Clients:
    """A producer, two members of a group whose handlers refuse now and then, and one of a group
    that consumes in order."""

    def __init__(self, world: World, *, messages: int) -> None:
        self.world = world
        self.messages = messages
        self.journal = Journal()
        self._number = 0
        mains: tuple[Callable[[], Any], ...] = (
            self._produce,
            lambda: self._consume("c1", GROUP, TOPIC),
            lambda: self._consume("c2", GROUP, TOPIC),
            lambda: self._consume("o1", ORDERED, KEYED),
        )
        for name, host, main in zip(("producer", "c1", "c2", "o1"), HOSTS, mains, strict=True):
            machine = world.machine(name, host)
            machine.main = main
            machine.start()

    def _options(self, name: str) -> dict[str, Any]:
        machine = self.world.machines[name]
        return {
            "namesrv": NAMESRV,
            "clock": machine.clock,
            "client_ip": machine.host,
            "instance_name": name,
        }

    # -- sending

    async def _produce(self) -> None:
        options = self._options("producer")
        producer = Producer("p", retries=2, **options)
        transactions = TransactionProducer("tp", checker=self._check, **options)
        async with producer, transactions:
            random = self.world.random
            while self._number < self.messages:
                kind = random.choice(KINDS)
                count = random.choice([1, 1, 1, 5])
                await asyncio.gather(
                    *(self._one(kind, producer, transactions) for _ in range(count))
                )
                await asyncio.sleep(random.expovariate(1 / 0.3))
            self.journal.done = True
            self.world.note(f"all sent, {len(self.journal.acknowledged)} acknowledged")
            await asyncio.Event().wait()

    def _body(self, topic: str) -> bytes:
        body = b"%d" % self._number
        self._number += 1
        self.journal.sent[body] = topic
        return body

    async def _one(self, kind: str, producer: Producer, transactions: TransactionProducer) -> None:
        random = self.world.random
        try:
            match kind:
                case "list":
                    await self._send_list(producer)
                case "keyed":
                    await self._send_keyed(producer, str(random.randrange(KEYS)))
                case "delayed":
                    body = self._body(TOPIC)
                    message = Message(TOPIC, body, delay_level=random.randint(1, 3))
                    if _is_safe(await producer.send(message, timeout=SEND_S)):
                        self.journal.promised[body] = TOPIC
                case "transaction":
                    await self._transact(transactions)
                case _:
                    body, began = self._body(TOPIC), self.world.loop.now
                    result = await producer.send(Message(TOPIC, body), timeout=SEND_S)
                    self._acknowledge(TOPIC, [body], result, began)
        except RocketMQError:
            pass  # it may be stored or not

    async def _send_list(self, producer: Producer) -> None:
        bodies = [self._body(TOPIC) for _ in range(self.world.random.randint(2, 6))]
        began = self.world.loop.now
        result = await producer.send([Message(TOPIC, body) for body in bodies], timeout=SEND_S)
        self._acknowledge(TOPIC, bodies, result, began)

    async def _send_keyed(self, producer: Producer, key: str) -> None:
        body, began = self._body(KEYED), self.world.loop.now
        message = Message(KEYED, body, keys=[key])
        result = await producer.send(message, sharding_key=key, timeout=SEND_S)
        self._acknowledge(KEYED, [body], result, began)

    async def _transact(self, transactions: TransactionProducer) -> None:
        body, random = self._body(TOPIC), self.world.random
        self.journal.decided[body] = TransactionState.ROLLBACK
        wanted = random.choice([TransactionState.COMMIT, TransactionState.ROLLBACK])
        said = random.choice([wanted, wanted, TransactionState.UNKNOWN])

        async def execute(_message: Message) -> TransactionState:
            self.journal.decided[body] = wanted
            if wanted is TransactionState.COMMIT:
                self.journal.promised[body] = TOPIC
            return said

        message = Message(TOPIC, body)
        await transactions.send_in_transaction(message, execute, timeout=SEND_S)

    async def _check(self, message: MessageExt) -> TransactionState:
        return self.journal.decided[message.body]

    def _acknowledge(
        self, topic: str, bodies: list[bytes], result: SendResult, began: float
    ) -> None:
        if not _is_safe(result):
            return
        queue, now = result.queue, self.world.loop.now
        for number, body in enumerate(bodies):
            self.journal.acknowledged.append(
                Acknowledged(
                    topic, queue.broker_name, queue.queue_id, result.queue_offset + number, body,
                    began, now,
                )
            )  # fmt: skip

    # -- consuming

    async def _consume(self, name: str, group: str, topic: str) -> None:
        consumer = PushConsumer(
            group, start_from=StartFrom.FIRST, ordered=group == ORDERED, **self._options(name)
        )
        random, refused = self.world.random, 0.1 if group == GROUP else 0.0

        async def handle(message: MessageExt) -> None:
            consumed = message.reconsume_times > 0 or random.random() >= refused
            self.journal.delivered.append(
                Delivered(
                    group, message.topic, message.broker_name, message.queue_id,
                    message.queue_offset, message.body, consumed,
                    message.reconsume_times > 0,
                )
            )  # fmt: skip
            if not consumed:
                raise ValueError("not today")

        consumer.subscribe(topic)
        consumer.on_message(handle)
        async with consumer:
            await asyncio.Event().wait()


def _is_safe(result: SendResult) -> bool:
    return result.status is SendStatus.SEND_OK
