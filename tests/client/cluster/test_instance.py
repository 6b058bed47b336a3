"""What a client does by itself: heartbeats and routes, every 30 s and when something changed
(client.md §1.4, §1.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.producer.producer import Producer
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.codes import RequestCode

from ...sim import turns
from ..scripted_broker import ScriptedBroker, route_of

HEARTBEAT, ROUTE = RequestCode.HEART_BEAT, RequestCode.GET_ROUTEINFO_BY_TOPIC


def run(test: Callable[[ScriptedBroker, ClientInstance], Awaitable[None]]) -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        broker.answers[ROUTE] = lambda _: Reply(body=encode_body(route_of(4)))
        instance = broker.instance()
        async with asyncio.timeout(30), instance, Producer("g", instance=instance):
            await turns()
            await test(broker, instance)

    asyncio.run(main())


def test_every_thirty_seconds() -> None:
    async def scenario(broker: ScriptedBroker, instance: ClientInstance) -> None:
        broker.know_topic(instance, "T")
        await turns()
        for rounds in range(3):
            before = len(broker.requests(HEARTBEAT)), len(broker.requests(ROUTE))
            broker.clock.advance(29.9)
            await turns()
            assert (len(broker.requests(HEARTBEAT)), len(broker.requests(ROUTE))) == before, rounds
            broker.clock.advance(0.1)
            await turns()
            assert (len(broker.requests(HEARTBEAT)), len(broker.requests(ROUTE))) == (
                before[0] + 1,
                before[1] + 1,
            )

    run(scenario)


def test_a_broker_that_is_new_hears_of_the_client_at_once() -> None:
    async def scenario(broker: ScriptedBroker, instance: ClientInstance) -> None:
        assert broker.requests(HEARTBEAT) == []
        broker.know_topic(instance, "T")
        await turns()
        assert len(broker.requests(HEARTBEAT)) == 1
        broker.know_topic(instance, "T", queues=8)  # changed, but the broker is the same
        await turns()
        assert len(broker.requests(HEARTBEAT)) == 1
        broker.restart()  # over a new connection it has to be told again
        await turns()
        await instance.remoting.connection("127.0.0.1:10911")
        broker.know_topic(instance, "T", queues=4)
        await turns()
        assert len(broker.requests(HEARTBEAT)) == 2

    run(scenario)


def test_a_topic_that_is_not_known_is_asked_for() -> None:
    async def scenario(broker: ScriptedBroker, instance: ClientInstance) -> None:
        route = await instance.routes.get("T")
        assert len(route.publish_queues) == 4
        await instance.routes.get("T")
        assert [request.topic for request in broker.requests(ROUTE)] == ["T"]

    run(scenario)
