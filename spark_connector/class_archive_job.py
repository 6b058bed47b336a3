"""``python -m aiorocketmq.spark_connector.class_archive_job JAVA_OPTIONS``: has Java load what
local sessions usually need.

Both formats as batch and stream, and what queries do: JSON, CSV, groups, windows, joins, Parquet.
Its results are nobody's.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from .local import LOCAL_SETTINGS, Playground, local_session, playground
from .payload import csv_columns, json_columns, to_csv_body, to_json_body
from .session.owned import end_with_owner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_JAVA = "spark.driver.extraJavaOptions"
_TOPIC = "Classes"


def run(java_options: str) -> None:
    """The job; what it makes is gone afterwards."""
    local_session("classes", settings={_JAVA: f"{LOCAL_SETTINGS[_JAVA]} {java_options}"})
    everything = playground()  # takes the session that is there
    with tempfile.TemporaryDirectory() as folder:
        _write(everything, Path(folder))
        _read(everything)
        _stream(everything, Path(folder))


def _write(everything: Playground, folder: Path) -> None:
    spark, namesrv, _ = everything
    (folder / "files").mkdir()
    (folder / "files" / "rows.csv").write_text("name,at\n" + "two words,2026-05-01 10:00:00\n" * 10)
    rows = (
        spark.readStream.option("header", True)
        .schema("name string, at timestamp")
        .csv(str(folder / "files"))
    )
    writer = (
        to_json_body(rows, tags="name")
        .writeStream.format("rocketmq")
        .options(nameServer=namesrv, topic=_TOPIC)
    )
    writer.option("checkpointLocation", str(folder / "first")).trigger(
        availableNow=True
    ).start().awaitTermination()
    more = to_csv_body(
        spark.createDataFrame([("one", 1.5), ("more", None)], "name string, price double"),
        keys="name",
    )
    more.write.format("rocketmq").mode("append").options(
        nameServer=namesrv, topic=f"{_TOPIC}-2"
    ).save()


def _read(everything: Playground) -> None:
    spark, namesrv, store = everything
    sent = spark.read.format("rocketmq").options(nameServer=namesrv, subscribe=f"{_TOPIC}-2").load()
    prices = csv_columns(sent, "name string, price double", keep=["queueOffset"])
    stored = spark.read.format("rocketmq-store").option("topic", _TOPIC).load(str(store))
    words = json_columns(stored, "name string").select(
        F.explode(F.split(F.trim("name"), " ")).alias("word")
    )
    words.groupBy("word").count().orderBy(F.desc("count"), "word").limit(3).collect()
    prices.join(stored, "queueOffset").where("price > 1").select("name", "tags").distinct().count()


def _stream(everything: Playground, folder: Path) -> None:
    spark, namesrv, _ = everything

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").parquet(str(folder / "results"))
        batch.orderBy("name").collect()

    source = spark.readStream.format("rocketmq").options(
        nameServer=namesrv, subscribe=_TOPIC, startingOffsets="earliest"
    )
    rows = json_columns(source.load(), "name string, at timestamp").withWatermark("at", "1 minute")
    counts = rows.groupBy("name", F.session_window("at", "5 minutes")).count()
    query = counts.writeStream.foreachBatch(write).option(
        "checkpointLocation", str(folder / "second")
    )
    query.trigger(availableNow=True).start().awaitTermination()
    spark.read.parquet(str(folder / "results")).count()


if __name__ == "__main__":
    # Java would write the archive, for half a minute, where it is told to end
    end_with_owner(getattr(signal, "SIGKILL", signal.SIGTERM))
    run(sys.argv[1])
