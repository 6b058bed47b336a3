"""Looking at every call of a consumer's handler, and at what is pulled (client.md §7.4; classes
ConsumeMessageHook, FilterMessageHook).

::

    class Timing:
        def before_consume(self, context: ConsumeContext) -> None: ...
        def after_consume(self, context: ConsumeContext) -> None:
            histogram.observe(context.seconds)

    def with_keys(messages: Sequence[MessageExt]) -> list[MessageExt]:
        return [message for message in messages if message.keys]

    PushConsumer("billing", hooks=[Timing()], filters=[with_keys])
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from ...remoting.clock import Clock
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.record.decode import MessageExt
from ..errors import RetryLater, SuspendQueue
from ..handlers import Call, Closed, is_to_end
from ..producer.trace import ConsumeTracer
from ..producer.trace_records import ConsumeOutcome
from ..usage_errors import check_plain
from ..user_code import PROGRAM_ENDS, UserCode

__all__ = ["ConsumeContext", "ConsumeHook", "ConsumeOutcome", "FilterHook"]

log: Final = logging.getLogger(__name__)


class ConsumeContext(msgspec.Struct):
    """One call of the handler. Names are those of the program, without a namespace."""

    group: str
    messages: Sequence[MessageExt]
    queue: MessageQueue
    started_ms: int
    """ms since 1970."""
    client_id: str = ""
    seconds: float = 0.0
    """How long the handler took; known after it, like the two below."""
    outcome: ConsumeOutcome | None = None
    error: BaseException | None = None
    """What the handler raised."""
    notes: dict[str, Any] = {}
    """A hook's own."""


class ConsumeHook(Protocol):
    """Called around every call of the handler. What a hook raises is logged and changes nothing."""

    def before_consume(self, context: ConsumeContext) -> None:
        """The handler is about to be called."""
        ...

    def after_consume(self, context: ConsumeContext) -> None:
        """It has ended."""
        ...


FilterHook = Callable[[list[MessageExt]], list[MessageExt]]
"""Gets what was pulled of one queue, returns what is to be consumed of it; the rest counts as
consumed. One that raises, or forgets to return them, keeps everything."""


def filtered(messages: list[MessageExt], filters: Sequence[FilterHook]) -> list[MessageExt]:
    """What the filters leave."""
    for keep in filters:
        with UserCode() as code:
            messages = list(keep(list(messages)))
        code.log_failure(log, "a filter failed")  # too much is better than too little
    return messages


class ConsumeHooks:
    """The hooks and the tracer of one consumer."""

    def __init__(
        self,
        group: str,
        hooks: Sequence[ConsumeHook],
        tracer: ConsumeTracer | None,
        clock: Clock,
        consume_timeout: float,
        client_id: str = "",
    ) -> None:
        """Raises ``ConfigError`` for a hook that would have to be awaited."""
        for hook in hooks:
            for name in ("before_consume", "after_consume"):
                check_plain(f"{name} of a hook", getattr(hook, name, None))
        self._group = group
        self._client_id = client_id
        self._hooks = tuple(hooks)
        self._tracer = tracer
        self._clock = clock
        self._consume_timeout = consume_timeout

    def __bool__(self) -> bool:
        return bool(self._hooks or self._tracer is not None)

    def around(self, call: Call, closed: Closed) -> Call:
        """``call`` with everybody looking on."""

        async def looked_at(messages: list[MessageExt]) -> object:
            clock, returned = self._clock, None
            context = ConsumeContext(
                self._group, messages, messages[0].queue, clock.time_ms(), self._client_id
            )
            traced = self._tracer.before(messages) if self._tracer is not None else None
            for hook in self._hooks:
                _call(hook.before_consume, context)
            began = clock.monotonic()
            with UserCode(BaseException, but=PROGRAM_ENDS) as code:
                returned = await call(messages)
            context.error = code.failure()
            if isinstance(context.error, asyncio.CancelledError) and await is_to_end(closed):
                raise context.error  # it is not the handler that ended
            context.seconds = clock.monotonic() - began
            context.outcome = outcome_of(context.error, context.seconds, self._consume_timeout)
            for hook in self._hooks:
                _call(hook.after_consume, context)
            if self._tracer is not None:
                self._tracer.after(traced, context.outcome)
            if context.error is not None:
                raise context.error
            return returned

        return looked_at


def outcome_of(
    error: BaseException | None, seconds: float, consume_timeout: float
) -> ConsumeOutcome:
    """As the original tells it in traces."""
    if isinstance(error, (RetryLater, SuspendQueue)):
        return ConsumeOutcome.FAILED
    if error is not None:
        return ConsumeOutcome.EXCEPTION
    return ConsumeOutcome.TIME_OUT if seconds >= consume_timeout else ConsumeOutcome.SUCCESS


def _call(function: Callable[[ConsumeContext], None], context: ConsumeContext) -> None:
    with UserCode() as code:
        function(context)
    code.log_failure(log, "a consume hook failed group=%s", context.group)
