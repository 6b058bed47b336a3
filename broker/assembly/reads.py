"""What hands messages out."""

from __future__ import annotations

from ...remoting.clock import Clock
from ...store.message_store import MessageStore
from ..config.settings import BrokerSettings
from ..processors.offset import OffsetProcessor
from ..processors.pull import PullProcessor
from ..processors.query import QueryProcessor
from ..pulls.offset_moved import OffsetMovedEvents
from ..pulls.slow_consumers import SlowConsumers
from ..replication.table_states import TableStates
from ..stats.broker_stats import BrokerStats
from .table import Processor
from .tables import Tables


class Reads:
    """The requests that read, and the service that looks for groups which read too slowly."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: MessageStore,
        address: tuple[str, int],
        tables: Tables,
        stats: BrokerStats,
        clock: Clock,
    ) -> None:
        config, state = settings.broker, tables.state
        self.slow_consumers: SlowConsumers = SlowConsumers(config, state.groups, clock)
        self.pull: PullProcessor = PullProcessor(
            config,
            store,
            state,
            stats,
            clock,
            moved=OffsetMovedEvents(config, store, stats, address, clock),
            slow=self.slow_consumers,
        )
        self.processors: tuple[Processor, ...] = (
            self.pull,
            QueryProcessor(store, TableStates(state, tables.delay_offsets)),
            OffsetProcessor(state.offsets, store, state.topics),
        )
