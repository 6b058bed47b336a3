"""What has to do with clients that are online."""

from __future__ import annotations

from ...remoting.clock import Clock
from ...store.message_store import MessageStore
from ..config.config import BrokerConfig
from ..processors.client import ClientProcessor
from ..processors.consume_queue import ConsumeQueueProcessor
from ..processors.online import OnlineProcessor
from ..processors.queue_lock import QueueLockProcessor
from ..processors.relay import RelayProcessor
from ..state.client_watch import ClientWatch
from ..state.state import State
from .table import Processor


class Clients:
    """Their requests, and the service that misses their heartbeats (``watch``)."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, state: State, clock: Clock
    ) -> None:
        producers, consumers = state.producers, state.consumers
        self.watch: ClientWatch = ClientWatch(config, producers, consumers, state.locks, clock)
        self.processors: tuple[Processor, ...] = (
            ClientProcessor(
                state.topics,
                state.groups,
                producers,
                consumers,
                self.watch,
                state.filters,
                config,
                clock,
            ),
            OnlineProcessor(producers, consumers),
            RelayProcessor(config, consumers, store),
            ConsumeQueueProcessor(consumers, store, state.filters),
            QueueLockProcessor(state.locks, state.topics, store, config.broker_name, clock),
        )
