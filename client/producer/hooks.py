"""Looking at every attempt to send, and forbidding it (client.md §7.4; classes SendMessageHook,
CheckForbiddenHook).

::

    class Timing:
        def before_send(self, context: SendContext) -> None: ...
        def after_send(self, context: SendContext) -> None:
            histogram.observe(context.seconds)

    Producer("orders", hooks=[Timing()], checks=[refuse_on_holidays])
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Protocol

import msgspec

from ...remoting.protocol.message.message import Message
from ...remoting.protocol.message.message_queue import MessageQueue
from ..user_code import UserCode
from .sending import SendResult

__all__ = ["MessageKind", "SendCheck", "SendContext", "SendHook", "kind_of"]

log: Final = logging.getLogger(__name__)


class MessageKind(Enum):
    """What kind of message it is; the numbers stand in traces."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAY = 3


class SendContext(msgspec.Struct):
    """One attempt to send a message or a list of messages. Names are those of the program, without
    a namespace."""

    group: str
    messages: Sequence[Message]
    kind: MessageKind
    is_batch: bool
    queue: MessageQueue
    broker_address: str
    body_size: int
    """Bytes that are sent as the body, perhaps compressed."""
    started_ms: int
    """ms since 1970."""
    oneway: bool = False
    seconds: float = 0.0
    """How long the attempt took; known after it."""
    result: SendResult | None = None
    """After an attempt that a broker answered with success."""
    error: BaseException | None = None
    """After one that failed."""
    notes: dict[str, Any] = {}
    """A hook's own."""


class SendHook(Protocol):
    """Called around every attempt, retries included. What a hook raises is logged and changes
    nothing."""

    def before_send(self, context: SendContext) -> None:
        """The attempt begins."""
        ...

    def after_send(self, context: SendContext) -> None:
        """It has ended; ``result`` or ``error`` says how, neither of them for oneway."""
        ...


SendCheck = Callable[[SendContext], None]
"""May forbid an attempt: what it raises comes out of ``send``, and there is no further attempt."""


class SendHooks:
    """The checks and hooks of one producer."""

    def __init__(self, hooks: Sequence[SendHook], checks: Sequence[SendCheck]) -> None:
        self._hooks = tuple(hooks)
        self._checks = tuple(checks)

    def __bool__(self) -> bool:
        return bool(self._hooks or self._checks)

    def before(self, context: SendContext) -> None:
        """Raises what a check raises."""
        for check in self._checks:
            check(context)
        for hook in self._hooks:
            self._call(hook.before_send, context)

    def after(self, context: SendContext) -> None:
        for hook in self._hooks:
            self._call(hook.after_send, context)

    @staticmethod
    def _call(function: Callable[[SendContext], None], context: SendContext) -> None:
        with UserCode() as code:
            function(context)
        code.log_failure(log, "a send hook failed topic=%s", context.queue.topic)


def kind_of(messages: Sequence[Message], *, half: bool) -> MessageKind:
    """A delay says more than a half message."""
    if any(m.delay_level > 0 or "__STARTDELIVERTIME" in m.properties for m in messages):
        return MessageKind.DELAY
    return MessageKind.HALF if half else MessageKind.NORMAL
