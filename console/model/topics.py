"""Topics: the list, and one with its queues on a time axis."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from ...remoting.protocol.bodies.connection import ProducerTable
from ...remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from ...remoting.protocol.bodies.stats import TopicStatsTable
from ...remoting.protocol.bodies.topic_config import TopicConfig
from ...remoting.protocol.codes import version_name
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import TopicName, is_system_topic, reply_topic
from .paging import Page, page_of

PERMISSIONS: Final = {6: "read and write", 4: "read only", 2: "write only", 0: "neither"}
_READ_OR_WRITE: Final = 6


def own_topics(table: Mapping[str, BrokerData]) -> frozenset[str]:
    """Those that brokers make by themselves, named after them and their cluster. ``table``: brokers
    by name."""
    clusters = {each.cluster for each in table.values() if each.cluster}
    return frozenset({*table, *clusters, *(reply_topic(each) for each in clusters)})


def kind_of(topic: str, own: Container[str] = ()) -> str:
    """``retry``, ``dead letters``, ``system``, as those of ``own_topics`` are, or ``""``, for those
    of users."""
    if topic.startswith(TopicName.RETRY_PREFIX):
        return "retry"
    if topic.startswith(TopicName.DLQ_PREFIX):
        return "dead letters"
    return "system" if is_system_topic(topic) or topic in own else ""


def permission(perm: int) -> str:
    return PERMISSIONS[perm & _READ_OR_WRITE]


@lru_cache(maxsize=64)
def search(
    topics: tuple[str, ...],
    text: str,
    kind: str,
    page: int,
    size: int,
    own: frozenset[str] = frozenset(),
) -> Page[str]:
    """Those whose name has ``text``, in any case and in the order in which they come. ``kind`` and
    ``own``: as ``kind_of`` has them; ``all`` is everything. Remembered: pages look again and again
    among thousands of names that are what they were."""
    wanted = text.strip().lower()
    found = [
        name
        for name in topics
        if (not wanted or wanted in name.lower()) and kind in ("all", kind_of(name, own))
    ]
    return page_of(found, page, size)


class QueueRow(NamedTuple):
    """A queue; times in ms, ``None`` where nothing is in it."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    first_ms: int | None
    last_ms: int | None

    @property
    def stored(self) -> int:
        return self.max_offset - self.min_offset


def queue_rows(
    stats: TopicStatsTable, earliest: Mapping[MessageQueue, int | None]
) -> list[QueueRow]:
    """By broker and queue."""
    return [
        QueueRow(
            queue,
            offsets.min_offset,
            offsets.max_offset,
            None if (first := earliest.get(queue)) is None or first <= 0 else first,
            offsets.last_update_timestamp if offsets.last_update_timestamp > 0 else None,
        )
        for queue, offsets in sorted(stats.offset_table.items())
    ]


class Bar(NamedTuple):
    """A queue on the time axis, in thousandths of its width."""

    queue: MessageQueue
    begin: int
    width: int


class Axis(NamedTuple):
    """From the first message of all queues to the last one, ms."""

    begin_ms: int
    end_ms: int
    bars: Sequence[Bar]


def time_axis(rows: Sequence[QueueRow]) -> Axis | None:
    """``None`` while no queue has a message."""
    timed = [
        (row.queue, row.first_ms, row.last_ms)
        for row in rows
        if row.first_ms is not None and row.last_ms is not None and row.stored > 0
    ]
    if not timed:
        return None
    begin = min(first for _, first, _ in timed)
    end = max(max(first, last) for _, first, last in timed)
    whole = max(1, end - begin)
    return Axis(
        begin,
        end,
        [
            Bar(
                queue,
                (first - begin) * 1000 // whole,
                max(4, max(0, last - first) * 1000 // whole),
            )
            for queue, first, last in timed
        ],
    )


class RouteRow(NamedTuple):
    """A topic on one broker."""

    broker_name: str
    cluster: str
    addresses: Sequence[tuple[int, str]]
    """Broker id and address."""
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int = 0

    @property
    def master(self) -> str | None:
        return dict(self.addresses).get(0)


def route_rows(route: TopicRouteData) -> list[RouteRow]:
    queues = {data.broker_name: data for data in route.queue_datas}
    none = QueueData(broker_name="")
    return [
        RouteRow(
            broker.broker_name,
            broker.cluster or "",
            sorted(broker.broker_addrs.items()),
            (data := queues.get(broker.broker_name, none)).read_queue_nums,
            data.write_queue_nums,
            data.perm,
            data.topic_sys_flag,
        )
        for broker in sorted(route.broker_datas, key=lambda each: each.broker_name)
    ]


class Change(NamedTuple):
    """What would be sent to one broker: the topic as it is there, and as it would be."""

    address: str
    broker_name: str
    before: TopicConfig
    after: TopicConfig

    @property
    def differs(self) -> bool:
        return self.before != self.after


def changes_of(
    topic: str,
    rows: Iterable[RouteRow],
    configs: Mapping[str, TopicConfig] = MappingProxyType({}),
    *,
    read_queues: int,
    write_queues: int,
    perm: int | None,
) -> list[Change]:
    """For each master of the topic. ``configs``: the topic as masters told it themselves, with what
    no route tells (its order, say), by address. ``perm``: ``None`` leaves it as it is, which is
    not the same at each where the write permission of a broker was wiped. Raises ``ValueError`` for
    numbers that cannot be.
    """
    for what, value in (("read", read_queues), ("write", write_queues)):
        if not 1 <= value <= 1024:
            raise ValueError(f"the number of {what} queues is 1 to 1024, not {value}")
    if perm is not None and perm not in PERMISSIONS:
        raise ValueError(f"{perm} is no permission: 6, 4, 2 or 0")
    found = []
    for row in rows:
        if row.master is None:
            continue
        before = configs.get(row.master) or TopicConfig(
            topic_name=topic,
            read_queue_nums=row.read_queues,
            write_queue_nums=row.write_queues,
            perm=row.perm,
            topic_sys_flag=row.sys_flag,
        )
        after = msgspec.structs.replace(
            before,
            read_queue_nums=read_queues,
            write_queue_nums=write_queues,
            perm=before.perm if perm is None else perm | before.perm & ~_READ_OR_WRITE,
        )
        found.append(Change(row.master, row.broker_name, before, after))
    return found


class ProducerRow(NamedTuple):
    """A client of a producer group. ``address``: without the port, which is another one at each
    broker."""

    group: str
    client_id: str
    address: str
    language: str
    version: str


def producer_rows(tables: Iterable[ProducerTable]) -> list[ProducerRow]:
    """Each once, however many brokers it is connected to."""
    return sorted(
        {
            ProducerRow(
                group,
                each.client_id or "",
                (each.remote_ip or "").removeprefix("/").rpartition(":")[0],
                each.language.name if each.language is not None else "",
                version_name(each.version),
            )
            for table in tables
            for group, members in table.data.items()
            for each in members
        }
    )
