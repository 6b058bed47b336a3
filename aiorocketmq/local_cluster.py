"""A name server and a broker in this process, for laptops and tests. Both ways of using it are the
same class::

    async with LocalCluster() as cluster:            # on the running loop
        async with Producer("orders", namesrv=cluster.namesrv_address) as producer:
            ...

    with LocalCluster(data_dir="mq-data") as cluster:  # on a loop of its own, in a thread
        ...

Everything is real: TCP on loopback, the store on the disk. Without ``data_dir`` the data lies in a
temporary directory that is removed at the end. ``LocalCluster(raft=3)`` has a DLedger group of
three brokers, each a process of its own, in the place of the one broker::

    async with LocalCluster(raft=3) as cluster:
        leader = await cluster.leader()
        await leader.kill()
        assert await cluster.leader() is not leader

and ``LocalCluster(masters=2)`` two masters side by side, each a process (``docs/scaling.md``).
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from .broker.assembly.broker import Broker
from .broker.config.config import (
    BrokerClientConfig,
    BrokerConfig,
    BrokerServerConfig,
    LaterStoreConfig,
)
from .broker.config.group_config import GroupConfig
from .broker.config.settings import BrokerSettings
from .broker.opening import open_broker
from .daemon.descriptors import allowed_connections
from .daemon.local_address import local_address
from .local_brokers import LocalBrokers, LocalMember
from .local_folder import check_folder, make_directory
from .local_group import LARGEST, LocalGroup
from .local_masters import LARGEST as MOST_MASTERS
from .local_masters import LocalMasters
from .local_properties import DEFAULTS, checked
from .local_thread import ClusterThread
from .namesrv.config import NamesrvConfig
from .namesrv.daemon import NameServer, load_kv_config
from .remoting.errors import AddressInUseError
from .remoting.protocol.bodies.topic_config import TopicConfig
from .remoting.services import run_services
from .remoting.transport.accepting import Seats
from .remoting.transport.config import ALL_INTERFACES
from .remoting.transport.flow import Limits
from .remoting.transport.tls import TlsConfig, TlsMode
from .store.model.config import MessageStoreConfig

LOOPBACK: Final = "127.0.0.1"
_LOOK_AGAIN_S: Final = 0.002
_PORT_ATTEMPTS: Final = 5
_PATIENCE_S: Final = 60.0


class LocalCluster:
    """One name server, one broker, one group or several masters. Ports that are 0 become free ones.
    Once it runs, ``namesrv_address`` and ``broker_address`` (``host:port``) tell where,
    ``data_dir`` (a ``Path``) where its files lie, ``loop`` what it runs on.

    ``host`` is where both listen and what the broker tells clients; with ``"0.0.0.0"`` that is this
    machine's address. ``properties`` are further properties of the broker, by the original's names,
    values as text: ``{"autoCreateTopicEnable": "false"}``. Those of TLS
    (``tls.server.certPath``) are the name server's as well, and for one broker only.

    ``raft`` is the number of brokers of a group (``docs/raft.md``), which elect the one that takes
    messages; 0: one broker without a group. ``members`` are they, ``leader`` finds that one. With
    ``broker_port`` each further member has ports 1000 above those of the one before.

    ``masters`` is the number of brokers side by side, ``broker-0``, ``broker-1``, ..., which share
    the queues of each topic; 0: one broker in this process. ``members`` are they. With
    ``broker_port`` each further one has ports 10 above those of the one before.

    Starting raises ``AddressInUseError``, ``StoreError``, ``LaunchError`` (also for a property that
    does not exist), ``PropertyError`` (for a value that it cannot take), ``TlsError`` (for a
    certificate that cannot be used), ``TimeoutError`` when a group does not elect a leader, or
    masters do not come up, within a minute.
    """

    namesrv_address: str
    """``host:port``; known once the cluster runs."""
    broker_address: str
    """``host:port``; known once the cluster runs. Of a group: its first leader's, of masters: the
    first one's."""
    data_dir: Path
    """Where everything lies; known once the cluster runs."""
    loop: asyncio.AbstractEventLoop
    """What it runs on."""
    members: tuple[LocalMember, ...]
    """Of a group, or all masters, else empty; known once the cluster runs."""

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        namesrv_port: int = 0,
        broker_port: int = 0,
        host: str = LOOPBACK,
        properties: Mapping[str, str] = MappingProxyType({}),
        raft: int = 0,
        masters: int = 0,
    ) -> None:
        """Raises ``ValueError`` for a number of brokers that cannot be, and for both at once."""
        if not 0 <= raft <= LARGEST:
            raise ValueError(f"raft is the number of brokers of a group, 1 to {LARGEST}, or 0")
        if not 0 <= masters <= MOST_MASTERS:
            raise ValueError(f"masters is the number of masters, 1 to {MOST_MASTERS}, or 0")
        if raft and masters:
            raise ValueError("raft and masters: a cluster here has a group or masters, not both")
        self._raft = raft
        self._masters = masters
        self._processes: LocalBrokers | None = None
        self._wanted_dir = data_dir
        self._namesrv_port = namesrv_port
        self._broker_port = broker_port
        self._host = host
        self._properties = properties
        self._broker: Broker | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: ClusterThread | None = None
        self._seats = Seats(allowed_connections(Limits().max_connections, told=False))

    if not TYPE_CHECKING:  # for checkers nothing has changed

        def __getattr__(self, name: str) -> Any:
            if name in LocalCluster.__annotations__:
                raise AttributeError(
                    f"{name} is known once the cluster runs: inside of 'with' or 'async with'"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # --- on the running loop
    # ----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        ready = asyncio.Event()
        self._task = asyncio.create_task(self.run(ready.set), name="local-cluster")
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait((self._task, waiting), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait((self._task,))
            raise
        finally:
            waiting.cancel()
        if self._task.done():
            await self._task  # raises what went wrong
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait((self._task,))
        if not self._task.cancelled() and (failure := self._task.exception()) is not None:
            raise failure

    async def run(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serve until cancelled; ``ready`` is called when the broker is registered, so that clients
        find it."""
        self.loop = asyncio.get_running_loop()
        temporary = self._wanted_dir is None
        self.data_dir = make_directory(
            self._wanted_dir
        )  # at once: from a thread it could come after a cancellation
        try:
            await self._serve(ready)
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from None
            raise
        finally:
            if temporary:
                await asyncio.to_thread(shutil.rmtree, self.data_dir, ignore_errors=True)

    async def create_topic(self, topic: str, *, queue_nums: int = 4) -> None:
        """Make a topic (or change its number of queues) and return when the name server knows it,
        and every member of a group that serves; with ``masters`` so many queues are on each. On any
        loop, in any thread."""
        if self._processes is not None:
            await self._processes.create_topic(topic, queue_nums, _PATIENCE_S)
            return
        if self._broker is None:
            raise RuntimeError("the cluster is not running")
        if asyncio.get_running_loop() is not self.loop:
            there = self.create_topic(topic, queue_nums=queue_nums)
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there, self.loop))
        config = TopicConfig(
            topic_name=topic, read_queue_nums=queue_nums, write_queue_nums=queue_nums
        )
        await self._broker.name_servers.announce(self._broker.state.topics.update(config))

    async def leader(self, *, timeout_s: float = _PATIENCE_S) -> LocalMember:
        """The member of the group that takes messages; waits for an election. On any loop. Raises
        ``TimeoutError``."""
        if not isinstance(self._processes, LocalGroup):
            raise RuntimeError("no group is running: LocalCluster(raft=3) has one")
        return await self._processes.leader(timeout_s)

    # --- in a thread
    # ----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread = ClusterThread(self)
        self._thread.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        assert self._thread is not None
        self._thread.stop()

    # --- parts
    # ----------------------------------------------------------------------------------------------

    async def _serve(self, ready: Callable[[], object]) -> None:
        name_server = self._name_server()
        await name_server.listen()
        try:
            self.namesrv_address = f"{self._known_host}:{name_server.port}"
            await self._serve_with(name_server, ready)
        finally:
            name_server.close()

    async def _serve_with(self, name_server: NameServer, ready: Callable[[], object]) -> None:
        brokers = self._brokers(ready)
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(name_server.run(), name="local-name-server")
            try:
                await brokers
            finally:
                self._broker = self._processes = None
                serving.cancel()  # after the brokers, which say good-bye to it

    def _brokers(self, ready: Callable[[], object]) -> Coroutine[Any, Any, None]:
        """Raises ``LaunchError``, ``PropertyError``."""
        check_folder(self.data_dir, raft=self._raft, masters=self._masters)
        if not self._raft and not self._masters:
            self.members = ()
            return self._serve_broker_on_some_port(self._broker_settings(), ready)
        kind = LocalGroup if self._raft else LocalMasters
        brokers = kind(
            self.data_dir,
            namesrv=self.namesrv_address,
            size=self._raft or self._masters,
            first_port=self._broker_port,
            bind=self._host,
            host=self._known_host,
            properties=self._properties,
        )
        return self._serve_processes(brokers, ready)

    async def _serve_processes(self, brokers: LocalBrokers, ready: Callable[[], object]) -> None:
        async def complete() -> None:
            self.members, self._processes = brokers.members, brokers
            first = (
                await brokers.leader(_PATIENCE_S)
                if isinstance(brokers, LocalGroup)
                else brokers.members[0]
            )
            self.broker_address = first.address
            ready()

        await brokers.serve(complete)

    async def _serve_broker_on_some_port(
        self, settings: BrokerSettings, ready: Callable[[], object]
    ) -> None:
        for _ in range(_PORT_ATTEMPTS - 1 if self._broker_port == 0 else 0):
            try:
                return await self._serve_broker(settings, ready)
            except (
                AddressInUseError
            ):  # somebody was quicker: a free port is looked for first and bound later
                settings.server.listen_port = 0
        await self._serve_broker(settings, ready)

    async def _serve_broker(self, settings: BrokerSettings, ready: Callable[[], object]) -> None:
        async with open_broker(settings) as broker:
            self.broker_address = f"{self._known_host}:{broker.port}"
            self._broker = broker
            await run_services(broker, _Registered(broker, ready))

    def _name_server(self) -> NameServer:
        folder = self.data_dir / "namesrv"
        config = NamesrvConfig(
            listen_port=self._namesrv_port,
            bind_address=self._host,
            kv_config_path=str(folder / "kvConfig.json"),
            config_store_path=str(folder / "namesrv.properties"),
        )
        return NameServer(
            config,
            kv_config=load_kv_config(config.kv_config_path),
            seats=self._seats,
            tls=None if self._raft or self._masters else self._tls(),
        )

    def _tls(self) -> TlsConfig:
        """Raises ``LaunchError``, ``PropertyError``."""
        return checked({**DEFAULTS, **self._properties})[TlsConfig]

    def _broker_settings(self) -> BrokerSettings:
        own = {
            "namesrvAddr": self.namesrv_address,
            "listenPort": str(self._broker_port),
            "bindAddress": self._host,
            "brokerIP1": self._known_host,
            "brokerIP2": self._known_host,
            "storePathRootDir": str(self.data_dir / "store"),
        }
        if self._tls().server_mode is TlsMode.ENFORCING:
            own["tls.enable"] = "true"  # the name server takes nothing else either
        table = {**DEFAULTS, **own, **self._properties}
        settings = checked(table)
        return BrokerSettings(
            settings[BrokerConfig],
            settings[BrokerServerConfig],
            settings[BrokerClientConfig],
            settings[MessageStoreConfig],
            tls=settings[TlsConfig],
            later=settings[LaterStoreConfig],
            group=settings[GroupConfig],
            seats=self._seats,
        )

    @property
    def _known_host(self) -> str:
        return local_address() if self._host in ALL_INTERFACES else self._host


class _Registered:
    """Service: calls ``ready`` when every name server knows the broker."""

    def __init__(self, broker: Broker, ready: Callable[[], object]) -> None:
        self._broker = broker
        self._ready = ready

    async def run(self) -> None:
        while not all(link.registered for link in self._broker.name_servers.links):  # noqa: ASYNC110  (a link has no event of its own)
            await asyncio.sleep(_LOOK_AGAIN_S)
        self._ready()
        await asyncio.Event().wait()
