"""Clients of a simulated cluster: each a process of its own, killed and started like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiorocketmq import (
    Message,
    MessageExt,
    Producer,
    PullConsumer,
    PushConsumer,
    SendFailed,
    StartFrom,
    SuspendQueue,
    TransactionProducer,
    TransactionState,
)
from aiorocketmq.client.producer.sending import SendResult, SendStatus
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.message.properties import PropertyName

from .administering import Administrator, one_of
from .habits import Habits
from .journal import (
    CONSUMED_TOO,
    KEYED,
    TAG,
    TOPIC,
    Acknowledged,
    Delivered,
    InHand,
    Journal,
    Shared,
    has_tag,
    is_hopeless,
    light_queues,
)
from .world import NAMESRV, World

GROUP = "g"
ORDERED = "o"
ASKING = "q"
TAGGED = "t"
LOAD_S = 25.0
SEND_S = 10.0
KEYS = 3
DELAYS_S = (1, 5, 10)
CLIENTS = ("producer", "c1", "c2", "o1", "o2", "q1", "t1", "admin")


def _is_never_taken(group: str, body: bytes, habits: Habits) -> bool:
    """By handlers."""
    return habits.hopeless and group == GROUP and is_hopeless(body)


def given_up(dead: set[bytes], group: str, habits: Habits, limit: int) -> set[bytes]:
    """Those of its dead letters that handlers never take, or brokers, whose limit is that."""
    return {
        body
        for body in dead
        if _is_never_taken(group, body, habits) or (group == GROUP and len(body) > limit)
    }


class Clients:
    """A producer, two members of a group whose handlers refuse now and then, one or two of a group
    that consumes in order, perhaps one that consumes by asking and one that wants messages with a
    tag, and an administrator."""

    def __init__(self, world: World, habits: Habits) -> None:
        self.world = world
        self.habits = habits
        self._until = world.loop.now + LOAD_S
        self.journal = Journal()
        self._number = 0
        self._administrator = Administrator(world, self.journal, habits, self._send_to)
        self._is_idempotent = world.seed % 2 == 1
        """The producer, in every other world."""
        mains: tuple[Callable[[], Any], ...] = (
            self._produce,
            lambda: self._consume("c1", GROUP, TOPIC, *CONSUMED_TOO),
            lambda: self._consume("c2", GROUP, TOPIC, *CONSUMED_TOO),
            lambda: self._consume("o1", ORDERED, KEYED),
            self._consume_in_order_too,
            self._ask,
            self._consume_tagged,
            self._administer,
        )
        for number, (name, main) in enumerate(zip(CLIENTS, mains, strict=True), 1):
            machine = world.machine(name, f"10.0.2.{number}")
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
        producer = Producer("p", retries=2, idempotent=self._is_idempotent, **options)
        transactions = TransactionProducer("tp", checker=self._check, **options)
        async with producer, transactions:
            random = self.world.random
            while self.world.loop.now < self._until:
                kind = one_of(self.habits.sends, random)
                count = random.choice([1, 1, 1, 5])
                await asyncio.gather(
                    *(self._one(kind, producer, transactions) for _ in range(count))
                )
                await asyncio.sleep(random.expovariate(1 / self.habits.pace_s))
            self.journal.done = True
            self.world.note(f"all sent, {len(self.journal.acknowledged)} acknowledged")
            await asyncio.Event().wait()

    def _body(self, topic: str) -> bytes:
        filling = self.world.random.randint(0, self.habits.filling)
        body = b"%d" % self._number + b"." * filling
        self._number += 1
        self.journal.sent[body] = topic
        return body

    async def _one(self, kind: str, producer: Producer, transactions: TransactionProducer) -> None:
        random = self.world.random
        try:
            match kind:
                case "list":
                    bodies = [self._body(TOPIC) for _ in range(random.randint(2, 6))]
                    await self._send(producer, [_plain(body) for body in bodies])
                case "keyed":
                    key = str(random.randrange(KEYS))
                    message = Message(KEYED, self._body(KEYED), keys=[key])
                    await self._send(producer, [message], key)
                case "delayed":
                    body = self._body(TOPIC)
                    level = random.randint(1, 3)
                    message = self._message(body, delay_level=level)
                    self.journal.due[body] = self.world.loop.now + DELAYS_S[level - 1]
                    sends = transactions if self._is_idempotent else producer
                    if _is_safe(await sends.send(message, timeout=SEND_S)):
                        self.journal.promised[body] = TOPIC
                case "transaction":
                    await self._transact(transactions)
                case _:
                    await self._send(producer, [self._message(self._body(TOPIC))])
        except RocketMQError:
            pass  # it may be stored or not

    async def _send(
        self,
        producer: Producer,
        messages: list[Message],
        key: str | None = None,
        *,
        by_administrator: bool = False,
    ) -> None:
        """One, or a list. An administrator's producer is never idempotent."""
        began, journal = self.world.loop.now, self.journal
        bodies = [message.body for message in messages]
        if self._is_idempotent and not by_administrator:
            journal.once.update(bodies)
        if len(bodies) > 1:
            journal.lists.update(dict.fromkeys(bodies, len(bodies)))
        try:
            result = await producer.send(
                messages if len(messages) > 1 else messages[0], sharding_key=key, timeout=SEND_S
            )
        except SendFailed as error:
            if not error.in_doubt:
                journal.refused.update(bodies)
            raise
        self._acknowledge(messages[0].topic, bodies, result, began)

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

        message = self._message(body)
        await transactions.send_in_transaction(message, execute, timeout=SEND_S)

    async def _check(self, message: MessageExt) -> TransactionState:
        return self.journal.decided[message.body]

    def _acknowledge(
        self, topic: str, bodies: list[bytes], result: SendResult, began: float
    ) -> None:
        if not _is_safe(result):
            return
        queue, now = result.queue, self.world.loop.now
        if result.queue_offset < 0:  # where is not known any more
            self.journal.promised.update(dict.fromkeys(bodies, topic))
            return
        for number, body in enumerate(bodies):
            self.journal.acknowledged.append(
                Acknowledged(
                    topic, queue.broker_name, queue.queue_id, result.queue_offset + number, body,
                    began, now,
                )
            )  # fmt: skip

    # -- consuming

    async def _consume(self, name: str, group: str, *topics: str, tag: str = "*") -> None:
        random, handling_s = self.world.random, self.habits.handling_s
        refused = self.habits.refused if group in (GROUP, ORDERED) else 0.0

        async def handle(message: MessageExt) -> None:
            again = message.reconsume_times > 0
            self._look_whether_due(message)
            with self._in_hand(name, message):
                if handling_s and not self.journal.done:
                    await asyncio.sleep(random.expovariate(1 / handling_s))
            consumed = again or self.journal.done or random.random() >= refused
            consumed &= not _is_never_taken(group, message.body, self.habits)
            self.journal.delivered.append(
                Delivered(
                    group, message.topic, message.broker_name, message.queue_id,
                    message.queue_offset, message.body, consumed,
                    again and group != ORDERED,
                )
            )  # fmt: skip
            if not consumed:
                raise random.choice([ValueError("not today"), SuspendQueue(0.2)])

        while True:
            consumer = PushConsumer(
                group, start_from=StartFrom.FIRST, ordered=group == ORDERED,
                max_reconsume_times=1 if group == GROUP else -1, **self._options(name),
            )  # fmt: skip
            for each in topics:
                consumer.subscribe(each, tag)
            consumer.on_message(handle)
            try:
                async with consumer:
                    await asyncio.Event().wait()
            except RocketMQError as error:  # nobody answers just now; somebody starts it again
                self.world.note(f"{name} cannot begin: {error}")
                await asyncio.sleep(1)

    async def _consume_in_order_too(self) -> None:
        if self.habits.in_order > 1:
            await self._consume("o2", ORDERED, KEYED)
        await asyncio.Event().wait()

    async def _consume_tagged(self) -> None:
        if self.habits.tagged:
            await self._consume("t1", TAGGED, TOPIC, tag=TAG)
        await asyncio.Event().wait()

    async def _ask(self) -> None:
        """What was handed out is done when more is asked for; until then it may come again."""
        while self.habits.asked_for:
            consumer = PullConsumer(
                ASKING, TOPIC, start_from=StartFrom.FIRST,
                commit_interval=self.world.random.choice([0.2, 5.0]), **self._options("q1"),
            )  # fmt: skip
            try:
                async with consumer:
                    while True:
                        messages = await consumer.poll()
                        self._given(ASKING, messages, consumed=False)
                        if self.habits.handling_s and not self.journal.done:
                            mean = 1 / self.habits.handling_s
                            await asyncio.sleep(self.world.random.expovariate(mean))
                        self._given(ASKING, messages, consumed=True)
            except RocketMQError as error:
                self.world.note(f"q1 cannot begin: {error}")
                await asyncio.sleep(1)
        await asyncio.Event().wait()

    def _look_whether_due(self, message: MessageExt) -> None:
        """As far as clocks agree (of a group another leader's counts, a known limit)."""
        now = self.world.loop.now
        apart_s = 2 * self.habits.drift * (now - 1000)
        early_s = self.journal.due.get(message.body, 0.0) - now - apart_s
        if early_s > 0.002 and "clock" not in self.habits.faults:
            self.journal.early.append(f"{message.body!r} came {early_s:.3f} s before its time")

    def _given(self, group: str, messages: list[MessageExt], *, consumed: bool) -> None:
        self.journal.delivered += [
            Delivered(
                group, each.topic, each.broker_name, each.queue_id, each.queue_offset, each.body,
                consumed, False,
            )
            for each in messages
        ]  # fmt: skip

    def _message(self, body: bytes, **how: Any) -> Message:
        names = light_queues(body) if self.habits.light else ()
        properties = {PropertyName.INNER_MULTI_DISPATCH: ",".join(names)} if names else {}
        tags = TAG if has_tag(body) else None
        return Message(TOPIC, body, tags=tags, properties=properties, **how)

    @contextmanager
    def _in_hand(self, name: str, message: MessageExt) -> Iterator[None]:
        """Notes whom it belongs to meanwhile, and who else has another one of its queue."""
        if message.topic != KEYED:
            yield
            return
        queue, now = (message.broker_name, message.queue_id), self.world.loop.now
        mine = InHand(name, self.world.machines[name].process, message.queue_offset, now)
        held = self.journal.in_hand.setdefault(queue, [])
        held[:] = [each for each in held if each.process is not None and each.process.alive]
        since = self.world.serves_since.get(message.broker_name, now)
        self.journal.shared += [
            Shared(*queue, each, mine, since) for each in held if each.member != name
        ]
        held.append(mine)
        yield
        held.remove(mine)

    # -- administering

    async def _administer(self) -> None:
        await self._administrator.run(self._options("admin"))

    async def _send_to(self, producer: Producer, topic: str) -> None:
        """One that an administrator has made."""
        try:
            await self._send(producer, [Message(topic, self._body(topic))], by_administrator=True)
        except SendFailed as error:
            if error.in_doubt:  # it may make the topic again, whenever it comes
                self.journal.told.doubt("topics", topic)
            raise


def _plain(body: bytes) -> Message:
    """One of a list: whatever that names counts for nothing, as in the original."""
    return Message(TOPIC, body, tags=TAG if has_tag(body) else None)


def _is_safe(result: SendResult) -> bool:
    return result.status is SendStatus.SEND_OK
