"""What a task makes of the pieces that it has read."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")
pytest.importorskip("numpy", reason="the extra [spark] is not installed")

import pyarrow as pa

from aiorocketmq.spark_connector.access.options import parse_source_options
from aiorocketmq.spark_connector.source import read_task
from aiorocketmq.spark_connector.source.fetch import Piece

from ..stored_records import Stored, compressed, joined

MIB = 1 << 20


def test_bodies_that_become_long_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 MiB are 64 KiB as they are stored: less than one piece has."""
    body, flag = compressed(bytes(MIB), 0)
    data = joined(*(Stored(body=body, sys_flag=flag, queue_offset=n) for n in range(64)))
    piece = Piece("a", memoryview(data), [0], [len(data)], [(0, 64)])
    monkeypatch.setattr(read_task, "RangeReader", lambda *_: [piece])
    given = {"namesrv": "ns:1", "subscribe": "t", "arrowBatchBytes": "4m"}
    options = parse_source_options(given, streaming=False, environment={})
    for _ in read_task.read_ranges([], {}, options, ("queueOffset", "body")):
        pass  # what the first one imports counts for none
    offsets: list[Any] = []
    before, most = pa.total_allocated_bytes(), 0
    tracemalloc.start()
    try:
        for batch in read_task.read_ranges([], {}, options, ("queueOffset", "body")):
            offsets += batch.column("queueOffset").to_pylist()
            most = max(most, pa.total_allocated_bytes() - before)
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()
    assert most < 16 * MIB
    assert offsets == list(range(64))
