"""Writing the micro-batches of a query to topics: what ``RocketMQDataSource.streamWriter`` returns.

It needs Spark 4.1. A file of its own, as an older Spark does not have the class to derive from and
can write at once all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ...client.errors import ConfigError
from .exactly_once import send_batch
from .sink import BATCH_ID, QUERY_ID, Written, checked_options, staged_tasks, write_rows
from .sink_options import SinkOptions

__all__ = ["RocketMQStreamArrowWriter", "stream_writer"]


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> RocketMQStreamArrowWriter:
    """For ``df.writeStream``. Raises ``ConfigError`` for options or columns that cannot be."""
    if overwrite:
        raise ConfigError(
            'a topic cannot be overwritten: use outputMode("append"), or foreachBatch for '
            "complete results"
        )
    parsed = checked_options(options, schema)
    if parsed.write_id is not None:
        raise ConfigError("option writeId is for batch writes: a query has an id of its own")
    return RocketMQStreamArrowWriter(parsed)


class RocketMQStreamArrowWriter(DataSourceStreamArrowWriter):
    """The micro-batches of a streaming query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        """All rows of a task of one micro-batch."""
        context = TaskContext.get()
        query_id = context.getLocalProperty(QUERY_ID) if context is not None else None
        batch_id = context.getLocalProperty(BATCH_ID) if context is not None else None
        write_id = self._options.dedup_prefix or query_id or ""
        return write_rows(iterator, self._options, write_id, batch_id)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was written is there. What was staged (``guarantee=exactly_once``) is sent now."""
        tasks = staged_tasks(messages)
        if tasks:
            send_batch(self._options, tasks[0].write_id, batchId, tasks)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing can be taken back: a topic only grows. The dedup ids tell what was written
        again. What is staged is deleted with its batch, when that is done."""
