"""A consumer's place in its group: what it subscribes, which queues are its own, how far it has got (client.md §4.3).

Every 20 seconds, and whenever something changed, each subscribed topic is divided: all members compute the same division
from the queues of the topic and the ids of the members, which a broker knows from their heartbeats. What was lost is handed
to ``owner.give_up``, what was gained to ``owner.take``.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Protocol

from ..remoting.errors import BrokerError, ConnectError, RemotingError
from ..remoting.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData
from ..remoting.protocol.bodies.lists import ConsumerIdList
from ..remoting.protocol.codes import RequestCode
from ..remoting.protocol.commands.base import ConsumerGroupRequest
from ..remoting.protocol.message import MessageQueue
from .answers import answer_body
from .instance import ClientInstance
from .offset_store import BrokerOffsets
from .rebalance import AllocateStrategy, changes, sorted_client_ids, sorted_queues
from .route_cache import TopicRoute
from .start_offset import StartPolicy

log = logging.getLogger(__name__)

REBALANCE_INTERVAL = 20.0
FIRST_RETRY_INTERVAL = 0.1


class QueueOwner(Protocol):
    """The consumer that works on the queues."""

    def take(self, queue: MessageQueue, offset: int) -> None:
        """The queue is ours from now on; begin at ``offset``."""
        ...

    async def give_up(self, queues: list[MessageQueue]) -> None:
        """These queues are somebody else's from now on: stop, and tell the broker how far we got."""
        ...


class GroupMember:
    """Subscriptions and queues of one consumer."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        owner: QueueOwner,
        *,
        consume_type: ConsumeType,
        allocate: AllocateStrategy,
        start: StartPolicy,
    ) -> None:
        self.instance = instance
        self.group = group
        self.offsets = BrokerOffsets(instance, group)
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.owned: set[MessageQueue] = set()
        self._owner = owner
        self._consume_type = consume_type
        self._allocate = allocate
        self._start = start
        self._wake = asyncio.Event()
        self._stale: set[str] = set()
        """Topics that are pulled by an expression which is not the present one."""
        self._changed = False
        """The subscriptions are others than the brokers were told."""

    @property
    def consumer_data(self) -> ConsumerData:
        """What the heartbeat says of this consumer."""
        return ConsumerData(
            group_name=self.group,
            consume_type=self._consume_type,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=self._start.start_from.value,
            subscription_data_set=tuple(self.subscriptions.values()),
        )

    def subscribe(self, subscription: SubscriptionData) -> None:
        """Add or replace the subscription of a topic; takes effect at the next rebalance."""
        before = self.subscriptions.get(subscription.topic)
        if before is not None and before.sub_string != subscription.sub_string:
            self._stale.add(subscription.topic)
        self.subscriptions[subscription.topic] = subscription
        self._changed = True
        self.wake()

    def unsubscribe(self, topic: str) -> None:
        """Its queues are given up at the next rebalance."""
        if self.subscriptions.pop(topic, None) is not None:
            self._changed = True
            self.wake()

    def wake(self) -> None:
        """Divide again now."""
        self._wake.set()

    async def introduce(self) -> None:
        """Tell the brokers of every subscribed topic who we are, if they do not know it yet.

        A topic that does not exist is looked for again at every rebalance. Raises ``RemotingError``, ``BrokerError``.
        """
        routes = self.instance.routes
        for topic in self.subscriptions:
            route = routes.cached(topic)
            if route is None or route.from_template:
                await routes.refresh(topic)
        changed, self._changed = self._changed, False
        await self.instance.heartbeat(only_new=not changed)

    async def run(self) -> None:
        """Divide whenever woken. ``tick`` wakes regularly; what could not be settled is tried again, ever less often."""
        pause = FIRST_RETRY_INTERVAL
        while True:
            self._wake.clear()
            if await self.rebalance():
                pause = FIRST_RETRY_INTERVAL
            else:
                await self.instance.clock.sleep(pause)
                pause = min(2 * pause, REBALANCE_INTERVAL)
                self._wake.set()
            await self._wake.wait()

    async def tick(self) -> None:
        """Service: wakes ``run`` every 20 seconds."""
        while True:
            await self.instance.clock.sleep(REBALANCE_INTERVAL)
            self._wake.set()

    async def rebalance(self) -> bool:
        """Divide every subscribed topic once. False: something failed that should be tried again soon."""
        try:
            await self.introduce()
        except (RemotingError, BrokerError) as error:
            log.warning("rebalance postponed group=%s error=%s", self.group, error)
            return False
        settled = True
        for topic in sorted(self.subscriptions):
            settled &= await self._divide(topic)
        gone = [queue for queue in self.owned if queue.topic not in self.subscriptions]
        if gone:
            await self._release(sorted_queues(gone))
        return settled

    async def _divide(self, topic: str) -> bool:
        route = self.instance.routes.cached(topic)
        if route is None or not route.subscribe_queues:
            return False  # nobody has made the topic yet
        try:
            members = await self._member_ids(route)
        except (RemotingError, BrokerError) as error:
            log.warning("rebalance postponed group=%s topic=%s error=%s", self.group, topic, error)
            return False
        if self.instance.client_id not in members:
            # The broker has lost sight of us. Giving up everything would only move the queues to and fro.
            await self.instance.heartbeat()
            return False
        queues = sorted_queues(route.subscribe_queues)
        assigned = self._allocate(self.instance.client_id, queues, members)
        owned = [q for q in self.owned if q.topic == topic]
        lost, gained = changes(owned, assigned)
        if topic in self._stale:
            self._stale.discard(topic)
            lost, gained = sorted_queues(owned), sorted_queues(assigned)
        if lost:
            await self._release(lost)
        taken = await asyncio.gather(*(self._take(queue) for queue in gained))
        if lost or gained:
            log.info(
                "rebalanced group=%s topic=%s members=%d queues=%d of %d lost=%d gained=%d",
                self.group, topic, len(members), len(assigned), len(queues), len(lost), sum(taken),
            )  # fmt: skip
        return all(taken)

    async def _member_ids(self, route: TopicRoute) -> list[str]:
        """The ids of the group, from any broker of the topic: each has all heartbeats."""
        names = [broker.broker_name for broker in route.data.broker_datas]
        replica = self.instance.routes.replica(random.choice(names), 0) if names else None
        if replica is None:
            raise ConnectError(f"no broker of {route.topic} is known")
        answer = await self.instance.remoting.invoke(
            replica[0],
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            ConsumerGroupRequest(consumer_group=self.group),
            timeout=self.instance.request_timeout,
        )
        return sorted_client_ids(answer_body(answer, ConsumerIdList, replica[0]).consumer_id_list)

    async def _take(self, queue: MessageQueue) -> bool:
        try:
            offset = await self._start.offset(self.instance, self.offsets, queue)
        except (RemotingError, BrokerError) as error:
            log.warning("queue not taken group=%s queue=%s error=%s", self.group, queue, error)
            return False
        if queue.topic not in self.subscriptions:  # not any more
            return True
        self.owned.add(queue)
        self.offsets.update(queue, offset, only_forwards=False)
        self._owner.take(queue, offset)
        return True

    async def _release(self, queues: list[MessageQueue]) -> None:
        self.owned.difference_update(queues)
        await self._owner.give_up(queues)
        for queue in queues:
            self.offsets.forget(queue)

    async def release_all(self) -> None:
        """Give up everything, at the end."""
        if self.owned:
            await self._release(sorted_queues(self.owned))
