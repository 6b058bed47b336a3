"""Records as one batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from aiorocketmq.spark_connector.decode.decode import decode_records

__all__ = ["decoded"]


def decoded(*given: Any) -> pa.RecordBatch:
    """What ``decode_records`` gives where nothing is too long for one batch."""
    (batch,) = decode_records(*given)
    return batch
