"""A broker that is away for a moment is waited for: attempts are for answers, the time limit ends a
send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiorocketmq import Message, Producer, SendTimedOut
from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.consumer.pulling import Pulled, PullRequest, PullSettings, QueuePuller
from aiorocketmq.client.consumer.subscription import tag_subscription
from aiorocketmq.client.errors import SendFailed
from aiorocketmq.client.producer.sending import SendResult
from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Handler, Reply
from aiorocketmq.remoting.errors import ClientClosedError, ConnectError
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.pull import PullSysFlag
from aiorocketmq.remoting.protocol.commands.send import SendMessageResponse
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from ..sim import SimOwner
from .scripted_broker import ADDRESS, BROKER, NotingOwner, ScriptedBroker, member_of

STORED = Reply(header=SendMessageResponse(msg_id="AA", queue_id=0, queue_offset=17))
TOPIC = "T"
STEP_S = 0.01


async def pass_time(broker: ScriptedBroker, seconds: float) -> None:
    for _ in range(round(seconds / STEP_S)):
        broker.clock.advance(STEP_S)
        for _ in range(10):
            await asyncio.sleep(0)


class Scene:
    """A producer with default options, and its only broker."""

    def __init__(self, *, retry_patience: float = 0.0) -> None:
        self.broker = ScriptedBroker()
        self.broker.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: STORED
        self.instance: ClientInstance = self.broker.instance()
        self.broker.know_topic(self.instance, TOPIC)
        self.producer = Producer("g", instance=self.instance, retry_patience=retry_patience)

    def go_away(self) -> None:
        self.broker.down = True
        self.broker.restart()

    @property
    def sends(self) -> int:
        return len(self.broker.requests(RequestCode.SEND_MESSAGE_V2))


def in_scene(
    test: Callable[[Scene], Coroutine[Any, Any, None]], *, retry_patience: float = 0.0
) -> Callable[[], None]:
    def run() -> None:
        async def main() -> None:
            scene = Scene(retry_patience=retry_patience)
            async with asyncio.timeout(60), scene.instance, scene.producer:
                await test(scene)

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


def send(scene: Scene) -> Coroutine[Any, Any, SendResult]:
    return scene.producer.send(Message(TOPIC, b"x"))


async def send_soon(scene: Scene) -> SendResult:
    return await scene.producer.send_soon(Message(TOPIC, b"x"))


def send_bound(scene: Scene) -> Coroutine[Any, Any, SendResult]:
    return scene.producer.send(Message(TOPIC, b"x"), sharding_key="k")


@pytest.mark.parametrize("connected_before", [False, True])
@pytest.mark.parametrize("how", [send, send_soon, send_bound])
@pytest.mark.parametrize("away_s", [0.5, 1.0, 2.0])
def test_a_send_waits_until_its_broker_is_back(
    how: Callable[[Scene], Coroutine[Any, Any, SendResult]], away_s: float, connected_before: bool
) -> None:
    @in_scene
    async def test(scene: Scene) -> None:
        if connected_before:
            await scene.producer.send(Message(TOPIC, b"x"))
        scene.go_away()
        await asyncio.sleep(0)
        sent = asyncio.create_task(how(scene))
        await pass_time(scene.broker, away_s)
        assert not sent.done()
        scene.broker.down = False
        await pass_time(scene.broker, 0.6)
        assert (await sent).queue_offset == 17
        assert scene.sends == 1 + connected_before

    test()


@in_scene
async def test_the_time_limit_is_what_ends_it(scene: Scene) -> None:
    scene.go_away()
    sent = asyncio.create_task(send(scene))
    await pass_time(scene.broker, 2.9)
    assert not sent.done()
    await pass_time(scene.broker, 0.2)
    with pytest.raises(
        SendTimedOut, match=r"broker-a .* after 2\.\d+ s: cannot connect .* connection refused"
    ) as failure:
        await sent
    assert len(failure.value.attempts) == 1
    assert scene.broker.knocks == 9, "after 0, 0.05, 0.15, 0.35, 0.75, 1.25, ... s"


@in_scene
async def test_many_sends_knock_no_more_than_one(scene: Scene) -> None:
    scene.go_away()
    sent = [asyncio.create_task(send(scene)) for _ in range(50)]
    await pass_time(scene.broker, 1.0)
    assert scene.broker.knocks == 5
    scene.broker.down = False
    await pass_time(scene.broker, 0.6)
    assert len(await asyncio.gather(*sent)) == 50
    assert scene.sends == 50


@in_scene
async def test_answers_use_up_attempts(scene: Scene) -> None:
    scene.broker.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: Reply(
        int(ResponseCode.SERVICE_NOT_AVAILABLE)
    )
    with pytest.raises(SendFailed, match="SERVICE_NOT_AVAILABLE"):
        await send(scene)
    assert scene.sends == 3


@pytest.mark.parametrize("how", [send, send_soon, send_bound])
@pytest.mark.parametrize("answers", [True, False])
def test_patience_gives_a_broker_time_to_come_back(
    how: Callable[[Scene], Coroutine[Any, Any, SendResult]], answers: bool
) -> None:
    """It says that it stores nothing now, or ends each connection that asks."""

    async def test(scene: Scene) -> None:
        def refuse(_: Any) -> Reply:
            if not answers:
                scene.broker.restart()
            return Reply(int(ResponseCode.SERVICE_NOT_AVAILABLE))

        scene.broker.answers[RequestCode.SEND_MESSAGE_V2] = refuse
        sent = asyncio.create_task(how(scene))
        await pass_time(scene.broker, 1.0)
        assert not sent.done()
        assert 4 <= scene.sends <= 8, "pauses of 0.05, 0.1, 0.2, 0.4, 0.5 s"
        scene.broker.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: STORED
        await pass_time(scene.broker, 0.6)
        assert (await sent).queue_offset == 17

    in_scene(test, retry_patience=2.0)()


@pytest.mark.parametrize("how", [send, send_soon, send_bound])
def test_patience_ends(how: Callable[[Scene], Coroutine[Any, Any, SendResult]]) -> None:
    async def test(scene: Scene) -> None:
        scene.broker.answers[RequestCode.SEND_MESSAGE_V2] = lambda _: Reply(
            int(ResponseCode.SERVICE_NOT_AVAILABLE)
        )
        sent = asyncio.create_task(how(scene))
        await pass_time(scene.broker, 1.0)
        assert not sent.done()
        await pass_time(scene.broker, 1.0)
        with pytest.raises(SendFailed, match="SERVICE_NOT_AVAILABLE"):
            await sent

    in_scene(test, retry_patience=2.0)()


@in_scene
async def test_a_client_that_is_closed_waits_for_nobody(scene: Scene) -> None:
    await scene.instance.remoting.close()
    with pytest.raises(ClientClosedError):
        await send(scene)


class OnePull:
    """Wants to know what one pull brings."""

    def __init__(self) -> None:
        self.pulled: asyncio.Future[Pulled] = asyncio.get_running_loop().create_future()

    async def room(self) -> None:
        if self.pulled.done():
            await asyncio.Event().wait()

    def put(self, pulled: Pulled) -> None:
        self.pulled.set_result(pulled)

    @property
    def consumed(self) -> int | None:
        return None

    def restart(self, _offset: int) -> None:
        raise AssertionError


@in_scene
async def test_a_pull_waits_for_the_next_attempt_to_connect(scene: Scene) -> None:
    scene.go_away()
    with pytest.raises(ConnectError):
        await scene.instance.remoting.connection(ADDRESS)
    scene.broker.down = False
    scene.broker.have_nothing(5)
    member, target = member_of(scene.instance, NotingOwner(), TOPIC), OnePull()
    settings = PullSettings(32, 15.0, PullSysFlag.SUSPEND, commits_on_pull=False)
    puller = QueuePuller(
        PullRequest(
            member,
            MessageQueue(TOPIC, BROKER, 0),
            tag_subscription(TOPIC, "*", 1),
            settings,
            5,
        ),
        target,
    )
    pulling = asyncio.create_task(puller.run())
    await pass_time(scene.broker, 0.1)
    assert target.pulled.done(), "after an error it would rest for a second"
    pulling.cancel()


# --- requests
# --------------------------------------------------------------------------------------------------


@in_scene
async def test_a_request_does_not_wait_for_a_broker_that_hears_no_heartbeat(scene: Scene) -> None:
    """Half of its time is left for the message; a broker that hangs brings no reply anyway."""
    broker = scene.broker

    async def never(_request: object, _body: Body, _ctx: Context) -> Reply:
        return await asyncio.Event().wait() and Reply()

    codes = (RequestCode.SEND_MESSAGE_V2, RequestCode.GET_ROUTEINFO_BY_TOPIC)
    handlers: dict[RequestCode, Handler] = dict.fromkeys(codes, broker._serve)
    handlers[RequestCode.HEART_BEAT] = never
    broker.owner = SimOwner(Dispatcher(handlers), clock=broker.clock)
    asked = asyncio.create_task(scene.producer.request(Message(TOPIC, b"x"), timeout=2.0))
    await pass_time(broker, 0.9)
    assert scene.sends == 0
    await pass_time(broker, 0.2)
    assert scene.sends == 1
    asked.cancel()
    broker.restart()
