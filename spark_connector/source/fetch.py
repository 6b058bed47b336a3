"""Ranges of queues to bytes: records in the order of the queue, joined to pieces worth decoding
(spark.md §4).

There is no thread that pulls ahead: pulls are under way while a piece is decoded and taken by
Spark, and their answers wait in the buffers of the socket. (Measured on two cores: a thread costs a
tenth more, and brings nothing.)
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.record import MIN_RECORD_SIZE, size_and_magic
from ...remoting.system_clock import BLOCKING_CLOCK, BlockingClock
from ..access.options import SourceOptions
from ..access.wire import Connections, Wire
from .planner import QueueRange
from .pull_windows import Brought
from .range_puller import Cluster, RangePuller

__all__ = ["Piece", "RangeReader", "SocketCluster", "settle_worker"]


_ENOUGH_ROWS: Final = 2048
_ENOUGH_BYTES: Final = 1 << 20
"""So much is worth decoding at once; more only when it is there without a copy."""


class Piece(NamedTuple):
    """Records of one broker: stretches of one buffer, in this order."""

    broker_name: str
    buffer: memoryview
    begins: list[int]
    ends: list[int]
    offsets: list[tuple[int, int]]
    """That each stretch is wanted for: from one to before another."""

    @property
    def records(self) -> bytes:
        """One after the other."""
        return b"".join(
            [self.buffer[begin:end] for begin, end in zip(self.begins, self.ends, strict=True)]
        )


class RangeReader:
    """The ranges of one task, one after the other."""

    def __init__(
        self,
        ranges: Sequence[QueueRange],
        hints: Mapping[str, Mapping[int, str]],
        options: SourceOptions,
        cluster: Cluster,
        clock: BlockingClock = BLOCKING_CLOCK,
    ) -> None:
        """``hints``: addresses by broker name and id, as the planner knew them."""
        self._ranges = ranges
        self._hints = hints
        self._options = options
        self._cluster = cluster
        self._clock = clock
        self._outages: dict[str, float] = {}

    def __iter__(self) -> Iterator[Piece]:
        """About ``arrowBatchRows`` records or ``arrowBatchBytes``, or what is in one buffer. Raises
        as ``RangePuller``."""
        options = self._options
        rows_of_one, most_rows, most_bytes = (
            options.pull_batch_size,
            options.arrow_batch_rows,
            options.arrow_batch_bytes,
        )
        for broker_name, ranges in itertools.groupby(
            self._ranges, key=lambda each: each.broker_name
        ):
            held: list[Brought] = []
            rows = size = 0  # rows about: as if the records of an answer were as long as its first
            for body in itertools.chain.from_iterable(map(self._bodies, ranges)):
                if (rows >= _ENOUGH_ROWS or size >= _ENOUGH_BYTES) and body.buffer is not held[
                    -1
                ].buffer:
                    yield _piece(broker_name, held)
                    held, rows, size = [], 0, 0
                held.append(body)
                length = body.end - body.begin
                size += length
                of_first = (
                    size_and_magic(body.buffer, body.begin)[0]
                    if length >= MIN_RECORD_SIZE
                    else length
                )
                rows += min(rows_of_one, -(-length // max(of_first, 1)))
                if rows >= most_rows or size >= most_bytes:
                    yield _piece(broker_name, held)
                    held, rows, size = [], 0, 0
            if held:
                yield _piece(broker_name, held)

    def _bodies(self, whole: QueueRange) -> Iterator[Brought]:
        hints = self._hints.get(whole.broker_name, {})
        for bodies in RangePuller(
            whole, hints, self._options, self._cluster, self._clock, self._outages
        ):
            yield from bodies


def _piece(broker_name: str, held: list[Brought]) -> Piece:
    """Stretches of one buffer stay where they are, others are joined."""
    buffer = held[0].buffer
    offsets = [(each.from_offset, each.until_offset) for each in held]
    if all(each.buffer is buffer for each in held):
        begins, ends = [each.begin for each in held], [each.end for each in held]
        return Piece(broker_name, buffer, begins, ends, offsets)
    edges = list(itertools.accumulate((each.size for each in held), initial=0))
    joined = memoryview(b"".join([each.view for each in held]))
    return Piece(broker_name, joined, edges[:-1], edges[1:], offsets)


class SocketCluster:
    """The real one. Routes are only asked for when a hint does not do."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def replicas(self, queue: MessageQueue) -> Mapping[int, str]:
        from ..access.broker_access import BrokerAccess  # most tasks do without

        return BrokerAccess(self._options.connection, retries=0).replicas(queue, fresh=True)

    def connect(self, address: str) -> Wire:
        return Connections.take(address, self._options.connection)

    def give_back(self, wire: Wire) -> None:
        Connections.give_back(wire, self._options.connection)


_freezes_left = 2


def settle_worker() -> None:
    """On the first tasks of a worker process: Spark collects garbage after every task, and walking
    through all of pyarrow's and pandas' objects takes 40 ms each time (spark.md §3.4). Frozen
    objects are not walked through. (A worker that ``worker_daemon.py`` forked has few others.) On
    the second task once more: the first one imports what only tasks need, 30,000 objects or 7 ms
    after every task."""
    global _freezes_left
    if _freezes_left:
        _freezes_left -= 1
        gc.freeze()
