"""A producer with sequences at a broker, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import (
    SendMessageRequestV2,
    SendMessageResponse,
    SequenceHelloRequest,
)
from aiorocketmq.remoting.protocol.message.send_sequence import SendSequence
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.remoting.responses import Response
from tests.stored import decode_messages

from ..sim import ManualClock
from .sim_broker import SimBroker, SimClient, sim_broker

ID = "0123456789abcdef0123456789abcdef"
BEGUN = ManualClock().time_ms()
DAY_MS = 24 * 3_600_000
HEADER = SendMessageRequestV2(
    producer_group="p",
    topic="T",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=1,
    sys_flag=MessageSysFlag.SEQUENCED,
    born_timestamp=1,
    flag=0,
)


def play(
    folder: Path, scene: Callable[[SimBroker, SimClient], Awaitable[None]], **config: Any
) -> None:
    async def main() -> None:
        async with sim_broker(folder, **config) as world:
            client = world.connect()
            await world.make_topic("T")
            assert (await hello(client)).code == 0
            await scene(world, client)

    asyncio.run(main())


async def hello(client: SimClient, producer_id: str = ID, epoch: int = 0) -> Response:
    request = SequenceHelloRequest(producer_id=producer_id, epoch=epoch)
    return await client.ask(RequestCode.SEND_SEQUENCE_HELLO, request)


def properties(number: int, epoch: int, producer_id: str, begun_ms: int) -> str:
    return f"SEND_SEQUENCE\x01{SendSequence(producer_id, epoch, number, begun_ms).text}"


async def send(
    client: SimClient,
    number: int,
    body: bytes = b"x",
    *,
    epoch: int = 0,
    producer_id: str = ID,
    begun_ms: int = BEGUN,
    more: str = "",
    **changes: Any,
) -> Response:
    text = f"TAGS\x01t\x02{properties(number, epoch, producer_id, begun_ms)}{more}"
    header = replace(HEADER, properties=text, **changes)
    return await client.ask(RequestCode.SEND_MESSAGE_V2, header, body)


async def send_batch(
    client: SimClient, number: int, bodies: list[bytes], *, epoch: int = 0, queue_id: int = 1
) -> Response:
    header = replace(
        HEADER, properties=properties(number, epoch, ID, BEGUN), batch=True, queue_id=queue_id
    )
    items = encode_batch(BatchItem(flag=0, body=body, properties=b"") for body in bodies)
    return await client.ask(RequestCode.SEND_BATCH_MESSAGE, header, items)


async def send_others(world: SimBroker, client: SimClient, pause_s: float = 0.0) -> None:
    """2.5 MB without sequences: the log has three files then. ``pause_s``: before each of 25."""
    for _ in range(25):
        world.clock.advance(pause_s)
        await client.send("Other", bytes(100_000))


def bodies(world: SimBroker, queue_id: int = 1) -> list[bytes]:
    result = world.broker.store.get("T", queue_id, 0, 1000, max_bytes=1 << 20)
    return [message.body for message in decode_messages(result.body)]


def answer(response: Response) -> SendMessageResponse:
    found = response.check().header
    assert isinstance(found, SendMessageResponse)
    return found
