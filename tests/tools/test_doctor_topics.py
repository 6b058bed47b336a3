"""What the doctor says of a topic and of the group that reads it."""

from __future__ import annotations

from typing import Any

import pytest

from aiorocketmq.remoting.protocol.bodies.connection import ClientConnection, ConsumerConnection
from aiorocketmq.remoting.protocol.bodies.heartbeat import SubscriptionData
from aiorocketmq.remoting.protocol.bodies.route import TopicRouteData
from aiorocketmq.tools.doctor.seen import Kind, Trouble

from .doctor_world import A0, ADDRESS, NS, SLAVE, broker, name_server, route, said, to_do


def of_topic(*routes: TopicRouteData | Trouble | None) -> list[str]:
    """One route of each name server."""
    servers = tuple(name_server(f"10.0.0.{n}:9876", route=r) for n, r in enumerate(routes))
    always = "whether this account may send to it or read it"
    return [line for line in said(servers=servers, topic="T") if always not in line]


def test_topics() -> None:
    assert of_topic(route(("a", 6))) == []
    assert of_topic(None) == ["WRONG topic T: no broker has it"]
    assert of_topic(route(("a", 6)), None) == [
        "WRONG name server 10.0.0.1:9876: it does not know the topic T, which 10.0.0.0:9876 knows"
    ]
    assert of_topic(Trouble(Kind.SILENT, "late"), route(("a", 6))) == [
        "UNSEEN name server 10.0.0.0:9876: route of topic T: late"
    ]


def test_permissions_of_topics() -> None:
    nowhere = "WRONG topic T: nothing can be sent to it: no broker with a master lets it be written"
    reads = "NOTE topic T at a: it can be read there and not written"
    assert of_topic(route(("a", 4))) == [nowhere, reads]
    assert of_topic(route(("a", 4), ("b", 6))) == [reads]
    assert of_topic(route(("a", 4), ("b", 6)), route(("a", 6), ("b", 6))) == [reads]
    assert of_topic(route(("a", 6), masters=False)) == [nowhere]
    assert of_topic(route(("a", 2))) == ["WRONG topic T at a: it cannot be read there"]
    assert of_topic(route(("a", 6), count=0)) == [
        nowhere,
        "WRONG topic T at a: it cannot be read there",
    ]


def test_what_an_account_may_do_cannot_be_seen() -> None:
    seen = said(servers=(name_server(route=route(("a", 6))),), topic="T")
    assert seen == [
        "UNSEEN topic T: whether this account may send to it or read it: that takes a message, or "
        "a pull"
    ]


def consumers(*clients: str, topic: str = "T") -> ConsumerConnection:
    return ConsumerConnection(
        connection_set=tuple(ClientConnection(client_id=client) for client in clients),
        subscription_table={topic: SubscriptionData(topic=topic)},
    )


OFFLINE = Trouble(Kind.OFFLINE, "")


def of_group(at_a: Any, at_b: Any, topic: str | None = "T") -> list[str]:
    brokers = broker(consumers=at_a), broker("b", 0, SLAVE, consumers=at_b)
    known = (("a", 0, ADDRESS), ("b", 0, SLAVE))
    servers = (name_server(NS, *known, route=route(("a", 6), ("b", 6)) if topic else None),)
    found = said(*brokers, servers=servers, topic=topic, group="G")
    return [line for line in found if "topic T: whether" not in line]


def test_groups() -> None:
    assert of_group(consumers("c"), consumers("c")) == []
    assert of_group(OFFLINE, OFFLINE) == ["NOTE group G: none of its consumers is connected"]
    assert of_group(None, None) == []
    assert of_group(consumers("c", topic="X"), OFFLINE) == [
        "WRONG group G: its consumers do not subscribe T"
    ]
    assert of_group(consumers("c", topic="X"), OFFLINE, topic=None) == []
    assert of_group(Trouble(Kind.ACCESS, "no"), consumers("c")) == [
        f"UNSEEN {A0}: who consumes as G: no"
    ]


@pytest.mark.parametrize("at_b", [OFFLINE, consumers("d")])
def test_a_consumer_that_one_broker_does_not_see(at_b: Any) -> None:
    assert of_group(consumers("c", "d"), at_b)[0] == (
        f"WRONG broker b 0, {SLAVE}: the consumer c of group G is connected to other brokers of "
        "the topic, and not to this one"
    )


def test_consumers_need_not_be_at_slaves_and_brokers_without_the_topic() -> None:
    known = (("a", 0, ADDRESS), ("a", 1, SLAVE), ("c", 0, "10.0.0.9:1"), ("d", 0, "10.0.0.8:1"))
    brokers = (
        broker(consumers=consumers("c")),
        broker("a", 1, SLAVE, consumers=OFFLINE),
        broker("c", 0, "10.0.0.9:1", consumers=OFFLINE),
        broker("d", 0, "10.0.0.8:1", consumers=Trouble(Kind.SILENT, "late")),
    )
    servers = (name_server(NS, *known, route=route(("a", 6), ("d", 6))),)
    found = said(*brokers, servers=servers, topic="T", group="G")
    assert "UNSEEN broker d 0, 10.0.0.8:1: who consumes as G: late" in found
    assert [line for line in found if "WRONG" in line] == []


def test_what_is_subscribed_is_said() -> None:
    servers = (name_server(route=route(("a", 6))),)
    for topics, shown in ((("X", "Y"), "X, Y"), ((), "nothing")):
        table = {topic: SubscriptionData(topic=topic) for topic in topics}
        at_a = broker(consumers=ConsumerConnection(subscription_table=table))
        assert to_do(at_a, servers=servers, topic="T", group="G").startswith(
            f"they subscribe: {shown};"
        )
