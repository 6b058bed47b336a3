"""A message on its way out: what is sent, what comes back, and whether to try again. Pure
(client.md §3.2 to §3.8)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from ...remoting.errors import (
    BrokerError,
    ClientClosedError,
    ProtocolError,
    RemotingError,
    RocketMQError,
)
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.send import DEFAULT_REGION, SendMessageResponse
from ...remoting.protocol.frames.serialization import RESPONSE_FLAG
from ...remoting.protocol.message.message import Message, message_properties
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.properties import MessageError as ProtocolMessageError
from ...remoting.protocol.message.properties import encode_properties
from ...remoting.protocol.message.topic_names import (
    SEND_FORBIDDEN_TOPICS,
    is_retry_topic,
    topic_error,
)
from ...remoting.protocol.record.batch import BatchItem, encode_batch
from ...remoting.responses import UNREADABLE, Response, read_answer
from ..errors import MessageError
from ..usage_errors import message_problem

RETRY_CODES = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)
"""Answers after which another broker may do better (retryResponseCodes)."""


class SendStatus(Enum):
    """How safe a message is. Everything but ``SEND_OK`` means: stored, but not as safely as the
    broker was told to."""

    SEND_OK = ResponseCode.SUCCESS
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE


_STATUS_BY_CODE = {int(status.value): status for status in SendStatus}


class SendResult(NamedTuple):
    """Where a message lies now. For a batch the ids are separated by commas and the offset is that
    of its first message."""

    status: SendStatus
    msg_id: str
    """The id that this client gave (UNIQ_KEY)."""
    offset_msg_id: str
    """The id that the broker gave: where the record lies."""
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str = DEFAULT_REGION
    trace_on: bool = True

    @property
    def repeated(self) -> bool:
        """An earlier attempt of an idempotent producer had stored it. Where that is not known any
        more ``queue_offset`` is -1 and ``offset_msg_id`` empty."""
        return False


class Outgoing(msgspec.Struct):
    """A message (or a batch) ready to be put into a frame."""

    topic: str
    code: RequestCode
    body: bytes | memoryview
    properties: str
    msg_id: str
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    messages: Sequence[Message] = ()
    """What it was made of; only for hooks."""
    watched: Any = None
    """Who observes it, if somebody does (``hooks.WatchedSend``)."""

    @property
    def is_batch(self) -> bool:
        return self.code is RequestCode.SEND_BATCH_MESSAGE


def single(
    message: Message, msg_id: str, max_size_bytes: int, extra: Mapping[str, str] | None = None
) -> Outgoing:
    """Check and encode one message; ``extra`` are properties that no user may set. Raises
    ``MessageError``."""
    check(message, max_size_bytes)
    return Outgoing(
        message.topic,
        RequestCode.SEND_MESSAGE_V2,
        message.body,
        plain_properties(message, msg_id)
        if extra is None
        else _properties(message, msg_id, extra).decode(),
        msg_id,
        message.flag,
    )


def batch(messages: Sequence[Message], msg_ids: Sequence[str], max_size_bytes: int) -> Outgoing:
    """Check and encode a list of messages into one body. Raises ``MessageError`` when they do not
    go together."""
    if not messages:
        raise MessageError("the list of messages is empty")
    first = messages[0]
    items = []
    try:
        for message, msg_id in zip(messages, msg_ids, strict=True):
            if message.topic != first.topic:
                raise MessageError(f"a batch has one topic, not {first.topic} and {message.topic}")
            if message.wait_store_ok != first.wait_store_ok:
                raise MessageError("the messages of a batch must agree in wait_store_ok")
            items.append(item_of(message, msg_id, max_size_bytes))
    except AttributeError:
        if (why := next(filter(None, map(message_problem, messages)), None)) is not None:
            raise MessageError(why) from None
        raise
    outgoing = batch_of(first.topic, first.wait_store_ok, items, msg_ids)
    if len(outgoing.body) > max_size_bytes:
        raise MessageError(
            f"the batch of {len(messages)} messages takes {len(outgoing.body)} bytes, the limit "
            f"is {max_size_bytes}: "
            "send smaller lists (aiorocketmq.split makes them)"
        )
    return outgoing


def item_of(message: Message, msg_id: str, max_size_bytes: int) -> BatchItem:
    """One message as part of a batch. Raises ``MessageError``."""
    check(message, max_size_bytes)
    if is_retry_topic(message.topic):
        raise MessageError(f"messages of the retry topic {message.topic} cannot be sent as a batch")
    if message.delay_level > 0:
        raise MessageError("a message with a delay level cannot be part of a batch")
    flag = message.flag
    if not isinstance(flag, int) or not -(1 << 31) <= flag < 1 << 31:
        raise MessageError(f"the flag of a message is a whole number of 32 bits, not {flag!r}")
    return BatchItem(flag, message.body, _properties(message, msg_id))


def batch_of(
    topic: str, wait_store_ok: bool, items: Sequence[BatchItem], msg_ids: Sequence[str]
) -> Outgoing:
    """The frame for some items."""
    wait = "true" if wait_store_ok else "false"
    return Outgoing(
        topic,
        RequestCode.SEND_BATCH_MESSAGE,
        encode_batch(items),
        f"WAIT\x01{wait}",
        ",".join(msg_ids),
    )


def check(message: Message, max_size_bytes: int) -> None:
    """Raise ``MessageError`` for what no broker would take."""
    check_topic(message.topic)
    body = message.body
    if type(body) is not bytes and not isinstance(body, (bytearray, memoryview)):
        raise MessageError(
            f"the body must be bytes, not {type(body).__name__}; encode text with .encode()"
        )
    if isinstance(body, memoryview) and body.nbytes != len(body):
        raise MessageError(f"the body is a view of bytes, not of {body.format!r}: cast it to 'B'")
    if not len(body):
        raise MessageError("the body is empty")
    if len(body) > max_size_bytes:
        raise MessageError(f"the body takes {len(body)} bytes, the limit is {max_size_bytes}")


def check_topic(topic: str) -> None:
    """Raise ``MessageError`` for a topic that nobody may send to."""
    if (why := _why_not_sendable(topic)) is not None:
        raise MessageError(why)


@lru_cache(maxsize=1024)
def _why_not_sendable(topic: str) -> str | None:
    if not isinstance(topic, str):
        return f"the topic must be text, not {topic!r}; it is Message(topic, body)"
    if topic in SEND_FORBIDDEN_TOPICS:
        return f"the topic {topic} belongs to the broker, nobody else may send to it"
    return topic_error(topic)


def plain_properties(message: Message, msg_id: str) -> str:
    """The property string. Most messages have few properties, which need not be looked at one by
    one. Raises ``MessageError``."""
    tags, keys = message.tags, message.keys
    if message.properties or message.delay_level or not message.wait_store_ok or keys:
        return _properties(message, msg_id).decode()
    if not tags:
        return f"UNIQ_KEY\x01{msg_id}\x02WAIT\x01true"
    if type(tags) is not str or len(tags) > 1000 or "\x02" in tags or "|" in tags:
        return _properties(message, msg_id).decode()
    return f"TAGS\x01{tags}\x02UNIQ_KEY\x01{msg_id}\x02WAIT\x01true"


def _properties(message: Message, msg_id: str, extra: Mapping[str, str] | None = None) -> bytes:
    try:
        own = {"UNIQ_KEY": msg_id}
        properties = message_properties(message, {**own, **extra} if extra else own)
        properties.setdefault("WAIT", "true")
        return encode_properties(properties)
    except ProtocolMessageError as error:
        raise MessageError(str(error)) from None
    except (TypeError, AttributeError):
        if (why := message_problem(message)) is not None:
            raise MessageError(why) from None
        raise


class _Stored(msgspec.Struct, gc=False, rename="camel"):
    """What a broker says of a message that it has."""

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None = None
    region_id: str = msgspec.field(name="MSG_REGION", default=DEFAULT_REGION)
    trace_on: str = msgspec.field(name="TRACE_ON", default="true")


_decode_stored = msgspec.json.Decoder(_Stored, strict=False).decode


class SendAnswer(msgspec.Struct, gc=False):
    """The usual answer to a send, decoded in one step: the message is stored."""

    code: int
    stored: _Stored = msgspec.field(name="extFields")
    flag: int = 0
    opaque: int = 0


_decode_send_answer = msgspec.json.Decoder(SendAnswer, strict=False).decode


def read_send_answer(serialize_type: int, header: bytes) -> SendAnswer | Response | None:
    """As ``read_answer``, which reads what is not the usual answer."""
    if serialize_type == 0:  # JSON
        try:
            answer = _decode_send_answer(header)
        except UNREADABLE:
            pass
        else:
            if answer.code == 0 and answer.flag & RESPONSE_FLAG:
                return answer
    return read_answer(serialize_type, header)


def send_result(
    answer: Response | SendAnswer | SendMessageResponse,
    msg_id: str,
    queue: MessageQueue,
    address: str,
) -> SendResult:
    """What the broker says of a message. Raises ``BrokerError`` when it did not store it,
    ``ProtocolError``."""
    stored: _Stored | SendMessageResponse
    if isinstance(answer, SendMessageResponse):
        stored, status, region_id, trace_on = answer, _SEND_OK, answer.msg_region, answer.trace_on
    else:
        stored, status = _stored(answer, address)
        region_id, trace_on = stored.region_id, stored.trace_on != "false"
    queue_id = stored.queue_id
    if queue_id != queue.queue_id:  # the broker chose
        queue = queue._replace(queue_id=queue_id)
    region_id = region_id or DEFAULT_REGION
    return _new_tuple(
        SendResult,
        (
            status,
            msg_id,
            stored.msg_id,
            queue,
            stored.queue_offset,
            stored.transaction_id,
            region_id,
            trace_on,
        ),
    )


def _stored(answer: Response | SendAnswer, address: str) -> tuple[_Stored, SendStatus]:
    status = _STATUS_BY_CODE.get(answer.code)
    if status is None:
        assert isinstance(answer, Response)  # of the other code 0 is known
        raise answer.error(address)
    if isinstance(answer, SendAnswer):
        return answer.stored, status
    try:
        return _decode_stored(answer.raw_fields), status
    except UNREADABLE:
        return _read_stored(answer, address), status


_SEND_OK: Final = SendStatus.SEND_OK
_new_tuple = tuple.__new__  # half the cost of calling SendResult


def _read_stored(answer: Response, address: str) -> _Stored:
    """The general way: values may be other than text."""
    try:
        return msgspec.convert(answer.ext_fields, _Stored, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(
            f"{address} answered a send, but does not say where the message lies: {error}"
        ) from None


def may_retry(error: RocketMQError, codes: Collection[int] = RETRY_CODES) -> bool:
    """Whether another attempt makes sense: after a failure of the transport, and after answers with
    one of ``codes``."""
    if isinstance(error, BrokerError):
        return error.code in codes
    return isinstance(error, RemotingError) and not isinstance(error, ClientClosedError)
