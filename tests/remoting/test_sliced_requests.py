"""Long requests are served in slices, one after the other."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.dispatch import Context, Dispatcher, Reply
from aiorocketmq.remoting.errors import RequestError
from aiorocketmq.remoting.protocol.bodies.codec import encode_body, encode_in_slices
from aiorocketmq.remoting.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, OffsetWrapper
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    RemotingCommand,
    decode_header,
    encode_header,
)
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.sliced_requests import SlicedRequests, in_slices
from aiorocketmq.remoting.slices import Steps, at_once, slices

from ..sim import SimOwner, SimTransport, connect

CODE = RequestCode.GET_ALL_TOPIC_CONFIG


class Work:
    """Counts the slices of each request; the body says how many there are."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self.closed: list[int] = []

    def __call__(self, _request: Any, body: Any, ctx: Context) -> Steps[Reply]:
        try:
            for _ in range(int(bytes(body))):
                self.log.append(ctx.opaque)
                yield
            if ctx.opaque == 13:
                raise RequestError(17, "no luck")
            return Reply(body=bytes(body))
        finally:
            self.closed.append(ctx.opaque)


def request(opaque: int, slices_: int) -> bytes:
    return encode_frame(
        0, encode_header(RemotingCommand(code=CODE, opaque=opaque)), b"%d" % slices_
    )


def serve(
    *requests: tuple[int, int], closes_after: int | None = None
) -> tuple[Work, list[tuple[int, int]]]:
    """What was done, and opaque and code of the answers."""
    work = Work()

    async def scene() -> list[tuple[int, int]]:
        owner = SimOwner(Dispatcher({CODE: SlicedRequests().handler(work)}))
        connection, transport = connect(owner)
        connection.data_received(b"".join(request(*each) for each in requests))
        if closes_after is not None:
            for _ in range(closes_after):
                await asyncio.sleep(0)
            transport.close()
        await asyncio.gather(*owner.tasks)
        await asyncio.sleep(0)
        assert connection.in_flight == 0
        return answers_in(transport)

    return work, asyncio.run(scene())


def answers_in(transport: SimTransport) -> list[tuple[int, int]]:
    frames = FrameDecoder().feed(bytes(transport.written))
    return [
        (each.opaque, each.code)
        for form, header, _ in frames
        for each in [decode_header(form, header)]
    ]


def test_what_is_short_is_answered_at_once() -> None:
    work, answers = serve((1, 0), (2, 0))
    assert answers == [(1, 0), (2, 0)]
    assert work.closed == [1, 2]


def test_long_ones_come_one_after_the_other_and_short_ones_wait_behind_them() -> None:
    work, answers = serve((1, 3), (2, 2), (3, 0))
    assert work.log == [1, 1, 1, 2, 2]
    assert answers == [(1, 0), (2, 0), (3, 0)]


def test_an_error_in_a_late_slice_is_answered_and_others_go_on() -> None:
    _, answers = serve((13, 2), (2, 1))
    assert answers == [(13, 17), (2, 0)]


def test_peers_have_their_turn_one_after_the_other() -> None:
    """However much one of them has sent; what one has sent is done in its order."""
    work, done = Work(), list[tuple[int, int]]()

    def counted(asked: Any, body: Any, ctx: Context) -> Steps[Reply]:
        answer = yield from work(asked, body, ctx)
        done.append(divmod(ctx.opaque, 100))
        return answer

    async def scene() -> None:
        owner = SimOwner(Dispatcher({CODE: SlicedRequests().handler(counted)}))
        for peer in range(20):
            frames = [request(100 * peer + number, 3) for number in range(8)]
            connect(owner)[0].data_received(b"".join(frames))
        connect(owner)[0].data_received(request(2000, 0))
        await asyncio.gather(*owner.tasks)

    asyncio.run(scene())
    assert done.index((20, 0)) <= 21  # one of each, and the one that was being worked on
    assert sorted(done) == sorted(done, key=lambda each: each[0])  # stable: each peer's in order


def test_who_is_cancelled_while_it_waits_leaves_the_turn_to_others() -> None:
    async def scene() -> list[int]:
        turns, begun = SlicedRequests(), list[int]()

        def steps(number: int) -> Steps[int]:
            begun.append(number)
            yield
            return number

        peers = [connect(SimOwner(Dispatcher({})))[0] for _ in range(4)]
        tasks = [
            asyncio.create_task(turns.alone(steps(number), peer))
            for number, peer in enumerate(peers)
        ]
        await asyncio.sleep(0)
        tasks[1].cancel()
        while not tasks[0].done():
            await asyncio.sleep(0)
        tasks[2].cancel()  # its turn has just come
        assert await tasks[3] == 3
        assert await turns.alone(steps(4), peers[0]) == 4
        return begun

    assert asyncio.run(scene()) == [0, 3, 4]


def test_what_asynchronous_handlers_do_at_length_is_done_one_after_the_other() -> None:
    async def scene() -> list[tuple[int, int]]:
        turns, log, turn = SlicedRequests(), list[tuple[int, int]](), 0
        peer = connect(SimOwner(Dispatcher({})))[0]

        def steps(number: int) -> Steps[int]:
            for _ in range(2):
                log.append((number, turn))
                yield
            log.append((number, turn))
            return number

        work = asyncio.gather(*(turns.alone(steps(number), peer) for number in range(3)))
        while not work.done():
            await asyncio.sleep(0)
            turn += 1
        assert await work == [0, 1, 2]
        return log

    log = asyncio.run(scene())
    assert [number for number, _ in log] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len({turn for _, turn in log}) == len(log)


def test_nothing_is_done_for_who_has_gone() -> None:
    work, answers = serve((1, 5), (2, 1000), closes_after=1)
    assert work.log.count(2) == 0
    assert answers == []
    assert sorted(work.closed) == [1]  # the other one never began


def test_what_is_short_is_not_done_at_once_when_there_is_much_of_it() -> None:
    async def scene() -> tuple[list[int], list[int]]:
        now = 0.0

        def work(_request: Any, body: Any, _ctx: Context) -> Steps[Reply]:
            nonlocal now
            now += 0.001
            return Reply()
            yield

        turns = SlicedRequests(lambda: now)
        connection, transport = connect(SimOwner(Dispatcher({CODE: turns.handler(work)})))
        answered = []
        connection.data_received(b"".join(request(number, 0) for number in range(5)))
        for _ in range(20):
            answered.append(len(FrameDecoder().feed(bytes(transport.written))))
            await asyncio.sleep(0)
        now += 1.0
        transport.written.clear()
        connection.data_received(request(9, 0))
        return answered, [len(FrameDecoder().feed(bytes(transport.written)))]

    answered, later = asyncio.run(scene())
    assert (answered[0], answered[-1]) == (2, 5)
    assert max(b - a for a, b in pairwise(answered)) == 1
    assert later == [1]


def test_others_have_their_turn() -> None:
    async def scene() -> int:
        turns = 0

        def steps() -> Steps[str]:
            for _ in range(10):
                yield
            return "done"

        task = asyncio.create_task(in_slices(steps()))
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        assert await task == "done"
        return turns

    assert asyncio.run(scene()) >= 10


def test_a_handler_outside_of_a_server() -> None:
    ctx = cast(Context, SimpleNamespace(opaque=1, connection=SimpleNamespace(closed=False)))
    assert SlicedRequests().handler(Work())(None, b"0", ctx) == Reply(body=b"0")
    assert at_once(Work()(None, b"3", ctx)) == Reply(body=b"3")


@pytest.mark.parametrize(("count", "lengths"), [(0, []), (3, [3]), (7, [3, 3, 1])])
def test_slices(count: int, lengths: list[int]) -> None:
    assert [len(each) for each in slices(range(count), 3)] == lengths


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text(max_size=8)
    | st.floats(allow_nan=False)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(max_size=5), inner)
        | st.dictionaries(st.integers(0, 99), st.integers())
    ),
    max_leaves=50,
)


@given(values, st.integers(1, 20))
def test_a_body_in_slices_is_the_same_body(value: Any, at_a_time: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aiorocketmq.remoting.protocol.fastjson.writer._PIECES_AT_ONCE", at_a_time)
        assert at_once(encode_in_slices(value)) == encode_body(value)


def test_a_table_of_records_in_slices() -> None:
    row = OffsetWrapper(broker_offset=1, consumer_offset=2, last_timestamp=3)
    stats = ConsumeStats(
        offset_table={MessageQueue("T", "b", number): row for number in range(5000)},
        consume_tps=1.5,
    )
    body = ConsumeStatsList(
        consume_stats_list=[{"g": [stats, stats]}, {"h": []}], broker_addr="a:1", total_diff=3
    )
    steps = encode_in_slices(body)
    for _ in range(3):
        next(steps)  # there are several
    assert at_once(encode_in_slices(body)) == encode_body(body)


def test_of_one_peer_a_few_long_requests_wait_and_the_others_are_not_even_read() -> None:
    """A peer that asks for whole tables faster than they can be made, and reads no answer, would
    have them pile up."""

    async def scene() -> None:
        owner = SimOwner(Dispatcher({CODE: SlicedRequests().handler(Work())}))
        connection, transport = connect(owner)
        connection.data_received(b"".join(request(number, 3) for number in range(200)))
        assert connection.in_flight < 16
        assert not transport.reading
        most = connection.in_flight
        while connection.busy or connection.in_flight:
            await asyncio.sleep(0)
            most = max(most, connection.in_flight)
        assert most < 16
        assert transport.reading
        assert [opaque for opaque, _ in answers_in(transport)] == list(range(200))

    asyncio.run(scene())
