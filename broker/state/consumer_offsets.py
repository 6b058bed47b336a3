"""How far each group has consumed (class ConsumerOffsetManager; ``broker-services.md`` §4).

The table is ``topic@group`` → queue id → next offset, as in the file
``config/consumerOffset.json``. Committing is unconditional: no check of topic, group or queue
(``processors/offset.py`` leaves out those that there are not), and also backwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from ...remoting.errors import RequestError
from ...remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable
from ...remoting.protocol.codes import ResponseCode
from ...remoting.slices import Steps, at_once, slices
from .frame_limit import FrameBudget
from .recent_changes import RecentChanges

log: Final = logging.getLogger(__name__)

OFFSETS_FILE: Final = "consumerOffset.json"
SEPARATOR: Final = "@"
NO_OFFSET: Final = -1
MAX_KEYS: Final = 1_000_000
MAX_QUEUES: Final = 100_000
MAX_NAME: Final = 512
"""Nothing but these, and what one frame holds (``FrameBudget``), limits what clients may commit
to."""
_USUAL_DIGITS: Final = 12
"""Offsets count as having so many digits, or the table would outgrow its frame without anything
being added to it."""
_LONG: Final = 10**_USUAL_DIGITS
_LONG_BYTES: Final = 8
KEYS_AT_ONCE: Final = 10_000
_OFFSETS_AT_ONCE: Final = 2000
_MOST_DELETED: Final = 1000


class OffsetTableFullError(RequestError):
    """A peer commits offsets for more topics, groups or queues than any cluster has."""

    def __init__(self, message: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, message)


class ConsumerOffsets:
    """``changes`` grows with every commit of another offset; who persists compares it with what it
    was at the last time."""

    def __init__(self) -> None:
        self._table: dict[str, dict[int, int]] = {}
        self._deleted: dict[str, None] = {}
        """Topics, the last ones."""
        self.changes: int = 0
        self.recent: RecentChanges = RecentChanges()
        """Of keys of the table."""
        self.frame_budget: FrameBudget = FrameBudget(
            "consumer offsets", "delete groups that are not used (with their offsets)"
        )

    def commit(
        self, group: str, topic: str, queue_id: int, offset: int, *, limited: bool = True
    ) -> None:
        """The group goes on at ``offset`` in that queue. Raises ``OffsetTableFullError``; not for
        what a master says (``limited=False``), which came in one frame, nor for what a broker says
        of itself.
        """
        queues = self._table.get(f"{topic}{SEPARATOR}{group}")
        if queues is None or queue_id not in queues:
            queues = self._new_queue(group, topic, queue_id, limited=limited)
        if (offset >= _LONG) is not (queues.get(queue_id, 0) >= _LONG):
            self._resize(f"{topic}{SEPARATOR}{group}", offset, limited=limited)
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            self.changes += 1
            self.recent.changed(f"{topic}{SEPARATOR}{group}")

    def get(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group goes on, ``NO_OFFSET`` when it never committed."""
        queues = self._table.get(f"{topic}{SEPARATOR}{group}")
        return NO_OFFSET if queues is None else queues.get(queue_id, NO_OFFSET)

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        """All queues of a topic that the group committed."""
        return self._table.get(f"{topic}{SEPARATOR}{group}", {})

    def topics_of(self, group: str) -> Steps[list[str]]:
        """Topics that the group has offsets in."""
        return self._collect(lambda topic, owner: topic if owner == group else None)

    def _collect(self, wanted: Callable[[str, str], str | None]) -> Steps[list[str]]:
        """What ``wanted(topic, group)`` makes of all pairs, some milliseconds at a time: there may
        be a million."""
        found: list[str] = []
        for keys in slices(list(self._table), KEYS_AT_ONCE):
            found += [each for key in keys if (each := wanted(*_split(key))) is not None]
            yield
        return found

    def each(self) -> Iterator[tuple[str, str, Mapping[int, int]]]:
        """Topic, group and offsets by queue, of all; a generator that may be left alone between two
        steps."""
        for key, queues in list(self._table.items()):
            topic, group = _split(key)
            yield topic, group, queues

    def topics_by_group(self) -> Steps[dict[str, list[str]]]:
        """All groups with the topics that they have offsets in."""
        found: dict[str, list[str]] = {}
        for keys in slices(list(self._table), KEYS_AT_ONCE):
            for key in keys:
                topic, group = _split(key)
                found.setdefault(group, []).append(topic)
            yield
        return found

    def groups_of(self, topic: str) -> Steps[list[str]]:
        """Groups that have offsets in the topic."""
        return self._collect(lambda name, group: group if name == topic else None)

    def remove_group(self, group: str) -> Steps[int]:
        """Forget everything about a group; how many topics that were."""
        topics = yield from self.topics_of(group)
        for some in slices(topics, KEYS_AT_ONCE):
            self.remove(f"{topic}{SEPARATOR}{group}" for topic in some)
            log.warning(
                "offsets removed group=%s topics=%d %s", group, len(some), ",".join(some[:20])
            )
            yield
        return len(topics)

    def remove_topic(self, topic: str) -> Steps[int]:
        """Forget how far groups are in a topic that is deleted: one of that name that is made later
        begins with other messages. How many groups that were."""
        self._deleted[topic] = None
        if len(self._deleted) > _MOST_DELETED:
            del self._deleted[next(iter(self._deleted))]
        groups = yield from self.groups_of(topic)
        if groups:
            self.remove(f"{topic}{SEPARATOR}{group}" for group in groups)
            log.warning(
                "offsets removed topic=%s groups=%d %s", topic, len(groups), ",".join(groups[:20])
            )
        return len(groups)

    def is_of_deleted(self, topic: str, *, is_there: bool) -> bool:
        """The topic was deleted, and has not been made again: what a consumer that does
        not know it yet says of it is of no use to one that is made later."""
        if topic not in self._deleted:
            return False
        if is_there:
            del self._deleted[topic]
            return False
        return True

    def remove(self, keys: Iterable[str]) -> None:
        """Forget keys of the table (``topic@group``), those that are there."""
        for key in keys:
            if (queues := self._table.pop(key, None)) is not None:
                self.frame_budget.take(-_bytes_of(key, queues))
                self.changes += 1
        self.recent.forget()

    def remove_queues(self, topic: str, queue_ids: Collection[int]) -> bool:
        """Forget how far groups are in queues that begin anew. Whether any had an offset."""
        wanted = frozenset(queue_ids)
        found = [key for key in keys_of(topic, self._table) if wanted & self._table[key].keys()]
        if not found:
            return False
        for key in found:
            queues = self._table[key]
            for queue_id in wanted & queues.keys():
                size = _queue_bytes(queue_id) + _LONG_BYTES * (queues.pop(queue_id) >= _LONG)
                self.frame_budget.take(-size)
                self.changes += 1
        self.remove(key for key in found if not self._table[key])
        log.warning(
            "offsets removed topic=%s queues=%d groups=%d %s",
            topic,
            len(wanted),
            len(found),
            ",".join(found[:20]),
        )
        return True

    def clone(self, source: str, target: str, topic: str) -> bool:
        """The target group goes on where the source stands in that topic; False when the source has
        no offsets there."""
        queues = self._table.get(f"{topic}{SEPARATOR}{source}")
        if queues is None:
            return False
        key = f"{topic}{SEPARATOR}{target}"
        known = self._table.get(key)
        if known is None:
            self._check_key(target, topic)
        self._take(
            _bytes_of(key, queues) - (0 if known is None else _bytes_of(key, known)),
            key,
            limited=True,
        )
        self._table[key] = dict(queues)
        self.changes += 1
        self.recent.changed(key)
        return True

    def least(
        self, topic: str, min_offset: Callable[[int], int], without: Collection[str] = ()
    ) -> Steps[dict[int, int]]:
        """Of every queue the offset of the group that stands furthest back, some groups left out.

        An offset below ``min_offset(queue_id)``, of messages that are gone, does not count.
        """
        least: dict[int, int] = {}
        groups = yield from self.groups_of(topic)
        for group in groups:
            if group in without:
                continue
            for some in slices(list(self.queues(group, topic).items()), _OFFSETS_AT_ONCE):
                for queue_id, offset in some:
                    if offset >= min_offset(queue_id):
                        least[queue_id] = min(least.get(queue_id, offset), offset)
                yield
        return least

    def _new_queue(self, group: str, topic: str, queue_id: int, *, limited: bool) -> dict[int, int]:
        """The offsets of a topic and group with space for one more queue; ``limited``: as those of
        clients are."""
        key = f"{topic}{SEPARATOR}{group}"
        queues = self._table.get(key)
        if queues is None and limited:
            self._check_key(group, topic)
        elif queues is not None and limited and len(queues) >= MAX_QUEUES:
            raise OffsetTableFullError(
                f"{group} has offsets in {MAX_QUEUES} queues of {topic}, queue {queue_id} is "
                "refused"
            )
        self._take(
            _queue_bytes(queue_id) + (_key_bytes(key) if queues is None else 0),
            key,
            limited=limited,
        )
        if queues is None:
            queues = self._table[key] = {}
        return queues

    def _check_key(self, group: str, topic: str) -> None:
        if max(len(group), len(topic)) > MAX_NAME:
            raise OffsetTableFullError(
                f"a group or topic of more than {MAX_NAME} characters has no offsets: "
                f"{group[:40]}..."
            )
        if len(self._table) >= MAX_KEYS:
            raise OffsetTableFullError(
                f"the broker holds the offsets of {MAX_KEYS} topics and groups, "
                f"{topic}{SEPARATOR}{group} is refused"
            )

    def _resize(self, key: str, offset: int, *, limited: bool) -> None:
        """An offset of ``key`` becomes a long one, or is none any more."""
        if offset >= _LONG:
            self._take(_LONG_BYTES, key, limited=limited)
        else:
            self.frame_budget.take(-_LONG_BYTES)

    def _take(self, size: int, key: str, *, limited: bool) -> None:
        if limited and not self.frame_budget.has(size):
            raise OffsetTableFullError(self.frame_budget.refusal(f"an offset of {key}"))
        self.frame_budget.take(size)
        self.frame_budget.tell()

    def clamp(self, max_offset: Callable[[str, int], int]) -> int:
        """Take back offsets that lie behind the end of their queue (``max_offset(topic,
        queue_id)``); how many.

        After a crash that cost messages groups would otherwise pass over those that get the same
        numbers next.
        """
        return at_once(self.clamp_in_slices(max_offset))

    def clamp_in_slices(self, max_offset: Callable[[str, int], int]) -> Steps[int]:
        """The same, in slices."""
        clamped = 0
        for keys in slices(list(self._table), KEYS_AT_ONCE):
            clamped += sum(self._clamp(key, max_offset) for key in keys)
            yield
        self.changes += clamped
        self.recent.forget()
        return clamped

    def _clamp(self, key: str, max_offset: Callable[[str, int], int]) -> int:
        clamped, topic = 0, _split(key)[0]
        queues = self._table.get(key, {})
        for queue_id, offset in queues.items():
            if offset > (end := max_offset(topic, queue_id)):
                if offset >= _LONG > end:
                    self._resize(key, end, limited=False)
                queues[queue_id] = end
                clamped += 1
        return clamped

    def record(self) -> ConsumerOffsetTable:
        """The table as it is persisted: a snapshot."""
        return at_once(self.record_in_slices())

    def record_in_slices(self, wanted: Iterable[str] | None = None) -> Steps[ConsumerOffsetTable]:
        """The same as GET_ALL_CONSUMER_OFFSET answers it; of what changes meanwhile some is in it
        and some is not. ``wanted``: nothing but these keys."""
        table: dict[str, dict[int, int]] = {}
        for keys in slices(list(self._table if wanted is None else wanted), KEYS_AT_ONCE):
            table.update(
                (key, dict(queues)) for key in keys if (queues := self._table.get(key)) is not None
            )
            yield
        return ConsumerOffsetTable(offset_table=table)

    def load(self, table: ConsumerOffsetTable) -> None:
        """Replace everything by a persisted table."""
        self._table = {key: dict(queues) for key, queues in table.offset_table.items()}
        self.recent.forget()
        self.frame_budget.take(
            sum(_bytes_of(key, queues) for key, queues in self._table.items())
            - self.frame_budget.taken_bytes
        )
        self.frame_budget.tell()


def keys_of(topic: str, keys: Iterable[str]) -> list[str]:
    """Those of the topic, of any group."""
    prefix = f"{topic}{SEPARATOR}"
    return [key for key in keys if key.startswith(prefix)]


def _split(key: str) -> tuple[str, str]:
    """Topic and group of a key. Neither may hold the separator, but nobody stops a client: the
    first one counts."""
    topic, _, group = key.partition(SEPARATOR)
    return topic, group


def _bytes_of(key: str, queues: Mapping[int, int]) -> int:
    """What a key and its queues take in the JSON of the table, offsets of the usual size or
    longer."""
    return _key_bytes(key) + sum(
        _queue_bytes(queue_id) + _LONG_BYTES * (o >= _LONG) for queue_id, o in queues.items()
    )


def _key_bytes(key: str) -> int:
    """``"topic@group":{},``"""
    return len(key.encode("utf-8", "replace")) + 6


def _queue_bytes(queue_id: int) -> int:
    """``7:123456789012,``"""
    return len(str(queue_id)) + _USUAL_DIGITS + 2
