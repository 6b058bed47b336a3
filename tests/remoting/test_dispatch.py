"""The dispatcher on real connections with a simulated peer: who is answered, with what, and in
which order."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aiorocketmq.remoting.dispatch import PENDING, Body, Context, Dispatcher, Reply, reply_together
from aiorocketmq.remoting.errors import RequestError
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.frames.frame import MAX_FRAME_BYTES, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.transport.flow import Limits

from ..sim import ManualClock, SimOwner, connect
from .dispatch_world import OFFSET_FIELDS, OFFSET_TABLE, answers, request, run


@pytest.mark.parametrize("form", list(SerializeType))
def test_a_handler_may_return_a_finished_frame(form: int) -> None:
    header = encode_header(
        RemotingCommand(code=0, flag=1, opaque=7, ext_fields={"offset": "5" * 2000}), form
    )
    finished = encode_frame(form, header)
    table: dict[RequestCode, Any] = {
        RequestCode.QUERY_CONSUMER_OFFSET: lambda req, body, ctx: finished
    }
    assert run(table, request(14, OFFSET_FIELDS, form=form)) == [(decode_header(form, header), b"")]
    assert run(table, request(14, OFFSET_FIELDS, flag=2, form=form)) == []

    async def later(req: Any, body: Body, ctx: Context) -> bytes:
        return finished

    later_table = {RequestCode.QUERY_CONSUMER_OFFSET: later}
    assert run(later_table, request(14, OFFSET_FIELDS, form=form)) == [
        (decode_header(form, header), b"")
    ]
    assert run(later_table, request(14, OFFSET_FIELDS, flag=2, form=form)) == []


@pytest.mark.parametrize("form", list(SerializeType))
def test_the_answer_has_the_form_and_the_opaque_of_the_request(form: int) -> None:
    data = request(14, OFFSET_FIELDS, opaque=-5, form=form)
    assert data[4] == form
    [(command, body)] = run(OFFSET_TABLE, data)
    assert (command.code, command.opaque, command.flag, command.ext_fields, body) == (
        0,
        -5,
        1,
        {"offset": "30"},
        b"",
    )


def test_all_answers_of_a_read_event_leave_in_one_write() -> None:
    async def main() -> None:
        connection, transport = connect(SimOwner(Dispatcher(OFFSET_TABLE)))
        connection.data_received(b"".join(request(14, OFFSET_FIELDS, opaque=n) for n in range(50)))
        assert transport.writes == 1
        assert [c.opaque for c, _ in answers(transport)] == list(range(50))

    asyncio.run(main())


def test_answers_that_come_together_leave_behind_what_waits_already() -> None:
    async def main() -> None:
        kept: list[Context] = []
        table: dict[RequestCode, Any] = {
            RequestCode.QUERY_CONSUMER_OFFSET: lambda _req, _body, ctx: kept.append(ctx) or PENDING
        }
        connection, transport = connect(SimOwner(Dispatcher(table)))
        connection.data_received(b"".join(request(14, OFFSET_FIELDS, opaque=n) for n in range(4)))
        kept[0].reply(Reply(code=5))
        reply_together([(ctx, Reply(code=6)) for ctx in kept[1:3]])
        writes = [transport.writes]
        await asyncio.sleep(0)
        writes.append(transport.writes)
        reply_together([(kept[3], Reply(code=7))])
        assert [*writes, transport.writes] == [0, 1, 2]
        assert [(c.opaque, c.code) for c, _ in answers(transport)] == [
            (0, 5),
            (1, 6),
            (2, 6),
            (3, 7),
        ]
        assert connection.in_flight == 0

    asyncio.run(main())


def test_an_unknown_code_is_answered_with_code_3() -> None:
    [(command, _)] = run({}, request(999))
    assert (command.code, command.remark) == (3, " request type 999 not supported")


@pytest.mark.parametrize("form", list(SerializeType))
@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"consumerGroup": "g", "topic": "T"}, "queueId"),
        ({**OFFSET_FIELDS, "queueId": "x"}, "queueId"),
        (None, "consumerGroup"),
    ],
)
def test_a_missing_or_malformed_field_is_answered_with_code_1_and_its_name(
    form: int, fields: dict[str, str] | None, name: str
) -> None:
    [(command, _)] = run(OFFSET_TABLE, request(14, fields, form=form))
    assert command.code == ResponseCode.SYSTEM_ERROR
    assert f"'{name}'" in (command.remark or "")


def test_an_error_in_one_request_does_not_lose_the_next() -> None:
    def fail(req: Any, body: Body, ctx: Context) -> Reply:
        raise (
            RequestError(ResponseCode.NO_PERMISSION, "no")
            if ctx.opaque == 1
            else RuntimeError("a bug")
        )

    table = {RequestCode.HEART_BEAT: fail, **OFFSET_TABLE}
    replies = run(
        table, request(34, opaque=1) + request(34, opaque=2) + request(14, OFFSET_FIELDS, opaque=3)
    )
    assert [(c.opaque, c.code) for c, _ in replies] == [(1, 16), (2, 1), (3, 0)]
    assert replies[1][0].remark == "RuntimeError: a bug"


def test_of_a_code_that_stands_twice_the_last_one_counts() -> None:
    header = (
        b'{"code":14,"code":9999,"opaque":7,'
        b'"extFields":{"consumerGroup":"g","topic":"T","queueId":"3"}}'
    )
    [(command, _)] = run(OFFSET_TABLE, encode_frame(0, header))
    assert (command.code, command.opaque) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 7)


def test_a_oneway_request_is_never_answered() -> None:
    assert (
        run(
            OFFSET_TABLE,
            request(14, OFFSET_FIELDS, flag=2),
            request(14, {}, flag=2),
            request(999, flag=2),
        )
        == []
    )


def test_a_pending_request_is_answered_later_and_counted_until_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        kept: list[Context] = []

        def keep(req: Any, body: Body, ctx: Context) -> Any:
            kept.append(ctx)
            return PENDING

        connection, transport = connect(
            SimOwner(Dispatcher({RequestCode.HEART_BEAT: keep}), limits=Limits(max_in_flight=2))
        )
        connection.data_received(
            request(34, opaque=1) + request(34, opaque=2) + request(34, opaque=3)
        )
        assert connection.in_flight == 2
        assert [(c.opaque, c.code) for c, _ in answers(transport)] == [
            (3, ResponseCode.SYSTEM_BUSY)
        ]
        for ctx in kept:
            ctx.reply(Reply(remark="later"))
        await asyncio.sleep(0)
        assert connection.in_flight == 0
        assert [(c.opaque, c.remark) for c, _ in answers(transport)] == [(1, "later"), (2, "later")]
        assert transport.writes == 2

    asyncio.run(main())
    [line] = [each.getMessage() for each in caplog.records]
    assert line.startswith("request refused, 2 of this connection wait (maxInFlight) code=34 peer=")


def test_async_handlers_run_in_owned_tasks_and_their_failures_are_answered() -> None:
    async def slow(req: Any, body: Body, ctx: Context) -> Reply:
        await asyncio.sleep(0)
        if ctx.opaque == 2:
            raise RuntimeError("a bug")
        return Reply(body=bytes(body))

    frame = encode_frame(0, encode_header(RemotingCommand(code=34, opaque=1)), b"body")
    replies = run({RequestCode.HEART_BEAT: slow}, frame, request(34, opaque=2))
    assert [(c.opaque, c.code, b) for c, b in replies] == [(1, 0, b"body"), (2, 1, b"")]


def test_a_guard_can_refuse() -> None:
    def guard(ctx: Context, body: Body) -> Reply | None:
        return (
            None if ctx.ext_fields.get("AccessKey") == "good" else Reply(1, remark="AclException")
        )

    replies = run(
        OFFSET_TABLE,
        request(14, OFFSET_FIELDS),
        request(14, {**OFFSET_FIELDS, "AccessKey": "good"}),
        guard=guard,
    )
    assert [c.code for c, _ in replies] == [1, 0]


@pytest.mark.parametrize(
    "bad",
    [
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        encode_frame(9, b"{}"),
        encode_frame(0, b"nonsense"),
    ],
)
def test_bytes_that_cannot_be_read_close_the_connection_after_the_good_answers(bad: bytes) -> None:
    async def main() -> None:
        connection, transport = connect(SimOwner(Dispatcher(OFFSET_TABLE)))
        connection.data_received(request(14, OFFSET_FIELDS) + bad)
        assert connection.closed
        assert transport.ended
        assert [c.code for c, _ in answers(transport)] == [0]

    asyncio.run(main())


TOO_LONG_NAME = {"k" * 40_000: "v"}


@pytest.mark.parametrize(
    ("form", "reply"),
    [
        (0, Reply(body=bytes(MAX_FRAME_BYTES))),
        (0, Reply(remark="x" * MAX_FRAME_BYTES)),
        (1, Reply(body=bytes(MAX_FRAME_BYTES))),
        (1, Reply(code=70_000)),
        (1, Reply(ext_fields=TOO_LONG_NAME)),
        (0x4D, Reply(body=bytes(MAX_FRAME_BYTES))),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_an_answer_that_cannot_be_sent_is_an_error_answer(
    form: int, reply: Reply, later: bool
) -> None:
    """It may come from a client whose answer is passed on, so it is no bug, and must not end the
    server's tasks."""

    async def answer_later(*_: Any) -> Reply:
        return reply

    handler: Any = answer_later if later else lambda *_: reply
    first, second = run(
        {RequestCode.QUERY_CONSUMER_OFFSET: handler},
        request(14, OFFSET_FIELDS, form=form),
        request(9999),
    )
    assert sorted((first[0].code, second[0].code)) == [
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    ]
    assert any("cannot be sent" in (command.remark or "") for command, _ in (first, second))


def test_another_table_counts_from_the_next_request_on() -> None:
    async def main() -> None:
        code = RequestCode.QUERY_CONSUMER_OFFSET
        waiting: list[Context] = []

        def wait(_req: Any, _body: Body, ctx: Context) -> Any:
            waiting.append(ctx)
            return PENDING

        refused = Reply(ResponseCode.SERVICE_NOT_AVAILABLE)
        dispatcher = Dispatcher({code: wait}, guard=lambda ctx, _: _refuse_secrets(ctx))
        connection, transport = connect(SimOwner(dispatcher))
        connection.data_received(request(code, OFFSET_FIELDS, opaque=1))
        dispatcher.use({code: lambda *_: refused})
        connection.data_received(request(code, OFFSET_FIELDS, opaque=2))
        connection.data_received(
            request(code, {**OFFSET_FIELDS, "consumerGroup": "secret"}, opaque=3)
        )
        waiting[0].reply(Reply())
        await asyncio.sleep(0)
        told = {command.opaque: command.code for command, _ in answers(transport)}
        assert told == {
            1: ResponseCode.SUCCESS,
            2: ResponseCode.SERVICE_NOT_AVAILABLE,
            3: ResponseCode.NO_PERMISSION,
        }, "the guard stays"
        with pytest.raises(ValueError, match="other requests"):
            dispatcher.use({})

    asyncio.run(main())


def _refuse_secrets(ctx: Context) -> Reply | None:
    return Reply(ResponseCode.NO_PERMISSION) if ctx.request.consumer_group == "secret" else None


def test_wrong_requests_of_a_connection_are_told_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_request: Any, _body: Body, _ctx: Context) -> Reply:
        raise ZeroDivisionError

    async def main() -> None:
        clock = ManualClock()
        table: dict[RequestCode, Any] = {
            **OFFSET_TABLE,
            RequestCode.HEART_BEAT: broken,
        }
        connection, _ = connect(SimOwner(Dispatcher(table), clock=clock))
        for _ in range(70):
            connection.data_received(request(4711))
            connection.data_received(request(14, {"queueId": "x"}))
            connection.data_received(request(int(RequestCode.HEART_BEAT)))
            clock.advance(1)

    with caplog.at_level(logging.INFO, "aiorocketmq"):
        asyncio.run(main())
    told = [record.getMessage().split(" ")[0] for record in caplog.records]
    assert sorted(told) == ["bad"] * 2 + ["handler"] * 2 + ["request"] * 2
