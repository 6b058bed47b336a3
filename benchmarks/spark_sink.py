"""What a row costs Spark when it goes to a topic, with dedup ids, next to a Python sink that only
counts Arrow rows.

The rows lie ready in Spark's memory. A broker and Spark (``local[2]``) share the machine; rounds of
both begin with pages that are there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .cpu import cpu_ns
from .harness.figures import Goal, Goals, Row, Sample, figure, figures_of
from .harness.pages import fetch_pages
from .harness.rows import Options, Rows, in_turn
from .harness.servers import create_topic, work_folder
from .spark_common import WARM_UP, Cluster, cluster, measured, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLOOR = "a Python sink that only counts Arrow rows"
ROWS = {128: 300_000, 1024: 100_000}
SHAPES = {
    "body only": [],
    "keys and tags": ["concat('order-', id) as keys", "concat('Tag', id % 3) as tags"],
    "with properties": [
        "concat('order-', id) as keys", "concat('Tag', id % 3) as tags",
        "map('colour', 'blue', 'region', concat('eu-', id % 10)) as properties",
    ],
}  # fmt: skip
"""What is written beside the bodies."""
GOALS = {"body only": Goal(mark_ratio=1 / 0.65), "keys and tags": Goal(mark_ratio=1 / 0.45)}
"""For bodies of 128 bytes: 65 and 45 % of the floor's rows a second (and as much of its CPU)."""
TASKS = 4


def run(rows: Rows) -> None:
    """Bodies of 128 bytes and 1 KiB, alone and with what goes along."""
    names = {(size, shape): f"spark sink, {size} B, {shape}" for size in ROWS for shape in SHAPES}
    if not rows.wants_any(list(names.values())):
        return
    with (
        work_folder(rows.options.directory) as folder,
        cluster(folder) as server,
        session(folder) as spark,
    ):
        create_topic(server.broker, "Benchmark")
        for (size, shape), name in names.items():
            if rows.wants(name):
                with rows.attempt(name):
                    count = 20_000 if rows.options.small else ROWS[size]
                    frame = _ready(spark, size, SHAPES[shape], count)
                    goal = GOALS.get(shape) if size == 128 else None
                    goals = dict.fromkeys(("rate", "cpu"), goal) if goal else {}
                    rows.add(_row(name, spark, server, frame, goals, rows.options, folder))


def _ready(spark: SparkSession, size: int, columns: list[str], count: int) -> DataFrame:
    """Rows in memory."""
    body = f"cast(lpad(cast(id as string), {size}, 'x') as binary) as body"
    frame = spark.range(0, count, 1, TASKS).selectExpr(body, *columns).cache()
    frame.count()
    return frame


def _row(
    name: str,
    spark: SparkSession,
    server: Cluster,
    frame: DataFrame,
    goals: Goals,
    options: Options,
    folder: Path,
) -> Row:
    count = frame.count()

    def write() -> Sample:
        writer = frame.write.format("rocketmq").option(
            "rocketmq.namesrv.addr", server.namesrv.address
        )
        fetch_pages(folder)
        before = cpu_ns(server.broker.pid)
        sample = measured(
            lambda: writer.option("topic", "Benchmark").mode("append").save(), count, spark
        )
        return {**sample, "broker": (cpu_ns(server.broker.pid) - before) / 1000 / count}

    def only_count() -> Sample:
        fetch_pages(folder)
        return measured(lambda: frame.write.format("synthetic").mode("append").save(), count, spark)

    try:
        for _ in range(WARM_UP):
            write(), only_count()
        ours, floor = in_turn(options.rounds, write, only_count)
    finally:
        frame.unpersist()
    broker = [sample.pop("broker") for sample in ours]
    figures = figures_of(ours, floor, goals)
    figures["broker CPU"] = figure("µs/message", broker)
    return Row(benchmark="", name=name, figures=figures, floor_is=FLOOR)
