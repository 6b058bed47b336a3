"""What everybody in a broker needs who stores messages."""

from __future__ import annotations

import msgspec

from ...store.message_store import MessageStore
from ..state.topics import Topics
from ..stats.broker_stats import BrokerStats
from .dead_letters import DeadLetters
from .placement import Placements


class PutContext(msgspec.Struct, frozen=True):
    """One for a whole broker."""

    store: MessageStore
    topics: Topics
    stats: BrokerStats
    """Where it is counted."""
    placements: Placements
    """Which topic it really goes to."""
    dead_letters: DeadLetters
    """Who takes it when it is refused for good."""

    @classmethod
    def of(
        cls, store: MessageStore, topics: Topics, stats: BrokerStats, delays_ms: tuple[int, ...]
    ) -> PutContext:
        """``delays_ms`` of the delay levels, level 1 first."""
        return cls(store, topics, stats, Placements(delays_ms), DeadLetters(store, topics, stats))
