"""The metrics of a broker: names, kinds, labels, what each says. ``metrics.py`` fills them in,
``docs/monitoring.py`` makes pages, a dashboard and alerts of them. Pure.

All names begin with ``rocketmq_``; all have the labels of ``OWN`` in front of their own.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

__all__ = ["FAMILIES", "OWN", "PREFIX", "Family", "Kind"]

PREFIX: Final = "rocketmq_"
OWN: Final = ("cluster", "node_id")
"""Of the broker: its cluster and its name, which a master and its slaves have alike."""
_TOPIC: Final = ("topic",)
_GROUP: Final = ("topic", "consumer_group")
_OF_GROUP: Final = ("consumer_group",)


class Kind(Enum):
    """As Prometheus has them."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(NamedTuple):
    """One metric."""

    name: str
    """Without prefix, and without what Prometheus puts behind it (``_total``, ``_bucket``)."""
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    """Behind those of ``OWN``."""

    @property
    def series(self) -> tuple[str, ...]:
        """The names that a scrape has."""
        full = PREFIX + self.name
        if self.kind is Kind.HISTOGRAM:
            return f"{full}_bucket", f"{full}_sum", f"{full}_count"
        return (f"{full}_total" if self.kind is Kind.COUNTER else full,)


def _counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Family:
    return Family(name, Kind.COUNTER, text, labels)


def _gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Family:
    return Family(name, Kind.GAUGE, text, labels)


_ALL: Final = (
    # the broker itself
    _gauge("time_seconds", "The broker's clock, since 1970"),
    _gauge("broker_permission", "4 readable, 2 writeable"),
    _gauge("producer_groups", "Producer groups that are online"),
    _gauge("consumer_groups", "Consumer groups that are online"),
    _gauge("held_pulls", "Pulls that wait for messages"),
    _counter("put_messages", "Messages stored"),
    _counter("put_bytes", "Bytes written into the commit log"),
    _counter("put_failures", "Sends that were refused or could not be stored"),
    _counter("dead_letters", "Messages that a limit keeps from their topic"),
    _counter("skipped_messages", "Those that could not be stored at all"),
    _counter("got_messages", "Messages handed out"),
    _counter("got_bytes", "Bytes handed out"),
    _counter("pulls_found", "Pulls that found messages"),
    _counter("pulls_missed", "Pulls that found nothing, each time they looked"),
    _gauge("send_waiting", "Sends that are stored and wait for the disk"),
    _gauge("send_oldest_wait_seconds", "How long the oldest of them has waited"),
    _gauge("event_loop_lag_seconds", "How late the event loop is"),
    Family(
        "send_wait_seconds",
        Kind.HISTOGRAM,
        "How long senders waited for the disk, brought up to date every 10 s",
    ),
    # the store and its copies
    _gauge("storage_size_bytes", "Commit log, from its first to its last byte"),
    _gauge("storage_flush_behind_bytes", "Written, not on the disk yet"),
    _counter("damaged_records", "Records of the commit log that were found damaged"),
    _counter("mended_records", "Damaged records that were mended since"),
    _gauge("damaged_records_left", "Damaged records that are in the commit log still"),
    _gauge("storage_writeable", "1 while messages are taken; slaves and followers take none"),
    _gauge("storage_disk_ratio", "How full the disks are, 0 to 1", ("disk",)),
    _gauge("replication_slaves", "Slaves that are connected and have reported"),
    _gauge("replication_slaves_wanted", "Slaves that sends wait for; none unless SYNC_MASTER"),
    _gauge("replication_lag_bytes", "How far a slave is behind", ("slave",)),
    # a member of a group
    _gauge("raft_role", "2 leader, 1 follower, 0 candidate"),
    _gauge("raft_term", "Term of this member"),
    _gauge("raft_committed_index", "Last entry that a majority has"),
    _counter("raft_elections", "How often this member stood"),
    _gauge("raft_old_log_differs", "1: it began with another commit log than its leader"),
    _gauge("raft_waiting", "Messages that are stored and wait for a majority"),
    _gauge("raft_lag_entries", "How far another member is behind this leader", ("member",)),
    # topics and groups
    _counter("messages_in", "Messages stored", _TOPIC),
    _counter("throughput_in", "Bytes stored", _TOPIC),
    _counter("send_to_dlq_messages", "Messages that a group could not consume", _OF_GROUP),
    _counter("messages_out", "Messages handed out", _GROUP),
    _counter("throughput_out", "Bytes handed out", _GROUP),
    _counter("pulls", "Pulls that found something", _GROUP),
    _counter("pull_seconds", "How long these took, unless they waited for messages", _GROUP),
    _counter("send_back_messages", "Messages that a group gave back", _GROUP),
    _gauge("consumer_connections", "Consumers that are online", _OF_GROUP),
    _gauge("consumer_lag_messages", "Messages that a group has not consumed", _GROUP),
)

FAMILIES: Final = {family.name: family for family in _ALL}
"""By name, in the order of a scrape."""
