"""Requests of a client that wait for replies, which brokers push (client.md §3.11; class
RequestFutureHolder)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ...remoting.dispatch import Body, Context, Reply
from ...remoting.outages import Outages
from ...remoting.protocol.commands.send import ReplyMessageRequest
from ...remoting.protocol.message.message_id import pack_host
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.record import MAGIC, body_crc
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.protocol.record.layout import RecordHead

log: Final = logging.getLogger(__name__)


class Requests:
    """The requests of one client that wait for their replies, by correlation id."""

    def __init__(self, outages: Outages) -> None:
        self._outages = outages
        self._waiting: dict[str, asyncio.Future[MessageExt]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def expect(self, correlation_id: str) -> Iterator[asyncio.Future[MessageExt]]:
        """The reply comes through the future, as long as the block lasts."""
        future = self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        try:
            yield future
        finally:
            del self._waiting[correlation_id]
            future.cancel()

    def replied(self, request: ReplyMessageRequest, body: Body, ctx: Context) -> Reply:
        """PUSH_REPLY_MESSAGE_TO_CLIENT (326). One that nobody waits for (any more) is only
        logged."""
        message = pushed_message(request, bytes(body), ctx.received_at_ms)
        future = self._waiting.get(message.properties.get(PropertyName.CORRELATION_ID, ""))
        if future is None or future.done():
            text = "a reply that nobody waits for broker=%s message=%r"
            self._outages.occurs(log, ("reply", ctx.peer), text, ctx.peer, message)
        else:
            future.set_result(message)
        return Reply()


def pushed_message(request: ReplyMessageRequest, body: bytes, arrived_ms: int) -> MessageExt:
    """A reply as a message. It has no place in a queue: whether it is stored is not told."""
    head = RecordHead(
        store_size=0,
        magic=MAGIC,
        body_crc=body_crc(body),
        queue_id=request.queue_id,
        flag=request.flag,
        queue_offset=0,
        phy_offset=0,
        sys_flag=request.sys_flag & ~(MessageSysFlag.BORN_HOST_V6 | MessageSysFlag.STORE_HOST_V6),
        born_timestamp=request.born_timestamp,
        born_host=_packed(request.born_host),
        store_timestamp=request.store_timestamp,
        store_host=_packed(request.store_host),
        reconsume_times=request.reconsume_times or 0,
        prepared_transaction_offset=0,
        body_size=len(body),
    )
    properties = (
        f"{request.properties or ''}\x02{PropertyName.ARRIVE_TIME}\x01{arrived_ms}".encode()
    )
    return MessageExt(head, body, request.topic, properties, "", head.queue_offset, head.sys_flag)


def _packed(host: str) -> bytes:
    """``1.2.3.4:5``, with a slash in front as Java has it, an IPv6 address with brackets or
    without."""
    address, _, port = host.lstrip("/").rpartition(":")
    return pack_host(address.strip("[]"), int(port))
