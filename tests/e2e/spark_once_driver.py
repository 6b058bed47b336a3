"""A query that writes a folder of rows exactly once, by a driver that can be killed:
``python -m tests.e2e.spark_once_driver NAMESRV TOPIC FOLDER``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions

from aiorocketmq.spark_connector.local import local_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

REPOSITORY = Path(__file__).resolve().parents[2]
GUARANTEE = {"guarantee": "exactly_once"}


def rows_of(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("body string").format("json").load(str(folder / "rows"))


def partition_id() -> Column:
    return functions.concat(functions.lit("p"), functions.spark_partition_id())


def begun(
    frame: DataFrame, namesrv: str, topic: str, folder: Path, **options: str
) -> StreamingQuery:
    """In many frames, so that somebody can come in between."""
    return (
        frame.writeStream.format("rocketmq")
        .options(nameServer=namesrv, topic=topic, batchBytes="1024", maxInFlight="2")
        .options(**GUARANTEE, **options)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


@contextlib.contextmanager
def killed_at_the_end(namesrv: str, topic: str, folder: Path) -> Iterator[None]:
    """The driver, while it works; then all its processes are killed at once."""
    command = [sys.executable, "-m", "tests.e2e.spark_once_driver", namesrv, topic, str(folder)]
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    with (folder / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        for pid in [driver.pid, *descendants(driver.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        driver.wait()


def descendants(pid: int) -> list[int]:
    """Java, and Python below it, which has process groups of its own."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found, waiting = [], [pid]
    while waiting:
        above = waiting.pop()
        below = [each for each, parent in parents.items() if parent == above]
        found += below
        waiting += below
    return found


def main(namesrv: str, topic: str, folder: str) -> None:
    with local_session(master="local[1]") as spark:
        rows = rows_of(spark, Path(folder)).withColumn("tags", partition_id())
        begun(rows, namesrv, topic, Path(folder)).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
