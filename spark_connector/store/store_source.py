"""``spark.read.format("rocketmq-store")``: a store directory, or several, as a DataFrame, without a
broker.

For back-fill and forensics: the directory of a broker that is stopped, a copy, a snapshot, a
mounted archive; RocketMQ's own or ours. The columns are those of ``format("rocketmq")``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ..access.catalog_tables import no_catalog_table
from ..decode.schema import columns_of, spark_schema
from ..source.fetch import settle_worker
from .store_options import StoreOptions, parse_store_options
from .store_parts import plan
from .store_reader import read_part

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["RocketMQStoreDataSource", "RocketMQStoreReader"]


class RocketMQStoreDataSource(DataSource):
    """Batch reads of store directories."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> str:
        options = self._parsed()
        return spark_schema(options.columns, options.property_types)

    def reader(self, schema: StructType) -> RocketMQStoreReader:
        options = self._parsed()
        columns = columns_of(schema, options.property_types)
        return RocketMQStoreReader(replace(options, columns=columns))

    def _parsed(self) -> StoreOptions:
        with no_catalog_table(self.name(), self.options):
            return parse_store_options(self.options)


class RocketMQStoreReader(DataSourceReader):
    """Plans on the driver, reads on the executors; both see the directories by the same paths."""

    def __init__(self, options: StoreOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in plan(self._options)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        settle_worker()
        # What Spark makes of a store with nothing in it: None, or since 4.2 a partition with None.
        if partition is not None and partition.value is not None:
            yield from read_part(partition.value, self._options)
