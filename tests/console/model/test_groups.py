"""Groups: how far behind, who is in them, and what members disagree about."""

from __future__ import annotations

from aiorocketmq.console.model.groups import (
    MemberRow,
    QueueLag,
    differences,
    group_troubles,
    groups_of_topics,
    growing,
    lags_of,
    member_rows,
    queue_rows,
    rows_of,
)
from aiorocketmq.remoting.protocol.bodies.connection import ClientConnection, ConsumerConnection
from aiorocketmq.remoting.protocol.bodies.heartbeat import SubscriptionData
from aiorocketmq.remoting.protocol.bodies.running_info import ConsumerRunningInfo, ProcessQueueInfo
from aiorocketmq.remoting.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
)
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

Q0, Q1 = MessageQueue("Orders", "a", 0), MessageQueue("Orders", "a", 1)


def stats(*offsets: tuple[MessageQueue, int, int]) -> ConsumeStats:
    return ConsumeStats(
        offset_table={
            queue: OffsetWrapper(broker_offset=end, consumer_offset=at)
            for queue, end, at in offsets
        },
        consume_tps=1.5,
    )


def member(name: str, **subscriptions: str) -> MemberRow:
    return MemberRow(name, "10.0.0.1:5", "PYTHON", "V4_9_8", subscriptions, 1, None)


def info(expressions: dict[str, str], *queues: MessageQueue) -> ConsumerRunningInfo:
    return ConsumerRunningInfo(
        subscription_set=tuple(
            SubscriptionData(topic=topic, sub_string=text) for topic, text in expressions.items()
        ),
        mq_table={queue: ProcessQueueInfo() for queue in queues},
    )


def test_groups_of_the_topics_that_a_name_server_knows() -> None:
    assert groups_of_topics(["%RETRY%b", "a", "%DLQ%c", "%RETRY%a"]) == ["a", "b"]


def test_all_brokers_together() -> None:
    tables = [
        ConsumeStatsList(consume_stats_list=[{"g": [stats((Q0, 10, 4))]}]),
        ConsumeStatsList(consume_stats_list=[{"g": [stats((Q1, 7, 7))], "h": []}]),
    ]
    assert lags_of(tables) == {"g": (6, 3.0, 1), "h": (0, 0.0, 0)}


def test_a_group_that_is_ahead_in_one_queue_is_behind_in_others_all_the_same() -> None:
    table = ConsumeStatsList(consume_stats_list=[{"g": [stats((Q0, 10, 4), (Q1, 0, 1000))]}])
    assert lags_of([table]) == {"g": (6, 1.5, 1)}


def test_the_furthest_behind_comes_first_and_the_systems_own_last() -> None:
    rows = rows_of(
        ["a", "b", "CID_RMQ_SYS_TRANS"], {"b": (5, 0.0, 1), "CID_RMQ_SYS_TRANS": (9, 0, 1)}
    )
    assert [row.name for row in rows] == ["b", "a", "CID_RMQ_SYS_TRANS"]
    assert [row.lag for row in rows_of(["a"], None)] == [None]


def test_who_consumes_a_queue() -> None:
    rows = queue_rows(stats((Q1, 3, 3), (Q0, 10, 4)), {"c1": info({}, Q0)})
    assert [(row.queue.queue_id, row.lag, row.client) for row in rows] == [(0, 6, "c1"), (1, 0, "")]


def test_members_and_what_they_say() -> None:
    connection = ConsumerConnection(
        connection_set=(ClientConnection(client_id="c2"), ClientConnection(client_id="c1"))
    )
    told = info({"Orders": "A || B", "%RETRY%g": "*"}, Q0)
    rows = member_rows(connection, {"c1": told}, {"c2": "timed out"})
    assert [row.client_id for row in rows] == ["c1", "c2"]
    assert rows[0].subscriptions == {"Orders": "A || B"}
    assert (rows[1].subscriptions, rows[1].problem) == (None, "timed out")
    assert member_rows(None, {}, {}) == []


def test_the_most_common_mistake_there_is() -> None:
    members = [member("c1", Orders="A"), member("c2", Orders="A"), member("c3", Orders="B")]
    (text,) = differences("g", members)
    assert "c1, c2 with 'A'; c3 with 'B'" in text
    assert "passed over" in text


def test_a_topic_that_only_some_subscribe() -> None:
    (text,) = differences("g", [member("c1", Orders="*", Bills="*"), member("c2", Orders="*")])
    assert "Bills: c1 with '*'; c2 do not subscribe it" in text


def test_members_that_agree_or_do_not_tell() -> None:
    silent = member("c3")._replace(subscriptions=None)
    assert differences("g", [member("c1", Orders="A"), member("c2", Orders="A"), silent]) == []


def lag(queue: MessageQueue, behind: int, client: str = "") -> QueueLag:
    return QueueLag(queue, behind, 0, 0, client)


def test_nobody_is_there() -> None:
    (trouble,) = group_troubles("g", [lag(Q0, 5)], [], {})
    assert trouble.text == "Nobody of g is connected, and 5 messages wait."
    assert group_troubles("g", [lag(Q0, 0)], [], {}) == []


def test_queues_that_nobody_has() -> None:
    queues = [lag(Q0, 5, "c1"), lag(Q1, 5)]
    (trouble,) = group_troubles("g", queues, [member("c1", Orders="*")], {})
    assert "1 queues with messages are consumed by no member" in trouble.text
    silent = member("c2")._replace(queues=None, subscriptions=None)
    assert group_troubles("g", queues, [member("c1", Orders="*"), silent], {}) == []


def test_a_group_that_may_not_consume() -> None:
    off = SubscriptionGroupConfig(group_name="g", consume_enable=False)
    (trouble,) = group_troubles("g", [], [], {"a:1": off})
    assert "consumeEnable is false" in trouble.text


def test_groups_that_fall_behind() -> None:
    before = {"a": (1, 0.0, 1), "b": (5, 0.0, 1), "c": (1, 0.0, 1)}
    now = {"a": (2, 0.0, 1), "b": (5, 0.0, 1), "c": (9, 0.0, 1), "new": (9, 0.0, 1)}
    assert growing(before, now) == ["c", "a"]
