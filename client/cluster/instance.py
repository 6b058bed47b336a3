"""What the clients of one cluster in one process share: connections, routes, heartbeats (client.md
§1; MQClientInstance).

A producer or consumer makes an instance of its own unless it is given one::

    async with ClientInstance(namesrv="ns1:9876") as instance:
        producer = Producer("orders", instance=instance)
        consumer = PushConsumer("billing", instance=instance)

Brokers know a client by its id and by the connection that its heartbeat came over; they push
requests back over it. One file, though a long one: what begins, is shared and ends together.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import warnings
import weakref
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final, NoReturn, Unpack

from ...remoting.clock import Clock
from ...remoting.dispatch import Dispatcher
from ...remoting.errors import BrokerError, ConnectError, RemotingError
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from ...remoting.protocol.bodies.route import MASTER_ID
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.client import (
    UnregisterClientRequest,
)
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.wire import Record
from ...remoting.responses import Response
from ...remoting.services import TaskSet
from ...remoting.system_clock import SystemClock
from ...remoting.transport.client import RemotingClient
from ..credentials import credentials_from
from ..errors import ClientStateError, ConfigError
from ..lifecycle import Startable
from ..namespaces import checked_namespace
from ..options import (
    DEFAULT_INSTANCE,
    AccessChannel,
    ClientOptions,
    ClientSettings,
    checked_tls,
    client_id,
    known_options,
    settings_of,
    takes,
    vip_address,
)
from .address_server import AddressServer, address_server_url
from .master_watch import MasterWatch, was_not_done
from .name_servers import NameServers
from .pushed_requests import ConsumerMember, PushedRequests, TransactionChecker
from .replies import Requests
from .route_cache import RouteCache
from .server_addresses import ENVIRONMENT_VARIABLE, namespace_of_servers, parse_addresses
from .silent_masters import SilentMasters

log: Final = logging.getLogger(__name__)

_HEARD = "has heard our heartbeat"
"""Attribute of a connection: a new connection to the same broker needs a new heartbeat."""
_STREAM: Final = {"ReqT": "0"}
"""What a stream client adds to every request (classes StreamTypeRPCHook, RequestType)."""


class ClientInstance(Startable):
    """One client of one cluster. Use as ``async with``, or call ``start`` and ``stop``."""

    @takes(ClientSettings)
    def __init__(self, *, stream: bool = False, **options: Unpack[ClientOptions]) -> None:
        """``stream``: as pull consumers do, tell so in the client id and in every request
        (``ReqT``). See ``ClientOptions`` for the others."""
        settings, _ = settings_of(ClientSettings, known_options(self, options))
        namesrv, unit_name = settings.namesrv, settings.unit_name
        self.clock: Clock = settings.clock or SystemClock()
        ip, name = settings.client_ip, settings.instance_name
        self.client_id: str = client_id(ip, name, unit_name, stream=stream)
        self.lasting_id: str = client_id(ip, name or DEFAULT_INSTANCE, unit_name, stream=stream)
        """The same after a restart, also where no ``instance_name`` was asked for."""
        self.earlier_id: str = client_id(ip, name or DEFAULT_INSTANCE)  # that of earlier versions
        self.namespace: str | None = checked_namespace(settings.namespace) or namespace_of_servers(
            namesrv
        )
        """Of all topics and groups, see ``namespaces``."""
        self.vip_channel: bool = settings.vip_channel
        self.access_channel: AccessChannel = settings.access_channel
        self.request_timeout: float = settings.request_timeout
        self._heartbeat_interval = settings.heartbeat_interval
        self.outages: Outages = Outages(self.clock)
        """What fails at present, for all that works here: it is told without a flood."""
        pushed = PushedRequests(self.namespace, self.outages)
        self.requests: Requests = pushed.replies
        self.checkers: dict[str, TransactionChecker] = pushed.checkers
        """Whom brokers may ask about transactions, by producer group."""
        self._consumers: dict[str, ConsumerMember] = pushed.consumers
        self.remoting: RemotingClient | _Forked = RemotingClient(
            clock=self.clock,
            dispatcher=Dispatcher(pushed.table),
            tls=checked_tls(settings.tls),
            credentials=credentials_from(settings.credentials),
            ext_fields=_STREAM if stream else None,
            name=self.client_id,
        )
        self._tasks = TaskSet(self.client_id)
        url = None
        if namesrv is None and not os.environ.get(ENVIRONMENT_VARIABLE):
            url = address_server_url(settings.address_server, unit_name)
        self.name_servers: NameServers = NameServers(
            () if url else parse_addresses(namesrv), self.remoting
        )
        self._address_server = AddressServer(url, self.name_servers, self.clock) if url else None
        self.routes: RouteCache = RouteCache(
            self.name_servers,
            self.clock,
            self._tasks,
            timeout=self.request_timeout,
            interval=settings.route_interval,
        )
        self.routes.on_change.append(self._route_changed)
        self.masters: MasterWatch = MasterWatch(self.routes, self.clock, self._tasks)
        self._silent_masters = SilentMasters(self.remoting, self.routes, self.masters, self.clock)
        self._producers: set[str] = set()
        self.owner: str = type(self).__name__
        """Which class of client it was made for."""
        self._state = "new"
        self.stopped: bool = False
        """It was running, and will not run again. (Each send asks.)"""
        self._loop: asyncio.AbstractEventLoop | None = None
        _instances.add(self)

    # --- life
    # ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin heartbeats and route refreshing. Raises ``ClientStateError`` when it was started
        before."""
        if self._state != "new":
            raise ClientStateError(
                f"this client is {self._state}: make a new one, it cannot be started again"
            )
        self._state = "running"
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop)
            await self.remoting.start()
            if self._address_server is not None:
                await self._address_server.look_up()
                self._tasks.spawn(self._address_server.run(), name="address server")
            undo.pop_all()
        self._tasks.spawn(self.routes.run(), name="routes")
        self._tasks.spawn(self._heartbeats(), name="heartbeats")
        self._tasks.spawn(self._silent_masters.run(), name="silent masters")

    async def stop(self) -> None:
        """Take leave of the brokers and close every connection; cancelled: close them without
        taking leave."""
        if self._state != "running":
            return
        self.check_loop()
        self._state, self.stopped = "stopped", True
        try:
            for group in list(self._consumers):
                await self.unregister_consumer(group)
            for group in list(self._producers):
                await self.unregister_producer(group)
        finally:
            try:
                await self._tasks.close()
            finally:
                await self.remoting.close()

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        # a default, because at the end of a process modules are gone already
        if getattr(self, "_state", "new") == "running":
            _warn(
                f"unclosed {self.owner} {self.client_id}: brokers keep it, and its queues, until "
                "its connections end; use 'async with', or await stop()",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )

    @property
    def running(self) -> bool:
        return self._state == "running"

    def check_loop(self) -> None:
        """Raises ``ClientStateError`` on another event loop than that of ``start``: asyncio itself
        only says that some future is attached to another loop, or that one is closed."""
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise ClientStateError(
                "this client was started on another event loop: start and use a client within one "
                "asyncio.run(), from other "
                "threads by asyncio.run_coroutine_threadsafe(); aiorocketmq.sync works in any "
                "thread"
            )

    # --- members
    # ----------------------------------------------------------------------------------------------

    def register_producer(self, group: str) -> None:
        """Tell brokers of this producer group from now on. Raises ``ClientStateError`` for a second
        one of the same name."""
        self.check_running()
        if group in self._producers:
            raise ClientStateError(f"this client has a producer of the group {group} already")
        self._producers.add(group)

    def register_consumer(self, member: ConsumerMember) -> None:
        """Tell brokers of this consumer from now on. Raises ``ClientStateError`` for a second one
        of the same group."""
        self.check_running()
        if member.group in self._consumers:
            raise ClientStateError(
                f"this client has a consumer of the group {member.group} already"
            )
        self._consumers[member.group] = member

    async def unregister_producer(self, group: str) -> None:
        """Tell the connected brokers that this producer leaves; one that does not answer will
        notice by itself."""
        self._producers.discard(group)
        await self._take_leave(
            UnregisterClientRequest(client_id=self.client_id, producer_group=group)
        )

    async def unregister_consumer(self, group: str) -> None:
        """Tell the connected brokers that this consumer leaves, so that the others divide its
        queues at once."""
        if self._consumers.pop(group, None) is not None:
            await self._take_leave(
                UnregisterClientRequest(client_id=self.client_id, consumer_group=group)
            )

    def forked(self) -> None:
        """This is a copy in a child process: its connections are the parent's. Whatever uses them
        from now on raises ``ClientStateError``."""
        self._state = "a copy of one that was made before the process forked"
        self.remoting = self.name_servers._remoting = _Forked()  # type: ignore[assignment]
        self.routes.changes += 1  # whoever keeps a connection looks for it again

    def check_running(self) -> None:
        """Raises ``ClientStateError`` before ``start`` and after ``stop``."""
        if self._state != "running":
            do = (
                "make a new one"
                if self._state == "stopped"
                else "use it inside of 'async with', or start it"
            )
            raise ClientStateError(f"this client is {self._state}: {do}")

    # --- heartbeats
    # ----------------------------------------------------------------------------------------------

    async def heartbeat(self, *, only_new: bool = False) -> None:
        """Tell every known broker who works here; slaves only when somebody consumes. Failures are
        logged.

        ``only_new``: only those that have not heard it over their present connection.
        """
        if not self._producers and not self._consumers:
            return
        addresses = self._addresses(masters_only=not self._consumers)
        if only_new:
            addresses = [address for address in addresses if not self._has_heard(address)]
        if not addresses:
            return
        body = encode_body(
            HeartbeatData(
                client_id=self.client_id,
                producer_data_set=tuple(
                    ProducerData(group_name=g) for g in sorted(self._producers)
                ),
                consumer_data_set=tuple(c.consumer_data() for c in self._consumers.values()),
            )
        )
        await asyncio.gather(*(self._greet(address, body) for address in addresses))

    def greet_new(self) -> asyncio.Event:
        """``heartbeat(only_new=True)`` behind what goes on here; set once all have answered, or
        failed to."""
        told = asyncio.Event()
        task = self._tasks.spawn(self.heartbeat(only_new=True), name="heartbeat to new brokers")
        task.add_done_callback(lambda _: told.set())
        return told

    async def _heartbeats(self) -> None:
        while True:
            await self.clock.sleep(self._heartbeat_interval)
            await self.heartbeat()

    def _route_changed(self, topic: str) -> None:
        if self._producers and self._state == "running":
            self._tasks.spawn(self.heartbeat(only_new=True), name="heartbeat to new brokers")
        for member in self._consumers.values():
            if any(s.topic == topic for s in member.consumer_data().subscription_data_set):
                member.wake_rebalance()

    async def _greet(self, address: str, body: bytes) -> None:
        if await self._try_broker(address, RequestCode.HEART_BEAT, body=body):
            connection = self.remoting.connected_to(address)
            if connection is not None:
                connection.attributes[_HEARD] = True

    def _has_heard(self, address: str) -> bool:
        connection = self.remoting.connected_to(address)
        return connection is not None and _HEARD in connection.attributes

    def _addresses(self, *, masters_only: bool = False) -> list[str]:
        return sorted(
            {
                address
                for replicas in self.routes.brokers.values()
                for broker_id, address in replicas.items()
                if broker_id == MASTER_ID or not masters_only
            }
        )

    async def _take_leave(self, header: UnregisterClientRequest) -> None:
        await asyncio.gather(
            *(
                self._try_broker(address, RequestCode.UNREGISTER_CLIENT, header)
                for address in self._addresses()
                if self.remoting.connected_to(address) is not None
            )
        )

    async def _try_broker(
        self, address: str, code: RequestCode, header: Record | None = None, body: bytes = b""
    ) -> bool:
        try:
            answer = await self.remoting.invoke(
                address, code, header, body, timeout=self.request_timeout
            )
            answer.check(address)
        except (RemotingError, BrokerError) as error:
            self.outages.fails(
                log,
                (code, address),
                "request failed code=%s broker=%s error=%s",
                code.name,
                address,
                error,
            )
            return False
        self.outages.works((code, address))
        return True

    # --- calling brokers
    # --------------------------------------------------------------------------------------------

    async def master_address(self, broker_name: str, topic: str) -> str:
        """The master's address; the route of ``topic`` is asked for once when it is not known.
        Raises ``ConnectError``."""
        address = self.routes.master(broker_name)
        if address is None:
            await self.routes.refresh(topic)
            address = self.routes.master(broker_name)
        if address is None:
            raise ConnectError(
                f"the broker {broker_name} has no master at present, as far as the name server "
                "knows"
            )
        return address

    def vip(self, address: str) -> str:
        """Where a broker takes small requests: the address itself, or its VIP channel when that is
        wanted."""
        return vip_address(address) if self.vip_channel else address

    async def ask_master(
        self, queue: MessageQueue, code: RequestCode, header: Record, *, timeout: float
    ) -> Response:
        """The answer of the master that has the queue, with code success. Where it cannot be
        reached, or is not the master any more, the route is asked for, and whoever is it then.
        Raises ``RemotingError``, ``BrokerError``."""
        address = self.vip(await self.master_address(queue.broker_name, queue.topic))
        try:
            return await self._ask(address, code, header, timeout)
        except (RemotingError, BrokerError) as error:
            if not was_not_done(error):
                raise
            with contextlib.suppress(RemotingError, BrokerError):
                await self.routes.refresh(queue.topic)
            other = self.routes.master(queue.broker_name)
            if other is None or self.vip(other) == address:
                raise
        return await self._ask(self.vip(other), code, header, timeout)

    async def _ask(
        self, address: str, code: RequestCode, header: Record, timeout: float
    ) -> Response:
        return (await self.remoting.invoke(address, code, header, timeout=timeout)).check(address)

    async def ask_owner(
        self, queue: MessageQueue, code: RequestCode, header: Record, *, timeout: float
    ) -> Response:
        """``ask_master``, or a slave while the name servers know no master: the offsets of groups
        are there too."""
        try:
            return await self.ask_master(queue, code, header, timeout=timeout)
        except ConnectError:
            replica = self.routes.replica(queue.broker_name, MASTER_ID)
            if replica is None or not replica[1]:
                raise
        return await self._ask(replica[0], code, header, timeout)


def instance_for(
    client: object,
    given: ClientInstance | None,
    options: ClientOptions,
    *,
    stream: bool = False,
) -> ClientInstance:
    """The instance that a client was given, else one of its own. Raises ``ConfigError`` for options
    that come with an instance, ``TypeError`` for those that do not exist."""
    if given is None:
        made = ClientInstance(stream=stream, **known_options(client, options))
        made.owner = type(client).__name__
        return made
    if options:
        raise ConfigError(
            f"these options belong to the instance that was given: {', '.join(options)}"
        )
    return given


class _Forked:
    """Stands where the connections were."""

    def __getattr__(self, _name: str) -> NoReturn:
        raise ClientStateError(
            "this client was made before the process forked; make a new one in the child process"
        )


_instances: weakref.WeakSet[ClientInstance] = weakref.WeakSet()


def _forked() -> None:
    for instance in list(_instances):
        instance.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
