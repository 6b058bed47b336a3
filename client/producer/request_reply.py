"""Asking and answering through messages (client.md §3.11; classes RequestFutureHolder,
MessageUtil).

A request is a message with the properties CORRELATION_ID, REPLY_TO_CLIENT and TTL. Who consumes it
sends the reply to the reply topic of its cluster; a broker hands it on to the requester, over the
connection that the requester's heartbeat came over, and usually stores it too.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.message.message import Message
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.message.topic_names import reply_topic
from ...remoting.protocol.record.decode import MessageExt
from ..cluster.route_cache import RouteCache
from ..errors import MessageError
from .sending import Outgoing, single

REPLY = "reply"
"""The value of MSG_TYPE."""
"""Bytes of a consumer's reply; a producer has its own limit."""


def new_correlation_id() -> str:
    return str(uuid.uuid4())


def request_properties(correlation_id: str, client_id: str, timeout: float) -> dict[str, str]:
    """What makes a message a request. The time to live is in ms; nobody looks at it but its
    receiver."""
    return {
        PropertyName.CORRELATION_ID: correlation_id,
        PropertyName.REPLY_TO_CLIENT: client_id,
        PropertyName.TTL: str(round(timeout * 1000)),
    }


def reply_to(
    request: MessageExt,
    body: bytes,
    properties: Mapping[str, str] | None,
    msg_id: str,
    max_size_bytes: int,
) -> Outgoing:
    """The reply to a request, ready to be sent. Raises ``MessageError`` when the message was no
    request."""
    asked = request.properties
    cluster = asked.get(PropertyName.CLUSTER)
    kept = (PropertyName.CORRELATION_ID, PropertyName.REPLY_TO_CLIENT, PropertyName.TTL)
    missing = [name for name in (PropertyName.CLUSTER, *kept[:2]) if name not in asked]
    if cluster is None or missing:
        raise MessageError(
            f"{request!r} cannot be replied to, it is no request: it has no {', '.join(missing)}"
        )
    message = Message(reply_topic(cluster), body, properties=dict(properties or {}))
    extra = {name: asked[name] for name in kept if name in asked} | {PropertyName.MSG_TYPE: REPLY}
    outgoing = single(message, msg_id, max_size_bytes, extra)
    outgoing.code = RequestCode.SEND_REPLY_MESSAGE_V2
    return outgoing


async def learn_reply_routes(routes: RouteCache, topic: str) -> None:
    """Know all brokers of the topic's clusters, so that a heartbeat can tell them who asks: a reply
    may reach any of them.

    Raises ``RemotingError``, ``BrokerError``.
    """
    route = routes.cached(topic)
    clusters = (
        {broker.cluster for broker in route.data.broker_datas} if route is not None else set()
    )
    for name in sorted(reply_topic(cluster) for cluster in clusters if cluster):
        if routes.cached(name) is None:
            await routes.refresh(name)
