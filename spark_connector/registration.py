"""Making both formats known to a session by hand: where Spark does not find them by itself, as in a
clone of the repository, or where only a zip was shipped (``--py-files``)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..client.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_DEFAULT_PYTHON: Final = "python3"
"""What Spark starts when nobody has set ``PYSPARK_PYTHON``."""
_PUT_BY_SPARK: Final = {
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_LOCAL_DIRS": tempfile.gettempdir(),
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""What Spark 4.3 adds to the environment of a format, a map that all its queries share, when the
process for a stream's offsets starts (PythonStreamingSourceRunner): a task that another query
writes down meanwhile cannot be read (OptionalDataException). Where they are there already they only
get another value, which does no harm. Nobody ever sees the values here."""


def register(session: SparkSession) -> None:
    """Make ``format("rocketmq")`` and ``format("rocketmq-store")`` known to this session.

    Raises ``ConfigError`` when the Python that Spark starts is another one, without this package.
    """
    from . import RocketMQDataSource, RocketMQStoreDataSource

    environment: dict[str, Any] = {}
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        if (problem := _problem_of(session.sparkContext.pythonExec)) is not None:
            raise ConfigError(problem)
        environment = session.sparkContext.environment
    with _with_what_spark_puts(environment), _with_our_zip(environment):
        for source in (RocketMQDataSource, RocketMQStoreDataSource):
            session.dataSource.register(source)


@contextmanager
def _with_what_spark_puts(environment: dict[str, Any]) -> Iterator[None]:
    added = {name: value for name, value in _PUT_BY_SPARK.items() if name not in environment}
    environment.update(added)
    try:
        yield
    finally:
        for name in added:
            del environment[name]


@contextmanager
def _with_our_zip(environment: dict[str, Any]) -> Iterator[None]:
    """What is registered meanwhile is run with the zip, if this package came in one, on its path.

    Spark's workers have what came with ``--py-files`` on their path, the process that asks a stream
    for offsets has not. Executors do not have the zip in the same place, and do not mind.
    """
    folder = Path(__file__).parents[2]
    before = environment.get("PYTHONPATH")
    if folder.is_file():
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), before]))
    try:
        yield
    finally:
        environment.pop("PYTHONPATH", None)
        if before is not None:
            environment["PYTHONPATH"] = before


def _problem_of(python: str) -> str | None:
    """Why the Python of Spark's processes is none for us; None for one that was chosen."""
    found = shutil.which(python)
    if python != _DEFAULT_PYTHON or found is None:
        return None
    if Path(found).parent == Path(sys.executable).parent:
        return None
    command = [found, "-c", f"import {__package__}.data_source"]
    if subprocess.run(command, capture_output=True, check=False).returncode == 0:
        return None
    return (
        f"Spark starts {found} for its Python processes, which does not have what this program has "
        f"({sys.executable}): set the environment variable PYSPARK_PYTHON to the Python to start, "
        "before the session is made"
    )
