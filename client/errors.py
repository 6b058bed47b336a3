"""Errors of the client. All of them are a ``RocketMQError``; transport and broker errors come from
``remoting.errors``.

::

    RocketMQError
     ├ RemotingError            ConnectError, ConnectionLostError, RequestTimeout (also
     │                          TimeoutError), ...
     ├ BrokerError(code)        a server answered with a code other than success; subclasses by code
     │   └ ExpressionRefused    a broker cannot filter by an SQL expression
     ├ ClientStateError         not started, stopped, started twice, used after a fork
     ├ ConfigError              also ValueError: a bad group, topic, address or option
     ├ MessageError             also ValueError: a message that cannot be sent as it is
     ├ SerializationError       also ValueError: a value cannot be written as a body
     │   └ DeserializationError     a body cannot be read
     ├ NoRouteError             no queue to send to or to read from
     ├ SendFailed(attempts)     no broker took the message; SendTimedOut (also TimeoutError) when
     │   │                      the time ran out
     │   ├ SequenceError        of an idempotent producer: SequenceUnknown, SequenceGap,
     │   │                      SequenceFenced, SequencesFull
     │   └ IdempotenceNotSupported   its broker does not look for copies
     ├ HalfMessageUnsafe        a transaction did not begin: its message was stored less safely
     │                          than asked
     └ ReplyTimeout             also TimeoutError: a request was sent, but nobody replied in time
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from ..remoting.errors import BrokerError, RocketMQError, TooManyRequestsError
from ..remoting.protocol.bodies.heartbeat import SubscriptionData
from ..remoting.protocol.codes import ResponseCode
from ..remoting.protocol.message.properties import MessageError as _ProtocolMessageError
from ..remoting.protocol.record.decode import MessageExt


class ClientStateError(RocketMQError):
    """The object cannot do this now: not started, already stopped, started twice, or used in a
    forked process."""


class ConfigError(RocketMQError, ValueError):
    """An argument has a value that cannot work; the text says what is expected."""


class MessageError(RocketMQError, _ProtocolMessageError):
    """A message (or a list of them) cannot be sent as it is; the text says what to change."""


class SerializationError(RocketMQError, ValueError):
    """A value cannot become the body of a message: nothing was sent."""

    def __init__(self, text: str, *, topic: str) -> None:
        super().__init__(text)
        self.topic = topic


class DeserializationError(SerializationError):
    """The body of a message cannot be read, and will not be readable the next time either: where a
    handler ends with it, ``message`` becomes a dead letter at once."""

    def __init__(self, text: str, message: MessageExt) -> None:
        super().__init__(text, topic=message.topic)
        self.message = message
        self.msg_id: str = message.msg_id


class NoRouteError(RocketMQError):
    """No broker is known that serves this topic: create it (``mqadmin updateTopic``) or start its
    broker."""


class ExpressionRefused(BrokerError):
    """A broker cannot filter by the expression of a subscription: it does not filter by properties
    (code 1: set ``enablePropertyFilter=true`` there), or it does not take for SQL92 what is it here
    (code 23).
    """

    def __init__(
        self, code: int, remark: str | None, address: str, subscription: SubscriptionData
    ) -> None:
        do = "; set enablePropertyFilter=true there" if _filters_by_tags_only(remark) else ""
        super().__init__(
            code,
            f"{remark}{do}; topic {subscription.topic}, expression {subscription.sub_string!r}",
            address,
        )
        self.subscription = subscription

    @staticmethod
    def is_said_by(code: int, remark: str | None) -> bool:
        """Whether an answer to request 46 is about the expression, and would be the same the next
        time: not that the broker is busy, or lets nobody in."""
        return code == ResponseCode.SUBSCRIPTION_PARSE_FAILED or (
            code == ResponseCode.SYSTEM_ERROR and _filters_by_tags_only(remark)
        )


def _filters_by_tags_only(remark: str | None) -> bool:
    """The code alone does not say it (class ClientManageProcessor)."""
    return "not support consumer to filter" in (remark or "")


class RetryLater(Exception):
    """Raised by a handler to have a message again without an error in the log.

    ``delay_level`` 1..18 chooses the delay, 0 the rising one (10 s, 30 s, 1 min, ...), -1 the dead
    letter queue at once. Raises ``ConfigError`` for what is no level.
    """

    def __init__(self, delay_level: int = 0) -> None:
        if type(delay_level) is not int or delay_level < -1:
            raise ConfigError(
                "RetryLater takes a delay level, no seconds: 1 (1 s) to 18 (2 h), 0 for the rising "
                f"delay, -1 for the dead letter queue, not {delay_level!r}"
            )
        super().__init__(delay_level)
        self.delay_level = delay_level


class SuspendQueue(Exception):
    """Raised by the handler of an ordered consumer to have its message again, without an error in
    the log, after so many ``seconds`` (0.01 to 30; default: the consumer's ``suspend_queue``).
    Nothing of the queue is consumed meanwhile. Raises ``ConfigError`` for what are no seconds."""

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and not (isinstance(seconds, (int, float)) and seconds >= 0):
            raise ConfigError(f"SuspendQueue takes seconds, 0.01 to 30, not {seconds!r}")
        super().__init__(seconds)
        self.seconds = seconds


class Attempt(NamedTuple):
    """One try to send a message."""

    broker_name: str
    address: str
    """``host:port``, empty when the broker's address was not known."""
    error: RocketMQError
    seconds: float
    """How long it took to fail."""

    def __str__(self) -> str:
        where = f"{self.broker_name} ({self.address})" if self.address else self.broker_name
        return f"{where} after {self.seconds:.3f} s: {self.error}"


_NO_ATTEMPT: Final = (
    "no attempt was possible in the time given: perhaps too many sends were begun at once, or "
    "something blocks the event loop"
)
_FEWER: Final = (
    "send fewer at a time (lists, accumulate, a semaphore), or give them more send_timeout"
)


class SendFailed(RocketMQError):
    """No broker took the message within the allowed attempts; ``attempts`` tells of each.

    A message whose connection was lost or that timed out may still have been stored, unless
    ``in_doubt`` is False: an idempotent producer knows when it is not.
    """

    def __init__(
        self, topic: str, attempts: tuple[Attempt, ...], told: str = "", *, in_doubt: bool = True
    ) -> None:
        """``told`` is the end of the text."""
        what = "; ".join(map(str, attempts)) or _NO_ATTEMPT
        if not told and (not attempts or isinstance(attempts[-1].error, TooManyRequestsError)):
            told = _FEWER
        super().__init__(f"sending to {topic} failed: {what}{'; ' if told else ''}{told}")
        self.topic = topic
        self.attempts = attempts
        self.in_doubt = in_doubt


class SequenceError(SendFailed):
    """A broker refused a message of an idempotent producer for its place among the others."""

    advice: ClassVar[str] = ""


class SequenceUnknown(SequenceError):
    """The broker knows nothing of what this producer has sent to the queue, so it cannot tell
    whether it has this message."""

    advice = (
        "the broker has forgotten this producer (which was silent for longer than "
        "sendSequenceExpireMillis, or files of the broker were lost): if the message is in doubt "
        "read the queue to know; the next ones can be sent"
    )


class SequenceFenced(SequenceError):
    """Another producer has the same id: this process was copied (a snapshot of a machine)."""

    advice = (
        "another producer sends with the id of this one, as a copy of the machine would: the "
        "next message gets another id; look whether both are meant to run"
    )


class SequenceGap(SequenceError):
    """Messages that were acknowledged are not at the broker any more."""

    advice = (
        "the broker does not have messages any more that it acknowledged, as after a failover to a "
        "slave that was behind: send those again that matter, then this one; the next ones can be "
        "sent"
    )


class SequencesFull(SequenceError):
    """The broker cannot remember another producer."""

    advice = (
        "the broker remembers as many producers and queues as it may: use fewer and longer-lived "
        "producers, raise its maxSendSequences or lower sendSequenceExpireMillis"
    )


class IdempotenceNotSupported(SendFailed):
    """The broker does not look for copies, as those of Java do not."""

    advice: ClassVar[str] = (
        "this broker does not look for copies of a message, as those of Java do not: send to it "
        "with a producer that is not idempotent"
    )


class HalfMessageUnsafe(RocketMQError):
    """A broker has the message of a transaction, but not as safely as it was told to. It was rolled
    back, and the local part has not begun. ``status`` is the name of the ``SendStatus``."""

    def __init__(self, msg_id: str, status: str) -> None:
        super().__init__(f"the half message {msg_id} was rolled back: the broker answered {status}")
        self.msg_id = msg_id
        self.status = status


class ReplyTimeout(RocketMQError, TimeoutError):
    """A broker has the request, but no reply came in time: does anybody consume the topic and
    reply?"""


class SendTimedOut(SendFailed, TimeoutError):
    """The total time for sending ran out. The message may still have been stored."""
