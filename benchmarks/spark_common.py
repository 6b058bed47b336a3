"""What the benchmarks of the Spark connector share: a session, a topic to read, CPU time of Spark
and all its workers.

The floor is a Python data source that does nothing but hand over Arrow batches of the same schema,
made before: what Spark takes for rows from Python at the least.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aiorocketmq import Message, Producer, split
from aiorocketmq.spark_connector.session.java import java_problem

from .harness.figures import BenchmarkError, Sample
from .harness.servers import Server, broker, create_topic, name_server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPOSITORY = Path(__file__).resolve().parent.parent
LOCAL_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": LOCAL_FILES,
    "spark.log.level": "ERROR",
}
"""The three settings that docs/spark.md advises are among them; each side of a comparison has the
same."""
WARM_UP = 15
"""Rounds of each side before the first that counts: the JVM compiles what it is going to run, which
takes a job of half a second 1.6 times its CPU time at first. Of the first shape of a session the
rounds get cheaper until the fifteenth."""
_TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")


class Cluster(NamedTuple):
    """A name server and a broker on a fresh store."""

    namesrv: Server
    broker: Server


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    patient = {"waitTimeMillsInSendQueue": 60_000}  # filling a topic is not what is measured
    with (
        name_server(folder) as namesrv,
        broker(folder, namesrvAddr=namesrv.address, **patient) as server,
    ):
        yield Cluster(namesrv, server)


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """Spark with the connector registered. Raises ``BenchmarkError`` where it cannot run."""
    if (problem := java_problem()) is not None:
        raise BenchmarkError(problem)
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise BenchmarkError("pyspark is not installed: make setup, with Java 17") from None

    from aiorocketmq.spark_connector import register

    from .spark_synthetic import SyntheticSource

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")])
    )
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "spark")
    builder = SparkSession.builder.master("local[2]").appName("aiorocketmq benchmarks")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    try:
        register(spark)
        spark.dataSource.register(SyntheticSource)
        yield spark
    finally:
        spark.stop()


def fill(server: Cluster, topic: str, size: int, count: int) -> None:
    """Messages in four queues: with a key, tags, two properties of the user's, the unique key, and
    what a batch adds."""
    create_topic(server.broker, topic)
    body = os.urandom(size)

    def messages() -> Iterator[Message]:
        for number in range(count):
            own = {"colour": "blue", "region": f"eu-{number % 10}"}
            yield Message(
                topic, body, tags=f"Tag{number % 3}", keys=[f"order-{number}"], properties=own
            )

    async def send() -> None:
        async with Producer("Benchmark", namesrv=server.namesrv.address) as producer:
            waiting: set[asyncio.Task[Any]] = set()
            async with asyncio.TaskGroup() as tasks:
                for part in split(messages(), 256 << 10):
                    waiting.add(tasks.create_task(producer.send(part)))
                    if len(waiting) >= 4:
                        _, waiting = await asyncio.wait(
                            waiting, return_when=asyncio.FIRST_COMPLETED
                        )

    asyncio.run(send())


def measured(work: Callable[[], Any], rows: int, spark: SparkSession) -> Sample:
    """Wall time and CPU time (JVM and Python workers) of one job, per row."""
    jvm = jvm_pid(spark)
    before, begin = tree_cpu_us(jvm), time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    return {"cpu": (tree_cpu_us(jvm) - before) / rows, "rate": rows / seconds}


def to_nowhere(frame: DataFrame) -> None:
    """Every row is made and thrown away."""
    frame.write.format("noop").mode("overwrite").save()


def jvm_pid(spark: SparkSession) -> int:
    jvm: Any = spark._jvm
    return int(jvm.ProcessHandle.current().pid())


def tree_cpu_us(pid: int) -> float:
    """User and system time of a process, of all below it, and of those that have ended there."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        own = int(path.parent.name)
        children.setdefault(int(fields[1]), []).append(own)
        ticks[own] = sum(map(int, fields[11:15]))
    found, waiting = 0, [pid]
    while waiting:
        own = waiting.pop()
        found += ticks.get(own, 0)
        waiting += children.get(own, ())
    return found * _TICK_US
