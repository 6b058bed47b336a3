"""How far each group has consumed (class ConsumerOffsetManager; ``broker-services.md`` §4).

The table is ``topic@group`` → queue id → next offset, as in the file ``config/consumerOffset.json``. Committing is
unconditional: no check of topic, group or queue, and also backwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from ..remoting.errors import RequestError
from ..remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable
from ..remoting.protocol.codes import ResponseCode

log: Final = logging.getLogger(__name__)

OFFSETS_FILE: Final = "consumerOffset.json"
SEPARATOR: Final = "@"
NO_OFFSET: Final = -1
MAX_KEYS: Final = 1_000_000
MAX_QUEUES: Final = 100_000
MAX_NAME: Final = 512
"""Nothing but these limits what clients may commit to."""


class OffsetTableFullError(RequestError):
    """A peer commits offsets for more topics, groups or queues than any cluster has."""

    def __init__(self, message: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, message)


class ConsumerOffsets:
    """``changes`` grows with every commit; who persists compares it with what it was at the last time."""

    def __init__(self) -> None:
        self._table: dict[str, dict[int, int]] = {}
        self.changes: int = 0

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The group goes on at ``offset`` in that queue."""
        queues = self._table.get(f"{topic}{SEPARATOR}{group}")
        if queues is None:
            queues = self._new_key(group, topic)
        elif len(queues) >= MAX_QUEUES and queue_id not in queues:
            raise OffsetTableFullError(f"{group} has offsets in {MAX_QUEUES} queues of {topic}, queue {queue_id} is refused")
        queues[queue_id] = offset
        self.changes += 1

    def get(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group goes on, ``NO_OFFSET`` when it never committed."""
        queues = self._table.get(f"{topic}{SEPARATOR}{group}")
        return NO_OFFSET if queues is None else queues.get(queue_id, NO_OFFSET)

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        """All queues of a topic that the group committed."""
        return self._table.get(f"{topic}{SEPARATOR}{group}", {})

    def topics_of(self, group: str) -> list[str]:
        """Topics that the group has offsets in."""
        return [topic for topic, owner in map(_split, self._table) if owner == group]

    def each(self) -> Iterator[tuple[str, str, Mapping[int, int]]]:
        """Topic, group and offsets by queue, of all; a generator that may be left alone between two steps."""
        for key, queues in list(self._table.items()):
            topic, group = _split(key)
            yield topic, group, queues

    def topics_by_group(self) -> dict[str, list[str]]:
        """All groups with the topics that they have offsets in."""
        found: dict[str, list[str]] = {}
        for key in self._table:
            topic, group = _split(key)
            found.setdefault(group, []).append(topic)
        return found

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have offsets in the topic."""
        return [group for name, group in map(_split, self._table) if name == topic]

    def remove_group(self, group: str) -> int:
        """Forget everything about a group; how many topics that were."""
        keys = [key for key in self._table if _split(key)[1] == group]
        for key in keys:
            log.warning("offsets removed %s=%s", key, self._table.pop(key))
        self.changes += len(keys)
        return len(keys)

    def clone(self, source: str, target: str, topic: str) -> bool:
        """The target group goes on where the source stands in that topic; False when the source has no offsets there."""
        queues = self._table.get(f"{topic}{SEPARATOR}{source}")
        if queues is None:
            return False
        key = f"{topic}{SEPARATOR}{target}"
        if key not in self._table:
            self._new_key(target, topic)
        self._table[key] = dict(queues)
        self.changes += 1
        return True

    def least(self, topic: str, min_offset: Callable[[int], int], without: Collection[str] = ()) -> dict[int, int]:
        """Of every queue the offset of the group that stands furthest back, some groups left out.

        An offset below ``min_offset(queue_id)``, of messages that are gone, does not count.
        """
        least: dict[int, int] = {}
        for key, queues in self._table.items():
            name, group = _split(key)
            if name != topic or group in without:
                continue
            for queue_id, offset in queues.items():
                if offset >= min_offset(queue_id):
                    least[queue_id] = min(least.get(queue_id, offset), offset)
        return least

    def _new_key(self, group: str, topic: str) -> dict[int, int]:
        if max(len(group), len(topic)) > MAX_NAME:
            raise OffsetTableFullError(
                f"a group or topic of more than {MAX_NAME} characters has no offsets: {group[:40]}..."
            )
        if len(self._table) >= MAX_KEYS:
            raise OffsetTableFullError(
                f"the broker holds the offsets of {MAX_KEYS} topics and groups, {topic}{SEPARATOR}{group} is refused"
            )
        return self._table.setdefault(f"{topic}{SEPARATOR}{group}", {})

    def clamp(self, max_offset: Callable[[str, int], int]) -> int:
        """Take back offsets that lie behind the end of their queue (``max_offset(topic, queue_id)``); how many.

        After a crash that cost messages groups would otherwise pass over those that get the same numbers next.
        """
        clamped = 0
        for key, queues in self._table.items():
            topic = _split(key)[0]
            for queue_id, offset in queues.items():
                if offset > (end := max_offset(topic, queue_id)):
                    queues[queue_id] = end
                    clamped += 1
        self.changes += clamped
        return clamped

    def record(self) -> ConsumerOffsetTable:
        """The table as it is persisted and as GET_ALL_CONSUMER_OFFSET answers: a snapshot."""
        return ConsumerOffsetTable(offset_table={key: dict(queues) for key, queues in self._table.items()})

    def load(self, table: ConsumerOffsetTable) -> None:
        """Replace everything by a persisted table."""
        self._table = {key: dict(queues) for key, queues in table.offset_table.items()}


def _split(key: str) -> tuple[str, str]:
    """Topic and group of a key. Neither may hold the separator, but nobody stops a client: the first one counts."""
    topic, _, group = key.partition(SEPARATOR)
    return topic, group
