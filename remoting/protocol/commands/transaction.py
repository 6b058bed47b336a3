"""Transactions (``headers.md`` §A.8)."""

from __future__ import annotations

from ..codes import RequestCode
from ..wire import NoFields, Record, i32, i64
from .base import Command, RpcRequest


class TransactionState:
    """Values of ``EndTransactionRequest.commit_or_rollback``: the transaction bits of a sysFlag."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


class EndTransactionRequest(RpcRequest, frozen=True, kw_only=True):
    """How a local transaction ended (code 37, usually oneway). The command's remark carries the
    exception, if any."""

    producer_group: str
    tran_state_table_offset: i64
    """Queue offset of the half message: as the send said, or as the check said, whichever this
    answers."""
    commit_log_offset: i64
    """Its phy_offset."""
    commit_or_rollback: i32
    from_transaction_check: bool = False
    msg_id: str
    """The UNIQ_KEY."""
    transaction_id: str | None = None


class CheckTransactionStateRequest(RpcRequest, frozen=True, kw_only=True):
    """A broker asks a producer how it ended (code 39, oneway). The body is the record of the half
    message.

    The offsets are those of a new copy of the half message: the answer must carry them, not those
    of the send.
    """

    tran_state_table_offset: i64
    commit_log_offset: i64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageRequest(Record, frozen=True, kw_only=True):
    """Begin again with the checks of a half message (code 323)."""

    msg_id: str | None = None
    """The offsetMsgId."""


COMMANDS = {
    RequestCode.END_TRANSACTION: Command(EndTransactionRequest, NoFields),
    RequestCode.CHECK_TRANSACTION_STATE: Command(
        CheckTransactionStateRequest, NoFields, request_body=bytes
    ),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: Command(ResumeCheckHalfMessageRequest, NoFields),
}
