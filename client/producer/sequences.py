"""The numbers of an idempotent producer, and what a broker's answers mean for them. Pure.

What goes over the wire: ``remoting/protocol/message/send_sequence.py``. Each queue has an id of its
own, made of the producer's: it can be left for another one, and fenced, without touching the other
queues.

A message takes a number with its first attempt and keeps it. It is *in doubt* once an attempt may
have reached a broker and nobody has said what became of it. A message that ends in doubt has used
its number up, and those behind it have the next epoch, so a copy that is late is refused. One that
certainly is not stored has not: the next message has its number.
"""

from __future__ import annotations

from typing import Final

from ...remoting.errors import (
    BrokerError,
    ConnectError,
    RocketMQError,
    TooManyRequestsError,
)
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.properties import (
    MAX_PROPERTIES_BYTES,
    PropertyName,
    decode_properties,
    encode_properties,
)
from ...remoting.protocol.message.send_sequence import SendSequence
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.message.topic_names import is_retry_topic
from ..errors import (
    ConfigError,
    IdempotenceNotSupported,
    MessageError,
    SequenceFenced,
    SequenceGap,
    SequencesFull,
    SequenceUnknown,
)
from .sending import Outgoing, SendResult, SendStatus

Refused = type[
    SequenceFenced | SequenceGap | SequenceUnknown | SequencesFull | IdempotenceNotSupported
]

TYPED: Final[dict[int, Refused]] = {
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: IdempotenceNotSupported,
    ResponseCode.SEQUENCE_FENCED: SequenceFenced,
    ResponseCode.SEQUENCE_GAP: SequenceGap,
    ResponseCode.SEQUENCE_UNKNOWN: SequenceUnknown,
    ResponseCode.SEQUENCES_FULL: SequencesFull,
}
"""Refusals that end a send, and the error for each."""
AGAIN: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.SEQUENCES_NOT_READY,
    }
)
"""The same broker may take it soon. After other answers that are worth another attempt another
broker may."""
STORED: Final = frozenset(status.value for status in SendStatus)
"""Answers of a broker that has it."""
_OURS: Final = f"\x02{PropertyName.SEND_SEQUENCE}\x01"


class UncheckedError(RocketMQError):
    """A broker has stored a message without a look at its sequence. No ``RemotingError``: another
    attempt stores it once more."""


class RepeatedResult(SendResult):
    """Of a message that an earlier attempt had stored."""

    __slots__ = ()

    @property
    def repeated(self) -> bool:
        """See ``SendResult``."""
        return True


class Numbered(Outgoing):
    """A message with its sequence. ``written``: it may have left."""

    written: bool = False


class QueueSequence:
    """Where one queue is: what the next message carries."""

    __slots__ = ("begun_ms", "epoch", "greeted", "is_forgotten", "number", "producer_id")

    def __init__(self, producer_id: str) -> None:
        self.renew(producer_id)

    def renew(self, producer_id: str) -> None:
        """Begin anew, under an id that was never used."""
        self.producer_id: str = producer_id
        self.begun_ms: int | None = None
        """By the broker's clock."""
        self.epoch: int = 0
        self.number: int = 0
        self.greeted: str | None = None
        """The broker that has said that it knows sequences."""
        self.is_forgotten: bool = False
        """The broker knows nothing of this id: it is time for another one."""

    def welcome(self, address: str, now_ms: int) -> None:
        """The broker has answered hello."""
        self.greeted = address
        if self.begun_ms is None:
            self.begun_ms = now_ms

    def stored(self, count: int) -> None:
        """So many messages are."""
        self.number += count

    def doubted(self, count: int) -> None:
        """They may be, or may not: nobody will ask any more."""
        self.number += count
        self.fence()

    def fence(self) -> None:
        """What was sent up to now is refused once the next message is stored."""
        self.epoch += 1

    def put_on(self, outgoing: Outgoing) -> Numbered:
        """The message as it is sent. Raises ``MessageError`` when its properties get too long."""
        assert self.begun_ms is not None, "hello comes first"
        sequence = SendSequence(self.producer_id, self.epoch, self.number, self.begun_ms)
        return numbered(outgoing, sequence)


def numbered(outgoing: Outgoing, sequence: SendSequence) -> Numbered:
    """A message or a batch with its sequence. Raises ``MessageError`` when its properties get too
    long."""
    properties = outgoing.properties
    if _OURS[1:] in properties:  # of a message that was consumed somewhere and goes on
        others = decode_properties(properties)
        others.pop(PropertyName.SEND_SEQUENCE, None)
        properties = encode_properties(others).decode()
    properties += _OURS + sequence.text
    if len(properties) > MAX_PROPERTIES_BYTES // 4:
        size = len(properties.encode())
        if size > MAX_PROPERTIES_BYTES:
            raise MessageError(
                f"the properties take {size} bytes with those of an idempotent producer, the "
                f"limit is {MAX_PROPERTIES_BYTES}"
            )
    return Numbered(
        outgoing.topic,
        outgoing.code,
        outgoing.body,
        properties,
        outgoing.msg_id,
        outgoing.flag,
        outgoing.sys_flag | MessageSysFlag.SEQUENCED,
        messages=outgoing.messages,
    )


def count_of(outgoing: Outgoing) -> int:
    """How many messages, and so numbers."""
    return outgoing.msg_id.count(",") + 1


def check_sequenced(outgoing: Outgoing, bound: MessageQueue | None) -> None:
    """Raise ``MessageError``, or ``ConfigError`` for a queue, for what cannot have a sequence."""
    names = decode_properties(outgoing.properties)
    why = None
    if PropertyName.DELAY in names:
        why = "a message with a delay level"
    elif is_retry_topic(outgoing.topic):
        why = f"a message to the retry topic {outgoing.topic}"
    elif PropertyName.CORRELATION_ID in names or outgoing.code is RequestCode.SEND_REPLY_MESSAGE_V2:
        why = "a request or a reply"
    if why is not None:
        raise MessageError(f"an idempotent producer cannot send {why}: use one that is not")
    if bound is not None and bound.queue_id < 0:
        raise ConfigError(f"an idempotent producer sends to a queue with an id, not to {bound}")


def may_be_stored(error: BaseException) -> bool:
    """What an attempt that ended so tells.

    A broker that is not the master any more (14, or 1 during an election) may have taken the
    message before, and the next one may commit it.
    """
    if isinstance(error, BrokerError):
        return error.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE)
    return not isinstance(error, ConnectError | TooManyRequestsError)


def checked(result: SendResult, sequence: str | None, address: str) -> SendResult:
    """The result, if the broker says that it has looked at the sequence. Raises
    ``UncheckedError``."""
    if sequence == "new":
        return result
    if sequence == "repeated":
        return RepeatedResult(*result)
    raise UncheckedError(f"{address} stored a message, but does not say that it looked for copies")
