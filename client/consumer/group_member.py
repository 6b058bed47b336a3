"""A consumer's place in its group: what it subscribes, which queues are its own, how far it has got
(client.md §4.3).

Every 20 seconds, and whenever something changed, each subscribed topic is divided: all members
compute the same division from the queues of the topic and the ids of the members, which a broker
knows from their heartbeats. What was lost is handed to ``owner.give_up``, what was gained to
``owner.take``.

One file, though over 400 lines: all of it is about one table, whose queues are whose.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection
from typing import Final, Protocol

from msgspec.structs import replace

from ...remoting.errors import BrokerError, ConnectError, RemotingError
from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from ...remoting.protocol.bodies.lists import ConsumerIdList
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.base import ConsumerGroupRequest
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import is_retry_topic
from ...remoting.services import happens_within
from ..cluster.answers import answer_body
from ..cluster.instance import ClientInstance
from ..cluster.route_cache import TopicRoute
from ..errors import ConfigError, ExpressionRefused
from ..offsets.offset_store import BrokerOffsets, OffsetStore
from ..offsets.start_offset import StartPolicy
from ..user_code import UserCode
from .queue_callbacks import QueueCallbacks
from .queue_locks import QueueLocks
from .rebalance import AllocateStrategy, sorted_client_ids, sorted_queues
from .subscription import TAG, same_expression

log: Final = logging.getLogger(__name__)

REBALANCE_INTERVAL = 20.0
FIRST_RETRY_INTERVAL = 0.1
MISSING_TOLD_AFTER = 5.0


class QueueOwner(Protocol):
    """The consumer that works on the queues."""

    def take(self, queue: MessageQueue, offset: int) -> None:
        """The queue is ours from now on; begin at ``offset``."""
        ...

    async def give_up(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """These queues are somebody else's from now on: stop, and say how far we got. Returns those
        that could be given up; the others stay ours until the next rebalance."""
        ...

    def stalled(self) -> Collection[MessageQueue]:
        """Queues that are ours and should be pulled, but have not been for long."""
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
        broadcast_offsets: OffsetStore | None = None,
        locks: QueueLocks | None = None,
    ) -> None:
        """``broadcast_offsets``: every member has all queues, and keeps its own account there.
        ``locks``: no queue is taken that is not ours alone."""
        self.instance = instance
        self._outages = instance.outages
        self.group = group
        self.offsets: OffsetStore = broadcast_offsets or BrokerOffsets(
            instance, group, of_masters=locks is not None
        )
        self.broadcasting: bool = broadcast_offsets is not None
        self._locks = locks
        self.callbacks: QueueCallbacks = QueueCallbacks(group, None, None, None)
        """Of the user, who is told what comes."""
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.owned: set[MessageQueue] = set()
        self.damaged: int = 0
        """Messages that were passed over because no replica has them intact."""
        self._owner = owner
        self._consume_type = consume_type
        if not callable(allocate):
            raise ConfigError(
                "allocate is a function, such as "
                f"aiorocketmq.client.consumer.rebalance.averagely, not {allocate!r}"
            )
        self._allocate = allocate
        self._start = start
        self._wake = asyncio.Event()
        self._read_by: dict[MessageQueue, SubscriptionData] = {}
        """What our queues are pulled by; perhaps not what is subscribed at present."""
        self._versions: dict[str, int] = {}
        """The last one of each topic that was ever subscribed."""
        self._unchecked: set[str] = set()
        """Topics whose SQL expression no broker has seen yet."""
        self.refused: ExpressionRefused | None = None
        """Why a subscription was given up while running, until somebody was told."""
        self._missing: dict[str, float] = {}
        """Topics without queues, and since when; infinity: that was told."""
        self.lost: set[MessageQueue] = set()
        """Queues that somebody else has, or may have, locked meanwhile."""
        if locks is not None:
            locks.on_refused = self._lock_refused
        self._changed = False
        """The subscriptions are others than the brokers were told."""

    @property
    def consumer_data(self) -> ConsumerData:
        """What the heartbeat says of this consumer."""
        return ConsumerData(
            group_name=self.group,
            consume_type=self._consume_type,
            message_model=MessageModel.BROADCASTING
            if self.broadcasting
            else MessageModel.CLUSTERING,
            consume_from_where=self._start.start_from.value,
            subscription_data_set=tuple(self.subscriptions.values()),
        )

    def subscribe(self, subscription: SubscriptionData) -> None:
        """Add or replace the subscription of a topic; takes effect at the next rebalance."""
        topic = subscription.topic
        version = max(subscription.sub_version, self._versions.get(topic, -1) + 1)
        if version != subscription.sub_version:  # brokers take only what is newer
            subscription = replace(subscription, sub_version=version)
        self._versions[topic] = version
        self.subscriptions[topic] = subscription
        self._unchecked.discard(topic)
        if subscription.expression_type != TAG:
            self._unchecked.add(topic)
        self._changed = True
        self.wake()

    def unsubscribe(self, topic: str) -> None:
        """Its queues are given up at the next rebalance."""
        self._unchecked.discard(topic)
        self._outages.ends(("introduce", self.group), who=topic)
        if self.subscriptions.pop(topic, None) is not None:
            self._changed = True
            self.wake()

    def wake(self) -> None:
        """Divide again now."""
        self._wake.set()

    async def introduce(self) -> None:
        """Tell the brokers of every subscribed topic who we are, if they do not know it yet.

        A topic that does not exist is looked for again at every rebalance. Raises
        ``ExpressionRefused``, ``RemotingError``, ``BrokerError``.
        """
        for topic in sorted(self.subscriptions):  # there may be others meanwhile
            await self._look_up(topic)
        for topic in sorted(self._unchecked):
            await self._check_expression(topic)
        await self._tell_brokers()

    async def _introduce_again(self) -> set[str]:
        """The same, all topics at a time: a name server or a broker that does not answer for one
        keeps no other one waiting. Returns those that have to wait. An SQL expression that a broker
        cannot use is given up."""
        topics = sorted(self.subscriptions)
        ready = await asyncio.gather(*(self._is_ready(topic) for topic in topics))
        await self._tell_brokers()
        return {topic for topic, is_ready in zip(topics, ready, strict=True) if not is_ready}

    async def _is_ready(self, topic: str) -> bool:
        cause = ("introduce", self.group)
        try:
            await self._look_up(topic)
            await self._check_expression(topic)
        except ExpressionRefused as error:
            self._give_up_subscription(topic, error)
        except (RemotingError, BrokerError) as error:
            text = "rebalance postponed group=%s topic=%s error=%s"
            self._outages.fails(log, cause, text, self.group, topic, error, who=topic)
            return False
        self._outages.works(cause, who=topic)
        return True

    async def _look_up(self, topic: str) -> None:
        route = self.instance.routes.cached(topic)
        if route is None or route.from_template:
            await self.instance.routes.refresh(topic)

    async def _tell_brokers(self) -> None:
        changed, self._changed = self._changed, False
        await self.instance.heartbeat(only_new=not changed)

    def _give_up_subscription(self, topic: str, error: ExpressionRefused) -> None:
        """Every pull would be refused."""
        log.error(
            "subscription given up, no broker filters by it group=%s topic=%s error=%s",
            self.group,
            topic,
            error,
        )
        self.refused = error
        self.unsubscribe(topic)

    async def _check_expression(self, topic: str) -> None:
        """Ask a broker of the topic, if one is known, whether it can filter by an expression that
        none has seen yet; all of them are told it in the heartbeat. Raises ``ExpressionRefused``,
        ``RemotingError``, ``BrokerError`` when it is to be asked again."""
        subscription = self.subscriptions.get(topic)
        if subscription is None or topic not in self._unchecked:
            return
        route = self.instance.routes.cached(topic)
        names = (
            [broker.broker_name for broker in route.data.broker_datas] if route is not None else []
        )
        replica = self.instance.routes.replica(random.choice(names), 0) if names else None
        if replica is None:
            return
        body = CheckClientRequestBody(
            client_id=self.instance.client_id, group=self.group, subscription_data=subscription
        )
        answer = await self.instance.remoting.invoke(
            replica[0],
            RequestCode.CHECK_CLIENT_CONFIG,
            None,
            encode_body(body),
            timeout=self.instance.request_timeout,
        )
        if ExpressionRefused.is_said_by(answer.code, answer.remark):
            raise ExpressionRefused(answer.code, answer.remark, replica[0], subscription)
        if answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            answer.check(replica[0])
        self._unchecked.discard(topic)

    async def run(self) -> None:
        """Divide whenever woken. ``tick`` wakes regularly; what could not be settled is tried
        again, ever less often, and whenever something has changed."""
        pause = FIRST_RETRY_INTERVAL
        while True:
            self._wake.clear()
            if await self.rebalance():
                pause = FIRST_RETRY_INTERVAL
            else:
                await happens_within(self._wake, pause, self.instance.clock)
                pause = min(2 * pause, REBALANCE_INTERVAL)
                self._wake.set()
            await self._wake.wait()

    async def tick(self) -> None:
        """Service: wakes ``run`` every 20 seconds."""
        while True:
            await self.instance.clock.sleep(REBALANCE_INTERVAL)
            self._wake.set()

    async def rebalance(self) -> bool:
        """Divide every subscribed topic once. False: something failed that should be tried again
        soon."""
        postponed = await self._introduce_again()
        settled = not postponed
        for topic in sorted(self.subscriptions.keys() - postponed):
            settled &= await self._divide(topic)
        gone = [queue for queue in self.owned if queue.topic not in self.subscriptions]
        return await self._release(sorted_queues(gone)) and settled

    async def _divide(self, topic: str) -> bool:
        route = self.instance.routes.cached(topic)
        if route is None or not route.subscribe_queues:
            self._tell_missing(topic, route)
            return False  # nobody has made the topic yet
        if self._missing.pop(topic, None) is not None:
            self._outages.works(("missing", self.group, topic))
        queues = sorted_queues(route.subscribe_queues)
        if self.broadcasting:
            members, assigned = [self.instance.client_id], queues
        else:
            try:
                members = await self._member_ids(route)
            except (RemotingError, BrokerError) as error:
                self._outages.fails(
                    log,
                    ("members", self.group),
                    "rebalance postponed group=%s topic=%s error=%s",
                    self.group,
                    topic,
                    error,
                    who=topic,
                )
                return False
            self._outages.works(("members", self.group), who=topic)
            if self.instance.client_id not in members:
                # The broker has lost sight of us. Giving up everything would only move the queues
                # to and fro.
                await self.instance.heartbeat()
                return False
            with UserCode() as strategy:
                wanted = self._allocate(self.instance.client_id, queues, members)
                assigned = [queue for queue in wanted if queue.topic == topic]
            if strategy.log_failure(
                log, "the strategy failed group=%s topic=%s", self.group, topic
            ):
                return False  # what is ours stays ours
        owned = {q for q in self.owned if q.topic == topic}
        anew = self._to_be_taken_anew(topic, owned)
        lost = sorted_queues(owned.difference(assigned) | anew)
        gained = sorted_queues(set(assigned).difference(owned - anew))
        released = await self._release(lost)
        taken = await self._take_all([queue for queue in gained if queue not in self.owned])
        if lost or gained:
            log.info(
                "rebalanced group=%s topic=%s members=%d queues=%d of %d lost=%d gained=%d",
                self.group, topic, len(members), len(assigned), len(queues), len(lost), sum(taken),
            )  # fmt: skip
        return released and all(taken)

    def _tell_missing(self, topic: str, route: TopicRoute | None) -> None:
        """After a while: it may be a typing error. A retry topic comes with the first message that
        is given back."""
        now = self.instance.clock.monotonic()
        if now - self._missing.setdefault(topic, now) >= MISSING_TOLD_AFTER and not is_retry_topic(
            topic
        ):
            why = (
                "no broker has it, as far as the name server knows"
                if route is None
                else "no broker lets it be read"
            )
            self._outages.fails(
                log,
                ("missing", self.group, topic),
                "nothing to consume yet group=%s topic=%s: %s",
                self.group,
                topic,
                why,
            )

    def _to_be_taken_anew(self, topic: str, owned: set[MessageQueue]) -> set[MessageQueue]:
        """Queues that are ours and have to begin from what the broker knows: another expression, a
        lock that was somebody else's meanwhile, a pull that does not come back
        (``rocketmq.client.pull.pullMaxIdleTime`` of the original)."""
        wanted = self.subscriptions.get(topic)
        stale = {
            queue
            for queue in owned
            if (read_by := self._read_by.get(queue)) is not None
            and wanted is not None
            and not same_expression(read_by, wanted)
        }
        stalled = owned.intersection(self._owner.stalled())
        for queue in stalled:
            self._outages.occurs(
                log,
                ("stalled", self.group, queue.broker_name),
                "queue was not pulled for long, taken anew group=%s queue=%s/%s/%d",
                self.group,
                *queue,
            )
        return stale | stalled | (owned & self.lost)

    def _lock_refused(self, queue: MessageQueue) -> None:
        if queue in self.owned and queue not in self.lost:
            self._outages.occurs(
                log,
                ("locked", self.group, queue.broker_name),
                "queue is or was locked by another member, taken anew group=%s queue=%s/%s/%d",
                self.group,
                *queue,
            )
            self.lost.add(queue)
            self.wake()

    def may_tell(self, queue: MessageQueue) -> bool:
        """How far we are in a queue of ours; not where that could overwrite the offset of somebody
        who has, or had, its lock meanwhile."""
        if self._locks is None:
            return True
        return queue not in self.lost and self._locks.holds(queue)

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

    async def _take_all(self, queues: list[MessageQueue]) -> list[bool]:
        """Whether each was taken. Who wants to be told of them before they are read is told of all
        at once."""
        if not self.callbacks.wants_assigned:
            return await asyncio.gather(*(self._take(queue) for queue in queues))
        offsets = await asyncio.gather(*(self._first_offset(queue) for queue in queues))
        found = [
            (queue, offset)
            for queue, offset in zip(queues, offsets, strict=True)
            if offset is not None
        ]
        await self.callbacks.assigned(queue for queue, _ in found)
        for queue, offset in found:
            await self._begin(queue, offset)
        return [offset is not None for offset in offsets]

    async def _take(self, queue: MessageQueue) -> bool:
        offset = await self._first_offset(queue)
        if offset is not None:
            await self._begin(queue, offset)
        return offset is not None

    async def _first_offset(self, queue: MessageQueue) -> int | None:
        """Where the queue, which nobody else may have, is to be read from; None: another time."""
        if self._locks is not None and not await self._locks.take(queue):
            return None  # its last owner still has it
        try:
            offset = await self._start.offset(self.instance, self.offsets, queue)
        except (RemotingError, BrokerError, ConfigError) as error:
            self._outages.fails(
                log,
                ("take", self.group, queue.broker_name),
                "queue not taken group=%s queue=%s error=%s",
                self.group,
                queue,
                error,
                who=queue,
            )
            await self._unlock([queue])
            return None
        self._outages.works(("take", self.group, queue.broker_name), who=queue)
        return offset

    async def start_offset(self, queue: MessageQueue) -> int:
        """Where the group goes on in a queue, as far as brokers know. Raises ``RemotingError``,
        ``BrokerError``."""
        return await self._start.offset(self.instance, self.offsets, queue)

    async def _begin(self, queue: MessageQueue, offset: int) -> None:
        if queue.topic not in self.subscriptions:  # not any more
            await self._unlock([queue])
            return
        self.owned.add(queue)
        self._read_by[queue] = self.subscriptions[queue.topic]
        self.callbacks.began(queue)
        self.offsets.update(queue, offset, only_forwards=False)
        self._owner.take(queue, offset)

    async def _release(self, queues: list[MessageQueue]) -> bool:
        """False: some of them could not be given up yet."""
        if not queues:
            return True
        given = await self._owner.give_up(queues)
        self.owned.difference_update(given)
        self.lost.difference_update(given)
        for queue in given:
            self._read_by.pop(queue, None)
            self.offsets.forget(queue)
        await self._unlock(given)
        return len(given) == len(queues)

    async def _unlock(self, queues: list[MessageQueue]) -> None:
        if self._locks is not None:
            await self._locks.release(queues)

    async def release_all(self) -> None:
        """Give up everything, at the end."""
        try:
            if self.owned:
                await self._release(sorted_queues(self.owned))
        finally:
            if self._locks is not None:
                await self._locks.release_all()
