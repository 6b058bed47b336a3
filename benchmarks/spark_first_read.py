"""How long the first read of a session takes, which has set nothing but its master: Spark finds the
source, starts the Python processes for it, and reads 1,000 rows.

Each round is a process of its own; the time begins when the session is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .harness.figures import BenchmarkError, Row, Sample, figure
from .harness.rows import Rows, in_turn
from .harness.servers import work_folder
from .spark_common import REPOSITORY, cluster, fill, measured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "spark first read of a plain session"
FLOOR = "a Python source that has its Arrow batches ready"
MARK_S = 2.5
ROWS = 1000


def run(rows: Rows) -> None:
    if not rows.wants(NAME):
        return
    with (
        rows.attempt(NAME),
        work_folder(rows.options.directory) as folder,
        cluster(folder) as server,
    ):
        fill(server, "Benchmark", 128, ROWS)
        works = (
            partial(_first_read, folder, "rocketmq", server.namesrv.address),
            partial(_first_read, folder, "synthetic", ""),
        )
        ours, floor = in_turn(min(rows.options.rounds, 2), *works)
        figures = {
            name: figure(
                "s", [each[key] for each in ours], [each[key] for each in floor], mark=mark
            )
            for name, key, mark in (("value", "s", MARK_S), ("CPU time", "cpu", None))
        }
        rows.add(Row(benchmark="", name=NAME, figures=figures, floor_is=FLOOR))


def _first_read(folder: Path, source: str, namesrv: str) -> Sample:
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.spark_first_read", source, namesrv, str(ROWS)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        timeout=120,
    )
    found: Sample = json.loads(done.stdout)
    return found


def main(source: str, namesrv: str, count: str) -> None:
    """In the process of one round."""
    from pyspark.sql import SparkSession

    from aiorocketmq.spark_connector import register

    from .spark_synthetic import SyntheticSource

    spark = SparkSession.builder.master("local[2]").getOrCreate()
    register(spark)
    spark.dataSource.register(SyntheticSource)
    options = {"rocketmq.namesrv.addr": namesrv, "subscribe": "Benchmark"}
    if source == "synthetic":
        options = {"rows": count, "size": "128"}
    sample = measured(lambda: _read_all(spark, source, options, int(count)), 1, spark)
    spark.stop()
    print(json.dumps({"s": 1 / sample["rate"], "cpu": sample["cpu"] / 1e6}))


def _read_all(spark: SparkSession, source: str, options: dict[str, str], count: int) -> None:
    found = spark.read.format(source).options(**options).load().count()
    if found != count:
        raise BenchmarkError(f"{found} rows instead of {count}")


if __name__ == "__main__":
    main(*sys.argv[1:])
