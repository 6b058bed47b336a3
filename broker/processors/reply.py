"""Replies to requests between clients: SEND_REPLY_MESSAGE (324) and SEND_REPLY_MESSAGE_V2 (325),
passed on as PUSH_REPLY_MESSAGE_TO_CLIENT (326; class ReplyMessageProcessor; ``headers.md`` §A.2,
``broker-services.md`` §14).

The reply is pushed over the connection that its requester opened. Then it is stored too, unless
told otherwise; whether that works does not change the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...remoting.clock import Clock
from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.errors import RemotingError, RequestError
from ...remoting.outages import Outages
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.send import (
    ReplyMessageRequest,
    SendErrorFields,
    SendMessageRequest,
    SendMessageResponse,
)
from ...remoting.protocol.message.message_id import format_host, pack_host
from ...remoting.protocol.message.properties import PropertyName, decode_properties, tags_code_of
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.record.stored_properties import waits_for_store
from ...store.message_store import MessageStore
from ...store.model.put import PutMessage
from ...store.model.status import PutResult, PutStatus
from ..config.config import BrokerConfig
from ..sends.durability import Durability
from ..state.clients import Producers
from ..state.topics import Topic
from ..stats.broker_stats import BrokerStats
from .relay import CLIENT_TIMEOUT_S

log: Final = logging.getLogger(__name__)

CheckSend = Callable[[SendMessageRequest, Context], tuple[Topic, int]]
"""The checks that every message passes, and the queue it goes to. Raises ``RequestError``."""
_NOT_STORED_ID: Final = "0"
MAX_PUSHED_BYTES: Final = 256 << 20
"""Of replies that wait for their requesters; more are answered SYSTEM_BUSY."""

_PLAIN: Final = ~(MessageSysFlag.TRANSACTION_MASK | MessageSysFlag.SEQUENCED)
"""A reply is no part of a transaction, and its number was not looked at (``sequences.py``)."""


class ReplyProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        producers: Producers,
        stats: BrokerStats,
        store_address: tuple[str, int],
        check: CheckSend,
        durability: Durability,
        clock: Clock,
    ) -> None:
        """``durability``: what answers wait for."""
        self._outages = Outages(clock)
        self._now_ms = clock.time_ms
        self._config = config
        self._store = store
        self._producers = producers
        self._stats = stats
        self._store_host = format_host(pack_host(*store_address))
        self._check = check
        self._durability = durability
        self._pushed_bytes = 0

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.SEND_REPLY_MESSAGE: self.send,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.send,
        }

    async def send(self, request: SendMessageRequest, body: Body, ctx: Context) -> Reply:
        """Push the reply and wait for its requester; store it."""
        fields = SendErrorFields(msg_region=self._config.region_id, trace_on=self._config.trace_on)
        try:
            topic, queue_id = self._check(request, ctx)
            failure = await self._push(request, bytes(body), ctx)
        except RequestError as error:
            return Reply(error.code, fields, remark=error.remark)
        result = (
            self._put(request, topic, queue_id, body, ctx)
            if self._config.store_reply_message_enable and self._passes(request, ctx)
            else None
        )
        if result is None or result.status is not PutStatus.PUT_OK:
            if failure is not None:
                return Reply(ResponseCode.SYSTEM_ERROR, fields, remark=failure)
            msg_id, queue_offset = _NOT_STORED_ID, 0
        else:
            msg_id, queue_offset = self._store.message_id(result.phy_offset), result.queue_offset
            if (
                self._durability.waits
                and not ctx.oneway
                and (self._durability.for_all or waits_for_store(request.properties or ""))
            ):
                await self._durability.stored(
                    result.phy_offset + result.size
                )  # whatever comes of it, as in the original
        header = SendMessageResponse(
            msg_id=msg_id,
            queue_id=queue_id,
            queue_offset=queue_offset,
            trace_on=fields.trace_on,
            msg_region=fields.msg_region,
        )
        code = ResponseCode.SUCCESS if failure is None else ResponseCode.SYSTEM_ERROR
        return Reply(code, header, remark=failure)

    def _passes(self, request: SendMessageRequest, ctx: Context) -> bool:
        """Still: its requester may have taken seconds."""
        try:
            self._check(request, ctx)
        except RequestError:
            return False
        return True

    async def _push(self, request: SendMessageRequest, body: bytes, ctx: Context) -> str | None:
        """Why it did not reach its requester, None when it did. Raises ``RequestError`` when too
        many are waited for."""
        text = request.properties or ""
        client_id = decode_properties(text).get(PropertyName.REPLY_TO_CLIENT)
        if client_id is None:
            return f"reply message properties[{PropertyName.REPLY_TO_CLIENT}] is null"
        connection = self._producers.connection_of(client_id)
        if connection is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        if self._pushed_bytes >= MAX_PUSHED_BYTES:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                "too many replies wait for their requesters, try again later",
            )
        header = self._pushed_header(request, text, ctx)
        self._pushed_bytes += len(body)
        try:
            code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
            response = await connection.invoke(code, header, body, timeout=CLIENT_TIMEOUT_S)
        except RemotingError as error:
            text = "reply not pushed client=%s error=%s"
            self._outages.occurs(log, ("push", client_id), text, client_id, error)
            return f"push reply message to {client_id}fail."
        finally:
            self._pushed_bytes -= len(body)
        if response.code != ResponseCode.SUCCESS:
            self._outages.occurs(
                log,
                ("take", client_id),
                "reply not taken client=%s code=%d remark=%s",
                client_id,
                response.code,
                response.remark,
            )
            return f"push reply message to {client_id}fail."
        return None

    def _pushed_header(
        self, request: SendMessageRequest, text: str, ctx: Context
    ) -> ReplyMessageRequest:
        pushed = f"{PropertyName.PUSH_REPLY_TIME}\x01{ctx.received_at_ms}"
        return ReplyMessageRequest(
            producer_group=request.producer_group,
            topic=request.topic,
            default_topic=request.default_topic,
            default_topic_queue_nums=request.default_topic_queue_nums,
            queue_id=request.queue_id,
            sys_flag=request.sys_flag,
            born_timestamp=request.born_timestamp,
            flag=request.flag,
            properties=f"{pushed}\x02{text}",
            reconsume_times=request.reconsume_times,
            unit_mode=request.unit_mode,
            born_host=ctx.peer,
            store_host=self._store_host,
            store_timestamp=ctx.received_at_ms,
        )

    def _put(
        self, request: SendMessageRequest, topic: Topic, queue_id: int, body: Body, ctx: Context
    ) -> PutResult:
        """The properties are stored as they came, without the pair CLUSTER that other messages
        get."""
        properties = (request.properties or "").encode()
        result = self._store.put_message(
            PutMessage(
                topic.name,
                queue_id,
                body,
                properties,
                ctx.connection.packed_peer,
                request.born_timestamp,
                self._now_ms(),
                tags_code_of(properties),
                request.flag,
                request.sys_flag & _PLAIN,
                request.reconsume_times or 0,
            )
        )
        if result.status is PutStatus.PUT_OK:
            self._stats.stored(result, topic, queue_id)
        else:
            self._outages.occurs(
                log,
                ("store", result.status),
                "reply not stored topic=%s status=%s remark=%s",
                topic.name,
                result.status.name,
                result.remark,
            )
        return result
