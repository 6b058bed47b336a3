"""Brokers that are killed while the Spark source looks away: what is not read is told. Real
brokers; the source is called as Spark calls it, but in this process.

What Spark itself makes of it: ``test_spark_coverage.py``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the extra [spark] is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from aiorocketmq import Admin, Message, MessageQueue, Producer
from aiorocketmq.remoting.errors import RemotingError
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.spark_connector.access import broker_access
from aiorocketmq.spark_connector.access.broker_access import BrokerAccess
from aiorocketmq.spark_connector.access.errors import CoverageError, DataLossError
from aiorocketmq.spark_connector.access.options import parse_source_options
from aiorocketmq.spark_connector.access.wire import Connections
from aiorocketmq.spark_connector.source.stream import RocketMQStreamReader

from .cluster import Cluster, create_topic, until
from .test_source_options import FROM_THE_START, bodies, given, rows_of

BOTH = ("broker-a", "broker-b")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers; a test that ends one of them leaves it to the next to start it again."""
    with Cluster(tmp_path_factory.mktemp("two")) as cluster:
        yield cluster
    BrokerAccess.close_all()
    Connections.close_all()


@pytest.fixture
def pair(two: Cluster) -> Cluster:
    for name in BOTH:
        start_again(two, name)
    return two


def start_again(cluster: Cluster, name: str) -> None:
    if name not in cluster.brokers:
        cluster.start_broker(name, flushDiskType="SYNC_FLUSH")


def known(cluster: Cluster) -> set[str]:
    """Brokers, to the name server."""

    async def ask() -> set[str]:
        async with Admin(namesrv=cluster.namesrv) as admin:
            return set((await admin.cluster_info()).broker_addr_table)

    return asyncio.run(ask())


def kill(cluster: Cluster, name: str) -> None:
    """As a power cut does; the name server has noticed when this returns."""
    cluster.kill_broker(name)
    asyncio.run(
        until(
            lambda: asyncio.to_thread(lambda: name not in known(cluster)),
            f"the name server has forgotten {name}",
        )
    )


def send(cluster: Cluster, topic: str, broker: str, begin: int, end: int, queues: int = 2) -> None:
    """Message n goes to queue n modulo ``queues`` of this broker; its body is n."""

    async def do() -> None:
        async with Producer("p", namesrv=cluster.namesrv) as producer:
            for number in range(begin, end):
                queue = MessageQueue(topic, broker, number % queues)
                await producer.send(Message(topic, b"%04d" % number), queue=queue)

    asyncio.run(do())


async def create_topic_on(cluster: Cluster, topic: str, broker: str) -> None:
    async with Admin(namesrv=cluster.namesrv) as admin:
        address = (await admin.cluster_info()).broker_addr_table[broker].broker_addrs[0]
        config = TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2)
        await admin.create_topic_on(address, config)

        async def known() -> bool:
            return len(await admin.read_queues(topic)) == 2

        await until(known, f"the name server knows {topic}")


def filled(cluster: Cluster, topic: str, queues: int = 2) -> list[bytes]:
    """Sixty messages on the first broker, forty on the second."""
    asyncio.run(create_topic(cluster.namesrv, topic, queues))
    send(cluster, topic, "broker-a", 0, 60, queues)
    send(cluster, topic, "broker-b", 60, 100, queues)
    return [b"%04d" % number for number in range(100)]


def stream(cluster: Cluster, topic: str, **options: object) -> RocketMQStreamReader:
    parsed = parse_source_options(
        given(cluster, topic, **{"newQueuePollInterval": 0, **FROM_THE_START, **options}),
        streaming=True,
    )
    return RocketMQStreamReader(parsed, ("body",))


def next_batch(
    reader: RocketMQStreamReader, start: dict[str, Any]
) -> tuple[dict[str, Any], list[bytes]]:
    """Its end, and what it brings."""
    end = reader.latestOffset(start, ReadAllAvailable())
    found = rows_of(reader, reader.partitions(start, end)) if end != start else []
    return end, sorted(row["body"] for row in found)


# --- batches
# --------------------------------------------------------------------------------------------------


def test_a_batch_without_a_broker_is_not_taken_for_all(
    pair: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    sent = filled(pair, topic)
    expected = {"expectedBrokers": "broker-a,broker-b"}
    assert bodies(pair, topic, **expected, expectedQueues=4) == sent
    kill(pair, "broker-b")
    for options, said in (
        (expected, f"the topic {topic} is not on the broker broker-b at present"),
        ({"expectedBrokers": 2}, "is on 1 of 2 brokers at present: broker-a"),
        ({"expectedQueues": 4}, "there are 2 of 4 queues at present, on broker-a"),
    ):
        with pytest.raises(CoverageError, match=said):
            bodies(pair, topic, **options)
    with caplog.at_level(logging.WARNING, "aiorocketmq.spark_connector"):
        assert bodies(pair, topic, **expected, failOnDataLoss="false") == sent[:60]
    assert len([each for each in caplog.records if "broker-b" in each.getMessage()]) == 1


def test_a_batch_knows_of_a_broker_that_the_name_server_has_lost(pair: Cluster, topic: str) -> None:
    """With one name server and no options, until somebody says that it is gone."""
    sent = filled(pair, topic)
    kill(pair, "broker-b")
    with pytest.raises(CoverageError, match=r"broker-b at present, but .* which lost it at 20"):
        bodies(pair, topic)
    assert bodies(pair, topic, expectedBrokers="broker-a") == sent[:60]
    start_again(pair, "broker-b")
    assert bodies(pair, topic) == sent
    kill(pair, "broker-b")

    async def forget() -> None:
        async with Admin(namesrv=pair.namesrv) as admin:
            await admin.delete_kv_config("LOST_BROKERS", "broker-b")

    asyncio.run(forget())
    assert bodies(pair, topic) == sent[:60]


def test_a_batch_knows_of_topics_that_only_a_lost_broker_has(pair: Cluster, topic: str) -> None:
    """They are in no list of topics any more, which is what a pattern chooses from."""
    for name in BOTH:
        asyncio.run(create_topic_on(pair, f"{topic}-{name}", name))
        send(pair, f"{topic}-{name}", name, 0, 10)
    pattern = {"subscribe": "", "subscribePattern": f"{topic}-.*"}
    assert len(bodies(pair, topic, **pattern)) == 20
    kill(pair, "broker-b")
    said = f"the topic {topic}-broker-b is not on the broker broker-b at present"
    with pytest.raises(CoverageError, match=said):
        bodies(pair, topic, **pattern)
    assert len(bodies(pair, topic, **pattern, failOnDataLoss="false")) == 10


def test_a_batch_of_an_ordered_topic_knows_its_brokers_by_itself(pair: Cluster, topic: str) -> None:
    sent = filled(pair, topic)

    async def order() -> None:
        async with Admin(namesrv=pair.namesrv) as admin:
            await admin.set_order_on_cluster(topic, "DefaultCluster", 2)

    asyncio.run(order())
    assert bodies(pair, topic) == sent
    kill(pair, "broker-b")
    with pytest.raises(CoverageError, match="broker-b at present, but the order configuration"):
        bodies(pair, topic)


def test_a_batch_of_a_broker_that_is_known_and_cannot_be_reached_fails(
    pair: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped, not dead: its connection to the name server stays."""
    filled(pair, topic)
    monkeypatch.setattr(broker_access, "_TIMEOUT_S", 0.2)
    broker = pair.brokers["broker-b"].process
    broker.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(RemotingError):
            bodies(pair, topic, **{"fetchOffset.numRetries": 0})
    finally:
        broker.send_signal(signal.SIGCONT)


# --- streams
# --------------------------------------------------------------------------------------------------


def test_available_now_says_which_broker_it_did_not_read(pair: Cluster, topic: str) -> None:
    sent = filled(pair, topic)
    reader = stream(pair, topic)
    start, found = next_batch(reader, reader.initialOffset())
    assert found == sent
    send(pair, topic, "broker-b", 100, 110)
    send(pair, topic, "broker-a", 110, 120)
    kill(pair, "broker-b")
    reader = stream(pair, topic)
    reader.prepareForTriggerAvailableNow()
    end, found = next_batch(reader, start)
    assert found == [b"%04d" % number for number in range(110, 120)], "the other broker is read"
    with pytest.raises(CoverageError, match="the broker broker-b is away, its queues were not"):
        next_batch(reader, end)
    start_again(pair, "broker-b")
    reader = stream(pair, topic)
    reader.prepareForTriggerAvailableNow()
    end, found = next_batch(reader, end)
    assert found == [b"%04d" % number for number in range(100, 110)]
    assert next_batch(reader, end) == (end, [])


def begin(reader: RocketMQStreamReader) -> dict[str, Any]:
    """Of a query from ``latest`` on, as it stands in its checkpoint."""
    checkpoint, found = next_batch(reader, reader.initialOffset())
    assert found == []
    written: dict[str, Any] = json.loads(json.dumps(checkpoint))
    return written


def test_what_a_broker_had_before_the_query_began_is_not_read_when_it_comes_back(
    pair: Cluster, topic: str
) -> None:
    filled(pair, topic)
    kill(pair, "broker-b")
    reader = stream(pair, topic, startingOffsets="latest", failOnDataLoss="false")
    start = begin(reader)
    send(pair, topic, "broker-a", 100, 110)
    start, found = next_batch(reader, start)
    assert found == [b"%04d" % number for number in range(100, 110)]
    start_again(pair, "broker-b")
    assert next_batch(reader, start) == (start, []), "forty messages are older than the query"
    send(pair, topic, "broker-b", 110, 120)
    asyncio.run(create_topic(pair.namesrv, topic, 3))
    send(pair, topic, "broker-a", 120, 130, queues=3)
    reader = stream(pair, topic, startingOffsets="latest")
    start, found = next_batch(reader, start)
    assert found == [b"%04d" % number for number in range(110, 130)]
    assert next_batch(reader, start) == (start, [])


def empty(cluster: Cluster, topic: str, queues: int) -> None:
    """Delete the topic and make it again."""

    async def delete() -> None:
        async with Admin(namesrv=cluster.namesrv) as admin:
            await admin.delete_topic(topic, "DefaultCluster")

    asyncio.run(delete())
    asyncio.run(create_topic(cluster.namesrv, topic, queues))


def make_anew(cluster: Cluster, topic: str) -> None:
    """Sixty messages were there on the first broker: now eighty, and thirty instead of forty on the
    second."""
    empty(cluster, topic, 2)
    send(cluster, topic, "broker-a", 1000, 1080)
    send(cluster, topic, "broker-b", 1080, 1110)


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_topic_that_is_made_anew_is_not_taken_for_the_old_one(
    pair: Cluster, topic: str, caplog: pytest.LogCaptureFixture, starting: str
) -> None:
    filled(pair, topic)
    reader = stream(pair, topic, startingOffsets=starting)
    start = begin(reader) if starting == "latest" else next_batch(reader, reader.initialOffset())[0]
    make_anew(pair, topic)
    with pytest.raises(DataLossError, match=r"was made anew.* since it was read up to 30"):
        next_batch(stream(pair, topic), start)
    reader = stream(pair, topic, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "aiorocketmq.spark_connector"):
        end, found = next_batch(reader, start)
    assert found == [b"%04d" % number for number in range(1000, 1110)]
    told = [each.getMessage() for each in caplog.records if "was made anew" in each.getMessage()]
    assert len(told) == 4
    assert sum("of the 40 messages since, 30 lie before" in each for each in told) == 2
    assert sum("of the 15 messages since, 15 lie before" in each for each in told) == 2
    assert next_batch(reader, end) == (end, [])


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_nor_is_one_of_which_nothing_was_left(cluster: Cluster, topic: str, starting: str) -> None:
    """All of it had expired when the query began: there is no message to know it by."""
    small: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 16}
    cluster.start_broker(**small)
    for name, count in ((topic, 20), (f"{topic}-other", 400)):
        asyncio.run(create_topic(cluster.namesrv, name, 1))
        send(cluster, name, "broker-a", 0, count, queues=1)
    cluster.stop_broker("broker-a")
    (cluster.store_of("broker-a") / "commitlog" / "00000000000000000000").unlink()
    cluster.start_broker(**small)
    reader = stream(cluster, topic, startingOffsets=starting)
    start = begin(reader)
    assert start[topic] == {"broker-a": {"0": 20}}
    assert next_batch(reader, start) == (start, [])
    empty(cluster, topic, 1)
    send(cluster, topic, "broker-a", 1000, 1030, queues=1)
    with pytest.raises(DataLossError, match=r"made anew.* up to 20: its message 19 was stored"):
        next_batch(stream(cluster, topic), start)
    reader = stream(cluster, topic, failOnDataLoss="false")
    end, found = next_batch(reader, start)
    assert found == [b"%04d" % number for number in range(1000, 1030)]
    assert next_batch(reader, end) == (end, [])


def test_a_topic_that_is_subscribed_no_more_is_named_and_ends_nothing(
    pair: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = f"{topic}-other"
    filled(pair, topic)
    filled(pair, other)
    reader = stream(pair, f"{topic},{other}")
    start, found = next_batch(reader, reader.initialOffset())
    assert len(found) == 200
    send(pair, topic, "broker-a", 100, 110)
    reader = stream(pair, topic)
    with caplog.at_level(logging.WARNING, "aiorocketmq.spark_connector"):
        end, found = next_batch(reader, start)
        assert next_batch(reader, end) == (end, [])
    assert found == [b"%04d" % number for number in range(100, 110)]
    assert other not in end
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [other]


def test_a_topic_is_not_gone_while_a_name_server_knows_only_a_slave_of_its_broker(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As one that was started again, where the slave was the first to register: topics come with
    masters."""
    other = cluster.second_name_server()
    cluster.start_broker("broker-a")
    asyncio.run(create_topic(cluster.namesrv, topic, 2))
    send(cluster, topic, "broker-a", 0, 10)
    reader = stream(cluster, topic)
    end, found = next_batch(reader, reader.initialOffset())
    assert len(found) == 10
    cluster.start_slave(namesrvAddr=f"{cluster.namesrv};{other.address}")

    async def slave_is_known() -> bool:
        async with Admin(namesrv=other.address) as admin:
            return bool((await admin.cluster_info()).broker_addr_table)

    asyncio.run(until(slave_is_known, "the other name server knows the slave"))
    lenient = stream(cluster, topic, namesrv=other.address, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert next_batch(lenient, end) == (end, [])
    assert "the broker broker-a is away, its queues wait" in caplog.text
    assert "is gone" not in caplog.text


def test_a_name_server_that_knows_less_is_not_believed(
    pair: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one, which only the third broker knows of."""
    other = pair.second_name_server()
    both = f"{other.address};{pair.namesrv}"
    monkeypatch.setattr(random.Random, "shuffle", lambda *_: None)  # the first is asked for routes

    async def known_to_the_other() -> bool:
        async with Admin(namesrv=other.address) as admin:
            return len(await admin.read_queues(topic)) == 2

    pair.start_broker("broker-c", namesrvAddr=both)
    try:
        asyncio.run(create_topic(pair.namesrv, topic, 2))
        asyncio.run(until(known_to_the_other, "the second name server knows the third broker"))
        said = f"the topic {topic} is not on the broker broker-a .* the name server {pair.namesrv}"
        with pytest.raises(CoverageError, match=said):
            bodies(pair, topic, namesrv=both)
        assert bodies(pair, topic, namesrv=f"{pair.namesrv};{other.address}") == []
    finally:
        pair.stop_broker("broker-c")
