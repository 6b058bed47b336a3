"""What a request needs permission for (class PlainAccessResource; ``broker-services.md`` §13).

Groups go by the names of their retry topics. A request that is not listed needs a signature only. The original does not look
at batches (320), replies (324, 325) and the ends of transactions (37), here they need what a send needs; and a message for a
retry topic needs SUB on the group of that topic, not on the group that its sender claims to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ..remoting.protocol.bodies.codec import decode_request_body
from ..remoting.protocol.bodies.heartbeat import HeartbeatData
from ..remoting.protocol.codes import RequestCode
from ..remoting.protocol.commands.base import ConsumerGroupRequest
from ..remoting.protocol.commands.client import UnregisterClientRequest
from ..remoting.protocol.commands.offset import UpdateConsumerOffsetRequest
from ..remoting.protocol.commands.pull import PullMessageRequest, QueryMessageRequest
from ..remoting.protocol.commands.send import ConsumerSendMsgBackRequest, SendMessageRequest
from ..remoting.protocol.commands.transaction import EndTransactionRequest
from ..remoting.protocol.topic_names import is_retry_topic, retry_topic
from .acl import Permission, Resource

Wanted = Callable[[Any, bytes | memoryview], Iterator[Resource]]
"""Of a typed request and its body. Raises ``ValueError`` for a body that cannot be read."""
TopicOfHalf = Callable[[int], str | None]
"""The topic that the half message at a phy_offset is for, ``None`` when none lies there."""


def resources_of_requests(topic_of_half: TopicOfHalf) -> Mapping[int, Wanted]:
    """By request code."""

    def end_transaction(request: EndTransactionRequest, _body: bytes | memoryview) -> Iterator[Resource]:
        if (topic := topic_of_half(request.commit_log_offset)) is not None:
            yield _sent_to(topic)

    return {**_RESOURCES, RequestCode.END_TRANSACTION: end_transaction}


def _sent_to(topic: str) -> Resource:
    return topic, Permission.SUB if is_retry_topic(topic) else Permission.PUB


def _send(request: SendMessageRequest, _body: bytes | memoryview) -> Iterator[Resource]:
    yield _sent_to(request.topic)


def _send_back(request: ConsumerSendMsgBackRequest, _body: bytes | memoryview) -> Iterator[Resource]:
    yield retry_topic(request.group), Permission.SUB


def _pull(request: PullMessageRequest | UpdateConsumerOffsetRequest, _body: bytes | memoryview) -> Iterator[Resource]:
    yield request.topic, Permission.SUB
    yield retry_topic(request.consumer_group), Permission.SUB


def _query(request: QueryMessageRequest, _body: bytes | memoryview) -> Iterator[Resource]:
    yield request.topic, Permission.SUB


def _heartbeat(_request: object, body: bytes | memoryview) -> Iterator[Resource]:
    for consumer in decode_request_body(HeartbeatData, body).consumer_data_set:
        yield retry_topic(consumer.group_name), Permission.SUB
        for subscription in consumer.subscription_data_set:
            yield subscription.topic, Permission.SUB


def _group(request: UnregisterClientRequest | ConsumerGroupRequest, _body: bytes | memoryview) -> Iterator[Resource]:
    if request.consumer_group:
        yield retry_topic(request.consumer_group), Permission.SUB


_RESOURCES: Final[Mapping[int, Wanted]] = {
    RequestCode.SEND_MESSAGE: _send,
    RequestCode.SEND_MESSAGE_V2: _send,
    RequestCode.SEND_BATCH_MESSAGE: _send,
    RequestCode.SEND_REPLY_MESSAGE: _send,
    RequestCode.SEND_REPLY_MESSAGE_V2: _send,
    RequestCode.CONSUMER_SEND_MSG_BACK: _send_back,
    RequestCode.PULL_MESSAGE: _pull,
    RequestCode.LITE_PULL_MESSAGE: _pull,
    RequestCode.UPDATE_CONSUMER_OFFSET: _pull,
    RequestCode.QUERY_MESSAGE: _query,
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.UNREGISTER_CLIENT: _group,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _group,
}
