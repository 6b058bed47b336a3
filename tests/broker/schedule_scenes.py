"""A broker whose clock the test owns, with delayed messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import PutResult
from tests.stored import decode_messages

from .sim_broker import SimBroker, SimClient, sim_broker, store_config

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
LEVELS = "1s 5s 10s 30s"
PEER = pack_host("127.0.0.1", 1)

Scene = Callable[[SimBroker, SimClient], Awaitable[None]]


@asynccontextmanager
async def world(folder: Path, levels: str = LEVELS, **more: Any) -> AsyncIterator[SimBroker]:
    """``more``: properties of the store."""
    store = store_config(
        folder, mapped_file_size_consume_queue=2_000, message_delay_level=levels, **more
    )
    async with sim_broker(folder, store=store) as sim:
        yield sim
    if sim.broker.store.recovery is not None:  # as ``open_broker`` does when the store is closed
        sim.broker.storage.save_delay_offsets()


def play(folder: Path, *scenes: Scene, levels: str = LEVELS, **more: Any) -> None:
    """Each scene has a broker of its own, on what the one before left."""

    async def main(scene: Scene) -> None:
        async with world(folder, levels, **more) as sim:
            await scene(sim, sim.connect())

    for scene in scenes:
        asyncio.run(main(scene))


def deliver(sim: SimBroker) -> float:
    """Everything that is due. In how many seconds more is."""
    while (wait := sim.broker.storage.schedule.deliver_due()) == 0:
        pass
    return wait


def messages(sim: SimBroker, topic: str = "T", queue_id: int = 0) -> list[MessageExt]:
    found: list[MessageExt] = []
    while batch := decode_messages(sim.broker.store.get(topic, queue_id, len(found)).body):
        found += batch
    return found


def bodies(sim: SimBroker, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return [message.body for message in messages(sim, topic, queue_id)]


def put_scheduled(
    sim: SimBroker, properties: str, code: int, level: int = 1, **more: Any
) -> PutResult:
    """What a Java broker may have left."""
    return sim.broker.store.put_message(
        PutMessage(
            SCHEDULE,
            level - 1,
            b"x",
            properties.encode(),
            PEER,
            1,
            sim.clock.time_ms(),
            code,
            **more,
        )
    )
