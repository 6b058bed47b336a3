"""Rare choices that are taken often (FoundationDB's *buggify*): constants of the product that say
when something else is done, each at a value with which it is done all the time.

They are named where they are used, so the product has no other code for it. What a seed changes is
drawn from it; ``AGAIN_AND_AGAIN`` is the table. ``SETTINGS`` is the same for what a broker can be
told: intervals that are short against everything else, small files.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple
from unittest import mock

TURNED = 0.15
"""The share of the knobs that a seed turns."""


class Knob(NamedTuple):
    """``module`` without the name of the package; the value is one of ``values``."""

    module: str
    name: str
    values: tuple[Any, ...]


AGAIN_AND_AGAIN = (
    # Parts of what is done in turns, or sent in pieces.
    Knob("store.read.message_reader", "_SCAN_UNITS", (1, 3)),
    Knob("store.queues.consume_queue", "_CHUNK_UNITS", (1, 2)),
    Knob("store.queues.consume_queue", "_UNITS_AT_ONCE", (1, 2)),
    Knob("store.log.entry_log", "_MOST_REMEMBERED", (1,)),
    Knob("store.dledger.committed", "SLICE", (300, 2000)),
    Knob("store.dledger.raft_store", "_MOST_UNINDEXED", (1, 5)),
    Knob("store.dledger.raft_store", "_MOST_LAG", (300, 3000)),
    Knob("store.dledger.raft_store", "_MOST_ENDS", (1, 4)),
    Knob("store.raft.slices", "MAX_KEPT_BYTES", (0, 500)),
    Knob("store.raft.peer_push", "SMALL_PUSH", (1,)),
    Knob("store.raft.peer_push", "BUSY_PUSHES", (1, 8)),
    Knob("store.raft.follower", "MAX_EARLY_COPIES", (1,)),
    Knob("store.queues.queue_ends", "_AT_ONCE", (1,)),
    Knob("store.index.indexing", "_LARGEST_STEP", (64,)),
    Knob("broker.replication.master", "WRITE_BYTES", (400, 4000)),
    Knob("broker.replication.master", "WRITE_BATCHES", (1, 2)),
    Knob("broker.replication.slave_sync", "_PER_TURN", (1,)),
    Knob("broker.replication.table_log", "_PER_LOOK", (1, 2)),
    Knob("broker.schedule.schedule", "_ENTRIES_PER_READ", (1, 2)),
    Knob("broker.schedule.schedule", "SLICE_S", (0.0,)),
    Knob("broker.transactions.transaction_check", "PER_TURN", (1,)),
    Knob("broker.transactions.transaction_check", "BYTES_PER_TURN", (100,)),
    Knob("broker.transactions.transaction_check", "BATCH", (1, 2)),
    Knob("client.consumer.pull_consumer", "_TURN", (1,)),
    Knob("client.consumer.consumption", "FAIR_SHARE", (1,)),
    # What is remembered, so that it need not be read or asked for.
    Knob("broker.transactions.transaction_log", "_MAX_RECENT", (1,)),
    Knob("broker.transactions.transactions", "KEEP_BEHIND", (0, 2)),
    Knob("broker.transactions.transactions", "KEEP_EARLIER", (0, 2)),
    Knob("broker.raft.node", "MAX_HELD", (1, 3)),
    # How long until something is done, or done again.
    Knob("store.dledger.raft_store", "_SAVE_SECONDS", (0.01, 0.3)),
    Knob("store.services.flush", "_RETRY_SECONDS", (0.01, 3.0)),
    Knob("broker.replication.slave", "FIRST_RETRY_S", (0.01,)),
    Knob("store.replica.replica_stream", "REPORT_S", (0.0005, 0.3)),
    Knob("broker.state.config_files", "PAUSE_S", (0.01, 3.0)),
    Knob("broker.sends.fast_failure", "LOOK_S", (0.005,)),
    Knob("client.consumer.pulling", "ERROR_DELAY", (0.1,)),
    Knob("client.consumer.consumption", "LOCAL_RETRY_DELAY", (0.1,)),
    Knob("client.consumer.group_member", "REBALANCE_INTERVAL", (1.0,)),
    Knob("client.consumer.queue_locks", "RENEW_INTERVAL", (2.0,)),
    Knob("client.cluster.silent_masters", "PATIENCE_S", (0.2,)),
)  # fmt: skip


class Setting(NamedTuple):
    """A property of a part of ``BrokerSettings``, and values it has besides the usual one."""

    part: str
    name: str
    values: tuple[Any, ...]


CHANGED = 0.4
"""The share of the settings that a seed changes."""
SETTINGS = (
    Setting("store", "mapped_file_size_commit_log", (16 << 10,)),
    Setting("store", "mapped_file_size_consume_queue", (20 * 20,)),
    Setting("store", "flush_interval_commit_log", (100, 5000)),
    Setting("store", "flush_commit_log_thorough_interval", (300, 2000)),
    Setting("store", "flush_interval_consume_queue", (200, 5000)),
    Setting("store", "flush_consume_queue_thorough_interval", (500, 5000)),
    Setting("store", "flush_delay_offset_interval", (100,)),
    Setting("store", "clean_resource_interval", (300, 1000)),
    Setting("store", "sync_flush_timeout", (30, 300)),
    Setting("broker", "flush_consumer_offset_interval", (100,)),
    Setting("broker", "transaction_time_out", (500,)),
    Setting("broker", "transaction_check_interval", (300, 1000)),
    Setting("group", "max_vote_interval_ms", (110,)),
)


def settings(random: Random) -> dict[str, dict[str, Any]]:
    """What a seed tells its brokers, by part."""
    found: dict[str, dict[str, Any]] = {}
    for each in SETTINGS:
        if random.random() < CHANGED:
            found.setdefault(each.part, {})[each.name] = random.choice(each.values)
    return found


def turned(random: Random) -> Iterator[tuple[Knob, Any]]:
    """What a seed turns, and to which value."""
    for knob in AGAIN_AND_AGAIN:
        if random.random() < TURNED:
            yield knob, random.choice(knob.values)


def turn(knob: Knob, value: Any) -> Any:
    """A context in which it has the value. Raises AttributeError where there is none."""
    module = importlib.import_module(f"aiorocketmq.{knob.module}")
    return mock.patch.object(module, knob.name, value)
