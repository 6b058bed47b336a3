"""When frames are gathered, and which of them are served together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from aiorocketmq.remoting import gathering
from aiorocketmq.remoting.connection import Connection
from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.flow import Limits
from aiorocketmq.remoting.gathering import AlikeRequests, ManyHandler
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest
from aiorocketmq.remoting.protocol.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.header_shape import HeaderShape, Varying
from aiorocketmq.remoting.protocol.serialization import RemotingCommand, decode_header, encode_header
from aiorocketmq.remoting.protocol.wire import to_fields

from ..sim import ManualClock, SimOwner, SimTransport, connect

pytest.importorskip("numpy")

CODE = RequestCode.SEND_MESSAGE
FEW = 4


@pytest.fixture(autouse=True)
def _small_groups() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "_FEW", FEW)
        yield


class Handlers:
    """Answer every request with the number of those that were served with it."""

    def __init__(self) -> None:
        self.willing = True
        self.served: list[list[int]] = []

    def one(self, _request: SendMessageRequest, _body: Body, ctx: Context) -> Reply:
        self.served.append([ctx.opaque])
        return Reply(0, remark="1")

    def many(self, requests: AlikeRequests) -> bool:
        if not self.willing:
            return False
        opaques = requests.columns.numbers["opaque"].tolist()
        self.served.append(opaques)
        answers = [RemotingCommand(code=0, flag=1, opaque=opaque, remark=str(len(opaques))) for opaque in opaques]
        requests.reply([encode_frame(0, encode_header(answer, 0)) for answer in answers])
        return True

    @property
    def dispatcher(self) -> Dispatcher:
        return Dispatcher({CODE: self.one}, many={CODE: self.many_handler})

    @property
    def many_handler(self) -> ManyHandler:
        return ManyHandler(Varying(("queue_id",), "properties"), self.many, self.one)


class Scene:
    def __init__(self, limits: Limits | None = None) -> None:
        self.handlers = Handlers()
        self.clock = ManualClock()
        self.owner = SimOwner(self.handlers.dispatcher, clock=self.clock, limits=limits)
        assert self.owner.gathering is not None
        self.gathering = self.owner.gathering
        self.gathering.active = True

    def connect(self) -> tuple[Connection, SimTransport]:
        return connect(self.owner)

    async def turn(self) -> list[list[int]]:
        """End the turn of the loop; what was served since the last one."""
        await asyncio.sleep(0)
        served = self.handlers.served[:]
        self.handlers.served.clear()
        return served


def play(scene: Callable[[Scene], Awaitable[None]], limits: Limits | None = None) -> None:
    async def main() -> None:
        await scene(Scene(limits))

    asyncio.run(main())


def frame(opaque: int, topic: str = "T", key: str = "7F00") -> bytes:
    request = SendMessageRequest(
        producer_group="P", topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties=f"UNIQ_KEY\x01{key}\x02TAGS\x01A",
    )  # fmt: skip
    return encode_frame(
        0, encode_header(RemotingCommand(code=CODE, opaque=opaque, ext_fields=to_fields(request)), 0), b"body"
    )


def answered(transport: SimTransport) -> list[tuple[int, str | None]]:
    commands = [decode_header(form, header) for form, header, _ in FrameDecoder().feed(bytes(transport.written))]
    return [(command.opaque, command.remark) for command in commands]


def test_frames_of_all_connections_are_served_at_the_end_of_the_turn() -> None:
    async def scene(world: Scene) -> None:
        ends = [world.connect() for _ in range(3)]
        ends[0][0].data_received(frame(10) + frame(11))
        ends[1][0].data_received(frame(12))
        ends[2][0].data_received(frame(13) + frame(14)[:20])
        ends[2][0].data_received(frame(14)[20:])
        assert world.handlers.served == []
        assert all(connection.busy for connection, _ in ends)
        assert await world.turn() == [[10, 11, 12, 13, 14]]
        assert [answered(transport) for _, transport in ends] == [
            [(10, "5"), (11, "5")], [(12, "5")], [(13, "5"), (14, "5")]
        ]  # fmt: skip
        assert not any(connection.busy for connection, _ in ends)
        assert (ends[0][1].writes, ends[1][1].writes) == (1, 1)

    play(scene)


def test_large_bodies_do_not_wait_for_the_end_of_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_MOST_BYTES", 10 * len(b"body"))

    async def scene(world: Scene) -> None:
        connection, _ = world.connect()
        for start in (10, 16, 22):
            connection.data_received(b"".join(frame(start + number) for number in range(6)))
        assert world.handlers.served == [list(range(10, 22))]
        assert await world.turn() == [list(range(10, 22)), list(range(22, 28))]

    play(scene)


def test_few_are_served_one_by_one() -> None:
    async def scene(world: Scene) -> None:
        connection, transport = world.connect()
        connection.data_received(b"".join(frame(10 + number) for number in range(FEW - 1)))
        assert await world.turn() == [[10], [11], [12]]
        assert answered(transport) == [(10, "1"), (11, "1"), (12, "1")]
        assert world.gathering.active

    play(scene)


def test_gathering_rests_after_many_turns_with_few_frames_one_after_the_other() -> None:
    async def scene(world: Scene) -> None:
        connection, _ = world.connect()

        async def turns(count: int, frames: int) -> None:
            for _ in range(count):
                connection.data_received(b"".join(frame(10 + number) for number in range(frames)))
                await world.turn()

        await turns(15, FEW - 1)
        await turns(1, FEW)
        await turns(15, FEW - 1)
        assert world.gathering.active
        for _ in range(3):  # always as long
            await turns(1, FEW - 1)
            assert not world.gathering.active
            many = b"".join(frame(10 + number) for number in range(10))
            world.clock.advance(0.031)
            connection.data_received(many)
            assert not world.gathering.active
            world.clock.advance(0.001)
            connection.data_received(many)
            assert world.gathering.active
            await turns(15, FEW - 1)

    play(scene)


def test_a_connection_that_sent_something_else_is_served_on_its_own_and_in_order() -> None:
    async def scene(world: Scene) -> None:
        plain, mixed = world.connect(), world.connect()
        mixed[0].data_received(frame(10) + frame(11, topic="U"))
        plain[0].data_received(b"".join(frame(number) for number in range(20, 25)))
        mixed[0].data_received(frame(12))
        assert await world.turn() == [[20, 21, 22, 23, 24], [10], [11], [12]]
        assert answered(mixed[1]) == [(10, "1"), (11, "1"), (12, "1")]

    play(scene)


def test_order_is_kept_when_headers_have_different_lengths() -> None:
    async def scene(world: Scene) -> None:
        connection, _ = world.connect()
        connection.data_received(b"".join(frame(number) for number in range(10, 16)))
        connection.data_received(frame(16, topic="longer"))
        connection.data_received(frame(17))
        assert await world.turn() == [[number] for number in range(10, 18)]

    play(scene)


def test_two_kinds_of_one_length_are_two_groups() -> None:
    async def scene(world: Scene) -> None:
        for topic in "TU":
            connection, _ = world.connect()
            connection.data_received(b"".join(frame(number, topic) for number in range(10, 15)))
        assert await world.turn() == [[10, 11, 12, 13, 14]] * 2
        assert world.gathering.active

    play(scene)


def test_headers_that_stand_alone_do_not_push_out_a_shape_that_serves_many() -> None:
    async def scene(world: Scene) -> None:
        plain, odd = [world.connect()[0] for _ in range(2)], [world.connect()[0] for _ in range(6)]
        for turn in range(12):
            for connection in plain:
                connection.data_received(b"".join(frame(number) for number in range(10, 20)))
            for number, connection in enumerate(odd):
                connection.data_received(frame(20 + number, topic=chr(ord("A") + (turn + number) % 18)))
            served = await world.turn()
            assert served[0] == list(range(10, 20)) * 2
            assert sorted(served[1:]) == [[20 + number] for number in range(6)]
        learn = world.owner.dispatcher.entry_of_usual
        lessons: list[bytes] = []
        world.owner.dispatcher.entry_of_usual = lambda header: lessons.append(header) or learn(header)  # type: ignore[method-assign,func-returns-value]
        plain[0].data_received(b"".join(frame(number) for number in range(10, 20)))
        assert await world.turn() == [list(range(10, 20))]
        assert lessons == []

    play(scene)


def test_a_handler_that_does_not_want_them_gets_them_one_by_one() -> None:
    async def scene(world: Scene) -> None:
        world.handlers.willing = False
        connection, _ = world.connect()
        connection.data_received(b"".join(frame(number) for number in range(10, 15)))
        assert await world.turn() == [[number] for number in range(10, 15)]

    play(scene)


def test_gathering_rests_when_it_does_not_pay_longer_and_longer() -> None:
    async def scene(world: Scene) -> None:
        connection, _ = world.connect()
        many = b"".join(frame(number, key="a-b") for number in range(10, 30))
        rests = []
        for _ in range(13):
            connection.data_received(many)
            await world.turn()
            assert not world.gathering.active
            rest_ms = 0
            while not world.gathering.active:
                world.clock.advance(0.001)
                rest_ms += 1
                connection.data_received(many)
                assert len(world.handlers.served) >= 20  # at once
            rests.append(rest_ms)
        assert rests == [min(2**number, 1024) for number in range(13)]
        connection.data_received(b"".join(frame(number) for number in range(10, 15)))
        while not world.gathering.active:
            world.clock.advance(1)
            connection.data_received(many)
        await world.turn()
        connection.data_received(b"".join(frame(number) for number in range(10, 15)))
        await world.turn()

    play(scene)


def test_what_comes_behind_a_pause_is_learned_whatever_came_before() -> None:
    async def scene(world: Scene) -> None:
        connection, _ = world.connect()
        other = b"".join(frame(number, key="a-b") for number in range(10, 30))
        for _ in range(12):
            connection.data_received(other)
            await world.turn()
            while not world.gathering.active:
                world.clock.advance(1)
                connection.data_received(other)
        await world.turn()
        connection.data_received(b"".join(frame(number) for number in range(10, 20)))
        assert await world.turn() == [list(range(10, 20))]

    play(scene)


def test_a_handler_that_does_not_want_them_is_asked_once() -> None:
    async def scene(world: Scene) -> None:
        connection, _ = world.connect()
        data = b"".join(frame(number) for number in range(10, 15))
        connection.data_received(data)
        assert await world.turn() == [list(range(10, 15))]
        asked: list[AlikeRequests] = []
        handle = world.owner.dispatcher.handle_many

        def refuse(many: ManyHandler, requests: AlikeRequests) -> bool:
            asked.append(requests)
            world.handlers.willing = False
            return handle(many, requests)

        world.owner.dispatcher.handle_many = refuse  # type: ignore[method-assign]
        connection.data_received(data)
        assert await world.turn() == [[number] for number in range(10, 15)]
        assert len(asked) == 1

    play(scene)


@pytest.mark.parametrize("few", [2, 8])
def test_a_handler_may_say_how_many_are_few(few: int) -> None:
    async def scene(world: Scene) -> None:
        handler = world.handlers.many_handler._replace(few=few)
        world.owner.dispatcher._many[int(CODE)] = handler
        connection, _ = world.connect()
        connection.data_received(b"".join(frame(10 + number) for number in range(few)))
        assert await world.turn() == [[10 + number for number in range(few)]]
        connection.data_received(b"".join(frame(10 + number) for number in range(few - 1)))
        assert await world.turn() == [[10 + number] for number in range(few - 1)]

    play(scene)


def test_few_frames_in_a_millisecond_are_not_gathered() -> None:
    async def scene(world: Scene) -> None:
        world.gathering.active = False
        connection, _ = world.connect()
        for number in range(50):
            world.clock.advance(0.001)
            connection.data_received(frame(10 + number))
            assert not world.gathering.active
        connection.data_received(b"".join(frame(number) for number in range(10, 20)))
        assert world.gathering.active

    play(scene)


def test_very_many_do_not_wait_for_the_end_of_the_turn() -> None:
    async def scene(world: Scene) -> None:
        connection, _ = world.connect()
        connection.data_received(b"".join(frame(number) for number in range(1000, 1600)))
        assert [len(served) for served in world.handlers.served] == [600]

    play(scene)


def test_whoever_has_too_much_unanswered_is_looked_at_closer() -> None:
    async def scene(world: Scene) -> None:
        connection, transport = world.connect()
        connection.in_flight = connection.max_in_flight
        connection.data_received(b"".join(frame(number) for number in range(10, 15)))
        assert await world.turn() == []
        assert all("OVERLOAD" in str(remark) for _, remark in answered(transport))

    play(scene, Limits(max_in_flight=3))


def test_messages_of_who_has_gone_are_stored_all_the_same() -> None:
    async def scene(world: Scene) -> None:
        connection, transport = world.connect()
        connection.data_received(b"".join(frame(number) for number in range(10, 15)))
        transport.close()
        assert await world.turn() == [[10, 11, 12, 13, 14]]
        assert transport.written == b""

    play(scene)


def test_an_answer_that_was_queued_leaves_first() -> None:
    async def scene(world: Scene) -> None:
        connection, transport = world.connect()
        connection.data_received(b"".join(frame(number) for number in range(10, 15)))
        connection.send([encode_frame(0, encode_header(RemotingCommand(code=0, flag=1, opaque=9), 0))])
        await world.turn()
        assert [opaque for opaque, _ in answered(transport)] == [9, 10, 11, 12, 13, 14]

    play(scene)


def test_a_bug_ends_the_connections_whose_requests_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(world: Scene) -> None:
        monkeypatch.delattr(HeaderShape, "read")
        connection, transport = world.connect()
        connection.data_received(b"".join(frame(number) for number in range(10, 15)))
        with pytest.raises(AttributeError):
            world.gathering.serve()
        assert transport.ended

    play(scene)


def test_nobody_serves_together_what_a_guard_or_another_handler_wants_to_see() -> None:
    handlers = Handlers()
    many = {CODE: handlers.many_handler}
    assert Dispatcher({CODE: handlers.one}, many=many).serves_many
    assert not Dispatcher({CODE: handlers.one}, many=many, guard=lambda _ctx, _body: None).serves_many
    assert not Dispatcher({CODE: lambda request, body, ctx: handlers.one(request, body, ctx)}, many=many).serves_many
    assert not Dispatcher({}, many=many).serves_many
