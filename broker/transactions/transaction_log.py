"""Writing down transactions: half messages, ops, and what becomes of them (class
TransactionalMessageBridge; ``broker-services.md`` §5.1 to §5.3).

Every write to the store that has to do with a transaction goes through here, so that
``HalfMessages`` always knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from ...remoting.outages import Outages
from ...remoting.protocol.message.properties import (
    MessageError,
    PropertyName,
    decode_properties,
    tags_code,
)
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record import NewRecord, RecordError, decode_record, encode_record
from ...remoting.protocol.record.decode import MessageExt
from ...store.model.errors import BrokenPromiseError
from ...store.model.put import PutMessage
from ...store.model.status import PutResult, PutStatus
from ..sends.placement import HALF_QUEUE_ID, Placement, encoded_properties, put_copy
from ..sends.put_context import PutContext
from ..state.topics import Topic
from .half_properties import Destination, destination_of, to_store
from .transactions import OP_PROPERTIES, OP_TAG, HalfMessages, op_body

log: Final = logging.getLogger(__name__)

_HALF: Final = TopicName.TRANS_HALF
_OP_HALF: Final = TopicName.TRANS_OP_HALF
_PUT_OK: Final = PutStatus.PUT_OK
_NOT_TRANSACTION: Final = ~MessageSysFlag.TRANSACTION_MASK
_OP_TAGS_CODE: Final = tags_code(OP_TAG)
_COMMIT: Final = MessageSysFlag.TRANSACTION_COMMIT
_MAX_RECENT: Final = 2048
_MAX_RECENT_BODY: Final = 2048


class StoredHalf(msgspec.Struct, frozen=True, gc=False):
    """A half message, as much of it as its end needs."""

    phy_offset: int
    body: bytes
    """As stored: compressed, perhaps."""
    properties: bytes
    tags_code: int
    destination: Destination
    born_host: bytes
    born_timestamp: int
    flag: int
    sys_flag: int
    reconsume_times: int


class TransactionLog:
    """The store as transactions see it. ``halves`` is kept up to date with every write."""

    def __init__(
        self,
        context: PutContext,
        cluster_name: str,
        store_host: bytes,
        outages: Outages,
    ) -> None:
        """``store_host``: this broker's packed address, from which ops come."""
        store = context.store
        self.halves: Final = HalfMessages()
        self.outages: Final = outages
        self._store: Final = store
        self._put: Final = store.put_message
        self._topics: Final = context.topics
        self._placements: Final = context.placements
        self._stats: Final = context.stats
        self._cluster_name: Final = cluster_name
        self._store_host: Final = store_host
        self._half_topic: Topic | None = None
        self._recent: Final[dict[int, StoredHalf]] = {}
        """The last half messages by number, until they end: most end at once, and are not read for
        that."""
        self.begin()

    def begin(self) -> None:
        """Whatever there was before, of all half messages in the store nothing is known yet
        (``TransactionCheck.load`` finds out)."""
        end = self._store.max_offset(_HALF, HALF_QUEUE_ID)
        self.halves.begin(end, end)
        self._recent.clear()

    def figures(self) -> dict[str, str]:
        """Of the runtime info, and only while there are any."""
        count = self.halves.undecided
        return {"undecidedHalfMessages": str(count)} if count else {}

    # -- half messages

    def half_topic(self) -> Topic:
        """Made when it is first needed, as in the original."""
        topic = self._half_topic
        if topic is None or self._topics.get(_HALF) is not topic:
            topic = self._half_topic = self._topics.create_for_broker(_HALF)
        return topic

    def put_half(
        self,
        message: PutMessage,
        text: str,
    ) -> PutResult:
        """Store the first half of a transaction about ``message``, which has to be addressed as it
        was sent and becomes an ordinary message of the half topic.

        A delay level is kept and counts when it is committed. ``text`` is the property string that
        the producer sent, WAIT too. Raises ``MessageError``.
        """
        topic = message.topic
        stored, tags_code, destination = to_store(text, self._cluster_name, topic, message.queue_id)
        refusal = self._store.later_refusal(topic, stored)
        if refusal is not None:
            return refusal
        message.topic, message.queue_id = _HALF, HALF_QUEUE_ID
        message.properties, message.tags_code = stored, tags_code
        message.sys_flag &= _NOT_TRANSACTION
        result = self._put(message)
        if result.status is _PUT_OK:
            number = result.queue_offset
            self.halves.added(number)
            recent, body = self._recent, message.body
            if type(body) is not bytes or len(body) > _MAX_RECENT_BODY:
                recent.pop(number, None)  # that of a queue that was deleted and has begun anew
            else:
                if len(recent) >= _MAX_RECENT:
                    del recent[next(iter(recent))]
                recent[number] = StoredHalf(
                    result.phy_offset, body, stored, tags_code, destination, message.born_host,
                    message.born_timestamp, message.flag, message.sys_flag,
                    message.reconsume_times,
                )  # fmt: skip
        return result

    def take(self, number: int) -> StoredHalf | None:
        """The half message of that number, to be ended; from the store when it is not one of the
        last."""
        recent = self._recent.pop(number, None)
        if recent is not None:
            return recent
        found = self.half(number)
        return None if found is None else self._stored(*found)

    def _stored(self, half: MessageExt, tags_code: int) -> StoredHalf:
        head = half.head
        destination = destination_of(half.raw_properties)
        return StoredHalf(
            head.phy_offset, half.stored_body, half.raw_properties, tags_code, destination,
            head.born_host,
            half.born_timestamp, head.flag, head.sys_flag, head.reconsume_times,
        )  # fmt: skip

    def half(self, number: int) -> tuple[MessageExt, int] | None:
        """The half message of that number, with its tags code. What is damaged there is noted, so
        that other replicas are asked for it."""
        entries = self._store.entries.some(_HALF, HALF_QUEUE_ID, number, 1)
        if not entries:
            return None
        phy_offset, size, tags_code = entries[0]

        def note(problem: RecordError) -> None:
            self._store.damage.note(phy_offset, size, str(problem), "seen=transactions")

        half = _decoded(self._store.read(phy_offset, size), self.outages, note)
        return None if half is None or half.queue_offset != number else (half, tags_code)

    def is_awaited(self, number: int) -> bool:
        """It cannot be read now, and another replica may have it intact."""
        entries = self._store.entries.some(_HALF, HALF_QUEUE_ID, number, 1)
        if not entries:
            return False
        phy_offset, size, _ = entries[0]
        return self._store.is_awaited(phy_offset, size)

    def half_at(self, phy_offset: int) -> MessageExt | None:
        """The half message that begins at an offset of the commit log. What only looks like one, in
        the body of another message, is none: its queue does not know it.
        """
        half = _decoded(self._store.message_by_offset(phy_offset), self.outages)
        known = None if half is None else self.half(half.queue_offset)
        return known[0] if known is not None and known[0].commit_log_offset == phy_offset else None

    def put_copy(self, half: MessageExt, changed: Mapping[str, str], now_ms: int) -> PutResult:
        """Put a copy of a half message behind all others, with some properties changed. It stands
        for it from now on. Raises BrokenPromiseError: it is decided."""
        if self.halves.is_decided(half.queue_offset):
            raise BrokenPromiseError(
                f"half message {half.queue_offset} is decided: a copy would be decided once more"
            )
        result = self._put_again(half, _HALF, {**half.properties, **changed}, now_ms)
        if result.status is _PUT_OK:
            self.halves.added(result.queue_offset)
            self.halves.replaced(half.queue_offset, result.queue_offset)
        return result

    def put_aside(self, half: MessageExt, now_ms: int) -> PutResult:
        """Give a half message up: a copy goes to TRANS_CHECK_MAX_TIME_TOPIC, where an administrator
        finds it."""
        topic = self._topics.create_if_possible(TopicName.TRANS_CHECK_MAX_TIME)
        result = self._put_again(half, TopicName.TRANS_CHECK_MAX_TIME, half.properties, now_ms)
        if result.status is _PUT_OK:
            if topic is not None:
                topic.put_nums += 1
                topic.put_size_bytes += result.size
            self.halves.dropped(half.queue_offset)
        return result

    def resume(self, given_up: MessageExt, now_ms: int) -> PutResult:
        """Ask for a half message again that was given up, from the first check on."""
        self.half_topic()
        properties = {**given_up.properties, PropertyName.TRANSACTION_CHECK_TIMES: "0"}
        result = self._put_again(given_up, _HALF, properties, now_ms)
        if result.status is _PUT_OK:
            self.halves.added(result.queue_offset)
        return result

    def _put_again(
        self, message: MessageExt, topic: str, properties: Mapping[str, str], now_ms: int
    ) -> PutResult:
        """The user's flag and the number of attempts are kept (the original loses them)."""
        place = Placement.as_it_is(message, topic, HALF_QUEUE_ID, encoded_properties(properties))
        result = put_copy(self._put, message, place, now_ms)
        self._stats.stored_own(result)
        return result

    # -- the end

    def put_committed(self, half: StoredHalf, now_ms: int) -> tuple[PutResult, str, int]:
        """Store the message that a half message was about, where it was sent to; the result, and
        topic and queue."""
        destination = half.destination
        topic, queue_id, properties, tags_code = (
            destination.topic,
            destination.queue_id,
            half.properties,
            half.tags_code,
        )
        sys_flag = half.sys_flag & _NOT_TRANSACTION | _COMMIT
        if destination.delayed:
            topic, queue_id, properties, tags_code, sys_flag = self._placed(half, sys_flag, now_ms)
        message = PutMessage(
            topic, queue_id, half.body, properties, half.born_host, half.born_timestamp, now_ms,
            tags_code, half.flag, sys_flag, half.reconsume_times, half.phy_offset,
        )  # fmt: skip
        result = self._put(message)
        return result, topic, queue_id

    def _placed(self, half: StoredHalf, sys_flag: int, now_ms: int) -> Placement:
        topic, queue_id = half.destination.topic, half.destination.queue_id
        try:
            return self._placements.place(
                topic, queue_id, decode_properties(half.properties), sys_flag, now_ms
            )
        except MessageError as error:
            self.outages.occurs(
                log,
                ("no delay", topic),
                "committed without a delay topic=%s phy_offset=%d error=%s",
                topic,
                half.phy_offset,
                error,
            )
            return Placement(topic, queue_id, half.properties, half.tags_code, sys_flag)

    def put_op(self, number: int, now_ms: int) -> PutResult:
        """Note that a half message is decided. It has no UNIQ_KEY: the original gives it one, but
        does not store it."""
        message = PutMessage(
            _OP_HALF, HALF_QUEUE_ID, op_body(number), OP_PROPERTIES, self._store_host, now_ms,
            now_ms, _OP_TAGS_CODE,
        )  # fmt: skip
        result = self._put(message)
        if result.status is _PUT_OK:
            self.halves.ended(number)
            self._stats.own_messages += 1
            self._stats.own_bytes += result.size
        return result


def _decoded(
    record: bytes | None,
    outages: Outages,
    damaged: Callable[[RecordError], object] = lambda _problem: None,
) -> MessageExt | None:
    if record is None:
        return None
    try:
        message = decode_record(record, check_crc=True)  # it gets a new CRC when it is stored again
    except RecordError as error:
        outages.occurs(log, ("unreadable",), "half message cannot be read: %s", error)
        damaged(error)
        return None
    return message if message.topic == _HALF else None


def as_sent(half: MessageExt, destination: Destination) -> bytes:
    """The record that a producer is asked about: the half message with the topic and queue that it
    was sent to."""
    head = half.head
    return encode_record(
        NewRecord(
            destination.topic,
            destination.queue_id,
            half.stored_body,
            encoded_properties({**half.properties, PropertyName.WAIT: "false"}),
            queue_offset=head.queue_offset,
            phy_offset=head.phy_offset,
            sys_flag=head.sys_flag,
            born_timestamp=head.born_timestamp,
            born_host=head.born_host,
            store_timestamp=head.store_timestamp,
            store_host=head.store_host,
            flag=head.flag,
            reconsume_times=head.reconsume_times,
            prepared_transaction_offset=head.prepared_transaction_offset,
        )
    )
