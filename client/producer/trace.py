"""Message trace: who sent and who consumed a message, when, and with what outcome (client.md §7.2;
class AsyncTraceDispatcher).

Records are gathered and sent as messages to a topic of their own, RMQ_SYS_TRACE_TOPIC or another,
with the ids and keys of the traced messages as keys, so that they can be found (``mqadmin
queryMsgTraceById``). Tracing never holds anything up: what does not fit into the queue, or cannot
be sent, is dropped with a line in the log.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from ...remoting.errors import RocketMQError
from ...remoting.protocol.commands.send import DEFAULT_REGION
from ...remoting.protocol.message.message import Message
from ...remoting.protocol.message.properties import PropertyName
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record.decode import MessageExt
from ..cluster.instance import ClientInstance
from ..errors import MessageError
from ..namespaces import without_namespace
from ..usage_errors import checked_topic
from .delivery import Delivery
from .hooks import MessageKind, SendContext
from .message_ids import next_message_id
from .sending import SendStatus, single
from .trace_records import (
    Consumed,
    ConsumeOutcome,
    Consuming,
    Published,
    TraceRecord,
    TransactionEnded,
    text_for_cloud,
)

__all__ = ["ConsumeTracer", "Tracer", "trace_topic"]

log: Final = logging.getLogger(__name__)

MAX_WAITING: Final = 16_384
"""Records that wait; more are dropped."""
CLOUD_TOPIC: Final = "rmq_sys_TRACE_DATA_"
"""With the region behind it: where traces go with ``access_channel="CLOUD"``."""
FLUSH_RECORDS: Final = 512
FLUSH_CHARACTERS: Final = 118_000
FLUSH_KEY_BYTES: Final = 30_000
"""KEYS is a property, and all properties together have 32767 bytes."""
FLUSH_AFTER_S: Final = 0.5
_CLOSE_TIMEOUT_S: Final = 0.5
_SEND_TIMEOUT_S: Final = 5.0
_MAX_MESSAGE_BYTES: Final = 1 << 20
_numbers = itertools.count()


class _Waiting(NamedTuple):
    """A record, where it goes, and what it is to be found by."""

    topic: str
    text: str
    keys: tuple[str, ...]


class Tracer:
    """Gathers records and sends them. A service: ``run``; ``close`` sends what is left. Also the
    ``SendHook`` that traces sends."""

    def __init__(
        self, instance: ClientInstance, group: str, role: str, topic: str = TopicName.TRACE
    ) -> None:
        """``role`` is PRODUCE or CONSUME."""
        self.topic = topic
        self._instance = instance
        self._group = without_namespace(group, instance.namespace)
        self._cloud = instance.access_channel == "CLOUD"
        self._delivery = Delivery(
            instance, f"_INNER_TRACE_PRODUCER-{group}-{role}-{next(_numbers)}"
        )
        self._waiting: deque[_Waiting] = deque()
        self._some = asyncio.Event()
        self._many = asyncio.Event()
        self._dropped = 0
        self._sending = asyncio.Lock()

    def add(self, record: TraceRecord, keys: tuple[str, ...], region: str = DEFAULT_REGION) -> None:
        """``region``: of the broker that has the message. Dropped when too many wait."""
        if len(self._waiting) >= MAX_WAITING:
            self._dropped += 1
            return
        topic, text = (
            (CLOUD_TOPIC + region, text_for_cloud(record))
            if self._cloud
            else (self.topic, record.encode())
        )
        self._waiting.append(_Waiting(topic, text, keys))
        self._some.set()
        if len(self._waiting) >= FLUSH_RECORDS:
            self._many.set()

    async def run(self) -> None:
        """Send what has been gathered, half a second after the first record, or when there are
        many."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._flush_regularly())
            tasks.create_task(self._flush_when_many())

    async def _flush_regularly(self) -> None:
        while True:
            await self._some.wait()
            await self._instance.clock.sleep(FLUSH_AFTER_S)
            await self.flush()

    async def _flush_when_many(self) -> None:
        while True:
            await self._many.wait()
            await self.flush()

    async def close(self) -> None:
        """Send what is left; gives up after half a second."""
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self.flush()
        except TimeoutError:
            log.warning("traces not sent in time group=%s", self._group)

    async def flush(self) -> None:
        """Send all that waits, as few messages as possible."""
        async with self._sending:
            while self._waiting:
                await self._send(*self._next_message())
            self._some.clear()
            self._many.clear()
            if self._dropped:
                self._instance.outages.fails(
                    log,
                    ("traces dropped", self._group),
                    "traces dropped, there were too many group=%s dropped=%d",
                    self._group,
                    self._dropped,
                )
                self._dropped = 0
            else:
                self._instance.outages.works(("traces dropped", self._group))

    def _next_message(self) -> tuple[str, str, dict[str, None]]:
        """Topic, text, keys."""
        topic = self._waiting[0].topic
        texts: list[str] = []
        keys: dict[str, None] = {}
        characters = key_bytes = 0
        while self._waiting and characters < FLUSH_CHARACTERS:
            waiting = self._waiting[0]
            more = sum(len(key.encode()) + 1 for key in waiting.keys)
            if waiting.topic != topic or (texts and key_bytes + more > FLUSH_KEY_BYTES):
                break
            self._waiting.popleft()
            texts.append(waiting.text)
            characters += len(waiting.text)
            if key_bytes + more <= FLUSH_KEY_BYTES:
                keys |= dict.fromkeys(waiting.keys)
                key_bytes += more
        return topic, "".join(texts), keys

    async def _send(self, topic: str, text: str, keys: dict[str, None]) -> None:
        message_id = next_message_id(self._instance.clock.time_ms())
        try:
            outgoing = single(
                Message(topic, text.encode(), keys=tuple(keys)), message_id, _MAX_MESSAGE_BYTES
            )
            await self._delivery.deliver(outgoing, None, _SEND_TIMEOUT_S)
        except (RocketMQError, MessageError) as error:
            self._instance.outages.fails(
                log,
                ("trace", self._group, topic),
                "trace not sent group=%s topic=%s error=%s",
                self._group,
                topic,
                error,
            )
        else:
            self._instance.outages.works(("trace", self._group, topic))

    # --- of producers (SendHook)
    # ------------------------------------------------------------------------------------

    def before_send(self, context: SendContext) -> None:
        """Nothing to say yet."""

    def after_send(self, context: SendContext) -> None:
        """Trace what a broker has stored. A batch is as many records as it has messages."""
        result = context.result
        if result is None or not result.trace_on or context.queue.topic.startswith(self.topic):
            return
        cost_ms = round(context.seconds * 1000)
        ids, offset_ids = result.msg_id.split(","), result.offset_msg_id.split(",")
        for index, (message, msg_id) in enumerate(zip(context.messages, ids, strict=False)):
            record = Published(
                time_ms=context.started_ms,
                region=result.region_id,
                group=self._group,
                topic=message.topic,
                msg_id=msg_id,
                tags=message.tags,
                keys=_joined(message.keys),
                store_host=context.broker_address,
                body_length=len(message.body) if context.is_batch else context.body_size,
                cost_ms=cost_ms,
                kind=context.kind,
                offset_msg_id=offset_ids[index] if index < len(offset_ids) else "",
                success=result.status is SendStatus.SEND_OK,
            )
            self.add(record, (msg_id, *_listed(message.keys)), result.region_id)

    def transaction_ended(
        self,
        message: Message | MessageExt,
        msg_id: str,
        transaction_id: str | None,
        state: str,
        broker_address: str,
        *,
        from_check: bool,
    ) -> None:
        """Trace what a broker was told of a transaction; ``state`` as in ``TransactionEnded``."""
        record = TransactionEnded(
            time_ms=self._instance.clock.time_ms(),
            region=message.properties.get(PropertyName.MSG_REGION, DEFAULT_REGION),
            group=self._group,
            topic=message.topic,
            msg_id=msg_id,
            tags=message.tags,
            keys=_joined(message.keys),
            store_host=broker_address,
            kind=MessageKind.COMMIT,
            transaction_id=transaction_id,
            state=state,
            from_check=from_check,
        )
        self.add(record, (msg_id, *_listed(message.keys)), record.region)


class _Call(NamedTuple):
    """A call of a handler that has begun."""

    request_id: str
    began: float
    messages: tuple[MessageExt, ...]


class ConsumeTracer:
    """Traces the calls of a consumer's handler::

        call = tracer.before(messages)
        ...                                     # the handler
        tracer.after(call, ConsumeOutcome.SUCCESS)

    ``run`` is a service; ``close`` before the instance stops.
    """

    def __init__(self, instance: ClientInstance, group: str, topic: str = TopicName.TRACE) -> None:
        self._tracer = Tracer(instance, group, "CONSUME", topic)
        self._instance = instance
        self._group = without_namespace(group, instance.namespace)

    async def run(self) -> None:
        """As ``Tracer.run``."""
        await self._tracer.run()

    async def close(self) -> None:
        """As ``Tracer.close``."""
        await self._tracer.close()

    def before(self, messages: Sequence[MessageExt]) -> _Call | None:
        """A handler is about to get these messages. ``None``: none of them is to be traced."""
        traced = tuple(
            message
            for message in messages
            if message.properties.get(PropertyName.TRACE_ON) != "false"
            and not message.topic.startswith(self._tracer.topic)
        )
        if not traced:
            return None
        clock = self._instance.clock
        now_ms = clock.time_ms()
        request_id = next_message_id(now_ms)
        for message in traced:
            record = Consuming(
                time_ms=now_ms,
                region=message.properties.get(PropertyName.MSG_REGION, DEFAULT_REGION),
                group=self._group,
                request_id=request_id,
                msg_id=message.msg_id,
                retry_times=message.reconsume_times,
                keys=_joined(message.keys),
            )
            self._tracer.add(record, (message.msg_id, *message.keys), record.region)
        return _Call(request_id, clock.monotonic(), traced)

    def after(self, call: _Call | None, outcome: ConsumeOutcome) -> None:
        """The handler has ended."""
        if call is None:
            return
        clock = self._instance.clock
        now_ms, cost_ms = (
            clock.time_ms(),
            round((clock.monotonic() - call.began) * 1000 / len(call.messages)),
        )
        for message in call.messages:
            record = Consumed(
                request_id=call.request_id,
                msg_id=message.msg_id,
                cost_ms=cost_ms,
                success=outcome is ConsumeOutcome.SUCCESS,
                keys=_joined(message.keys),
                outcome=outcome,
                time_ms=now_ms,
                group=self._group,
            )
            region = message.properties.get(PropertyName.MSG_REGION, DEFAULT_REGION)
            self._tracer.add(record, (message.msg_id, *message.keys), region)


def trace_topic(trace: bool | str) -> str | None:
    """The topic for the option ``trace``: the usual one, one of its own, or ``None``. Raises
    ``ConfigError``."""
    if isinstance(trace, str):
        return checked_topic(trace)
    return TopicName.TRACE if trace else None


def _listed(keys: Sequence[str]) -> tuple[str, ...]:
    return (keys,) if isinstance(keys, str) else tuple(keys)


def _joined(keys: Sequence[str]) -> str | None:
    return " ".join(_listed(keys)) or None
