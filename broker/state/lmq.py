"""Light queues, ``%LMQ%...`` (``enableLmq``): topics and groups that nobody has to make and that
are kept in no table (classes LmqTopicConfigManager, LmqSubscriptionGroupManager,
LmqConsumerOffsetManager; message-encoding.md §4.9, commitlog.md §15). How messages get into them:
``store/put/multi_dispatch.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable, LmqConsumerOffsetTable
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from ...remoting.protocol.bodies.topic_config import TopicConfig
from ...remoting.protocol.message.sys_flag import PermName
from ...remoting.protocol.message.topic_names import is_lmq_topic, topic_error
from ...remoting.slices import Steps, slices
from .consumer_offsets import KEYS_AT_ONCE, SEPARATOR, ConsumerOffsets

LIGHT_OFFSETS_FILE: Final = "lmqConsumerOffset.json"
_QUEUE_ID: Final = 0


def light_topic(name: str) -> TopicConfig | None:
    """One queue to read and to write; None for a name that is not light, or that cannot be one."""
    if not is_lmq_topic(name) or topic_error(name) is not None:
        return None
    perm = PermName.READ | PermName.WRITE
    return TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1, perm=perm)


def light_group(name: str) -> SubscriptionGroupConfig | None:
    """A group with all defaults; None for a name that is not light."""
    return SubscriptionGroupConfig(group_name=name) if is_lmq_topic(name) else None


class LightConsumerOffsets(ConsumerOffsets):
    """The offsets of light groups stand in a table of their own, without queue numbers: there is
    only queue 0."""

    def record_in_slices(
        self, wanted: Iterable[str] | None = None
    ) -> Steps[LmqConsumerOffsetTable]:
        light: dict[str, int] = {}
        others: dict[str, dict[int, int]] = {}
        all_of_them = yield from super().record_in_slices(wanted)
        for some in slices(all_of_them.offset_table.items(), KEYS_AT_ONCE):
            for key, queues in some:
                if not _is_light(key):
                    others[key] = queues
                elif _QUEUE_ID in queues:
                    light[key] = queues[_QUEUE_ID]
            yield
        return LmqConsumerOffsetTable(lmq_offset_table=light, offset_table=others)

    def load(self, table: ConsumerOffsetTable) -> None:
        light = table.lmq_offset_table if isinstance(table, LmqConsumerOffsetTable) else {}
        own = {key: {_QUEUE_ID: offset} for key, offset in light.items()}
        super().load(ConsumerOffsetTable(offset_table={**table.offset_table, **own}))


def _is_light(key: str) -> bool:
    return is_lmq_topic(key.partition(SEPARATOR)[2])
