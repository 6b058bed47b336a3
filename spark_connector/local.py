"""Spark on this machine alone, with the connector in it: for notebooks, examples and tests.

::

    spark, namesrv, store = playground()    # a session, a cluster, and where its files are

A cluster manager has sessions of its own: there nothing of this is needed (``docs/spark.md``).
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from ..client.errors import ConfigError
from ..remoting.protocol.extras import install_command
from .session import owned
from .session.class_archive import with_archive
from .session.java import java_problem
from .session.spark_version import is_older
from .session.worker_python import quick_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "LOCAL_SETTINGS",
    "Playground",
    "local_session",
    "local_settings",
    "playground",
    "spark_problem",
]

_JAVA: Final = "spark.driver.extraJavaOptions"
_CHECKPOINTS: Final = "spark.sql.streaming.checkpointFileManagerClass"
_LOCAL_FILES: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
LOCAL_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        _JAVA: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        _CHECKPOINTS: _LOCAL_FILES,
        "spark.sql.streaming.noDataProgressEventInterval": "0",
        "spark.log.level": "ERROR",
    }
)
"""What makes Spark start quickly and makes small micro-batches cheap on one machine."""


def local_settings() -> dict[str, str]:
    """``LOCAL_SETTINGS``, and the archive of Spark's classes (``class_archive.py``) when there is
    one here."""
    settings = {**LOCAL_SETTINGS, _JAVA: with_archive(LOCAL_SETTINGS[_JAVA])}
    if is_older(than=(4, 1)):
        settings[_CHECKPOINTS] = _LOCAL_FILES.replace(".checkpointing.", ".")
    return settings


def spark_problem() -> str | None:
    """Why there is no Spark here and what to do about it; ``None`` when there is one."""
    if (problem := java_problem()) is not None:
        return problem
    if importlib.util.find_spec("pyspark") is None:
        return f"pyspark is not installed: {install_command('spark')}"
    return None


def local_session(
    name: str = "aiorocketmq",
    *,
    master: str = "local[2]",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session that knows both formats; ``with`` stops it. Raises ``ConfigError`` where Spark
    cannot run."""
    if (problem := spark_problem()) is not None:
        raise ConfigError(problem)
    from pyspark.sql import SparkSession

    from .registration import register

    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = (
            _worker_python() if master.startswith("local") else sys.executable
        )
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**local_settings(), **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)  # a clone's editable installation is not seen by itself
    return session


@cache
def _worker_python() -> str:
    folder = tempfile.TemporaryDirectory(prefix="aiorocketmq-")
    atexit.register(folder.cleanup)
    return quick_python(Path(folder.name))


class Playground(NamedTuple):
    """Everything that is needed to try something out."""

    spark: SparkSession
    namesrv: str
    store: Path
    """The broker's files, for ``format("rocketmq-store")``."""


@cache
def playground() -> Playground:
    """A session and a cluster (``mqcluster``, a process), one for all calls; both end with this
    process, however it ends, and leave nothing.

    Raises ``ConfigError`` where Spark cannot run, or when the cluster does not start.
    """
    spark = local_session("playground")
    command = [
        sys.executable,
        "-m",
        owned.MODULE,
        "aiorocketmq.tools.mqcluster",
        "--namesrvPort",
        "0",
        "--brokerPort",
        "0",
    ]
    cluster = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # it ends when this end is closed, by whatever
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    atexit.register(_end, spark, cluster)
    printed: dict[str, str] = {}
    while "data" not in printed:
        line = cluster.stdout.readline() if cluster.stdout is not None else ""
        if not line:
            raise ConfigError(
                f"mqcluster ended with exit code {cluster.wait()} before it was ready; what it "
                "says is above"
            )
        name, _, value = line.strip().partition("  ")
        printed[name] = value.strip().partition(" (")[0]
    return Playground(spark, printed["name server"], Path(printed["data"]) / "store")


def _end(spark: SparkSession, cluster: subprocess.Popen[str]) -> None:
    spark.stop()
    cluster.terminate()
    cluster.wait()
