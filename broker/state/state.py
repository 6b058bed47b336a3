"""What a broker knows besides messages, as one value for who needs most of it."""

from __future__ import annotations

import msgspec

from .clients import Consumers, Producers
from .consumer_filters import ConsumerFilters
from .consumer_offsets import ConsumerOffsets
from .lmq import LightConsumerOffsets
from .queue_locks import QueueLocks
from .subscription_groups import SubscriptionGroups
from .topics import Topics


class State(msgspec.Struct, frozen=True):
    """The first four are kept in files (``config_files.py``), the others end with the process."""

    topics: Topics
    groups: SubscriptionGroups
    offsets: LightConsumerOffsets | ConsumerOffsets
    filters: ConsumerFilters
    locks: QueueLocks
    producers: Producers = msgspec.field(default_factory=Producers)
    consumers: Consumers = msgspec.field(default_factory=Consumers)
