"""Reading topics in micro-batches: ``StreamOffsets`` in the terms of Spark.

Spark makes two of these: one lives in a process of its own on the driver for as long as the query
runs and knows about offsets, of the other a copy reads in every task. Nothing but what is given at
the start gets from one to the other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ..access import seen as seen_json
from ..access.checkpoint import from_json, to_json
from ..access.options import SourceOptions
from .batch import RangesPartition, partitions_of
from .read_task import read_ranges

if TYPE_CHECKING:
    import pyarrow as pa

    from ..access.broker_access import BrokerAccess
    from .stream_offsets import StreamOffsets

__all__ = ["RocketMQStreamReader"]


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module. Errors of ``StreamOffsets`` end the query."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    @functools.cached_property
    def _access(self) -> BrokerAccess:
        from ..access.broker_access import (
            BrokerAccess,
        )  # only the process that knows about offsets talks to the cluster so

        options = self._options
        return BrokerAccess(
            options.connection,
            retries=options.retries,
            retry_interval_ms=options.retry_interval_ms,
            group=options.group,
        )

    @functools.cached_property
    def _offsets(self) -> StreamOffsets:
        from .stream_offsets import StreamOffsets

        return StreamOffsets(self._options, self._access)

    # --- on the driver
    # ----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        return to_json(self._offsets.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """What Spark hands to ``latestOffset``, unless its trigger is Once: that takes
        everything."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        everything = (
            isinstance(limit, ReadAllAvailable)
            and self._options.max_offsets_per_trigger is not None
        )
        return to_json(self._offsets.latest(from_json(start), everything=everything))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What the progress shows of the source, see ``access/seen.py``."""
        seen = self._offsets.seen()
        return None if seen is None else seen_json.to_json(seen)

    def prepareForTriggerAvailableNow(self) -> None:
        self._offsets.prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ranges = self._offsets.ranges(from_json(start), from_json(end))
        return partitions_of(ranges, self._options, self._access)

    def commit(self, end: dict[str, Any]) -> None:
        self._offsets.committed(from_json(end))

    # --- on an executor
    # ---------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangesPartition):
            return iter(())
        return read_ranges(partition.ranges, partition.hints, self._options, self._columns)
