"""RocketMQ topics as Spark DataFrames: ``spark.read.format("rocketmq")``, ``readStream``,
``write``, ``writeStream``.

Importing this needs neither Spark nor pyarrow; using what is in it does.
Imports the face, lazily. Start with ``data_source.py``, then ``source/`` or ``sink/``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data_source import RocketMQDataSource
    from .store.store_source import RocketMQStoreDataSource

__all__ = ["RocketMQDataSource", "RocketMQStoreDataSource"]


def __getattr__(name: str) -> Any:
    if name == "RocketMQDataSource":
        from .data_source import RocketMQDataSource

        return RocketMQDataSource
    if name == "RocketMQStoreDataSource":
        from .store.store_source import RocketMQStoreDataSource

        return RocketMQStoreDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
