"""Planning and pulling need neither Spark nor Arrow: only decoding does."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["options", "planner", "positions", "broker_access", "stream_offsets", "fetch", "read_task"]
)
def test_what_an_import_brings_along(module: str) -> None:
    heavy = "{'numpy', 'pyarrow', 'pyspark', 'pandas'}"
    code = f"import sys, aiorocketmq.spark_connector.{module}; print(*{heavy} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
