"""What a broker tells Prometheus: read from the counters that are there anyway, when somebody asks.

What there is stands in ``families.py``; names and labels are those of 5.x brokers where they have
the same. Metrics come in pieces of a few dozen samples, so that a broker with many topics and
groups can serve others in between; ``prometheus.py`` does.
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
from ..replication.told_progress import is_progress
from ..sends.fast_failure import FastFailure
from ..state.state import State
from ..stats.broker_stats import PUT_TIME_BOUNDS_MS, BrokerStats, PullCounter, StatsSampler
from .families import FAMILIES, OWN, PREFIX, Family, Kind

PIECE: Final = 32
"""Samples that are made and written in one go, well below a millisecond."""

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
    def has_other_old_log(self) -> bool:
        """What it had before the group is not what its leader had."""

    @property
    def waiting(self) -> int:
        """Messages that are not committed yet, and whose senders wait."""

    def lags(self) -> Mapping[str, int]:
        """Of a leader: entries that each other member is behind."""


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
        self.slaves_wanted: int = 0
        """``inSyncReplicas`` of a SYNC_MASTER."""

    def disk_ratios(self) -> dict[str, float]:
        """Asks the operating system: blocks."""
        return self._store.disk_ratios()

    def pieces(self, disk_ratios: Mapping[str, float], time_ms: int) -> Iterator[Metric]:
        """``disk_ratios`` are those of ``disk_ratios``, ``time_ms`` is now."""
        yield self._one("time_seconds", time_ms / 1000)
        yield from self._of_the_broker()
        yield from self._of_the_store(disk_ratios)
        if self.member is not None:
            yield from self._of_the_member(self.member)
        yield from self._of_topics()
        yield from self._of_groups()

    def _one(self, name: str, value: float) -> Metric:
        """A metric that has no labels but those of the broker."""
        return self._piece(FAMILIES[name], [((), value)])

    def _table(self, name: str, rows: Iterable[Row]) -> Iterator[Metric]:
        found = iter(rows)
        while piece := list(islice(found, PIECE)):
            yield self._piece(FAMILIES[name], piece)

    def _piece(self, family: Family, rows: Iterable[Row]) -> Metric:
        kind = CounterMetricFamily if family.kind is Kind.COUNTER else GaugeMetricFamily
        metric = kind(PREFIX + family.name, family.text, labels=(*OWN, *family.labels))
        for values, value in rows:
            metric.add_metric((*self._own, *values), value)
        return metric

    # -- the broker itself

    def _of_the_broker(self) -> Iterator[Metric]:
        stats, load = self._stats, self._load
        yield self._one("broker_permission", self._config.broker_permission)
        yield self._one("producer_groups", len(self._producers))
        yield self._one("consumer_groups", len(self._consumers))
        yield self._one("held_pulls", self._held_pulls())
        yield self._one("put_messages", stats.all_messages)
        yield self._one("put_bytes", stats.all_bytes)
        yield self._one("put_failures", stats.put_failed + stats.put_refused)
        yield self._one("dead_letters", stats.dead_letters)
        yield self._one("skipped_messages", stats.skipped_messages)
        yield self._one("got_messages", stats.get_messages)
        yield self._one("got_bytes", stats.get_bytes)
        yield self._one("pulls_found", stats.get_found)
        yield self._one("pulls_missed", stats.get_miss)
        yield self._one("send_waiting", load.waiting)
        yield self._one(
            "send_oldest_wait_seconds",
            load.oldest_wait_ms / 1000,
        )
        yield self._one("event_loop_lag_seconds", load.lag_ms / 1000)
        yield self._send_waits()

    def _send_waits(self) -> Metric:
        told = FAMILIES["send_wait_seconds"]
        family = HistogramMetricFamily(PREFIX + told.name, told.text, labels=OWN)
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
        yield self._one(
            "storage_size_bytes",
            end - store.min_phy_offset,
        )
        yield self._one(
            "storage_flush_behind_bytes",
            max(0, end - store.flushed_offset),
        )
        yield self._one(
            "damaged_records",
            store.damage.found,
        )
        yield self._one("mended_records", store.damage.mended)
        yield self._one("damaged_records_left", len(store.damage.places))
        yield self._one("storage_writeable", int(store.writeable and store.no_room is None))
        rows = (((disk,), ratio) for disk, ratio in disk_ratios.items())
        yield from self._table("storage_disk_ratio", rows)
        lags = self._slave_lags()
        yield self._one("replication_slaves", len(lags))
        yield self._one("replication_slaves_wanted", self.slaves_wanted)
        rows = (((slave,), float(lag)) for slave, lag in lags.items())
        yield from self._table("replication_lag_bytes", rows)

    def _of_the_member(self, member: GroupMember) -> Iterator[Metric]:
        role = _ROLES.get(member.role.name, 0)
        yield self._one("raft_role", role)
        yield self._one("raft_term", member.term)
        yield self._one("raft_committed_index", member.committed_index)
        yield self._one("raft_elections", member.elections)
        yield self._one("raft_old_log_differs", int(member.has_other_old_log))
        yield self._one("raft_waiting", member.waiting)
        rows = (((peer,), float(lag)) for peer, lag in member.lags().items())
        yield from self._table("raft_lag_entries", rows)

    # -- topics and groups

    def _of_topics(self) -> Iterator[Metric]:
        topics = [topic for topic in self._topics if topic.put_nums]
        rows: Iterable[Row] = (((topic.name,), topic.put_nums) for topic in topics)
        yield from self._table("messages_in", rows)
        rows = (((topic.name,), topic.put_size_bytes) for topic in topics)
        yield from self._table("throughput_in", rows)
        dead = [topic for topic in topics if is_dlq_topic(topic.name)]
        rows = (
            ((topic.name.removeprefix(TopicName.DLQ_PREFIX),), topic.put_nums) for topic in dead
        )
        yield from self._table("send_to_dlq_messages", rows)

    def _of_groups(self) -> Iterator[Metric]:
        yield from self._table("messages_out", self._pulled(lambda c: c.messages))
        yield from self._table("throughput_out", self._pulled(lambda c: c.size_bytes))
        yield from self._table("pulls", self._pulled(lambda c: c.pulls))
        yield from self._table("pull_seconds", self._pulled(lambda c: c.latency_ms / 1000))
        rows: Iterable[Row] = (
            (pair, count) for pair, count in list(self._stats.send_backs.items())
        )
        yield from self._table("send_back_messages", rows)
        rows = (((group.name,), len(group.channels)) for group in list(self._consumers))
        yield from self._table("consumer_connections", rows)
        yield from self._table("consumer_lag_messages", self._lags())

    def _pulled(self, what: Callable[[PullCounter], float]) -> Iterator[Row]:
        for pair in list(self._stats.pulls):
            yield pair, sum(map(what, self._stats.pulls_of(*pair)))

    def _lags(self) -> Iterator[Row]:
        for topic, group, queues in self._offsets.each():
            if topic in self._topics and not is_progress(group):
                end = self._store.max_offset
                yield (
                    (topic, group),
                    sum(
                        max(0, end(topic, queue) - offset) for queue, offset in list(queues.items())
                    ),
                )
