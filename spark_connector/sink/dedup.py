"""Ids by which a reader knows a row that was written twice (spark.md §5.6).

A sink is at-least-once: a task that is tried again writes all of its rows again, and so does a
micro-batch that is replayed after a crash. So every message gets the property ``SPARK_DEDUP_ID``,
the same one each time:

- a streaming query: ``<query id>/<batch id>/<partition>/<row number>``
- a batch write: ``<random id of the write>/<partition>/<row number>``
- with ``dedupPrefix``: that text in the place of the query's or write's id, for batch writes that
  are repeated as a whole

Partition and row number are of the same row again only when the rows come in the same partitions
and the same order again: reading a topic and mapping rows does that, a shuffle does not. Nor do
files where the number of cores has changed, by which Spark divides them (``FilePartition``), unless
``spark.sql.files.minPartitionNum`` is fixed: then other rows have ids of rows that are there. With
``dedupKeyColumns`` the last two parts are ``k/<hash of these columns>`` instead; they must tell
rows of one batch apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SPARK_DEDUP_ID", "drop_spark_duplicates", "key_ids", "scope_of"]

SPARK_DEDUP_ID: Final = "SPARK_DEDUP_ID"
"""Name of the property."""

_HASH_BYTES: Final = 16
_NULL: Final = b"\0"
_VALUE: Final = b"\1"


def scope_of(write: str, batch_id: str | None, partition: int | None) -> str:
    """What the ids of all rows of one task begin with; ``batch_id`` is None for a batch write,
    ``partition`` for keys.

    >>> scope_of("q1", "7", 3), scope_of("w1", None, None)
    ('q1/7/3/', 'w1/k/')
    """
    parts = [
        write,
        *([batch_id] if batch_id is not None else []),
        "k" if partition is None else str(partition),
    ]
    return "/".join(parts) + "/"


def key_ids(columns: Sequence[Any]) -> Any:
    """The last part of the ids of rows with these key columns, as binary."""
    values = [[_of_value(value) for value in column.to_pylist()] for column in columns]
    return pa.array([_hash(row) for row in zip(*values, strict=True)], pa.binary())


def _hash(row: tuple[bytes, ...]) -> bytes:
    lengths = b"".join(len(value).to_bytes(4, "big") for value in row)
    return blake2b(lengths + b"".join(row), digest_size=_HASH_BYTES).hexdigest().encode()


def _of_value(value: object) -> bytes:
    if value is None:
        return _NULL
    return _VALUE + (value if isinstance(value, bytes) else str(value).encode())


def drop_spark_duplicates(frame: DataFrame, within: str | None = None) -> DataFrame:
    """Without the messages that a Spark sink wrote twice; what no sink marked stays. Needs the
    columns ``topic``, ``brokerName``, ``queueId``, ``queueOffset`` and ``properties``.

    A streaming frame remembers ids for ``within`` (``"1 hour"``), counted in the column
    ``storeTimestamp``; with None for as long as ``withWatermark`` said before. Spark leaves out
    what was stored longer than that before the newest row: it should cover how far queues lie
    apart. A batch frame needs neither.
    """
    from pyspark.sql import functions as F

    own = F.concat_ws("/", "topic", "brokerName", "queueId", "queueOffset")
    marked = frame.withColumn(
        "_dedup", F.coalesce(F.col("properties").getItem(SPARK_DEDUP_ID), own)
    )
    if not frame.isStreaming:
        return marked.dropDuplicates(["_dedup"]).drop("_dedup")
    if within is not None:
        marked = marked.withWatermark("storeTimestamp", within)
    return marked.dropDuplicatesWithinWatermark(["_dedup"]).drop("_dedup")
