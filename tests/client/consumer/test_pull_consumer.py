"""A pull consumer on a scripted broker: what it says of itself, how far it runs ahead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.consumer.pull_consumer import PullConsumer
from aiorocketmq.client.consumer.pull_stream import PullStream
from aiorocketmq.client.consumer.push_consumer import PushConsumer
from aiorocketmq.client.errors import ClientStateError
from aiorocketmq.remoting.dispatch import Dispatcher, Reply
from aiorocketmq.remoting.errors import BrokerError
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import OffsetResponse
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.signature import Credentials
from aiorocketmq.remoting.transport.client import RemotingClient, _Peer
from aiorocketmq.remoting.transport.connection import Connection

from ...sim import SimOwner, SimTransport
from ..scripted_broker import ScriptedBroker
from ..test_pull_loop import Scene as Loop
from ..test_pull_loop import answer

PULL = RequestCode.PULL_MESSAGE


class Scene:
    """Three queues without end; a pull brings two messages."""

    def __init__(self, *, queues: int = 3, **options: Any) -> None:
        self.broker = ScriptedBroker()
        self.broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: Reply(
            header=OffsetResponse(offset=0)
        )
        self.broker.answers[PULL] = lambda request: answer(
            0, request.queue_offset + 2, "a", "a", queue_id=request.queue_id
        )
        self.instance = self.broker.instance()
        self.queues = self.broker.know_topic(self.instance, "T", queues)
        options = {"auto_commit": False, **options}
        self.consumer = PullConsumer("g", instance=self.instance, **options)

    @property
    def pulls(self) -> list[PullMessageRequest]:
        return self.broker.requests(PULL)

    async def rest(self) -> int:
        """Until nothing more is pulled."""
        before = -1
        while before != len(self.pulls):
            before = len(self.pulls)
            for _ in range(50):
                await asyncio.sleep(0)
        return before


def test_all_queues_together_have_a_limit() -> None:
    async def main() -> None:
        scene = Scene(max_cached=100, max_cached_total=7)
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            await scene.consumer.assign(scene.queues)
            first = await scene.rest()
            held = sum(len(stream) for stream in scene.consumer._streams.values())
            assert 7 < held == 2 * first <= 7 + 3 * 2  # a pull under way may go over it
            await scene.consumer.poll(max_messages=held)
            assert await scene.rest() > first

    asyncio.run(main())


def test_pulls_side_by_side_do_not_go_over_that_limit_together() -> None:
    async def main() -> None:
        scene = Scene(queues=20, pull_batch=2, max_cached_total=8)
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            await scene.consumer.assign(scene.queues)
            for _ in range(3):
                await scene.rest()
                held = sum(len(stream) for stream in scene.consumer._streams.values())
                assert 8 < held <= 8 + 2
                assert scene.consumer._streams.room.held == held
                await scene.consumer.poll(max_messages=5)

    asyncio.run(main())


def test_a_pull_that_a_broker_holds_keeps_nobody_from_pulling() -> None:
    """Where there is nothing it takes as long as it was asked to."""

    async def main() -> None:
        scene = Scene(queues=20, pull_batch=2, max_cached_total=4)
        scene.broker.answers[PULL] = lambda _: None  # type: ignore[assignment, return-value]
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            await scene.consumer.assign(scene.queues)
            while len({pull.queue_id for pull in scene.pulls}) < 20:
                before = await scene.rest()
                scene.broker.clock.advance(0.3)
                assert await scene.rest() in (before + 3, 20)

    asyncio.run(main())


def test_what_a_poll_costs_does_not_grow_with_the_square_of_the_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    length = PullStream.__len__

    def counted(stream: PullStream) -> int:
        nonlocal looks
        looks += 1
        return length(stream)

    async def main() -> None:
        nonlocal looks
        scene = Scene(queues=50, max_cached_total=100)
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            await scene.consumer.assign(scene.queues)
            await scene.rest()
            looks, pulls = 0, len(scene.pulls)
            monkeypatch.setattr(PullStream, "__len__", counted)
            for _ in range(10):
                await scene.consumer.poll(max_messages=1)
                await scene.rest()
            assert looks <= 10 * 10
            assert len(scene.pulls) > pulls

    asyncio.run(main())


def test_what_waits_is_counted_whatever_becomes_of_it() -> None:
    async def main() -> None:
        scene = Scene(max_cached=6)
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            consumer, (first, second, third) = scene.consumer, scene.queues
            room = consumer._streams.room
            await consumer.assign(scene.queues)
            await scene.rest()
            assert room.held == 18
            consumer.pause(first, second)
            consumer.pause(first)
            assert room.held == 6
            consumer.resume(first)
            assert room.held == 12
            consumer._move(consumer._streams[first], 0)
            assert room.held == 6
            await scene.rest()
            assert room.held == 12
            await consumer.poll(max_messages=1)
            assert room.held == 11
            await consumer.assign([third])
            await scene.rest()
            assert room.held == len(consumer._streams[third])

    asyncio.run(main())


def test_what_a_paused_queue_holds_stops_nobody() -> None:
    async def main() -> None:
        scene = Scene(max_cached=4, max_cached_total=4)
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            await scene.consumer.assign(scene.queues)
            await scene.rest()
            scene.consumer.pause(*scene.queues[:2])
            await scene.rest()
            asked = len([pull for pull in scene.pulls if pull.queue_id == 2])
            while not await scene.consumer.poll(0, 4):
                pass
            await scene.rest()
            assert len([pull for pull in scene.pulls if pull.queue_id == 2]) > asked

    asyncio.run(main())


def test_who_leaves_a_loop_gets_the_rest_all_the_same() -> None:
    async def main() -> None:
        scene = Scene(max_cached=4)
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            await scene.consumer.assign(scene.queues[:1])
            await scene.rest()
            seen = []
            for _ in range(2):
                async for message in scene.consumer:
                    seen.append(message.queue_offset)
                    break
            messages = scene.consumer.__aiter__()  # and one that nobody has closed
            seen.append((await anext(messages)).queue_offset)
            seen += [each.queue_offset for each in await scene.consumer.poll(0)]
            assert seen == [0, 1, 2, 3]

    asyncio.run(main())


def test_a_queue_that_is_paused_in_a_loop_has_no_more_turns() -> None:
    async def main() -> None:
        scene = Scene(max_cached=4)
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            await scene.consumer.assign(scene.queues)
            await scene.rest()
            messages = scene.consumer.__aiter__()
            await anext(messages)
            (paused,) = [q for q in scene.queues if scene.consumer.position(q)]
            scene.consumer.pause(paused)
            for _ in range(20):
                await anext(messages)
            assert scene.consumer.position(paused) == 1
            scene.consumer.resume(paused)
            while scene.consumer.position(paused) == 1:
                await anext(messages)

    asyncio.run(main())


def test_nothing_is_handed_out_of_a_queue_that_is_about_to_go() -> None:
    async def main() -> None:
        ends, told = asyncio.Event(), list[MessageQueue]()

        async def on_revoke(queues: tuple[MessageQueue, ...]) -> None:
            told.extend(queues)
            await ends.wait()

        scene = Scene(max_cached=4, on_revoke=on_revoke)
        scene.consumer.subscribe("T")
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            messages = scene.consumer.__aiter__()
            await anext(messages)
            await scene.rest()
            scene.broker.members = ["0", scene.instance.client_id]
            scene.consumer.wake_rebalance()
            more: asyncio.Future[MessageExt] = asyncio.ensure_future(anext(messages))
            while not told:
                await asyncio.sleep(0)
            before = {queue: scene.consumer.position(queue) for queue in told}
            for _ in range(20):
                await more
                more = asyncio.ensure_future(anext(messages))
            after = {queue: scene.consumer.position(queue) for queue in told}
            ends.set()
            await more
        assert after == before

    asyncio.run(main())


@pytest.mark.parametrize("where", ["begin", "end", "offset"])
def test_who_seeks_in_a_queue_that_goes_meanwhile_does_not_get_it_back(where: str) -> None:
    async def main() -> None:
        scene = Scene(max_cached=4)
        for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET):
            scene.broker.answers[code] = lambda _: Reply(header=OffsetResponse(offset=9))
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            (queue, *others) = scene.queues
            await scene.consumer.assign(scene.queues)
            if where == "begin":
                seeking = asyncio.create_task(scene.consumer.seek_to_begin(queue))
            elif where == "end":
                seeking = asyncio.create_task(scene.consumer.seek_to_end(queue))
            else:
                seeking = asyncio.create_task(scene.consumer.seek(queue, 9))
            await asyncio.sleep(0)
            await scene.consumer.give_up([queue])
            with pytest.raises(ClientStateError, match="not assigned"):
                await seeking
            assert scene.consumer.assignment() == set(others)
            before = len([pull for pull in scene.pulls if pull.queue_id == queue.queue_id])
            for _ in range(10):
                await scene.consumer.poll(0, 100)
                await scene.rest()
            assert before == len([pull for pull in scene.pulls if pull.queue_id == queue.queue_id])

    asyncio.run(main())


def test_a_queue_is_gone_while_its_offset_is_told() -> None:
    """Who seeks in it meanwhile would have it read for good, whoever gives it up as well find
    nothing."""

    async def main() -> None:
        scene = Scene(max_cached=4, auto_commit=True)
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            await scene.consumer.assign(scene.queues[:1])
            await scene.rest()
            await scene.consumer.poll(0, 1)
            await scene.consumer.poll(0, 1)
            giving = [
                asyncio.create_task(scene.consumer.give_up(scene.queues[:1])) for _ in range(2)
            ]
            await asyncio.sleep(0)
            with pytest.raises(ClientStateError, match="not assigned"):
                await scene.consumer.seek_to_begin(scene.queues[0])
            await asyncio.gather(*giving)
            (told,) = scene.broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)
            assert told.commit_offset == 1

    asyncio.run(main())


def test_what_was_not_handed_out_is_read_again_where_a_queue_ends_earlier() -> None:
    async def main() -> None:
        scene = Scene()
        answers = scene.broker.answers
        pull, ends = answers[PULL], answer(ResponseCode.PULL_OFFSET_MOVED, 3)
        answers[PULL] = lambda request: ends if request.queue_offset >= 4 else pull(request)
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            await scene.consumer.assign(scene.queues[:1])
            for offset in (0, 1):
                (message,) = await scene.consumer.poll(1, 1)
                assert message.queue_offset == offset
            await scene.rest()
            answers[PULL] = pull
            scene.broker.clock.advance(1.0)
            again: list[int] = []
            while len(again) < 4:
                again += [each.queue_offset for each in await scene.consumer.poll(1, 1)]
            assert again == [1, 2, 3, 4]  # 1 was handed out, and did not count as done yet

    asyncio.run(main())


def test_what_was_pulled_ahead_of_a_topic_that_is_away_is_not_committed() -> None:
    """It may be back, as where a broker had not heard of it yet: then that has to be read."""

    async def main() -> None:
        scene = Scene()
        answers = scene.broker.answers
        pull, gone = answers[PULL], Reply(int(ResponseCode.TOPIC_NOT_EXIST), remark="which one?")
        answers[PULL] = lambda request: gone if request.queue_offset >= 4 else pull(request)
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            await scene.consumer.assign(scene.queues[:1])
            (message,) = await scene.consumer.poll(1, 1)
            await scene.rest()
            await scene.consumer.commit()
            assert scene.broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET) == []
            await scene.consumer.commit({message.queue: 1})
            (told,) = scene.broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)
            assert told.commit_offset == 1

    asyncio.run(main())


def test_another_expression_counts_although_it_could_not_be_assigned_the_first_time() -> None:
    async def main() -> None:
        scene = Scene(max_cached=4)
        other = MessageQueue("Other", *scene.queues[0][1:])
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            await scene.consumer.assign(scene.queues[:1], "a")
            await scene.rest()
            answers, asks = scene.broker.answers, RequestCode.GET_ROUTEINFO_BY_TOPIC
            unknown, answers[asks] = answers[asks], lambda _: Reply(ResponseCode.SYSTEM_ERROR)
            with pytest.raises(BrokerError):
                await scene.consumer.assign([scene.queues[0], other], "b")
            answers[asks] = unknown
            await scene.consumer.assign([scene.queues[0], other], "b")
            asked = len(scene.pulls)
            for _ in range(50):
                await asyncio.sleep(0)
            new = [pull for pull in scene.pulls[asked:] if pull.topic == "T"]
            assert {pull.subscription for pull in new} == {"b"}

    asyncio.run(main())


@pytest.mark.parametrize("credentials", [None, Credentials("key", "secret")])
def test_it_is_a_stream_client_and_says_so(credentials: Credentials | None) -> None:
    async def main() -> None:
        instance = PullConsumer("g", namesrv="ns:1", credentials=credentials).instance
        assert instance.client_id.endswith("@STREAM")
        remoting, transport = instance.remoting, SimTransport()
        assert isinstance(remoting, RemotingClient)
        connection = Connection(SimOwner(Dispatcher({})), pause_reading=False)
        connection.connection_made(transport)
        remoting._peers["h:1"] = peer = _Peer()
        peer.connection = connection
        await remoting.invoke_oneway("h:1", RequestCode.HEART_BEAT)
        asking = asyncio.create_task(
            remoting.invoke("h:1", RequestCode.HEART_BEAT, ext_fields={"other": "1"})
        )
        await asyncio.sleep(0)
        connection.flush()
        assert bytes(transport.written).count(b'"ReqT":"0"') == 2
        assert bytes(transport.written).count(b'"Signature":"') == (0 if credentials is None else 2)
        assert not remoting.sends_plain_json
        asking.cancel()

    asyncio.run(main())
    for other in (PushConsumer("g", namesrv="ns:1").instance, ClientInstance(namesrv="ns:1")):
        assert not other.client_id.endswith("@STREAM")
        assert other.remoting._ext_fields is None


@pytest.mark.parametrize(
    ("make", "text", "flags"),
    [
        (lambda: PullConsumer("g", namesrv="ns:1"), "a", 22),
        (lambda: PushConsumer("g", namesrv="ns:1", post_subscription=True), "a", 6),
        (lambda: PushConsumer("g", namesrv="ns:1"), None, 2),
    ],
)
def test_who_tells_with_every_pull_what_is_subscribed(
    make: Any, text: str | None, flags: int
) -> None:
    async def main() -> None:
        loop = Loop(
            answer(0, 6, "a"),
            subscribe="a",
            settings=make()._settings._replace(commits_on_pull=False),
        )
        await loop.play(lambda: len(loop.pulls) == 1)
        (pull,) = loop.pulls
        assert (pull.subscription, pull.sys_flag) == (text, flags)
        assert pull.sub_version == (0 if flags & PullSysFlag.LITE_PULL else 1)
        await loop.close()

    asyncio.run(main())


def test_what_is_taken_back_comes_again_and_is_not_committed_before() -> None:
    async def main() -> None:
        scene = Scene(max_cached=2)
        scene.broker.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = lambda _: Reply()
        async with asyncio.timeout(30), scene.instance, scene.consumer:
            consumer = scene.consumer
            await consumer.assign(scene.queues)
            await scene.rest()
            await consumer.poll(1, 1)
            taken = await consumer.poll(1, 5)
            consumer.take_back(taken)
            assert not consumer.in_hand
            await consumer.commit()
            told = scene.broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)
            assert sorted(each.commit_offset for each in told) == [0, 0, 1]
            again = await consumer.poll(1, 9)
            for queue in scene.queues:
                offsets = [
                    [m.queue_offset for m in some if m.queue == queue] for some in (taken, again)
                ]
                assert offsets[1][: len(offsets[0])] == offsets[0]

    asyncio.run(main())


def test_who_assigns_while_its_consumer_stops_reads_nothing() -> None:
    """Whatever it waits for then."""

    async def stops_after(steps: int) -> bool:
        scene = Scene()
        async with asyncio.timeout(30), scene.instance:
            await scene.consumer.start()
            assigning = asyncio.create_task(scene.consumer.assign(scene.queues))
            for _ in range(steps):
                await asyncio.sleep(0)
            in_time = assigning.done()
            await scene.consumer.stop()
            (error,) = await asyncio.gather(assigning, return_exceptions=True)
            assert (error is None) == in_time
            if error is not None:
                assert isinstance(error, ClientStateError)
                assert "is stopped" in str(error)
            assert len(scene.consumer._tasks) == 0
            assert scene.consumer.assignment() == frozenset()
        return in_time

    async def main() -> None:
        steps = 0
        while not await stops_after(steps):
            steps += 1
        assert steps > 5

    asyncio.run(main())
