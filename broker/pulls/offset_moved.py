"""OFFSET_MOVED_EVENT: a message for whoever watches consumers that ask for offsets which are not
there (PullMessageProcessor; ``broker-services.md`` §6.2)."""

from __future__ import annotations

import logging
from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.bodies.reset import OffsetMovedEvent
from ...remoting.protocol.commands.pull import PullMessageRequest
from ...remoting.protocol.message.message_id import pack_host
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.properties import PropertyName, encode_properties, tags_code
from ...remoting.protocol.message.topic_names import TopicName
from ...store.message_store import MessageStore
from ...store.model.put import PutMessage
from ...store.model.status import PutStatus
from ..config.config import BrokerConfig
from ..stats.broker_stats import BrokerStats

log: Final = logging.getLogger(__name__)

_NO_EVENT: Final = ("no event",)


class OffsetMovedEvents:
    """Writes the messages. ``address`` is the broker's own: it is who they come from."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        stats: BrokerStats,
        address: tuple[str, int],
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = store
        self._stats = stats
        self._host = pack_host(*address)
        self._clock = clock
        self._outages = Outages(clock)

    def tell(self, request: PullMessageRequest, new_offset: int) -> None:
        """A pull was answered with another offset. Nothing else depends on whether this message can
        be stored."""
        group = request.consumer_group
        queue = MessageQueue(request.topic, self._config.broker_name, request.queue_id)
        event = OffsetMovedEvent(
            consumer_group=group,
            message_queue=queue,
            offset_request=request.queue_offset,
            offset_new=new_offset,
        )
        now_ms = self._clock.time_ms()
        result = self._store.put_message(
            PutMessage(
                TopicName.OFFSET_MOVED_EVENT,
                0,
                encode_body(event),
                encode_properties(
                    {PropertyName.KEYS: group, PropertyName.DELAY: "0", PropertyName.TAGS: group}
                ),
                born_host=self._host,
                born_timestamp=now_ms,
                store_timestamp=now_ms,
                tags_code=tags_code(group),
            )
        )
        self._stats.stored_own(result)
        self._outages.occurs(
            log,
            ("moved", request.topic),
            "offset out of range group=%s topic=%s queue=%d asked=%d goes on at=%d",
            group, request.topic, request.queue_id, request.queue_offset, new_offset,
        )  # fmt: skip
        if result.status is PutStatus.PUT_OK:
            self._outages.works(_NO_EVENT)
        else:
            self._outages.fails(
                log, _NO_EVENT, "offsets out of range, no event of it stored: %s", result.remark
            )
