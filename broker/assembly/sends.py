"""What messages pass on their way into the store, and what their answers wait for."""

from __future__ import annotations

from ...remoting.clock import Clock
from ..config.settings import BrokerSettings
from ..processors.reply import ReplyProcessor
from ..processors.send import SendProcessor
from ..processors.send_back import SendBackProcessor
from ..processors.sequenced_send import SequencedSends
from ..processors.transaction import TransactionProcessor
from ..sends.fast_failure import FastFailure
from ..sends.new_topics import NewTopics
from ..sends.send_gate import SendGate
from .access import Access
from .copies import Copies
from .storage import Storage
from .table import Processor
from .tables import Tables


class Sends:
    """Requests that bring messages, and who refuses them when there are too many."""

    def __init__(
        self,
        settings: BrokerSettings,
        address: tuple[str, int],
        tables: Tables,
        storage: Storage,
        copies: Copies,
        access: Access,
        clock: Clock,
    ) -> None:
        config, state, context = settings.broker, tables.state, storage.context
        store, durability = context.store, copies.durability
        self.new_topics: NewTopics = NewTopics(
            tables.topics_file.when_saved, durability, lambda: state.topics.data_version
        )
        self._gate = gate = SendGate(config)
        self._send = SendProcessor(
            config,
            context,
            state.groups,
            address,
            storage.transactions,
            self.new_topics,
            gate,
            SequencedSends(storage.sequences, store, access.account_of, durability, clock.time_ms),
        )
        self.fast_failure: FastFailure = FastFailure(
            config,
            (store.flush, *copies.waits),
            clock,
            gate,
            lambda: settings.later.os_page_cache_busy_time_out_mills,
            lambda: store.max_phy_offset,
        )
        self.processors: tuple[Processor, ...] = (
            self._send,
            ReplyProcessor(
                config,
                store,
                state.producers,
                context.stats,
                address,
                self._send.check,
                durability,
                clock,
            ),
            SendBackProcessor(config, context, state.groups, gate, durability, self.new_topics),
            TransactionProcessor(context, storage.transactions, durability),
        )

    def read_config(self) -> None:
        """Take over what the configuration says now."""
        self._gate.read_config()
        self._send.read_config()
