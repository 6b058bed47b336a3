"""The troubles, one step for each: what is done to a broker that works, and ended again."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiorocketmq import Admin, Message
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig, TopicConfigList
from aiorocketmq.remoting.protocol.codes import RequestCode
from examples.demo.daemons import Daemons

from . import peers
from .load import TOPIC, Load

HOUR_NS: Final = 3_600_000_000_000
RELAY: Final = "127.0.0.2"
"""Where relays listen, at the same ports."""
_MANY_TOPICS: Final = 99_900
"""With those of the system nearly the 100,000 that a broker holds at most."""
_TOPICS_AT_ONCE: Final = 4000
"""In one request; each is made durable before it is answered."""
_KNOWN_WITHIN_S: Final = 120.0

Notes = dict[str, float]
"""What else was seen, by name."""


class RelayedNameServer(Daemons):
    """Clients know the name server by its relay alone, the broker both ways."""

    @property
    def relay(self) -> str:
        return f"{RELAY}:{self.namesrv_address.rpartition(':')[2]}"

    def _broker_config(self) -> list[str]:
        servers = f"namesrvAddr={self.relay};{self.namesrv_address}"
        return [*super()._broker_config(), servers, "registerNameServerPeriod=10000"]


class RelayedBroker(Daemons):
    """Routes lead to a relay in front of the broker."""

    def _broker_config(self) -> list[str]:
        return [*super()._broker_config(), f"brokerIP1={RELAY}"]


class World(NamedTuple):
    """What a step works with."""

    daemons: Daemons
    load: Load
    folder: Path
    relay: Any
    """The number that the step's relay goes by; 0: it only relays."""
    small: bool

    def size(self, full: int) -> int:
        """A hundredth of it, to try a step out."""
        return max(1, full // 100) if self.small else full


Trouble = Callable[[World], AbstractAsyncContextManager[Notes]]


class Step(NamedTuple):
    """One row."""

    name: str
    what: str
    """What was done, in words."""
    trouble: Trouble
    daemons: type[Daemons] = Daemons
    relay: Callable[..., None] | None = None
    during_s: float = 12.0
    preloads_clock: bool = False


@asynccontextmanager
async def many_connections(world: World) -> AsyncIterator[Notes]:
    count, connected = world.size(10_000), peers.shared()
    with peers.running(peers.idle, *_of(world.daemons.broker_address), count, connected):
        await _until(lambda: connected.value >= count)
        yield {"connections": connected.value}


@asynccontextmanager
async def many_members(world: World) -> AsyncIterator[Notes]:
    count, joined, lists = world.size(1_000), peers.shared(), peers.shared()
    notes: Notes = {}
    broker = _of(world.daemons.broker_address)
    with peers.running(peers.members, *broker, count, joined, lists):
        yield notes
        notes |= {"joins": joined.value, "lists of the group asked for": lists.value}


@asynccontextmanager
async def many_topics(world: World) -> AsyncIterator[Notes]:
    """They are made while it is measured; what follows is measured with all of them there."""
    count = world.size(_MANY_TOPICS)
    notes: Notes = {}
    made = asyncio.create_task(_make_topics(world, count, notes))
    yield notes
    await made
    async with Admin(namesrv=world.daemons.namesrv_address) as admin:
        began = time.monotonic()
        while (known := len(await admin.topic_list())) < count:
            await asyncio.sleep(0.2)
            if time.monotonic() - began > _KNOWN_WITHIN_S:
                break
        notes["seconds until the name server knew all"] = round(time.monotonic() - began, 1)
        notes["topics at the name server"] = known


async def _make_topics(world: World, count: int, notes: Notes) -> None:
    began, remoting = time.monotonic(), world.load.producer.instance.remoting
    for first in range(0, count, _TOPICS_AT_ONCE):
        names = range(first, min(count, first + _TOPICS_AT_ONCE))
        some = tuple(TopicConfig(topic_name=f"Topic-{number}") for number in names)
        body = encode_body(TopicConfigList(topic_config_list=some))
        answer = await remoting.invoke(
            world.daemons.broker_address,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            None,
            body,
            timeout=60.0,
        )
        answer.check()
    notes["seconds to make all"] = round(time.monotonic() - began, 1)


@asynccontextmanager
async def nonsense_name_server(world: World) -> AsyncIterator[Notes]:
    """Everybody asks for routes ten times a second meanwhile."""
    bad = world.relay
    bad.value, notes = 1.0, Notes()
    asking = asyncio.create_task(_refresh(world.load, notes))
    try:
        yield notes
    finally:
        notes["answers that were nonsense"] = bad.value - 1
        bad.value = 0.0
        asking.cancel()


async def _refresh(load: Load, notes: Notes) -> None:
    notes["routes asked for in vain"] = 0
    while True:
        try:
            await load.producer.instance.routes.refresh(TOPIC)
        except RocketMQError:
            notes["routes asked for in vain"] += 1
        await asyncio.sleep(0.1)


@asynccontextmanager
async def poison(world: World) -> AsyncIterator[Notes]:
    """A group of eight; each member gets a message that its handler fails at, again and again."""
    ready, handled, failed = peers.shared(), peers.shared(), peers.shared()
    with peers.running(peers.consumers, world.daemons.namesrv_address, ready, handled, failed):
        await _until(lambda: ready.value)
        for number, queue in enumerate(await world.load.producer.queues(TOPIC)):
            await world.load.producer.send(Message(TOPIC, b"poison-%d" % number), queue=queue)
        before, began, notes = handled.value, time.monotonic(), Notes()
        yield notes
        seconds = time.monotonic() - began
        notes["others handled per second"] = round((handled.value - before) / seconds)
        notes["times a handler failed"] = failed.value


@asynccontextmanager
async def clock_back(world: World) -> AsyncIterator[Notes]:
    set_clock(world.folder, -HOUR_NS)
    try:
        yield {"clock moved by s": -3600}
    finally:
        set_clock(world.folder, 0)


def set_clock(folder: Path, offset_ns: int) -> Path:
    """In place: the daemons have mapped it. The file."""
    path = folder / "clock"
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(struct.pack("=q", offset_ns))
    return path


@asynccontextmanager
async def packet_loss(world: World) -> AsyncIterator[Notes]:
    loss = world.relay
    loss.value = 0.01
    try:
        yield {"share of segments late": 0.01}
    finally:
        loss.value = 0.0


def _of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


async def _until(is_so: Callable[[], Any]) -> None:
    while not is_so():  # noqa: ASYNC110
        await asyncio.sleep(0.05)


STEPS: Final = (
    Step("connections", "10,000 idle connections", many_connections),
    Step(
        "members",
        "1,000 members of one group join, each asks for the list of the group after a change (once "
        "a second at most); then 20 a second leave and come back",
        many_members,
        during_s=40.0,
    ),
    Step(
        "topics",
        "99,900 topics are made on the broker (it holds 100,000), 4,000 in a request, and "
        "registered in parts",
        many_topics,
        during_s=20.0,
    ),
    Step(
        "name server",
        "the name server of the clients, one of two of the broker, answers nonsense: no JSON, "
        "other shapes, other frames, nothing; ten routes are asked for in a second",
        nonsense_name_server,
        RelayedNameServer,
        peers.nonsense,
        during_s=25.0,
    ),
    Step(
        "poison",
        "a group of eight consumers begins to read, in a process of its own; each has a message "
        "that its handler fails at",
        poison,
        during_s=25.0,
    ),
    Step(
        "clock",
        "the clock of name server and broker is put back an hour, and forward again",
        clock_back,
        preloads_clock=True,
    ),
    Step(
        "packet loss",
        "a relay between clients and broker has 1 % of the segments come 200 ms late, and all "
        "behind them on that connection (in the place of netem, which needs a kernel module)",
        packet_loss,
        RelayedBroker,
        peers.lossy,
    ),
)
