"""A pull consumer on a scripted broker: what it says of itself, how far it runs ahead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.consumer.pull_consumer import PullConsumer
from aiorocketmq.client.consumer.push_consumer import PushConsumer
from aiorocketmq.remoting.dispatch import Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.base import OffsetResponse
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
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

    def __init__(self, **options: Any) -> None:
        self.broker = ScriptedBroker()
        self.broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: Reply(
            header=OffsetResponse(offset=0)
        )
        self.broker.answers[PULL] = lambda request: answer(0, request.queue_offset + 2, "a", "a")
        self.instance = self.broker.instance()
        self.queues = self.broker.know_topic(self.instance, "T", 3)
        self.consumer = PullConsumer("g", instance=self.instance, auto_commit=False, **options)

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
