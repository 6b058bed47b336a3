"""Whether it all came out right: topics and files against a batch computation over the inputs, and
against what the generator knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from aiorocketmq.spark_connector.payload import json_columns

from .driver import Progress
from .job import good_rows, revenue
from .orders import Inputs, Revenue
from .topics import ORDER, PAYMENT, Topics

_RESULT = "id string, begin string, category string, orders bigint, cents bigint"


class Check(NamedTuple):
    """One thing that has to hold."""

    what: str
    good: bool
    found: str


class Outcome(NamedTuple):
    """What there is at the end."""

    checks: list[Check]
    revenue: Revenue
    reasons: Counter[str]
    """Of dead rows."""

    @property
    def good(self) -> bool:
        return all(check.good for check in self.checks)


def check(
    spark: SparkSession,
    namesrv: str,
    topics: Topics,
    folder: Path,
    inputs: Inputs,
    progress: Sequence[Progress],
) -> Outcome:
    """Everything is read once more, as a batch."""
    orders, payments = (_read(spark, namesrv, name) for name in (topics.orders, topics.payments))
    sent = Counter(message.topic for message in inputs.sent())
    there = Counter({topics.orders: orders.count(), topics.payments: payments.count()})
    batch = _revenue(revenue(good_rows(orders, ORDER), good_rows(payments, PAYMENT)))

    results = json_columns(_read(spark, namesrv, topics.revenue), _RESULT)
    files = spark.read.parquet(str(folder / "revenue"))
    dead = _read(spark, namesrv, topics.dead).collect()
    reasons = {row["keys"]: (row["properties"]["reason"], bytes(row["body"])) for row in dead}
    late = sum(each["numRowsDroppedByWatermark"] for p in progress for each in p["stateOperators"])
    checks = [
        Check("every message sent is in its topic", there == sent, f"{there.total():,}"),
        Check("a batch over the topics gives what the generator expects",
              batch == inputs.revenue, f"{len(batch):,} rows"),
        Check("the topic of results has what the batch gives, each row once",
              (_revenue(results), results.count()) == (batch, len(batch)),
              f"{results.count():,} messages"),
        Check("Parquet has what the batch gives",
              (_revenue(files), files.count()) == (batch, len(batch)), f"{files.count():,} rows"),
        Check("every broken message is among the dead rows, once, as it was, with its reason",
              (reasons, len(dead)) == (inputs.dead, len(inputs.dead)), f"{len(dead):,} messages"),
        Check("no row was too late for its window", late == 0, f"{late} dropped"),
        _restart(progress),
    ]  # fmt: skip
    return Outcome(checks, batch, Counter(reason for reason, _ in reasons.values()))


def _restart(progress: Sequence[Progress]) -> Check:
    """Of the query with the join: each micro-batch is done once, whichever driver did it."""
    batches = [each for each in progress if each["name"] == "revenue"]
    lives = list(dict.fromkeys(each["runId"] for each in batches))
    numbers = [each["batchId"] for each in batches]
    first = next(each["batchId"] for each in batches if each["runId"] == lives[-1])
    return Check(
        "the second driver went on where the first was",
        len(lives) == 2 and numbers == sorted(set(numbers)),
        f"with micro-batch {first}",
    )


def _read(spark: SparkSession, namesrv: str, topic: str) -> DataFrame:
    reader = spark.read.format("rocketmq").option("rocketmq.namesrv.addr", namesrv)
    return reader.option("subscribe", topic).option("includeProperties", True).load()


def _revenue(rows: DataFrame) -> Revenue:
    return {row["id"]: (row["orders"], row["cents"]) for row in rows.collect()}
