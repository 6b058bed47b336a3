"""Which brokers a name server remembers that died, and for how long."""

from __future__ import annotations

import sys

import pytest

from aiorocketmq.client.cluster.lost_brokers import LOST_BROKERS, LOST_BROKERS_OF_TOPIC
from aiorocketmq.namesrv import lost_brokers
from aiorocketmq.namesrv.lost_brokers import KEPT_MS
from aiorocketmq.namesrv.route_table import BROKER_EXPIRED_MS, RouteTable
from aiorocketmq.remoting.protocol.bodies.topic_config import DataVersion, TopicConfig
from aiorocketmq.remoting.protocol.commands.route import BrokerRequest, RegisterBrokerRequest

NOW = 1_000_000


def register(
    table: RouteTable, name: str, *topics: str, now_ms: int = NOW, broker_id: int = 0
) -> None:
    """Over a connection that has the name of the address."""
    address = sys.intern(f"{name}-{broker_id}:1")
    request = RegisterBrokerRequest(
        broker_name=name,
        broker_addr=address,
        cluster_name="c",
        ha_server_addr="h:2",
        broker_id=broker_id,
    )
    configs = {topic: TopicConfig(topic_name=topic) for topic in topics}
    table.register(request, DataVersion(counter=now_ms), None, lambda: configs, address, now_ms)


def disconnect(table: RouteTable, name: str, broker_id: int = 0) -> None:
    table.disconnect(sys.intern(f"{name}-{broker_id}:1"))


def unregister(table: RouteTable, name: str, broker_id: int = 0) -> None:
    request = BrokerRequest(
        broker_name=name,
        broker_addr=f"{name}-{broker_id}:1",
        cluster_name="c",
        broker_id=broker_id,
    )
    table.unregister(request)


def lost(table: RouteTable) -> dict[str, str]:
    return dict(table.lost.table(LOST_BROKERS) or {})


def of_topic(table: RouteTable, topic: str) -> str | None:
    return table.lost.value(LOST_BROKERS_OF_TOPIC, topic)


@pytest.fixture
def table() -> RouteTable:
    made = RouteTable()
    register(made, "a", "t", "u")
    register(made, "b", "t")
    return made


def test_a_broker_whose_connection_ends_is_remembered_with_its_topics(table: RouteTable) -> None:
    assert lost(table) == {}
    disconnect(table, "b")
    assert lost(table) == {"b": str(NOW)}
    assert table.lost.value(LOST_BROKERS, "b") == str(NOW)
    assert (of_topic(table, "t"), of_topic(table, "u")) == (f"b={NOW}", None)
    disconnect(table, "a")
    assert of_topic(table, "t") == f"b={NOW};a={NOW}"


def test_so_is_one_that_is_silent(table: RouteTable) -> None:
    register(table, "a", "t", "u", now_ms=NOW + BROKER_EXPIRED_MS)
    table.expire(NOW + BROKER_EXPIRED_MS + 1)
    assert lost(table) == {"b": str(NOW)}


def test_one_that_unregisters_is_not_missed(table: RouteTable) -> None:
    unregister(table, "b")
    disconnect(table, "b")
    assert lost(table) == {}
    disconnect(table, "a")
    unregister(table, "a")
    assert lost(table) == {}, "it left for good after all"


def test_its_master_brings_its_topics_back_and_a_slave_does_not(table: RouteTable) -> None:
    register(table, "b", broker_id=1)
    disconnect(table, "b")
    assert lost(table) == {}, "a slave serves its queues"
    disconnect(table, "b", 1)
    register(table, "b", broker_id=1)
    assert lost(table) == {"b": str(NOW)}
    register(table, "b", "t")
    assert lost(table) == {}


def test_a_topic_that_is_deleted_is_not_missed(table: RouteTable) -> None:
    disconnect(table, "a")
    table.delete_topic("t", "another cluster")
    assert of_topic(table, "t") == f"a={NOW}"
    table.delete_topic("t", "c")
    assert (of_topic(table, "t"), of_topic(table, "u")) == (None, f"a={NOW}")


def test_they_are_forgotten_after_some_days_and_where_they_are_too_many(
    table: RouteTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    disconnect(table, "b")
    register(table, "a", "t", "u", now_ms=NOW + KEPT_MS)
    table.expire(NOW + KEPT_MS)
    assert lost(table) == {"b": str(NOW)}
    table.expire(NOW + KEPT_MS + 1)
    assert lost(table) == {}
    monkeypatch.setattr(lost_brokers, "MAX_LOST", 2)
    monkeypatch.setattr(lost_brokers, "MAX_LOST_TOPICS", 3)
    for name, topics in [("d", "x"), ("e", "x"), ("f", "x"), ("g", "xyz"), ("h", "wxyz")]:
        table.lost.remember(name, "c", topics, NOW)
        assert len(lost(table)) <= 2
    assert [*lost(table)] == ["g"]
