"""Which queues a route offers for sending and for reading (client.md §2.2, §2.3)."""

from __future__ import annotations

import pytest

from aiorocketmq.client.cluster.route_cache import (
    MAX_QUEUES,
    MAX_QUEUES_IN_ALL,
    publish_queues,
    subscribe_queues,
    template_route,
)
from aiorocketmq.client.cluster.server_addresses import parse_addresses
from aiorocketmq.client.errors import ConfigError
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, QueueData, TopicRouteData

READ, WRITE, BOTH = 4, 2, 6


def broker(name: str, *ids: int) -> BrokerData:
    return BrokerData(
        cluster="C", broker_name=name, broker_addrs={i: f"10.0.0.{i}:10911" for i in ids}
    )


def queues(name: str, read: int, write: int, perm: int = BOTH) -> QueueData:
    return QueueData(broker_name=name, read_queue_nums=read, write_queue_nums=write, perm=perm)


def named(found: tuple[tuple[str, str, int], ...]) -> str:
    return " ".join(f"{name}{index}" for _, name, index in found)


def test_sending_needs_a_master_and_write_permission() -> None:
    route = TopicRouteData(
        queue_datas=[
            queues("b", 1, 2),
            queues("a", 1, 1),
            queues("c", 1, 1, READ),
            queues("d", 1, 1),
            queues("e", 1, 1),
        ],
        broker_datas=[broker("a", 0, 1), broker("b", 0), broker("c", 0), broker("d", 1)],
    )
    assert named(publish_queues("T", route)) == "a0 b0 b1"


def test_reading_needs_read_permission_only() -> None:
    route = TopicRouteData(
        queue_datas=[queues("b", 2, 1), queues("a", 1, 1, WRITE), queues("d", 1, 1, READ)],
        broker_datas=[broker("a", 0), broker("b", 0), broker("d", 1)],
    )
    assert named(subscribe_queues("T", route)) == "b0 b1 d0"


@pytest.mark.parametrize(
    ("conf", "expected"),
    [("b:2;a:1", "b0 b1 a0"), ("b:1;", "b0"), ("b;c:x;d:999999;a:1", "a0")],
)
def test_an_order_configuration_says_it_alone(conf: str, expected: str) -> None:
    route = TopicRouteData(
        order_topic_conf=conf, queue_datas=[queues("z", 8, 8)], broker_datas=[broker("z", 0)]
    )
    assert named(publish_queues("T", route)) == expected


def test_a_template_gives_at_most_so_many_queues() -> None:
    template = TopicRouteData(
        queue_datas=[queues("a", 8, 8), queues("b", 2, 8)],
        broker_datas=[broker("a", 0), broker("b", 0)],
    )
    route = template_route("New", template, 4)
    assert named(route.publish_queues) == "a0 a1 a2 a3 b0 b1"
    assert route.publish_queues[0].topic == "New"
    assert route.from_template
    assert route.subscribe_queues == ()


def test_nobody_lists_two_thousand_million_queues() -> None:
    data = TopicRouteData(
        queue_datas=[queues("b", 2**31 - 1, 2**31 - 1)], broker_datas=[broker("b", 0)]
    )
    lists = (
        publish_queues("T", data),
        subscribe_queues("T", data),
        template_route("T", data, 2**31 - 1).publish_queues,
    )
    assert [len(found) for found in lists] == [MAX_QUEUES] * 3


def test_nor_do_many_brokers_together() -> None:
    names = [f"b{number}" for number in range(30)]
    data = TopicRouteData(
        queue_datas=[queues(name, 2**31 - 1, 2**31 - 1) for name in names],
        broker_datas=[broker(name, 0) for name in names],
    )
    ordered = TopicRouteData(order_topic_conf=";".join(f"{name}:99999" for name in names))
    lists = (
        publish_queues("T", data),
        publish_queues("T", ordered),
        subscribe_queues("T", data),
        template_route("T", data, 2**31 - 1).publish_queues,
    )
    assert [len(found) for found in lists] == [MAX_QUEUES_IN_ALL] * 4


def test_name_server_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert parse_addresses(" a:1 ;b:2;;a:1") == ("a:1", "b:2")
    assert parse_addresses(["[::1]:9876"]) == ("[::1]:9876",)
    assert parse_addresses("http://MQ_INST_1_2.host:80") == ("MQ_INST_1_2.host:80",)
    with pytest.raises(ConfigError, match="NAMESRV_ADDR"):
        parse_addresses(None)
    monkeypatch.setenv("NAMESRV_ADDR", "c:3")
    assert parse_addresses(None) == ("c:3",)


@pytest.mark.parametrize(
    "given", ["host", "host:", ":1", "host:0", "host:65536", "ftp://host:1", "http://host:1/", ""]
)
def test_bad_addresses(given: str) -> None:
    with pytest.raises(ConfigError):
        parse_addresses(given)
