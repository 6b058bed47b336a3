"""OpenTelemetry: spans for what is sent and consumed, and their context in the messages.

::

    from aiorocketmq.otel import OpenTelemetry

    producer = Producer("orders", namesrv="ns1:9876", hooks=[OpenTelemetry()])
    consumer = PushConsumer("billing", namesrv="ns1:9876", hooks=[OpenTelemetry()])

Names and attributes are those of OpenTelemetry's semantic conventions for messaging and RocketMQ
(1.44). The context goes in the user properties ``traceparent``, ``tracestate``, ``baggage``, or
whatever the program's propagator writes; Java's instrumentation reads them as well. The trace of
the original (``trace=True``) is another thing, and may be on besides.

Needs the extra ``[otel]``; nothing else of the package imports this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, Final

try:
    from opentelemetry import context as contexts
    from opentelemetry import propagate, trace
except ImportError as error:
    from .remoting.protocol.extras import install_command

    raise ImportError(
        f"aiorocketmq.otel needs OpenTelemetry: {install_command('otel')}", name=error.name
    ) from error
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer, TracerProvider

from .client.consumer.consume_hooks import ConsumeContext
from .client.errors import RetryLater, SuspendQueue
from .client.producer.hooks import BegunSend, MessageKind, SendContext
from .client.producer.sending import SendResult, SendStatus
from .remoting.protocol.message.message import Message
from .remoting.protocol.record.decode import MessageExt
from .remoting.transport.address import split_address

__all__ = ["OpenTelemetry"]

_NOTE: Final = "opentelemetry"
_KINDS: Final = {
    MessageKind.NORMAL: "normal",
    MessageKind.HALF: "transaction",
    MessageKind.COMMIT: "transaction",
    MessageKind.DELAY: "delay",
}
_WANTED: Final = (RetryLater, SuspendQueue)
"""A handler that raises one of them has not failed: it wants its message again."""


class OpenTelemetry:
    """For ``hooks=`` of producers and of push consumers; ``process`` for everybody else.

    A send is one span of the kind PRODUCER, ``send <topic>``, whatever attempts it takes (those
    that failed are its events); a list is one, too. A call of a handler is one of the kind
    CONSUMER, ``process <topic>``, linked to the sends of its messages; with a single message it is
    a child of that send. The handler runs in its context. ``tracer_provider``: another one than
    the program's.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer: Tracer = trace.get_tracer(
            "aiorocketmq",
            version("aiorocketmq"),
            tracer_provider,
            "https://opentelemetry.io/schemas/1.44.0",
        )

    # --- of a producer

    def begin_send(self, begun: BegunSend) -> _Send:
        """See ``SendObserver``."""
        messages = begun.messages
        attributes = {
            **_common("send", messages, begun.client_id),
            "messaging.rocketmq.namespace": begun.namespace or "",
            "messaging.rocketmq.message.type": _KINDS[begun.kind],
        }
        if begun.is_batch:
            attributes["messaging.batch.message_count"] = len(messages)
        elif messages[0].delay_level > 0:
            attributes["messaging.rocketmq.message.delay_time_level"] = messages[0].delay_level
        span = self._tracer.start_span(
            f"send {messages[0].topic}",
            kind=SpanKind.PRODUCER,
            links=_links(messages),
            attributes=attributes,
        )
        return _Send(span)

    # --- of a consumer

    def before_consume(self, context: ConsumeContext) -> None:
        """See ``ConsumeHook``."""
        span = self._start_processing(context.messages, context.group, context.client_id)
        token = contexts.attach(trace.set_span_in_context(span, _baggage_of(context.messages)))
        context.notes[_NOTE] = span, token

    def after_consume(self, context: ConsumeContext) -> None:
        """See ``ConsumeHook``."""
        span, token = context.notes.pop(_NOTE)
        contexts.detach(token)
        if context.outcome is not None:
            span.set_attribute("aiorocketmq.outcome", context.outcome.name.lower())
        _finish(span, context.error)

    @contextmanager
    def process(self, messages: MessageExt | Sequence[MessageExt], *, group: str) -> Iterator[Span]:
        """A span as a handler has it, around what a program does with messages that it has asked
        for (``PullConsumer``)."""
        messages = (messages,) if isinstance(messages, MessageExt) else messages
        span = self._start_processing(messages, group, "")
        token = contexts.attach(trace.set_span_in_context(span, _baggage_of(messages)))
        failure: BaseException | None = None
        try:
            yield span
        except BaseException as error:
            failure = error
            raise
        finally:
            contexts.detach(token)
            _finish(span, failure)

    def _start_processing(self, messages: Sequence[MessageExt], group: str, client_id: str) -> Span:
        first = messages[0]
        attributes = {
            **_common("process", messages, client_id),
            "messaging.consumer.group.name": group,
            "messaging.destination.partition.id": f"{first.broker_name}-{first.queue_id}",
        }
        parent: Context | None = None
        if len(messages) > 1:
            attributes["messaging.batch.message_count"] = len(messages)
        else:
            parent = propagate.extract(first.properties)
            attributes["messaging.message.id"] = first.msg_id
            if first.reconsume_times:
                attributes["aiorocketmq.reconsume_times"] = first.reconsume_times
        return self._tracer.start_span(
            f"process {first.topic}",
            parent,
            kind=SpanKind.CONSUMER,
            links=_links(messages),
            attributes=attributes,
        )


class _Send:
    """One send (``SendProgress``)."""

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def properties(self) -> Mapping[str, str]:
        """What the propagators of the program write."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(self._span))
        return {name: value for name, value in carrier.items() if value}

    def attempted(self, context: SendContext) -> None:
        """Where it went, and what came of it."""
        host, port = split_address(context.broker_address)
        self._span.set_attributes({"server.address": host, "server.port": port})
        if context.error is not None:
            attributes: dict[str, str | int | float] = {
                "error.type": type(context.error).__qualname__,
                "error.message": str(context.error),
                "server.address": host,
                "server.port": port,
                "aiorocketmq.seconds": context.seconds,
            }
            self._span.add_event("attempt failed", attributes)

    def ended(self, result: SendResult | None, error: BaseException | None) -> None:
        """The message is stored, or is not."""
        if result is not None:
            queue = result.queue
            self._span.set_attributes(
                {
                    "messaging.message.id": result.msg_id,
                    "messaging.destination.partition.id": f"{queue.broker_name}-{queue.queue_id}",
                }
            )
            if result.status is not SendStatus.SEND_OK:
                self._span.set_attribute("aiorocketmq.send_status", result.status.name)
        _finish(self._span, error)


def _common(
    operation: str, messages: Sequence[Message] | Sequence[MessageExt], client_id: str
) -> dict[str, Any]:
    first = messages[0]
    found: dict[str, Any] = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": first.topic,
    }
    if client_id:
        found["messaging.client.id"] = client_id
    if len(messages) == 1:
        found["messaging.message.body.size"] = len(first.body)
        if first.tags:
            found["messaging.rocketmq.message.tag"] = first.tags
        if first.keys:
            keys = (first.keys,) if isinstance(first.keys, str) else first.keys
            found["messaging.rocketmq.message.keys"] = tuple(keys)
    return found


def _links(messages: Sequence[Message] | Sequence[MessageExt]) -> list[Link]:
    """To where the messages were made, each place once."""
    found = {}
    for message in messages:
        made = trace.get_current_span(propagate.extract(message.properties, Context()))
        context = made.get_span_context()
        if context.is_valid:
            found[context.trace_id, context.span_id] = context
    return [Link(context) for context in found.values()]


def _baggage_of(messages: Sequence[MessageExt]) -> Context:
    """What a handler sees: with one message all that its sender propagated."""
    if len(messages) == 1:
        return propagate.extract(messages[0].properties)
    return contexts.get_current()


def _finish(span: Span, error: BaseException | None) -> None:
    if isinstance(error, _WANTED):
        span.add_event(type(error).__qualname__)
    elif error is not None:
        span.record_exception(error)
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(StatusCode.ERROR, str(error))
    span.end()
