"""RocketMQ topics as Spark DataFrames: ``spark.read.format("rocketmq")``, ``readStream``,
``write``, ``writeStream``.

Importing this needs neither Spark nor pyarrow; using what is in it does.
Imports the face, lazily. Start with ``data_source.py``, then ``source/`` or ``sink/``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data_source import RocketMQDataSource
    from .registration import register
    from .store.store_source import RocketMQStoreDataSource

__all__ = ["RocketMQDataSource", "RocketMQStoreDataSource", "register"]


def __getattr__(name: str) -> Any:
    if name == "RocketMQDataSource":
        from .data_source import RocketMQDataSource

        return RocketMQDataSource
    if name == "RocketMQStoreDataSource":
        from .store.store_source import RocketMQStoreDataSource

        return RocketMQStoreDataSource
    if name == "register":
        from .registration import register

        return register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
