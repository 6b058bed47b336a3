"""The list of topics, and one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.console.model.topics import (
    QueueRow,
    changes_of,
    kind_of,
    own_topics,
    permission,
    producer_rows,
    queue_rows,
    route_rows,
    search,
    time_axis,
)
from aiorocketmq.remoting.protocol.bodies.connection import ProducerInfo, ProducerTable
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from aiorocketmq.remoting.protocol.bodies.stats import TopicOffset, TopicStatsTable
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

NAMES = ("Orders", "orders-old", "Bills", "%RETRY%g", "%DLQ%g", "TBW102")
Q0, Q1 = MessageQueue("Orders", "a", 0), MessageQueue("Orders", "a", 1)


def test_kinds() -> None:
    assert [kind_of(name) for name in NAMES] == ["", "", "", "retry", "dead letters", "system"]


def test_search() -> None:
    assert search(NAMES, "ORD", "", 1, 10).rows == ["Orders", "orders-old"]
    assert search(NAMES, "", "retry", 1, 10).rows == ["%RETRY%g"]
    assert len(search(NAMES, "", "all", 1, 10).rows) == 6


def test_topics_that_brokers_make_by_themselves() -> None:
    table = {
        "broker-a": BrokerData(cluster="c", broker_name="broker-a"),
        "broker-b": BrokerData(cluster=None, broker_name="broker-b"),
    }
    own = own_topics(table)
    assert own == {"broker-a", "broker-b", "c", "c_REPLY_TOPIC"}
    assert [kind_of(name, own) for name in ("broker-a", "Orders")] == ["system", ""]
    names = ("broker-a", "c", "Orders")
    assert search(names, "", "", 1, 10, own).rows == ["Orders"]
    assert search(names, "", "system", 1, 10, own).rows == ["broker-a", "c"]


@given(st.integers(0, 200), st.integers(-5, 500), st.integers(1, 60))
def test_every_topic_is_on_one_page(many: int, page: int, size: int) -> None:
    names = tuple(f"t{number:03}" for number in range(many))
    last = search(names, "", "", 1, size).last
    pages = [search(names, "", "", number, size) for number in range(1, last + 1)]
    assert [name for each in pages for name in each.rows] == list(names)
    assert 1 <= search(names, "", "", page, size).number <= last


def test_queues_and_their_times() -> None:
    stats = TopicStatsTable(
        offset_table={
            Q1: TopicOffset(min_offset=0, max_offset=0),
            Q0: TopicOffset(min_offset=2, max_offset=5, last_update_timestamp=300),
        }
    )
    rows = queue_rows(stats, {Q0: 100, Q1: -1})
    assert rows == [QueueRow(Q0, 2, 5, 100, 300), QueueRow(Q1, 0, 0, None, None)]
    assert rows[0].stored == 3
    axis = time_axis([*rows, QueueRow(Q1, 0, 9, 200, 500)])
    assert axis is not None
    assert (axis.begin_ms, axis.end_ms) == (100, 500)
    assert [(bar.begin, bar.width) for bar in axis.bars] == [(0, 500), (250, 750)]
    assert time_axis(rows[1:]) is None


ROUTE = TopicRouteData(
    queue_datas=[QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=8, perm=7)],
    broker_datas=[
        BrokerData(cluster="c", broker_name="b", broker_addrs={1: "b1:1"}),
        BrokerData(cluster="c", broker_name="a", broker_addrs={1: "a1:1", 0: "a0:1"}),
    ],
)


def test_routes() -> None:
    rows = route_rows(ROUTE)
    assert [(row.broker_name, row.master, row.read_queues) for row in rows] == [
        ("a", "a0:1", 4),
        ("b", None, 0),
    ]
    assert permission(rows[0].perm) == "read and write"


def test_what_would_be_sent_to_whom() -> None:
    (change,) = changes_of("Orders", route_rows(ROUTE), read_queues=8, write_queues=8, perm=4)
    assert change.address == "a0:1"
    assert (change.before.read_queue_nums, change.after.read_queue_nums) == (4, 8)
    assert change.after.perm == 5  # the bit that says that others inherit it stays
    assert change.differs
    own = TopicConfig(topic_name="Orders", perm=6, order=True, topic_sys_flag=1)
    (kept,) = changes_of(
        "Orders", route_rows(ROUTE), {"a0:1": own}, read_queues=8, write_queues=8, perm=4
    )
    assert (kept.before, kept.after.order, kept.after.topic_sys_flag) == (own, True, 1)
    (same,) = changes_of("Orders", route_rows(ROUTE), read_queues=4, write_queues=8, perm=6)
    assert not same.differs


def test_a_permission_that_nobody_asked_for_stays_what_it_is_at_each_broker() -> None:
    """One master's write permission was wiped, before it goes away."""
    brokers = {"a": 6, "b": 4, "c": 2}
    route = TopicRouteData(
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=4, write_queue_nums=4, perm=perm)
            for name, perm in brokers.items()
        ],
        broker_datas=[
            BrokerData(cluster="C", broker_name=name, broker_addrs={0: f"{name}:1"})
            for name in brokers
        ],
    )
    changes = changes_of("T", route_rows(route), read_queues=8, write_queues=8, perm=None)
    assert {each.broker_name: each.after.perm for each in changes} == brokers
    assert {each.after.read_queue_nums for each in changes} == {8}


@pytest.mark.parametrize(("read", "write", "perm"), [(0, 1, 6), (1, 2000, 6), (1, 1, 3)])
def test_numbers_that_cannot_be(read: int, write: int, perm: int) -> None:
    with pytest.raises(ValueError, match=r"is 1 to 1024|no permission"):
        changes_of("T", route_rows(ROUTE), read_queues=read, write_queues=write, perm=perm)


def test_producers_of_several_brokers() -> None:
    one = ProducerInfo(client_id="c", remote_ip="/10.0.0.1:5")
    other = ProducerInfo(client_id="c", remote_ip="/10.0.0.1:6")
    (row,) = producer_rows([ProducerTable(data={"p": [each]}) for each in (one, other)])
    assert (row.group, row.client_id, row.address) == ("p", "c", "10.0.0.1")
