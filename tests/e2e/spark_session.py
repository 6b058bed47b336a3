"""One Spark for all tests of the Spark connector: starting it takes longer than most of them.

The fixture ``spark`` skips where Spark cannot run. The session sees the packages as an installed
wheel would have them (the editable installation of a clone is invisible to Spark's look-up of data
sources), so ``format("rocketmq")`` is there by itself. ``local[2,2]``: two tasks at a time, and a
task that fails is tried twice.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiorocketmq.broker.config.addresses import free_port
from aiorocketmq.spark_connector.access.broker_access import BrokerAccess
from aiorocketmq.spark_connector.local import local_settings, spark_problem
from aiorocketmq.spark_connector.session.spark_version import problem_with
from aiorocketmq.spark_connector.session.worker_python import quick_python

from .cluster import HOST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_PORT = "spark.connect.grpc.binding.port"
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the connector in it; every test that asks for it runs in the same process
    (tests/conftest.py)."""
    if (problem := spark_problem()) is not None:
        pytest.skip(problem)
    folder = tmp_path_factory.mktemp("spark")
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # for the JVM, which keeps it; other tests must not run the copy
        patch.setenv("PYTHONPATH", os.pathsep.join([str(installed_copy(folder)), str(REPOSITORY)]))
        patch.setenv("PYSPARK_PYTHON", quick_python(folder))
        patch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)  # for planning Spark takes that first
        patch.setenv("SPARK_LOCAL_DIRS", str(folder / "local"))
        patch.delenv(
            "PYTHONDONTWRITEBYTECODE", raising=False
        )  # Spark starts dozens of processes that import the copy
        with contextlib.chdir(
            folder
        ):  # Spark's processes import from where they are before everything else
            session = new_session(folder)
    try:
        yield session
    finally:
        session.stop()
        # else it asks for routes of clusters that are gone while other tests look at the log
        BrokerAccess.close_all()


def installed_copy(folder: Path) -> Path:
    """A folder with the packages as a wheel has them."""
    copy = folder / "site"
    setup = [
        sys.executable,
        "-c",
        "import setuptools; setuptools.setup()",
        "-q",
        "egg_info",
        "--egg-base",
        str(folder),
    ]
    subprocess.run(
        [*setup, "build_py", "--build-lib", str(copy)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    return copy


def new_session(folder: Path) -> SparkSession:
    """A session that leaves its files in ``folder``."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,2]").appName("aiorocketmq tests")
    for name, value in local_settings().items():
        builder = builder.config(name, value)
    builder = builder.config("spark.driver.memory", "1g")
    if importlib.util.find_spec("grpc_status") is not None:
        builder = builder.config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
        builder = builder.config("spark.connect.grpc.binding.address", HOST)
        builder = builder.config(_CONNECT_PORT, str(free_port(HOST)))
    return builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()


def connect_address(session: SparkSession) -> str | None:
    """Where the session serves Spark Connect; None without the packages for it."""
    port = session.sparkContext.getConf().get(_CONNECT_PORT)
    return None if port is None else f"sc://{HOST}:{port}"


def needs_spark(what: str, oldest: tuple[int, int]) -> None:
    """Skip a test where Spark is older (``make spark-versions``)."""
    if (problem := problem_with(what, oldest)) is not None:
        pytest.skip(str(problem))
