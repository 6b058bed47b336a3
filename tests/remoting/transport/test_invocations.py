from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

import msgspec
import pytest

from aiorocketmq.remoting.errors import (
    ConnectionLostError,
    ProtocolError,
    RequestTimeout,
    TooManyRequestsError,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse
from aiorocketmq.remoting.protocol.frames.frame import LONG_HEADER
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    SerializeType,
    encode_header,
)
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.transport.invocations import MAX_INVOCATIONS, Invocations, Send

QUERY = RequestCode.QUERY_CONSUMER_OFFSET


Ts = TypeVarTuple("Ts")


def answer(opaque: int, **more: object) -> bytes:
    return encode_header(RemotingCommand(code=0, flag=1, opaque=opaque, ext_fields={"offset": "5"}))


def test_an_answer_finds_its_request_and_every_other_frame_is_left_alone() -> None:
    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        future = invocations.add(QUERY, 7, 3.0)
        assert not invocations.complete_frame(
            0, encode_header(RemotingCommand(code=40, opaque=7)), memoryview(b"")
        )
        assert invocations.complete_frame(0, answer(8), memoryview(b""))
        assert not future.done()
        assert invocations.complete_frame(0, answer(7), memoryview(b"body"))
        response = await future
        assert (response.header.offset, response.body, len(invocations)) == (5, b"body", 0)

    asyncio.run(main())


STORED = {"msgId": "OFFSET", "queueId": "2", "queueOffset": "17"}


@pytest.mark.parametrize("form", SerializeType)
@pytest.mark.parametrize("fields", [STORED, {**STORED, "queueId": "2.0"}, {"offset": "5"}, None])
@pytest.mark.parametrize("code", [0, 1])
def test_whoever_sends_may_get_the_typed_header_alone(
    form: SerializeType, fields: dict[str, str] | None, code: int
) -> None:
    command = RemotingCommand(code=code, flag=1, opaque=7, ext_fields=fields)
    usual = (form, fields, code) == (SerializeType.JSON, STORED, 0)

    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        for asked in (Send(RequestCode.SEND_MESSAGE_V2), RequestCode.SEND_MESSAGE_V2):
            future = invocations.add(asked, 7, 3.0)
            assert invocations.complete_frame(
                form, encode_header(command, form), memoryview(b"body")
            )
            answer = await future
            typed = type(answer) is SendMessageResponse
            assert typed <= (type(asked) is Send), "nobody else gets it"
            # The twin in Python reads "2.0" as a number, too; the leaf leaves it to the rule.
            assert typed is (type(asked) is Send) or not usual
            assert not typed or (form, code) == (SerializeType.JSON, 0)
            if isinstance(answer, Response):
                assert (answer.code, answer.body, answer.request_code) == (code, b"body", asked)
                answer = answer.header if "queueId" in answer.ext_fields else None
            if fields and "queueId" in fields:
                assert answer == SendMessageResponse(msg_id="OFFSET", queue_id=2, queue_offset=17)
        late = invocations.add(Send(QUERY), 8, 0.0)
        with pytest.raises(RequestTimeout, match="no answer to QUERY_CONSUMER_OFFSET"):
            await late
        assert invocations.complete_frame(form, encode_header(command, form), b"")

    asyncio.run(main())


@pytest.mark.parametrize("asked", [Send(RequestCode.SEND_BATCH_MESSAGE), QUERY])
def test_an_answer_may_be_long_but_not_of_many_pairs(asked: int) -> None:
    """The answer to a batch has the ids of all its messages: nobody may take it for a header that
    is too long, or send the batch again."""
    ids = ",".join(f"{number:032X}" for number in range(20_000))
    long = {**STORED, "msgId": ids, "offset": "5"}
    many = {**STORED, **{f"k{number}": "1" for number in range(5_000)}}

    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        future = invocations.add(asked, 7, 3.0)
        for fields, taken in ((many, False), (long, True)):
            data = encode_header(RemotingCommand(code=0, flag=1, opaque=7, ext_fields=fields))
            for form in SerializeType.ROCKETMQ, SerializeType.MSGPACK:
                assert not invocations.complete_frame(form | LONG_HEADER, data, b"")
            found = invocations.complete_frame(SerializeType.JSON | LONG_HEADER, data, b"")
            assert found is future.done() is taken
        stored = await future
        if isinstance(stored, Response):
            assert stored.ext_fields == long
        else:
            assert stored.msg_id == ids

    asyncio.run(main())


def test_deadlines_end_in_order_and_only_what_is_not_answered() -> None:
    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        wanted = ((1, 60.0), (2, 0.0), (3, 0.0), (4, 0.02))
        late, soon, answered, next_one = (invocations.add(QUERY, n, t) for n, t in wanted)
        invocations.complete_frame(0, answer(3), memoryview(b""))
        with pytest.raises(RequestTimeout, match="no answer to QUERY_CONSUMER_OFFSET"):
            await soon
        with pytest.raises(RequestTimeout):
            await asyncio.wait_for(asyncio.shield(next_one), 10)
        assert answered.result().code == 0
        assert not late.done()
        invocations.fail("test")
        with pytest.raises(ConnectionLostError, match="test"):
            await late

    asyncio.run(main())


def test_one_timer_serves_all_that_is_answered_in_time() -> None:
    class Loop(asyncio.SelectorEventLoop):
        timers = 0

        def call_at(
            self,
            when: float,
            callback: Callable[[*Ts], object],
            *args: *Ts,
            context: Context | None = None,
        ) -> asyncio.TimerHandle:
            self.timers += 1
            return super().call_at(when, callback, *args, context=context)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        invocations, before = Invocations(loop), loop.timers
        for opaque in range(20_000):
            invocations.add(QUERY, opaque, 3600.0)
            assert invocations.complete_frame(0, answer(opaque), memoryview(b""))
        assert loop.timers == before + 1
        invocations.add(QUERY, 20_000, 60.0)  # an earlier deadline
        assert loop.timers == before + 2
        invocations.fail("end")

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())


def test_whoever_wants_to_know_is_told_what_was_given_up() -> None:
    async def main() -> None:
        loop, told = asyncio.get_running_loop(), list[float]()
        invocations = Invocations(loop, told.append)
        began = loop.time()
        futures = [
            invocations.add(QUERY, opaque, timeout)
            for opaque, timeout in ((1, 0.0), (2, 0.0), (3, 60.0))
        ]
        with pytest.raises(RequestTimeout):
            await futures[1]
        assert futures[0].done()
        assert futures[0].exception()
        await asyncio.sleep(0)
        assert [began <= when <= loop.time() for when in told] == [True]
        invocations.fail("end")
        assert futures[2].exception()

    asyncio.run(main())


class Told:
    """Who waits without a future."""

    def __init__(self) -> None:
        self.results: list[Response] = []
        self.errors: list[Exception] = []

    def done(self) -> bool:
        return bool(self.results or self.errors)

    def set_result(self, answer: Response, /) -> None:
        self.results.append(answer)

    def set_exception(self, error: Exception, /) -> None:
        self.errors.append(error)


def test_who_waits_without_a_future_is_told_at_once() -> None:
    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        answered, lost = Told(), Told()
        for opaque, waiter in enumerate((answered, lost)):
            assert invocations.add(QUERY, opaque, 60.0, waiter) is waiter
        assert invocations.complete_frame(0, answer(0), memoryview(b"body"))
        assert [(each.code, each.body) for each in answered.results] == [(0, b"body")]
        invocations.fail("end")
        assert [type(error) for error in lost.errors] == [ConnectionLostError]
        assert not answered.errors

    asyncio.run(main())


def test_requests_in_flight_have_a_limit() -> None:
    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        futures = [invocations.add(QUERY, opaque, 60.0) for opaque in range(MAX_INVOCATIONS)]
        with pytest.raises(TooManyRequestsError):
            invocations.add(QUERY, MAX_INVOCATIONS, 60.0)
        invocations.fail("end")
        assert all(isinstance(future.exception(), ConnectionLostError) for future in futures)

    asyncio.run(main())


def test_an_answer_without_its_fields_is_a_protocol_error() -> None:
    response = Response.of(RemotingCommand(code=0, flag=1), b"", QUERY)
    with pytest.raises(
        ProtocolError, match="answer to QUERY_CONSUMER_OFFSET: the field 'offset' is missing"
    ):
        _ = response.header


@pytest.mark.parametrize("offset", [5, "5", "5.0", "+5"])
def test_fields_are_read_whatever_they_are(offset: object) -> None:
    header = msgspec.json.encode(
        {"code": 0, "extFields": {"offset": offset, "other": None}, "flag": 1, "opaque": 7}
    )

    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        future = invocations.add(QUERY, 7, 60.0)
        assert invocations.complete_frame(0, header, b"")
        response = await future
        assert response.header.offset == 5
        assert response.ext_fields == {"offset": str(offset)}
        invocations.fail("end")

    asyncio.run(main())


def test_an_answer_nested_too_deeply_is_left_to_whoever_refuses_it() -> None:
    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        invocations.add(QUERY, 7, 3.0)
        deep = b'{"code":0,"flag":1,"opaque":7,"x":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
        assert not invocations.complete_frame(0, deep, memoryview(b""))
        assert len(invocations) == 1

    asyncio.run(main())
