"""Streaming queries on a simulated cluster."""

from __future__ import annotations

from aiorocketmq.remoting.system_clock import BlockingClock
from aiorocketmq.spark_connector.access.options import SourceOptions, parse_source_options
from aiorocketmq.spark_connector.source.stream_offsets import StreamOffsets

from ..plain_offsets import PlainOffsets
from ..simulated_cluster import SimClock, SimCluster


def options(**given: str) -> SourceOptions:
    given.setdefault("startingOffsets", "earliest")
    if not given.keys() & {"assign", "subscribePattern"}:
        given.setdefault("subscribe", "t")
    return parse_source_options(
        {"namesrv": "ns:1", "newQueuePollInterval": "0", **given},
        streaming=True,
        environment={},
    )


def query(cluster: SimCluster, clock: SimClock, **given: str) -> PlainOffsets:
    return PlainOffsets(stream_offsets(cluster, clock, **given))


def stream_offsets(cluster: SimCluster, clock: SimClock, **given: str) -> StreamOffsets:
    blocking = BlockingClock(clock.now, clock.sleep)
    return StreamOffsets(options(**given), cluster, blocking, clock.time_ms)
