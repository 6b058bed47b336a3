"""An administrator of a simulated cluster, who changes tables and reads, one thing at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from aiorocketmq import Admin, Producer
from aiorocketmq.remoting.errors import ConnectError, RocketMQError
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import UpdateConsumerOffsetRequest
from aiorocketmq.remoting.protocol.message.sys_flag import PermName

from .habits import Habits
from .journal import TOPIC, Journal
from .told import Entry, Value
from .world import World

MOVED = "m"
"""A group that only the administrator moves."""
Send = Callable[[Producer, str], Awaitable[None]]


class Administrator:
    """``send`` sends to a topic that was made, and puts down what became of it."""

    def __init__(self, world: World, journal: Journal, habits: Habits, send: Send) -> None:
        self._world = world
        self._journal = journal
        self._habits = habits
        self._send = send
        self._made = 0

    async def run(self, options: dict[str, Any]) -> None:
        """As a process."""
        random = self._world.random
        admin = Admin(**options)
        producer = Producer("ap", retries=0, **options | {"instance_name": "ap"})
        async with admin, producer:
            while not self._journal.done:
                await asyncio.sleep(random.expovariate(1 / self._habits.chores_s))
                try:
                    await self._do(one_of(self._habits.chores, random), admin, producer)
                except RocketMQError as error:
                    self._world.note(f"the administrator is told: {error}")
            await asyncio.Event().wait()

    async def _do(self, chore: str, admin: Admin, producer: Producer) -> None:
        random, told = self._world.random, self._journal.told
        topics, groups = told.certain("topics"), told.certain("groups")
        match chore:
            case "make":
                self._made += 1
                await self._set_topic(admin, f"X{self._made}")
                await self._send(producer, f"X{self._made}")
            case "change" if topics:
                await self._set_topic(admin, random.choice(topics))
            case "send" if topics:
                await self._send(producer, random.choice(topics))
            case "delete" if topics:
                await self._delete_topic(admin, random.choice(topics))
            case "group":
                self._made += 1
                name = random.choice([*groups, f"Y{self._made}"])
                await self._set_group(admin, name)
            case "ungroup" if groups:
                await self._delete_group(admin, random.choice(groups))
            case "limit":
                await self._limit_bodies(admin)
            case "reset":
                await admin.reset_offsets("g", TOPIC, 0)
            case "move":
                await self._move(admin)
            case _:
                await admin.consume_stats("g")

    async def _each(
        self, table: str, name: str, value: Value, ask: Callable[[str], Awaitable[None]]
    ) -> None:
        """Broker by broker. Raises ``RocketMQError`` at the first that does not do it."""
        told = self._journal.told
        for broker_name in self._world.broker_names():
            machine = self._world.masters().get(broker_name)
            if machine is None:
                raise ConnectError(f"nobody serves {broker_name}")
            entry = Entry(broker_name, table, name)
            told.begins(entry, value)
            await ask(f"{machine.host}:10911")
            told.ends(entry, value)
            self._world.note(f"{broker_name}, at {machine.name}, has of {table} {name}: {value}")

    async def _set_topic(self, admin: Admin, topic: str) -> None:
        random = self._world.random
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=random.randint(2, 4),
            write_queue_nums=random.randint(1, 2),
            perm=random.choice([PermName.READ | PermName.WRITE] * 3 + [PermName.READ]),
        )
        await self._each("topics", topic, config, lambda at: admin.create_topic_on(at, config))

    async def _delete_topic(self, admin: Admin, topic: str) -> None:
        self._journal.gone.add(topic)
        await self._each("topics", topic, None, lambda at: admin.delete_topic_in_broker(at, topic))
        await admin.delete_topic_in_name_servers(topic, "C")
        self._journal.told.deleted.add(topic)

    async def _set_group(self, admin: Admin, group: str) -> None:
        random = self._world.random
        config = SubscriptionGroupConfig(
            group_name=group,
            consume_enable=random.random() < 0.5,
            retry_queue_nums=random.randint(1, 3),
            retry_max_times=random.randint(1, 16),
        )
        await self._each(
            "groups", group, config, lambda at: admin.create_subscription_group(at, config)
        )

    async def _delete_group(self, admin: Admin, group: str) -> None:
        await self._each(
            "groups", group, None, lambda at: admin.delete_subscription_group(at, group)
        )

    async def _limit_bodies(self, admin: Admin) -> None:
        """Until the broker is started again. What waits there and is longer than that comes nowhere
        but to the dead letters."""
        random, masters = self._world.random, sorted(self._world.masters().items())
        if not masters:
            return
        _, machine = random.choice(masters)
        limit = random.randint(100, 100 + self._habits.filling)
        self._journal.limit = min(self._journal.limit, limit)
        await admin.update_broker_config(f"{machine.host}:10911", {"maxMessageSize": str(limit)})
        self._world.note(f"{machine.name} takes bodies of {limit} bytes at most")

    async def _move(self, admin: Admin) -> None:
        """Behind a message that is there for certain. (By its address: a slave takes offsets, too,
        from who takes it for the master, and keeps them to itself until it is.)"""
        world, commits = self._world, self._journal.commits
        acks = [each for each in self._journal.acknowledged if each.topic == TOPIC]
        masters = world.masters()
        if not acks or (master := masters.get((ack := world.random.choice(acks)).broker)) is None:
            return
        queue, offset, process = (ack.broker, ack.queue_id), ack.offset + 1, master.process
        if offset <= commits.most(*queue):
            return
        commit = UpdateConsumerOffsetRequest(
            consumer_group=MOVED, topic=TOPIC, queue_id=ack.queue_id, commit_offset=offset
        )
        commits.begins(*queue, offset)
        await admin._invoke(f"{master.host}:10911", RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        serves = world.masters().get(ack.broker)
        if serves is master and master.process is process:
            commits.ends(*queue, world.loop.now)
            world.note(f"{MOVED} was moved to {offset} of {ack.broker}/{TOPIC}/{ack.queue_id}")


def one_of(weights: dict[str, int], random: Random) -> str:
    return random.choices(list(weights), list(weights.values()))[0]
