"""The dispatcher on real connections with a simulated peer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiorocketmq.remoting.dispatch import PENDING, Body, Context, Dispatcher, Reply, reply_together
from aiorocketmq.remoting.errors import RequestError
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands import COMMANDS
from aiorocketmq.remoting.protocol.frames.frame import MAX_FRAME_BYTES, FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    HeaderError,
    RemotingCommand,
    SerializeType,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.wire import FieldError, fields_of, from_fields, from_texts
from aiorocketmq.remoting.transport.flow import Limits

from ..sim import ManualClock, SimOwner, SimTransport, connect

OFFSET_FIELDS = {"consumerGroup": "g", "topic": "T", "queueId": "3"}


def request(
    code: int,
    fields: dict[str, str] | None = None,
    *,
    opaque: int = 7,
    flag: int = 0,
    form: int = 0,
) -> bytes:
    command = RemotingCommand(code=code, opaque=opaque, flag=flag, ext_fields=fields)
    return encode_frame(form, encode_header(command, form))


def answers(transport: SimTransport) -> list[tuple[RemotingCommand, bytes]]:
    frames = FrameDecoder().feed(bytes(transport.written))
    transport.written.clear()
    return [(decode_header(form, header), bytes(body)) for form, header, body in frames]


def run(
    table: dict[RequestCode, Any], *pieces: bytes, limits: Limits | None = None, **options: Any
) -> list[tuple[RemotingCommand, bytes]]:
    """Feed pieces of a stream to a fresh connection; what it answered."""

    async def main() -> list[tuple[RemotingCommand, bytes]]:
        owner = SimOwner(Dispatcher(table, **options), limits=limits)
        connection, transport = connect(owner)
        for piece in pieces:
            connection.data_received(piece)
        await asyncio.gather(*owner.tasks)
        await asyncio.sleep(0)
        return answers(transport)

    return asyncio.run(main())


def answer_offset(req: Any, body: Body, ctx: Context) -> Reply:
    response = COMMANDS[RequestCode.QUERY_CONSUMER_OFFSET].response
    return Reply(header=response(offset=req.queue_id * 10))


def read_the_short_way(code: RequestCode, header: bytes) -> Any | None:
    """The typed header as the fast route reads it, ``None`` when it leaves that to the general
    one."""
    read: list[Any] = []

    class Short(Dispatcher):
        def _general(self, *_: object) -> None:
            """Not here."""

    connection: Any = SimpleNamespace(in_flight=0, max_in_flight=1)
    table = {code: lambda req, body, ctx: read.append(req)}
    Short(table).handle(connection, 0, header, memoryview(b""), 0, [])
    return read[0] if read else None


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


OFFSET_TABLE = {RequestCode.QUERY_CONSUMER_OFFSET: answer_offset}


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


def test_a_pending_request_is_answered_later_and_counted_until_then() -> None:
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


def test_a_peer_that_does_not_read_is_not_read_from_and_loses_nothing() -> None:
    def big(req: Any, body: Body, ctx: Context) -> Reply:
        return Reply(body=bytes(1000))

    async def main() -> None:
        limits = Limits(write_pause_bytes=5000)
        connection, transport = connect(
            SimOwner(Dispatcher({RequestCode.HEART_BEAT: big}), limits=limits)
        )
        transport.peer_reads = False
        connection.data_received(b"".join(request(34, opaque=n) for n in range(100)))
        assert not transport.reading
        assert transport.unread < 5000 + 2 * 1200
        connection.data_received(
            request(34, opaque=100)
        )  # was on its way already: its turn comes after the others
        connection.serve(
            FrameDecoder().feed(request(34, opaque=101))
        )  # was gathered with the first ones
        while not transport.reading:
            transport.read_all()
        assert [c.opaque for c, _ in answers(transport)] == list(range(102))

    asyncio.run(main())


def test_requests_that_take_long_give_way_to_those_of_others() -> None:
    """A thousand dear requests in one read: others wait for four of them, not for all."""

    async def main() -> None:
        clock, order = ManualClock(), []

        def slow(_request: Any, _body: Body, ctx: Context) -> Reply:
            clock.advance(0.001)
            order.append(ctx.opaque)
            return Reply()

        owner = SimOwner(Dispatcher({RequestCode.HEART_BEAT: slow}), clock=clock)
        one, many_answers = connect(owner)
        other, _ = connect(owner)
        one.data_received(b"".join(request(34, opaque=n) for n in range(20)))
        one.data_received(request(34, opaque=20))  # was on its way already
        assert not many_answers.reading
        other.data_received(request(34, opaque=100))
        while one.busy:
            await asyncio.sleep(0)
        assert order == [*range(4), 100, *range(4, 21)]
        assert [c.opaque for c, _ in answers(many_answers)] == list(range(21))
        assert many_answers.reading

    asyncio.run(main())


def test_what_nobody_can_be_told_any_more_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is closed while some of its requests wait for their turn; what was written is
    still on its way."""

    async def main() -> None:
        clock, order = ManualClock(), []

        def slow(_request: Any, _body: Body, ctx: Context) -> Reply:
            clock.advance(0.001)
            order.append(ctx.opaque)
            return Reply()

        connection, transport = connect(
            SimOwner(Dispatcher({RequestCode.HEART_BEAT: slow}), clock=clock)
        )
        monkeypatch.setattr(transport, "close", lambda: None)
        connection.data_received(b"".join(request(34, opaque=n) for n in range(20)))
        connection.close()
        for _ in range(5):
            await asyncio.sleep(0)
        assert order == [c.opaque for c, _ in answers(transport)] == [*range(4)]

    asyncio.run(main())


def test_who_takes_no_more_requests_serves_those_that_came() -> None:
    async def main() -> None:
        owner = SimOwner(
            Dispatcher({RequestCode.HEART_BEAT: lambda r, b, c: Reply(body=bytes(1000))}),
            limits=Limits(write_pause_bytes=5000),
        )
        connection, transport = connect(owner)
        transport.peer_reads = False
        connection.data_received(b"".join(request(34, opaque=n) for n in range(20)))
        connection.stop_reading()
        while connection.busy:
            transport.read_all()
        assert not transport.reading
        assert [c.opaque for c, _ in answers(transport)] == list(range(20))
        transport.close()
        connection.stop_reading()  # does no harm

    asyncio.run(main())


def test_a_peer_that_reads_nothing_for_too_long_is_cut() -> None:
    async def main() -> None:
        owner = SimOwner(
            Dispatcher({RequestCode.HEART_BEAT: lambda r, b, c: Reply(body=bytes(5000))}),
            limits=Limits(write_pause_bytes=4000),
        )
        connection, transport = connect(owner)
        transport.peer_reads = False
        connection.data_received(request(34))
        for _ in range(62):
            owner.clock.advance(1.0)
            connection.check(owner.clock.monotonic())
        assert connection.closed
        assert "read nothing" in connection.close_reason

    asyncio.run(main())


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async def main() -> None:
        owner = SimOwner(Dispatcher(OFFSET_TABLE))
        connection, _ = connect(owner)
        for _ in range(300):
            owner.clock.advance(1.0)
            connection.data_received(request(14, OFFSET_FIELDS))
            connection.check(owner.clock.monotonic())
        assert not connection.closed
        for _ in range(122):
            owner.clock.advance(1.0)
            connection.check(owner.clock.monotonic())
        assert connection.close_reason == "idle"

    asyncio.run(main())


# --- the short way and the general way are one
# ----------------------------------------------------------------------

scalars = st.one_of(
    st.integers(-(2**33), 2**33),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=6),
    st.integers(-(2**33), 2**33).map(str),
    st.sampled_from(
        [
            "true",
            "TRUE",
            "tRue",
            "false",
            "1",
            "0",
            "null",
            "NULL",
            "+7",
            "007",
            "7.0",
            "1e3",
            "-0",
            "1.5",
            "",
            " 7",
        ]
    ),
)


@given(
    data=st.data(),
    code=st.sampled_from(sorted(COMMANDS)),
    other=st.dictionaries(st.text("abc", max_size=3), scalars, max_size=2),
)
@example(data=None, code=RequestCode.SEND_MESSAGE_V2, other={}).via(
    "a batch flag that is only nearly true"
)
def test_both_ways_of_decoding_give_the_same(
    data: Any, code: RequestCode, other: dict[str, Any]
) -> None:
    request_type = COMMANDS[code].request
    if data is None:
        ext = {f.wire_name: "1" for f in fields_of(request_type)}
    else:
        names = [f.wire_name for f in fields_of(request_type)]
        likely = {f.wire_name: st.just("7") | scalars for f in fields_of(request_type)}
        ext = {name: data.draw(likely[name]) for name in names if data.draw(st.integers(0, 9)) > 0}
    header = msgspec.json.encode(
        {"code": int(code), "extFields": {**ext, **other}, "flag": 0, "opaque": 1, "version": 409}
    )
    short = read_the_short_way(code, header)
    if short is None:
        return  # left to the general way
    try:
        general = from_fields(request_type, decode_header(0, header).ext_fields or {})
    except (FieldError, HeaderError) as error:
        raise AssertionError(f"only the general way refuses: {error}") from error
    assert short == general


@given(data=st.data(), code=st.sampled_from(sorted(COMMANDS)))
@example(data=None, code=RequestCode.SEND_MESSAGE_V2).via("a batch flag that is only nearly true")
def test_texts_are_read_at_once_as_they_are_one_by_one(data: Any, code: RequestCode) -> None:
    """The headers that are not JSON."""
    request_type = COMMANDS[code].request
    texts = scalars.map(str) | st.sampled_from(["7", "true"])
    names = [f.wire_name for f in fields_of(request_type)]
    ext = (
        dict.fromkeys(names, "1")
        if data is None
        else {name: data.draw(texts) for name in names if data.draw(st.integers(0, 9))}
    )
    assert outcome(from_texts, request_type, ext) == outcome(from_fields, request_type, ext)


def outcome(read: Callable[..., Any], request_type: Any, ext: dict[str, str]) -> Any:
    try:
        return read(request_type, ext)
    except FieldError as error:
        return str(error)


def test_what_real_clients_send_takes_the_short_way() -> None:
    header = request(14, OFFSET_FIELDS)[8:]
    assert read_the_short_way(RequestCode.QUERY_CONSUMER_OFFSET, header) is not None
    batch = {
        "a": "g",
        "b": "T",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "k": "false",
        "m": "true",
    }
    short = read_the_short_way(RequestCode.SEND_BATCH_MESSAGE, request(320, batch)[8:])
    assert short is not None
    assert short.batch is True
    assert short.unit_mode is False


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
