"""Looking at every attempt to send, and forbidding it (client.md §7.4; classes SendMessageHook,
CheckForbiddenHook).

::

    class Timing:
        def before_send(self, context: SendContext) -> None: ...
        def after_send(self, context: SendContext) -> None:
            histogram.observe(context.seconds)

    Producer("orders", hooks=[Timing()], checks=[refuse_on_holidays])

Who has to know of a send as a whole, from the call to its end, whatever attempts it takes, and adds
properties to its messages (tracing), has ``begin_send`` instead: a ``SendObserver``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar, cast

import msgspec

from ...remoting.protocol.message.message import Message
from ...remoting.protocol.message.message_queue import MessageQueue
from ..errors import ConfigError
from ..usage_errors import check_plain
from ..user_code import UserCode
from .sending import SendResult

__all__ = [
    "BegunSend",
    "MessageKind",
    "SendCheck",
    "SendContext",
    "SendHook",
    "SendObserver",
    "SendProgress",
    "kind_of",
]

log: Final = logging.getLogger(__name__)

T = TypeVar("T")


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


class BegunSend(msgspec.Struct):
    """A call of ``send`` or of one of its relatives. Names are those of the program, without a
    namespace."""

    group: str
    client_id: str
    namespace: str | None
    messages: Sequence[Message]
    kind: MessageKind
    is_batch: bool


class SendProgress(Protocol):
    """One such call, for who observes it. What it raises is logged and changes nothing."""

    @property
    def properties(self) -> Mapping[str, str]:
        """To be added to its messages; what a message has by itself stays."""

    def attempted(self, context: SendContext) -> None:
        """An attempt has ended. (Not called for messages that are gathered into batches.)"""
        ...

    def ended(self, result: SendResult | None, error: BaseException | None) -> None:
        """Once; neither of them for oneway."""
        ...


class SendObserver(Protocol):
    """Told of every send in the context of who called it. What it raises is logged."""

    def begin_send(self, begun: BegunSend) -> SendProgress | None:
        """None: it is of no interest."""
        ...


class WatchedSend:
    """One send with all who observe it: a context manager that tells them of its end."""

    def __init__(self, topic: str, progress: Sequence[SendProgress]) -> None:
        self._topic = topic
        self._progress = progress
        self.result: SendResult | None = None

    def made(self, message: Message | Sequence[Message], make: Callable[[Any], T]) -> T:
        """What ``make`` makes of the message, or of the list, with the properties that they add.
        Where it raises, that is the end of the send."""
        try:
            return make(
                self._marked(message)
                if isinstance(message, Message)
                else [self._marked(each) for each in message]
            )
        except BaseException as error:
            self.end(error)
            raise

    def _marked(self, message: Message) -> Message:
        added: dict[str, str] = {}
        for each in self._progress:
            with UserCode() as code:
                added |= each.properties
            code.log_failure(log, "a send observer failed topic=%s", self._topic)
        properties = {**added, **message.properties}
        return msgspec.structs.replace(message, properties=properties)

    def attempted(self, context: SendContext) -> None:
        for each in self._progress:
            with UserCode() as code:
                each.attempted(context)
            code.log_failure(log, "a send observer failed topic=%s", self._topic)

    def end(self, error: BaseException | None) -> None:
        """Tell it, the first time."""
        progress, self._progress = self._progress, ()
        for each in progress:
            with UserCode() as code:
                each.ended(self.result, error)
            code.log_failure(log, "a send observer failed topic=%s", self._topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        self.end(error)


SendCheck = Callable[[SendContext], object]
"""May forbid an attempt: what it raises comes out of ``send``, and there is no further attempt.
What it returns forbids nothing."""


class SendHooks:
    """The checks, hooks and observers of one producer."""

    def __init__(
        self, hooks: Sequence[SendHook | SendObserver], checks: Sequence[SendCheck]
    ) -> None:
        """Raises ``ConfigError`` for what is no hook, and for what would have to be awaited."""
        for check in checks:
            check_plain("a check", check)
        for each in hooks:
            for name in ("before_send", "after_send", "begin_send"):
                check_plain(f"{name} of a hook", getattr(each, name, None))
            if not hasattr(each, "begin_send") and not hasattr(each, "before_send"):
                raise ConfigError(
                    "a hook has the methods before_send and after_send (SendHook), or begin_send "
                    f"(SendObserver), unlike {each!r}"
                )
        self._observers = [
            cast(SendObserver, each) for each in hooks if hasattr(each, "begin_send")
        ]
        self._hooks = [cast(SendHook, each) for each in hooks if hasattr(each, "before_send")]
        self._checks = tuple(checks)
        self._is_told = False

    def __bool__(self) -> bool:
        return bool(self._hooks or self._observers or self._checks)

    @property
    def observed(self) -> bool:
        """``begin`` does something."""
        return bool(self._observers)

    def begin(
        self,
        message: Message | Sequence[Message],
        sender: tuple[str, str, str | None],
        half: bool,
    ) -> WatchedSend | None:
        """``sender``: group, client id, namespace. None: nobody observes it, or it is no message
        and nothing will come of it."""
        messages = (message,) if isinstance(message, Message) else message
        if not isinstance(messages, Sequence) or not messages:
            return None
        if not all(isinstance(each, Message) for each in messages):
            return None
        begun = BegunSend(*sender, messages, kind_of(messages, half=half), messages is message)
        topic, progress = messages[0].topic, list[SendProgress]()
        for observer in self._observers:
            with UserCode() as code:
                if (one := observer.begin_send(begun)) is not None:
                    progress.append(one)
            code.log_failure(log, "a send observer failed topic=%s", topic)
        return WatchedSend(topic, progress) if progress else None

    def before(self, context: SendContext) -> None:
        """Raises what a check raises."""
        for check in self._checks:
            if check(context) is False and not self._is_told:
                self._is_told = True
                log.warning(
                    "check returned False, and the message is sent all the same: to forbid it "
                    "raise an exception check=%r topic=%s",
                    check,
                    context.queue.topic,
                )
        for hook in self._hooks:
            self._call(hook.before_send, context)

    def after(self, context: SendContext, watched: WatchedSend | None = None) -> None:
        for hook in self._hooks:
            self._call(hook.after_send, context)
        if watched is not None:
            watched.attempted(context)

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
