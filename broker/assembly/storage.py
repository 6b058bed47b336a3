"""What becomes of messages that do not go to their topics at once: delayed ones, transactions."""

from __future__ import annotations

from collections.abc import Callable

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ...remoting.peer import Peer
from ...remoting.protocol.message.message_id import pack_host
from ...remoting.services import Service
from ...store.message_store import MessageStore
from ...store.model.config import BrokerRole
from ...store.model.delay_levels import parse_delay_levels
from ..config.settings import BrokerSettings
from ..schedule.offset_persistence import DelayOffsetPersistence
from ..schedule.schedule import Schedule
from ..sends.durability import Durability
from ..sends.put_context import PutContext
from ..sends.sequence_log import SequenceLog
from ..sends.sequences import Sequences
from ..stats.broker_stats import BrokerStats
from ..transactions.half_properties import Destination
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
        may_send: Callable[[Peer, str], bool],
        clock: Clock,
        group: Durability | None = None,
    ) -> None:
        """``tables`` agree with the store by now. ``may_send``: a client to a topic. ``group``: how
        safe messages are at a member of a group; else they are when the disk has them."""
        config, state = settings.broker, tables.state
        self.store: MessageStore = store
        self._group = group
        delays_ms = parse_delay_levels(settings.store.message_delay_level)
        self._tables = tables
        self._may_send = may_send
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
            self._when_safe,
            tables.delay_offsets_file.changed,
            lambda: settings.store.flush_delay_offset_interval,
            clock,
        )
        self.sequences: SequenceLog = SequenceLog(
            store,
            Sequences(
                lambda: config.max_send_sequences, lambda: config.send_sequence_expire_millis
            ),
            clock,
            settled=self._settled,
        )
        self.transactions: TransactionLog = TransactionLog(
            self.context, config.broker_cluster_name, pack_host(*address), Outages(clock)
        )
        self.transaction_check: TransactionCheck = TransactionCheck(
            config,
            self.context,
            self.transactions,
            state.offsets,
            self._who_may_be_asked,
            clock,
            settled=self._settled,
            save_offsets=tables.save_offsets,
        )

    def _who_may_be_asked(self, about: Destination) -> list[Peer]:
        """Producers of its group that may send to its topic. Anybody may say that he is of the
        group, and the question brings the message."""
        connections = self._tables.state.producers.connections(about.group)
        return [each for each in connections if self._may_send(each, about.topic)]

    @property
    def of_master(self) -> tuple[Service, ...]:
        """What only a master does."""
        return (
            self.schedule,
            self.delay_offset_persistence,
            self.transaction_check,
            self.sequences,
        )

    @property
    def services(self) -> tuple[Service, ...]:
        """What it does all the time; a member of a group begins and ends with its role."""
        if self._group is not None:
            return ()
        return (self.transaction_check,) if self._is_slave else self.of_master

    def begin_as_master(self) -> None:
        """Of a member of a group: nothing that it knew of transactions counts any more."""
        self.sequences.forget()
        self.transactions.begin()
        self.transaction_check.begin()

    def end_as_master(self) -> None:
        """What was delivered and is not committed may be gone."""
        self.sequences.forget()
        self.delay_offset_persistence.revert()

    def _when_safe(self, done: Callable[[bool], None]) -> None:
        if self._group is not None:
            self._group.when_all_stored(lambda code: done(code == 0))
        else:
            self.store.flush.when_flushed(self.store.max_phy_offset, done)

    async def _settled(self) -> bool:
        """Have everything that is stored by now safe. Whether that is so."""
        if self._group is not None:
            return await self._group.all_stored() == 0
        end = self.store.max_phy_offset
        await self.store.sync()
        return self.store.flushed_offset >= end

    def save_delay_offsets(self) -> None:
        """Blocks. The last thing of all: only when the store is closed all that was delivered is on
        the disk. What a group has committed is known before."""
        if self._group is None:
            self.delay_offset_persistence.make_safe(self._tables.delay_offsets.table())
        self._tables.files.save_now()
