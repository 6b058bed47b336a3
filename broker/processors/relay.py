"""Questions that the broker passes on to consumers: 223, 307, 309 (classes AdminBrokerProcessor,
Broker2Client; ``headers.md`` B.8 to B.10 and part C)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from ...remoting.dispatch import NOT_SET_REMARK, Body, Context, ProcessorTable, Reply
from ...remoting.errors import RemotingError, RequestError, RequestTimeout
from ...remoting.peer import Peer
from ...remoting.protocol.bodies.codec import BodyError, decode_body, encode_body
from ...remoting.protocol.bodies.reset import GetConsumerStatusBody
from ...remoting.protocol.codes import (
    V3_0_7_SNAPSHOT,
    V3_1_8_SNAPSHOT,
    RequestCode,
    ResponseCode,
    version_name,
)
from ...remoting.protocol.commands.client import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
)
from ...remoting.protocol.commands.offset import GetConsumerStatusRequest
from ...remoting.protocol.message.message_id import parse_offset_message_id
from ...remoting.protocol.wire import Record
from ...store.message_store import MessageStore
from ..config.config import BrokerConfig
from ..state.clients import ClientChannel, Consumers
from .group_offset import check_version

log: Final = logging.getLogger(__name__)

CLIENT_TIMEOUT_S: Final = 10.0
"""How long a client may take to answer what the broker asks it."""
STATUS_TIMEOUT_S: Final = 5.0
MAX_RELAYS: Final = 256
"""Questions that wait for their client, each perhaps with a message; more are answered
SYSTEM_BUSY, and so are those of a connection that has as many as are left for others."""


class RelayProcessor:
    def __init__(self, config: BrokerConfig, consumers: Consumers, store: MessageStore) -> None:
        self._broker_name = config.broker_name
        self._consumers = consumers
        self._store = store
        self._relays: Counter[Peer] = Counter()
        """By who has asked."""

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.consumer_status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

    async def running_info(
        self, request: GetConsumerRunningInfoRequest, _body: Body, ctx: Context
    ) -> Reply:
        """The consumer's own answer, whatever it is."""
        channel = self._channel_for(request.consumer_group, request.client_id)
        with self._waiting(ctx.connection, 1):
            return await relay(
                RequestCode.GET_CONSUMER_RUNNING_INFO, request, b"", request.consumer_group, channel
            )

    async def consume_directly(
        self, request: ConsumeMessageDirectlyRequest, _body: Body, ctx: Context
    ) -> Reply:
        """One consumer handles one message now, outside of its turn; its own answer, whatever it
        is."""
        record = self._record(request.msg_id)
        channel = self._channel_for(request.consumer_group, request.client_id or "")
        passed_on = replace(request, broker_name=self._broker_name)
        code, group = RequestCode.CONSUME_MESSAGE_DIRECTLY, request.consumer_group
        with self._waiting(ctx.connection, 1):
            return await relay(code, passed_on, record, group, channel)

    @contextmanager
    def _waiting(self, peer: Peer, count: int) -> Iterator[None]:
        """So many questions of a peer. Raises ``RequestError``."""
        waiting = self._relays.total()
        if self._relays[peer] >= MAX_RELAYS - waiting:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"{waiting} questions wait for their clients, of this connection "
                f"{self._relays[peer]}; all may have {MAX_RELAYS}, one of them as many as are "
                "left: try again later",
            )
        self._relays[peer] += count
        try:
            yield
        finally:
            self._relays[peer] -= count
            if not self._relays[peer]:
                del self._relays[peer]

    def _record(self, msg_id: str | None) -> bytes:
        """The message that the id leads to. Raises ``RequestError``, ``ValueError`` for what is no
        id."""
        if msg_id is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, "CONSUME_MESSAGE_DIRECTLY: the field 'msgId' is missing"
            )
        record = self._store.readable_record(parse_offset_message_id(msg_id).phy_offset)
        if record is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"there is no message {msg_id} in this broker"
            )
        return record

    def _channel_for(self, group_name: str, client_id: str) -> ClientChannel:
        """A member that can be asked. Raises ``RequestError``."""
        group = self._consumers.get(group_name)
        channel = group.find(client_id) if group is not None else None
        if channel is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"The Consumer <{group_name}> <{client_id}> not online"
            )
        if channel.version < V3_1_8_SNAPSHOT:
            remark = (
                f"The Consumer <{client_id}> Version <{version_name(channel.version)}> too low to "
                "finish, "
                f"please upgrade it to {version_name(V3_1_8_SNAPSHOT)}"
            )
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        return channel

    async def consumer_status(
        self, request: GetConsumerStatusRequest, _body: Body, ctx: Context
    ) -> Reply:
        """How far the consumers of a group are, as they know it themselves; who does not answer is
        left out."""
        group = self._consumers.get(request.group)
        if group is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"nobody is online in the consumer group[{request.group}]",
            )
        wanted = [
            c
            for c in group.channels.values()
            if not request.client_addr or c.client_id == request.client_addr
        ]
        for channel in wanted:
            check_version(channel, V3_0_7_SNAPSHOT)
        header = GetConsumerStatusRequest(topic=request.topic, group=request.group)
        with self._waiting(ctx.connection, len(wanted)):
            answers = await asyncio.gather(*(_status_of(channel, header) for channel in wanted))
        table = {
            channel.client_id: status.message_queue_table
            for channel, status in zip(wanted, answers, strict=True)
            if status is not None
        }
        return Reply(
            body=encode_body(GetConsumerStatusBody(consumer_table=table)), remark=NOT_SET_REMARK
        )


async def _status_of(
    channel: ClientChannel, header: GetConsumerStatusRequest
) -> GetConsumerStatusBody | None:
    try:
        response = await channel.connection.invoke(
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header, timeout=STATUS_TIMEOUT_S
        )
        if response.code == ResponseCode.SUCCESS and response.body:
            return decode_body(GetConsumerStatusBody, response.body)
        problem = f"code={response.code} remark={response.remark}"
    except (RemotingError, BodyError) as error:
        problem = f"error={error}"
    channel.connection.tell_of(log, ("status",), "no consumer status from %r %s", channel, problem)
    return None


async def relay(
    code: RequestCode, header: Record, body: bytes, group: str, channel: ClientChannel
) -> Reply:
    """Ask a client and hand its answer on."""
    who = f"consumer <{group}> <{channel.client_id}>"
    try:
        response = await channel.connection.invoke(code, header, body, timeout=CLIENT_TIMEOUT_S)
    except RequestTimeout as error:
        raise RequestError(ResponseCode.CONSUME_MSG_TIMEOUT, f"{who} Timeout: {error}") from None
    except RemotingError as error:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"invoke {who} Exception: {error}") from None
    return Reply(
        response.code,
        body=response.body,
        remark=response.remark,
        ext_fields=response.ext_fields or None,
    )
