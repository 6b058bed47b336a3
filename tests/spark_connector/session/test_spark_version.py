"""What a Spark that is too old is told."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the extra [spark] is not installed")

import pyspark
from pyspark.sql.types import StructType

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.spark_connector import RocketMQDataSource
from aiorocketmq.spark_connector.session.spark_version import problem_with

SCHEMA = StructType().add("topic", "string").add("body", "binary")
OPTIONS = {"nameServer": "ns:1", "topic": "T"}


@pytest.mark.parametrize(
    ("version", "possible"),
    [
        ("4.1.4", False),
        ("3.5.9", False),
        ("4.2.0", True),
        ("4.2.0.dev1", True),
        ("4.10.1", True),
        ("5.0.0", True),
        ("unknown", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, possible: bool) -> None:
    problem = problem_with("this", (4, 2), version)
    assert (problem is None) == possible
    assert possible or str(problem) == f"this needs Spark 4.2 or newer, this is {version}"


def test_a_stream_that_cannot_be_read_says_so_at_the_first_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``streamReader`` must not raise: Spark then tells of an error of its own."""
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    reader = RocketMQDataSource(OPTIONS).streamReader(SCHEMA)
    for ask in (reader.initialOffset, reader.latestOffset):
        with pytest.raises(ConfigError, match=r"reading a stream needs Spark 4\.2 .* is 4\.1\.4"):
            ask()
    reader.stop()


def test_a_stream_that_cannot_be_written_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    with pytest.raises(ConfigError, match=r"writing a stream needs Spark 4\.1 or newer"):
        RocketMQDataSource(OPTIONS).streamWriter(SCHEMA, False)
    assert RocketMQDataSource(OPTIONS).writer(SCHEMA, False)
