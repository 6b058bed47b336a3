"""What a row costs Spark when it comes from a topic, next to rows that a Python data source has
ready.

A broker and Spark (``local[2]``) share the machine. In the same run, as figures of their own: the
same rows from Parquet, the same messages from the files of the broker's store
(``format("rocketmq-store")``), and by a plain PullConsumer; the broker's CPU time is printed beside
that of Spark and its workers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .cpu import cpu_ns
from .harness.figures import Figure, Goal, Row, Sample, figure, figures_of
from .harness.rows import Options, Rows, in_turn
from .harness.servers import work_folder
from .spark_common import WARM_UP, Cluster, cluster, fill, measured, session, to_nowhere

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLOOR = "a Python source that has its Arrow batches ready"
ROWS = {128: 400_000, 1024: 100_000}
GOALS = {False: 1 / 0.80, True: 1 / 0.85}
"""How many times slower than the floor at most, without and with the map of properties: 80 and 85 %
of its rows a second. For bodies of 128 bytes. (Of CPU time as well: it says something on a machine
that does other things, too.)"""
SINGLE = "spark source, 128 B, single properties"
PROPERTIES = "region:string,WAIT:boolean"
SINGLE_FLOOR = "the same read without these columns"
SINGLE_GOAL = 1.15
"""How many times longer the read takes with columns of single properties, at most."""


def run(rows: Rows) -> None:
    """128 bytes and 1 KiB, with and without properties; of the first also with single ones."""
    names = {(size, with_map): _name(size, with_map) for size in ROWS for with_map in (False, True)}
    if not rows.wants_any([*names.values(), SINGLE]):
        return
    with (
        work_folder(rows.options.directory) as folder,
        cluster(folder) as server,
        session(folder) as spark,
    ):
        for size in ROWS:
            count = 20_000 if rows.options.small else ROWS[size]
            fill(server, f"Benchmark-{size}", size, count)
            for with_map in (False, True):
                name = names[size, with_map]
                if rows.wants(name):
                    with rows.attempt(name):
                        rows.add(
                            _Shape(name, size, with_map, count, folder).row(
                                spark, server, rows.options
                            )
                        )
            if size == 128 and rows.wants(SINGLE):
                with rows.attempt(SINGLE):
                    rows.add(_single(spark, server, count, rows.options))


def _name(size: int, with_map: bool) -> str:
    return f"spark source, {size} B, {'with' if with_map else 'without'} properties"


def _single(spark: SparkSession, server: Cluster, count: int, options: Options) -> Row:
    """With two properties as columns, next to the read without."""
    works: list[Callable[[], Sample]] = [
        lambda: measured(lambda: to_nowhere(_read(spark, server, PROPERTIES)), count, spark),
        lambda: measured(lambda: to_nowhere(_read(spark, server, "")), count, spark),
    ]
    for work in works * WARM_UP:
        work()
    ours, floor = in_turn(options.rounds, *works)
    figures = figures_of(ours, floor, dict.fromkeys(("rate", "cpu"), Goal(mark_ratio=SINGLE_GOAL)))
    return Row(benchmark="", name=SINGLE, figures=figures, floor_is=SINGLE_FLOOR)


def _read(spark: SparkSession, server: Cluster, properties: str) -> DataFrame:
    reader = spark.read.format("rocketmq").option("rocketmq.namesrv.addr", server.namesrv.address)
    return reader.option("propertyColumns", properties).option("subscribe", "Benchmark-128").load()


class _Shape:
    """One row of the table."""

    def __init__(self, name: str, size: int, with_map: bool, count: int, folder: Path) -> None:
        self.name, self.size, self.with_map, self.count = name, size, with_map, count
        self._parquet = str(folder / f"parquet-{size}-{with_map}")
        self._files = str(folder / "broker" / "store")

    def row(self, spark: SparkSession, server: Cluster, options: Options) -> Row:
        self._topic(spark, server).write.option("compression", "none").parquet(self._parquet)
        works: tuple[Callable[[], dict[str, float]], ...] = (
            lambda: self._read(spark, server),
            lambda: measured(lambda: to_nowhere(self._synthetic(spark)), self.count, spark),
            lambda: measured(
                lambda: to_nowhere(spark.read.parquet(self._parquet)), self.count, spark
            ),
            lambda: measured(lambda: to_nowhere(self._store(spark)), self.count, spark),
            lambda: self._pull(server),
        )
        for work in (*works[2:4], *works[:2] * WARM_UP):
            work()
        ours, floor, parquet, store, pull = in_turn(options.rounds, *works)
        broker = [sample.pop("broker") for sample in ours]
        goal = Goal(mark_ratio=GOALS[self.with_map])
        goals = {"rate": goal, "cpu": goal} if self.size == 128 else {}
        figures = figures_of(ours, floor, goals)
        figures["broker CPU"] = figure("µs/message", broker)
        figures |= (
            _told("Parquet", parquet) | _told("store files", store) | _told("PullConsumer", pull)
        )
        return Row(benchmark="", name=self.name, figures=figures, floor_is=FLOOR)

    def _topic(self, spark: SparkSession, server: Cluster) -> DataFrame:
        reader = spark.read.format("rocketmq").option(
            "rocketmq.namesrv.addr", server.namesrv.address
        )
        return (
            reader.option("includeProperties", self.with_map)
            .option("subscribe", f"Benchmark-{self.size}")
            .load()
        )

    def _synthetic(self, spark: SparkSession) -> DataFrame:
        reader = spark.read.format("synthetic").option("rows", self.count).option("size", self.size)
        return reader.option("includeProperties", self.with_map).load()

    def _store(self, spark: SparkSession) -> DataFrame:
        reader = spark.read.format("rocketmq-store").option("topic", f"Benchmark-{self.size}")
        return (
            reader.option("includeProperties", self.with_map)
            .option("partitionBy", "queue")
            .load(self._files)
        )

    def _read(self, spark: SparkSession, server: Cluster) -> Sample:
        before = cpu_ns(server.broker.pid)
        sample = measured(lambda: to_nowhere(self._topic(spark, server)), self.count, spark)
        return {**sample, "broker": (cpu_ns(server.broker.pid) - before) / 1000 / self.count}

    def _pull(self, server: Cluster) -> Sample:
        """A new group with a PullConsumer, in a process of its own."""
        command = [
            sys.executable,
            "-m",
            "benchmarks.spark_consumer",
            server.namesrv.address,
            f"Benchmark-{self.size}",
        ]
        done = subprocess.run(
            [*command, str(self.count)], stdout=subprocess.PIPE, text=True, check=True, timeout=60
        )
        found = json.loads(done.stdout)
        return {
            "cpu": found["cpu"] / found["messages"] * 1e6,
            "rate": found["messages"] / found["seconds"],
        }


def _told(name: str, samples: list[Sample]) -> dict[str, Figure]:
    return {
        f"{name}, rows/s": figure(
            "rows/s", [sample["rate"] for sample in samples], more_is_better=True
        ),
        f"{name}, CPU": figure("µs/row", [sample["cpu"] for sample in samples]),
    }
