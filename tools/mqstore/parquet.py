"""``mqstore export``: messages into a Parquet file, through pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ...remoting.protocol.extras import install_command
from ...remoting.protocol.record.decode import MessageExt
from .selection import body_of

__all__ = ["PyarrowMissing", "export"]

_ROWS_AT_ONCE: Final = 8192
_BYTES_AT_ONCE: Final = 64 << 20


class PyarrowMissing(Exception):
    """Parquet is written by pyarrow, which is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "Parquet is written by pyarrow, which is not installed: " + install_command("arrow")
        )


def export(messages: Iterable[MessageExt], path: Path) -> int:
    """Write all messages; returns how many. The file appears when it is complete. Raises
    PyarrowMissing and OSError."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise PyarrowMissing from error
    schema = _schema(pyarrow)
    partial = path.with_name(f"{path.name}.partial")
    count = 0
    try:
        with pyarrow.parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
            rows: list[dict[str, Any]] = []
            size = 0
            for message in messages:
                rows.append(_row(message))
                size += message.store_size
                count += 1
                if len(rows) >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
                    writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                    rows, size = [], 0
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _schema(pyarrow: Any) -> Any:
    text, number, small = pyarrow.string(), pyarrow.int64(), pyarrow.int32()
    moment = pyarrow.timestamp("ms", tz="UTC")
    return pyarrow.schema(
        [
            ("topic", text),
            ("queue_id", small),
            ("queue_offset", number),
            ("phy_offset", number),
            ("keys", pyarrow.list_(text)),
            ("tags", text),
            ("properties", pyarrow.map_(text, text)),
            ("body", pyarrow.binary()),
            ("body_compressed", pyarrow.bool_()),
            ("born_timestamp", moment),
            ("store_timestamp", moment),
            ("msg_id", text),
            ("offset_msg_id", text),
            ("flag", small),
            ("sys_flag", small),
            ("reconsume_times", small),
            ("born_host", text),
            ("store_host", text),
        ]
    )


def _row(message: MessageExt) -> dict[str, Any]:
    body, compressed = body_of(message)
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "phy_offset": message.commit_log_offset,
        "keys": list(message.keys),
        "tags": message.tags,
        "properties": list(message.properties.items()),
        "body": body,
        "body_compressed": compressed,
        "born_timestamp": message.born_timestamp,
        "store_timestamp": message.store_timestamp,
        "msg_id": message.msg_id,
        "offset_msg_id": message.offset_msg_id,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "reconsume_times": message.reconsume_times,
        "born_host": message.born_host,
        "store_host": message.store_host,
    }
