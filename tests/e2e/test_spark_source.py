"""Topics as DataFrames in real Spark, from real brokers. What needs no Spark to be seen:
``test_source_options.py``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark.sql", reason="the extra [spark] is not installed")

from pyspark.errors import PySparkException
from pyspark.sql import functions

from aiorocketmq import Admin, Credentials, Message, Producer
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.spark_connector.decode.schema import SOURCE_COLUMNS

from .cluster import PATIENCE_S, Cluster, create_topic, until
from .test_source_options import deliver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

ACCOUNTS = """
accounts:
- accessKey: the-admin
  secretKey: admin-secret
  admin: true
- accessKey: the-reader
  secretKey: reader-secret-7531
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
"""
ADMIN = Credentials("the-admin", "admin-secret")


def load(spark: SparkSession, cluster: Cluster, topic: str, **options: object) -> DataFrame:
    return with_options(spark.read, cluster, topic, options).load()


def load_stream(spark: SparkSession, cluster: Cluster, topic: str, **options: object) -> DataFrame:
    return with_options(spark.readStream, cluster, topic, options).load()


def with_options(reader: Any, cluster: Cluster, topic: str, options: dict[str, object]) -> Any:
    reader = reader.format("rocketmq").option("nameServer", cluster.namesrv)
    if topic:
        reader = reader.option("subscribe", topic)
    return reader.options(**{name: str(value) for name, value in options.items()})


def send(
    cluster: Cluster, topic: str, begin: int, end: int, queues: int = 2, **options: Any
) -> None:
    """Message n goes to queue n modulo ``queues``; its body is n."""

    async def do() -> None:
        async with Producer("p", namesrv=cluster.namesrv, **options) as producer:
            for number in range(begin, end):
                message = Message(
                    topic, b"%d" % number, tags="ab"[number % 2], properties={"n": str(number)}
                )
                await deliver(producer, message, number % queues)

    asyncio.run(do())


def make(cluster: Cluster, topic: str, count: int = 0, queues: int = 2) -> None:
    asyncio.run(create_topic(cluster.namesrv, topic, queues))
    send(cluster, topic, 0, count, queues)


def wait_until(condition: Callable[[], object], what: str) -> None:
    asyncio.run(until(condition, what))


class Sink:
    """What a stream wrote, by batch: a batch that comes again replaces what it wrote before."""

    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}

    def take(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = sorted(
            int(bytes(row.body)) for row in batch.select("body").collect()
        )

    @property
    def sizes(self) -> list[int]:
        return [len(self.batches[number]) for number in sorted(self.batches)]

    @property
    def numbers(self) -> list[int]:
        return sorted(number for batch in self.batches.values() for number in batch)


def start(frame: DataFrame, sink: Sink, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(sink.take).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**trigger).start()


def drain(frame: DataFrame, sink: Sink, checkpoint: Path) -> StreamingQuery:
    """Until everything has been read that is there now."""
    query = start(frame, sink, checkpoint, availableNow=True)
    assert query.awaitTermination(4 * int(PATIENCE_S))
    return query


# --- batches
# --------------------------------------------------------------------------------------------------


def test_a_filter_of_one_query_is_none_of_another(
    spark: SparkSession, shared: Cluster, topic: str
) -> None:
    """Spark would keep a filter that a source takes (docs/spark.md, Limits)."""
    make(shared, topic, 20)
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    wanted = "n > 15 and tags = 'a' and queueOffset >= 0"
    for pushed in ("true", "false"):
        spark.conf.set(setting, pushed)
        try:
            frame = load(spark, shared, topic, propertyColumns="n:int")
            part = frame.where(wanted)
            assert part.count() == 2
            assert frame.count() == 20
            assert part.union(frame).count() == 22
        finally:
            spark.conf.set(setting, str(before))


def test_properties_are_columns(
    spark: SparkSession, shared: Cluster, topic: str, tmp_path: Path
) -> None:
    """As the map with Spark's own casts has them; in a stream, too."""
    make(shared, topic, 20)
    texts = ["7", " +7 ", "1.5", "1e3", ".5", "NaN", "x", "", "true", "No", "2147483648", "0x1F"]
    kinds = {"i": "int", "l": "bigint", "d": "double", "b": "boolean", "s": "string"}

    async def more() -> None:
        async with Producer("p", namesrv=shared.namesrv) as producer:
            for text in texts:
                own = dict.fromkeys(kinds, text) if text else {"other": "1"}
                await deliver(producer, Message(topic, b"0", properties=own), 0)

    asyncio.run(more())
    columns = ",".join(f"{name}:{kind}" for name, kind in kinds.items())
    own = {"includeProperties": "true", "propertyColumns": columns}
    frame = load(spark, shared, topic, **own)
    assert frame.columns[-6:] == ["properties", *kinds]
    cast = [f"try_cast(properties['{name}'] as {kind})" for name, kind in kinds.items()]
    unlike = " or ".join(f"not ({name} <=> {one})" for name, one in zip(kinds, cast, strict=True))
    assert frame.count() == 20 + len(texts)
    assert frame.where(unlike).collect() == []
    assert frame.where("d = 1000").count() == 1
    with pytest.raises(PySparkException, match="the property d is no double: 'x'"):
        load(
            spark, shared, topic, propertyColumns="d:double", propertyColumnsMode="failFast"
        ).where("d > 0").collect()
    found = []
    stream = load_stream(
        spark, shared, topic, startingOffsets="earliest", propertyColumns="n:int", columns="n"
    )
    query = (
        stream.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(4 * int(PATIENCE_S))
    assert sorted(row.n for row in found if row.n is not None) == list(range(20))


def test_a_batch_read(spark: SparkSession, shared: Cluster, topic: str) -> None:
    make(shared, topic, 100)
    frame = load(spark, shared, topic, columns=",".join(SOURCE_COLUMNS))
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == list(
        SOURCE_COLUMNS.items()
    )
    rows = frame.select(
        "*", functions.col("body").cast("string").cast("int").alias("number")
    ).collect()
    assert sorted(row.number for row in rows) == list(range(100))
    for row in rows:
        assert (row.topic, row.brokerName, row.queueId) == (topic, "broker-a", row.number % 2)
        assert (row.tags, row.properties["n"]) == ("ab"[row.number % 2], str(row.number))
        assert (
            abs((datetime.now(UTC) - row.storeTimestamp.replace(tzinfo=UTC)).total_seconds()) < 600
        )
    assert frame.where("tags = 'a' and queueOffset < 10").count() == 10
    assert frame.limit(3).count() == 3


def test_columns_may_be_chosen_by_a_schema(
    spark: SparkSession, shared: Cluster, topic: str
) -> None:
    make(shared, topic, 10)
    reader = with_options(spark.read, shared, topic, {"subExpression": "b"}).schema(
        "tags string, body binary, queueId int"
    )
    rows = reader.load().orderBy("body").collect()
    assert [tuple(row) for row in rows] == [("b", bytearray(b"%d" % n), 1) for n in (1, 3, 5, 7, 9)]
    with pytest.raises(PySparkException, match="the column body is binary, not string"):
        with_options(spark.read, shared, topic, {}).schema("body string").load().count()


def test_a_frame_is_planned_once_and_a_new_one_sees_what_is_new(
    spark: SparkSession, shared: Cluster, topic: str
) -> None:
    make(shared, topic, 10)
    frame = load(spark, shared, topic)
    assert frame.count() == 10
    send(shared, topic, 10, 15)
    assert frame.count() == 10
    assert load(spark, shared, topic).count() == 15
    assert load(spark, shared, topic, maxPartitions=1).rdd.getNumPartitions() == 1
    assert load(spark, shared, topic, startingTimestamp=1, endingTimestamp=2).count() == 0


def test_what_cannot_be_is_told(spark: SparkSession, shared: Cluster, topic: str) -> None:
    make(shared, topic, 10)
    with pytest.raises(
        PySparkException, match=r"(?i)no option startingOfsets; did you mean startingOffsets"
    ):
        load(spark, shared, topic, startingOfsets="x")
    with pytest.raises(PySparkException, match=r"the queue ends at 5.*failOnDataLoss=false"):
        load(spark, shared, topic, endingOffsets=json.dumps({topic: {"0": 5, "1": 7}})).count()
    ends = json.dumps({topic: {"0": 5, "1": 7}})
    assert load(spark, shared, topic, endingOffsets=ends, failOnDataLoss="false").count() == 10


# --- streams
# --------------------------------------------------------------------------------------------------


def test_available_now_reads_what_is_there(
    spark: SparkSession, shared: Cluster, topic: str, tmp_path: Path
) -> None:
    make(shared, topic, 100)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 40}
    sink = Sink()
    take = sink.take

    def and_more_comes(batch: DataFrame, number: int) -> None:
        take(batch, number)
        if number == 0:
            send(shared, topic, 100, 110)

    sink.take = and_more_comes  # type: ignore[method-assign]
    query = drain(load_stream(spark, shared, topic, **options), sink, tmp_path)
    assert sink.sizes == [40, 40, 20]
    assert sink.numbers == list(range(100)), "what arrives meanwhile is left to the next run"
    assert json.loads(query.lastProgress["sources"][0]["latestOffset"]) == {
        "#source": f"RocketMQ[Subscribe[{topic}]]",
        "#losses": {"times": 0, "messages": 0},
        "#away": [],
        topic: {"broker-a": {"0": 50, "1": 50}},
    }
    drain(load_stream(spark, shared, topic, **options), sink, tmp_path)
    assert sink.numbers == list(range(110))


class Checkpoint:
    """The files of a query, to be taken back to a moment at which its driver may have died."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _numbers(self, kind: str) -> list[int]:
        return sorted(
            int(file.name) for file in (self._folder / kind).iterdir() if file.name.isdecimal()
        )

    @property
    def last(self) -> int:
        """The number of the last batch that was done."""
        return self._numbers("commits")[-1]

    def while_running(self, number: int) -> None:
        """Batch ``number`` was planned, but is not done."""
        self._remove("offsets", number + 1)
        self._remove("commits", number)

    def before_planning(self, number: int) -> None:
        """Batch ``number`` is not planned yet."""
        self._remove("offsets", number)
        self._remove("commits", number)

    def _remove(self, kind: str, begin: int) -> None:
        for number in self._numbers(kind):
            if number >= begin:
                (self._folder / kind / f"{number}").unlink()
                (self._folder / kind / f".{number}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_restart_at_any_point_loses_and_repeats_nothing(
    spark: SparkSession, shared: Cluster, topic: str, tmp_path: Path, starting: str
) -> None:
    make(shared, topic, 20)
    sink, checkpoint, sent = Sink(), Checkpoint(tmp_path), 20

    def run() -> None:
        nonlocal sent
        frame = load_stream(spark, shared, topic, startingOffsets=starting, maxOffsetsPerTrigger=10)
        drain(frame, sink, tmp_path)
        wanted = list(range(0 if starting == "earliest" else 20, sent))
        assert sink.numbers == wanted
        send(shared, topic, sent, sent + 6)
        sent += 6

    def die(moment: Callable[[int], None], number: int) -> None:
        """What the sink has of later batches was written in a life that is not this one."""
        moment(number)
        sink.batches = {each: batch for each, batch in sink.batches.items() if each <= number}

    run()
    assert sink.sizes == ([10, 10] if starting == "earliest" else [0]), (
        "an empty batch pins where the query begins"
    )
    die(checkpoint.while_running, 0)
    run()
    die(checkpoint.before_planning, checkpoint.last)
    run()
    if starting == "earliest":
        die(checkpoint.while_running, checkpoint.last - 1)
        run()


def test_new_queues_and_new_topics_are_found_and_the_group_tells_how_far(
    spark: SparkSession, shared: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    make(shared, topic, 10)
    sink = Sink()
    frame = load_stream(
        spark, shared, "", subscribePattern=f"{topic}.*", newQueuePollInterval=0,
        commitOffsetsToGroup="true", consumerGroup=group,
    )  # fmt: skip
    query = start(frame, sink, tmp_path, processingTime="50 milliseconds")
    try:
        wait_until(lambda: 0 in sink.batches, "the query has begun")
        send(shared, topic, 10, 20)
        wait_until(
            lambda: sink.numbers == list(range(10, 20)), "what is new comes, what is old does not"
        )
        asyncio.run(widen(shared, topic, 4))
        send(shared, topic, 20, 40, queues=4)
        wait_until(lambda: sink.numbers == list(range(10, 40)), "so does what is in new queues")
        make(shared, f"{topic}-new", 50)
        wait_until(
            lambda: sink.numbers == sorted([*range(10, 40), *range(50)]), "and in new topics"
        )
        wait_until(lambda: is_at(shared, group, topic, 40), "the group is where the query is")
        assert query.exception() is None
    finally:
        query.stop()


async def widen(cluster: Cluster, topic: str, queues: int) -> None:
    config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
    async with Admin(namesrv=cluster.namesrv) as admin:
        await admin.create_topic_on(cluster.brokers["broker-a"].address, config)
        await until_wide(admin, topic, queues)


async def until_wide(admin: Admin, topic: str, queues: int) -> None:
    async def is_wide() -> bool:
        return len(await admin.read_queues(topic)) == queues

    await until(is_wide, f"{topic} has {queues} queues")


async def is_at(cluster: Cluster, group: str, topic: str, total: int) -> bool:
    async with Admin(namesrv=cluster.namesrv) as admin:
        queues = await admin.read_queues(topic)
        return sum([await admin.consumer_offset(group, queue) or 0 for queue in queues]) == total


def test_a_stream_lives_through_the_death_of_a_broker(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    """First the slave is there, then nobody, then the master again."""
    settings = {"brokerRole": "SYNC_MASTER", "flushDiskType": "SYNC_FLUSH"}
    master = cluster.start_broker(**settings)
    make(cluster, topic)
    cluster.start_slave()
    wait_until(lambda: "slave connected" in master.log_path.read_text(), "the slave is connected")
    sink = Sink()
    frame = load_stream(spark, cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger=100)
    send(cluster, topic, 0, 300)
    query = start(frame, sink, tmp_path, processingTime="50 milliseconds")
    try:
        wait_until(lambda: sink.batches, "the query has begun")
        cluster.kill_broker("broker-a")
        wait_until(lambda: sink.numbers == list(range(300)), "the slave gives the rest")
        cluster.kill_broker("broker-a-1")
        cluster.start_broker(**settings)
        send(cluster, topic, 300, 400)
        wait_until(lambda: sink.numbers == list(range(400)), "the master is back")
        assert query.exception() is None
    finally:
        query.stop()


# --- secrets
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Cluster]:
    accounts = tmp_path / "broker-a" / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(ACCOUNTS)
    with Cluster(tmp_path) as cluster:
        cluster.start_broker(aclEnable="true")
        yield cluster


def test_accounts_and_where_their_secrets_are_not(
    spark: SparkSession,
    guarded: Cluster,
    topic: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def make_topic() -> None:
        async with Admin(namesrv=guarded.namesrv, credentials=ADMIN) as admin:
            await admin.create_topic_on(
                guarded.brokers["broker-a"].address,
                TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2),
            )
            await until_wide(admin, topic, 2)

    asyncio.run(make_topic())
    send(guarded, topic, 0, 10, credentials=ADMIN)
    secret = tmp_path / "secret"
    secret.write_text("reader-secret-7531\n")
    account = {"rocketmq.accessKey": "the-reader", "startingOffsets": "earliest"}
    for way in (
        {"rocketmq.secretKey": "reader-secret-7531"},
        {"rocketmq.secretKeyFile": str(secret)},
    ):
        frame = load(spark, guarded, topic, **account, **way)
        assert frame.count() == 10
        frame.explain("extended")
        assert "7531" not in frame._jdf.queryExecution().toString()
    sink = Sink()
    query = drain(
        load_stream(spark, guarded, topic, **account, **way), sink, tmp_path / "checkpoint"
    )
    assert sink.numbers == list(range(10))
    query.explain(True)
    for file in (tmp_path / "checkpoint").rglob("*"):
        assert file.is_dir() or b"7531" not in file.read_bytes()
    with pytest.raises(PySparkException, match=r"(?i)signature") as refused:
        load(spark, guarded, topic, **account, **{"rocketmq.secretKey": "wrong-7531"}).count()
    assert "7531" not in str(refused.value)
    out, err = capfd.readouterr()
    assert "7531" not in out + err


def test_what_was_written_may_be_read_as_a_table(
    spark: SparkSession, shared: Cluster, topic: str
) -> None:
    """A small job from end to end: numbers by tag."""
    make(shared, topic, 30)
    frame = load(spark, shared, topic, columns="tags,body").withColumn(
        "n", functions.col("body").cast("string").cast("int")
    )
    sums = {
        row.tags: row.total
        for row in frame.groupBy("tags").agg(functions.sum("n").alias("total")).collect()
    }
    assert sums == {"a": sum(range(0, 30, 2)), "b": sum(range(1, 30, 2))}
