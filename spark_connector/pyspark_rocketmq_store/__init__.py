"""Makes ``format("rocketmq-store")`` known to Spark. One module can name one format: see
``pyspark_rocketmq`` for the other.

Importing it must never raise, for the same reason.
"""

from __future__ import annotations

from collections.abc import MutableMapping

try:
    from pyspark.sql.datasource import DataSource
except ImportError:  # no Spark, or one that knows no Python data sources
    pass
else:

    class DefaultSource(DataSource):
        """``rocketmq-store``: store directories. Making one gives a ``RocketMQStoreDataSource``."""

        @classmethod
        def name(cls) -> str:
            return "rocketmq-store"

        def __new__(cls, options: MutableMapping[str, str]) -> DataSource:
            from aiorocketmq.spark_connector import RocketMQStoreDataSource

            return RocketMQStoreDataSource(options)
