"""Where a consumer begins in a queue (client.md §4.4; class RebalancePushImpl)."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from ...remoting.protocol.bodies.heartbeat import ConsumeFromWhere
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.offset import QueueRequest, SearchOffsetRequest
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import is_retry_topic
from ..cluster.instance import ClientInstance
from ..errors import ConfigError
from ..usage_errors import chosen
from .offset_store import OFFSET_TIMEOUT, OffsetStore

log: Final = logging.getLogger(__name__)


class StartFrom(Enum):
    """Where a group begins in a queue that it has never consumed.

    A broker answers "0" by itself for a queue that is still young (nothing was deleted from it and
    its first message is in memory): there a new group sees everything, whatever is chosen here.
    """

    LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    """With what arrives from now on."""
    FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    """With the oldest message that is kept."""
    TIMESTAMP = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
    """With the first message stored at or after a point in time."""


class StartPolicy:
    """The rule of one consumer. ``since`` is read for ``TIMESTAMP``; default: half an hour before
    now."""

    def __init__(self, start_from: StartFrom, since: datetime | None, now_ms: int) -> None:
        self.start_from: StartFrom = chosen("start_from", start_from, StartFrom)
        if since is not None and not isinstance(since, datetime):
            raise ConfigError(f"start_time is a datetime, not {since!r}")
        half_an_hour_ms = timedelta(minutes=30) // timedelta(milliseconds=1)
        self.since_ms: int = now_ms - half_an_hour_ms if since is None else milliseconds(since)

    async def offset(
        self, instance: ClientInstance, offsets: OffsetStore, queue: MessageQueue
    ) -> int:
        """Where to begin in this queue; says so in the log. Raises ``RemotingError``,
        ``BrokerError``."""
        stored = await offsets.fetch(queue)
        if stored is not None:
            offset, why = stored, "the offset that is known of the group"
        elif is_retry_topic(queue.topic) and self.start_from is not StartFrom.TIMESTAMP:
            offset, why = 0, "the group is new, its retry topic is read from the start"
        elif is_retry_topic(queue.topic):
            offset, why = (
                await max_offset(instance, queue),
                "the group is new and its retry topic is older than that",
            )
        elif self.start_from is StartFrom.LAST:
            offset, why = (
                await max_offset(instance, queue),
                "the group is new and begins at the end",
            )
        elif self.start_from is StartFrom.FIRST:
            offset, why = (
                await min_offset(instance, queue),
                "the group is new and begins with the oldest message",
            )
        else:
            offset = await offset_at(instance, queue, self.since_ms)
            why = f"the group is new and begins with what was stored since {self.since_ms} ms"
        log.info("start offset queue=%s/%s/%d offset=%d: %s", *queue, offset, why)
        return offset


def milliseconds(when: datetime) -> int:
    """A point in time as brokers count it. A naive one is local time."""
    return round(when.timestamp() * 1000)


async def min_offset(instance: ClientInstance, queue: MessageQueue) -> int:
    """Offset of the oldest message that is kept. Raises ``RemotingError``, ``BrokerError``."""
    return await _queue_offset(instance, queue, RequestCode.GET_MIN_OFFSET)


async def max_offset(instance: ClientInstance, queue: MessageQueue) -> int:
    """Offset that the next message will get. Raises ``RemotingError``, ``BrokerError``."""
    return await _queue_offset(instance, queue, RequestCode.GET_MAX_OFFSET)


async def _queue_offset(instance: ClientInstance, queue: MessageQueue, code: RequestCode) -> int:
    header = QueueRequest(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
    return int(
        (await instance.ask_owner(queue, code, header, timeout=OFFSET_TIMEOUT)).header.offset
    )


async def offset_at(instance: ClientInstance, queue: MessageQueue, timestamp_ms: int) -> int:
    """Offset of the first message stored at or after that time (ms), of the last one when all are
    older.

    Raises ``RemotingError``, ``BrokerError``.
    """
    header = SearchOffsetRequest(
        topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms, bname=queue.broker_name
    )
    answer = await instance.ask_owner(
        queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header, timeout=OFFSET_TIMEOUT
    )
    return int(answer.header.offset)


async def earliest_store_time(instance: ClientInstance, queue: MessageQueue) -> int:
    """When the oldest message was stored (ms), -1 for an empty queue. Raises ``RemotingError``,
    ``BrokerError``."""
    header = QueueRequest(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
    answer = await instance.ask_owner(
        queue, RequestCode.GET_EARLIEST_MSG_STORETIME, header, timeout=OFFSET_TIMEOUT
    )
    return int(answer.header.timestamp)
