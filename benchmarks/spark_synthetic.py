"""A data source and a sink for Spark that cost nothing themselves.

The source hands over batches of the columns of messages, made once per worker; the sink counts
rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.spark_connector.decode.decode import DecodeOptions, decode_records
from aiorocketmq.spark_connector.decode.schema import chosen_columns, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TASKS = 4
_HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


class SyntheticSource(DataSource):
    """Options: ``rows``, ``size`` of the bodies, ``includeProperties``, ``batch`` (rows of one)."""

    @classmethod
    def name(cls) -> str:
        return "synthetic"

    def schema(self) -> str:
        return spark_schema(self._columns)

    def reader(self, schema: StructType) -> SyntheticReader:
        options = self.options
        return SyntheticReader(
            self._columns,
            int(options["rows"]),
            int(options["size"]),
            int(options.get("batch", "4096")),
        )

    def writer(self, schema: StructType, overwrite: bool) -> SyntheticWriter:
        return SyntheticWriter()

    @property
    def _columns(self) -> tuple[str, ...]:
        return chosen_columns(None, self.options.get("includeProperties") == "true")


class SyntheticReader(DataSourceReader):
    """As many tasks as the topic has queues."""

    def __init__(self, columns: tuple[str, ...], rows: int, size: int, batch: int) -> None:
        self._columns, self._rows, self._size, self._batch = columns, rows, size, batch

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows // TASKS) for _ in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch, left = made(self._columns, self._size, self._batch), partition.value
        while left:
            part = batch if left >= batch.num_rows else batch.slice(0, left)
            left -= part.num_rows
            yield part


class SyntheticWriter(DataSourceArrowWriter):
    """Takes batches."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


@lru_cache(maxsize=4)
def made(columns: tuple[str, ...], size: int, count: int) -> pa.RecordBatch:
    """One batch of messages like those of ``spark_common.fill``."""
    records = [
        encode_record(NewRecord(
            "Benchmark", 1, bytes([number % 256]) * size,
            b"UNIQ_KEY\x017F0000010A2B18B4AAC2%012X\x02KEYS\x01order-%d\x02TAGS\x01Tag%d\x02colour\x01blue\x02region\x01eu-%d"
            b"\x02WAIT\x01true\x02CLUSTER\x01DefaultCluster" % (number, number, number % 3,
            number % 10),
            queue_offset=number, phy_offset=number * 400, sys_flag=0,
            born_timestamp=1_700_000_000_000, born_host=_HOST,
            store_timestamp=1_700_000_000_000, store_host=_HOST,
        ))
        for number in range(count)
    ]  # fmt: skip
    return next(decode_records(b"".join(records), columns, DecodeOptions(broker_name="broker-a")))
