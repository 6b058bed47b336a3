"""``format("rocketmq")``: what Spark asks for first."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from ..client.errors import ConfigError
from .access.catalog_tables import no_catalog_table
from .access.options import SourceOptions, parse_source_options
from .decode.schema import chosen_columns, columns_of, property_types, spark_schema
from .session.spark_version import (
    OLDEST_FOR_STREAM_READS,
    OLDEST_FOR_STREAM_WRITES,
    problem_with,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["RocketMQDataSource"]

log: Final = logging.getLogger(__name__)


class RocketMQDataSource(DataSource):
    """Topics as tables. Spark makes one per ``load()``, pickles it and asks it in processes of its
    own.

    Options are parsed where they are used, on the driver; nothing but their text is kept here.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        """Of ``columns``, ``includeProperties``, ``propertyColumns``. Raises ``ConfigError``, for
        all options: now is the time to tell."""
        with no_catalog_table(self.name(), self.options):
            try:
                options = parse_source_options(self.options, streaming=False)
            except ConfigError as error:
                options = self._of_a_stream(error)
            own = property_types(options.property_columns)
            return spark_schema(_chosen(options), own)

    def _of_a_stream(self, error: ConfigError) -> SourceOptions:
        """What is wrong for a batch may be right for a stream. Raises ``ConfigError`` when it is
        not, of either."""
        try:
            return parse_source_options(self.options, streaming=True)
        except ConfigError as other:
            same = str(other) == str(error)
            raise ConfigError(str(error) if same else f"{error}. As a stream: {other}") from None

    def reader(self, schema: StructType) -> DataSourceReader:
        from .source.batch import RocketMQReader

        with no_catalog_table(self.name(), self.options):
            options = parse_source_options(self.options, streaming=False)
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger"):
            if self.options.get(name) is not None:
                log.warning("option %s is for streams: a batch read takes everything", name)
        if options.commit_to_group:
            log.warning(
                "option commitOffsetsToGroup is for streams: a batch read publishes no offsets"
            )
        return RocketMQReader(options, _columns(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """What is wrong is told by the reader, see ``RefusedStreamReader``."""
        try:
            return self._stream_reader(schema)
        except ConfigError as error:
            from .source.refused_stream import RefusedStreamReader

            return RefusedStreamReader(error)

    def _stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        if (problem := problem_with("reading a stream", OLDEST_FOR_STREAM_READS)) is not None:
            raise problem
        from .source.stream import RocketMQStreamReader

        with no_catalog_table(self.name(), self.options):
            options = parse_source_options(self.options, streaming=True)
        return RocketMQStreamReader(options, _columns(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .sink.sink import batch_writer

        with no_catalog_table(self.name(), self.options):
            return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        if (problem := problem_with("writing a stream", OLDEST_FOR_STREAM_WRITES)) is not None:
            raise problem
        from .sink.stream_sink import stream_writer

        return stream_writer(self.options, schema, overwrite)


def _chosen(options: SourceOptions) -> tuple[str, ...]:
    """The columns that options ask for."""
    return chosen_columns(
        options.columns, options.include_properties, property_types(options.property_columns)
    )


def _columns(schema: StructType, options: SourceOptions) -> tuple[str, ...]:
    """The columns of a schema: ours, or one that the user gave to choose some of them. Raises
    ``ConfigError``."""
    names = columns_of(schema, property_types(options.property_columns))
    if options.columns is not None and set(names) != set(_chosen(options)):
        raise ConfigError("the option columns and a schema of your own exclude each other")
    return names
