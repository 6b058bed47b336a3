"""How long a micro-batch of 1,000 rows takes, next to the JVM's own rate source with the same
settings.

Both write to nowhere, with a checkpoint; a batch begins as soon as the last one is done. Each round
is a query of its own, of which the median batch counts, without the first ones.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .harness.figures import BenchmarkError, Row, Sample, figure
from .harness.rows import Rows, in_turn
from .harness.servers import work_folder
from .spark_common import Cluster, cluster, fill, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLOOR = "Spark's rate-micro-batch, in the JVM"
ROWS = 1000
BATCHES, WARM_UP = 25, 5
MARK_MS = {1: 100.0, 4: None}
"""Of the default, which is one task."""
_PATIENCE_S = 60


def run(rows: Rows) -> None:
    """As it is without further options, which is one task for all four queues, and with a task for
    each."""
    names = {
        tasks: f"spark micro-batch of 1,000 rows, {tasks} task{'s' if tasks > 1 else ''}"
        for tasks in (1, 4)
    }
    if not rows.wants_any(list(names.values())):
        return
    with (
        work_folder(rows.options.directory) as folder,
        cluster(folder) as server,
        session(folder) as spark,
    ):
        fill(server, "Benchmark", 128, ROWS * (BATCHES + 3))
        for tasks, name in names.items():
            if rows.wants(name):
                with rows.attempt(name):
                    rows.add(_row(name, spark, server, tasks, folder, min(rows.options.rounds, 4)))


def _row(
    name: str, spark: SparkSession, server: Cluster, tasks: int, folder: Path, rounds: int
) -> Row:
    works = (partial(_ours, spark, server, tasks, folder), partial(_rate, spark, tasks, folder))
    for work in works:
        work()
    ours, floor = ([sample["ms"] for sample in of] for of in in_turn(rounds, *works))
    return Row(
        benchmark="",
        name=name,
        figures={"value": figure("ms", ours, floor, mark=MARK_MS[tasks], mark_ratio=2.5)},
        floor_is=FLOOR,
    )


def _ours(spark: SparkSession, server: Cluster, tasks: int, folder: Path) -> Sample:
    reader = spark.readStream.format("rocketmq").option(
        "rocketmq.namesrv.addr", server.namesrv.address
    )
    reader = reader.option("subscribe", "Benchmark").option("startingOffsets", "earliest")
    if tasks > 1:
        reader = reader.option("minPartitions", tasks)
    return _median(reader.option("maxOffsetsPerTrigger", ROWS).load(), folder)


def _rate(spark: SparkSession, tasks: int, folder: Path) -> Sample:
    reader = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS)
        .option("numPartitions", tasks)
    )
    return _median(reader.load(), folder)


def _median(frame: DataFrame, folder: Path) -> Sample:
    """The time of a trigger (ms)."""
    checkpoint = folder / f"checkpoint-{time.monotonic_ns()}"
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="0 seconds").start()
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while len(found := _times(query.recentProgress)) < BATCHES:
            if time.monotonic() > deadline or query.exception() is not None:
                raise BenchmarkError(
                    f"{len(found)} batches in {_PATIENCE_S} s: {query.exception()}"
                )
            time.sleep(0.05)
    finally:
        query.stop()
    return {"ms": statistics.median(found[WARM_UP:BATCHES])}


def _times(progress: list[Any]) -> list[float]:
    """Of whole batches: a share of each queue, which may come to a few rows less."""
    return [
        each["durationMs"]["triggerExecution"]
        for each in progress
        if each["numInputRows"] > ROWS * 0.9
    ]
