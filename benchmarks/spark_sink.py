"""What a row costs Spark when it goes to a topic, with dedup ids, next to a Python sink that only
counts Arrow rows.

The rows lie ready in Spark's memory. A broker and Spark (``local[2]``) share the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cpu import cpu_ns
from .harness.figures import Goal, Row, Sample, figure, figures_of
from .harness.rows import Options, Rows, in_turn
from .harness.servers import create_topic, work_folder
from .spark_common import Cluster, cluster, measured, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLOOR = "a Python sink that only counts Arrow rows"
ROWS = {128: 300_000, 1024: 100_000}
GOALS = {128: {"rate": Goal(200_000)}, 1024: {}}
TASKS = 4


def run(rows: Rows) -> None:
    """128 bytes and 1 KiB, with and without properties."""
    names = {(size, with_map): _name(size, with_map) for size in ROWS for with_map in (False, True)}
    if not rows.wants_any(list(names.values())):
        return
    with (
        work_folder(rows.options.directory) as folder,
        cluster(folder) as server,
        session(folder) as spark,
    ):
        create_topic(server.broker, "Benchmark")
        for (size, with_map), name in names.items():
            if rows.wants(name):
                with rows.attempt(name):
                    count = 20_000 if rows.options.small else ROWS[size]
                    rows.add(
                        _row(
                            name,
                            spark,
                            server,
                            _ready(spark, size, with_map, count),
                            size,
                            rows.options,
                        )
                    )


def _name(size: int, with_map: bool) -> str:
    return f"spark sink, {size} B, {'with' if with_map else 'without'} properties"


def _ready(spark: SparkSession, size: int, with_map: bool, count: int) -> DataFrame:
    """Rows in memory: bodies, and keys, tags and two properties."""
    columns = [f"cast(lpad(cast(id as string), {size}, 'x') as binary) as body"]
    if with_map:
        columns += ["concat('order-', id) as keys", "concat('Tag', id % 3) as tags"]
        columns += ["map('colour', 'blue', 'region', concat('eu-', id % 10)) as properties"]
    frame = spark.range(0, count, 1, TASKS).selectExpr(*columns).cache()
    frame.count()
    return frame


def _row(
    name: str, spark: SparkSession, server: Cluster, frame: DataFrame, size: int, options: Options
) -> Row:
    count = frame.count()

    def write() -> Sample:
        writer = frame.write.format("rocketmq").option(
            "rocketmq.namesrv.addr", server.namesrv.address
        )
        before = cpu_ns(server.broker.pid)
        sample = measured(
            lambda: writer.option("topic", "Benchmark").mode("append").save(), count, spark
        )
        return {**sample, "broker": (cpu_ns(server.broker.pid) - before) / 1000 / count}

    def only_count() -> Sample:
        return measured(lambda: frame.write.format("synthetic").mode("append").save(), count, spark)

    try:
        write(), only_count()
        ours, floor = in_turn(min(options.rounds, 4), write, only_count)
    finally:
        frame.unpersist()
    broker = [sample.pop("broker") for sample in ours]
    figures = figures_of(ours, floor, GOALS[size])
    figures["broker CPU"] = figure("µs/message", broker)
    return Row(benchmark="", name=name, figures=figures, floor_is=FLOOR)
