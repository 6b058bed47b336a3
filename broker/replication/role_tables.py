"""The table of requests in the roles of a broker that is no master: who refuses what, and how
(dledger.md §5.3, §5.5; ha.md §6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...remoting.dispatch import Body, Context, Handler, Reply
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.send import SendErrorFields
from ...remoting.protocol.wire import Record
from ..sends.durability import BUSY

Table = Mapping[RequestCode, Handler]

_NO_ADMINISTRATION: Final = (
    "Can't modify topic or subscription group from slave broker, please execute it from master "
    "broker."
)
_NO_MESSAGES: Final = "this broker is a slave, messages are taken by its master"
_NO_LOCKS: Final = "only the master gives locks: ask the name servers for it"
_SENDS: Final = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_SEQUENCE_HELLO,
)
_CHANGES: Final = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
)
"""What only the master may change."""


def slave_table(
    table: Table, fields: SendErrorFields, commit: Handler
) -> dict[RequestCode, Handler]:
    """``fields`` stand on every answer to a send; ``commit`` handles UPDATE_CONSUMER_OFFSET."""
    return _with(
        table, ResponseCode.SERVICE_NOT_AVAILABLE, _NO_MESSAGES, fields,
        {RequestCode.UPDATE_CONSUMER_OFFSET: commit},
    )  # fmt: skip


def undecided_table(
    table: Table, fields: SendErrorFields, commit: Handler
) -> dict[RequestCode, Handler]:
    """Of a member of a group before its first election. The original takes changes of topics and
    groups then, and forgets them when it follows."""
    own: dict[RequestCode, Handler] = {
        RequestCode.UPDATE_CONSUMER_OFFSET: commit,
        RequestCode.END_TRANSACTION: _refusal(ResponseCode.SYSTEM_ERROR, BUSY),
    }
    return _with(table, ResponseCode.SYSTEM_ERROR, BUSY, fields, own)


def _with(
    table: Table,
    code: int,
    remark: str,
    fields: SendErrorFields,
    own: dict[RequestCode, Handler],
) -> dict[RequestCode, Handler]:
    """Locks are refused, other than in the original: who asks for them has an old route, and the
    master may have given the queue to another member."""
    changed: dict[RequestCode, Handler] = {
        **dict.fromkeys(_SENDS, _refusal(code, remark, fields)),
        RequestCode.CONSUMER_SEND_MSG_BACK: _refusal(code, remark),
        **dict.fromkeys(_CHANGES, _refusal(ResponseCode.SYSTEM_ERROR, _NO_ADMINISTRATION)),
        RequestCode.LOCK_BATCH_MQ: _refusal(ResponseCode.SLAVE_NOT_AVAILABLE, _NO_LOCKS),
        **own,
    }
    return {**table, **{each: handler for each, handler in changed.items() if each in table}}


def _refusal(code: int, remark: str, fields: SendErrorFields | None = None) -> Handler:
    def refuse(_request: Record, _body: Body, _ctx: Context) -> Reply:
        return Reply(code, fields, remark=remark)

    return refuse
