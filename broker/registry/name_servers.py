"""The broker tells the name servers what it has (classes BrokerController, BrokerOuterAPI;
``broker-services.md`` §11).

Each name server has a ``NameServerLink`` with a life of its own, so that one that is gone delays
nobody. A link registers

* everything: at start, after 10 s, then every ``registerNameServerPeriod``, and when something
  concerns all topics;
* everything, sooner than the period: while the last attempt failed, and when the connection was
  lost;
* the topics that were made or changed since the last request, and only these: at once. Java's
  consumers ask for the route of their retry topic milliseconds after their first heartbeat, native
  ones too, and then not for 20 or 30 s.

One request at a time, and its answer is awaited. Name servers add the topics of a registration to
those they know, but only when its version is not the one that they know of this broker. So whatever
has not been sent yet goes into the next request, and what is sent after a loss is everything. Name
servers may come and go while the broker runs (``use``).

With ``forceRegister=false`` a periodic registration is made only when QUERY_DATA_VERSION says that
it is needed.

One file: what a link sends next depends on all that it has sent and lost before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from ...remoting.clock import Clock
from ...remoting.errors import ConnectError, ConnectionLostError, RocketMQError
from ...remoting.outages import Outages
from ...remoting.peer import Peer
from ...remoting.protocol.bodies.codec import BodyError, decode_body, encode_body
from ...remoting.protocol.bodies.kv import KVTable
from ...remoting.protocol.bodies.route import ClusterInfo
from ...remoting.protocol.bodies.topic_config import DataVersion, TopicConfigTable
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.route import RegisterBrokerResponse
from ...remoting.protocol.frames.frame import FrameError
from ...remoting.responses import Response
from ...remoting.services import happens_within
from ...remoting.transport.address import split_address
from ...remoting.transport.client import RemotingClient
from ...store.model.errors import StoreFileError
from ..config.addresses import resolve
from ..config.config import BrokerConfig
from ..state.config_files import ConfigFile
from ..state.topics import Topic, Topics
from .registration import (
    FIRST_RETRY_S,
    PART_BYTES,
    Identity,
    Registration,
    in_parts,
    is_outdated,
    name_server_addresses,
    period_s,
    registration,
    retry_s,
)

log: Final = logging.getLogger(__name__)

SECOND_REGISTRATION_S: Final = 10.0
AT_ONCE: Final = 200
"""Topics that are written in the event loop: a millisecond."""
ANNOUNCE_TIMEOUT_S: Final = 3.0
"""How long an administrator waits for the name servers to know a topic."""
UNREGISTER_TIMEOUT_S: Final = 3.0
ON_DISK_TIMEOUT_S: Final = 10.0
"""How long a registration of all topics waits for those of them that are not in their file yet."""


async def _resolved(addresses: Iterable[str]) -> AsyncIterator[str]:
    for address in addresses:
        try:
            yield await resolve(split_address(address)[0])
        except (OSError, ConnectError):
            log.info("a slave's address cannot be looked up address=%s", address)


class NameServers:
    """Service: keeps this broker known to every name server. ``identity`` is asked for once the
    port is known."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        remoting: RemotingClient,
        clock: Clock,
        identity: Callable[[], Identity],
        topics_file: ConfigFile | None = None,
    ) -> None:
        """``topics_file``: where ``topics`` are kept; None where they are in memory only."""
        self.config = config
        self.topics = topics
        self.remoting = remoting
        self.clock = clock
        self.outages: Outages = Outages(clock)
        self.identity = identity
        self._topics_file = topics_file
        self.links: list[NameServerLink] = [
            NameServerLink(address, self) for address in name_server_addresses(config.namesrv_addr)
        ]
        self._changed = asyncio.Event()
        self._may_begin = asyncio.Event()
        self._may_begin.set()
        self._said_not_packed = False
        self.told_version: DataVersion | None = None
        """Of the last change that name servers are to know of. One that is told a newer version
        with some topics would not take in those that have come with it and are told next."""
        self.on_answer: list[Callable[[RegisterBrokerResponse], None]] = []
        """Called with what name servers answer to a registration: where the master is."""

    async def run(self) -> None:
        """Until cancelled; then all name servers are told that the broker leaves."""
        if not self.links:
            log.warning(
                "no name server is configured (namesrvAddr, -n or NAMESRV_ADDR): only who knows "
                "the address comes"
            )
        tasks: dict[NameServerLink, asyncio.Task[None]] = {}
        try:
            await self._may_begin.wait()
            async with asyncio.TaskGroup() as group:
                while True:
                    self._changed.clear()
                    for link in [link for link in tasks if link not in self.links]:
                        tasks.pop(link).cancel()
                        group.create_task(link.unregister())
                    tasks |= {
                        link: group.create_task(link.run())
                        for link in self.links
                        if link not in tasks
                    }
                    await self._changed.wait()
        finally:
            await self._unregister()

    def use(self, addresses: str | None) -> None:
        """Be known to these (``;`` between them) from now on; the others are told that the broker
        leaves."""
        wanted = name_server_addresses(addresses)
        if wanted != [link.address for link in self.links]:
            log.info(
                "name servers changed old=%s new=%s",
                ";".join(link.address for link in self.links),
                ";".join(wanted),
            )
            known = {link.address: link for link in self.links}
            self.links = [known.get(address) or NameServerLink(address, self) for address in wanted]
            self._changed.set()

    def wait_for_identity(self) -> None:
        """Before ``run``: register nothing until ``has_identity``: this broker does not know yet
        whether it is a master."""
        self._may_begin.clear()

    def has_identity(self) -> None:
        """This broker is another one from now on (master, or a slave): every name server is told at
        once, also one that has failed to answer."""
        self._may_begin.set()
        for link in self.links:
            link.register_soon(at_once=True)

    def register_soon(self) -> None:
        """Register everything before it is time: it concerns all topics, or a slave looks for its
        master."""
        for link in self.links:
            link.register_soon()

    async def slaves(self) -> frozenset[str]:
        """IP addresses of this broker's slaves (``slave_addresses``)."""
        return frozenset([found async for found in _resolved(await self.slave_addresses())])

    async def slave_addresses(self) -> list[str]:
        """Where this broker's slaves take requests, as the first name server that answers knows
        them."""
        for link in self.links:
            try:
                answer = await self.remoting.invoke(
                    link.address, RequestCode.GET_BROKER_CLUSTER_INFO
                )
                known = decode_body(ClusterInfo, answer.check(link.address).body).broker_addr_table
            except (RocketMQError, BodyError) as error:
                self.outages.fails(
                    log,
                    ("slaves", link.address),
                    "slaves are not known name_server=%s error=%s",
                    link.address,
                    error,
                )
                continue
            self.outages.works(("slaves", link.address))
            own = known.get(self.config.broker_name)
            return (
                []
                if own is None
                else [address for broker_id, address in own.broker_addrs.items() if broker_id]
            )
        return []

    def register_topic(self, topic: Topic, version: DataVersion) -> None:
        """A topic was made or changed, which gave the table this version. To be called for each of
        them, in their order."""
        self.told_version = version
        for link in self.links:
            link.register_topic(topic.name)

    async def announce(self, *topics: Topic) -> None:
        """Return when every name server knows the topics, has failed, or took too long."""
        waiting = [link.announce(topic.name) for link in self.links for topic in topics]
        if waiting:
            await asyncio.wait(waiting, timeout=ANNOUNCE_TIMEOUT_S)

    async def all_topics(self) -> TopicConfigTable:
        """Those that are on the disk: of what a kill may take consumers must not hear. (A disk that
        does not take them in time, or not at all, is told of elsewhere: the broker has to stay
        known.)"""
        file = self._topics_file
        with suppress(TimeoutError, StoreFileError):
            async with asyncio.timeout(ON_DISK_TIMEOUT_S):
                while file is not None and file.dirty:
                    await file.saved()
        return self.topics.record()

    async def have_heard(self) -> None:
        """Return when what is on its way to name servers is answered, or took too long: what it
        says of a topic that is being deleted must not come behind the deletion there."""
        under_way = [link.under_way for link in self.links if link.under_way is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=ANNOUNCE_TIMEOUT_S)

    def order_topics(self, link: NameServerLink, names: Mapping[str, str]) -> None:
        """The ordered topics as a name server tells them; of several, the first that can be reached
        is believed."""
        if link is next(
            (each for each in self.links if each.registered), link
        ) and self.topics.set_order_topics(names):
            log.info("ordered topics changed name_server=%s topics=%s", link.address, sorted(names))

    async def request(self, table: TopicConfigTable, *, whole: bool = False) -> Registration:
        """What is sent; many topics are written in a thread."""
        config = self.config
        written = partial(
            registration,
            self.identity(),
            table,
            broker_permission=config.broker_permission,
            compressed=config.compressed_register,
            whole=whole,
        )
        request = (
            written()
            if len(table.topic_config_table) <= AT_ONCE
            else await asyncio.to_thread(written)
        )
        if (
            config.compressed_register
            and not request.header.compressed
            and not self._said_not_packed
        ):
            self._said_not_packed = True
            log.info(
                "compressedRegister=true: JSON is sent all the same, topics have flags or order "
                "that would be left out"
            )
        return request

    @property
    def is_long(self) -> bool:
        """Whether the topics are registered in parts."""
        return self.topics.frame_budget.taken_bytes > PART_BYTES

    async def _unregister(self) -> None:
        links = [link for link in self.links if link.registered]
        await asyncio.gather(*(link.unregister() for link in links))


class NameServerLink:
    """Service: one name server."""

    def __init__(self, address: str, owner: NameServers) -> None:
        self.address = address
        self.registered: bool = False
        self.under_way: asyncio.Future[None] | None = None
        """Topics are being told; done when they are answered."""
        self._owner = owner
        self._failures = 0
        self._wake = asyncio.Event()
        self._watched: Peer | None = None
        self._told_id: int | None = None
        """As which this broker was registered last."""
        self._lost = False
        self._asked = False
        self._at_once = False
        self._unregistered: dict[str, list[asyncio.Future[None]]] = {}
        """Topics that are not registered yet as they are now, and who waits for each."""

    def register_soon(self, *, at_once: bool = False) -> None:
        """``at_once``: also if the last attempt has failed, and the next is not due yet."""
        self._asked = True
        self._at_once |= at_once
        self._wake.set()

    def register_topic(self, topic: str) -> None:
        self._unregistered.setdefault(topic, [])
        self._wake.set()

    def announce(self, topic: str) -> asyncio.Future[None]:
        """Done when the topic was sent and answered, or could not be."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unregistered.setdefault(topic, []).append(future)
        self._wake.set()
        return future

    async def run(self) -> None:
        clock, config = self._owner.clock, self._owner.config
        await self._register(force=True)
        due = clock.monotonic() + self._pause(SECOND_REGISTRATION_S)
        while True:
            if not await self._woken_before(due):
                await self._register(force=config.force_register)
                due = clock.monotonic() + self._pause(period_s(config))
            elif self._lost:
                self._lost = self.registered = False
                due = clock.monotonic() + FIRST_RETRY_S
            elif not self.registered and not self._at_once:
                self._give_up_waiting()
            else:
                await self._register_now()
                if not self.registered:
                    due = min(due, clock.monotonic() + self._pause(period_s(config)))

    async def _register_now(self) -> None:
        if self._asked:
            await self._register(force=True)
        elif self._unregistered:
            await self._register_topics()

    async def _woken_before(self, due: float) -> bool:
        """False when it is time for the periodic registration."""
        seconds = due - self._owner.clock.monotonic()
        if seconds <= 0:
            return False
        woken = await happens_within(self._wake, seconds, self._owner.clock)
        self._wake.clear()
        return woken

    def _pause(self, regular: float) -> float:
        return regular if self.registered else retry_s(self._failures)

    # -- periodic
    # ----------------------------------------------------------------------------------------------

    async def _register(self, *, force: bool) -> None:
        self._asked = self._at_once = False
        waiting, self._unregistered = self._unregistered, {}
        try:
            if self._owner.is_long and self.registered and self._is_connected():
                await self._register_long()
            elif (
                force
                or not self.registered
                or await self._is_outdated(self._owner.topics.data_version)
            ):
                self._has_registered(await self._send(await self._owner.all_topics(), whole=True))
        except (RocketMQError, BodyError, FrameError) as error:
            self._has_failed(error)
        finally:
            _finish(waiting)

    async def _register_long(self) -> None:
        """Parts have versions of their own, so the name server would take in all topics every time,
        and a write permission that was wiped there would be back. Where it knows this version, no
        topics are sent: a sign of life."""
        topics = self._owner.topics
        version = topics.data_version
        outdated = await self._is_outdated(version)
        unchanged = TopicConfigTable(data_version=version)
        table = await self._owner.all_topics() if outdated else unchanged
        self._has_registered(await self._send(table, whole=outdated))

    async def _is_outdated(self, mine: DataVersion) -> bool:
        response = await self._owner.remoting.invoke(
            self.address,
            RequestCode.QUERY_DATA_VERSION,
            self._owner.identity().request(),
            encode_body(mine),
            timeout=self._timeout_s,
        )
        if response.code != 0:
            return True
        theirs = decode_body(DataVersion, response.body) if response.body else None
        return is_outdated(mine, response.header.changed, theirs)

    def _has_registered(self, response: Response) -> None:
        self._owner.outages.ends(("register", self.address))
        if not self.registered:
            log.info("registered name_server=%s %s", self.address, self._owner.identity())
        self.registered = True
        self._failures = 0
        if response.remark:  # ours tell of another broker with this name and id
            cause, text = ("remark", self.address), "name_server=%s says: %s"
            self._owner.outages.occurs(
                log, cause, text, self.address, response.remark, level=logging.ERROR
            )
        self._watch_connection()
        for listener in self._owner.on_answer:
            listener(response.header)
        self._learn_order(response)

    def _learn_order(self, response: Response) -> None:
        if response.body:
            self._owner.order_topics(self, decode_body(KVTable, response.body).table)

    def _watch_connection(self) -> None:
        """A name server forgets a broker whose connection ends (or forgets everything, when it ends
        itself): come back."""
        connection = self._owner.remoting.connected_to(self.address)
        if connection is not None and connection is not self._watched:
            self._watched = connection
            connection.on_close.append(self._connection_lost)

    def _connection_lost(self, connection: Peer) -> None:
        if connection is self._watched:
            self._watched = None
            self._lost = True
            self._wake.set()

    def _has_failed(self, error: Exception) -> None:
        self._failures += 1
        self._owner.outages.fails(
            log,
            ("register", self.address),
            "not registered, tried again until it works name_server=%s error=%s",
            self.address,
            error,
        )
        self.registered = False

    # -- changes
    # ----------------------------------------------------------------------------------------------

    async def _register_topics(self) -> None:
        topics, self._unregistered = self._unregistered, {}
        try:
            if not self._is_connected():
                self._lost = True
                self._wake.set()
            else:
                some = self._some_topics(topics)
                self._learn_order(await self._send(some, self._watched, whole=False))
        except (RocketMQError, BodyError, FrameError) as error:
            self._has_failed(error)
        finally:
            _finish(topics)

    def _is_connected(self) -> bool:
        """Still over the connection that carried everything. Else the name server may have been
        restarted: it would take one topic for all, and then not take all of them, in the same
        version, any more."""
        return (
            self._watched is not None
            and self._owner.remoting.connected_to(self.address) is self._watched
        )

    def _some_topics(self, names: Mapping[str, object]) -> TopicConfigTable:
        """Only these, with the version of the whole table when they were made, as the original
        does."""
        topics = self._owner.topics
        version = self._owner.told_version or topics.data_version
        some = {name: topic.config for name in names if (topic := topics.get(name)) is not None}
        return TopicConfigTable(topic_config_table=some, data_version=version)

    def _give_up_waiting(self) -> None:
        """The name server cannot be reached: the next periodic attempt carries everything."""
        waiting, self._unregistered = self._unregistered, {}
        _finish(waiting)

    # -- requests
    # ----------------------------------------------------------------------------------------------

    @property
    def _timeout_s(self) -> float:
        return self._owner.config.register_broker_timeout_mills / 1000

    async def _send(
        self, table: TopicConfigTable, over: Peer | None = None, *, whole: bool
    ) -> Response:
        """Register a table, in parts if it is long; the answer to the last one. All goes ``over``
        one connection, by default what the first part takes: behind another one there may be a name
        server that knows nothing of the others. ``whole``: the broker has no other topics."""
        self.under_way = asyncio.get_running_loop().create_future()
        try:
            return await self._send_parts(table, over, whole=whole)
        finally:
            self.under_way.set_result(None)
            self.under_way = None

    async def _send_parts(
        self, table: TopicConfigTable, over: Peer | None, *, whole: bool
    ) -> Response:
        owner, parts = self._owner, await self._parts(table)
        for part in parts:
            request = await owner.request(part, whole=whole and len(parts) == 1)
            if over is not None and owner.remoting.connected_to(self.address) is not over:
                raise ConnectionLostError(
                    f"{self.address}: the connection was lost while topics were registered"
                )
            response = await self._invoke(request)
            over = owner.remoting.connected_to(self.address)
        if len(parts) > 1:
            count = len(table.topic_config_table)
            log.info(
                "registered in parts name_server=%s topics=%d parts=%d",
                self.address,
                count,
                len(parts),
            )
        return response

    async def _parts(self, table: TopicConfigTable) -> list[TopicConfigTable]:
        if len(table.topic_config_table) <= AT_ONCE or not self._owner.is_long:
            return [table]
        return await asyncio.to_thread(in_parts, table, PART_BYTES)

    async def _invoke(self, request: Registration) -> Response:
        self._told_id = request.header.broker_id
        response = await self._owner.remoting.invoke(
            self.address,
            RequestCode.REGISTER_BROKER,
            request.header,
            request.body,
            timeout=self._timeout_s,
        )
        return response.check(self.address)

    async def unregister(self) -> None:
        """Leave; a name server that does not answer finds out by itself. An entry goes by its id,
        whatever address it has: who has another one since it registered, as a leader that stops, is
        registered with that first, or its address would stay there for good; and by the old one it
        might remove who has that now."""
        header = self._owner.identity().request()
        try:
            if self._told_id not in (None, header.broker_id):
                async with asyncio.timeout(UNREGISTER_TIMEOUT_S):
                    table = TopicConfigTable(data_version=self._owner.topics.data_version)
                    await self._invoke(await self._owner.request(table))
            response = await self._owner.remoting.invoke(
                self.address, RequestCode.UNREGISTER_BROKER, header, timeout=UNREGISTER_TIMEOUT_S
            )
            response.check(self.address)
        except (RocketMQError, TimeoutError) as error:
            log.warning("not unregistered name_server=%s error=%s", self.address, error)
        else:
            log.info("unregistered name_server=%s", self.address)


def _finish(waiting: Mapping[str, list[asyncio.Future[None]]]) -> None:
    for futures in waiting.values():
        for future in futures:
            if not future.done():
                future.set_result(None)
