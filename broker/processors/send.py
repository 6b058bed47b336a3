"""Storing messages: SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE (class SendMessageProcessor;
``headers.md`` §A.1, ``broker-services.md`` §2).

The hot path of the broker. One message costs its header, its checks, one ``put`` and one answer; no
dict of properties is made, the property string is looked at and passed on as bytes.

One file: a message, a batch, a delayed one and half a transaction share their checks and answers.
"""

from __future__ import annotations

import random
from typing import Final

from ...remoting.dispatch import PENDING, Body, Context, Handler, Outcome, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.send import (
    SendErrorFields,
    SendMessageRequest,
    SendMessageResponse,
)
from ...remoting.protocol.frames.reply_frames import Fill, reply_frames
from ...remoting.protocol.message.message_id import pack_host
from ...remoting.protocol.message.properties import MessageError
from ...remoting.protocol.message.retries import is_dead_letter, retry_limit_at_broker
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from ...remoting.protocol.message.topic_names import (
    SEND_FORBIDDEN_TOPICS,
    dlq_topic,
    group_of_retry_topic,
    is_retry_topic,
    topic_error,
)
from ...remoting.protocol.record.batch import BatchError
from ...remoting.protocol.record.stored_properties import (
    StoredProperties,
    has_to_be_placed,
    is_half,
    waits_for_store,
)
from ...remoting.protocol.record.units import message_ids
from ...store.message_store import MessageStore
from ...store.model.put import PutBatch, PutMessage
from ...store.model.status import PutResult, PutStatus
from ..config.config import BrokerConfig
from ..sends.dead_letters import tell_given_up
from ..sends.durability import BUSY, AnswersWait
from ..sends.put_context import PutContext
from ..sends.send_gate import SendGate
from ..state.subscription_groups import SubscriptionGroups
from ..state.topics import Topic, topic_sys_flag
from ..transactions.transaction_log import TransactionLog
from .sequenced_send import SequencedSends

FAQ: Final = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."

_CODES: Final = {
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
}
"""Everything else is SYSTEM_ERROR."""
_PUT_OK: Final = PutStatus.PUT_OK
_SEQUENCED: Final = MessageSysFlag.SEQUENCED
_BUSY: Final = BUSY.partition(",")[0]
_ILLEGAL: Final = (
    "the message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit %dB, msg properties length limit 32KB."
)


class SendProcessor:
    """Checks a message, stores it, answers where it lies."""

    def __init__(
        self,
        config: BrokerConfig,
        context: PutContext,
        groups: SubscriptionGroups,
        store_address: tuple[str, int],
        transactions: TransactionLog,
        answers: AnswersWait,
        gate: SendGate,
        sequenced: SequencedSends,
    ) -> None:
        """``answers``: what they wait for."""
        self.store: MessageStore = context.store
        self._put = context.store.put_fields
        self._topics = context.topics
        self._topic_of = context.topics.get
        self._groups = groups
        self._stats = context.stats
        self._answers = answers
        self._placements = context.placements
        self._transactions = transactions
        self._gate = gate
        self._sequenced = sequenced
        self._config = config
        self._address = store_address[0]
        self._properties = StoredProperties(config.broker_cluster_name)
        self._rewrite = self._properties.rewrite
        self._id_prefix = pack_host(*store_address).hex().upper().encode()
        self._random = random.Random()
        self.read_config()

    def read_config(self) -> None:
        """Take over what the configuration says now: at start, and whenever it changes."""
        config = self._config
        self._max_message_size = self.store.config.max_message_size
        self._refusal_fields = SendErrorFields(
            msg_region=config.region_id, trace_on=config.trace_on
        )
        answer = SendMessageResponse(
            msg_id="",
            queue_id=0,
            queue_offset=0,
            trace_on=config.trace_on,
            msg_region=config.region_id,
        )
        numbers = {"queue_id": b"%d", "queue_offset": b"%d"}
        self._answer: dict[int, Fill] = reply_frames(
            answer, {"msg_id": self._id_prefix + b"%016X", **numbers}
        )
        """By the form of header; filled with the physical offset, the queue id, the queue offset
        and the opaque."""
        self._batch_answer: dict[int, Fill] = reply_frames(answer, {"msg_id": b"%b", **numbers})
        """The same with message ids instead of an offset."""
        self._sequenced_answer: dict[int, Fill] = reply_frames(
            answer, {"msg_id": b"%b", **numbers, "sequence": b"%b"}
        )
        """The same, and behind the queue offset whether it is new."""

    @property
    def table(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send,
            RequestCode.SEND_SEQUENCE_HELLO: self._sequenced.hello,
        }

    def send(self, request: SendMessageRequest, body: Body, ctx: Context) -> Outcome:
        """Store a message, or a batch of them when the header says so (the request code does
        not)."""
        topic = self._topic_of(request.topic)
        if topic is None or not topic.sendable or ctx.received_at_ms < self._gate.closed_until_ms:
            try:
                topic = self._unusual_topic(request, ctx)
            except RequestError as error:
                return self._refused(error.code, error.remark)
        if topic.order and not self._config.is_writeable:
            return self._refused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._address}] sending message is forbidden",
            )
        queue_id = request.queue_id
        if not 0 <= queue_id < topic.max_queue_nums:
            if queue_id >= 0:
                return self._refused(ResponseCode.SYSTEM_ERROR, _bad_queue(request, topic, ctx))
            queue_id = self._any_queue(topic)
        if request.sys_flag & _SEQUENCED:
            return self._send_sequenced(request, topic, queue_id, body, ctx)
        if request.batch:
            return self._send_batch(request, topic, queue_id, body, ctx)
        stored = self._rewrite(request.properties or "")
        if topic.retry_of is not None:
            target = self._retry_target(request, topic, topic.retry_of, ctx)
            if isinstance(target, Reply):
                return target
            topic, queue_id = target, queue_id if target is topic else 0
        if stored is None:
            return self._send_placed(request, topic, queue_id, request.properties or "", body, ctx)
        properties, tags_code = stored
        sys_flag = request.sys_flag
        result = self._put(
            topic.name,
            queue_id,
            body,
            properties,
            ctx.connection.packed_peer,
            request.born_timestamp,
            ctx.received_at_ms,
            tags_code,
            request.flag,
            sys_flag | MessageSysFlag.MULTI_TAGS if topic.multi_tag else sys_flag,
            request.reconsume_times or 0,
        )
        if result.status is not _PUT_OK:
            return self._not_stored(result)
        answer = self._answer[ctx.serialize_type](
            (result.phy_offset, queue_id, result.queue_offset, ctx.opaque)
        )
        return self._answered(topic, result, answer, request, ctx)

    def _answered(
        self,
        topic: Topic,
        result: PutResult,
        answer: bytes,
        request: SendMessageRequest,
        ctx: Context,
    ) -> Outcome:
        """Count what was stored, and tell where; with SYNC_FLUSH or SYNC_MASTER when disk or slaves
        have it, too."""
        stats, count, size = self._stats, result.count, result.size
        topic.put_nums += count
        topic.put_size_bytes += size
        stats.put_messages += count
        stats.put_bytes += size
        answers = self._answers
        if not answers.waits or not (answers.for_all or waits_for_store(request.properties or "")):
            return answer
        answers.answer(result.phy_offset + size, ctx, answer)
        return PENDING

    def _send_batch(
        self, request: SendMessageRequest, topic: Topic, queue_id: int, body: Body, ctx: Context
    ) -> Outcome:
        text = request.properties or ""
        result = self._put_batch(request, text, topic, queue_id, body, ctx)
        if isinstance(result, Reply):
            return result
        place = (
            message_ids(self._id_prefix, result.units),
            queue_id,
            result.queue_offset,
            ctx.opaque,
        )
        return self._answered(
            topic, result, self._batch_answer[ctx.serialize_type](place), request, ctx
        )

    def _put_batch(
        self,
        request: SendMessageRequest,
        text: str,
        topic: Topic,
        queue_id: int,
        body: Body,
        ctx: Context,
    ) -> PutResult | Reply:
        """Every message of the batch becomes a record of its own, all in one queue, one after the
        other. Or why not. ``text``: its properties."""
        if has_to_be_placed(text):
            return self._refused(
                ResponseCode.MESSAGE_ILLEGAL, "a batch has neither a delay level nor a transaction"
            )
        try:
            batch = PutBatch(
                topic=topic.name,
                queue_id=queue_id,
                items=body,
                properties=self._properties.rewrite_batch(text),
                born_host=ctx.connection.packed_peer,
                born_timestamp=request.born_timestamp,
                store_timestamp=ctx.received_at_ms,
                sys_flag=_sys_flag_of(request, topic),
                reconsume_times=request.reconsume_times or 0,
            )
            result = self.store.put_batch(batch)
        except BatchError as error:
            return self._refused(ResponseCode.MESSAGE_ILLEGAL, f"the batch cannot be read: {error}")
        if result.status is not _PUT_OK:
            return self._not_stored(result)
        topic.batched_nums += result.count - 1
        self._stats.batched_messages += result.count - 1
        return result

    def _send_sequenced(
        self, request: SendMessageRequest, topic: Topic, queue_id: int, body: Body, ctx: Context
    ) -> Outcome:
        """A message or a batch that may have come before: what is stored already is not stored
        again, and answered as the first time."""
        sequenced = self._sequenced
        try:
            it = sequenced.read(request, topic, body, ctx)
        except RequestError as error:
            return self._refused(error.code, error.remark)
        if it.is_repeated:
            result: PutResult | Reply = sequenced.first_result(it)
        else:
            put = self._put_batch if request.batch else self._put_one
            result = put(request, it.text, topic, queue_id, it.body, ctx)
        if isinstance(result, Reply):
            sequenced.not_stored(it)
            return result
        if not it.is_repeated:
            sequenced.stored(it, result, ctx.received_at_ms)
        known = result.queue_offset if it.is_repeated or not it.have else -1
        ids = b"" if known < 0 else message_ids(self._id_prefix, result.units)
        if known >= 0 and not ids:
            ids = b"%b%016X" % (self._id_prefix, result.phy_offset)
        kind = b"repeated" if it.is_repeated else b"new"
        place = ids, queue_id, known, kind, ctx.opaque
        answer = self._sequenced_answer[ctx.serialize_type](place)
        return self._answered(topic, result, answer, request, ctx)

    def _put_one(
        self,
        request: SendMessageRequest,
        text: str,
        topic: Topic,
        queue_id: int,
        body: Body,
        ctx: Context,
    ) -> PutResult | Reply:
        """A message that goes to its topic at once; for those that are off the usual way anyway."""
        stored = self._rewrite(text)
        if stored is None:
            return self._refused(
                ResponseCode.MESSAGE_ILLEGAL,
                "a message with a sequence has neither a delay level nor a transaction",
            )
        properties, tags_code = stored
        result = self._put(
            topic.name, queue_id, body, properties, ctx.connection.packed_peer,
            request.born_timestamp, ctx.received_at_ms, tags_code, request.flag,
            _sys_flag_of(request, topic), request.reconsume_times or 0,
        )  # fmt: skip
        return result if result.status is _PUT_OK else self._not_stored(result)

    def _send_placed(
        self,
        request: SendMessageRequest,
        topic: Topic,
        queue_id: int,
        text: str,
        body: Body,
        ctx: Context,
    ) -> Outcome:
        """A message with a delay level or of a transaction goes elsewhere first. The answer has the
        queue that was asked for, but the number in the queue that it went to."""
        if is_half(text):
            return self._send_half(request, topic, queue_id, text, body, ctx)
        properties = self._properties.with_cluster(text)
        sys_flag = _sys_flag_of(request, topic)
        try:
            placement = self._placements.place(
                topic.name, queue_id, properties, sys_flag, ctx.received_at_ms
            )
        except MessageError as error:
            return self._refused(ResponseCode.SYSTEM_ERROR, str(error))
        if (
            placement.is_scheduled
            and (refusal := self.store.later_refusal(topic.name, placement.properties)) is not None
        ):
            return self._not_stored(refusal)  # while somebody is there to be told
        result = self._put(
            placement.topic,
            placement.queue_id,
            body,
            placement.properties,
            ctx.connection.packed_peer,
            request.born_timestamp,
            ctx.received_at_ms,
            placement.tags_code,
            request.flag,
            placement.sys_flag,
            request.reconsume_times or 0,
        )
        if result.status is not _PUT_OK:
            return self._not_stored(result)
        if placement.is_scheduled:
            self._stats.put_delayed(placement.queue_id, result.size)
        answer = self._answer[ctx.serialize_type](
            (result.phy_offset, queue_id, result.queue_offset, ctx.opaque)
        )
        return self._answered(
            self._topic_of(placement.topic) or topic, result, answer, request, ctx
        )

    # --- off the usual way
    # ------------------------------------------------------------------------------------------

    def _send_half(
        self,
        request: SendMessageRequest,
        topic: Topic,
        queue_id: int,
        text: str,
        body: Body,
        ctx: Context,
    ) -> Outcome:
        """The first half of a transaction (``transaction_log``); END_TRANSACTION names the number
        that is answered here."""
        if self._config.reject_transaction_message:
            remark = f"the broker[{self._address}] sending transaction message is forbidden"
            return self._refused(ResponseCode.NO_PERMISSION, remark)
        half_topic = self._transactions.half_topic()
        try:
            message = PutMessage(
                topic.name, queue_id, body, b"", ctx.connection.packed_peer, request.born_timestamp,
                ctx.received_at_ms, 0, request.flag, _sys_flag_of(request, topic),
                request.reconsume_times or 0,
            )  # fmt: skip
            result = self._transactions.put_half(message, text)
        except MessageError as error:
            return self._refused(ResponseCode.SYSTEM_ERROR, str(error))
        if result.status is not _PUT_OK:
            return self._not_stored(result)
        answer = self._answer[ctx.serialize_type](
            (result.phy_offset, queue_id, result.queue_offset, ctx.opaque)
        )
        return self._answered(half_topic, result, answer, request, ctx)

    def check(self, request: SendMessageRequest, ctx: Context) -> tuple[Topic, int]:
        """The checks of ``send`` for a message that is not sent like others (a reply). Raises
        ``RequestError``."""
        topic = self._topic_of(request.topic)
        if topic is None or not topic.sendable or ctx.received_at_ms < self._gate.closed_until_ms:
            topic = self._unusual_topic(request, ctx)
        if topic.order and not self._config.is_writeable:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._address}] sending message is forbidden",
            )
        if request.queue_id >= topic.max_queue_nums:
            raise RequestError(ResponseCode.SYSTEM_ERROR, _bad_queue(request, topic, ctx))
        queue_id = request.queue_id
        return topic, queue_id if queue_id >= 0 else self._any_queue(topic)

    def _any_queue(self, topic: Topic) -> int:
        """For a producer that leaves the choice to the broker."""
        return self._random.randrange(99999999) % max(1, topic.write_queue_nums)

    def _unusual_topic(self, request: SendMessageRequest, ctx: Context) -> Topic:
        """The checks that a topic in daily use passes unseen. Raises ``RequestError``."""
        self._gate.check(ctx.received_at_ms)
        name = request.topic
        if (error := topic_error(name)) is not None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, error)
        if name in SEND_FORBIDDEN_TOPICS:
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden."
            )
        topic = self._topics.get(name)
        sys_flag = topic_sys_flag(name, unit_mode=request.unit_mode)
        if topic is None and (group_name := group_of_retry_topic(name)) is not None:
            self._group(group_name)
        if topic is None:
            topic = self._topics.create_on_send(
                name,
                default_topic=request.default_topic,
                queue_nums=request.default_topic_queue_nums,
                sys_flag=sys_flag,
            )
        if topic is None and is_retry_topic(name):
            topic = self._topics.create_for_broker(name, sys_flag=sys_flag)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!{FAQ}"
            )
        return topic

    def _retry_target(
        self, request: SendMessageRequest, topic: Topic, group_name: str, ctx: Context
    ) -> Topic | Reply:
        """A message that a consumer gives back through its producer goes to the dead letter queue
        after its last try."""
        try:
            group = self._group(group_name)
        except RequestError as error:
            return self._refused(error.code, error.remark)
        limit = retry_limit_at_broker(
            group.retry_max_times, request.max_reconsume_times, ctx.version
        )
        if not is_dead_letter(request.reconsume_times or 0, limit):
            return topic
        tell_given_up(ctx.connection.outages, group_name, f"from {ctx.peer}")
        return self._topics.create_for_broker(dlq_topic(group_name))

    def _group(self, name: str) -> SubscriptionGroupConfig:
        """Raises ``RequestError`` when there is none, and none is made."""
        group = self._groups.get(name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {name}{FAQ}",
            )
        return group

    def _not_stored(self, result: PutResult) -> Reply:
        self._stats.put_failed += 1
        code = _CODES.get(result.status, ResponseCode.SYSTEM_ERROR)
        if code is ResponseCode.MESSAGE_ILLEGAL:
            remark = _ILLEGAL % self._max_message_size
        elif result.status is PutStatus.OS_PAGECACHE_BUSY:
            remark = (
                result.remark if result.remark.startswith(_BUSY) else f"{BUSY} ({result.remark})"
            )
        elif result.status is PutStatus.CREATE_MAPEDFILE_FAILED:
            remark = (
                f"create mapped file failed, server is busy or broken. {result.remark}".rstrip()
            )
        else:
            remark = result.remark or result.status.name
        return self._refusal(code, remark)

    def _refused(self, code: int, remark: str) -> Reply:
        """Before the store saw it."""
        self._stats.put_refused += 1
        return self._refusal(code, remark)

    def _refusal(self, code: int, remark: str) -> Reply:
        return Reply(code, self._refusal_fields, remark=remark)


def _sys_flag_of(request: SendMessageRequest, topic: Topic) -> int:
    return request.sys_flag | MessageSysFlag.MULTI_TAGS if topic.multi_tag else request.sys_flag


def _bad_queue(request: SendMessageRequest, topic: Topic, ctx: Context) -> str:
    return f"request queueId[{request.queue_id}] is illegal, {topic.config} Producer: {ctx.peer}"
