"""What the console knows of a cluster: each answer asked for once for all who look, kept for a few
seconds, and not asked for when nobody looks.

Nothing here asks every broker about every topic or group: what there is one request per broker for
is asked of each broker, what there is one request per name for only of names that a page shows.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from ..client.admin import AclVersion, Admin, Member
from ..client.admin.brokers import members_of
from ..client.producer.producer import Producer
from ..remoting.clock import Clock
from ..remoting.errors import BrokerError, ConsumerNotOnline, RequestNotSupported, RocketMQError
from ..remoting.protocol.bodies.connection import ConsumerConnection, ProducerTable
from ..remoting.protocol.bodies.running_info import ConsumerRunningInfo
from ..remoting.protocol.bodies.stats import BrokerStatsItem, ConsumeStats, TopicStatsTable
from ..remoting.protocol.bodies.subscription_group import (
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from ..remoting.protocol.message.message_queue import MessageQueue
from ..remoting.services import TaskSet
from .cached import Cached, CachedByKey
from .model.groups import growing, lags_of
from .model.lag import LagHistory
from .model.overview import Asked, Broker, Trouble, brokers_of, troubles_of
from .model.topics import (
    ProducerRow,
    QueueRow,
    RouteRow,
    own_topics,
    producer_rows,
    queue_rows,
    route_rows,
)

T = TypeVar("T")

SENDER: Final = "mqconsole"
"""The producer group of test messages."""
AT_ONCE: Final = 16
"""Requests of one view that are under way."""
RATES_AT_ONCE: Final = 4
"""Of these, that ask for rates of topics: there are many, and nobody waits for them."""
RATE_S: Final = 7.5
"""A rate is asked for again after so many seconds for each broker."""
LEAST_RATE_S: Final = 60.0
"""It is that of the last minute."""
EACH_BROKER_S: Final = 0.4
"""The page of a topic or group, which each broker is asked for, is asked for again after so many
seconds for each: 0.03 % of a core a page, however many brokers there are."""
MOST_QUEUES: Final = 128
"""Of a topic, that are asked for the time of their first message."""
MOST_MEMBERS: Final = 50
"""Of a group, that are asked what they do."""
MOST_HISTORIES: Final = 50
"""Groups whose lag over time is remembered: those that were looked at last."""
MOST_GROWING: Final = 20
"""Groups behind that are looked at for members."""


class Overview(NamedTuple):
    """All brokers and what is wrong."""

    brokers: Sequence[Broker]
    name_servers: Mapping[str, str | None]
    troubles: Sequence[Trouble]


class Lags(NamedTuple):
    """How far all groups are behind. ``problems``: brokers that did not tell."""

    by_group: Mapping[str, tuple[int, float, int]]
    problems: Mapping[str, str]
    deserted: Sequence[str]
    """Groups that are further behind than before and have no member."""

    @property
    def known(self) -> Mapping[str, tuple[int, float, int]] | None:
        """``None`` when no broker told anything."""
        return self.by_group or (None if self.problems else {})


class TopicLook(NamedTuple):
    """One topic."""

    routes: Sequence[RouteRow]
    queues: Sequence[QueueRow]
    groups: Sequence[str]
    producers: Sequence[ProducerRow]
    problems: Sequence[str]


class GroupLook(NamedTuple):
    """One group."""

    stats: ConsumeStats
    connection: ConsumerConnection | None
    infos: Mapping[str, ConsumerRunningInfo]
    member_problems: Mapping[str, str]
    configs: Mapping[str, SubscriptionGroupConfig]
    problems: Sequence[str]
    history: LagHistory


class ClusterView:
    """The cluster as one account sees it, or, without ACL, as everybody does."""

    def __init__(self, admin: Admin, clock: Clock) -> None:
        self.admin: Final = admin
        self.clock: Final = clock
        self._producer: Producer | None = None
        self._tasks = TaskSet("console")
        self.turn: Final = asyncio.Semaphore(AT_ONCE)
        self._rates_turn: Final = asyncio.Semaphore(RATES_AT_ONCE)
        self._brokers = 1
        self._histories: Final[OrderedDict[str, LagHistory]] = OrderedDict()
        self._previous_lags: Mapping[str, tuple[int, float, int]] = {}
        parts = (clock, self._tasks)
        self.overview: Final = Cached(self._overview, 2.5, *parts)
        self.topics: Final = Cached(self._topics, 10.0, *parts)
        self.own_topics: Final = Cached(self._own_topics, 60.0, *parts)
        self.lags: Final = Cached(self._lags, 15.0, *parts)
        self.topic: Final = CachedByKey(self._topic, partial(self._at_least, 2.5), *parts)
        self._people: Final = CachedByKey(self._people_of, 30.0, *parts)
        self._producers: Final = CachedByKey(self.admin.producers_of_broker, 30.0, *parts)
        self._firsts: Final = CachedByKey(self._first_times, 60.0, *parts)
        self.put_rate: Final = CachedByKey(self._put_rate, self._rates_fresh_s, *parts)
        self.group: Final = CachedByKey(self._group, partial(self._at_least, 2.5), *parts)
        self.acl_versions: Final = Cached(self._acl_versions, 10.0, *parts)
        self.group_tables: Final = Cached(self._group_tables, 60.0, *parts)

    async def __aenter__(self) -> Self:
        await self.admin.start()
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        await self._tasks.close()
        if self._producer is not None:
            await self._producer.stop()
        await self.admin.stop()

    async def producer(self) -> Producer:
        """For all test messages: its client has one of a group. Brokers hear of it at the first."""
        if self._producer is None:
            self._producer = Producer(SENDER, instance=self.admin.instance)
            await self._producer.start()
        return self._producer

    # --- asking
    # ----------------------------------------------------------------------------------------------

    async def ask(
        self, question: Callable[[], Awaitable[T]], turn: asyncio.Semaphore | None = None
    ) -> tuple[T | None, str | None]:
        """The answer, or why there is none: a part of a page, not all of it."""
        async with turn or self.turn:
            try:
                return await question(), None
            except RequestNotSupported:
                return None, "it does not know this request"
            except RocketMQError as error:
                return None, str(error)

    async def ask_each(
        self,
        question: Callable[[str], Awaitable[T]],
        names: Iterable[str],
        turn: asyncio.Semaphore | None = None,
    ) -> tuple[dict[str, T], dict[str, str]]:
        """Answers and problems by name, asked side by side."""
        names = list(names)
        told = await asyncio.gather(*(self.ask(partial(question, name), turn) for name in names))
        answers: dict[str, T] = {}
        problems: dict[str, str] = {}
        for name, (answer, problem) in zip(names, told, strict=True):
            if problem is not None:
                problems[name] = problem
            elif answer is not None:
                answers[name] = answer
        return answers, problems

    async def masters(self) -> list[str]:
        """Addresses: of a broker without a master, a slave."""
        found: dict[str, Member] = {}
        for member in members_of(await self.admin.cluster_info()):
            found.setdefault(member.broker_name, member)
        self._brokers = len(found)
        return [member.address for member in found.values()]

    def _at_least(self, seconds: float) -> float:
        """Where there are many brokers, each of which is asked, less often."""
        return max(seconds, EACH_BROKER_S * self._brokers)

    def _rates_fresh_s(self) -> float:
        """Each topic is one question for each of its brokers, a page shows fifty."""
        return max(LEAST_RATE_S, RATE_S * self._brokers)

    # --- answers
    # ----------------------------------------------------------------------------------------------

    async def _overview(self) -> Overview:
        members = members_of(await self.admin.cluster_info())
        self._brokers = len({each.broker_name for each in members})
        (told, lost, servers) = await asyncio.gather(
            self.ask_each(self.admin.broker_runtime_info, [each.address for each in members]),
            self.ask(self.admin.lost_brokers),
            self.ask_each(self._name_server, self.admin.name_server_addresses),
        )
        now = self.clock.time_ms()
        answers, problems = told
        brokers = brokers_of(
            Asked(each, answers.get(each.address, {}), problems.get(each.address), now)
            for each in members
        )
        gone = {name: at for table in (lost[0] or {}).values() for name, at in table.items()}
        name_servers = {each: servers[1].get(each) for each in self.admin.name_server_addresses}
        return Overview(brokers, name_servers, troubles_of(brokers, name_servers, gone))

    async def _topics(self) -> tuple[str, ...]:
        """By name, upper and lower case together."""
        return tuple(sorted(await self.admin.topic_list(), key=lambda name: (name.lower(), name)))

    async def _own_topics(self) -> frozenset[str]:
        return own_topics((await self.admin.cluster_info()).broker_addr_table)

    async def _acl_versions(self) -> tuple[dict[str, AclVersion], dict[str, str]]:
        return await self.ask_each(self.admin.acl_version, await self.masters())

    async def _name_server(self, address: str) -> bool:
        """Whether it answers; what it answers does not matter."""
        try:
            await self.admin.name_server_config(address)
        except BrokerError:
            pass
        return True

    async def _lags(self) -> Lags:
        tables, problems = await self.ask_each(
            self.admin.broker_consume_stats, await self.masters()
        )
        found = lags_of(tables.values())
        suspects = growing(self._previous_lags, found)[:MOST_GROWING]
        self._previous_lags = found
        members, _ = await self.ask_each(self.has_members, suspects)
        return Lags(found, problems, [each for each in suspects if members.get(each) is False])

    async def has_members(self, group: str) -> bool:
        """Whether a client of the group is connected to any of its brokers."""
        return await self._connection(group) is not None

    async def _connection(self, group: str) -> ConsumerConnection | None:
        try:
            return await self.admin.consumer_connection(group)
        except ConsumerNotOnline:
            return None

    async def _topic(self, topic: str) -> TopicLook:
        routes = route_rows(await self.admin.topic_route(topic))
        (stats, no_stats), people, firsts = await asyncio.gather(
            self.ask(partial(self.admin.topic_stats, topic)),
            self._people.of(topic).get(),
            self._firsts.of(topic).get(),
        )
        groups, producers, problems = people.value
        return TopicLook(
            routes,
            queue_rows(stats or TopicStatsTable(), firsts.value),
            groups,
            producers,
            [*([f"Offsets of queues: {no_stats}"] if no_stats else ()), *problems],
        )

    async def _people_of(self, topic: str) -> tuple[list[str], list[ProducerRow], list[str]]:
        """Groups, producers, and what brokers did not tell."""
        routes = route_rows(await self.admin.topic_route(topic))
        (groups, no_groups), (tables, no_producers) = await asyncio.gather(
            self.ask(partial(self.admin.query_topic_consume_by_who, topic)),
            self.ask_each(
                self._producers_at, [row.master for row in routes if row.master is not None]
            ),
        )
        problems = [
            *([f"Groups of the topic: {no_groups}"] if no_groups else ()),
            *(f"Producers at {address}: {why}" for address, why in no_producers.items()),
        ]
        return sorted(groups or ()), producer_rows(tables.values()), problems

    async def _producers_at(self, address: str) -> ProducerTable:
        """The same for all topics of a broker."""
        return (await self._producers.of(address).get()).value

    async def _first_times(self, topic: str) -> dict[MessageQueue, int]:
        """When the first message of each queue was stored."""
        stats, _ = await self.ask(partial(self.admin.topic_stats, topic))
        table = stats.offset_table if stats is not None else {}
        filled = [queue for queue, each in table.items() if each.max_offset > each.min_offset]
        filled = sorted(filled)[:MOST_QUEUES]
        told = await asyncio.gather(
            *(self.ask(partial(self.admin.earliest_store_time, each)) for each in filled)
        )
        return {queue: first for queue, (first, _) in zip(filled, told, strict=True) if first}

    async def _put_rate(self, topic: str) -> BrokerStatsItem | None:
        """Messages of the last minute; ``None``: nothing was counted. A broker that has taken none
        of any topic is not asked."""
        brokers = (await self.overview.get()).value.brokers
        quiet = {broker.address for broker in brokers if broker.quiet}
        if all(broker.quiet for broker in brokers):
            return None
        masters = [row.master for row in route_rows(await self.admin.topic_route(topic))]
        found, _ = await self.ask_each(
            lambda address: self.admin.broker_stats(address, "TOPIC_PUT_NUMS", topic),
            [address for address in masters if address is not None and address not in quiet],
            self._rates_turn,
        )
        if not found:
            return None
        minutes = [each.stats_minute for each in found.values()]
        return BrokerStatsItem(
            sum=sum(each.sum for each in minutes), tps=sum(each.tps for each in minutes)
        )

    async def _group_tables(self) -> tuple[dict[str, SubscriptionGroupTable], dict[str, str]]:
        return await self.ask_each(self.admin.subscription_groups, await self.masters())

    async def _group(self, group: str) -> GroupLook:
        stats = await self.admin.consume_stats(group)
        history = self._history_of(group)
        history.add(stats, self.clock.time_ms())
        (connection, no_connection), dated = await asyncio.gather(
            self.ask(partial(self._connection, group)), self.group_tables.get()
        )
        tables, no_configs = dated.value
        clients = [each.client_id or "" for each in connection.connection_set] if connection else []
        infos, problems = await self.ask_each(
            lambda client: self.admin.consumer_running_info(group, client), clients[:MOST_MEMBERS]
        )
        configs = {
            address: config
            for address, table in tables.items()
            if (config := table.subscription_group_table.get(group)) is not None
        }
        told = [
            *([f"Members: {no_connection}"] if no_connection else ()),
            *(f"Configuration at {address}: {why}" for address, why in no_configs.items()),
            *(
                [f"Only {MOST_MEMBERS} of {len(clients)} members were asked what they do."]
                if len(clients) > MOST_MEMBERS
                else ()
            ),
        ]
        return GroupLook(stats, connection, infos, problems, configs, told, history)

    def _history_of(self, group: str) -> LagHistory:
        history = self._histories.setdefault(group, LagHistory())
        self._histories.move_to_end(group)
        if len(self._histories) > MOST_HISTORIES:
            self._histories.popitem(last=False)
        return history
