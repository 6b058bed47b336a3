"""Clients and what a broker asks them (``headers.md`` part B).

The codes 39, 40, 220, 221, 307, 309 and 326 go from a broker to its clients, on the connection that
the client opened.
"""

from __future__ import annotations

from msgspec import field

from ..bodies.connection import ConsumerConnection, ProducerConnection, ProducerTable
from ..bodies.heartbeat import CheckClientRequestBody, HeartbeatData
from ..bodies.lists import ConsumerIdList
from ..bodies.lock import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from ..bodies.running_info import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from ..codes import RequestCode
from ..wire import EmptyFields, NoFields, Record
from .base import Command, ConsumerGroupRequest


class UnregisterClientRequest(Record, frozen=True, kw_only=True):
    """A client takes its leave from one group (code 35)."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ProducerGroupRequest(Record, frozen=True, kw_only=True):
    """A request about one producer group."""

    producer_group: str


class GetConsumerRunningInfoRequest(Record, frozen=True, kw_only=True):
    """What one consumer is doing (code 307, passed on by the broker)."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyRequest(Record, frozen=True, kw_only=True):
    """Let one consumer handle one message now (code 309). The broker adds ``broker_name`` and the
    record as body."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    """The offsetMsgId."""
    broker_name: str | None = None


COMMANDS = {
    RequestCode.HEART_BEAT: Command(NoFields, NoFields, request_body=HeartbeatData),
    RequestCode.UNREGISTER_CLIENT: Command(UnregisterClientRequest, EmptyFields),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Command(
        ConsumerGroupRequest, EmptyFields, response_body=ConsumerIdList
    ),
    RequestCode.CHECK_CLIENT_CONFIG: Command(
        NoFields, NoFields, request_body=CheckClientRequestBody
    ),
    RequestCode.LOCK_BATCH_MQ: Command(
        NoFields, NoFields, request_body=LockBatchRequestBody, response_body=LockBatchResponseBody
    ),
    RequestCode.UNLOCK_BATCH_MQ: Command(NoFields, NoFields, request_body=UnlockBatchRequestBody),
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: Command(ConsumerGroupRequest, NoFields),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: Command(
        ConsumerGroupRequest, NoFields, response_body=ConsumerConnection
    ),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: Command(
        ProducerGroupRequest, NoFields, response_body=ProducerConnection
    ),
    RequestCode.GET_ALL_PRODUCER_INFO: Command(EmptyFields, NoFields, response_body=ProducerTable),
    RequestCode.GET_CONSUMER_RUNNING_INFO: Command(
        GetConsumerRunningInfoRequest, NoFields, response_body=ConsumerRunningInfo
    ),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: Command(
        ConsumeMessageDirectlyRequest,
        NoFields,
        request_body=bytes,
        response_body=ConsumeMessageDirectlyResult,
    ),
}
