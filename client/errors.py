"""Errors of the client. All of them are a ``RocketMQError``; transport and broker errors come from ``remoting.errors``.

::

    RocketMQError
     ├ RemotingError            ConnectError, ConnectionLostError, RequestTimeout (also TimeoutError), ...
     ├ BrokerError(code)        a server answered with a code other than success; subclasses by code
     ├ ClientStateError         not started, stopped, started twice, used after a fork
     ├ ConfigError              also ValueError: a bad group, topic, address or option
     ├ MessageError             also ValueError: a message that cannot be sent as it is
     ├ NoRouteError             no queue to send to or to read from
     └ SendFailed(attempts)     no broker took the message; SendTimedOut (also TimeoutError) when the time ran out
"""

from __future__ import annotations

from typing import NamedTuple

from ..remoting.errors import RocketMQError
from ..remoting.protocol.properties import MessageError as _ProtocolMessageError


class ClientStateError(RocketMQError):
    """The object cannot do this now: not started, already stopped, started twice, or used in a forked process."""


class ConfigError(RocketMQError, ValueError):
    """An argument has a value that cannot work; the text says what is expected."""


class MessageError(RocketMQError, _ProtocolMessageError):
    """A message (or a list of them) cannot be sent as it is; the text says what to change."""


class NoRouteError(RocketMQError):
    """No broker is known that serves this topic: create it (``mqadmin updateTopic``) or start its broker."""


class RetryLater(Exception):
    """Raised by a handler to have a message again without an error in the log.

    ``delay_level`` 1..18 chooses the delay, 0 the rising one (10 s, 30 s, 1 min, ...), -1 the dead letter queue at once.
    """

    def __init__(self, delay_level: int = 0) -> None:
        super().__init__(delay_level)
        self.delay_level = delay_level


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


class SendFailed(RocketMQError):
    """No broker took the message within the allowed attempts; ``attempts`` tells of each.

    A message whose connection was lost or that timed out may still have been stored.
    """

    def __init__(self, topic: str, attempts: tuple[Attempt, ...]) -> None:
        told = "; ".join(map(str, attempts)) or "no attempt was possible in the time given"
        super().__init__(f"sending to {topic} failed: {told}")
        self.topic = topic
        self.attempts = attempts


class SendTimedOut(SendFailed, TimeoutError):
    """The total time for sending ran out. The message may still have been stored."""
