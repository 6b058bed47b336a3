"""A session that is started where another Python comes first on the PATH, as by cron or a desktop
that knows nothing of the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

from aiorocketmq.spark_connector.local import spark_problem

PROGRAM = """
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.spark_connector import register
from aiorocketmq.spark_connector.local import local_settings

builder = SparkSession.builder.master("local[1]")
for name, value in local_settings().items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
try:
    spark.read.format("rocketmq").options(namesrv="ns:1", topic="t").load()
except Py4JJavaError as error:
    print("spark", "DATA_SOURCE_NOT_FOUND" in str(error))
try:
    register(spark)
except ConfigError as error:
    print("told", error)
spark.stop()
"""


def test_who_starts_spark_with_another_python_is_told_what_to_set(tmp_path: Path) -> None:
    """By ``register``: Spark itself says only that there is no such format (docs/spark.md)."""
    if (problem := spark_problem()) is not None:
        pytest.skip(problem)
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
    environment = {
        name: value
        for name, value in os.environ.items()
        if "SPARK" not in name and name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**environment, "PATH": f"{other / 'bin'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    lines = [each for each in done.stdout.splitlines() if each.startswith(("spark ", "told "))]
    assert lines == [
        "spark True",
        f"told Spark starts {other}/bin/python3 for its Python processes, which does not have what "
        f"this program has ({sys.executable}): set the environment variable PYSPARK_PYTHON to the "
        "Python to start, before the session is made",
    ], done.stderr
