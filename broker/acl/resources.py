"""What a request needs permission for: a row for every request that a broker serves
(``broker-services.md`` §13).

A right on the topics and groups that it is about, an administrator, or any account. Groups go by
the names of their retry topics (class PlainAccessResource). The original looks at the rows of
``COMPATIBLE_NEEDS`` only, all else is open there to every account: so one without any right may
read the log (33), others' messages (36), move offsets (314), take queues from their owners (41) and
delete files (306, 316, 329). ``aclCompatible`` opens that here, too. A request without a row is for
administrators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from ...remoting.protocol.bodies.codec import decode_request_body
from ...remoting.protocol.bodies.heartbeat import CheckClientRequestBody, HeartbeatData
from ...remoting.protocol.bodies.lock import LockBatchRequestBody
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.base import ConsumerGroupRequest
from ...remoting.protocol.commands.client import (
    ConsumeMessageDirectlyRequest,
    UnregisterClientRequest,
)
from ...remoting.protocol.commands.offset import (
    CloneGroupOffsetRequest,
    QueryCorrectionOffsetRequest,
)
from ...remoting.protocol.commands.pull import QueryMessageRequest, ViewMessageRequest
from ...remoting.protocol.commands.send import ConsumerSendMsgBackRequest, SendMessageRequest
from ...remoting.protocol.commands.transaction import EndTransactionRequest
from ...remoting.protocol.message.message_id import parse_offset_message_id
from ...remoting.protocol.message.properties import PropertyName, find_property
from ...remoting.protocol.message.topic_names import TopicName, is_retry_topic, retry_topic
from .permissions import Permission, Resource

Body = bytes | memoryview
Wanted = Callable[[Any, Body], Iterable[Resource]]
"""Of a typed request and its body. Raises ``ValueError`` for a body that cannot be read."""
TopicAt = Callable[[int], str | None]
"""The topic of the message at a phy_offset, ``None`` when nothing lies there; raises ``AclError``
for anything else."""


class Right(Enum):
    """Where it does not depend on topics and groups."""

    ADMINISTRATOR = "administrator"
    SENDER = "sender"
    """An account that may send to some topic."""
    ANY_ACCOUNT = "any account"
    EVERYBODY = "everybody"
    """Also without a signature."""


Need = Wanted | Right
Needs = Mapping[int, Need]
"""By request code."""

_EITHER: Final = Permission.PUB | Permission.SUB


def sent_to(topic: str) -> tuple[Resource, ...]:
    """A message for a retry topic needs a right on the group of that topic, not on the one that its
    sender claims to be. A trace may come from everybody."""
    if topic == TopicName.TRACE:
        return ()
    return ((topic, Permission.SUB if is_retry_topic(topic) else Permission.PUB),)


def _send(request: SendMessageRequest, _body: Body) -> Iterable[Resource]:
    wanted, properties = sent_to(request.topic), request.properties
    if properties and PropertyName.INNER_MULTI_DISPATCH in properties:
        names = (
            find_property(properties.encode(), PropertyName.INNER_MULTI_DISPATCH.encode()) or b""
        )
        for name in names.decode().split(",") if names else ():
            wanted += sent_to(name)
    return wanted


def _own_group(request: ConsumerSendMsgBackRequest, _body: Body) -> Iterator[Resource]:
    yield retry_topic(request.group), Permission.SUB


def _topic_read(request: QueryMessageRequest, _body: Body) -> Iterator[Resource]:
    yield request.topic, Permission.SUB


def _topic_known(request: Any, _body: Body) -> Iterator[Resource]:
    """Whoever may do anything with a topic may know how it stands."""
    yield request.topic, _EITHER


def _consumes(request: Any, _body: Body) -> Iterator[Resource]:
    """Reads a topic as a group. One of the two may be missing where a command lets it be."""
    if request.topic:
        yield request.topic, Permission.SUB
    yield retry_topic(request.consumer_group), Permission.SUB


def _administers(request: Any, _body: Body) -> Iterator[Resource]:
    """The same, spelled otherwise."""
    yield request.topic, Permission.SUB
    yield retry_topic(request.group), Permission.SUB


def _group(
    request: UnregisterClientRequest | ConsumerGroupRequest, _body: Body
) -> Iterator[Resource]:
    if request.consumer_group:
        yield retry_topic(request.consumer_group), Permission.SUB


def _heartbeat(_request: object, body: Body) -> Iterator[Resource]:
    for consumer in decode_request_body(HeartbeatData, body).consumer_data_set:
        yield retry_topic(consumer.group_name), Permission.SUB
        for subscription in consumer.subscription_data_set:
            yield subscription.topic, Permission.SUB


def _filter(_request: object, body: Body) -> Iterator[Resource]:
    asked = decode_request_body(CheckClientRequestBody, body)
    yield retry_topic(asked.group), Permission.SUB
    yield asked.subscription_data.topic, Permission.SUB


def _locks(_request: object, body: Body) -> Iterator[Resource]:
    asked = decode_request_body(LockBatchRequestBody, body)
    yield retry_topic(asked.consumer_group), Permission.SUB
    for topic in {queue.topic for queue in asked.mq_set}:
        yield topic, Permission.SUB


def _copies_offsets(request: CloneGroupOffsetRequest, _body: Body) -> Iterator[Resource]:
    yield retry_topic(request.src_group), Permission.SUB
    yield retry_topic(request.dest_group), Permission.SUB
    if request.topic:
        yield request.topic, Permission.SUB


def _compares_offsets(request: QueryCorrectionOffsetRequest, _body: Body) -> Iterator[Resource]:
    yield request.topic, Permission.SUB
    yield retry_topic(request.compare_group), Permission.SUB


COMPATIBLE_NEEDS: Final[Needs] = {
    RequestCode.SEND_MESSAGE: _send,
    RequestCode.SEND_MESSAGE_V2: _send,
    RequestCode.CONSUMER_SEND_MSG_BACK: _own_group,
    RequestCode.PULL_MESSAGE: _consumes,
    RequestCode.LITE_PULL_MESSAGE: _consumes,
    RequestCode.QUERY_MESSAGE: _topic_read,
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.UNREGISTER_CLIENT: _group,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _group,
    RequestCode.UPDATE_CONSUMER_OFFSET: _consumes,
    RequestCode.UPDATE_AND_CREATE_TOPIC: Right.ADMINISTRATOR,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: Right.ADMINISTRATOR,
    RequestCode.UPDATE_BROKER_CONFIG: Right.ADMINISTRATOR,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Right.ADMINISTRATOR,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Right.ADMINISTRATOR,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: Right.ADMINISTRATOR,
    RequestCode.DELETE_TOPIC_IN_BROKER: Right.ADMINISTRATOR,
    # These are open in the original. An account could make itself an administrator, or send what it
    # may not send.
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: Right.ADMINISTRATOR,
    RequestCode.DELETE_ACL_CONFIG: Right.ADMINISTRATOR,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Right.ADMINISTRATOR,
    RequestCode.SEND_BATCH_MESSAGE: _send,
    RequestCode.SEND_REPLY_MESSAGE: _send,
    RequestCode.SEND_REPLY_MESSAGE_V2: _send,
    # Ours: who says it takes a place among those of all producers.
    RequestCode.SEND_SEQUENCE_HELLO: Right.SENDER,
    # Who looks after a machine has no account of its users.
    RequestCode.HEALTH: Right.EVERYBODY,
}
"""What is looked at whatever ``aclCompatible`` says; with ``needs_of_requests`` 37, too."""

LISTS_COUNT: Final = frozenset({*COMPATIBLE_NEEDS, RequestCode.END_TRANSACTION})
"""What an administrator who has lists may only do as far as they allow it; all else he may do in
any case."""

_OWN_NEEDS: Final[Needs] = {
    RequestCode.QUERY_CONSUMER_OFFSET: _consumes,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _topic_known,
    RequestCode.GET_MAX_OFFSET: _topic_known,
    RequestCode.GET_MIN_OFFSET: _topic_known,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _topic_known,
    RequestCode.LOCK_BATCH_MQ: _locks,
    RequestCode.UNLOCK_BATCH_MQ: _locks,
    RequestCode.CHECK_CLIENT_CONFIG: _filter,
    RequestCode.GET_TOPIC_STATS_INFO: _topic_known,
    RequestCode.GET_TOPIC_CONFIG: _topic_known,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _group,
    RequestCode.GET_CONSUME_STATS: _consumes,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _administers,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _administers,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: _topic_known,
    RequestCode.QUERY_CONSUME_TIME_SPAN: _administers,
    RequestCode.GET_CONSUMER_RUNNING_INFO: _group,
    RequestCode.QUERY_CORRECTION_OFFSET: _compares_offsets,
    RequestCode.CLONE_GROUP_OFFSET: _copies_offsets,
    RequestCode.QUERY_CONSUME_QUEUE: _topic_read,
    # how the broker is, and names that are the same everywhere
    RequestCode.GET_BROKER_RUNTIME_INFO: Right.ANY_ACCOUNT,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Right.ANY_ACCOUNT,
    # whole tables (slaves are white listed), and what is of no topic or group alone
    RequestCode.GET_ALL_TOPIC_CONFIG: Right.ADMINISTRATOR,
    RequestCode.GET_BROKER_CONFIG: Right.ADMINISTRATOR,
    RequestCode.GET_ALL_CONSUMER_OFFSET: Right.ADMINISTRATOR,
    RequestCode.GET_ALL_DELAY_OFFSET: Right.ADMINISTRATOR,
    RequestCode.GET_QUEUE_ENDS: Right.ADMINISTRATOR,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Right.ADMINISTRATOR,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: Right.ADMINISTRATOR,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: Right.ADMINISTRATOR,
    RequestCode.GET_ALL_PRODUCER_INFO: Right.ADMINISTRATOR,
    RequestCode.VIEW_BROKER_STATS_DATA: Right.ADMINISTRATOR,
    RequestCode.GET_BROKER_CONSUME_STATS: Right.ADMINISTRATOR,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: Right.ADMINISTRATOR,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: Right.ADMINISTRATOR,
    RequestCode.CLEAN_UNUSED_TOPIC: Right.ADMINISTRATOR,
    RequestCode.DELETE_EXPIRED_COMMITLOG: Right.ADMINISTRATOR,
}


def needs_of_requests(topic_at: TopicAt, *, compatible: bool) -> Needs:
    """All rows; with ``compatible`` those that the original looks at, and the few that were always
    closed here."""

    def end_transaction(request: EndTransactionRequest, _body: Body) -> Iterator[Resource]:
        if (topic := topic_at(request.commit_log_offset)) is not None:
            yield from sent_to(topic)

    def message_read(phy_offset: int) -> Iterator[Resource]:
        if (topic := topic_at(phy_offset)) is not None:
            yield topic, Permission.SUB

    def view(request: ViewMessageRequest, _body: Body) -> Iterator[Resource]:
        yield from message_read(request.offset)

    def send_back(request: ConsumerSendMsgBackRequest, body: Body) -> Iterator[Resource]:
        yield from _own_group(request, body)
        yield from message_read(request.offset)

    def consume_directly(request: ConsumeMessageDirectlyRequest, body: Body) -> Iterator[Resource]:
        yield retry_topic(request.consumer_group), Permission.SUB
        if request.msg_id is not None:
            yield from message_read(parse_offset_message_id(request.msg_id).phy_offset)

    always = {**COMPATIBLE_NEEDS, RequestCode.END_TRANSACTION: end_transaction}
    if compatible:
        return always
    by_offset: Needs = {
        RequestCode.VIEW_MESSAGE_BY_ID: view,
        RequestCode.CONSUMER_SEND_MSG_BACK: send_back,
        RequestCode.CONSUME_MESSAGE_DIRECTLY: consume_directly,
    }
    return {**always, **_OWN_NEEDS, **by_offset}
