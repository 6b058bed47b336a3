"""Requests to a dispatcher over a real connection with a simulated peer, and its answers."""

from __future__ import annotations

import asyncio
from typing import Any

from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.transport.flow import Limits

from ..sim import SimOwner, SimTransport, connect

OFFSET_FIELDS = {"consumerGroup": "g", "topic": "T", "queueId": "3"}


def request(
    code: int,
    fields: dict[str, str] | None = None,
    *,
    opaque: int = 7,
    flag: int = 0,
    form: int = 0,
) -> bytes:
    command = RemotingCommand(code=code, opaque=opaque, flag=flag, ext_fields=fields)
    return encode_frame(form, encode_header(command, form))


def answers(transport: SimTransport) -> list[tuple[RemotingCommand, bytes]]:
    frames = FrameDecoder().feed(bytes(transport.written))
    transport.written.clear()
    return [(decode_header(form, header), bytes(body)) for form, header, body in frames]


def run(
    table: dict[RequestCode, Any], *pieces: bytes, limits: Limits | None = None, **options: Any
) -> list[tuple[RemotingCommand, bytes]]:
    """Feed pieces of a stream to a fresh connection; what it answered."""

    async def main() -> list[tuple[RemotingCommand, bytes]]:
        owner = SimOwner(Dispatcher(table, **options), limits=limits)
        connection, transport = connect(owner)
        for piece in pieces:
            connection.data_received(piece)
        await asyncio.gather(*owner.tasks)
        await asyncio.sleep(0)
        return answers(transport)

    return asyncio.run(main())


def answer_offset(req: Any, body: Body, ctx: Context) -> Reply:
    response = COMMANDS[RequestCode.QUERY_CONSUMER_OFFSET].response
    return Reply(header=response(offset=req.queue_id * 10))


OFFSET_TABLE = {RequestCode.QUERY_CONSUMER_OFFSET: answer_offset}
