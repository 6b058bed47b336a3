"""What groups want of topics by SQL92, for as long as they are remembered (classes
ConsumerFilterManager, ConsumerFilterData; ``broker-services.md`` §7.4).

Heartbeats bring the expressions. A filter is *dead* from when its group has left the topic, and
forgotten ``filterDataCleanTimeSpan`` later: a group that comes back within that time still finds
the bits of its bloom filter in what was stored meanwhile. Persisted in
``config/consumerFilter.json``.

Pure: time is an argument.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import msgspec

from ...remoting.outages import Outages
from ...remoting.protocol.bodies.consumer_filter import (
    BloomFilterData,
    ConsumerFilterData,
    ConsumerFilterTable,
    TopicFilterData,
)
from ...remoting.protocol.message.properties import PropertyName, find_property
from ...remoting.protocol.sql92.lexer import FilterError
from ...remoting.slices import Steps
from ...store.queues.consume_queue_ext import ExtUnit
from ..filter.bloom import BloomFilter, is_hit, mask_of
from ..filter.records import record_properties
from ..filter.sql92 import SqlFilter, sql_filter
from .clients import Subscription

log: Final = logging.getLogger(__name__)

_FULL: Final = ("too many",)

SQL92: Final = "SQL92"
MAX_EXPRESSION_CHARS: Final = 1 << 20
"""Of all filters together: clients bring them, and a compiled one takes about 60 bytes per
character."""
MAX_REFUSED: Final = 1000
_CHARS_AT_ONCE: Final = 2048
"""Of expressions that are compiled in one slice, which takes about ten milliseconds."""
_LOADED_AGE_MS: Final = 30_000
_RETRY_SCAN_LIMIT: Final = 100
"""Of a group without filters: each message is looked at for the topic it comes from."""
_RETRY_TOPIC: Final = PropertyName.RETRY_TOPIC.encode()


def compile_expression(expression: str | None, expression_type: str | None) -> SqlFilter:
    """The filter of an expression that is no tag expression. Raises ``FilterError``."""
    if expression_type != SQL92:
        raise FilterError(1, f"there is no expression type {expression_type}, use TAG or SQL92")
    return sql_filter(expression or "")


class ConsumerFilter(msgspec.Struct, eq=False):
    """The filter of one group for one topic, a ``RecordFilter``. Times are ms; ``dead_time_ms`` is
    0 for one that lives."""

    group: str
    topic: str
    filter: SqlFilter
    version: int
    born_time_ms: int
    bloom: BloomFilter
    positions: tuple[int, ...]
    bit_mask: int
    dead_time_ms: int = 0

    @property
    def is_dead(self) -> bool:
        return self.dead_time_ms >= self.born_time_ms

    @property
    def scan_limit(self) -> int:
        return self.filter.scan_limit

    @property
    def size_bytes(self) -> int:
        return self.filter.size_bytes

    def accepts(self, data: Any, start: int, stop: int) -> bool:
        return self.filter.matches(record_properties(data, start, stop))

    def accepts_ext(self, unit: ExtUnit) -> bool:
        """By the bits, when the message was stored with some after this filter was born."""
        bitmap = unit.bitmap
        if len(bitmap) != self.bloom.size_bytes or unit.store_timestamp <= self.born_time_ms:
            return True
        return is_hit(self.bit_mask, bitmap)

    def record(self) -> ConsumerFilterData:
        """As the file has it."""
        return ConsumerFilterData(
            consumer_group=self.group,
            topic=self.topic,
            expression=self.filter.text,
            expression_type=SQL92,
            bloom_filter_data=BloomFilterData(bit_num=self.bloom.bit_count, bit_pos=self.positions),
            born_time=self.born_time_ms,
            client_version=self.version,
            dead=self.is_dead,
            dead_time=self.dead_time_ms,
        )


class RetryFilter:
    """For the retry topic of a group, with ``filterSupportRetry``: a message is wanted when the
    group still wants it of the topic that it comes from. A ``RecordFilter``.
    """

    __slots__ = ("_filters", "_group", "scan_limit")
    size_bytes = 0
    accepts_ext = None

    def __init__(self, filters: ConsumerFilters, group: str) -> None:
        self._filters = filters
        self._group = group
        self.scan_limit: int = filters.scan_limit(group)

    def accepts(self, data: Any, start: int, stop: int) -> bool:
        properties = record_properties(data, start, stop)
        topic = find_property(properties, _RETRY_TOPIC)
        found = (
            None
            if topic is None
            else self._filters.get(topic.decode("utf-8", "replace"), self._group)
        )
        return found is None or found.filter.matches(properties)


class ConsumerFilters:
    """The filters by topic and group."""

    def __init__(self, bloom: BloomFilter, outages: Outages) -> None:
        self.bloom: Final = bloom
        self._outages: Final = outages
        self.changes: int = 0
        """Grows whenever the table is not what was persisted."""
        self._topics: dict[str, dict[str, ConsumerFilter]] = {}
        self._by_group: dict[str, dict[str, ConsumerFilter]] = {}
        self._chars = 0
        self._newest_ms = 0
        """The greatest time at which a message was stored, as far as was heard."""
        self._refused: dict[tuple[str, str], tuple[str, str]] = {}
        """By group and topic the expressions that do not compile: each was told once."""

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        """What the group wants of the topic; ``None`` when it brought no expression that can be
        used."""
        groups = self._topics.get(topic)
        return None if groups is None else groups.get(group)

    def scan_limit(self, group: str) -> int:
        """Of the group's filter that is the most work."""
        return min(
            (each.scan_limit for each in self._by_group.get(group, {}).values()),
            default=_RETRY_SCAN_LIMIT,
        )

    def of_topic(self, topic: str) -> list[ConsumerFilter]:
        """The filters of all groups, the dead ones included."""
        return list(self._topics.get(topic, {}).values())

    # -- heartbeats
    # ----------------------------------------------------------------------------------------------

    def register(
        self, group: str, subscriptions: Iterable[Subscription], time_ms: Callable[[], int]
    ) -> Steps[None]:
        """A heartbeat of the group: this is what it subscribes now. What does not compile is
        logged, and the group gets nothing for that topic. Others may have their turn between long
        expressions. ``time_ms``: the clock, because a filter is born when it is known here:
        messages that were stored after its heartbeat came, and before that, have no bits of it.
        """
        topics = set()
        chars = 0
        for wanted in list(subscriptions):
            topics.add(wanted.topic)
            if not wanted.is_tag and wanted.data.sub_string:
                chars += len(wanted.data.sub_string)
                if chars > _CHARS_AT_ONCE:
                    chars = 0
                    yield
                self._register(group, wanted, time_ms())
        self._kill(group, time_ms(), topics)

    def unregister(self, group: str, now_ms: int) -> None:
        """The group has no members any more."""
        self._kill(group, now_ms, frozenset())

    def _register(self, group: str, wanted: Subscription, now_ms: int) -> None:
        """A filter gives way to another expression, and to the same one of a higher version; which
        of several the group wants is known already (``clients.py``). A dead one comes back to life
        with its own expression.
        """
        old = self.get(wanted.topic, group)
        is_same = old is not None and wanted.data.sub_string == old.filter.text
        if old is not None and is_same and wanted.sub_version <= old.version:
            if old.is_dead:
                old.dead_time_ms = 0
                self.changes += 1
                log.info("filter alive again group=%s topic=%s", group, wanted.topic)
            return
        if old is not None:
            self._remove(old)
        brought = (wanted.expression_type or "", wanted.data.sub_string or "")
        if self._refused.get((group, wanted.topic)) == brought:
            return  # every heartbeat brings it again
        try:
            compiled = compile_expression(wanted.data.sub_string, wanted.expression_type)
        except FilterError as error:
            self._outages.occurs(  # members of a group may bring several, in turn
                log,
                ("refused", group, wanted.topic, *brought),
                "expression refused, the group gets nothing group=%s topic=%s expression=%.200r "
                "error=%s",
                group, wanted.topic, wanted.data.sub_string, error,
            )  # fmt: skip
            if len(self._refused) >= MAX_REFUSED:
                self._refused.clear()
            self._refused[group, wanted.topic] = brought
            return
        self._refused.pop((group, wanted.topic), None)
        if self._chars + len(compiled.text) > MAX_EXPRESSION_CHARS:
            self._outages.fails(
                log,
                _FULL,
                "too many filters, groups get nothing group=%s topic=%s",
                group,
                wanted.topic,
            )
            return
        self._outages.works(_FULL)
        # what is stored already has no bits of it, by whatever clock (it was put back, a master's)
        born_ms = max(now_ms, self._newest_ms)
        self._add(self._make(group, wanted.topic, compiled, wanted.sub_version, born_ms))
        log.info(
            "filter group=%s topic=%s version=%d expression=%s",
            group,
            wanted.topic,
            wanted.sub_version,
            compiled.text,
        )

    def _kill(self, group: str, now_ms: int, subscribed: Collection[str]) -> None:
        for topic, found in self._by_group.get(group, {}).items():
            if not found.is_dead and topic not in subscribed:
                found.dead_time_ms = max(now_ms, found.born_time_ms)
                self.changes += 1
                log.info("filter dead group=%s topic=%s", group, topic)

    def _make(
        self, group: str, topic: str, compiled: SqlFilter, version: int, now_ms: int
    ) -> ConsumerFilter:
        positions = self.bloom.positions(group, topic)
        return ConsumerFilter(
            group, topic, compiled, version, now_ms, self.bloom, positions, mask_of(positions)
        )

    def _add(self, new: ConsumerFilter) -> None:
        self._topics.setdefault(new.topic, {})[new.group] = new
        self._by_group.setdefault(new.group, {})[new.topic] = new
        self._chars += len(new.filter.text)
        self.changes += 1

    def _remove(self, old: ConsumerFilter) -> None:
        for table, outer, inner in (
            (self._topics, old.topic, old.group),
            (self._by_group, old.group, old.topic),
        ):
            del table[outer][inner]
            if not table[outer]:
                del table[outer]
        self._chars -= len(old.filter.text)
        self.changes += 1

    # -- messages
    # ----------------------------------------------------------------------------------------------

    def stored_before(self, stored_ms: int) -> None:
        """The time of the last message that the store had when it was opened: it may be one of a
        clock that was ahead."""
        self._newest_ms = max(self._newest_ms, stored_ms)

    def bit_map(
        self, topic: str, properties: bytes, _tags_code: int = 0, stored_ms: int = 0
    ) -> bytes | None:
        """The bloom filter of a message that is stored (``BitmapOf`` of the store): the bits of the
        groups that want it.

        ``None`` when no group filters the topic. Dead filters count too: their groups may come
        back.
        """
        if stored_ms > self._newest_ms:
            self._newest_ms = stored_ms
        groups = self._topics.get(topic)
        if not groups:
            return None
        bits = 0
        for each in groups.values():
            if each.filter.matches(properties):
                bits |= each.bit_mask
        return bits.to_bytes(self.bloom.size_bytes, "little")

    # -- persistence
    # ---------------------------------------------------------------------------------------------

    def clean(self, now_ms: int, keep_ms: int) -> None:
        """Forget what has been dead for ``keep_ms``."""
        for topic in list(self._topics):
            for each in self.of_topic(topic):
                if each.is_dead and now_ms - each.dead_time_ms >= keep_ms:
                    log.info("filter forgotten group=%s topic=%s", each.group, topic)
                    self._remove(each)

    def record(self) -> ConsumerFilterTable:
        """The table as it is now."""
        return ConsumerFilterTable(
            filter_data_by_topic={
                topic: TopicFilterData(
                    topic=topic,
                    group_filter_data={group: each.record() for group, each in groups.items()},
                )
                for topic, groups in self._topics.items()
            }
        )

    def load(self, table: ConsumerFilterTable, now_ms: int) -> None:
        """Take over what was persisted; everybody in it is dead until heartbeats say otherwise.

        With other parameters of the bloom filter all of it is dropped: bits that were stored mean
        other groups now.
        """
        stored = [
            each
            for topic in table.filter_data_by_topic.values()
            for each in topic.group_filter_data.values()
        ]
        loaded = []
        for data in stored:
            try:
                compiled = compile_expression(data.expression, data.expression_type)
            except FilterError as error:
                log.warning(
                    "stored expression dropped group=%s topic=%s error=%s",
                    data.consumer_group,
                    data.topic,
                    error,
                )
                continue
            new = self._make(
                data.consumer_group, data.topic, compiled, data.client_version, data.born_time
            )
            bloom = data.bloom_filter_data
            if (
                bloom is None
                or bloom.bit_num != self.bloom.bit_count
                or tuple(bloom.bit_pos) != new.positions
            ):
                log.info(
                    "stored filters dropped, the bloom filter has other parameters now filters=%d",
                    len(stored),
                )
                self.changes += 1
                return
            new.dead_time_ms = (
                max(now_ms - _LOADED_AGE_MS, new.born_time_ms)
                if data.dead_time == 0
                else data.dead_time
            )
            loaded.append(new)
        for new in loaded:
            self._add(new)
