"""Asking and answering through messages (client.md §3.11; classes RequestFutureHolder, MessageUtil).

A request is a message with the properties CORRELATION_ID, REPLY_TO_CLIENT and TTL. Who consumes it sends the reply to the
reply topic of its cluster; a broker hands it on to the requester, over the connection that the requester's heartbeat came
over, and usually stores it too.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from ...remoting.dispatch import Body, Context, Reply
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.send import ReplyMessageRequest
from ...remoting.protocol.message.message import Message
from ...remoting.protocol.message.message_id import pack_host
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.message.topic_names import reply_topic
from ...remoting.protocol.record import MAGIC, body_crc
from ...remoting.protocol.record.decode import MessageExt
from ...remoting.protocol.record.layout import RecordHead
from ..errors import MessageError
from ..producer.sending import Outgoing, single
from .route_cache import RouteCache

log: Final = logging.getLogger(__name__)

REPLY = "reply"
"""The value of MSG_TYPE."""
MAX_REPLY_SIZE = 4 << 20
"""Bytes of a consumer's reply; a producer has its own limit."""


class Requests:
    """The requests of one client that wait for their replies, by correlation id."""

    def __init__(self) -> None:
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
        """PUSH_REPLY_MESSAGE_TO_CLIENT (326). One that nobody waits for (any more) is only logged."""
        message = pushed_message(request, bytes(body), ctx.received_at_ms)
        future = self._waiting.get(message.properties.get(PropertyName.CORRELATION_ID, ""))
        if future is None or future.done():
            log.warning("a reply that nobody waits for broker=%s message=%r", ctx.peer, message)
        else:
            future.set_result(message)
        return Reply()


def new_correlation_id() -> str:
    return str(uuid.uuid4())


def request_properties(correlation_id: str, client_id: str, timeout: float) -> dict[str, str]:
    """What makes a message a request. The time to live is in ms; nobody looks at it but its receiver."""
    return {
        PropertyName.CORRELATION_ID: correlation_id,
        PropertyName.REPLY_TO_CLIENT: client_id,
        PropertyName.TTL: str(round(timeout * 1000)),
    }


def reply_to(
    request: MessageExt, body: bytes, properties: Mapping[str, str] | None, msg_id: str, max_size_bytes: int
) -> Outgoing:
    """The reply to a request, ready to be sent. Raises ``MessageError`` when the message was no request."""
    asked = request.properties
    cluster = asked.get(PropertyName.CLUSTER)
    kept = (PropertyName.CORRELATION_ID, PropertyName.REPLY_TO_CLIENT, PropertyName.TTL)
    missing = [name for name in (PropertyName.CLUSTER, *kept[:2]) if name not in asked]
    if cluster is None or missing:
        raise MessageError(f"{request!r} cannot be replied to, it is no request: it has no {', '.join(missing)}")
    message = Message(reply_topic(cluster), body, properties=dict(properties or {}))
    extra = {name: asked[name] for name in kept if name in asked} | {PropertyName.MSG_TYPE: REPLY}
    outgoing = single(message, msg_id, max_size_bytes, extra)
    outgoing.code = RequestCode.SEND_REPLY_MESSAGE_V2
    return outgoing


async def learn_reply_routes(routes: RouteCache, topic: str) -> None:
    """Know all brokers of the topic's clusters, so that a heartbeat can tell them who asks: a reply may reach any of them.

    Raises ``RemotingError``, ``BrokerError``.
    """
    route = routes.cached(topic)
    clusters = {broker.cluster for broker in route.data.broker_datas} if route is not None else set()
    for name in sorted(reply_topic(cluster) for cluster in clusters if cluster):
        if routes.cached(name) is None:
            await routes.refresh(name)


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
    properties = f"{request.properties or ''}\x02{PropertyName.ARRIVE_TIME}\x01{arrived_ms}".encode()
    return MessageExt(head, body, request.topic, properties, "", head.queue_offset, head.sys_flag)


def _packed(host: str) -> bytes:
    """``1.2.3.4:5``, with a slash in front as Java has it, an IPv6 address with brackets or without."""
    address, _, port = host.lstrip("/").rpartition(":")
    return pack_host(address.strip("[]"), int(port))
