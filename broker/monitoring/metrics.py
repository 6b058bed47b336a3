"""What a broker tells Prometheus: read from the counters that are there anyway, when somebody asks.

Names and labels are those of 5.x brokers where they have the same. Metrics come in pieces of a few
dozen samples, so that a broker with many topics and groups can serve others in between;
``prometheus.py`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Final, Protocol

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from ...remoting.protocol.message.topic_names import TopicName, is_dlq_topic
from ...store.message_store import MessageStore
from ..config.config import BrokerConfig
from ..sends.fast_failure import FastFailure
from ..state.state import State
from ..stats.broker_stats import PUT_TIME_BOUNDS_MS, BrokerStats, PullCounter, StatsSampler

PIECE: Final = 32
"""Samples that are made and written in one go, well below a millisecond."""
_OWN: Final = ("cluster", "node_id")
_TOPIC: Final = (*_OWN, "topic")
_GROUP: Final = (*_OWN, "topic", "consumer_group")

Row = tuple[tuple[str, ...], float]
"""Label values behind those of the broker, and the value."""
_ROLES: Final = {"LEADER": 2, "FOLLOWER": 1, "CANDIDATE": 0}


class GroupMember(Protocol):
    """This broker as a member of a group that elects its master (``RaftNode``)."""

    @property
    def role(self) -> Enum:
        """Leader, follower or candidate, by name."""

    @property
    def term(self) -> int: ...
    @property
    def committed_index(self) -> int: ...
    @property
    def elections(self) -> int:
        """How often it stood."""

    @property
    def waiting(self) -> int:
        """Messages that are not committed yet, and whose senders wait."""

    def lags(self) -> Mapping[str, int]:
        """Of a leader: entries that each other member is behind."""


Kind = type[CounterMetricFamily] | type[GaugeMetricFamily]


class BrokerMetrics:
    """``pieces()`` is everything; two pieces of one metric come one after the other."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        state: State,
        stats: BrokerStats,
        sampler: StatsSampler,
        load: FastFailure,
        held_pulls: Callable[[], int],
        slave_lags: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """``slave_lags``: bytes that each slave (by its address) is behind."""
        self._own = (config.broker_cluster_name, config.broker_name)
        self._config = config
        self._store = store
        self._topics = state.topics
        self._offsets = state.offsets
        self._producers = state.producers
        self._consumers = state.consumers
        self._stats = stats
        self._sampler = sampler
        self._load = load
        self._held_pulls = held_pulls
        self._slave_lags = slave_lags
        self.member: GroupMember | None = None
        """None: the broker belongs to no group."""

    def disk_ratios(self) -> dict[str, float]:
        """Asks the operating system: blocks."""
        return self._store.disk_ratios()

    def pieces(self, disk_ratios: Mapping[str, float]) -> Iterator[Metric]:
        """``disk_ratios`` are those of ``disk_ratios``."""
        yield from self._of_the_broker()
        yield from self._of_the_store(disk_ratios)
        if self.member is not None:
            yield from self._of_the_member(self.member)
        yield from self._of_topics()
        yield from self._of_groups()

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"rocketmq_{name}", text, labels=_OWN)
        family.add_metric(self._own, value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"rocketmq_{name}", text, labels=_OWN)
        family.add_metric(self._own, value)
        return family

    def _table(
        self, kind: Kind, name: str, text: str, labels: tuple[str, ...], rows: Iterable[Row]
    ) -> Iterator[Metric]:
        found = iter(rows)
        while piece := list(islice(found, PIECE)):
            family = kind(f"rocketmq_{name}", text, labels=labels)
            for values, value in piece:
                family.add_metric((*self._own, *values), value)
            yield family

    # -- the broker itself

    def _of_the_broker(self) -> Iterator[Metric]:
        stats, load = self._stats, self._load
        yield self._gauge(
            "broker_permission", "4 readable, 2 writeable", self._config.broker_permission
        )
        yield self._gauge(
            "producer_groups", "Producer groups that are online", len(self._producers)
        )
        yield self._gauge(
            "consumer_groups", "Consumer groups that are online", len(self._consumers)
        )
        yield self._gauge("held_pulls", "Pulls that wait for messages", self._held_pulls())
        yield self._counter("put_messages", "Messages stored", stats.all_messages)
        yield self._counter("put_bytes", "Bytes written into the commit log", stats.all_bytes)
        yield self._counter("put_failures", "Messages that could not be stored", stats.put_failed)
        yield self._counter(
            "dead_letters", "Messages that a limit keeps from their topic", stats.dead_letters
        )
        yield self._counter(
            "skipped_messages", "Those that could not be stored at all", stats.skipped_messages
        )
        yield self._counter("got_messages", "Messages handed out", stats.get_messages)
        yield self._counter("got_bytes", "Bytes handed out", stats.get_bytes)
        yield self._counter("pulls_found", "Pulls that found messages", stats.get_found)
        yield self._counter(
            "pulls_missed", "Pulls that found nothing, each time they looked", stats.get_miss
        )
        yield self._gauge(
            "send_waiting", "Sends that are stored and wait for the disk", load.waiting
        )
        yield self._gauge(
            "send_oldest_wait_seconds",
            "How long the oldest of them has waited",
            load.oldest_wait_ms / 1000,
        )
        yield self._gauge(
            "event_loop_lag_seconds", "How late the event loop is", load.lag_ms / 1000
        )
        yield self._send_waits()

    def _send_waits(self) -> Metric:
        family = HistogramMetricFamily(
            "rocketmq_send_wait_seconds",
            "How long senders waited for the disk, brought up to date every 10 s",
            labels=_OWN,
        )
        times = self._sampler.put_times
        counts = times.buckets if times is not None else [0] * (len(PUT_TIME_BOUNDS_MS) + 1)
        limits = ["0.001", *(str(bound / 1000) for bound in PUT_TIME_BOUNDS_MS[1:]), "+Inf"]
        total, buckets = 0, []
        for limit, count in zip(limits, counts, strict=True):
            total += count
            buckets.append((limit, float(total)))
        family.add_metric(self._own, buckets, 0.0 if times is None else times.total_ms / 1000)
        return family

    # -- the store and its copies

    def _of_the_store(self, disk_ratios: Mapping[str, float]) -> Iterator[Metric]:
        store = self._store
        end = store.max_phy_offset
        yield self._gauge(
            "storage_size_bytes",
            "Commit log, from its first to its last byte",
            end - store.min_phy_offset,
        )
        yield self._gauge(
            "storage_flush_behind_bytes",
            "Written, not on the disk yet",
            max(0, end - store.flushed_offset),
        )
        yield self._counter(
            "damaged_records",
            "Records of the commit log that were found damaged",
            store.damage.found,
        )
        yield self._counter(
            "mended_records", "Damaged records that were mended since", store.damage.mended
        )
        yield self._gauge("storage_writeable", "1 while messages are taken", int(store.writeable))
        rows = (((disk,), ratio) for disk, ratio in disk_ratios.items())
        text = "How full the disks are, 0 to 1"
        yield from self._table(GaugeMetricFamily, "storage_disk_ratio", text, (*_OWN, "disk"), rows)
        lags = self._slave_lags()
        yield self._gauge("replication_slaves", "Slaves that are connected", len(lags))
        yield from self._table(
            GaugeMetricFamily,
            "replication_lag_bytes",
            "How far a slave is behind",
            (*_OWN, "slave"),
            (((slave,), float(lag)) for slave, lag in lags.items()),
        )

    def _of_the_member(self, member: GroupMember) -> Iterator[Metric]:
        role = _ROLES.get(member.role.name, 0)
        yield self._gauge("raft_role", "2 leader, 1 follower, 0 candidate", role)
        yield self._gauge("raft_term", "Term of this member", member.term)
        yield self._gauge(
            "raft_committed_index", "Last entry that a majority has", member.committed_index
        )
        yield self._counter("raft_elections", "How often this member stood", member.elections)
        yield self._gauge(
            "raft_waiting", "Messages that are stored and wait for a majority", member.waiting
        )
        yield from self._table(
            GaugeMetricFamily,
            "raft_lag_entries",
            "How far another member is behind this leader",
            (*_OWN, "member"),
            (((peer,), float(lag)) for peer, lag in member.lags().items()),
        )

    # -- topics and groups

    def _of_topics(self) -> Iterator[Metric]:
        topics = [topic for topic in self._topics if topic.put_nums]
        kind = CounterMetricFamily
        rows: Iterable[Row] = (((topic.name,), topic.put_nums) for topic in topics)
        yield from self._table(kind, "messages_in", "Messages stored", _TOPIC, rows)
        rows = (((topic.name,), topic.put_size_bytes) for topic in topics)
        yield from self._table(kind, "throughput_in", "Bytes stored", _TOPIC, rows)
        dead = [topic for topic in topics if is_dlq_topic(topic.name)]
        rows = (
            ((topic.name.removeprefix(TopicName.DLQ_PREFIX),), topic.put_nums) for topic in dead
        )
        text = "Messages that a group could not consume"
        yield from self._table(kind, "send_to_dlq_messages", text, (*_OWN, "consumer_group"), rows)

    def _of_groups(self) -> Iterator[Metric]:
        kind = CounterMetricFamily
        yield from self._table(
            kind, "messages_out", "Messages handed out", _GROUP, self._pulled(lambda c: c.messages)
        )
        yield from self._table(
            kind, "throughput_out", "Bytes handed out", _GROUP, self._pulled(lambda c: c.size_bytes)
        )
        yield from self._table(
            kind, "pulls", "Pulls that found something", _GROUP, self._pulled(lambda c: c.pulls)
        )
        text = "How long these pulls took, as far as they did not wait for messages"
        yield from self._table(
            kind, "pull_seconds", text, _GROUP, self._pulled(lambda c: c.latency_ms / 1000)
        )
        rows: Iterable[Row] = (
            (pair, count) for pair, count in list(self._stats.send_backs.items())
        )
        yield from self._table(
            kind, "send_back_messages", "Messages that a group gave back", _GROUP, rows
        )
        rows = (((group.name,), len(group.channels)) for group in list(self._consumers))
        text = "Consumers that are online"
        yield from self._table(
            GaugeMetricFamily, "consumer_connections", text, (*_OWN, "consumer_group"), rows
        )
        text = "Messages that a group has not consumed"
        yield from self._table(
            GaugeMetricFamily, "consumer_lag_messages", text, _GROUP, self._lags()
        )

    def _pulled(self, what: Callable[[PullCounter], float]) -> Iterator[Row]:
        for pair in list(self._stats.pulls):
            yield pair, sum(map(what, self._stats.pulls_of(*pair)))

    def _lags(self) -> Iterator[Row]:
        for topic, group, queues in self._offsets.each():
            if topic in self._topics:
                end = self._store.max_offset
                yield (
                    (topic, group),
                    sum(
                        max(0, end(topic, queue) - offset) for queue, offset in list(queues.items())
                    ),
                )
