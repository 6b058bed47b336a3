"""What becomes of messages that do not go to their topics at once: delayed ones, transactions."""

from __future__ import annotations

from ...remoting.clock import Clock
from ...remoting.protocol.message.message_id import pack_host
from ...remoting.services import Service
from ...store.message_store import MessageStore
from ...store.model.config import BrokerRole
from ...store.model.delay_levels import parse_delay_levels
from ..config.settings import BrokerSettings
from ..schedule.schedule import Schedule
from ..schedule.schedule_offsets import DelayOffsetPersistence
from ..sends.put_context import PutContext
from ..stats.broker_stats import BrokerStats
from ..transactions.transaction_check import TransactionCheck
from ..transactions.transaction_log import TransactionLog
from .tables import Tables


class Storage:
    """``context`` is for all who store messages."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: MessageStore,
        address: tuple[str, int],
        tables: Tables,
        stats: BrokerStats,
        clock: Clock,
    ) -> None:
        """``tables`` agree with the store by now."""
        config, state = settings.broker, tables.state
        delays_ms = parse_delay_levels(settings.store.message_delay_level)
        self._tables = tables
        self._is_slave = settings.store.broker_role is BrokerRole.SLAVE
        self.context: PutContext = PutContext.of(store, state.topics, stats, delays_ms)
        self.schedule: Schedule = Schedule(
            delays_ms,
            tables.delay_offsets,
            self.context,
            clock,
            consumer_stats=settings.store.enable_schedule_message_stats,
        )
        self.delay_offset_persistence: DelayOffsetPersistence = DelayOffsetPersistence(
            tables.delay_offsets,
            store,
            tables.delay_offsets_file.changed,
            lambda: settings.store.flush_delay_offset_interval,
            clock,
        )
        self.transactions: TransactionLog = TransactionLog(
            self.context, config.broker_cluster_name, pack_host(*address)
        )
        self.transaction_check: TransactionCheck = TransactionCheck(
            config,
            self.context,
            self.transactions,
            state.offsets,
            state.producers,
            clock,
            save_offsets=tables.save_offsets,
        )

    @property
    def services(self) -> tuple[Service, ...]:
        if self._is_slave:
            return (self.transaction_check,)
        return (self.schedule, self.delay_offset_persistence, self.transaction_check)

    def save_delay_offsets(self) -> None:
        """Blocks. The last thing of all: only when the store is closed all that was delivered is on
        the disk."""
        self.delay_offset_persistence.make_safe(self._tables.delay_offsets.table())
        self._tables.files.save_now()
