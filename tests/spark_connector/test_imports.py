"""Planning and pulling need neither Spark nor Arrow: only decoding does."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "access.options",
        "access.broker_access",
        "source.planner",
        "source.positions",
        "source.stream_offsets",
        "source.fetch",
        "source.read_task",
    ],
)
def test_what_an_import_brings_along(module: str) -> None:
    heavy = "{'numpy', 'pyarrow', 'pyspark', 'pandas'}"
    code = f"import sys, aiorocketmq.spark_connector.{module}; print(*{heavy} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_making_a_source_and_reading_needs_no_event_loop() -> None:
    """Of all processes that Spark starts for a query, one asks brokers for offsets: only that pays
    for a client."""
    pytest.importorskip("pyspark.sql.datasource", reason="the extra [spark] is not installed")
    code = """
import sys
import pyspark.sql.worker.plan_data_source_read
before = set(sys.modules)
import aiorocketmq.spark_connector.data_source
import aiorocketmq.spark_connector.source.stream
print(*set(sys.modules) - before)
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    clients = {
        f"aiorocketmq.{name}"
        for name in (
            "client.cluster.instance",
            "client.admin",
            "remoting.transport.client",
            "loop_thread",
        )
    }
    assert "aiorocketmq.spark_connector.source.read_task" in found
    assert not {"asyncio", "uvloop", "urllib.request", "pandas", *clients} & set(found)


def test_asking_for_offsets_needs_no_admin_and_no_http() -> None:
    code = "import sys, aiorocketmq.spark_connector.access.broker_access; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {
        "aiorocketmq.client.admin",
        "aiorocketmq.client.consumer.pulling",
        "urllib.request",
        "http.client",
    } & set(found)
