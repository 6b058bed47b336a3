from __future__ import annotations

import asyncio

import pytest

from aiorocketmq.remoting.errors import ConnectionLostError, ProtocolError, RequestTimeout, TooManyRequestsError
from aiorocketmq.remoting.invocations import MAX_INVOCATIONS, Invocations, Response
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.serialization import RemotingCommand, encode_header

QUERY = RequestCode.QUERY_CONSUMER_OFFSET


def answer(opaque: int, **more: object) -> bytes:
    return encode_header(RemotingCommand(code=0, flag=1, opaque=opaque, ext_fields={"offset": "5"}))


def test_an_answer_finds_its_request_and_every_other_frame_is_left_alone() -> None:
    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        future = invocations.add(QUERY, 7, 3.0)
        assert not invocations.complete_frame(0, encode_header(RemotingCommand(code=40, opaque=7)), memoryview(b""))
        assert invocations.complete_frame(0, answer(8), memoryview(b""))
        assert not future.done()
        assert invocations.complete_frame(0, answer(7), memoryview(b"body"))
        response = await future
        assert (response.header.offset, response.body, len(invocations)) == (5, b"body", 0)

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


def test_what_is_answered_does_not_stay_until_its_deadline() -> None:
    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        for opaque in range(20_000):
            invocations.add(QUERY, opaque, 3600.0)
            invocations.complete_frame(0, answer(opaque), memoryview(b""))
        assert len(invocations._deadlines) < 2000
        invocations.fail("end")

    asyncio.run(main())


def test_requests_in_flight_have_a_limit() -> None:
    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        for opaque in range(MAX_INVOCATIONS):
            invocations.add(QUERY, opaque, 60.0)
        with pytest.raises(TooManyRequestsError):
            invocations.add(QUERY, MAX_INVOCATIONS, 60.0)
        futures = [future for _, future in invocations.table.values()]
        invocations.fail("end")
        assert all(isinstance(future.exception(), ConnectionLostError) for future in futures)

    asyncio.run(main())


def test_an_answer_without_its_fields_is_a_protocol_error() -> None:
    response = Response(RemotingCommand(code=0, flag=1), b"", QUERY)
    with pytest.raises(ProtocolError, match="answer to QUERY_CONSUMER_OFFSET: the field 'offset' is missing"):
        _ = response.header


def test_an_answer_nested_too_deeply_is_left_to_whoever_refuses_it() -> None:
    async def main() -> None:
        invocations = Invocations(asyncio.get_running_loop())
        invocations.add(QUERY, 7, 3.0)
        deep = b'{"code":0,"flag":1,"opaque":7,"x":' + b"[" * 5000 + b"]" * 5000 + b"}"
        assert not invocations.complete_frame(0, deep, memoryview(b""))
        assert len(invocations) == 1

    asyncio.run(main())
