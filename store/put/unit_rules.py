"""How records become units of queues, the same when they are put, read again and replicated."""

from __future__ import annotations

from typing import NamedTuple

from ...remoting.outages import Outages
from ..model.config import MessageStoreConfig
from ..model.delay_levels import parse_delay_levels
from ..queues.consume_queues import ConsumeQueues
from .consume_queue_ext_writer import BitmapOf, ConsumeQueueExtWriter
from .message_writer import MessageWriter
from .multi_dispatch import DispatchRules


class UnitRules(NamedTuple):
    """Of one store, as it is configured."""

    delay_levels: tuple[int, ...] = ()
    """Milliseconds, level 1 first: the tags code of a delayed message is its time of delivery."""
    ext: ConsumeQueueExtWriter | None = None
    """None: units have no extensions."""
    dispatch: DispatchRules | None = None
    """None: a message is in one queue only."""

    @classmethod
    def of(
        cls,
        config: MessageStoreConfig,
        writer: MessageWriter,
        queues: ConsumeQueues,
        bitmap_of: BitmapOf | None,
        outages: Outages,
    ) -> UnitRules:
        """As configured."""
        ext = None
        if config.enable_consume_queue_ext:
            ext = ConsumeQueueExtWriter(writer, queues.table, bitmap_of, outages)
        return cls(parse_delay_levels(config.message_delay_level), ext, DispatchRules.of(config))
