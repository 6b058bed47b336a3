"""The classes that Spark calls, in its terms; without a JVM."""

from __future__ import annotations

import logging
import pickle
import re
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import IntegerType, StructType

from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.spark_connector import RocketMQDataSource
from aiorocketmq.spark_connector.access import broker_access
from aiorocketmq.spark_connector.access.errors import DataLossError
from aiorocketmq.spark_connector.access.options import parse_source_options
from aiorocketmq.spark_connector.source.batch import RangesPartition, RocketMQReader
from aiorocketmq.spark_connector.source.stream import RocketMQStreamReader

from .simulated_cluster import SimCluster

ONE, TWO = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimCluster:
    made = SimCluster()
    made.add(ONE, 0, 100)
    made.add(TWO, 0, 50)
    monkeypatch.setattr(broker_access, "BrokerAccess", lambda *_args, **_options: made)
    return made


def given(**options: str) -> CaseInsensitiveDict:
    return CaseInsensitiveDict({"namesrv": "ns:1", "subscribe": "t", **options})


def batch_reader(**options: str) -> RocketMQReader:
    return RocketMQReader(parse_source_options(given(**options), streaming=False), ("body",))


def stream_reader(**options: str) -> RocketMQStreamReader:
    return RocketMQStreamReader(parse_source_options(given(**options), streaming=True), ("body",))


def ranges(partitions: list[InputPartition]) -> list[list[str]]:
    """As executors get them."""
    travelled = pickle.loads(pickle.dumps(partitions))
    assert type(partitions) is list, "Spark takes no other sequence"
    assert all(isinstance(each, RangesPartition) for each in travelled)
    assert all(each.hints == {"a": {0: "a:0"}} for each in travelled)
    return [[str(one) for one in each.ranges] for each in travelled]


def plain(end: dict[str, Any]) -> dict[str, Any]:
    """The offsets of a checkpoint."""
    return {name: value for name, value in end.items() if not name.startswith("#")}


# --- batch
# --------------------------------------------------------------------------------------------------


def test_a_batch_is_planned(cluster: SimCluster) -> None:
    assert ranges(batch_reader(minPartitions="2").partitions()) == [
        ["t/a/0 [0, 100)"],
        ["t/a/1 [0, 50)"],
    ]
    assert ranges(batch_reader().partitions()) == [["t/a/0 [0, 100)", "t/a/1 [0, 50)"]], (
        "not worth two tasks"
    )
    assert len(batch_reader(maxRecordsPerPartition="10").partitions()) == 15


def test_a_batch_of_nothing(cluster: SimCluster) -> None:
    reader = batch_reader(startingTimestamp="40", endingTimestamp="40")
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == [], "Spark makes up a partition"


@pytest.mark.parametrize(
    "ending",
    [
        {},
        {"endingOffsets": '{"t": {"0": -1, "1": -1}}'},
        {"endingOffsets": '{"t": {"0": 99, "1": 50}}'},
        {"endingTimestamp": "1000"},
    ],
)
def test_a_batch_that_begins_behind_the_end_is_a_loss(
    cluster: SimCluster, caplog: pytest.LogCaptureFixture, ending: dict[str, str]
) -> None:
    offsets = {"startingOffsets": '{"t": {"0": 101, "1": 0}}', **ending}
    with pytest.raises(DataLossError, match="asked to begin at 101, but the queue ends at 100"):
        batch_reader(**offsets).partitions()
    with caplog.at_level(logging.WARNING):
        assert ranges(batch_reader(**offsets, failOnDataLoss="false").partitions()) == [
            ["t/a/1 [0, 50)"]
        ]
    assert "nothing is read there" in caplog.text


def test_every_queue_that_begins_behind_its_end_is_named(
    cluster: SimCluster, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = {"startingOffsets": '{"t": {"0": 101, "1": 51}}'}
    said = "t/a/0: asked to begin at 101, .* ends at 100; .*t/a/1: asked to begin at 51, .* at 50"
    with pytest.raises(DataLossError, match=said):
        batch_reader(**offsets).partitions()
    with caplog.at_level(logging.WARNING):
        assert batch_reader(**offsets, failOnDataLoss="false").partitions() == []
    assert re.search(said, caplog.text)


def test_a_batch_that_is_to_end_before_it_begins_has_no_rows(cluster: SimCluster) -> None:
    given = {"startingOffsets": '{"t": {"0": 90, "1": 0}}', "endingTimestamp": "60"}
    assert ranges(batch_reader(**given).partitions()) == [["t/a/1 [0, 50)"]]


def test_a_reader_travels(cluster: SimCluster) -> None:
    for reader in (batch_reader(), stream_reader()):
        again = pickle.loads(pickle.dumps(reader))
        assert again._options == reader._options


# --- stream
# --------------------------------------------------------------------------------------------------


def test_a_stream_in_spark_s_terms(cluster: SimCluster) -> None:
    reader = stream_reader(startingOffsets="earliest", maxOffsetsPerTrigger="30")
    start = reader.initialOffset()
    assert start == {"t": {"a": {"0": 0, "1": 0}}}
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(30)
    end = reader.latestOffset(start, limit)
    assert plain(end) == {"t": {"a": {"0": 20, "1": 10}}}
    assert ranges(reader.partitions(start, end)) == [["t/a/0 [0, 20)", "t/a/1 [0, 10)"]]
    assert reader.partitions(end, start) == []
    once = reader.latestOffset(start, ReadAllAvailable())
    assert plain(once) == {"t": {"a": {"0": 100, "1": 50}}}, "the trigger Once"
    assert plain(reader.reportLatestOffset() or {}) == {"t": {"a": {"0": 100, "1": 50}}}
    reader.commit(end)
    assert list(reader.read(InputPartition(None))) == []


def test_all_there_is_unless_a_limit_is_given(cluster: SimCluster) -> None:
    reader = stream_reader(startingOffsets="earliest")
    assert reader.getDefaultReadLimit() == ReadAllAvailable()
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert plain(end) == {"t": {"a": {"0": 100, "1": 50}}}


def test_available_now_in_spark_s_order(cluster: SimCluster) -> None:
    reader = stream_reader()
    reader.prepareForTriggerAvailableNow()
    cluster.queues_[ONE].end = 110
    start = reader.initialOffset()
    assert plain(start) == {"t": {"a": {"0": 110, "1": 50}}}, "asked for after the target"
    pinned = reader.latestOffset(start, ReadAllAvailable())
    assert plain(pinned) == plain(start)
    assert reader.partitions(start, pinned) == []
    assert reader.latestOffset(pinned, ReadAllAvailable()) == pinned


# --- the source
# --------------------------------------------------------------------------------------------------


def test_the_schema_is_what_was_chosen() -> None:
    assert RocketMQDataSource.name() == "rocketmq"
    assert (
        RocketMQDataSource(given(columns="Body, queueOffset")).schema()
        == "body BINARY, queueOffset BIGINT"
    )
    assert (
        RocketMQDataSource(given(includeProperties="true"))
        .schema()
        .endswith("properties MAP<STRING,STRING>")
    )
    for options, said in (
        ({"columns": "body,nothing"}, "there is no 'nothing'"),
        ({"colums": "body"}, "no option colums; did you mean columns"),
        ({"failOnDataLoss": "perhaps"}, "must be true or false"),
    ):
        with pytest.raises(ConfigError, match=said):
            RocketMQDataSource(given(**options)).schema()
    assert RocketMQDataSource(given(startingOffsets="latest")).schema(), "a stream may begin there"


def test_a_schema_of_the_user_chooses_columns() -> None:
    schema = StructType().add("queueId", "integer").add("body", "binary")
    reader: Any = RocketMQDataSource(given()).reader(schema)
    assert reader._columns == ("queueId", "body")
    reader = RocketMQDataSource(given()).streamReader(schema)
    assert reader._columns == ("queueId", "body")
    with pytest.raises(ConfigError, match="the column body is binary, not int"):
        RocketMQDataSource(given()).reader(StructType().add("body", IntegerType()))
    with pytest.raises(ConfigError, match="there is no column 'value'"):
        RocketMQDataSource(given()).reader(StructType().add("value", "binary"))
    with pytest.raises(ConfigError, match="exclude each other"):
        RocketMQDataSource(given(columns="topic")).reader(schema)


def test_options_of_streams_mean_nothing_to_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    published = {"commitOffsetsToGroup": "true", "consumerGroup": "g"}
    with caplog.at_level(logging.WARNING):
        RocketMQDataSource(given(maxOffsetsPerTrigger="5", **published)).reader(
            StructType().add("body", "binary")
        )
    assert "option maxOffsetsPerTrigger is for streams" in caplog.text
    assert "option commitOffsetsToGroup is for streams" in caplog.text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"maxOffsetsPerTriger": "5"}, "did you mean maxOffsetsPerTrigger"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false"),
        ({"endingOffsets": "latest"}, "would read nothing.* As a stream: a stream has no end"),
    ],
)
def test_what_is_wrong_with_a_stream_from_latest_on_is_said_of_the_stream(
    wrong: dict[str, str], said: str
) -> None:
    """Whoever is asked for the columns does not know whether it is one."""
    with pytest.raises(ConfigError, match=said):
        RocketMQDataSource(given(startingOffsets="latest", **wrong)).schema()
