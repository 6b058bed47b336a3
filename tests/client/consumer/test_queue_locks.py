"""A lock counts as long as whoever gave it is the master, and is asked for again as soon as a
broker says that something has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.cluster.route_cache import topic_route
from aiorocketmq.client.consumer.push_consumer import PushConsumer
from aiorocketmq.client.consumer.queue_locks import QueueLocks
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, TopicRouteData
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import ConsumerGroupRequest
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.transport.client import RemotingClient

from ...sim import turns
from ..scripted_broker import ADDRESS, BROKER, ScriptedBroker, route_of

OTHER = "127.0.0.1:20911"
LOCK = RequestCode.LOCK_BATCH_MQ


class MovingLocks:
    """A group of brokers, whose members that do not lead refuse locks; of a client that has the
    four queues of a topic, and their locks from the first leader."""

    def __init__(self) -> None:
        self.broker = ScriptedBroker()
        self.master: str | None = ADDRESS
        self.asked: list[str] = []
        """Of whom locks were asked."""
        self.granted = set(range(4))
        """Numbers of queues that nobody else has."""
        self.instance: ClientInstance = self.broker.instance()
        self.broker.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self._route
        self.queues = self.broker.know_topic(self.instance, "T")
        self.never: asyncio.Future[set[MessageQueue]] = asyncio.get_running_loop().create_future()
        self.locks = QueueLocks(self.instance, "g")
        remoting = self.instance.remoting
        assert isinstance(remoting, RemotingClient)
        invoke = remoting.invoke

        async def noting(address: str, code: RequestCode, *args: object, **more: object) -> object:
            if code is LOCK:
                self.asked.append(address)
                self.broker.answers[LOCK] = self._grant if address == self.master else self._refuse
            return await invoke(address, code, *args, **more)  # type: ignore[arg-type]

        remoting.invoke = noting  # type: ignore[method-assign, assignment]

    def _grant(self, request: object) -> Reply:
        self.broker.locked_by_others = {
            queue for queue in self.queues if queue.queue_id not in self.granted
        }
        return self.broker._lock(request)  # type: ignore[arg-type]

    def _refuse(self, _request: object) -> Reply:
        return Reply(ResponseCode.SLAVE_NOT_AVAILABLE, remark="a slave")

    def route(self, master: str | None) -> TopicRouteData:
        """As name servers have it."""
        ids = {} if master is None else {0: master}
        addresses = {**ids, 2: ADDRESS if master != ADDRESS else OTHER}
        broker = BrokerData(cluster="C", broker_name=BROKER, broker_addrs=addresses)
        return TopicRouteData(queue_datas=route_of(4).queue_datas, broker_datas=[broker])

    def _route(self, _request: object) -> Reply:
        return Reply(body=encode_body(self.route(self.master)))

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 100)):
            self.broker.clock.advance(0.01)
            await turns()

    def held(self) -> set[int]:
        return {queue.queue_id for queue in self.queues if self.locks.holds(queue)}


def play(scene: Callable[[MovingLocks], Awaitable[None]]) -> None:
    async def main() -> None:
        world = MovingLocks()
        assert await world.locks.acquire(world.queues) == set(world.queues)
        world.asked.clear()
        renewing = asyncio.create_task(world.locks.renew(lambda: list(world.queues)))
        await turns()
        try:
            await scene(world)
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            await world.instance.stop()

    asyncio.run(main())


def test_locks_of_who_leads_no_more_end_and_are_asked_of_who_leads_next() -> None:
    async def scene(world: MovingLocks) -> None:
        world.master = None
        world.locks.doubt()
        await turns()
        assert (world.asked, world.held()) == ([ADDRESS], set())
        await world.pass_time(0.3)
        assert world.asked == [ADDRESS]  # as long as nobody leads
        world.master, world.granted = OTHER, {0, 1, 2}
        lost: list[MessageQueue] = []
        world.locks.on_refused = lost.append
        await world.pass_time(0.3)
        assert (world.asked, world.held()) == ([ADDRESS, OTHER], {0, 1, 2})
        assert lost == [world.queues[3]]

    play(scene)


def test_who_wants_a_queue_waits_for_the_next_leader_for_a_second() -> None:
    async def scene(world: MovingLocks) -> None:
        world.master = None
        world.locks.doubt()
        await turns()
        holding = [asyncio.create_task(world.locks.hold(queue)) for queue in world.queues]
        await world.pass_time(0.9)
        assert not any(task.done() for task in holding)
        await world.pass_time(0.2)
        assert not any(await asyncio.gather(*holding))
        world.instance.routes._store(topic_route("T", world.route(ADDRESS)))  # that is late
        world.locks.doubt()
        await turns()
        holding = [asyncio.create_task(world.locks.hold(queue)) for queue in world.queues]
        world.master = OTHER
        world.asked.clear()
        await world.pass_time(0.3)
        assert all(await asyncio.gather(*holding))
        assert world.asked == [OTHER]

    play(scene)


def test_who_has_a_queue_comes_before_who_wants_it() -> None:
    """Who wants it does not wait for the next leader, but tries again later."""

    async def scene(world: MovingLocks) -> None:
        other = QueueLocks(world.instance, "g")
        world.master = None
        world.locks.doubt()
        assert not await other.take(world.queues[0])
        assert world.asked == [ADDRESS] * 2
        world.master = OTHER
        await world.pass_time(0.3)
        assert world.asked == [ADDRESS, ADDRESS, OTHER]
        assert world.held() == {0, 1, 2, 3}

    play(scene)


def test_a_lock_ends_when_the_route_names_another_master() -> None:
    async def scene(world: MovingLocks) -> None:
        world.master = None
        world.instance.routes._store(topic_route("T", world.route(world.master)))
        assert world.held() == {0, 1, 2, 3}  # name servers may have forgotten a master that is well
        world.master = OTHER
        world.instance.routes._store(topic_route("T", world.route(world.master)))
        assert (world.held(), world.asked) == (set(), [])
        assert await world.locks.hold(world.queues[0])
        assert world.asked == [OTHER]

    play(scene)


def test_a_queue_that_is_let_go_while_locks_are_renewed_is_not_ours() -> None:
    async def scene(world: MovingLocks) -> None:
        world.locks.doubt()
        while not world.asked:
            await asyncio.sleep(0)
        await world.locks.release(world.queues[:1])
        await turns()
        assert world.held() == {1, 2, 3}
        codes = [code for code, _ in world.broker.asked]
        assert codes[-2:] == [LOCK, RequestCode.UNLOCK_BATCH_MQ]

    play(scene)


def test_a_broker_that_does_not_answer_keeps_nobody_from_letting_go_of_another_ones() -> None:
    async def scene(world: MovingLocks) -> None:
        silent = MessageQueue("T", "silent", 0)
        lock_at = world.locks._lock_at

        async def locked(broker_name: str, *args: Any, **more: Any) -> set[MessageQueue]:
            if broker_name == "silent":
                return await world.never
            return await lock_at(broker_name, *args, **more)

        world.locks._lock_at = locked  # type: ignore[method-assign]
        world.queues.append(silent)
        world.locks.doubt()
        while not world.asked:
            await asyncio.sleep(0)
        await turns()
        releasing = asyncio.create_task(world.locks.release(world.queues[:1]))
        waiting = asyncio.create_task(world.locks.hold(silent))
        await turns()
        assert releasing.done()
        assert world.held() == {1, 2, 3}
        assert not waiting.done()
        waiting.cancel()

    play(scene)


def test_a_renewal_that_is_cancelled_keeps_nobody() -> None:
    async def main() -> None:
        world = MovingLocks()
        await world.locks.acquire(world.queues)
        renewing = asyncio.create_task(world.locks.renew(lambda: list(world.queues)))
        await turns()
        world.locks.doubt()
        while all(each.is_set() for each in world.locks._renewals.values()):
            await asyncio.sleep(0)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await world.locks.release_all()
        assert not world.held()
        await world.instance.stop()

    asyncio.run(main())


def test_a_word_of_members_that_changed_has_an_ordered_consumer_ask_for_its_locks() -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        broker.have_nothing(7)
        instance = broker.instance()
        broker.know_topic(instance, "T")
        broker.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda request: Reply(
            int(ResponseCode.TOPIC_NOT_EXIST)
            if request.topic != "T"
            else int(ResponseCode.SUCCESS),
            body=encode_body(route_of(4)),
        )
        consumer = PushConsumer("g", instance=instance, ordered=True)
        consumer.subscribe("T")
        consumer.on_message(lambda _message: None)
        async with instance, consumer:
            while len(consumer.assignment()) < 4:
                await asyncio.sleep(0)
            await turns()
            broker.asked.clear()
            served = next(each for each in broker.connections if not each.closed)
            served.invoke_oneway(
                RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumerGroupRequest(consumer_group="g")
            )
            await turns()
            (request,) = broker.requests(LOCK)
            assert len(request.mq_set) == 4

    asyncio.run(main())
