"""The name server, put together (classes NamesrvStartup, NamesrvController)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import islice
from typing import Final

from ..daemon.descriptors import allowed_connections
from ..daemon.launch import Daemon, LaunchError, Settings, report
from ..daemon.long_lived import looked_at_once
from ..daemon.persist import backup_of, read_file
from ..daemon.pid_files import pid_file
from ..remoting.clock import Clock, steady_ms
from ..remoting.dispatch import Dispatcher, Handler
from ..remoting.protocol.codes import RequestCode
from ..remoting.protocol.leaves import KIND
from ..remoting.services import Service, run_services
from ..remoting.sliced_requests import in_slices
from ..remoting.system_clock import SystemClock
from ..remoting.transport.accepting import Seats
from ..remoting.transport.config import ALL_INTERFACES, server_settings
from ..remoting.transport.connection import Connection
from ..remoting.transport.flow import Limits
from ..remoting.transport.server import RemotingServer
from ..remoting.transport.tls import TlsConfig, client_context
from ..remoting.transport.usable_memory import usable_memory
from .config import (
    HOME,
    KV_DUMP_FIRST_S,
    KV_DUMP_PERIOD_S,
    SCAN_FIRST_S,
    SCAN_PERIOD_S,
    TIDY_UP_PERIOD_S,
    ClusterTestConfig,
    NamesrvConfig,
)
from .kv_config import KvConfig, KvConfigError
from .processors import (
    BrokerProcessor,
    ConfigProcessor,
    KvConfigProcessor,
    RouteProcessor,
    log_removed,
)
from .product_environment import ClusterTestProcessor, ProductEnvironment
from .route_limits import usual_topics
from .route_table import RouteTable
from .saved_file import SavedFile

log: Final = logging.getLogger(__name__)


class ExpiryScan:
    """Removes brokers that have not registered for 120 s, and closes what is left of their
    connections."""

    def __init__(self, routes: RouteTable, clock: Clock) -> None:
        self._routes = routes
        self._clock = clock

    async def run(self) -> None:
        await self._clock.sleep(SCAN_FIRST_S)
        while True:
            removed = self._routes.expire(steady_ms(self._clock))
            log_removed(removed, "no registration for 120 s")
            for connection in (each for broker in removed for each in broker.connections):
                if isinstance(connection, Connection):
                    connection.close("no registration for 120 s")
            await self._clock.sleep(SCAN_PERIOD_S)


class TidyUp:
    """Gives back what brokers had that are gone."""

    def __init__(self, routes: RouteTable, clock: Clock) -> None:
        self._routes = routes
        self._clock = clock

    async def run(self) -> None:
        while True:
            await self._clock.sleep(TIDY_UP_PERIOD_S)
            await in_slices(self._routes.tidy_up())


class KvConfigDump:
    """Writes the KV configuration into the log, a line per namespace with its first entries."""

    def __init__(self, kv_config: KvConfig, clock: Clock) -> None:
        self._kv_config = kv_config
        self._clock = clock

    async def run(self) -> None:
        await self._clock.sleep(KV_DUMP_FIRST_S)
        while True:
            for namespace in self._kv_config.namespaces():
                entries = self._kv_config.namespace(namespace) or {}
                shown = " ".join(
                    f"{key}={value[:200]}" for key, value in islice(entries.items(), 50)
                )
                log.info("kv config namespace=%s keys=%d %s", namespace, len(entries), shown)
            await self._clock.sleep(KV_DUMP_PERIOD_S)


class NameServer:
    """One name server. ``listen`` binds its port, ``run`` serves until cancelled."""

    def __init__(
        self,
        config: NamesrvConfig,
        *,
        kv_config: KvConfig | None = None,
        limits: Limits | None = None,
        seats: Seats | None = None,
        tls: TlsConfig | None = None,
        cluster_test: ClusterTestConfig | None = None,
        clock: Clock | None = None,
        extra_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Raises ``TlsError`` when a certificate cannot be used, ``ConfigError`` for a wrong
        ``clusterTestNamesrvAddr``."""
        clock = clock or SystemClock()
        tls = tls or TlsConfig()
        kv_config = kv_config or KvConfig()
        most_topics = usual_topics(usable_memory())
        routes = RouteTable(
            lambda: config.max_topics or most_topics,
            lambda ms: clock.time_ms() - steady_ms(clock) + ms,
        )
        self.brokers: BrokerProcessor = BrokerProcessor(
            routes, kv_config, limits or Limits(), clock
        )
        route = RouteProcessor(routes, kv_config, config)
        self.table: dict[RequestCode, Handler] = {
            **self.brokers.table,
            **route.table,
            **KvConfigProcessor(
                kv_config, SavedFile(config.kv_config_path, kv_config.to_json), routes.lost
            ).table,
            **ConfigProcessor(config, extra_properties or {}, lambda: self.port).table,
        }
        self._services: list[Service] = [
            ExpiryScan(routes, clock),
            TidyUp(routes, clock),
            KvConfigDump(kv_config, clock),
        ]
        if config.cluster_test:
            outbound_tls = client_context(tls) if tls.enable else None
            other = cluster_test or ClusterTestConfig()
            product = ProductEnvironment(config.product_env_name, other, clock, tls=outbound_tls)
            self.table |= ClusterTestProcessor(route, product).table
            self._services.append(product)
        self._server = RemotingServer(
            Dispatcher(self.table),
            server_settings(config, limits or Limits(), tls, name="namesrv"),
            clock=clock,
            seats=seats,
            on_disconnect=self.brokers.connection_closed,
        )

    @property
    def port(self) -> int:
        return self._server.port

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""
        await self._server.listen()

    def close(self) -> None:
        """Stop listening; ``run`` does it at its end, this is for a name server that never ran."""
        self._server.close()

    async def run(self) -> None:
        await run_services(self._server, *self._services)


def load_kv_config(path: str) -> KvConfig:
    """The KV configuration of a file, an empty one when there is no file yet. Raises
    ``LaunchError``."""
    text, backup = read_file(path), backup_of(path)
    if text is None or not text.strip():
        if text is not None or backup.exists():
            problem = "is missing" if text is None else "is empty"
            log.error(
                "%s %s: nothing is configured, what was before may be in %s",
                path,
                problem,
                backup.name,
            )
        return KvConfig()
    try:
        return KvConfig.from_json(text)
    except KvConfigError as error:
        raise LaunchError(
            f"{path}: {error}; repair or remove it, the content before is in {path}.bak"
        ) from None


def kept_in_file(settings: Settings) -> dict[str, str]:
    """What is written when the configuration is, beside the properties of this program: others of
    the file, and the home, where somebody has set it."""
    home = {HOME: settings[NamesrvConfig].rocketmq_home}
    unsaid = settings.unsaid(home)
    return settings.file_properties_beyond(NamesrvConfig) | ({} if unsaid else home)


async def serve(settings: Settings) -> None:
    """The name server as a process of its own."""
    config = settings[NamesrvConfig]
    log.info("name server starting leaves=%r", KIND)
    report(settings)
    if settings.config_file is not None:
        config.config_store_path = settings.config_file
    server = NameServer(
        config,
        kv_config=load_kv_config(config.kv_config_path),
        limits=settings[Limits],
        seats=Seats(allowed_connections(settings[Limits].max_connections)),
        tls=settings[TlsConfig],
        cluster_test=settings[ClusterTestConfig],
        extra_properties=kept_in_file(settings),
    )
    await server.listen()
    with pid_file("namesrv", server.port, config.rocketmq_home), looked_at_once():
        log.info(
            "name server ready port=%d home=%s kv_config=%s config=%s",
            server.port,
            config.rocketmq_home,
            config.kv_config_path,
            config.config_store_path,
        )
        if config.bind_address in ALL_INTERFACES:
            log.warning(
                "open to everybody: listening on all interfaces, and name servers have no access "
                "control port=%d; set "
                "bindAddress, unless a firewall keeps strangers out",
                server.port,
            )
        await server.run()


NAMESRV = Daemon(
    name="mqnamesrv",
    summary="The name server: brokers register with it, clients ask it where topics are.",
    records=(NamesrvConfig, ClusterTestConfig, TlsConfig, Limits),
    serve=serve,
)
