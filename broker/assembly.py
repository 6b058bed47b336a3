"""The broker, put together (class BrokerController): store, state, processors, two ports. Composition only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from ..remoting.client import RemotingClient
from ..remoting.clock import Clock, SystemClock
from ..remoting.config import server_limits
from ..remoting.dispatch import Dispatcher, Handler
from ..remoting.flow import Limits
from ..remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable
from ..remoting.protocol.bodies.subscription_group import SubscriptionGroupTable
from ..remoting.protocol.bodies.topic_config import TopicConfigTable
from ..remoting.protocol.codes import RequestCode
from ..remoting.protocol.message_id import pack_host
from ..remoting.protocol.sys_flag import PermName
from ..remoting.server import RemotingServer
from ..remoting.services import Service, run_services
from ..remoting.tls import TlsConfig, client_context, server_tls
from ..store.config import BrokerRole, FlushDiskType, MessageStoreConfig
from ..store.message_store import MessageStore
from .addresses import free_port, resolve
from .client_watch import ClientWatch
from .clients import Consumers, Producers
from .config import (
    HA_PORT_DISTANCE,
    VIP_PORT_DISTANCE,
    BrokerClientConfig,
    BrokerConfig,
    BrokerServerConfig,
    LaterStoreConfig,
)
from .config_files import ConfigFiles, OffsetPersistence
from .consumer_offsets import ConsumerOffsets
from .name_servers import NameServers
from .processors.admin import AdminProcessor
from .processors.client import ClientProcessor
from .processors.group import GroupProcessor
from .processors.offset import OffsetProcessor
from .processors.online import OnlineProcessor
from .processors.pull import PullProcessor
from .processors.query import QueryProcessor
from .processors.queue_lock import QueueLockProcessor
from .processors.send import SendProcessor
from .processors.send_back import SendBackProcessor
from .processors.topic import TopicProcessor
from .queue_locks import QueueLocks
from .registration import Identity
from .runtime_config import RuntimeConfig
from .stats import BrokerStats, StatsSampler
from .subscription_groups import SubscriptionGroups
from .topics import Topic, TopicChange, Topics

log = logging.getLogger(__name__)

NOT_ON_VIP: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
"""The second port is there so that nothing waits behind pulls."""
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class BrokerSettings:
    """Everything that a broker is told. ``config_file`` is where changes at run time are written to."""

    def __init__(
        self,
        broker: BrokerConfig,
        server: BrokerServerConfig | None = None,
        client: BrokerClientConfig | None = None,
        store: MessageStoreConfig | None = None,
        *,
        tls: TlsConfig | None = None,
        limits: Limits | None = None,
        later: LaterStoreConfig | None = None,
        config_file: Path | None = None,
        unknown_properties: Mapping[str, str] = _NOTHING,
        kept_properties: Mapping[str, str] = _NOTHING,
    ) -> None:
        """Of the file: what nobody knows, and what is kept but shown to nobody (TLS, limits)."""
        self.broker = broker
        self.server = server or BrokerServerConfig()
        self.client = client or BrokerClientConfig()
        self.store = store or MessageStoreConfig()
        self.tls = tls or TlsConfig()
        self.limits = limits or Limits()
        self.later = later or LaterStoreConfig()
        self.config_file = config_file or self.store.root / "config" / "broker.properties"
        self.unknown_properties = unknown_properties
        self.kept_properties = kept_properties


@asynccontextmanager
async def open_broker(settings: BrokerSettings, clock: Clock | None = None) -> AsyncIterator[Broker]:
    """A broker with its store open and its ports bound; at the end the store is closed in good order.

    ``listenPort=0`` takes free ports and is set to the one found. Raises ``StoreError``, ``AddressInUseError``,
    ``TlsError``, and ``OSError`` for a ``brokerIP1`` that has no address.
    """
    clock = clock or SystemClock()
    server = settings.server
    if server.listen_port == 0:
        server.listen_port = free_port(server.bind_address)
    address = (await resolve(settings.broker.broker_ip1), server.listen_port)
    store = await _open_store(settings.store, clock, pack_host(*address))
    try:
        broker = Broker(settings, store, address, clock)
        try:
            await broker.listen()
            yield broker
        finally:
            broker.close()
    finally:
        await asyncio.to_thread(store.close)


async def _open_store(config: MessageStoreConfig, clock: Clock, store_host: bytes) -> MessageStore:
    """In a thread, which nobody can interrupt: who is cancelled meanwhile waits for it and closes the store again."""
    opening = asyncio.create_task(asyncio.to_thread(MessageStore.open, config, clock, store_host=store_host))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await asyncio.wait((opening,))
        if opening.exception() is None:
            await asyncio.to_thread(opening.result().close)
        raise


class Broker:
    """One broker on an open store. ``listen`` binds its ports, ``run`` serves until cancelled."""

    def __init__(self, settings: BrokerSettings, store: MessageStore, address: tuple[str, int], clock: Clock) -> None:
        """``address`` is what stands in message ids. Raises ``StoreFileError``, ``TlsError``."""
        config = settings.broker
        self.settings = settings
        self.store = store
        self.topics = Topics(config, clock)
        self.groups = SubscriptionGroups(config, clock)
        self.offsets = ConsumerOffsets()
        self.producers = Producers()
        self.consumers = Consumers()
        self.stats = BrokerStats()
        self._clock = clock
        self._address = address
        self._locks = QueueLocks()
        self._sampler = StatsSampler(self.stats, clock)
        self.watch = ClientWatch(config, self.producers, self.consumers, self._locks, clock)
        self.files = ConfigFiles(settings.store.root / "config", clock)
        self._load_tables()
        self._topics_file = self.files.add("topics.json", self.topics.record)
        self._groups_file = self.files.add("subscriptionGroup.json", self.groups.record)
        self._offsets_file = self.files.add("consumerOffset.json", self.offsets.record)
        if self._clamp_offsets():
            self._offsets_file.changed()
        self._remoting = RemotingClient(
            clock=clock,
            connect_timeout=settings.client.connect_timeout_millis / 1000,
            limits=replace(settings.limits, idle_s=float(settings.client.client_channel_max_idle_time_seconds)),
            tls=client_context(settings.tls) if settings.tls.enable or settings.client.use_tls else None,
            name="broker-to-name-servers",
        )
        self.name_servers = NameServers(config, self.topics, self._remoting, clock, self.identity)
        self.topics.listeners.append(self._topic_changed)
        self.groups.listeners.append(self._groups_file.changed)
        self.table = self._processor_table()
        self._server = self._make_server("broker", settings.server.listen_port, self.table)
        vip = {code: handler for code, handler in self.table.items() if code not in NOT_ON_VIP}
        self._vip_server = self._make_server("broker-vip", settings.server.listen_port - VIP_PORT_DISTANCE, vip)

    @property
    def port(self) -> int:
        return self._server.port

    def identity(self) -> Identity:
        """How this broker is known to name servers."""
        config = self.settings.broker
        return Identity(
            broker_name=config.broker_name,
            broker_addr=f"{config.broker_ip1}:{self.port}",
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
            ha_server_addr=f"{config.broker_ip2}:{self.port + HA_PORT_DISTANCE}",
        )

    # -- life ----------------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""
        await self._server.listen()
        await self._vip_server.listen()

    def close(self) -> None:
        """Stop listening; ``run`` does it at its end, this is for a broker that never ran."""
        self._server.close()
        self._vip_server.close()

    async def run(self) -> None:
        """Serve until cancelled. Then: name servers are told, nobody is accepted any more, the tables are written."""
        offsets = OffsetPersistence(
            self.offsets, self._offsets_file, lambda: self.settings.broker.flush_consumer_offset_interval, self._clock
        )
        try:
            async with self._remoting:
                await run_stages(
                    (self.name_servers,),
                    (self._server, self._vip_server, self.watch, self._sampler, offsets, self.files),
                    (self.store,),
                )
        finally:
            offsets.check()
            self.files.save_now()

    def _load_tables(self) -> None:
        if (topics := self.files.load("topics.json", TopicConfigTable)) is not None:
            self.topics.load(topics)
        if (groups := self.files.load("subscriptionGroup.json", SubscriptionGroupTable)) is not None:
            self.groups.load(groups)
        if (offsets := self.files.load("consumerOffset.json", ConsumerOffsetTable)) is not None:
            self.offsets.load(offsets)

    def _clamp_offsets(self) -> int:
        """After a crash of a master no group goes on behind what its store has kept."""
        store = self.store
        if store.recovery is None or store.recovery.clean or store.config.broker_role is BrokerRole.SLAVE:
            return 0
        if clamped := self.offsets.clamp(store.max_offset):
            log.warning("consumer offsets behind the end of their queues were set to it offsets=%d", clamped)
        return clamped

    def _topic_changed(self, _topic: Topic, change: TopicChange) -> None:
        self._topics_file.changed()
        if change is TopicChange.MADE:
            self.name_servers.register_soon()

    # -- parts ---------------------------------------------------------------------------------------------------

    def _is_writeable(self) -> bool:
        return bool(self.settings.broker.broker_permission & PermName.WRITE)

    def _is_readable(self) -> bool:
        return bool(self.settings.broker.broker_permission & PermName.READ)

    def _processor_table(self) -> dict[RequestCode, Handler]:
        settings, config, store, clock = self.settings, self.settings.broker, self.store, self._clock
        records = (settings.broker, settings.server, settings.client, settings.store, settings.later)
        runtime_config = RuntimeConfig(
            records,
            settings.config_file,
            clock,
            unknown=settings.unknown_properties,
            kept=settings.kept_properties,
        )
        self.pull = PullProcessor(
            config,
            store,
            self.topics,
            self.groups,
            self.consumers,
            self.offsets,
            self.stats,
            clock,
            is_readable=self._is_readable,
        )
        processors = (
            SendProcessor(
                config,
                store,
                self.topics,
                self.groups,
                self.stats,
                self._address,
                max_message_size=settings.store.max_message_size,
                sync_flush=settings.store.flush_disk_type is FlushDiskType.SYNC_FLUSH,
                is_writeable=self._is_writeable,
            ),
            SendBackProcessor(config, store, self.topics, self.groups, self.stats, is_writeable=self._is_writeable),
            self.pull,
            QueryProcessor(store),
            OffsetProcessor(self.offsets, store),
            ClientProcessor(self.topics, self.groups, self.producers, self.consumers, self.watch),
            OnlineProcessor(self.producers, self.consumers),
            QueueLockProcessor(self._locks),
            TopicProcessor(config, self.topics, self._topics_file, self.name_servers, self.consumers, self.offsets, store),
            GroupProcessor(config, self.groups, self._groups_file, self.topics, self.consumers, self.offsets, store),
            AdminProcessor(config, runtime_config, self.topics, self.name_servers, store, self.stats, self._sampler, clock),
        )
        return {code: handler for processor in processors for code, handler in processor.table.items()}

    def _make_server(self, name: str, port: int, table: Mapping[RequestCode, Handler]) -> RemotingServer:
        server, tls = self.settings.server, self.settings.tls
        return RemotingServer(
            Dispatcher(table),
            host=server.bind_address,
            port=port,
            clock=self._clock,
            name=name,
            backlog=server.server_socket_backlog,
            limits=server_limits(server, self.settings.limits),
            tls_mode=tls.server_mode,
            tls=server_tls(tls),
            on_disconnect=self.watch.on_disconnect,
        )


async def run_stages(*stages: Sequence[Service]) -> None:
    """Run all services until cancelled; then those of the first stage end, after them those of the second, and so on."""
    first, *later = stages
    if not later:
        await run_services(*first)
        return
    async with asyncio.TaskGroup() as group:
        others = group.create_task(run_stages(*later))
        try:
            await run_services(*first)
        finally:
            others.cancel()
