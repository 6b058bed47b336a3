"""Messages that are stored once, however often they come (``sends/sequences.py``): ours, off the
usual way of a send. ``SendProcessor`` brings them here with its checks done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ...remoting.dispatch import Body, Context, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.commands.send import (
    SendMessageRequest,
    SequenceHelloRequest,
    SequenceHelloResponse,
)
from ...remoting.protocol.message.properties import MessageError, PropertyName
from ...remoting.protocol.message.send_sequence import SendSequence
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record.batch import decode_batch, encode_batch
from ...remoting.protocol.record.batch_records import batch_problem, batch_size
from ...remoting.protocol.record.layout import QUEUE_UNIT
from ...store.message_store import MessageStore
from ...store.model.status import PutResult, PutStatus
from ..sends.durability import Durability
from ..sends.sequence_log import SequenceLog
from ..sends.sequences import Key, producer_key
from ..state.topics import Topic

_PAIR: Final = f"\x02{PropertyName.SEND_SEQUENCE}\x01"
AccountOf = Callable[[Context], str]
"""Who has signed a request; "" where nobody has to."""


class Sequenced(NamedTuple):
    """A request with a sequence, as it is to be stored."""

    key: Key
    sequence: SendSequence
    messages: int
    """How many; 1 for a single one."""
    have: int
    """So many of them, the first ones, are stored already."""
    text: str
    """The properties of the request, with SEND_SEQUENCE as it is stored."""
    body: Body
    """Without those that are stored."""
    log_end: int
    """Before they are stored."""

    @property
    def is_repeated(self) -> bool:
        """There is nothing to store."""
        return self.have == self.messages


class SequencedSends:
    """What sends with sequences need besides the usual."""

    def __init__(
        self,
        log: SequenceLog,
        store: MessageStore,
        account_of: AccountOf,
        durability: Durability,
        now_ms: Callable[[], int],
    ) -> None:
        """``durability``: what an answer waits for that others must be able to rely on."""
        self._log: Final = log
        self._table: Final = log.sequences
        self._store: Final = store
        self._account_of: Final = account_of
        self._durability: Final = durability
        self._now_ms: Final = now_ms

    async def hello(self, request: SequenceHelloRequest, _body: Body, ctx: Context) -> Reply:
        """A producer may begin. Of an epoch above 0 the answer comes when whoever is master next
        knows it, too."""
        try:
            SendSequence.parse(SendSequence(request.producer_id, request.epoch, 0, 0).text)
        except MessageError as error:
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        if not self._store.writeable:
            raise RequestError(
                ResponseCode.SERVICE_NOT_AVAILABLE, "this broker takes no messages now"
            )
        await self._log.ready()
        now = self._now_ms()
        if request.epoch > 0:
            producer = producer_key(self._account_of(ctx), request.producer_id)
            self._table.fence(producer, request.epoch, now)
            if (reason := await self._log.save()) is not None:
                raise RequestError(
                    ResponseCode.SYSTEM_BUSY, f"the epoch cannot be written just now: {reason}"
                )
            code = await self._durability.all_stored() if self._durability.waits else 0
            if code != ResponseCode.SUCCESS:
                raise RequestError(code, "the epoch is not as safe as messages are here")
        begins_ms = self._table.begins_ms(now)
        return Reply(
            header=SequenceHelloResponse(expires_ms=self._table.expires_ms, now_ms=begins_ms)
        )

    def read(
        self, request: SendMessageRequest, topic: Topic, body: Body, ctx: Context
    ) -> Sequenced:
        """What is to be stored of it. Raises ``RequestError``: why nothing is."""
        if not self._log.is_ready:
            raise RequestError(
                ResponseCode.SEQUENCES_NOT_READY, "SEND_SEQUENCE_HELLO (9100) comes first"
            )
        if request.queue_id < 0 or topic.retry_of is not None or topic.name == TopicName.TRACE:
            raise RequestError(  # who may send nothing may send a trace
                ResponseCode.MESSAGE_ILLEGAL,
                "a message with a sequence names its queue, of a topic that is no retry topic and "
                f"not {TopicName.TRACE}",
            )
        before, _, behind = f"\x02{request.properties or ''}".rpartition(_PAIR)
        given, end, behind = behind.partition("\x02")
        try:
            sequence = SendSequence.parse(given)
        except MessageError as error:
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        count = _batch_count(body) if request.batch else 1
        if not count or sequence.producer_id.startswith("#"):
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, "a sequence of nothing, or of nobody")
        account = self._account_of(ctx)
        producer = producer_key(account, sequence.producer_id)
        key = Key(producer, topic.name, request.queue_id)
        if account:  # of which the original knows nothing
            anonymous = Key(producer_key("", sequence.producer_id), key.topic, key.queue_id)
            if self._table.is_unchecked(anonymous):
                self._table.refuse_unchecked()
        have = self._table.known(key, sequence, count, ctx.received_at_ms)
        _, epoch, number, begun_ms = sequence
        stored = SendSequence(producer, epoch, number + have, begun_ms).text
        if 0 < have < count:
            body = encode_batch(decode_batch(body)[have:])
        text = f"{before}{_PAIR}{stored}{end}{behind}"[1:]
        return Sequenced(key, sequence, count, have, text, body, self._store.log_end)

    def stored(self, it: Sequenced, result: PutResult, now_ms: int) -> None:
        """It is in the log now."""
        end = result.phy_offset + result.size
        self._table.stored(
            it.key, it.sequence, it.have, it.messages, result.queue_offset, end, now_ms
        )

    def not_stored(self, it: Sequenced) -> None:
        """It was refused. Of a batch a member of a group may have the first ones all the same: the
        log tells."""
        if self._store.log_end != it.log_end:
            self._log.forget()

    def first_result(self, it: Sequenced) -> PutResult:
        """Where the messages of a repeated request lie, as its first answer told; ``queue_offset``
        is -1 where that is not known any more. It counts as nothing stored, up to ``phy_offset``.
        """
        run = self._table.first_answer(it.key, it.sequence, it.messages)
        units: list[tuple[int, int, int]] = []
        while run.queue_offset >= 0 and len(units) < it.messages:
            _, topic, queue_id = it.key
            more = self._store.entries.some(
                topic, queue_id, run.queue_offset + len(units), it.messages - len(units)
            )
            if not more:
                break
            units += more
        if len(units) < it.messages:
            return PutResult(PutStatus.PUT_OK, run.end, -1, 0, 0)
        packed = b"".join(QUEUE_UNIT.pack(*unit) for unit in units)
        return PutResult(PutStatus.PUT_OK, run.end, run.queue_offset, 0, 0, packed)


def _batch_count(body: Body) -> int:
    """Raises ``RequestError``."""
    data = bytes(body)
    measured = batch_size(data, b"")
    if measured is None:
        problem = f"the batch cannot be read: {batch_problem(data)}"
        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, problem)
    return measured[0]
