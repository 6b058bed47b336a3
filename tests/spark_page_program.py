"""Runs the blocks about Spark of a page, one after the other, against a cluster in its process. It
imports nothing of the tests: the Python that runs it has a wheel, where Spark finds the formats by
itself.

    python -P spark_page_program.py FOLDER < list of (language, code) as JSON

Sessions, frames and options that a page takes for granted are made here; a query that a block
starts takes all that is there and is stopped.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from aiorocketmq import LocalCluster, Message, sync
from aiorocketmq.spark_connector.local import local_settings

ORDERS = 3


class Page:
    """What blocks see, and what is made for them or done with what they leave."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._address = cluster.namesrv_address
        self._store = cluster.data_dir / "store"
        items = spark.createDataFrame([("a book",)], "item string")
        items.createOrReplaceTempView("items")
        self.names: dict[str, Any] = {
            "spark": spark,
            "cluster": {"rocketmq.namesrv.addr": self._address},
            "df": spark.range(5),
            "rows": self._stream(),
            "totals": self._stream().groupBy("city").count(),
        }

    def _stream(self) -> DataFrame:
        source = self._spark.readStream.format("rocketmq")
        options = {"rocketmq.namesrv.addr": self._address, "topic": "Orders"}
        options |= {"startingOffsets": "earliest", "includeProperties": "true"}
        return source.options(**options, propertyColumns="city:string").load()

    def run(self, language: str, code: str) -> None:
        code = self._here(code)
        if language == "sql":
            for statement in filter(str.strip, code.split(";")):
                self._spark.sql(statement).collect()
            return
        if "rows.writeStream" in code:  # what is written are all columns of a frame
            self.names["rows"] = self._stream().select("body")
        exec(compile(code, "block", "exec"), self.names)
        query = self.names.pop("query", None)
        if isinstance(query, StreamingQuery):
            query.processAllAvailable()
            query.stop()
        elif "def write(" in code:
            self.names["write"](self._spark.sql("SELECT 'Paris' city, 3L count"), 0)
        self.names["rows"] = self._stream()
        for name in ("orders", "items", "old", "batch"):
            frame = self.names.pop(name, None) if name in _assigned(code) else None
            if isinstance(frame, DataFrame) and not frame.isStreaming:
                assert frame.count() >= ORDERS, f"{name} of\n{code}"
                self.names[name] = frame

    def _here(self, code: str) -> str:
        for usual, here in (
            ("ns1:9876;ns2:9876", self._address),
            ("ns1:9876", self._address),
            ("localhost:9876", self._address),
            ("/data/", f"{self._folder}/"),
            ("/archive/broker-a/store", str(self._store)),
            ("start_http_server(9400)", "start_http_server(0)"),
        ):
            code = code.replace(usual, here)
        return code


def _assigned(code: str) -> set[str]:
    return {line.partition(" = ")[0] for line in code.splitlines() if " = " in line}


def session() -> SparkSession:
    """Without ``register``: as any program has one."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("a page")
    for name, value in local_settings().items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def fill(cluster: LocalCluster) -> None:
    with sync.Producer("shop", namesrv=cluster.namesrv_address) as producer:
        for number in range(ORDERS):
            body = json.dumps({"number": number, "item": "a book", "price": 200.0})
            properties = {"city": "Paris", "amount": "4.5"}
            order = Message("Orders", body.encode(), tags="new", properties=properties)
            producer.send(order)


def main(blocks: list[tuple[str, str]], folder: Path) -> None:
    begun = time.monotonic()
    with LocalCluster() as cluster, session() as spark:
        fill(cluster)
        page = Page(spark, cluster, folder)
        for language, code in blocks:
            page.run(language, code)
            print(f"{time.monotonic() - begun:.1f} s", code.splitlines()[0], flush=True)


if __name__ == "__main__":
    main(json.load(sys.stdin), Path(sys.argv[1]))
