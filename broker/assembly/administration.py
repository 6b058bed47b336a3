"""What administrators ask for and change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...daemon.launch import Settings
from ...remoting.clock import Clock
from ...store.message_store import MessageStore
from ..config.runtime_config import RuntimeConfig, check_store_config
from ..config.settings import BrokerSettings
from ..monitoring.runtime_info import RuntimeInfo
from ..processors.admin import AdminProcessor
from ..processors.group import GroupProcessor
from ..processors.group_offset import GroupOffsetProcessor
from ..processors.stats import StatsProcessor
from ..processors.topic import TopicDeletionProcessor, TopicProcessor
from ..registry.address_server import wants_address_server
from ..replication.roles import ha_port
from ..schedule.schedule import Schedule
from ..start_checks import check, check_here
from .monitoring import Monitoring
from .registry import Registry
from .sends import Sends
from .table import Processor
from .tables import Tables


class Administration:
    """Their requests, and the configuration that they may change while the broker runs."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: MessageStore,
        tables: Tables,
        monitoring: Monitoring,
        registry: Registry,
        sends: Sends,
        schedule: Schedule,
        clock: Clock,
    ) -> None:
        config, state, most = settings.broker, tables.state, settings.limits.max_queues_per_answer
        self._settings = settings
        self._store = store
        self._sends = sends
        self._registry = registry
        stats, progress = monitoring.stats, monitoring.progress
        self.info: RuntimeInfo = RuntimeInfo(
            config, store, stats, monitoring.sampler, sends.fast_failure, schedule, clock
        )
        self.processors: tuple[Processor, ...] = (
            GroupOffsetProcessor(
                config, state.topics, state.consumers, state.offsets, store, clock, most
            ),
            *self._of_topics(tables),
            GroupProcessor(
                state.groups,
                partial(tables.settled, tables.groups_file),
                state.offsets,
                progress,
                most,
            ),
            StatsProcessor(
                monitoring.windows,
                stats,
                state.groups,
                progress,
                store,
                registry.identity,
                clock.time_ms,
                most,
            ),
            AdminProcessor(
                self._runtime_config(tables, clock),
                self.info,
                state.topics,
                registry.name_servers,
                store,
                tables.delay_offsets,
            ),
        )

    def _of_topics(self, tables: Tables) -> tuple[Processor, ...]:
        config, state, store = self._settings.broker, tables.state, self._store
        settled = partial(tables.settled, tables.topics_file)
        name_servers = self._registry.name_servers
        return (
            TopicProcessor(
                config,
                state.topics,
                settled,
                name_servers,
                state.consumers,
                state.offsets,
                store,
                self._settings.limits.max_queues_per_answer,
            ),
            TopicDeletionProcessor(
                state.topics,
                settled,
                lambda topic: tables.deleted_in_log(topic),
                name_servers,
                state.offsets,
                store,
                lambda: store.raft is None or config.owns_tables,
            ),
        )

    def _runtime_config(self, tables: Tables, clock: Clock) -> RuntimeConfig:
        settings = self._settings
        runtime_config = RuntimeConfig(
            (
                settings.broker,
                settings.server,
                settings.client,
                settings.store,
                settings.later,
                settings.group,
            ),
            settings.changes_file,
            clock,
            unknown=settings.unknown_properties,
            kept=settings.kept_properties,
            of_this_machine=settings.of_this_machine,
            in_force={
                "haListenPort": lambda text: (
                    str(ha_port(settings.later, settings.server.listen_port))
                    if text == "0"
                    else text
                ),
                "bitMapLengthConsumeQueueExt": lambda _: str(tables.state.filters.bloom.bit_count),
            },
        )
        runtime_config.checks.append(check_store_config)
        runtime_config.start_checks.append(self._check_next_start)
        runtime_config.on_change.append(self._changed)
        return runtime_config

    def _changed(self, _names: Sequence[str]) -> None:
        """Who has taken values over takes them over again."""
        self._store.reconfigure()
        self._sends.read_config()
        if not wants_address_server(self._settings.broker):
            self._registry.name_servers.use(self._settings.broker.namesrv_addr)

    async def _check_next_start(
        self, settings: Settings, before: Settings, running: Settings
    ) -> None:
        """Raises ``runtime_config.REFUSALS`` for values with which this broker would not start
        again."""
        check(settings)
        await check_here(settings, before, running, self._settings.tls)
