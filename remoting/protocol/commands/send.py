"""Messages on their way to a broker, back to it, and replies (``headers.md`` §A.1, §A.2, §A.7).

Classes of the original: SendMessageRequestHeader, SendMessageRequestHeaderV2,
SendMessageResponseHeader, ConsumerSendMsgBackRequestHeader, ReplyMessageRequestHeader.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from ..codes import RequestCode
from ..wire import NoFields, Record, i32, i64
from .base import Command, RpcRequest

DEFAULT_REGION: Final = "DefaultRegion"
"""What a broker calls its region unless it is told otherwise (``regionId``)."""


class SendMessageRequest(Record, frozen=True, kw_only=True):
    """A message whose body is the frame's body (code 10). ``bname`` as in RpcRequest."""

    producer_group: str
    topic: str
    default_topic: str
    """The template for a topic that does not exist yet, usually TBW102."""
    default_topic_queue_nums: i32
    queue_id: i32
    """Negative: the broker picks."""
    sys_flag: i32
    born_timestamp: i64
    flag: i32
    properties: str | None = None
    reconsume_times: i32 | None = None
    unit_mode: bool = False
    max_reconsume_times: i32 | None = None
    batch: bool = False
    """The body is a batch. Only this says so, never the request code."""
    bname: str | None = None


class SendMessageRequestV2(SendMessageRequest, frozen=True, kw_only=True):
    """The same with one-letter names on the wire (codes 310, 320, 325)."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: i32 = field(name="d")
    queue_id: i32 = field(name="e")
    sys_flag: i32 = field(name="f")
    born_timestamp: i64 = field(name="g")
    flag: i32 = field(name="h")
    properties: str | None = field(name="i", default=None)
    reconsume_times: i32 | None = field(name="j", default=None)
    unit_mode: bool = field(name="k", default=False)
    max_reconsume_times: i32 | None = field(name="l", default=None)
    batch: bool = field(name="m", default=False)
    bname: str | None = field(name="n", default=None)


class SendErrorFields(Record, frozen=True, kw_only=True):
    """What stands on every reply of the send processors, also when the message was refused."""

    msg_region: str = field(name="MSG_REGION", default=DEFAULT_REGION)
    trace_on: bool = field(name="TRACE_ON", default=True)


class SendMessageResponse(Record, frozen=True, kw_only=True):
    """Where the message lies now. Codes 10, 11 and 12 carry it too: the message is stored, but less
    safely than asked."""

    msg_id: str
    """The offsetMsgId; of a batch all of them, in order, separated by commas."""
    queue_id: i32
    queue_offset: i64
    """Of a batch: that of its first message."""
    transaction_id: str | None = None
    trace_on: bool = field(name="TRACE_ON", default=True)
    msg_region: str = field(name="MSG_REGION", default=DEFAULT_REGION)
    sequence: str | None = None
    """Ours: the sequence was checked, and the message is ``new`` or ``repeated``: this is the
    answer that its first copy got, with ``queue_offset`` -1 and no ``msg_id`` where that is not
    known any more."""


class SequenceHelloRequest(Record, frozen=True, kw_only=True):
    """Ours (9100): a producer is about to send with sequences. A broker that does not know the
    code (the original) answers 3."""

    producer_id: str
    epoch: i32 = 0
    """Above 0: whatever an earlier one sends from now on is refused, in all queues."""


class SequenceHelloResponse(Record, frozen=True, kw_only=True):
    """It may begin."""

    expires_ms: i64
    """So long after its last message a producer is remembered."""
    now_ms: i64
    """What time it is here, or a later one up to which something is forgotten: the ``begun_ms`` of
    an id that is new."""


class ConsumerSendMsgBackRequest(RpcRequest, frozen=True, kw_only=True):
    """A consumer gives a message back (code 36); it comes again later or goes to the dead letter
    queue."""

    offset: i64
    """Where its record lies in the commit log (a phy_offset)."""
    group: str
    delay_level: i32
    """0: the broker chooses by the number of attempts; negative: to the dead letter queue at
    once."""
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: i32 | None = None


class ReplyMessageRequest(Record, frozen=True, kw_only=True):
    """A broker pushes a reply to the producer that waits for it (code 326)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: i32
    queue_id: i32
    sys_flag: i32
    born_timestamp: i64
    flag: i32
    properties: str | None = None
    reconsume_times: i32 | None = None
    unit_mode: bool = False
    born_host: str
    """``ip:port``, as ``store_host``."""
    store_host: str
    store_timestamp: i64


_SEND = Command(SendMessageRequest, SendMessageResponse, request_body=bytes)
_SEND_V2 = Command(SendMessageRequestV2, SendMessageResponse, request_body=bytes)

COMMANDS = {
    RequestCode.SEND_MESSAGE: _SEND,
    RequestCode.SEND_MESSAGE_V2: _SEND_V2,
    RequestCode.SEND_BATCH_MESSAGE: _SEND_V2,
    RequestCode.SEND_REPLY_MESSAGE: _SEND,
    RequestCode.SEND_REPLY_MESSAGE_V2: _SEND_V2,
    RequestCode.CONSUMER_SEND_MSG_BACK: Command(ConsumerSendMsgBackRequest, NoFields),
    RequestCode.SEND_SEQUENCE_HELLO: Command(SequenceHelloRequest, SequenceHelloResponse),
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: Command(
        ReplyMessageRequest, NoFields, request_body=bytes
    ),
}
