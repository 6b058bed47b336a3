"""A producer of transactions at a broker, step by step, for the tests of both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest, SendMessageResponse
from aiorocketmq.remoting.protocol.commands.transaction import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from aiorocketmq.remoting.protocol.message.message_id import parse_offset_message_id
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from tests.stored import decode_messages

from ..sim import turns
from .sim_broker import SimBroker, SimClient, sim_broker

HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "CID_RMQ_SYS_TRANS"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0

Scene = Callable[[SimBroker, SimClient], Awaitable[None]]


def play(folder: Path, scene: Scene, **config: Any) -> None:
    async def run() -> None:
        async with sim_broker(folder, **config) as world:
            client = world.connect()
            await client.heartbeat("c1", producers=("pg",))
            await scene(world, client)

    asyncio.run(run())


def stored(world: SimBroker, topic: str, queue_id: int = 0) -> list[MessageExt]:
    found: list[MessageExt] = []
    while len(found) < world.broker.store.max_offset(topic, queue_id):
        found += decode_messages(world.broker.store.get(topic, queue_id, len(found)).body)
    return found


async def half(
    world: SimBroker,
    client: SimClient,
    key: str = "K",
    more: str = "",
    topic: str = "T",
    queue_id: int = 1,
    **fields: Any,
) -> SendMessageResponse:
    header: dict[str, Any] = {
        "producer_group": "pg", "topic": topic, "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": queue_id, "sys_flag": MessageSysFlag.TRANSACTION_PREPARED,
        "born_timestamp": world.clock.time_ms(),
        "flag": 7,
        "properties": "TAGS\x01a\x02TRAN_MSG\x01true\x02"
        f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02PGROUP\x01pg{more}",
    }  # fmt: skip
    answer = await client.ask(
        RequestCode.SEND_MESSAGE,
        SendMessageRequest(**{**header, **fields}),
        b"body " + key.encode(),
    )
    header_found = answer.check().header
    assert isinstance(header_found, SendMessageResponse)
    return header_found


def word(sent: SendMessageResponse, decision: int, **changed: Any) -> EndTransactionRequest:
    fields: dict[str, Any] = {
        "producer_group": "pg",
        "tran_state_table_offset": sent.queue_offset,
        "commit_log_offset": parse_offset_message_id(sent.msg_id).phy_offset,
        "commit_or_rollback": decision,
        "msg_id": "K",
    }
    return EndTransactionRequest(**{**fields, **changed})


async def end(client: SimClient, sent: SendMessageResponse, decision: int, **changed: Any) -> None:
    (await client.ask(RequestCode.END_TRANSACTION, word(sent, decision, **changed))).check()


async def checked(world: SimBroker, seconds: float = 60.0) -> None:
    """A round after so much time."""
    world.clock.advance(seconds)
    await world.broker.storage.transaction_check.check()
    await turns()  # what it asks is on its way


def asked(client: SimClient) -> list[tuple[CheckTransactionStateRequest, MessageExt]]:
    """What the broker has asked so far."""
    found = [
        (request, decode_record(body))
        for (code, request), body in zip(client.pushed, client.pushed_bodies, strict=True)
        if code is RequestCode.CHECK_TRANSACTION_STATE
    ]
    client.pushed.clear()
    client.pushed_bodies.clear()
    return found


def answer_to(request: CheckTransactionStateRequest, decision: int) -> EndTransactionRequest:
    return EndTransactionRequest(
        producer_group="pg",
        tran_state_table_offset=request.tran_state_table_offset,
        commit_log_offset=request.commit_log_offset,
        commit_or_rollback=decision,
        from_transaction_check=True,
        msg_id=request.msg_id or "",
    )


# -- half messages
