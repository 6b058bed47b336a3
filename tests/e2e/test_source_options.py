"""The Spark source against real brokers, called as Spark calls it, but in this process: options,
offsets, faults.

What Spark itself makes of it: ``test_spark_source.py``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the extra [spark] is not installed")

import pyarrow as pa
import trustme
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, InputPartition

from aiorocketmq import (
    Admin,
    Message,
    MessageQueue,
    Producer,
    SendResult,
    TransactionProducer,
    TransactionState,
)
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.errors import BrokerError, ConnectError, RemotingError, SystemBusy
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.spark_connector import RocketMQDataSource
from aiorocketmq.spark_connector.access.broker_access import BrokerAccess
from aiorocketmq.spark_connector.access.checkpoint import from_json
from aiorocketmq.spark_connector.access.errors import CoverageError, DataLossError
from aiorocketmq.spark_connector.access.options import parse_source_options
from aiorocketmq.spark_connector.access.wire import Connections
from aiorocketmq.spark_connector.decode.schema import SOURCE_COLUMNS
from aiorocketmq.spark_connector.source.batch import RocketMQReader
from aiorocketmq.spark_connector.source.stream import RocketMQStreamReader

from .cluster import PATIENCE_S, Cluster, asynchronous, create_topic, until
from .test_client_tls import SecureCluster

QUEUES = 4
FROM_THE_START = {"startingOffsets": "earliest"}
ON_DISK = {"flushDiskType": "SYNC_FLUSH"}
Row = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def no_connection_is_left() -> Iterator[None]:
    yield
    BrokerAccess.close_all()
    Connections.close_all()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("source")) as cluster:
        cluster.start_broker(enablePropertyFilter="true", messageDelayLevel="1s")
        yield cluster


def given(cluster: Cluster, topic: str, **options: object) -> CaseInsensitiveDict:
    return CaseInsensitiveDict(
        {
            "namesrv": cluster.namesrv,
            "subscribe": topic,
            **{name: str(value) for name, value in options.items()},
        }
    )


def reader(cluster: Cluster, topic: str, **options: object) -> RocketMQReader:
    """As it arrives on an executor; its columns are all that there are, if nothing was said."""
    parsed = parse_source_options(given(cluster, topic, **options), streaming=False)
    columns = parsed.columns.split(",") if parsed.columns else SOURCE_COLUMNS
    made: RocketMQReader = pickle.loads(pickle.dumps(RocketMQReader(parsed, tuple(columns))))
    return made


def rows_of(reader: DataSourceReader, partitions: list[InputPartition]) -> list[Row]:
    batches: list[pa.RecordBatch] = []
    for partition in partitions or [InputPartition(None)]:
        batches += reader.read(partition)
    return [row for batch in batches for row in batch.to_pylist()]


def read(cluster: Cluster, topic: str, **options: object) -> list[Row]:
    source = reader(cluster, topic, **options)
    return rows_of(source, source.partitions())


def bodies(cluster: Cluster, topic: str, **options: object) -> list[bytes]:
    return sorted(row["body"] for row in read(cluster, topic, **options))


async def deliver(producer: Producer, message: Message, queue_id: int) -> SendResult:
    """To this queue. A broker that is starved of processor time refuses what has waited for it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await producer.send(
                    message, queue=MessageQueue(message.topic, "broker-a", queue_id)
                )
            except SystemBusy:
                await asyncio.sleep(0.02)


async def fill(
    cluster: Cluster, topic: str, count: int, start: int = 0, queues: int = QUEUES
) -> list[SendResult]:
    """Message n goes to queue n modulo ``queues``; its body is n, its tag a or b in turn."""
    async with Producer("p", namesrv=cluster.namesrv) as producer:
        return [
            await deliver(
                producer,
                Message(
                    topic,
                    b"%04d" % number,
                    tags="ab"[number % 2],
                    keys=[f"k{number}"],
                    properties={"n": str(number)},
                ),
                number % queues,
            )
            for number in range(start, start + count)
        ]


def filled(cluster: Cluster, topic: str, count: int, queues: int = QUEUES) -> list[bytes]:
    """A topic with messages."""

    async def do() -> None:
        await create_topic(cluster.namesrv, topic, queues)
        await fill(cluster, topic, count, queues=queues)

    asyncio.run(do())
    return [b"%04d" % number for number in range(count)]


def offsets(topic: str, *each: int) -> str:
    return json.dumps(
        {topic: {"broker-a": {str(queue): offset for queue, offset in enumerate(each)}}}
    )


# --- what is read
# --------------------------------------------------------------------------------------------------


def test_every_kind_of_message_is_read_as_it_was_sent(own: Cluster, topic: str, group: str) -> None:
    plain = Message(topic, b"plain")
    rich = Message(
        topic,
        "ünïcode €".encode(),
        tags="tag-ä",
        keys=["k1", "k2"],
        properties={"größe": "ü\U0001f600"},
        flag=7,
    )
    large = Message(topic, b"abcd" * 2048, properties={"kind": "large"})
    later = Message(topic, b"later", delay_level=1)

    async def nobody(_message: object) -> TransactionState:
        raise AssertionError("nobody should ask")

    async def send() -> None:
        await create_topic(own.namesrv, topic, 1)
        async with (
            Producer("p", namesrv=own.namesrv, compress_over=1024) as producer,
            TransactionProducer(group, checker=nobody, namesrv=own.namesrv) as transactions,
        ):
            for message in (plain, rich, large, later):
                await producer.send(message)
            await producer.send(
                [Message(topic, b"batch-%d" % number, tags="t") for number in range(3)]
            )
            async with transactions.transaction(Message(topic, b"committed", keys=["c"])):
                pass
            async with transactions.transaction(Message(topic, b"rolled back")) as bad:
                bad.rollback()
        access = BrokerAccess(parse_source_options(given(own, topic), streaming=False).connection)
        await until(
            lambda: asyncio.to_thread(
                lambda: sum(access.latest(access.queues([topic])[topic]).values()) == 8
            ),
            "the delayed message is there",
        )

    asynchronous(send)()
    rows = {bytes(row["body"]): row for row in read(own, topic)}
    assert rows.keys() == {
        b"plain", rich.body, large.body, b"later", b"batch-0", b"batch-1", b"batch-2", b"committed",
    }  # fmt: skip
    row = rows[rich.body]
    assert (row["topic"], row["brokerName"], row["queueId"], row["queueOffset"]) == (
        topic,
        "broker-a",
        0,
        1,
    )
    assert (row["tags"], row["keys"], row["flag"], row["reconsumeTimes"]) == (
        "tag-ä",
        "k1 k2",
        7,
        0,
    )
    assert dict(row["properties"])["größe"] == "ü\U0001f600"
    assert row["msgId"] == dict(row["properties"])["UNIQ_KEY"]
    assert row["bornTimestamp"] <= row["storeTimestamp"]
    assert row["storeHost"].startswith("127.0.0.1:")
    assert rows[b"plain"]["tags"] is rows[b"plain"]["keys"] is None
    assert rows[b"batch-1"]["tags"] == "t"
    stored = {
        bytes(row["body"]): row["sysFlag"]
        for row in read(own, topic, decompress="false", checkCrc="true")
    }
    assert large.body not in stored
    assert sum(flag & 1 for flag in stored.values()) == 1


def test_queues_are_chosen(own: Cluster, topic: str) -> None:
    sent = filled(own, topic, 40)
    other = f"{topic}-other"
    filled(own, other, 4)
    assert bodies(own, topic) == sent
    assert len(bodies(own, f"{topic},{other}")) == 44
    assert bodies(own, "", assign=json.dumps({topic: {"broker-a": [1, 3]}})) == sent[1::2]
    assert bodies(own, "", assign=json.dumps({topic: [2]})) == sent[2::4]
    assert len(bodies(own, "", subscribePattern=f"{topic}.*")) == 44
    assert bodies(own, "", subscribePattern=f"{topic}") == sent
    assert bodies(own, "", subscribePattern="nothing.*") == []
    with pytest.raises(ConfigError, match="no broker has the topic nowhere"):
        read(own, "nowhere")


def test_a_pattern_does_not_mean_topics_of_the_system(own: Cluster, topic: str, group: str) -> None:
    filled(own, topic, 1)

    async def make() -> None:
        async with Admin(namesrv=own.namesrv) as admin:
            for name in (f"%RETRY%{group}", f"%DLQ%{group}"):
                await admin.create_topic_on(
                    own.brokers["broker-a"].address, TopicConfig(topic_name=name)
                )
                await until(partial(admin.topic_route, name), f"the name server knows {name}")

    asyncio.run(make())
    access = BrokerAccess(parse_source_options(given(own, topic), streaming=False).connection)
    assert topic in access.topics(".*")
    assert not [
        name
        for name in access.topics(".*")
        if "%" in name or "SYS" in name or name in ("TBW102", "SELF_TEST_TOPIC")
    ]
    assert access.topics(f"%RETRY%{group}.*") == [f"%RETRY%{group}"]
    assert access.topics("TBW102") == ["TBW102"]


def test_a_broker_says_since_when_it_keeps_messages(own: Cluster, topic: str) -> None:
    filled(own, topic, 4)
    access = BrokerAccess(parse_source_options(given(own, topic), streaming=False).connection)
    began = access.log_begins_at(MessageQueue(topic, "broker-a", 0))
    assert began is not None
    assert time.time() - 3600 < began / 1000 <= time.time()


def test_begin_and_end_by_offset(own: Cluster, topic: str) -> None:
    sent = filled(own, topic, 40)
    by_queue = [sent[queue::4] for queue in range(QUEUES)]
    assert bodies(own, topic, startingOffsets=offsets(topic, 8, -2, 10, 9)) == sorted(
        by_queue[0][8:] + by_queue[1] + by_queue[3][9:]
    )
    short = json.dumps({topic: {"0": 3, "1": -1, "2": 0, "3": 1}})
    assert bodies(own, topic, endingOffsets=short) == sorted(
        by_queue[0][:3] + by_queue[1] + by_queue[3][:1]
    )
    with pytest.raises(ConfigError, match="all queues are needed"):
        read(own, topic, startingOffsets=json.dumps({topic: {"0": 3}}))
    assert (
        bodies(
            own,
            topic,
            startingOffsets=json.dumps({topic: {"0": 3}}),
            startingOffsetsMissing="latest",
        )
        == by_queue[0][3:]
    )
    with pytest.raises(DataLossError, match="asked to begin at 11, but the queue ends at 10"):
        read(own, topic, startingOffsets=offsets(topic, 11, 0, 0, 0))


def test_begin_and_end_by_time(own: Cluster, topic: str) -> None:
    async def send() -> int:
        await create_topic(own.namesrv, topic, 2)
        await fill(own, topic, 20, queues=2)
        await asyncio.sleep(0.05)  # times of brokers count milliseconds
        between = time.time_ns() // 1_000_000
        await asyncio.sleep(0.05)
        await fill(own, topic, 10, start=20, queues=2)
        return between

    between = asyncio.run(send())
    old, new = [b"%04d" % n for n in range(20)], [b"%04d" % n for n in range(20, 30)]
    assert bodies(own, topic, startingTimestamp=between) == new
    assert bodies(own, topic, endingTimestamp=between) == old
    assert bodies(own, topic, startingTimestamp=1) == old + new
    by_queue = json.dumps({topic: {"0": between, "1": 1}})
    assert bodies(own, topic, startingOffsetsByTimestamp=by_queue) == sorted(old[1::2] + new)
    by_queue = json.dumps({topic: {"broker-a": {"0": between, "1": 1}}})
    assert bodies(own, topic, endingOffsetsByTimestamp=by_queue) == old[::2]
    future = between + 3_600_000
    with pytest.raises(ConfigError, match="nothing was stored at or after"):
        read(own, topic, startingTimestamp=future)
    assert (
        bodies(own, topic, startingTimestamp=future, startingOffsetsByTimestampStrategy="latest")
        == []
    )
    assert bodies(own, topic, endingTimestamp=future) == old + new


def test_begin_where_a_group_stands(own: Cluster, topic: str, group: str) -> None:
    sent = filled(own, topic, 8, queues=2)

    async def commit() -> None:
        async with Admin(namesrv=own.namesrv) as admin:
            for queue, offset in ((0, 3), (1, 1)):
                await admin.update_consumer_offset(
                    group, MessageQueue(topic, "broker-a", queue), offset
                )

    asyncio.run(commit())
    assert bodies(own, topic, startingOffsets="group", consumerGroup=group) == sorted(
        sent[6::2] + sent[3::2]
    )


def test_a_group_that_never_was_stands_nowhere(own: Cluster, topic: str, group: str) -> None:
    """To consumers a broker says 0 then, of a queue that is young."""
    sent = filled(own, topic, 4, queues=2)
    with pytest.raises(
        ConfigError, match=f"the group {group} has no offset for {topic}/broker-a/0"
    ):
        read(own, topic, startingOffsets="group", consumerGroup=group)
    given = {"startingOffsets": "group", "consumerGroup": group}
    assert bodies(own, topic, **given, startingOffsetsMissing="earliest") == sent
    assert bodies(own, topic, **given, startingOffsetsMissing="latest") == []


def test_filters(own: Cluster, topic: str) -> None:
    sent = filled(own, topic, 40)
    assert bodies(own, topic, subExpression="a") == sent[::2]
    assert bodies(own, topic, subExpression="a || b") == sent
    assert bodies(own, topic, subExpression="nothing") == []
    assert bodies(own, topic, subExpression="sql: n BETWEEN 10 AND 12") == sent[10:13]
    with pytest.raises(BrokerError, match="parse the consumer's subscription failed"):
        read(own, topic, subExpression="sql: n BETWEEN")


def test_tags_with_the_same_hash_are_told_apart(own: Cluster, topic: str) -> None:
    async def send() -> None:
        await create_topic(own.namesrv, topic, 1)
        async with Producer("p", namesrv=own.namesrv) as producer:
            for tag in ("Aa", "BB", "Aa"):
                await producer.send(Message(topic, tag.encode(), tags=tag))

    asyncio.run(send())
    assert bodies(own, topic, subExpression="Aa") == [b"Aa", b"Aa"]


def test_tasks(own: Cluster, topic: str) -> None:
    sent = filled(own, topic, 40)
    for options, tasks in (
        ({}, 1),
        ({"minPartitions": 4}, 4),
        ({"minPartitions": 8}, 8),
        ({"maxPartitions": 3}, 3),
        ({"maxRecordsPerPartition": 3}, 16),
        ({"minPartitions": 8, "maxPartitions": 2}, 2),
    ):
        source = reader(own, topic, **options)
        partitions = source.partitions()
        assert len(partitions) == tasks
        assert sorted(row["body"] for row in rows_of(source, partitions)) == sent


@pytest.mark.parametrize(
    "options",
    [
        {"pullBatchSize": 1},
        {"pullBatchSize": 100, "pullsInFlight": 1},
        {"pullsInFlight": 64, "pullMaxBytes": "64k"},
        {"arrowBatchRows": 1, "arrowBatchBytes": "1k"},
        {"groupIdPrefix": "spark", "fetchOffset.numRetries": 0, "fetchOffset.retryIntervalMs": 0},
    ],
)
def test_pieces_of_any_size_make_the_same_rows(
    own: Cluster, topic: str, options: dict[str, object]
) -> None:
    sent = filled(own, topic, 300, queues=1)
    assert [row["body"] for row in read(own, topic, **options)] == sent


def test_a_trigger_waits_for_enough_or_long_enough(own: Cluster, topic: str) -> None:
    filled(own, topic, 40)
    options = {
        **FROM_THE_START,
        "minOffsetsPerTrigger": 20,
        "maxTriggerDelay": "300ms",
        "maxOffsetsPerTrigger": 32,
    }
    stream = RocketMQStreamReader(
        parse_source_options(given(own, topic, **options), streaming=True), ("body",)
    )
    limit = stream.getDefaultReadLimit()
    first = stream.latestOffset(stream.initialOffset(), limit)
    assert [*from_json(first).offsets.values()] == [8, 8, 8, 8]
    began = time.monotonic()
    while (second := stream.latestOffset(first, limit)) == first:
        assert time.monotonic() < began + 30
        time.sleep(0.01)
    assert time.monotonic() - began > 0.2, "8 are not enough, so it was for the time"
    assert [*from_json(second).offsets.values()] == [10, 10, 10, 10]


def test_columns(own: Cluster, topic: str) -> None:
    filled(own, topic, 2)
    rows = read(own, topic, columns="queueId,body,properties")
    assert [list(row) for row in rows] == [["queueId", "body", "properties"]] * 2
    assert RocketMQDataSource(
        given(own, topic, columns="body", includeProperties="true")
    ).schema() == ("body BINARY, properties MAP<STRING,STRING>")


def test_a_namespace_is_seen_by_the_cluster_only(own: Cluster, topic: str, group: str) -> None:
    filled(own, f"shop%{topic}", 8, queues=2)
    filled(own, f"bank%{topic}", 3, queues=2)
    shop = {"rocketmq.namespace": "shop", "consumerGroup": group}
    assert {(row["topic"], row["body"]) for row in read(own, topic, **shop)} == {
        (topic, b"%04d" % n) for n in range(8)
    }
    assert len(read(own, "", subscribePattern=".*", **{"rocketmq.namespace": "bank"})) == 3


def test_what_a_spark_sink_wrote_twice_is_read_once(own: Cluster, topic: str) -> None:
    async def send() -> None:
        await create_topic(own.namesrv, topic, 1)
        async with Producer("p", namesrv=own.namesrv) as producer:
            for name in ("q/0/0/1", "q/0/0/2", "q/0/0/1", None, None, "q/0/0/2", "q/0/0/3"):
                properties = {"SPARK_DEDUP_ID": name} if name else {}
                await producer.send(Message(topic, (name or "-").encode(), properties=properties))

    asyncio.run(send())
    assert len(read(own, topic)) == 7
    found = [row["body"] for row in read(own, topic, dropSparkDuplicates="true")]
    assert found == [b"q/0/0/1", b"q/0/0/2", b"-", b"-", b"q/0/0/3"]


def test_brokers_that_speak_tls(tmp_path: Path, topic: str) -> None:
    with SecureCluster(tmp_path) as secure:
        secure.start_broker(**secure.tls)

        async def send() -> None:
            async with Producer("p", namesrv=secure.namesrv, tls=secure.context) as producer:
                await producer.send(Message(topic, b"secret"))

        asyncio.run(send())
        tls = {"rocketmq.tls.enable": "true"}
        assert bodies(secure, topic, **tls) == [b"secret"]
        trustme.CA().cert_pem.write_to_path(tmp_path / "another.pem")
        with pytest.raises(ConnectError, match="certificate"):
            read(
                secure,
                topic,
                **tls,
                **{"rocketmq.tls.client.trustCertPath": tmp_path / "another.pem"},
            )
        with pytest.raises(RemotingError):
            read(secure, topic)
        BrokerAccess.close_all()
        Connections.close_all()


# --- faults
# --------------------------------------------------------------------------------------------------


def test_a_broker_dies_in_the_middle_of_a_read(cluster: Cluster, topic: str) -> None:
    """It comes back with everything; the read goes on where it was."""
    cluster.start_broker(**ON_DISK)
    sent = filled(cluster, topic, 1500, queues=1)
    source = reader(cluster, topic, arrowBatchRows=32, pullsInFlight=2)
    (partition,) = source.partitions()
    batches = source.read(partition)
    found = [row["body"] for batch in itertools.islice(batches, 2) for row in batch.to_pylist()]
    cluster.kill_broker("broker-a")
    assert 0 < len(found) < 1500
    cluster.start_broker(**ON_DISK)
    found += [row["body"] for batch in batches for row in batch.to_pylist()]
    assert found == sent


def test_a_slave_takes_over(cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """In the middle of a read, in a stream, and for a new one."""
    master = cluster.start_broker(brokerRole="SYNC_MASTER")
    asyncio.run(create_topic(cluster.namesrv, topic, 1))
    cluster.start_slave()

    async def send() -> None:
        await until(
            lambda: "slave connected" in master.log_path.read_text(), "the slave is connected"
        )
        await fill(cluster, topic, 1500, queues=1)

    asyncio.run(send())
    sent = [b"%04d" % number for number in range(1500)]
    stream = RocketMQStreamReader(
        parse_source_options(given(cluster, topic, **FROM_THE_START), streaming=True), ("body",)
    )
    start = stream.initialOffset()
    source = reader(cluster, topic, arrowBatchRows=32, pullsInFlight=2)
    (partition,) = source.partitions()
    batches = source.read(partition)
    found = [row["body"] for batch in itertools.islice(batches, 2) for row in batch.to_pylist()]
    cluster.kill_broker("broker-a")
    found += [row["body"] for batch in batches for row in batch.to_pylist()]
    assert found == sent
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert from_json(end).offsets == {MessageQueue(topic, "broker-a", 0): 1500}
    assert len(rows_of(stream, stream.partitions(start, end))) == 1500
    caplog.clear()
    assert bodies(cluster, topic) == sent
    assert "the master of the broker broker-a is away" in caplog.text
    ends = {"endingTimestamp": str(int(time.time() * 1000))}
    with pytest.raises(CoverageError, match="the master of the broker broker-a is away, and its"):
        bodies(cluster, topic, **ends)
    assert bodies(cluster, topic, **ends, failOnDataLoss="false") == sent


def test_messages_that_were_deleted(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    """The oldest file of the log goes while a stream stands before it."""
    small: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 16}
    cluster.start_broker(**small)
    filled(cluster, topic, 700, queues=1)
    stream, lenient = (
        RocketMQStreamReader(
            parse_source_options(given(cluster, topic, **options), streaming=True), ("body",)
        )
        for options in (FROM_THE_START, {**FROM_THE_START, "failOnDataLoss": "false"})
    )
    start = stream.initialOffset()
    assert start == {topic: {"broker-a": {"0": 0}}}
    cluster.stop_broker("broker-a")
    (tmp_path / "broker-a" / "store" / "commitlog" / "00000000000000000000").unlink()
    cluster.start_broker(**small)
    with pytest.raises(DataLossError, match="the oldest message that is kept is"):
        stream.latestOffset(start, stream.getDefaultReadLimit())
    end = lenient.latestOffset(start, lenient.getDefaultReadLimit())
    left = [row["body"] for row in rows_of(lenient, lenient.partitions(start, end))]
    low = 700 - len(left)
    assert 0 < low < 700
    assert left == [b"%04d" % number for number in range(low, 700)]
    assert bodies(cluster, topic) == left, (
        "a batch that begins with the earliest message has lost none"
    )


def test_a_read_that_ends_early_leaves_no_connection_behind(own: Cluster, topic: str) -> None:
    """LIMIT does that; one that ends in time leaves its connection to the next."""
    sent = filled(own, topic, 300, queues=1)
    Connections.close_all()
    source = reader(own, topic, arrowBatchRows=32, pullBatchSize=32)
    (partition,) = source.partitions()
    batches = source.read(partition)
    assert next(batches).num_rows == 32
    batches.close()  # type: ignore[attr-defined]
    assert Connections.idle() == 0
    assert [row["body"] for row in rows_of(source, [partition])] == sent
    assert Connections.idle() == 1
