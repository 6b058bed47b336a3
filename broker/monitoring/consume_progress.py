"""How far groups are in their topics, and how fast (classes ConsumeStats, AdminBrokerProcessor;
``headers.md`` part C)."""

from __future__ import annotations

from typing import Final

from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.slices import Steps, slices
from ...store.message_store import MessageStore
from ..config.config import BrokerConfig
from ..state.clients import Consumers
from ..state.consumer_offsets import ConsumerOffsets
from ..state.topics import Topic, Topics
from ..stats.stats_windows import StatsWindows

QUEUES_AT_ONCE: Final = 256
"""Queues that are looked at in one slice; of each a message may have to be read."""


def check_queue_count(count: int, limit: int) -> None:
    """Raises ``RequestError`` for an answer with more queues than ``limit``."""
    if count > limit:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"the answer would have {count} queues, the limit is maxQueuesPerAnswer={limit}",
        )


class ConsumeProgress:
    """Puts together what offsets, queues and counters say."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        consumers: Consumers,
        offsets: ConsumerOffsets,
        store: MessageStore,
        windows: StatsWindows,
    ) -> None:
        self._config = config
        self._topics = topics
        self._consumers = consumers
        self.offsets = offsets
        self._store = store
        self._windows = windows

    def topics_of(self, group: str) -> Steps[list[Topic]]:
        """The topics that the group has offsets in; those that an online group does not subscribe
        any more are left out."""
        return self.known(group, (yield from self.offsets.topics_of(group)))

    def known(self, group: str, names: list[str]) -> list[Topic]:
        """Those of the topics that ``topic_of`` knows."""
        return [topic for name in names if (topic := self.topic_of(group, name)) is not None]

    def topic_of(self, group: str, name: str) -> Topic | None:
        """The topic, unless it is gone or the group is online and does not subscribe it."""
        online = self._consumers.get(group)
        if online is not None and online.subscriptions and name not in online.subscriptions:
            return None
        return self._topics.get(name)

    def tps(self, group: str, topic: str) -> float:
        """Messages per second that the group got over the last minute."""
        return self._windows.tps("GROUP_GET_NUMS", f"{topic}@{group}")

    def of_topic(self, group: str, topic: Topic, queue_nums: int) -> Steps[ConsumeStats]:
        """The first so many queues of a topic."""
        name, broker = topic.name, self._config.broker_name
        table: dict[MessageQueue, OffsetWrapper] = {}
        for some in slices(range(queue_nums), QUEUES_AT_ONCE):
            for queue_id in some:
                table[MessageQueue(name, broker, queue_id)] = self._of_queue(group, name, queue_id)
            yield
        return ConsumeStats(offset_table=table, consume_tps=self.tps(group, topic.name))

    def _of_queue(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        offset = max(0, self.offsets.get(group, topic, queue_id))
        stored_at = self._store.entries.stored_at(topic, queue_id, offset - 1) if offset > 0 else 0
        return OffsetWrapper(
            broker_offset=max(0, self._store.max_offset(topic, queue_id)),
            consumer_offset=offset,
            last_timestamp=max(0, stored_at),
        )
