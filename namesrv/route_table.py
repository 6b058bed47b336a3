"""Who serves which topic: the state of a name server (class RouteInfoManager; ``namesrv.md``
§5.2–5.8). Pure; time is an argument.

Six tables::

    queues          broker name   -> topic -> QueueData
    holders         topic         -> broker names                    (and those that had it and are
                                                                      gone, until ``tidy_up``)
    brokers         broker name   -> cluster, broker id -> address   (id 0 is the master)
    clusters        cluster       -> broker names
    live            address       -> broker name, last update, DataVersion, connections that
                                     registered it, HA address
    filter servers  address       -> addresses

Invariants: ``queues`` and ``brokers`` have the same broker names, those in ``clusters`` are among
them; every broker has an address, and is the one that is live there; whoever has a topic is one of
its holders; no cluster is without a broker name. A broker that goes takes nothing but its entry in
``queues`` along at once, whatever number of topics it had.

Brokers that went without a word are remembered beside them (``lost_brokers.py``).

Nothing is persistent: brokers register again within 30 s. A topic goes with its last broker, by
request 216, or when a master says what it has in all and lacks it (``whole_tables.py``; in the
original no registration removes a topic). Kept apart from the original, where it leaves entries
behind that nothing ever removes:

* a broker is gone when the last connection that registered it has ended: what a killed process sent
  may come after what its successor at the same address sent, and must not take that one along (the
  original asks for the connection of the registration that came last);
* a connection that ends takes *all* brokers and broker names with it of which it was the last (the
  original: the first it finds);
* a broker that leaves takes its own address along (the original: whoever has the broker id that it
  names, which may be the master of today);
* an address is one broker's: when another broker name registers at it, the one before is gone
  without a word (the original: both are there until the connection ends, and the one before stays
  when the other one leaves);
* a broker name that goes, goes from all clusters (the original: from the cluster named in the
  request);
* a connection that never registered anything removes nothing (the original looks for a broker whose
  address is the connection's).

One file: every change keeps the invariants of all six tables.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import structs

from ..remoting.protocol.bodies.codec import encode_body
from ..remoting.protocol.bodies.lists import TopicList
from ..remoting.protocol.bodies.route import (
    MASTER_ID,
    BrokerData,
    ClusterInfo,
    QueueData,
    TopicRouteData,
)
from ..remoting.protocol.bodies.topic_config import DataVersion, TopicConfig
from ..remoting.protocol.commands.route import BrokerRequest, RegisterBrokerRequest
from ..remoting.protocol.fastjson import writer as fastjson_writer
from ..remoting.slices import Steps, at_once, in_one, slices
from .lost_brokers import LostBrokers
from .rivals import Rivals
from .route_limits import MAX_BROKERS, MAX_FILTER_SERVERS, RouteTableFullError, check_names
from .whole_tables import WholeTables

TOPICS_AT_ONCE = 5000
"""So many are entered, changed or looked at in one slice: some milliseconds."""
KEPT_ROUTES: Final = 50_000
"""Answers that are kept. All go when there are more, or a broker goes: 7 ms."""
NOT_YET = DataVersion(counter=-1)
"""Of a broker some of whose topics are still to come."""

KEPT_CONNECTIONS: Final = 8
"""Of one broker: the last that registered it."""
BROKER_EXPIRED_MS = 120_000
"""A broker that has not registered for so long is gone: four of its 30 s periods."""
_NONE: Final[Mapping[str, QueueData]] = {}
READ, WRITE = 4, 2
"""Bits of a permission (class PermName)."""
UNIT, UNIT_SUB = 1, 2
"""Bits of a topic's system flags (class TopicSysFlag)."""

Topics = Callable[[], Steps[Mapping[str, TopicConfig]]]


class BrokerGoneError(Exception):
    """A broker was removed before it was registered to the end."""


class LiveBroker:
    """A broker process that registered and has not been missed since."""

    __slots__ = (
        "broker_name",
        "connections",
        "data_version",
        "ha_server_addr",
        "is_master",
        "last_update_ms",
    )

    def __init__(
        self,
        broker: RegisterBrokerRequest,
        last_update_ms: int,
        data_version: DataVersion,
        connections: tuple[object, ...],
    ) -> None:
        self.broker_name: str = broker.broker_name
        self.is_master: bool = broker.broker_id == MASTER_ID
        self.ha_server_addr: str = broker.ha_server_addr
        self.last_update_ms: int = last_update_ms
        self.data_version: DataVersion = data_version
        self.connections: tuple[object, ...] = connections


class Registered(NamedTuple):
    """What came of a registration."""

    is_new: bool
    """There was no address under this broker name and id."""
    topics_taken: int
    """How many topics of the body were read; 0 when their DataVersion was known."""
    master_addr: str | None = None
    """For a slave whose master is alive: where that is, and where it replicates from."""
    master_ha_addr: str | None = None
    rival: str | None = None
    """Where another broker of this name and id is, with which this one takes turns."""
    forgotten: tuple[str, ...] = ()
    """Topics that this broker does not have any more."""
    instead_of: str | None = None
    """The broker name that was live at this address before."""


class Removed(NamedTuple):
    """A broker process that is not routed to any more, and what is left of its connections."""

    address: str
    connections: tuple[object, ...]


class RouteTable:
    """The tables and what requests do to them. Only ever used from one thread."""

    def __init__(
        self,
        max_topics: Callable[[], int] = lambda: 2**31 - 1,
        on_the_wall: Callable[[int], int] = lambda now_ms: now_ms,
    ) -> None:
        """``max_topics``: how many topics brokers may have, all of them together. ``on_the_wall``:
        what time it was when a clock that never jumps showed that; all times are that one's."""
        self._max_topics = max_topics
        self._on_the_wall = on_the_wall
        self._queues: dict[str, dict[str, QueueData]] = {}
        self._holders: dict[str, tuple[str, ...]] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, dict[str, None]] = {}
        self._live: dict[str, LiveBroker] = {}
        self._filter_servers: dict[str, list[str]] = {}
        self.lost: LostBrokers = LostBrokers()
        self._rivals: Final = Rivals()
        self._whole_tables: Final = WholeTables()
        self._left: deque[tuple[str, dict[str, QueueData]]] = deque()
        """Brokers that are gone, and what they had."""
        self._encoded: dict[
            tuple[str, bool], tuple[str | None, bytes]
        ] = {}  # answers to 105, kept until they change

    # --- brokers
    # ----------------------------------------------------------------------------------------------

    def register(
        self,
        broker: RegisterBrokerRequest,
        data_version: DataVersion,
        filter_servers: list[str] | None,
        topics: Callable[[], Mapping[str, TopicConfig]],
        connection: object,
        now_ms: int,
    ) -> Registered:
        """``register_in_slices`` at once."""
        return at_once(
            self.register_in_slices(
                broker, data_version, filter_servers, lambda: in_one(topics()), connection, now_ms
            )
        )

    def register_in_slices(
        self,
        broker: RegisterBrokerRequest,
        data_version: DataVersion,
        filter_servers: list[str] | None,
        topics: Topics,
        connection: object,
        now_ms: int,
        still_there: Callable[[], None] = lambda: None,
    ) -> Steps[Registered]:
        """Take a registration (103). ``topics`` is called only when they are needed: from a master,
        and when the DataVersion of this address changed or the address is new, or topics that are
        not among them may be forgotten. When it raises, nothing has changed. Of many topics some
        are known before the others; raises ``BrokerGoneError`` when the broker is removed
        meanwhile. ``still_there`` raises where nobody would remove it any more. Raises
        ``RouteTableFullError``: a broker that was known before stays, with what it had.
        """
        name, is_master = broker.broker_name, broker.broker_id == MASTER_ID
        configs: Mapping[str, TopicConfig] = {}
        if is_master and (
            self._is_new(broker)
            or self.is_changed(broker, data_version)
            or self._may_forget(broker, data_version)
        ):
            configs = yield from topics()
        yield from self._check_registration(broker, configs, filter_servers or [], now_ms)
        still_there()  # others had their turn; they have none before it can be removed
        is_new = self._is_new(broker)
        changed = (
            configs if is_new or self.is_changed(broker, data_version) else {}
        )  # else they stay as they are: permissions may have been wiped
        may_forget = bool(configs) and self._may_forget(broker, data_version)
        if is_master:  # a slave brings no topics
            self.lost.forget(name)
        instead_of = self._take_over(broker)
        self._clusters.setdefault(broker.cluster_name, {})[name] = None
        rival = self._place(broker)
        live = LiveBroker(
            broker,
            now_ms,
            NOT_YET if changed else data_version,
            self._connections_of(broker.broker_addr, connection),
        )
        self._live[broker.broker_addr] = live
        if changed:
            self._whole_tables.told(name, data_version, whole=False)
        yield from self._add_topics(broker, live, changed)
        live.data_version = data_version
        forgotten: list[str] = []
        if may_forget:
            forgotten = yield from self._forget_all_but(broker, live, configs)
            self._whole_tables.told(name, data_version, whole=True)
        self._set_filter_servers(broker.broker_addr, filter_servers)
        return self._registered(broker, is_new, len(changed))._replace(
            rival=rival, forgotten=tuple(forgotten), instead_of=instead_of
        )

    def unregister(self, broker: BrokerRequest) -> bool:
        """Forget a broker (104). Its entry goes by its address: the id that it names may be another
        one's by now, or not be its own yet. False: it was not live."""
        was_live = self._live_of(broker) is not None
        if was_live:
            del self._live[broker.broker_addr]
            self._rivals.gone({broker.broker_addr})
            self._filter_servers.pop(broker.broker_addr, None)
            known = self._brokers.get(broker.broker_name)
            if known is not None:
                _take_out(known.broker_addrs, broker.broker_addr)
                self._drop([known])
        self.miss_no_more(broker.broker_name)
        self._encoded.clear()
        return was_live

    def miss_no_more(self, broker_name: str) -> None:
        """The last of its brokers has left, unless there is another one."""
        if broker_name not in self._brokers:
            self.lost.forget(broker_name)

    def is_changed(
        self, broker: BrokerRequest | RegisterBrokerRequest, data_version: DataVersion
    ) -> bool:
        """Whether a broker's topics differ from what is known here, or nothing is known of it."""
        live = self._live_of(broker)
        return live is None or live.data_version != data_version

    def query_data_version(
        self, broker: BrokerRequest, data_version: DataVersion, now_ms: int
    ) -> tuple[bool, DataVersion | None]:
        """Request 322: whether it changed, and the version known here. An unchanged one counts as a
        sign of life."""
        changed = self.is_changed(broker, data_version)
        live = self._live_of(broker)
        if live is None:
            return True, None
        if not changed:
            live.last_update_ms = now_ms
        return changed, live.data_version

    def disconnect(self, connection: object) -> list[Removed]:
        """Remove the brokers that registered over this connection, and over none that is left."""
        its = {a: live for a, live in self._live.items() if connection in live.connections}
        for live in its.values():
            live.connections = tuple(c for c in live.connections if c is not connection)
        return self._remove([address for address, live in its.items() if not live.connections])

    def expire(self, now_ms: int) -> list[Removed]:
        """Remove the brokers that gave no sign of life for 120 s. Their connections are to be
        closed."""
        self.lost.expire(self._on_the_wall(now_ms))
        gone = [
            address
            for address, live in self._live.items()
            if live.last_update_ms + BROKER_EXPIRED_MS < now_ms
        ]
        return self._remove(gone)

    # --- permissions and topics
    # -----------------------------------------------------------------------------------------

    def wipe_write_perm(self, broker_name: str) -> Steps[int]:
        """Nobody shall write to this broker (205), until it registers with a changed DataVersion.
        Returns its topics."""
        return self._change_perm(broker_name, lambda perm: perm & ~WRITE)

    def add_write_perm(self, broker_name: str) -> Steps[int]:
        """Read and write again (327), even where it was read-only before. Returns its topics."""
        return self._change_perm(broker_name, lambda _perm: READ | WRITE)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic (216), everywhere or on the brokers of one cluster."""
        self._forget_route(topic)
        self.lost.forget_topic(topic, cluster or None)
        names = self._clusters.get(cluster, {}) if cluster else None
        for name in self._holders.get(topic, ()):
            if names is None or name in names:
                self._queues.get(name, {}).pop(topic, None)
                self._let_go(topic, name)

    def tidy_up(self) -> Steps[None]:
        """Forget what brokers had that are gone. Nobody sees it any more; it takes space."""
        while self._left:
            name, queues = self._left[0]
            for _ in range(min(TOPICS_AT_ONCE, len(queues))):
                self._let_go(queues.popitem()[0], name)
            if not queues:
                self._left.popleft()
            yield

    # --- answers
    # ----------------------------------------------------------------------------------------------

    def route(self, topic: str, order_conf: str | None = None) -> TopicRouteData | None:
        """Where a topic is (105), ``None`` when nowhere."""
        queues = self._queues_of(topic)
        if not queues:
            return None
        brokers = [self._brokers[queue.broker_name] for queue in queues]
        addresses = [address for broker in brokers for address in broker.broker_addrs.values()]
        return TopicRouteData(
            order_topic_conf=order_conf,
            queue_datas=queues,
            broker_datas=brokers,
            filter_server_table={
                a: self._filter_servers[a] for a in addresses if a in self._filter_servers
            },
        )

    def encoded_route(
        self, topic: str, *, standard: bool, order_conf: str | None = None
    ) -> bytes | None:
        """``route`` as the body of an answer, in standard JSON or with the numeric keys of
        fastjson."""
        kept = self._encoded.get((topic, standard))
        if kept is not None and kept[0] == order_conf:
            return kept[1]
        route = self.route(topic, order_conf)
        if route is None:
            return None
        body = encode_route(route, standard=standard)
        if len(self._encoded) >= KEPT_ROUTES:
            self._encoded.clear()
        self._encoded[topic, standard] = (order_conf, body)
        return body

    def cluster_info(self) -> ClusterInfo:
        """All brokers and clusters (106)."""
        return ClusterInfo(
            broker_addr_table=self._brokers,
            cluster_addr_table={cluster: tuple(names) for cluster, names in self._clusters.items()},
        )

    def topics(self) -> Steps[list[str]]:
        """All topics (206)."""
        return self._topics_where(lambda _: True) if self._left else in_one(list(self._holders))

    def topics_of_cluster(self, cluster: str) -> Steps[list[str]]:
        """Topics that a broker of the cluster has (224); none when nobody knows the cluster."""
        found: dict[str, None] = {}
        names = list(self._clusters.get(cluster, {}))
        topics = itertools.chain.from_iterable(list(self._queues.get(name, ())) for name in names)
        for number, some in enumerate(slices(topics, TOPICS_AT_ONCE)):
            if number:
                yield
            found.update(dict.fromkeys(some))
        return list(found)

    def system_topics(self) -> TopicList:
        """Names of clusters and brokers, which are topics too, and a broker to ask for the rest
        (304)."""
        names = dict.fromkeys(
            name for cluster, brokers in self._clusters.items() for name in (cluster, *brokers)
        )
        addresses = (
            address for broker in self._brokers.values() for address in broker.broker_addrs.values()
        )
        return TopicList(topic_list=tuple(names), broker_addr=next(addresses, None))

    def topics_with_flags(
        self, *, unit: bool | None = None, unit_sub: bool | None = None
    ) -> Steps[list[str]]:
        """Topics by the system flags of their first broker (311, 312, 313); ``None``: either
        way."""
        return self._topics_where(
            lambda first: _has_flag(first, UNIT, unit) and _has_flag(first, UNIT_SUB, unit_sub)
        )

    def _topics_where(self, wanted: Callable[[QueueData], bool]) -> Steps[list[str]]:
        """By what their first broker has."""
        found: list[str] = []
        for number, some in enumerate(slices(list(self._holders), TOPICS_AT_ONCE)):
            if number:
                yield
            found += [
                topic for topic in some if (queues := self._queues_of(topic)) and wanted(queues[0])
            ]
        return found

    # --- inside
    # ----------------------------------------------------------------------------------------------

    def _queues_of(self, topic: str) -> list[QueueData]:
        """Of each broker that has the topic."""
        found = (self._queues.get(name, _NONE).get(topic) for name in self._holders.get(topic, ()))
        return [queue for queue in found if queue is not None]

    def _live_of(self, broker: BrokerRequest | RegisterBrokerRequest) -> LiveBroker | None:
        """Unless it is another broker name that is live at the address."""
        live = self._live.get(broker.broker_addr)
        return live if live is not None and live.broker_name == broker.broker_name else None

    def _connections_of(self, broker_addr: str, connection: object) -> tuple[object, ...]:
        """Those that registered it, this one last."""
        live = self._live.get(broker_addr)
        before = () if live is None else live.connections
        return (*(c for c in before if c is not connection), connection)[-KEPT_CONNECTIONS:]

    def _is_new(self, broker: RegisterBrokerRequest) -> bool:
        known = self._brokers.get(broker.broker_name)
        return known is None or broker.broker_id not in known.broker_addrs

    def _check_registration(
        self,
        broker: RegisterBrokerRequest,
        topics: Collection[str],
        filter_servers: list[str],
        now_ms: int,
    ) -> Steps[None]:
        """Raises ``RouteTableFullError``; a broker that was known has given a sign of life."""
        try:
            yield from self._check_topics(broker.broker_name, topics)
            self._check_broker(broker, filter_servers)
        except RouteTableFullError:
            if (before := self._live_of(broker)) is not None:
                before.last_update_ms = now_ms
            raise

    def _check_topics(self, broker_name: str, topics: Collection[str]) -> Steps[None]:
        """Raises ``RouteTableFullError``. What brokers had that are gone is given back first where
        it takes the space."""
        for number, some in enumerate(slices(topics, TOPICS_AT_ONCE)):
            if number:
                yield
            check_names(some)
        while True:
            own, more = self._queues.get(broker_name, _NONE), 0
            for number, some in enumerate(slices(topics, TOPICS_AT_ONCE)):
                if number:
                    yield
                more += sum(topic not in own for topic in some)
            if own is not self._queues.get(broker_name, _NONE):
                continue  # the broker has gone meanwhile
            held, most = sum(map(len, self._queues.values())), self._max_topics()
            if not more or held + sum(len(queues) for _, queues in self._left) + more <= most:
                return
            if not self._left:
                break
            yield from self.tidy_up()
        raise RouteTableFullError(
            f"{broker_name} has {more} more topics, all brokers have {held}: the limit of this "
            "name server is "
            f"maxTopics={most}; delete topics that are not used, or raise it"
        )

    def _check_broker(self, broker: RegisterBrokerRequest, filter_servers: list[str]) -> None:
        """Raises ``RouteTableFullError``."""
        check_names(
            (
                broker.broker_name,
                broker.cluster_name,
                broker.broker_addr,
                broker.ha_server_addr,
                *filter_servers,
            )
        )
        if len(filter_servers) > MAX_FILTER_SERVERS:
            raise RouteTableFullError(
                f"{broker.broker_name} has {len(filter_servers)} filter servers, the limit is "
                f"{MAX_FILTER_SERVERS}"
            )
        is_known = self._live_of(broker) is not None and broker.broker_name in self._clusters.get(
            broker.cluster_name, ()
        )
        if (self._is_new(broker) or not is_known) and self._is_full():
            raise RouteTableFullError(
                f"the name server knows {MAX_BROKERS} brokers, {broker.broker_name} at "
                f"{broker.broker_addr} is refused"
            )

    def _add_topics(
        self, broker: RegisterBrokerRequest, live: LiveBroker, configs: Mapping[str, TopicConfig]
    ) -> Steps[None]:
        """Raises ``BrokerGoneError``."""
        queues = self._queues[broker.broker_name]
        for number, some in enumerate(slices(configs.items(), TOPICS_AT_ONCE)):
            if number:
                yield
                self._check_still_there(broker, live, queues)
            self._put_topics(broker.broker_name, some)

    def _forget_all_but(
        self, broker: RegisterBrokerRequest, live: LiveBroker, kept: Collection[str]
    ) -> Steps[list[str]]:
        """Returns what is forgotten. Raises ``BrokerGoneError``."""
        name, forgotten = broker.broker_name, list[str]()
        queues = self._queues[name]
        for number, some in enumerate(slices(list(queues), TOPICS_AT_ONCE)):
            if number:
                yield
                self._check_still_there(broker, live, queues)
            for topic in some:
                if topic not in kept and queues.pop(topic, None) is not None:
                    self._let_go(topic, name)
                    self._forget_route(topic)
                    forgotten.append(topic)
        return forgotten

    def _check_still_there(
        self, broker: RegisterBrokerRequest, live: LiveBroker, queues: Mapping[str, QueueData]
    ) -> None:
        """Raises ``BrokerGoneError``: others had their turn."""
        if (
            self._live.get(broker.broker_addr) is not live
            or self._queues.get(broker.broker_name) is not queues
        ):
            raise BrokerGoneError(
                f"{broker.broker_addr} was removed while its topics were registered"
            )

    def _may_forget(self, broker: RegisterBrokerRequest, data_version: DataVersion) -> bool:
        """Topics of a master that it does not register."""
        return (
            bool(broker.whole_table)
            and self._whole_tables.has_news(broker.broker_name, data_version)
            and not any(
                live.is_master and live.broker_name == broker.broker_name
                for address, live in self._live.items()
                if address != broker.broker_addr
            )
        )

    def _is_full(self) -> bool:
        """Of brokers."""
        ids, members = (
            sum(len(each.broker_addrs) for each in self._brokers.values()),
            sum(map(len, self._clusters.values())),
        )
        return max(ids, members, len(self._live)) >= MAX_BROKERS

    def _take_over(self, broker: RegisterBrokerRequest) -> str | None:
        """The address is this broker's from now on: another one that is live there, whose process
        cannot be there any more, is gone without a word. Its name."""
        before = self._live.get(broker.broker_addr)
        if before is None or before.broker_name == broker.broker_name:
            return None
        self._remove([broker.broker_addr])
        return before.broker_name

    def _place(self, broker: RegisterBrokerRequest) -> str | None:
        """Enter the address; another id that had it before (a slave that became master) loses it.
        Its rival, if it has one."""
        known = self._brokers.get(broker.broker_name)
        if known is None:
            known = BrokerData(
                cluster=broker.cluster_name, broker_name=broker.broker_name, broker_addrs={}
            )
            self._brokers[broker.broker_name] = known
            self._queues[broker.broker_name] = {}
        addrs, before = known.broker_addrs, known.broker_addrs.get(broker.broker_id)
        rival = self._rivals.registers(
            broker.broker_name, broker.broker_id, broker.broker_addr, before
        )
        if (
            addrs.get(broker.broker_id) == broker.broker_addr
            and list(addrs.values()).count(broker.broker_addr) == 1
        ):
            return rival
        _take_out(addrs, broker.broker_addr)
        addrs[broker.broker_id] = broker.broker_addr
        self._encoded.clear()
        return rival

    def _put_topics(self, broker_name: str, configs: Iterable[tuple[str, TopicConfig]]) -> None:
        queues = self._queues[broker_name]
        for topic, config in configs:
            queue = QueueData(
                broker_name=broker_name,
                read_queue_nums=config.read_queue_nums,
                write_queue_nums=config.write_queue_nums,
                perm=config.perm,
                topic_sys_flag=config.topic_sys_flag,
            )
            self._set_queue(topic, queues, queue)

    def _set_queue(self, topic: str, queues: dict[str, QueueData], queue: QueueData) -> None:
        if queues.get(topic) != queue:
            queues[topic] = queue
            holders = self._holders.get(topic, ())
            if queue.broker_name not in holders:
                self._holders[topic] = (*holders, queue.broker_name)
            self._forget_route(topic)

    def _let_go(self, topic: str, broker_name: str) -> None:
        """It is no holder any more, unless it has the topic again."""
        if topic in self._queues.get(broker_name, _NONE):
            return
        rest = tuple(name for name in self._holders.get(topic, ()) if name != broker_name)
        if rest:
            self._holders[topic] = rest
        else:
            self._holders.pop(topic, None)

    def _set_filter_servers(self, broker_addr: str, filter_servers: list[str] | None) -> None:
        """``None`` leaves them as they are, an empty list removes them."""
        if filter_servers is None or filter_servers == self._filter_servers.get(broker_addr, []):
            return
        if filter_servers:
            self._filter_servers[broker_addr] = filter_servers
        else:
            del self._filter_servers[broker_addr]
        self._encoded.clear()

    def _registered(
        self, broker: RegisterBrokerRequest, is_new: bool, topics_taken: int
    ) -> Registered:
        if broker.broker_id != MASTER_ID:
            master = self._brokers[broker.broker_name].broker_addrs.get(MASTER_ID)
            live = self._live.get(master) if master is not None else None
            if live is not None:
                return Registered(is_new, topics_taken, master, live.ha_server_addr)
        return Registered(is_new, topics_taken)

    def _remove(self, addresses: list[str]) -> list[Removed]:
        if not addresses:
            return []
        lives = {address: self._live.pop(address) for address in addresses}
        removed = [Removed(address, live.connections) for address, live in lives.items()]
        gone = lives.keys()
        for address in gone:
            self._filter_servers.pop(address, None)
        self._rivals.gone(gone)
        for name, broker in self._brokers.items():
            here = {i: known for i, known in broker.broker_addrs.items() if known in gone}
            for broker_id in here:
                del broker.broker_addrs[broker_id]
            if here and not broker.broker_addrs:
                last_ms = max(lives[address].last_update_ms for address in here.values())
                self.lost.remember(
                    name, broker.cluster, self._queues[name], self._on_the_wall(last_ms)
                )
        self._drop(list(self._brokers.values()))
        self._encoded.clear()
        return removed

    def _drop(self, brokers: Iterable[BrokerData]) -> None:
        """Those of them that have no address any more."""
        gone = {broker.broker_name for broker in brokers if not broker.broker_addrs}
        for name in gone:
            del self._brokers[name]
            self._whole_tables.gone(name)
            self._left.append((name, self._queues.pop(name)))
        for cluster, names in list(self._clusters.items()) if gone else ():
            for name in gone.intersection(names):
                del names[name]
            if not names:
                del self._clusters[cluster]

    def _change_perm(self, broker_name: str, changed: Callable[[int], int]) -> Steps[int]:
        touched, queues = 0, self._queues.get(broker_name, {})
        for some in slices(list(queues), TOPICS_AT_ONCE):
            for topic in some:
                queue = queues.get(topic)
                if queue is not None:
                    touched += 1
                    self._set_queue(topic, queues, structs.replace(queue, perm=changed(queue.perm)))
            yield
        return touched

    def _forget_route(self, topic: str) -> None:
        self._encoded.pop((topic, False), None)
        self._encoded.pop((topic, True), None)


def _take_out(addrs: dict[int, str], address: str) -> None:
    for broker_id in [i for i, known in addrs.items() if known == address]:
        del addrs[broker_id]


def encode_route(route: TopicRouteData, *, standard: bool) -> bytes:
    """The body of an answer to 105, in standard JSON or with the numeric keys of fastjson."""
    return fastjson_writer.dumps_browser_compatible(route) if standard else encode_body(route)


def _has_flag(queue: QueueData, flag: int, wanted: bool | None) -> bool:
    return wanted is None or bool(queue.topic_sys_flag & flag) == wanted
