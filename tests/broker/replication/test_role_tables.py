"""Who refuses what in which role, with the codes of the original (dledger.md §5.3, §5.5)."""

from __future__ import annotations

from typing import Any

import pytest

from aiorocketmq.broker.replication.role_tables import slave_table, undecided_table
from aiorocketmq.remoting.dispatch import Body, Context, Handler, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendErrorFields

FIELDS = SendErrorFields(msg_region="r", trace_on=True)
SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)


def master(_request: Any, _body: Body, _ctx: Context) -> Reply:
    return Reply(remark="as a master")


def commit(_request: Any, _body: Body, _ctx: Context) -> Reply:
    return Reply(remark="as a slave")


def answer(table: dict[RequestCode, Handler], code: RequestCode) -> Reply:
    nothing: Any = None
    reply = table[code](nothing, b"", nothing)
    assert isinstance(reply, Reply)
    return reply


@pytest.fixture
def whole() -> dict[RequestCode, Handler]:
    return dict.fromkeys(RequestCode, master)


def test_a_slave_refuses_messages_with_code_14(whole: dict[RequestCode, Handler]) -> None:
    table = slave_table(whole, FIELDS, commit)
    for code in SENDS:
        assert answer(table, code).code == 14
    assert answer(table, RequestCode.SEND_MESSAGE_V2).header == FIELDS


def test_who_is_undecided_is_busy_and_says_so_with_code_1(
    whole: dict[RequestCode, Handler],
) -> None:
    table = undecided_table(whole, FIELDS, commit)
    for code in (*SENDS, RequestCode.END_TRANSACTION):
        reply = answer(table, code)
        assert reply.code == 1
        assert (reply.remark or "").startswith("[PC_SYNCHRONIZED]broker busy")


@pytest.mark.parametrize("role", [slave_table, undecided_table])
def test_no_one_else_changes_topics_or_groups_or_gives_locks(
    role: Any, whole: dict[RequestCode, Handler]
) -> None:
    table = role(whole, FIELDS, commit)
    reply = answer(table, RequestCode.UPDATE_AND_CREATE_TOPIC)
    assert (reply.code, (reply.remark or "")[:12]) == (1, "Can't modify")
    assert answer(table, RequestCode.UPDATE_CONSUMER_OFFSET).remark == "as a slave"
    assert answer(table, RequestCode.LOCK_BATCH_MQ).code == 11
    assert answer(table, RequestCode.PULL_MESSAGE).remark == "as a master"
    assert table.keys() == whole.keys(), "the same requests, or they could not be exchanged"
    assert not role({}, FIELDS, commit)
