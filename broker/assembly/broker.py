"""The broker, put together (class BrokerController): store, state, processors, two ports.
Composition only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ...daemon.launch import LaunchError, Settings
from ...remoting.clock import Clock
from ...remoting.dispatch import Dispatcher, Guard, Handler
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.send import SendErrorFields
from ...remoting.protocol.message.message_id import pack_host
from ...remoting.services import Service, run_stages
from ...remoting.transport.buffers import Buffers
from ...remoting.transport.client import RemotingClient
from ...remoting.transport.config import server_limits, server_settings
from ...remoting.transport.server import RemotingServer
from ...remoting.transport.tls import client_context
from ...store.message_store import MessageStore
from ...store.model.config import BrokerRole
from ...store.model.delay_levels import parse_delay_levels
from ..acl.files import AclFiles, open_acl
from ..config.config import VIP_PORT_DISTANCE
from ..config.runtime_config import RuntimeConfig, check_store_config
from ..config.settings import BrokerSettings
from ..hooks import hooked, load_hooks
from ..monitoring.consume_progress import ConsumeProgress
from ..processors.acl import AclGuard, AclProcessor
from ..processors.admin import AdminProcessor
from ..processors.client import ClientProcessor
from ..processors.consume_queue import ConsumeQueueProcessor
from ..processors.group import GroupProcessor
from ..processors.group_offset import GroupOffsetProcessor
from ..processors.offset import OffsetProcessor
from ..processors.online import OnlineProcessor
from ..processors.pull import PullProcessor
from ..processors.query import QueryProcessor
from ..processors.queue_lock import QueueLockProcessor
from ..processors.relay import RelayProcessor
from ..processors.reply import ReplyProcessor
from ..processors.send import SendProcessor
from ..processors.send_back import SendBackProcessor
from ..processors.stats import StatsProcessor
from ..processors.topic import TopicProcessor
from ..processors.transaction import TransactionProcessor
from ..pulls.offset_moved import OffsetMovedEvents
from ..pulls.slow_consumers import SlowConsumers
from ..registry.address_server import BrokerAddressServer, wants_address_server
from ..registry.name_servers import NameServers
from ..registry.registration import Identity
from ..replication.door import link_security
from ..replication.roles import Master, Slave, ha_port
from ..schedule.schedule import Schedule
from ..schedule.schedule_offsets import DelayOffsetPersistence, DelayOffsets
from ..sends.dead_letters import DeadLetters
from ..sends.fast_failure import FastFailure
from ..sends.new_topics import NewTopics
from ..sends.placement import Placements
from ..sends.sync_rounds import SyncRounds
from ..start_checks import check, check_here
from ..state.client_watch import ClientWatch
from ..state.clients import Consumers, Producers
from ..state.config_files import OffsetPersistence
from ..state.consumer_filter_file import FilterPersistence
from ..state.consumer_filters import ConsumerFilters
from ..state.consumer_offsets import ConsumerOffsets
from ..state.lmq import LightConsumerOffsets
from ..state.queue_locks import QueueLocks
from ..state.subscription_groups import SubscriptionGroups
from ..state.topics import Topic, TopicChange, Topics
from ..stats.broker_stats import BrokerStats, StatsSampler, topic_counts
from ..stats.stats_windows import StatsWindows
from ..transactions.transaction_check import TransactionCheck
from ..transactions.transaction_log import TransactionLog
from .tables import Tables

if TYPE_CHECKING:
    from ..monitoring.prometheus import PrometheusServer

NOT_ON_VIP: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
"""The second port is there so that nothing waits behind pulls."""


class Broker:
    """One broker on an open store. ``listen`` binds its ports, ``run`` serves until cancelled."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: MessageStore,
        address: tuple[str, int],
        clock: Clock,
        tables: Tables | None = None,
    ) -> None:
        """``address`` is what stands in message ids; ``tables`` were loaded before, with the
        filters that the store asks for bit maps. Raises ``StoreFileError``, ``TlsError``."""
        config = settings.broker
        self.settings = settings
        self.store = store
        self.tables: Tables = tables or Tables(settings, clock)
        self.topics: Topics = self.tables.topics
        self.groups: SubscriptionGroups = self.tables.groups
        self.offsets: LightConsumerOffsets | ConsumerOffsets = self.tables.offsets
        self.delay_offsets: DelayOffsets = self.tables.delay_offsets
        self.filters: ConsumerFilters = self.tables.filters
        self.producers: Producers = Producers()
        self.consumers: Consumers = Consumers()
        self.stats: BrokerStats = BrokerStats(store.replica)
        delays_ms = parse_delay_levels(settings.store.message_delay_level)
        self.placements: Placements = Placements(delays_ms)
        self._dead_letters: DeadLetters = DeadLetters(store, self.topics, self.stats)
        self.schedule: Schedule = Schedule(
            delays_ms,
            self.delay_offsets,
            store,
            self.topics,
            self.stats,
            self._dead_letters,
            clock,
            consumer_stats=settings.store.enable_schedule_message_stats,
        )
        self.transactions: TransactionLog = TransactionLog(
            store,
            self.topics,
            self.placements,
            self.stats,
            config.broker_cluster_name,
            pack_host(*address),
        )
        self._clock = clock
        self._address = address
        self._locks = QueueLocks()
        self._sampler = StatsSampler(self.stats, clock, store.flush.take_waits_ms)
        self.windows: StatsWindows = StatsWindows(
            clock,
            (
                lambda: topic_counts(self.topics),
                lambda: self.stats.counts(
                    config.broker_cluster_name, detail=config.enable_detail_stat
                ),
            ),
        )
        self.progress: ConsumeProgress = ConsumeProgress(
            config, self.topics, self.consumers, self.offsets, store, self.windows
        )
        self.watch: ClientWatch = ClientWatch(
            config, self.producers, self.consumers, self._locks, clock
        )
        self.consumers.on_gone.append(lambda group: self.filters.unregister(group, clock.time_ms()))
        self._filter_persistence = FilterPersistence(
            config, self.filters, self.tables.filters_file, clock
        )
        self._slow_consumers = SlowConsumers(config, self.groups, clock)
        self.schedule.correct_offsets()
        self.delay_offset_persistence: DelayOffsetPersistence = DelayOffsetPersistence(
            self.delay_offsets,
            store,
            self.tables.delay_offsets_file.changed,
            lambda: self.settings.store.flush_delay_offset_interval,
            clock,
        )
        self.transaction_check: TransactionCheck = TransactionCheck(
            config,
            self.transactions,
            store,
            self.offsets,
            self.producers,
            self.topics,
            self._dead_letters,
            clock,
            save_offsets=self.tables.save_offsets,
            is_slave=self._is_slave,
        )
        self.tables.clamp_offsets(store)
        self.tables.compare(store)
        self._remoting = RemotingClient(
            settings.connections,
            clock=clock,
            tls=client_context(settings.tls)
            if settings.tls.enable or settings.client.use_tls
            else None,
            name="broker-to-name-servers",
        )
        self.name_servers: NameServers = NameServers(
            config, self.topics, self._remoting, clock, self.identity
        )
        self._link_security = link_security(settings.tls, settings.ha_secret)
        self.master: Master = Master(
            settings.later,
            store,
            clock,
            host=settings.server.bind_address,
            listen_port=settings.server.listen_port,
            seats=settings.seats,
            security=self._link_security,
            registered=self.name_servers.slaves,
        )
        self.slave: Slave | None = self._make_slave() if self._is_slave() else None
        self.topics.listeners.append(self._topic_changed)
        self.groups.listeners.append(self.tables.groups_file.changed)
        self.groups.deletion_listeners.append(self.stats.forget_group)
        self.acl: AclFiles | None = open_acl(config, clock)
        self.guard: Guard | None = (
            None
            if self.acl is None
            else AclGuard(self.acl, store, compatible=config.acl_compatible)
        )
        """Looks at every request before its handler does; ``None``: nobody does."""
        self.table: dict[RequestCode, Handler] = self._processor_table()
        self.prometheus: PrometheusServer | None = (
            self._make_prometheus() if config.prometheus_port else None
        )
        if self.master.durability.waits_for_disk:
            store.flush.rounds = SyncRounds(lambda: store.flush.waiting, clock)
        self._buffers = Buffers(server_limits(settings.server, settings.limits), clock)
        self._server = self._make_server("broker", settings.server.listen_port, self.table)
        vip = {code: handler for code, handler in self.table.items() if code not in NOT_ON_VIP}
        self._vip_server = self._make_server(
            "broker-vip", settings.server.listen_port - VIP_PORT_DISTANCE, vip
        )

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
            ha_server_addr=f"{config.broker_ip2}:{ha_port(self.settings.later, self.port)}",
        )

    # -- life
    # ----------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""
        await self._server.listen()
        await self._vip_server.listen()
        await self.master.server.listen()
        if self.prometheus is not None:
            await self.prometheus.listen()

    def close(self) -> None:
        """Stop listening; ``run`` does it at its end, this is for a broker that never ran."""
        self._server.close()
        self._vip_server.close()
        self.master.server.close()
        if self.prometheus is not None:
            self.prometheus.close()

    async def run(self) -> None:
        """Serve until cancelled. Then: name servers are told, nobody is accepted any more, the
        tables are written."""
        offsets = OffsetPersistence(
            self.offsets,
            self.tables.offsets_file,
            lambda: self.settings.broker.flush_consumer_offset_interval,
            self._clock,
        )
        measuring = (self._sampler, self.windows, self.fast_failure)
        optional: list[Service] = [
            service for service in (self.acl, self.prometheus) if service is not None
        ]
        if wants_address_server(self.settings.broker):
            optional.append(
                BrokerAddressServer(self.settings.broker, self.name_servers, self._clock)
            )
        optional += (self._filter_persistence, self._slow_consumers)
        if self.settings.store.broker_role is not BrokerRole.SLAVE:
            optional += (self.schedule, self.delay_offset_persistence)
        optional.append(self.transaction_check)
        if self.slave is not None:
            optional += self.slave.services
        try:
            async with self._remoting:
                await run_stages(
                    (self.name_servers,),
                    (
                        self._server,
                        self._vip_server,
                        self.watch,
                        offsets,
                        self.tables.files,
                        *measuring,
                        *optional,
                    ),
                    (self.store, self.master.server),  # answers wait for them
                )
        finally:
            offsets.check()
            self.tables.files.save_now()

    def save_delay_offsets(self) -> None:
        """Blocks. The last thing of all: only when the store is closed all that was delivered is on
        the disk."""
        self.delay_offset_persistence.make_safe(self.delay_offsets.table())
        self.tables.files.save_now()

    def _topic_changed(self, topic: Topic, change: TopicChange) -> None:
        self.tables.topics_file.changed()
        if change.is_for_name_servers:
            self.name_servers.tell(topic)
        if change is TopicChange.MADE:
            self._new_topics.made(topic.name)
        elif change is TopicChange.DELETED:
            self.stats.forget_topic(topic.name)

    # -- parts
    # ----------------------------------------------------------------------------------------------

    def _is_slave(self) -> bool:
        return self.settings.store.broker_role is BrokerRole.SLAVE

    def _processor_table(self) -> dict[RequestCode, Handler]:
        settings, config, store, clock = (
            self.settings,
            self.settings.broker,
            self.store,
            self._clock,
        )
        records = (
            settings.broker,
            settings.server,
            settings.client,
            settings.store,
            settings.later,
        )
        runtime_config = RuntimeConfig(
            records,
            settings.changes_file,
            clock,
            unknown=settings.unknown_properties,
            kept=settings.kept_properties,
            in_force={
                "haListenPort": lambda text: (
                    str(ha_port(settings.later, self.port)) if text == "0" else text
                ),
                "bitMapLengthConsumeQueueExt": lambda _: str(self.filters.bloom.bit_count),
            },
        )
        self.pull: PullProcessor = PullProcessor(
            config,
            store,
            self.topics,
            self.groups,
            self.consumers,
            self.offsets,
            self.filters,
            self.stats,
            clock,
            moved=OffsetMovedEvents(config, store, self.stats, self._address, clock),
            slow=self._slow_consumers,
        )
        send = SendProcessor(
            config,
            store,
            self.topics,
            self.groups,
            self.stats,
            self._address,
            self.placements,
            self.transactions,
            durability=self.master.durability,
        )
        self._new_topics: NewTopics = NewTopics(
            self.tables.topics_file.when_saved, send.durability, send.wait_for
        )
        self.fast_failure: FastFailure = FastFailure(
            config,
            (store.flush, self.master.server),
            clock,
            send.refuse,
            lambda: settings.later.os_page_cache_busy_time_out_mills,
        )

        def config_changed(names: Sequence[str]) -> None:
            store.reconfigure()
            send.read_config()
            if config.namesrv_addr:
                self.name_servers.use(config.namesrv_addr)

        runtime_config.checks.append(check_store_config)
        runtime_config.start_checks.append(self._check_next_start)
        runtime_config.on_change.append(config_changed)
        most = settings.limits.max_queues_per_answer
        processors = (
            send,
            ReplyProcessor(
                config,
                store,
                self.producers,
                self.stats,
                self._address,
                send.check,
                durability=self.master.durability,
            ),
            SendBackProcessor(
                config,
                store,
                self.topics,
                self.groups,
                self.stats,
                self.placements,
                self._dead_letters,
                busy=lambda: send.busy,
            ),
            self.pull,
            QueryProcessor(store),
            OffsetProcessor(self.offsets, store),
            ClientProcessor(
                self.topics,
                self.groups,
                self.producers,
                self.consumers,
                self.watch,
                self.filters,
                config,
            ),
            GroupOffsetProcessor(
                config, self.topics, self.consumers, self.offsets, store, clock, most
            ),
            OnlineProcessor(self.producers, self.consumers),
            RelayProcessor(config, self.consumers, store),
            ConsumeQueueProcessor(self.consumers, store, self.filters),
            QueueLockProcessor(self._locks),
            TopicProcessor(
                config,
                self.topics,
                self.tables.topics_file,
                self.name_servers,
                self.consumers,
                self.offsets,
                store,
                most,
            ),
            GroupProcessor(self.groups, self.tables.groups_file, self.offsets, self.progress, most),
            StatsProcessor(
                self.windows,
                self.stats,
                self.groups,
                self.progress,
                store,
                self.identity,
                clock.time_ms,
                most,
            ),
            TransactionProcessor(
                store,
                self.topics,
                self.transactions,
                self.stats,
                durability=self.master.durability,
                is_slave=self._is_slave,
            ),
            AclProcessor(self.acl, self.identity),
            AdminProcessor(
                config,
                runtime_config,
                self.topics,
                self.name_servers,
                store,
                self.stats,
                self._sampler,
                self.fast_failure,
                self.schedule,
                clock,
            ),
        )
        table = {
            code: handler for processor in processors for code, handler in processor.table.items()
        }
        if self.slave is not None:
            fields = SendErrorFields(msg_region=config.region_id, trace_on=config.trace_on)
            table = self.slave.handlers(table, fields)
        return hooked(table, load_hooks(config.request_hooks))

    async def _check_next_start(self, settings: Settings, before: Settings) -> None:
        """Raises ``runtime_config.REFUSALS`` for values with which this broker would not start
        again."""
        check(settings)
        await check_here(settings, before, self.settings.tls)

    def _make_slave(self) -> Slave:
        """Raises ``StoreFileError``."""
        slave = Slave(
            self.settings.later,
            self.store,
            self.topics,
            self.groups,
            self.offsets,
            self.delay_offset_persistence,
            self.tables.files,
            self._remoting,
            self._clock,
            own_address=lambda: self.identity().broker_addr,
            tables_changed=self.tables.taken_over,
            look_for_master=self.name_servers.register_soon,
            security=self._link_security,
        )
        self.name_servers.on_answer.append(slave.registered)
        return slave

    def _make_prometheus(self) -> PrometheusServer:
        """Raises ``LaunchError``."""
        try:
            from ..monitoring.metrics import BrokerMetrics
            from ..monitoring.prometheus import PrometheusServer
        except ModuleNotFoundError as error:
            needed = (
                "prometheusPort needs the package prometheus_client: pip install "
                "'aiorocketmq[prometheus]'"
            )
            raise LaunchError(needed) from error
        config = self.settings.broker
        metrics = BrokerMetrics(
            config,
            self.store,
            self.topics,
            self.offsets,
            self.producers,
            self.consumers,
            self.stats,
            self._sampler,
            self.fast_failure,
            lambda: self.pull.held_pulls,
            self.master.server.lags,
        )
        return PrometheusServer(
            metrics, config.prometheus_address, config.prometheus_port, self._clock
        )

    def _make_server(
        self, name: str, port: int, table: Mapping[RequestCode, Handler]
    ) -> RemotingServer:
        settings = self.settings
        return RemotingServer(
            Dispatcher(table, guard=self.guard),
            server_settings(settings.server, settings.limits, settings.tls, name=name, port=port),
            clock=self._clock,
            seats=settings.seats,
            buffers=self._buffers,
            on_disconnect=self.watch.on_disconnect,
            waiting=lambda: self.store.flush.waiting + self.master.server.waiting,
            longest_wait_s=lambda: (
                max(settings.store.sync_flush_timeout, settings.later.slave_timeout) / 1000
            ),
        )
