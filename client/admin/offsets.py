"""Where queues begin and end, where groups stand."""

from __future__ import annotations

from functools import partial

from ...remoting.protocol.bodies.consumer_offsets import QueryCorrectionOffsetBody
from ...remoting.protocol.bodies.reset import GetConsumerStatusBody
from ...remoting.protocol.bodies.stats import QueryConsumeTimeSpanBody, QueueTimeSpan
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.offset import (
    CloneGroupOffsetRequest,
    GetConsumerStatusRequest,
    QueryConsumeTimeSpanRequest,
    QueryCorrectionOffsetRequest,
)
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import retry_topic
from ..offsets.offset_store import BrokerOffsets
from ..offsets.start_offset import earliest_store_time, max_offset, min_offset, offset_at
from .core import SLOW
from .groups import GroupOperations


class OffsetOperations(GroupOperations):
    # --- of queues
    # ----------------------------------------------------------------------------------------------

    async def min_offset(self, queue: MessageQueue) -> int:
        """Offset of the oldest message that is kept."""
        return await min_offset(self.instance, queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Offset that the next message will get."""
        return await max_offset(self.instance, queue)

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Offset of the first message stored at or after that time, of the last one when all are
        older."""
        return await offset_at(self.instance, queue, timestamp_ms)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the oldest message was stored (ms), -1 for an empty queue."""
        return await earliest_store_time(self.instance, queue)

    # --- of groups
    # ----------------------------------------------------------------------------------------------

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Where a group stands in a queue; ``None`` when it never consumed it."""
        return await BrokerOffsets(self.instance, group).fetch(queue)

    async def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Move a group in a queue, also backwards. Clients that are online do not notice and may
        write over it."""
        await BrokerOffsets(self.instance, group).commit({queue: offset})

    async def clone_group_offsets(self, source: str, destination: str, topic: str) -> int:
        """Give a group the offsets of another one: all of its queues, those of other topics too
        (its retry topic's as well).

        Returns the number of queues. Raises ``NoRouteError`` for a group or topic that nobody
        knows.
        """
        stats = await self.consume_stats(source)
        await self._route(topic)
        offsets = {queue: found.consumer_offset for queue, found in stats.offset_table.items()}
        for queue, offset in sorted(offsets.items()):
            await self.update_consumer_offset(destination, queue, offset)
        return len(offsets)

    async def clone_group_offset_in_broker(
        self,
        address: str,
        source: str,
        destination: str,
        topic: str | None = None,
        *,
        offline: bool = False,
    ) -> None:
        """The same inside one broker, for one topic or all; ``offline``: also what an online group
        does not subscribe."""
        header = CloneGroupOffsetRequest(
            src_group=source, dest_group=destination, topic=topic, offline=offline
        )
        await self._invoke(address, RequestCode.CLONE_GROUP_OFFSET, header)

    async def consumer_status(
        self, group: str, topic: str, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """Offsets as the clients of a group know them (default: all of its clients), by client id.

        Raises ``NoRouteError``, and ``BrokerError`` when nobody of the group is online.
        """
        header = GetConsumerStatusRequest(topic=topic, group=group, client_addr=client_id)
        code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        asking = partial(
            self._ask, code=code, header=header, body_type=GetConsumerStatusBody, times=SLOW
        )
        found: dict[str, dict[MessageQueue, int]] = {}
        for body in await self._each(asking, await self._addresses_of_topic(topic)):
            for client, offsets in body.consumer_table.items():
                found.setdefault(client, {}).update(offsets)
        return found

    async def consume_time_span(self, group: str, topic: str) -> list[QueueTimeSpan]:
        """When first, last and last consumed message of every queue were stored (ms). Raises
        ``NoRouteError``."""
        header = QueryConsumeTimeSpanRequest(topic=topic, group=group)
        code = RequestCode.QUERY_CONSUME_TIME_SPAN
        asking = partial(self._ask, code=code, header=header, body_type=QueryConsumeTimeSpanBody)
        told = await self._each(asking, await self._addresses_of_topic(retry_topic(group)))
        return [span for found in told for span in found.consume_time_span_set]

    async def correction_offsets(
        self, address: str, topic: str, group: str, filter_groups: tuple[str, ...] = ()
    ) -> dict[int, int]:
        """Of a broker's queues the offset of the group furthest back, ``2**63 - 1`` where all are
        ahead of ``group``.

        ``filter_groups`` do not count.
        """
        header = QueryCorrectionOffsetRequest(
            topic=topic, compare_group=group, filter_groups=",".join(filter_groups) or None
        )
        found = await self._ask(
            address, RequestCode.QUERY_CORRECTION_OFFSET, header, QueryCorrectionOffsetBody
        )
        return dict(found.correction_offsets)
