"""What ``readStream`` gets when it cannot be: the options are wrong, or Spark is too old."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from ...client.errors import ConfigError

__all__ = ["RefusedStreamReader"]


class RefusedStreamReader(DataSourceStreamReader):
    """Says why at the first question. An error instead of a reader would hide behind one of Spark's
    own: it then stops the reader that it does not have, and tells of an UnboundLocalError (4.0 to
    4.3, ``python_streaming_source_runner``)."""

    def __init__(self, problem: ConfigError) -> None:
        self._problem = problem

    def initialOffset(self) -> NoReturn:
        raise self._problem

    def latestOffset(self) -> NoReturn:  # when a query is started again
        raise self._problem

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        raise self._problem

    def read(self, partition: Any) -> Iterator[Any]:
        raise self._problem
