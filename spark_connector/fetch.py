"""Ranges of queues to bytes: records in the order of the queue, joined to pieces worth decoding (spark.md §4).

There is no thread that pulls ahead: pulls are under way while a piece is decoded and taken by Spark, and their answers wait
in the buffers of the socket. (Measured on two cores: a thread costs a tenth more, and brings nothing.)
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..remoting.protocol.frame import Body
from ..remoting.protocol.message import MessageQueue
from .options import SourceOptions
from .planner import QueueRange
from .range_puller import SYSTEM_CLOCK, Clock, Cluster, RangePuller
from .wire import Connections, Wire

__all__ = ["Piece", "RangeReader", "SocketCluster", "settle_worker"]


class Piece(NamedTuple):
    """Records of one broker, one after the other."""

    broker_name: str
    records: bytes


class RangeReader:
    """The ranges of one task, one after the other."""

    def __init__(
        self,
        ranges: Sequence[QueueRange],
        hints: Mapping[str, Mapping[int, str]],
        options: SourceOptions,
        cluster: Cluster,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``hints``: addresses by broker name and id, as the planner knew them."""
        self._ranges = ranges
        self._hints = hints
        self._options = options
        self._cluster = cluster
        self._clock = clock
        self._outages: dict[str, float] = {}

    def __iter__(self) -> Iterator[Piece]:
        """About ``arrowBatchRows`` records or ``arrowBatchBytes``. Raises as ``RangePuller``."""
        for broker_name, ranges in itertools.groupby(self._ranges, key=lambda each: each.broker_name):
            bodies: list[Body] = []
            size = 0
            for body in itertools.chain.from_iterable(map(self._bodies, ranges)):
                bodies.append(body)
                size += len(body)
                if size >= self._options.arrow_batch_bytes or self._rows(bodies) >= self._options.arrow_batch_rows:
                    yield Piece(broker_name, b"".join(bodies))
                    bodies, size = [], 0
            if bodies:
                yield Piece(broker_name, b"".join(bodies))

    def _rows(self, bodies: list[Body]) -> int:
        """How many messages there are at most."""
        return len(bodies) * self._options.pull_batch_size

    def _bodies(self, whole: QueueRange) -> Iterator[Body]:
        hints = self._hints.get(whole.broker_name, {})
        for bodies in RangePuller(whole, hints, self._options, self._cluster, self._clock, self._outages):
            yield from bodies


class SocketCluster:
    """The real one. Routes are only asked for when a hint does not do."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def replicas(self, queue: MessageQueue) -> Mapping[int, str]:
        from .broker_access import BrokerAccess  # most tasks do without

        return BrokerAccess(self._options.connection, retries=0).replicas(queue, fresh=True)

    def connect(self, address: str) -> Wire:
        return Connections.take(address, self._options.connection)

    def give_back(self, wire: Wire) -> None:
        Connections.give_back(wire, self._options.connection)


_settled = False


def settle_worker() -> None:
    """On the first read of a worker process: Spark collects garbage after every task, and walking through all of pyarrow's
    and pandas' objects takes 40 ms each time (spark.md §3.4). Frozen objects are not walked through."""
    global _settled
    if not _settled:
        _settled = True
        gc.collect()
        gc.freeze()
