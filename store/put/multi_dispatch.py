"""A message in several queues (class MultiDispatch; ``enableMultiDispatch``, ``enableLmq``;
commitlog.md §5.1).

The property INNER_MULTI_DISPATCH names topics, joined by ``,``. The message is stored once, in its
own topic; each named one gets a unit that points to the same record, in its queue 0 when it is a
light one (``%LMQ%...``), else in the queue of the message's own number. What number it has there
stands in INNER_MULTI_QUEUE_OFFSET of the record, so that recovery can give it the same one again.

Stands around the writer only when it is switched on: a put costs nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, ParamSpec

import msgspec

from ...remoting.protocol.message.dispatched import (
    NAMES_PAIR,
    NUMBERS,
    dispatched_names,
    dispatched_numbers,
)
from ...remoting.protocol.message.properties import MAX_PROPERTIES_BYTES, PropertyName
from ...remoting.protocol.message.sys_flag import UNQUEUED
from ...remoting.protocol.message.topic_names import (
    SEND_FORBIDDEN_TOPICS,
    TopicName,
    is_dlq_topic,
    is_lmq_topic,
    is_retry_topic,
    topic_error,
)
from ...remoting.protocol.record.batch import BatchItem, decode_batch, encode_batch
from ..model.config import MessageStoreConfig
from ..model.dispatch_request import DispatchRequest
from ..model.errors import StoreFileError
from ..model.put import PutBatch, PutMessage
from ..model.status import PutResult, PutStatus
from ..queues.consume_queue import CQ_UNIT, ConsumeQueue
from ..queues.consume_queues import ConsumeQueues
from .arrivals import Arrivals
from .message_writer import MessageWriter
from .put_stages import Write
from .queue_numbers import QueueNumber, QueueNumbers

P = ParamSpec("P")

MAX_TARGETS: Final = 256
"""Topics that one message may name."""
_NOT_YET_AT_HOME: Final = frozenset({TopicName.SCHEDULE, TopicName.TRANS_HALF})
"""What waits there is dispatched when it goes to its own topic."""
_MAX_NUMBER_SIZE: Final = 20
"""Bytes of a number with its comma."""


class DispatchRules(NamedTuple):
    """``light``: names with ``%LMQ%`` are light queues, of which there may be
    ``max_light_queues``, and so many others may be made in the life of a process because they are
    named: the original makes all of them."""

    light: bool
    max_light_queues: int

    @classmethod
    def of(cls, config: MessageStoreConfig) -> DispatchRules | None:
        """As configured; None when a message is in one queue only."""
        if not config.enable_multi_dispatch:
            return None
        return cls(config.enable_lmq, config.max_lmq_consume_queue_num)

    def is_light(self, name: str) -> bool:
        """A topic is one light queue."""
        return self.light and is_lmq_topic(name)

    def queue_id(self, name: str, queue_id: int) -> int:
        """The queue of a named topic, for a message that is in ``queue_id`` of its own."""
        return 0 if self.is_light(name) else queue_id


class NamedRequest(DispatchRequest, frozen=True, gc=False):
    """A record as one of the queues that it names has it: topic, queue and number are those
    there."""


def named_requests(request: DispatchRequest, rules: DispatchRules | None) -> list[NamedRequest]:
    """The record for each further queue that it is in. Empty without ``rules``."""
    if rules is None or not is_dispatched(request.topic):
        return []
    own, properties = (request.topic, request.queue_id), request.properties
    queues = {
        (name, rules.queue_id(name, request.queue_id)): number
        for name, number in dispatched_numbers(properties)
    }
    return [
        NamedRequest(
            *queue,
            request.phy_offset,
            request.size,
            number,
            request.sys_flag,
            request.store_timestamp,
            properties,
        )
        for queue, number in queues.items()
        if queue != own
    ]


class MultiDispatch:
    """A stage of ``put_message`` (``put_stages``): messages go into the named queues too. Batches
    are not dispatched, as in the original."""

    def __init__(
        self,
        queues: ConsumeQueues | QueueNumbers,
        arrivals: Arrivals,
        rules: DispatchRules,
        known: ConsumeQueues,
        writer: MessageWriter,
    ) -> None:
        """``known``: the queues that there are."""
        self._queues: Final = queues
        self._known: Final = known.table
        self._arrivals: Final = arrivals
        self._rules: Final = rules
        self._writer: Final = writer
        self._mappings: Final = known.mappings
        self._others: Final[set[tuple[str, int]]] = set()
        """Those that are no light ones and were made because a message names them; in a group they
        are there once that is committed."""

    def put(self, write: Write, message: PutMessage) -> PutResult:
        """Store a message once, and give each queue that it names a unit."""
        topic, properties = message.topic, message.properties
        if NAMES_PAIR not in properties or message.sys_flag & UNQUEUED or not is_dispatched(topic):
            return write(message)
        if is_dead_letter(topic):  # without numbers it is in no other queue after a recovery either
            return write(msgspec.structs.replace(message, properties=_without_numbers(properties)))
        names = dispatched_names(properties)
        wanted = [(name, self._rules.queue_id(name, message.queue_id)) for name in names]
        # before anything is made for it
        refusal = self._illegal(names) or self._no_space(wanted) or self._writer.refusal
        if refusal is not None:
            return refusal
        self._others.update(self._new(wanted, light=False))
        named = [self._queues.get_or_create(*queue) for queue in wanted]
        with self._mappings.all_stay():  # once the record is in the log no queue may lack its unit
            return self._put_into(named, write, message)

    def _put_into(
        self, named: Sequence[ConsumeQueue | QueueNumber], write: Write, message: PutMessage
    ) -> PutResult:
        more = [
            queue
            for queue in dict.fromkeys(named)
            if (queue.topic, queue.queue_id) != (message.topic, message.queue_id)
        ]
        try:
            for queue in more:
                if not queue.has_room(1):
                    queue.make_room()
        except StoreFileError as error:
            return self._writer.failed(error, message.store_timestamp)
        numbers = [queue.max_offset for queue in named]
        result = write(
            msgspec.structs.replace(message, properties=_with_numbers(message.properties, numbers))
        )
        if result.status is PutStatus.PUT_OK:
            unit = CQ_UNIT.pack(result.phy_offset, result.size, message.tags_code)
            for queue in more:
                queue.append(unit)
                if queue.watched:
                    self._arrivals.note(queue, message.tags_code, message.store_timestamp)
        return result

    def refusal(self, topic: str, properties: bytes) -> PutResult | None:
        """Why a message that goes to this topic later could not go into the queues that it names,
        as far as that is known today."""
        if NAMES_PAIR not in properties or not is_dispatched(topic) or is_dead_letter(topic):
            return None
        names = dispatched_names(properties)
        light = [(name, 0) for name in names if self._rules.is_light(name)]
        refusal = self._illegal(names) or self._no_space(light)
        size = len(properties) + len(NUMBERS) + 2 + _MAX_NUMBER_SIZE * len(names)
        if refusal is None and size > MAX_PROPERTIES_BYTES:
            remark = (
                f"the properties take {size} bytes with {len(names)} queue offsets, the limit is "
                f"{MAX_PROPERTIES_BYTES}"
            )
            return PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, remark=remark)
        return refusal

    def _illegal(self, names: Sequence[str]) -> PutResult | None:
        problem = next((error for name in names if (error := _name_error(name)) is not None), None)
        if len(names) > MAX_TARGETS:
            problem = f"{len(names)} topics are named, {MAX_TARGETS} may be"
        if problem is None:
            return None
        return PutResult(
            PutStatus.MESSAGE_ILLEGAL, remark=f"{PropertyName.INNER_MULTI_DISPATCH}: {problem}"
        )

    def _no_space(self, queues: Sequence[tuple[str, int]]) -> PutResult | None:
        most = self._rules.max_light_queues
        light, others = self._new(queues, light=True), self._new(queues, light=False)
        if len(self._others) + len(others) > most:
            problem = (
                "messages have named more queues that were not there, since the start of the "
                f"broker, than maxLmqConsumeQueueNum {most}: raise it, or send to the queue itself "
                "first"
            )
        elif light and sum(is_lmq_topic(topic) for topic, _ in self._known) + len(light) > most:
            problem = f"broker lmq consume queue num exceed maxLmqConsumeQueueNum {most}"
        else:
            return None
        return PutResult(
            PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED,
            remark=f"[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]{problem}",
        )

    def _new(self, queues: Iterable[tuple[str, int]], *, light: bool) -> set[tuple[str, int]]:
        """Those that are not there yet, nor were made before."""
        return {
            queue
            for queue in queues
            if self._rules.is_light(queue[0]) is light
            and queue not in self._known
            and queue not in self._others
        }


def _name_error(name: str) -> str | None:
    """A unit in the queue of delayed messages, or of what becomes of transactions, would be taken
    for the broker's own."""
    if name in SEND_FORBIDDEN_TOPICS:
        return f"Sending message to topic[{name}] is forbidden."
    return topic_error(name)


def is_dispatched(topic: str) -> bool:
    """Retries are for one group only; what waits for its time or its transaction is not there
    yet."""
    return not is_retry_topic(topic) and topic not in _NOT_YET_AT_HOME


def is_dead_letter(topic: str) -> bool:
    """What lies there is for administrators: what nobody could consume, store or decide."""
    return is_dlq_topic(topic) or topic == TopicName.TRANS_CHECK_MAX_TIME


def _with_numbers(properties: bytes, numbers: Sequence[int]) -> bytes:
    """Behind all others: where the keys end is the same. What a producer sent under that name must
    not stand there."""
    return (
        _without_numbers(properties)
        + b"\x02"
        + NUMBERS
        + b"\x01"
        + ",".join(map(str, numbers)).encode()
    )


def _without_numbers(properties: bytes) -> bytes:
    return b"\x02".join(
        [pair for pair in properties.split(b"\x02") if not pair.startswith(NUMBERS + b"\x01")]
    )


def batches_without_numbers(
    put_batch: Callable[[PutBatch], PutResult],
) -> Callable[[PutBatch], PutResult]:
    """``put_batch`` with batches that say nothing of other queues: they are in none, but slaves and
    recoveries would believe what their producers made up."""

    def put(batch: PutBatch) -> PutResult:
        items, properties = _batch_without_numbers(batch.items), _without_numbers(batch.properties)
        return put_batch(msgspec.structs.replace(batch, items=items, properties=properties))

    return put


def _batch_without_numbers(
    batch: bytes | memoryview | Sequence[BatchItem],
) -> bytes | memoryview | Sequence[BatchItem]:
    """Raises ``BatchError`` when a batch cannot be read."""
    data = bytes(batch) if isinstance(batch, (bytes, memoryview)) else encode_batch(batch)
    if NUMBERS not in data:
        return batch
    items = [
        msgspec.structs.replace(item, properties=_without_numbers(item.properties))
        for item in decode_batch(data)
    ]
    return encode_batch(items)
