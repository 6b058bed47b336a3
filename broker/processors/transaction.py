"""The end of transactions: END_TRANSACTION (37), RESUME_CHECK_HALF_MESSAGE (323; classes
EndTransactionProcessor, AdminBrokerProcessor; ``headers.md`` §A.8, ``broker-services.md`` §5.2)."""

from __future__ import annotations

import logging
from typing import Final

from ...remoting.dispatch import PENDING, Body, Context, Outcome, ProcessorTable, Reply
from ...remoting.errors import RequestError
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.transaction import (
    EndTransactionRequest,
    ResumeCheckHalfMessageRequest,
    TransactionState,
)
from ...remoting.protocol.message.message_id import parse_offset_message_id
from ...remoting.protocol.message.topic_names import TopicName
from ...remoting.protocol.record import RecordError, decode_record
from ...remoting.protocol.record.decode import MessageExt
from ...store.model.config import BrokerRole
from ...store.model.status import PutResult, PutStatus
from ..sends.dead_letters import tell_homeless
from ..sends.durability import REMARKS, Durability
from ..sends.put_context import PutContext
from ..transactions.half_properties import destination_of
from ..transactions.transaction_log import StoredHalf, TransactionLog
from ..transactions.transactions import transaction_of

log: Final = logging.getLogger(__name__)

_NOT_NOTED: Final = ("end not noted",)

_REFUSALS: Final = {
    PutStatus.SERVICE_NOT_AVAILABLE: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "Service not available now.",
    ),
    PutStatus.MESSAGE_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, "The message is illegal."),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (ResponseCode.MESSAGE_ILLEGAL, "The message is illegal."),
    PutStatus.CREATE_MAPEDFILE_FAILED: (ResponseCode.SYSTEM_ERROR, "Create mapped file failed."),
}
_DONE: Final = Reply()
_WRONG_GROUP: Final = "The producer group wrong"
_COMMIT: Final = TransactionState.COMMIT
_ROLLBACK: Final = TransactionState.ROLLBACK
_PUT_OK: Final = PutStatus.PUT_OK


class TransactionProcessor:
    """Commits and rolls back."""

    def __init__(
        self,
        context: PutContext,
        transactions: TransactionLog,
        durability: Durability,
    ) -> None:
        """``durability``: what answers wait for, and the note that a transaction is decided."""
        self._store = context.store
        self._topics = context.topics
        self._log = transactions
        self._halves = transactions.halves
        self._stats = context.stats
        self._durability = durability

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.END_TRANSACTION: self.end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self.resume,
        }

    def end(self, request: EndTransactionRequest, _body: Body, ctx: Context) -> Outcome:
        """The producer's word about a half message. "Unknown" is not answered at all, as in the
        original.

        A word that was said before is answered with success and does nothing (the original stores
        the message once more).
        """
        if self._store.config.broker_role is BrokerRole.SLAVE:
            remark = "Message store is slave mode, so end transaction is forbidden. "
            return Reply(ResponseCode.SLAVE_NOT_AVAILABLE, remark=remark)
        decision = request.commit_or_rollback
        if decision != _COMMIT and decision != _ROLLBACK:
            if decision == TransactionState.UNKNOWN:
                return None
            remark = (
                f"commitOrRollback field wrong: {decision} is none of 0 (unknown), 8 (commit), "
                "12 (rollback)"
            )
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        said = request.tran_state_table_offset
        half = self._log.take(said)
        if half is None or half.phy_offset != request.commit_log_offset:
            raise RequestError(ResponseCode.SYSTEM_ERROR, self._what_is_wrong(request))
        if half.destination.group != request.producer_group:
            raise RequestError(ResponseCode.SYSTEM_ERROR, _WRONG_GROUP)
        halves = self._halves
        meant = self._meant_after_start(said) if halves.copies else halves.meant_by(said)
        if meant is None or meant in halves.committing:
            return _DONE
        now_ms = ctx.received_at_ms
        if decision == _ROLLBACK:
            noted = self._note(said, meant, now_ms)
            return _DONE if noted.status is _PUT_OK else self._not_stored(noted)
        result, name, queue_id = self._log.put_committed(half, now_ms)
        if result.status is not _PUT_OK:
            if result.status.is_for_good:
                self._log.outages.occurs(
                    log,
                    ("refused", name, result.status),
                    "a commit is refused for good, the half message goes to %s when its checks "
                    "are used up topic=%s phy_offset=%d status=%s %s",
                    TopicName.TRANS_CHECK_MAX_TIME, name, half.phy_offset, result.status.name,
                    result.remark, level=logging.ERROR,
                )  # fmt: skip
            return self._not_stored(result)
        topic = self._topics.get(name)
        self._stats.stored(result, topic, queue_id)
        if topic is None:
            tell_homeless(self._log.outages, name)
        return self._committed(half, result, said, meant, ctx)

    def _committed(
        self, half: StoredHalf, result: PutResult, said: int, meant: int, ctx: Context
    ) -> Outcome:
        """Answered when that is as safe as the broker makes messages. Unless it may be gone, with
        success also when that takes too long: the message is there.

        Not before is it noted that the transaction is decided: the power may fail, and leave the
        note without the message. (A majority's log has no note without what lies before it.)
        """
        durability = self._durability
        if durability.waits and not durability.for_all and half.destination.waits:
            self._halves.committing.add(meant)

            def safe(_code: int) -> None:
                self._halves.committing.discard(meant)
                self._note(said, meant, ctx.received_at_ms)
                if not ctx.oneway:
                    ctx.reply(Reply())

            durability.when_stored(result.phy_offset + result.size, safe)
            return _DONE if ctx.oneway else PENDING
        self._note(said, meant, ctx.received_at_ms)
        if not durability.for_all or ctx.oneway:
            return _DONE
        durability.when_all_stored(lambda code: ctx.reply(Reply(code, remark=REMARKS.get(code))))
        return PENDING

    def _meant_after_start(self, said: int) -> int | None:
        """While some copies are known by their transaction only."""
        found = self._log.half(said)
        return (
            self._halves.meant_by(said)
            if found is None
            else self._halves.meant_by_word(said, transaction_of(found[0]))
        )

    def _what_is_wrong(self, request: EndTransactionRequest) -> str:
        """The remark for a request that is about another half message than the one at its
        offset."""
        half = self._log.half_at(request.commit_log_offset)
        if half is None:
            return "Find prepared transaction message failed"
        is_of_group = destination_of(half.raw_properties).group == request.producer_group
        return "The transaction state table offset wrong" if is_of_group else _WRONG_GROUP

    def _note(self, said: int, meant: int, now_ms: int) -> PutResult:
        """Both the half message that the word was about and the copy that stands for it are
        decided. In a group so is all else that the copy stands for: who leads next may not have
        heard yet how far the checks were, and would ask about it once more."""
        others = self._halves.stands_for(meant) if self._durability.for_all else ()
        noted = self._log.put_op(meant, now_ms)
        for number in dict.fromkeys((*others, said)) if others or said != meant else ():
            if number != meant:
                noted = self._log.put_op(number, now_ms)
        if noted.status is not _PUT_OK:
            self._log.outages.fails(
                log,
                _NOT_NOTED,
                "the end of a transaction is not noted, its producer will be asked again: %s",
                noted.remark,
                level=logging.ERROR,
            )
        else:
            self._log.outages.works(_NOT_NOTED)
        return noted

    def _not_stored(self, result: PutResult) -> Reply:
        self._stats.put_failed += 1
        code, remark = _REFUSALS.get(result.status, (ResponseCode.SYSTEM_ERROR, result.status.name))
        return Reply(code, remark=f"{remark} {result.remark}".rstrip())

    def resume(self, request: ResumeCheckHalfMessageRequest, _body: Body, ctx: Context) -> Reply:
        """Put a half message that was given up back into the half topic, with all its checks in
        front of it."""
        result = self._log.resume(self._given_up(request.msg_id or ""), ctx.received_at_ms)
        if result.status is not _PUT_OK:
            remark = (
                f"Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed. {result.remark}".rstrip()
            )
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        return Reply()

    def _given_up(self, msg_id: str) -> MessageExt:
        """Raises ``RequestError`` for an id of anything else."""
        try:
            record = self._store.message_by_offset(parse_offset_message_id(msg_id).phy_offset)
            message = None if record is None else decode_record(record, check_crc=True)
        except (ValueError, RecordError) as error:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"msgId is no offset message id: {error}"
            ) from error
        if (
            message is None
            or message.topic != TopicName.TRANS_CHECK_MAX_TIME
            or message.offset_msg_id != msg_id.upper()
        ):
            remark = (
                f"no message of {TopicName.TRANS_CHECK_MAX_TIME} has the id {msg_id[:80]}: give "
                "its offsetMsgId"
            )
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        return message
