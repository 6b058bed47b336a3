"""Where the queues of a topic are (client.md §2; classes MQClientInstance, TopicPublishInfo). The
first half is pure.

Routes come from the name server (105), are kept, and are asked for again every 30 seconds. A topic
that nobody has created yet is sent to where the template topic TBW102 lies: the broker there makes
it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ...remoting.clock import Clock
from ...remoting.errors import BrokerError, ConnectError, RemotingError, RocketMQError
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.route import MASTER_ID, BrokerData, QueueData, TopicRouteData
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.commands.route import GetRouteInfoRequest
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.sys_flag import PermName
from ...remoting.services import TaskSet
from ..errors import NoRouteError
from .answers import answer_body
from .name_servers import NameServers

log: Final = logging.getLogger(__name__)

MAX_QUEUES = 65_536
"""Per topic and broker; a number of queues comes from whoever registered them, and they are listed
one by one."""
MAX_QUEUES_IN_ALL = 4 * MAX_QUEUES
"""Of a topic, at all its brokers together: these take 0.1 s. Others count as not there."""


_NOWHERE: Final = (
    "no broker that the name server knows has it, or would make it; create it (mqadmin "
    "updateTopic), or start its broker "
    "and try again once that has registered"
)


_NO_MASTER: Final = (
    "its brokers have no master at present, as far as the name server knows; a group elects one "
    "within seconds, elsewhere it has to be started again"
)


class TopicRoute(NamedTuple):
    """One topic as the name server described it. Queues are sorted by broker name and queue id."""

    topic: str
    data: TopicRouteData
    publish_queues: tuple[MessageQueue, ...]
    """Writable queues of brokers that have a master."""
    subscribe_queues: tuple[MessageQueue, ...]
    """Readable queues, of slaves too."""
    from_template: bool = False
    """The topic itself is not known yet; these are the queues it would get."""


def topic_route(topic: str, data: TopicRouteData) -> TopicRoute:
    """The route with its queues worked out."""
    return TopicRoute(topic, data, publish_queues(topic, data), subscribe_queues(topic, data))


def template_route(topic: str, template: TopicRouteData, queue_nums: int) -> TopicRoute:
    """The queues that ``topic`` will have once it is made from the template topic, at most
    ``queue_nums`` per broker."""
    queues = _at_most(
        MessageQueue(topic, queue.broker_name, index)
        for queue in publishable(template)
        for index in range(min(queue_nums, queue.read_queue_nums, MAX_QUEUES))
    )
    return TopicRoute(topic, template, queues, (), from_template=True)


def publish_queues(topic: str, data: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Where to send. An order configuration (``broker:count;...``) says it alone, in its own
    order."""
    if data.order_topic_conf:
        return _at_most(
            MessageQueue(topic, broker_name, index)
            for broker_name, count in _order_entries(data.order_topic_conf)
            for index in range(count)
        )
    return _at_most(
        MessageQueue(topic, queue.broker_name, index)
        for queue in publishable(data)
        for index in range(min(queue.write_queue_nums, MAX_QUEUES))
    )


def subscribe_queues(topic: str, data: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Where to read; needs no master."""
    return _at_most(
        MessageQueue(topic, queue.broker_name, index)
        for queue in sorted(data.queue_datas, key=lambda q: q.broker_name)
        if queue.perm & PermName.READ
        for index in range(min(queue.read_queue_nums, MAX_QUEUES))
    )


def _at_most(queues: Iterator[MessageQueue]) -> tuple[MessageQueue, ...]:
    return tuple(itertools.islice(queues, MAX_QUEUES_IN_ALL))


def publishable(data: TopicRouteData) -> list[QueueData]:
    """The entries with write permission whose broker has a master, sorted by broker name."""
    with_master = {b.broker_name for b in data.broker_datas if MASTER_ID in b.broker_addrs}
    found = [
        q for q in data.queue_datas if q.perm & PermName.WRITE and q.broker_name in with_master
    ]
    return sorted(found, key=lambda q: q.broker_name)


def awaits_master(route: TopicRoute) -> bool:
    """There are queues to send to, once their brokers have a master again."""
    if route.publish_queues:
        return False
    brokers, queues = route.data.broker_datas, route.data.queue_datas
    without = {b.broker_name for b in brokers if MASTER_ID not in b.broker_addrs}
    return any(q.perm & PermName.WRITE and q.broker_name in without for q in queues)


def no_route(topic: str, route: TopicRoute | None) -> NoRouteError:
    """Why nothing can be sent to the topic."""
    if route is None:
        why = _NOWHERE
    elif awaits_master(route):
        why = _NO_MASTER
    else:
        why = "no broker lets it be written"
    return NoRouteError(f"the topic {topic} cannot be sent to: {why}")


def _order_entries(text: str) -> list[tuple[str, int]]:
    entries = []
    for entry in text.split(";"):
        broker_name, _, count = entry.rpartition(":")
        if broker_name and count.isdecimal() and len(count) < 6:
            entries.append((broker_name, int(count)))
    return entries


class RouteCache:
    """Routes of all topics that somebody here sends to or reads, and the addresses of their
    brokers; for a while, of brokers that somebody only looked at, too."""

    def __init__(
        self,
        name_servers: NameServers,
        clock: Clock,
        tasks: TaskSet,
        *,
        timeout: float,
        interval: float,
    ) -> None:
        self._name_servers = name_servers
        self._clock = clock
        self._outages = Outages(clock)
        self._tasks = tasks
        self._timeout = timeout
        self.interval: Final = interval
        """Known topics are asked for again that often, in seconds."""
        self._routes: dict[str, TopicRoute] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        """Those that stand in a route that is kept."""
        self._seen: dict[str, dict[int, str]] = {}
        """Those that ``look_at`` has seen since the last round."""
        self._seen_before: dict[str, dict[int, str]] = {}
        """In the round before that one."""
        self._asking: dict[str, asyncio.Task[TopicRoute | RocketMQError | None]] = {}
        self.changes: int = 0
        """Grows whenever a route, or an address of a broker in one, is another one than before."""
        self.on_change: list[Callable[[str], None]] = []
        """Called with the topic whose queues, brokers or addresses changed."""

    # --- topics
    # ----------------------------------------------------------------------------------------------

    def cached(self, topic: str) -> TopicRoute | None:
        return self._routes.get(topic)

    async def get(self, topic: str) -> TopicRoute:
        """The route, asked for when it is not known. Raises ``NoRouteError``, ``RemotingError``,
        ``BrokerError``."""
        route = self._routes.get(topic)
        if route is None or route.from_template:
            route = await self.refresh(topic)
        if route is None or route.from_template:
            raise NoRouteError(
                f"the name server knows no broker for the topic {topic}; has it been created?"
            )
        return route

    async def get_for_sending(self, topic: str, template_topic: str, queue_nums: int) -> TopicRoute:
        """As ``get``, but an unknown topic is sent to where the template topic lies; always has a
        queue."""
        route = self._routes.get(topic)
        if route is None or not route.publish_queues:
            route = await self.refresh(topic)
        if route is None or (route.from_template and not route.publish_queues):
            route = await self._from_template(topic, template_topic, queue_nums)
        if route is None or not route.publish_queues:
            raise no_route(topic, route)
        return route

    async def refresh(self, topic: str) -> TopicRoute | None:
        """Ask the name server now; a topic it does not know any more stays. Raises
        ``RemotingError``, ``BrokerError``.

        Callers that come while the question is under way share its answer.
        """
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = self._tasks.spawn(
                self._ask_and_store(topic), name=f"route of {topic}"
            )
        try:
            outcome = await asyncio.shield(asking)
        except asyncio.CancelledError:
            if asking.cancelled() and not _is_cancelled():
                raise ConnectError(
                    f"the route of {topic} is not known: this client is being stopped"
                ) from None
            raise
        if isinstance(outcome, RocketMQError):
            raise outcome
        return outcome

    async def look_up(self, topic: str) -> TopicRoute | None:
        """As the name server sees it now; ``None`` for a topic that it does not know. Raises as
        ``refresh``."""
        data = await self._ask(topic)
        if data is None:
            return None
        route = topic_route(topic, data)
        self._store(route)
        return route

    async def look_at(self, topic: str) -> TopicRouteData | None:
        """As ``look_up``, for who looks at many topics and works with none: the topic is not kept,
        and so is not asked for again and again.

        Its brokers are known for at least ``interval`` seconds. Nobody is told of those that stand
        in no route that is kept; of another address of one that does everybody is.
        """
        data = await self._ask(topic)
        if data is not None:
            brokers = data.broker_datas
            self._seen.update((b.broker_name, dict(b.broker_addrs)) for b in brokers)
            if self._store_addresses(b for b in brokers if b.broker_name in self._brokers):
                self._tell(topic)
        return data

    async def _ask_and_store(self, topic: str) -> TopicRoute | RocketMQError | None:
        try:
            if (data := await self._ask(topic)) is not None:
                self._store(topic_route(topic, data))
        except RocketMQError as error:
            return error
        finally:
            del self._asking[topic]
        return self._routes.get(topic)

    async def _from_template(
        self, topic: str, template_topic: str, queue_nums: int
    ) -> TopicRoute | None:
        template = await self._ask(template_topic)
        if template is not None:
            self._store(template_route(topic, template, queue_nums))
        return self._routes.get(topic)

    async def _ask(self, topic: str) -> TopicRouteData | None:
        header = GetRouteInfoRequest(topic=topic, accept_standard_json_only=True)
        answer = await self._name_servers.ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout=self._timeout
        )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        return answer_body(answer, TopicRouteData, self._name_servers.current)

    def _store(self, route: TopicRoute) -> None:
        before = self._routes.get(route.topic)
        self._routes[route.topic] = route
        changed = self._store_addresses(route.data.broker_datas)
        if before is None or before.publish_queues != route.publish_queues:
            self.changes += 1
            changed = True
        if changed or before is None or before[2:] != route[2:]:
            log.info(
                "route topic=%s brokers=%s queues=%d",
                route.topic,
                sorted(_brokers_of(route)),
                len(route.publish_queues),
            )
            self._tell(route.topic)

    def _store_addresses(self, brokers: Iterable[BrokerData]) -> bool:
        """Whether one is another one than before."""
        changes = self.changes
        for broker in brokers:
            addresses = dict(broker.broker_addrs)
            if self._brokers.get(broker.broker_name) != addresses:
                self._brokers[broker.broker_name] = addresses
                self.changes += 1
        return self.changes != changes

    def _tell(self, topic: str) -> None:
        for callback in self.on_change:
            callback(topic)

    # --- brokers
    # ----------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> Mapping[str, Mapping[int, str]]:
        """Of those that stand in a route: addresses by broker name and id; id 0 is the master."""
        return self._brokers

    def _addresses(self, broker_name: str) -> Mapping[int, str]:
        """By broker id, of those that were only looked at, too; none for an unknown one."""
        for table in (self._brokers, self._seen, self._seen_before):
            if (addresses := table.get(broker_name)) is not None:
                return addresses
        return {}

    def master(self, broker_name: str) -> str | None:
        """The master's address."""
        return self._addresses(broker_name).get(MASTER_ID)

    def topic_of(self, broker_name: str) -> str | None:
        """One of the topics that it has, as far as known."""
        return next(
            (topic for topic, route in self._routes.items() if broker_name in _brokers_of(route)),
            None,
        )

    def has_replicas(self, broker_name: str) -> bool:
        """There are brokers of that name beside its master, or without one: it may change."""
        addresses = self._addresses(broker_name)
        return len(addresses) > (MASTER_ID in addresses)

    def replica(self, broker_name: str, broker_id: int) -> tuple[str, bool] | None:
        """The address to pull from and whether it is a slave's: the wanted id, else the next one,
        else any (§2.4)."""
        addresses = self._addresses(broker_name)
        if not addresses:
            return None
        for wanted in (broker_id, broker_id + 1) if broker_id != MASTER_ID else (MASTER_ID,):
            if wanted in addresses:
                return addresses[wanted], wanted != MASTER_ID
        any_id = min(addresses)
        return addresses[any_id], any_id != MASTER_ID

    # --- service
    # ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask for every known topic again, every 30 seconds."""
        while True:
            await self._clock.sleep(self.interval)
            await self.refresh_all()

    async def refresh_all(self) -> None:
        """Ask for every known topic; then forget brokers that stand in no route any more, and those
        that nobody has looked at since the round before."""
        for topic in list(self._routes):
            try:
                await self.refresh(topic)
            except (RemotingError, BrokerError) as error:
                self._outages.fails(
                    log, ("refresh",), "route not refreshed topic=%s error=%s", topic, error,
                    who=topic,
                )  # fmt: skip
            else:
                self._outages.works(("refresh",), who=topic)
        in_use = set().union(*(_brokers_of(route) for route in self._routes.values()))
        for name in set(self._brokers) - in_use:
            del self._brokers[name]
            self.changes += 1
        self._seen, self._seen_before = {}, self._seen


def _brokers_of(route: TopicRoute) -> set[str]:
    return {broker.broker_name for broker in route.data.broker_datas}


def _is_cancelled() -> bool:
    """It is the caller that is cancelled, not what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
