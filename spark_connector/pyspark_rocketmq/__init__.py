"""Makes ``format("rocketmq")`` known to Spark, which imports every module named ``pyspark_*`` and
takes its DefaultSource.

Spark imports it in every program, whether that reads RocketMQ or not, and one such module that
raises leaves Spark without any Python data source. So nothing is imported here that could fail;
what is wrong with an installation is said to whoever asks for the format.
"""

from __future__ import annotations

from collections.abc import MutableMapping

try:
    from pyspark.sql.datasource import DataSource
except ImportError:  # no Spark, or one that knows no Python data sources
    pass
else:

    class DefaultSource(DataSource):
        """``rocketmq``: topics. Making one gives a ``RocketMQDataSource``."""

        @classmethod
        def name(cls) -> str:
            return "rocketmq"

        def __new__(cls, options: MutableMapping[str, str]) -> DataSource:
            from aiorocketmq.spark_connector import RocketMQDataSource

            return RocketMQDataSource(options)
