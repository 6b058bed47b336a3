"""Every command against a cluster of ours, its output against the layout and against the original's
own output."""

import asyncio
import concurrent.futures
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aiorocketmq.client.admin import Admin
from aiorocketmq.client.consumer.push_consumer import PushConsumer
from aiorocketmq.client.offsets.start_offset import StartFrom
from aiorocketmq.client.producer.producer import Producer
from aiorocketmq.remoting.errors import RequestTimeout
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.registration import RegisterBrokerBody
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig, TopicConfigTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.route import RegisterBrokerRequest
from aiorocketmq.remoting.protocol.message.message import Message
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.topic_names import retry_topic
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.testing import LocalCluster, fresh_topic_name

from .conftest import MqAdmin
from .golden_steps import step

GOLDEN_BROKER = "127.0.0.1:27811"
PATIENCE_S = 30.0
ID = "[0-9A-F]{32}(?:[0-9A-F]{24})?"


@pytest.fixture
def topic(admin: MqAdmin, cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    """A topic with four queues."""
    name = fresh_topic_name(request.node.name)
    admin("updateTopic", "-b", cluster.broker_address, "-t", name, "-r", "4", "-w", "4")
    return name


def masked(text: str, cluster: LocalCluster | None = None) -> str:
    """Without what differs from run to run: addresses, ids, times."""
    if cluster is not None:
        text = text.replace(cluster.broker_address, GOLDEN_BROKER)
    text = re.sub(rf"\b{ID}\b", "<id>", text)
    return re.sub(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?", lambda m: "<ms>" if m[1] else "<s>", text
    )


# --- topics
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        f"updateTopic -b {GOLDEN_BROKER} -t GoldNormal -r 4 -w 4",
        "updateTopic -c DefaultCluster -t GoldOrder -r 4 -w 4 -o true",
        f"updateTopic -b {GOLDEN_BROKER} -t GoldTx -r 2 -w 2",
        f"updateSubGroup -b {GOLDEN_BROKER} -g GID_gold_sql -s true",
        f"updateSubGroup -b {GOLDEN_BROKER} -g GID_gold_retry -r 1",
    ],
)
def test_same_bytes_as_the_original(admin: MqAdmin, cluster: LocalCluster, arguments: str) -> None:
    printed = admin(*arguments.replace(GOLDEN_BROKER, cluster.broker_address).split())
    assert (printed.code, printed.err) == (0, "")
    assert masked(printed.out, cluster) == step(arguments)


def test_delete_topic_prints_the_same_bytes(admin: MqAdmin, cluster: LocalCluster) -> None:
    admin("updateTopic", "-b", cluster.broker_address, "-t", "GoldToDelete")
    printed = admin("deleteTopic", "-c", "DefaultCluster", "-t", "GoldToDelete")
    assert (printed.code, printed.out) == (0, step("deleteTopic -c DefaultCluster -t GoldToDelete"))
    assert "GoldToDelete" not in admin("topicList").out.split()


def test_deleting_an_unknown_topic_succeeds(admin: MqAdmin) -> None:
    printed = admin("deleteTopic", "-t", "NeverMade", "-c", "DefaultCluster")
    assert (printed.code, printed.out.count("success.\n")) == (0, 2)


def test_order_of_one_broker_comes_first(admin: MqAdmin, cluster: LocalCluster) -> None:
    printed = admin(
        "updateTopic", "-b", cluster.broker_address, "-t", "Ordered", "-o", "TRUE", "-w", "3"
    )
    assert masked(printed.out, cluster) == (
        "set broker orderConf. isOrder=true, orderConf=[broker-g:3]create topic to "
        f"{GOLDEN_BROKER} success.\n"
        "TopicConfig [topicName=Ordered, readQueueNums=8, writeQueueNums=3, perm=RW-, "
        "topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=true]"
    )


def test_unit_flags(admin: MqAdmin, cluster: LocalCluster) -> None:
    printed = admin(
        "updateTopic",
        "-b",
        cluster.broker_address,
        "-t",
        "Unit",
        "-u",
        "true",
        "-s",
        "true",
        "-p",
        "2",
    )
    assert "perm=-W-, topicFilterType=SINGLE_TAG, topicSysFlag=3, order=false]" in printed.out


def test_the_permission_that_counts_is_the_brokers(
    admin: MqAdmin, cluster: LocalCluster, topic: str
) -> None:
    """A name server that keeps producers away says of every topic that it can only be read."""
    admin("wipeWritePerm", "-b", "broker-g")
    try:
        printed = admin("updateTopicPerm", "-c", "DefaultCluster", "-t", topic, "-p", "4")
    finally:
        admin("addWritePerm", "-b", "broker-g")
    address = cluster.broker_address
    assert printed.out == f"update topic perm from 6 to 4 in {address} success.\n"


def test_offsets_that_are_not_there_are_not_cloned(
    admin: MqAdmin, cluster: LocalCluster, topic: str
) -> None:
    admin("updateTopic", "-b", cluster.broker_address, "-t", retry_topic("GID_none"))
    printed = admin("cloneGroupOffset", "-s", "GID_none", "-d", "GID_other", "-t", topic)
    assert printed.code == 1
    assert "the group GID_none has no offsets, so GID_other has got none" in printed.problem


def test_topic_list(admin: MqAdmin, topic: str) -> None:
    printed = admin("topicList")
    assert printed.code == 0
    assert {topic, "TBW102", "DefaultCluster", "broker-g"} <= set(printed.out.splitlines())


def test_topic_list_by_cluster(admin: MqAdmin, cluster: LocalCluster, topic: str) -> None:
    golden = step("topicList -c").splitlines()
    lines = admin("topicList", "-c").out.splitlines()
    assert lines[0] == golden[0]
    assert golden[4].replace("GoldNormal".ljust(64), topic.ljust(64)) in lines
    assert len(lines) > 8


def test_topic_list_by_cluster_names_the_groups(
    admin: MqAdmin, cluster: LocalCluster, topic: str
) -> None:
    consume(cluster, topic, "GID_listed", [b"x"])
    lines = admin("topicList", "-c").out.splitlines()
    assert f"{'DefaultCluster':<20}  {topic:<64}  {'GID_listed':<64}" in lines
    assert not any("%RETRY%" in line for line in lines)


def test_topic_route_prints_the_same_bytes(admin: MqAdmin, cluster: LocalCluster) -> None:
    admin("updateTopic", "-b", cluster.broker_address, "-t", "GoldRoute", "-r", "4", "-w", "4")
    without_slave = step("topicRoute -t GoldNormal").replace(',1:"127.0.0.1:27911"', "")
    assert masked(admin("topicRoute", "-t", "GoldRoute").out, cluster) == without_slave


def test_topic_route_as_table(admin: MqAdmin, cluster: LocalCluster, topic: str) -> None:
    header, row, dashes, total = admin("topicRoute", "-lt", topic).out.splitlines()
    layout = "%-45s %-32s %-50s %-10s %-11s %-5s"
    assert header == layout % (
        "#ClusterName",
        "#BrokerName",
        "#BrokerAddrs",
        "#ReadQueue",
        "#WriteQueue",
        "#Perm",
    )
    assert row == layout % (
        "DefaultCluster",
        "broker-g",
        f"{{0={cluster.broker_address}}}",
        4,
        4,
        6,
    )
    assert dashes == "-" * 158
    assert total == layout % ("Total:", 1, "", 4, 4, "")


def test_topic_status(admin: MqAdmin, topic: str) -> None:
    admin("sendMessage", "-t", topic, "-p", "x", "-b", "broker-g", "-i", "1")
    golden = step("topicStatus -t GoldNormal").splitlines()
    header, *rows = masked(admin("topicStatus", "-t", topic).out).splitlines()
    assert header == golden[0]
    assert rows[1] == masked(golden[2]).replace("  11  ", "  1   ")
    assert rows[0] == f"{'broker-g':<32}  {0:<4}  {0:<20}  {0:<20}    "
    assert [row.split()[1] for row in rows] == ["0", "1", "2", "3"]


# --- clusters and brokers
# -----------------------------------------------------------------------------------------------


def test_cluster_list_has_the_originals_layout(admin: MqAdmin, cluster: LocalCluster) -> None:
    golden = step("clusterList").splitlines()
    lines = masked(admin("clusterList").out, cluster).splitlines()
    assert lines[0] == golden[0]
    figures = re.compile(r" +\d+\.\d\d(?=\()|\d+ms| +\d+ +\d+\.\d\d \d\.\d{4}$")
    assert figures.sub("#", lines[1]) == figures.sub("#", golden[1])
    assert len(lines) == 2


def test_cluster_list_more_stats(admin: MqAdmin) -> None:
    golden = step("clusterList -m").splitlines()
    lines = admin("clusterList", "-m").out.splitlines()
    assert lines[0] == golden[0]
    assert re.fullmatch(r"DefaultCluster    broker-g {24}( +\d+){4}", lines[1])
    assert len(lines[1]) == len(golden[1])


def test_broker_status_has_the_originals_keys(admin: MqAdmin, cluster: LocalCluster) -> None:
    def keys(text: str) -> list[str]:
        changing = (
            "commitLogDiskRatio_",
            "scheduleMessageOffset_",
            "leaves ",
        )  # the last one is ours
        return [
            line[: line.index(": ") + 2]
            for line in text.splitlines()
            if not line.startswith(changing)
        ]

    printed = admin("brokerStatus", "-b", cluster.broker_address)
    assert keys(printed.out) == keys(step(f"brokerStatus -b {GOLDEN_BROKER}"))
    assert "brokerVersionDesc               : V4_9_8\n" in printed.out


def test_broker_status_of_a_cluster(admin: MqAdmin, cluster: LocalCluster) -> None:
    of_broker = admin("brokerStatus", "-b", cluster.broker_address).out.splitlines()
    of_cluster = admin("brokerStatus", "-c", "DefaultCluster").out.splitlines()
    assert [line[:25] for line in of_cluster] == [f"{cluster.broker_address:<24} "] * len(of_broker)
    assert [line[25:].split(":")[0] for line in of_cluster] == [
        line.split(":")[0] for line in of_broker
    ]


@contextmanager
def registered(
    cluster: LocalCluster, broker_name: str, broker_id: int, *topics: str
) -> Iterator[str]:
    """The address of a broker that is known to the name server, but does not answer."""
    table = {name: TopicConfig(topic_name=name) for name in topics}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        registered, done = concurrent.futures.Future[None](), asyncio.Event()

        async def stay_registered() -> None:
            async with (
                RemotingClient() as remoting
            ):  # the name server forgets brokers whose connection ends
                header = RegisterBrokerRequest(
                    broker_name=broker_name,
                    broker_addr=address,
                    cluster_name="DefaultCluster",
                    ha_server_addr="",
                    broker_id=broker_id,
                )
                body = encode_body(
                    RegisterBrokerBody(
                        topic_config_table=TopicConfigTable(topic_config_table=table)
                    )
                )
                answer = await remoting.invoke(
                    cluster.namesrv_address, RequestCode.REGISTER_BROKER, header, body
                )
                answer.check(cluster.namesrv_address)
                registered.set_result(None)
                await done.wait()

        running = asyncio.run_coroutine_threadsafe(stay_registered(), cluster.loop)
        concurrent.futures.wait(
            (registered, running), return_when=concurrent.futures.FIRST_COMPLETED
        )
        try:
            yield address
        finally:
            cluster.loop.call_soon_threadsafe(done.set)
            running.result(30)


@pytest.fixture
def dead_broker(cluster: LocalCluster) -> Iterator[str]:
    """As slave of the other one."""
    with registered(cluster, "broker-g", 1) as address:
        yield address


@pytest.mark.parametrize("options", [[], ["-m"], ["--json"]])
def test_cluster_list_says_which_brokers_were_lost(
    admin: MqAdmin, cluster: LocalCluster, options: list[str]
) -> None:
    with registered(cluster, "broker-h", 0):
        assert "lost" not in admin("clusterList", *options).err
    deadline = time.monotonic() + PATIENCE_S
    while not (printed := admin("clusterList", *options)).err and time.monotonic() < deadline:
        time.sleep(0.02)
    line = (
        r"mqadmin clusterList: the broker broker-h is lost: it gave its last sign of life at "
        rf"\S+Z, as {cluster.namesrv_address} remembers "
        r"\(gone for good\? (mqadmin deleteKvConfig -s LOST_BROKERS -k broker-h)\)\n"
    )
    told = re.fullmatch(line, printed.err)
    assert told is not None
    assert printed.code == 0
    assert "broker-h" not in printed.out, "what scripts read stays what it is"
    admin(*told[1].split()[1:])
    assert admin("clusterList", *options).err == ""


@pytest.mark.parametrize("options", [[], ["-m"], ["--json"]])
def test_cluster_list_says_which_brokers_have_no_master(
    admin: MqAdmin, cluster: LocalCluster, options: list[str]
) -> None:
    with registered(cluster, "broker-a", 1):
        printed = admin("clusterList", *options)
    assert printed.err.splitlines()[1:] == [
        "mqadmin clusterList: the broker broker-a has no master at present: its queues can be read "
        "and not written"
    ], "behind the line that it does not answer; broker-g has one"
    forget(admin, "broker-a")


def forget(admin: MqAdmin, broker_name: str) -> None:
    """The name server has seen that its connection ended, and remembers it no more."""
    deadline = time.monotonic() + PATIENCE_S
    while "is lost" not in admin("clusterList").err and time.monotonic() < deadline:
        time.sleep(0.02)
    admin("deleteKvConfig", "-s", "LOST_BROKERS", "-k", broker_name)


def test_cluster_list_with_a_broker_that_does_not_answer(
    admin: MqAdmin, cluster: LocalCluster, dead_broker: str
) -> None:
    printed = admin("clusterList")
    _, alive, dead = printed.out.splitlines()
    assert cluster.broker_address in alive
    nothing = "     0.00(,ms)"
    layout = "%-16s  %-22s  %-4s  %-22s %-16s %19s %19s %10s %5s %6s"
    assert dead == layout % (
        "DefaultCluster",
        "broker-g",
        1,
        dead_broker,
        "",
        nothing,
        nothing,
        "",
        "0.00",
        "0.0000",
    )
    problem = (
        f"mqadmin clusterList: cannot connect to {dead_broker}: connection refused (nothing "
        "listens there)\n"
    )
    assert (printed.code, printed.err) == (1, problem)
    assert admin("clusterList", "--compat-exit").code == 0


def test_broker_status_goes_on_after_a_broker_that_does_not_answer(
    admin: MqAdmin, cluster: LocalCluster, dead_broker: str
) -> None:
    printed = admin("brokerStatus", "-c", "DefaultCluster")
    assert {line.split()[0] for line in printed.out.splitlines()} == {cluster.broker_address}
    assert (printed.code, printed.err.count("\n")) == (1, 1)
    assert dead_broker in printed.err


# --- consumers
# --------------------------------------------------------------------------------------------------


def consume(cluster: LocalCluster, topic: str, group: str, bodies: list[bytes]) -> None:
    """Send these messages and let a push consumer of the group take them; it stays no longer than
    that."""
    asyncio.run(_consume(cluster, topic, group, bodies))


async def _consume(cluster: LocalCluster, topic: str, group: str, bodies: list[bytes]) -> None:
    async with Producer("PID_test", namesrv=cluster.namesrv_address) as producer:
        for body in bodies:
            await producer.send(Message(topic, body), queue=MessageQueue(topic, "broker-g", 0))
    everything = asyncio.Event()
    seen: list[bytes] = []

    async def handle(message: object) -> None:
        seen.append(message.body)  # type: ignore[attr-defined]
        if len(seen) == len(bodies):
            everything.set()

    consumer = PushConsumer(group, namesrv=cluster.namesrv_address, start_from=StartFrom.FIRST)
    consumer.subscribe(topic)
    consumer.on_message(handle)
    async with consumer:
        await asyncio.wait_for(everything.wait(), 30)
    await asyncio.wait_for(_known(cluster, retry_topic(group)), 30)


async def _known(cluster: LocalCluster, topic: str) -> None:
    """Return when the name server has heard of a topic that a client made."""
    async with Admin(namesrv=cluster.namesrv_address) as admin:
        while topic not in await admin.topic_list():
            await asyncio.sleep(0.01)


def test_consumer_progress_of_a_group(admin: MqAdmin, cluster: LocalCluster, topic: str) -> None:
    consume(cluster, topic, "GID_progress", [b"1", b"2", b"3"])
    admin("sendMessage", "-t", topic, "-p", "4", "-b", "broker-g", "-i", "0")
    golden = step("consumerProgress -g GID_gold_tag").splitlines()
    lines = masked(admin("consumerProgress", "-g", "GID_progress").out).splitlines()
    layout = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s"
    assert lines[0] == golden[0]
    assert layout % (topic, "broker-g", 0, 4, 3, 1, "<s>") in lines
    assert lines[-3:] == ["", "Consume TPS: 0.00", "Diff Total: 1"]
    assert [re.sub(r"\d+(?=$)", "N", line) for line in lines[-3:]] == [
        re.sub(r"\d+(?=$)", "N", line) for line in golden[-3:]
    ]


def test_consumer_progress_with_clients(admin: MqAdmin, cluster: LocalCluster, topic: str) -> None:
    consume(cluster, topic, "GID_clients", [b"1"])
    printed = admin("consumerProgress", "-g", "GID_clients", "-s", "true")
    layout = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s  %s"
    lines = masked(printed.out).splitlines()
    assert lines[0].split("#")[-3:] == ["Client IP".ljust(20), "Diff".ljust(21), "LastTime"]
    assert layout % (topic, "broker-g", 0, 1, 1, "N/A", 0, "<s>") in lines
    assert printed.code == 1, "nobody is online to be asked: that is said"
    assert "CONSUMER_NOT_ONLINE" in printed.err


def test_consumer_progress_of_all_groups(admin: MqAdmin, cluster: LocalCluster, topic: str) -> None:
    consume(cluster, topic, "GID_all", [b"1"])
    golden = step("consumerProgress").splitlines()
    lines = admin("consumerProgress").out.splitlines()
    assert lines[0] == golden[0]
    assert f"{'GID_all':<64}  0       {'OFFLINE':<24} {'':<5}  {'':<14}  0        0" in lines


def test_group_online(admin: MqAdmin, cluster: LocalCluster, topic: str) -> None:
    """The same table while the consumer runs: the row of the golden material."""
    golden = step("consumerProgress").splitlines()[1]

    async def look() -> str:
        consumer = PushConsumer("GID_gold_tag", namesrv=cluster.namesrv_address)
        consumer.subscribe(topic)
        consumer.on_message(_ignore)
        async with consumer:
            while True:
                printed = await asyncio.to_thread(admin, "consumerProgress")
                rows = [
                    row
                    for row in printed.out.splitlines()
                    if row.startswith("GID_gold_tag ") and "OFFLINE" not in row
                ]
                if rows:
                    return rows[0]

    assert asyncio.run(asyncio.wait_for(look(), 30)) == golden[:-2] + "0"


async def _ignore(_message: object) -> None:
    pass


# --- messages
# --------------------------------------------------------------------------------------------------


def test_send_message(admin: MqAdmin, topic: str) -> None:
    golden = step("sendMessage -t GoldNormal -p from mqadmin -k admk -c admt")
    printed = admin(
        "sendMessage",
        "-t",
        topic,
        "-p",
        "from mqadmin",
        "-k",
        "admk",
        "-c",
        "admt",
        "-b",
        "broker-g",
        "-i",
        "2",
    )
    assert masked(printed.out) == masked(golden)


def test_a_body_of_any_bytes(admin: MqAdmin, topic: str) -> None:
    assert admin("sendMessage", "-t", topic, "-p", "a\udcff").code == 0
    assert "body=[97, -1]" in admin("consumeMessage", "-t", topic).out


def test_a_broker_without_queue_is_kept_to(admin: MqAdmin, topic: str) -> None:
    assert (
        admin("sendMessage", "-t", topic, "-p", "x", "-b", "broker-g")
        .out.splitlines()[1]
        .startswith("broker-g ")
    )
    printed = admin("sendMessage", "-t", topic, "-p", "x", "-b", "other")
    assert (printed.code, printed.problem.partition(": ")[2]) == (
        1,
        f"the broker other has no queue of the topic {topic} that can be written",
    )


def test_consume_message(admin: MqAdmin, cluster: LocalCluster, topic: str) -> None:
    admin(
        "sendMessage",
        "-t",
        topic,
        "-p",
        "grüße",
        "-k",
        "k1",
        "-c",
        "TagA",
        "-b",
        "broker-g",
        "-i",
        "1",
    )
    lines = masked(admin("consumeMessage", "-t", topic).out, cluster).splitlines()
    message = re.sub(
        r"(Timestamp|CommitLogOffset|commitLogOffset|bodyCRC|storeSize)=\d+", r"\1=#", lines[2]
    )
    message = re.sub(r"bornHost=/127\.0\.0\.1:\d+", "bornHost=/ip:port", message)
    assert lines[1] == "Consume ok"
    assert message == (
        "MSGID: <id> MessageExt [brokerName=broker-g, queueId=1, storeSize=#, queueOffset=0, "
        "sysFlag=0, bornTimestamp=#, "
        f"bornHost=/ip:port, storeTimestamp=#, storeHost=/{GOLDEN_BROKER}, msgId=<id>, "
        "commitLogOffset=#, bodyCRC=#, "
        f"reconsumeTimes=0, preparedTransactionOffset=0, toString()=Message{{topic='{topic}', "
        f"flag=0, properties={{"
        "MIN_OFFSET=0, MAX_OFFSET=1, KEYS=k1, UNIQ_KEY=<id>, CLUSTER=DefaultCluster, TAGS=TagA}, "
        "body=[103, 114, -61, -68, -61, -97, 101], transactionId='null'}] BODY: grüße"
    )
    assert [line for line in lines if "finished" in line] == [
        f"MessageQueue [topic={topic}, brokerName=broker-g, queueId={queue}] print msg finished. "
        f"status=NO_NEW_MSG, offset={int(queue == 1)}"
        for queue in range(4)
    ]


@pytest.fixture
def ten_messages(cluster: LocalCluster, topic: str) -> str:
    """A topic with the messages 0 to 9 in its first queue."""

    async def send() -> None:
        async with Producer("PID_test", namesrv=cluster.namesrv_address) as producer:
            await producer.send(
                [Message(topic, str(n).encode()) for n in range(10)],
                queue=MessageQueue(topic, "broker-g", 0),
            )

    asyncio.run(send())
    return topic


def bodies(text: str) -> list[str]:
    return re.findall(r"BODY: (.*)", text)


def test_consume_message_stops_at_the_number(admin: MqAdmin, ten_messages: str) -> None:
    printed = admin("consumeMessage", "-t", ten_messages, "-c", "3")
    assert bodies(printed.out) == ["0", "1", "2"]
    assert printed.out.startswith("The older 3 message of the 0 queue will be provided\n")
    assert "finished" not in printed.out


def test_consume_message_of_one_queue(admin: MqAdmin, ten_messages: str) -> None:
    one_queue = ("consumeMessage", "-t", ten_messages, "-b", "broker-g", "-i", "0")
    assert bodies(admin(*one_queue).out) == [str(n) for n in range(10)]
    assert bodies(admin(*one_queue, "-o", "7").out) == ["7", "8", "9"]
    printed = admin(*one_queue, "-o", "4", "-c", "2")
    assert bodies(printed.out) == ["4", "5"]
    assert printed.out.startswith("The oldler 2 message will be provided\n")
    queue = f"MessageQueue [topic={ten_messages}, brokerName=broker-g, queueId=0]"
    assert admin(*one_queue, "-o", "11").out == f"{queue} no matched msg, offset=11\n"


def test_consume_message_by_time(admin: MqAdmin, ten_messages: str) -> None:
    now = time.time_ns() // 1_000_000
    assert len(bodies(admin("consumeMessage", "-t", ten_messages, "-s", "0").out)) == 10
    assert len(bodies(admin("consumeMessage", "-t", ten_messages, "-e", str(now)).out)) == 10
    assert bodies(admin("consumeMessage", "-t", ten_messages, "-e", str(now - 3_600_000)).out) == []
    assert (
        bodies(
            admin("consumeMessage", "-t", ten_messages, "-s", str(time.time_ns() // 1_000_000)).out
        )
        == []
    )


def test_consume_message_moves_no_group(admin: MqAdmin, ten_messages: str) -> None:
    admin("consumeMessage", "-t", ten_messages, "-g", "GID_reader")
    assert (
        "nobody of it has ever been online" in admin("consumerProgress", "-g", "GID_reader").problem
    )


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("consumerProgress", "everything of it is missing here"),
        ("consumerProgress -g GID_lost", "its queues of the group GID_lost are missing here"),
        ("skipAccumulatedMessage -g GID_lost -t TOPIC", "its queues of TOPIC are missing here"),
        ("resetOffsetByTime -g GID_lost -t TOPIC -s 0", "its queues of TOPIC are missing here"),
        (
            "resetOffsetByTime -g GID_lost -t TOPIC -s 0 --dry-run",
            "its queues of TOPIC are missing here",
        ),
        ("skipAccumulatedMessage -g GID_lost -t AWAY", "its queues of AWAY are missing here"),
    ],
)
def test_what_is_missing_with_a_lost_broker_is_said_once(
    admin: MqAdmin, cluster: LocalCluster, topic: str, line: str, missing: str
) -> None:
    consume(cluster, topic, "GID_lost", [b"x"])
    away = fresh_topic_name("away")
    words, missing = [
        text.replace("TOPIC", topic).replace("AWAY", away) for text in (line, missing)
    ]
    arguments = words.split()
    with registered(cluster, "broker-l", 0, topic, away, retry_topic("GID_lost")):
        assert "is lost" not in admin(*arguments).err
    deadline = time.monotonic() + PATIENCE_S
    while "is lost" not in admin("clusterList").err and time.monotonic() < deadline:
        time.sleep(0.02)
    printed = admin(*arguments)
    told = [each for each in printed.err.splitlines() if "is lost" in each]
    forget(admin, "broker-l")
    assert len(told) == 1
    assert f"the broker broker-l is lost, {missing}: it gave its last sign of life at" in told[0]
    assert "mqadmin deleteKvConfig -s LOST_BROKERS -k broker-l" in told[0]
    assert printed.code == 1
    assert "broker-l" not in printed.out, "what scripts read stays what it is"
    if away not in line:
        assert "is lost" not in admin(*arguments).err


# --- a part of a cluster
# --------------------------------------------------------------------------------------------------

ON_A_CLUSTER = {
    "updateTopic -c DefaultCluster -t Parts": "create topic to {b} success.\nTopicConfig [",
    "updateSubGroup -c DefaultCluster -g GID_parts": "create subscription group to {b} success.\n",
    "updateBrokerConfig -c DefaultCluster -k regionId -v DefaultRegion": "success, {b}\n",
    "updateTopicPerm -c DefaultCluster -t Parts -p 4": "update topic perm from 6 to 4 in {b} ",
    "deleteSubGroup -c DefaultCluster -g GID_parts": "from broker [{b}] in cluster [DefaultCl",
    "deleteTopic -c DefaultCluster -t Parts": "delete topic [Parts] from NameServer success.\n",
}
"""In this order, with something that is printed."""


@pytest.mark.parametrize("broker_id", [0, 1], ids=["dead", "only a slave"])
def test_what_is_done_with_a_part_of_a_cluster_is_a_failure(
    admin: MqAdmin, cluster: LocalCluster, broker_id: int
) -> None:
    """The others have their turn; on which broker it was not done is said."""
    with registered(cluster, "broker-a", broker_id) as address:
        for arguments, printed in ON_A_CLUSTER.items():
            found = admin(*arguments.split())
            told = "the broker broker-a has no master" if broker_id else f"connect to {address}"
            if arguments.startswith("updateTopicPerm") and not broker_id:
                told = ""  # the route does not have it there
            assert printed.format(b=cluster.broker_address) in found.out, found
            assert told in found.err
            assert found.code == bool(told)
            if arguments.startswith("deleteSubGroup"):  # nor are its topics where it was not
                assert found.err.count(told) == 1
            assert "from cluster [DefaultCluster] success" not in found.out
    for arguments in list(ON_A_CLUSTER)[-2:]:
        assert admin(*arguments.split()).code == 0


def test_a_name_server_that_is_away_keeps_no_other_one_from_its_turn(
    mqadmin: MqAdmin, cluster: LocalCluster
) -> None:
    alive = cluster.namesrv_address
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{taken.getsockname()[1]}"
        servers = f"{dead};{alive}"
        printed = mqadmin("updateNamesrvConfig", "-n", servers, "-k", "productEnvName", "-v", "x")
    assert (printed.code, printed.out) == (1, "")
    assert f"cannot connect to {dead}" in printed.err
    assert printed.err.endswith(f"it was changed at {alive}\n")
    assert "productEnvName                                    =  x\n" in (
        mqadmin("getNamesrvConfig", "-n", alive).out
    )


@pytest.mark.parametrize(
    "line",
    [
        "updateKvConfig -s oper -k key -v value",
        "deleteKvConfig -s oper -k key",
        "updateOrderConf -t Ordered -m put -v broker-g:1",
        "updateOrderConf -t Ordered -m delete",
    ],
)
def test_what_all_name_servers_are_told_may_be_true_of_some(
    mqadmin: MqAdmin, cluster: LocalCluster, line: str
) -> None:
    alive = cluster.namesrv_address
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{taken.getsockname()[1]}"
        printed = mqadmin(*line.split(), "-n", f"{dead};{alive}")
    assert printed.code == 1
    assert f"cannot connect to {dead}" in printed.problem
    assert printed.problem.endswith(
        "each of the 2 name servers was told: they may not say the same now, so run the command "
        "again when all answer"
    )
    assert mqadmin(*line.split(), "-n", alive).code == 0


@pytest.mark.parametrize("name", ["exportMetadata", "exportConfigs", "exportMetrics"])
def test_an_export_without_a_broker_is_a_failure(
    admin: MqAdmin, cluster: LocalCluster, tmp_path: Path, name: str
) -> None:
    with registered(cluster, "broker-a", 1):
        printed = admin(name, "-c", "DefaultCluster", "-f", str(tmp_path))
    assert printed.code == 1
    assert "broker-a has no master at present: it is left out" in printed.err
    assert "success" in printed.out


@pytest.mark.parametrize(
    ("line", "shows"),
    [
        ("getBrokerConfig -c DefaultCluster", "============Master: {b}============"),
        ("getConsumerConfig -g GID_shown", "DefaultCluster:broker-g="),
        ("exportMetadata -c DefaultCluster -f {f}", "success"),
        ("exportConfigs -c DefaultCluster -f {f}", "success"),
        ("exportMetrics -c DefaultCluster -f {f}", "success"),
    ],
)
def test_who_is_away_keeps_no_other_one_from_being_shown(
    admin: MqAdmin, cluster: LocalCluster, tmp_path: Path, line: str, shows: str
) -> None:
    at = {"b": cluster.broker_address, "f": tmp_path}
    admin("updateSubGroup", "-b", cluster.broker_address, "-g", "GID_shown")
    with registered(cluster, "broker-a", 0) as dead, registered(cluster, "broker-z", 1):
        printed = admin(*line.format(**at).split())
    assert shows.format(**at) in printed.out
    assert f"cannot connect to {dead}" in printed.err
    assert "broker-z has no master at present: it is left out" in printed.err
    assert printed.code == 1


def test_a_slave_that_is_away_hides_no_other_one(admin: MqAdmin, cluster: LocalCluster) -> None:
    with registered(cluster, "broker-g", 1) as one, registered(cluster, "broker-g", 2) as other:
        printed = admin("getBrokerConfig", "-c", "DefaultCluster")
    assert f"============Master: {cluster.broker_address}============" in printed.out
    assert all(f"cannot connect to {address}" in printed.err for address in (one, other))
    assert printed.code == 1


def test_versions_that_some_do_not_tell_are_no_success(
    admin: MqAdmin, cluster: LocalCluster
) -> None:
    with registered(cluster, "broker-a", 0) as dead:
        printed = admin("clusterAclConfigVersion", "-c", "DefaultCluster")
    assert f"cannot connect to {dead}" in printed.err
    assert "ACL is off" in printed.err, "the other one was asked"
    assert (printed.code, "success" in printed.out) == (1, False)


def test_nothing_is_exported_where_nobody_tells_anything(
    admin: MqAdmin, cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_admin: Admin, address: str) -> dict[str, str]:
        raise RequestTimeout(f"no answer from {address} in time")

    monkeypatch.setattr(Admin, "broker_config", fails)
    with registered(cluster, "broker-a", 0):
        printed = admin("exportConfigs", "-c", "DefaultCluster", "-f", str(tmp_path))
    assert (printed.code, printed.out, list(tmp_path.iterdir())) == (1, "", [])
    assert printed.err.count("no answer from") == 2


def test_a_name_server_that_is_away_hides_no_other_one(
    mqadmin: MqAdmin, cluster: LocalCluster
) -> None:
    alive, dead = cluster.namesrv_address, "127.0.0.1:1"  # whose address comes first
    printed = mqadmin("getNamesrvConfig", "-n", f"{dead};{alive}")
    assert f"============{alive}============" in printed.out
    assert (printed.code, f"cannot connect to {dead}" in printed.err) == (1, True)


@pytest.mark.parametrize(
    ("name", "file"), [("exportMetadata", "metadata.json"), ("exportConfigs", "configs.json")]
)
def test_an_export_goes_through_no_link_that_somebody_left(
    admin: MqAdmin, tmp_path: Path, name: str, file: str
) -> None:
    others, folder = tmp_path / "others", tmp_path / "export"
    others.write_text("keep this")
    folder.mkdir()
    (folder / file).symlink_to(others)
    assert admin(name, "-c", "DefaultCluster", "-f", str(folder)).code == 0
    assert others.read_text() == "keep this"
    assert [each.name for each in folder.iterdir()] == [file]
    assert not (folder / file).is_symlink()
    assert json.loads((folder / file).read_text())


@pytest.mark.parametrize("options", [[], ["--sort", "lag"]], ids=["as they come", "sorted"])
def test_a_lag_that_no_broker_tells_is_not_none(
    admin: MqAdmin, cluster: LocalCluster, topic: str, options: list[str]
) -> None:
    """A broker that does not answer may have any number of messages for the group."""
    consume(cluster, topic, "GID_unknown", [b"x"])
    with registered(cluster, "broker-z", 0, topic, retry_topic("GID_unknown")) as address:
        printed = admin("consumerProgress", *options)
        row = next(line for line in printed.out.splitlines() if line.startswith("GID_unknown"))
        assert row[-15:].strip() == "", "neither a rate nor a lag"
        assert f"mqadmin consumerProgress: GID_unknown: cannot connect to {address}" in printed.err
        assert printed.code == 1
        printed = admin("statsAll", "-t", topic)
        assert printed.out.splitlines()[1].split() == [topic], "no figures"
        assert (printed.code, address in printed.err) == (1, True)
    assert admin("statsAll", "-t", topic).code == 0
