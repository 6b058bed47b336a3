"""What the doctor says of servers: they do not answer, disagree, or are not where they say. (With
real daemons: tests/e2e/test_doctor.py.)"""

from __future__ import annotations

import pytest

from aiorocketmq.remoting.protocol.bodies.route import ClusterInfo
from aiorocketmq.tools.doctor.findings import findings, what_answers
from aiorocketmq.tools.doctor.of_name_servers import MOST_LINES
from aiorocketmq.tools.doctor.seen import Kind, NameServer, Seen, Server, Speech, Trouble

from .doctor_world import (
    A0,
    A1,
    ADDRESS,
    CLOCKS,
    NS,
    NS2,
    SLAVE,
    broker,
    dead,
    lines,
    name_server,
    said,
    to_do,
)


def test_nothing_is_wrong() -> None:
    seen = Seen((name_server(),), (broker(),))
    assert lines(findings(seen)) == [CLOCKS]
    assert what_answers(seen) == [
        f"name server {NS}: V4_9_8, clusters: C; brokers: 1",
        f"{A0}: master, V4_9_8",
    ]


# --- servers that do not answer
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "text", "what"),
    [
        (Kind.NO_ADDRESS, "", f"'{NS}' is no address"),
        (Kind.UNKNOWN_HOST, "no", "this machine does not know the name of the host (no)"),
        (Kind.REFUSED, "", "nothing listens there: the connection is refused"),
        (Kind.NO_WAY, "no route", "no connection to it (no route)"),
        (Kind.CERTIFICATE, "expired", "TLS fails at a certificate (expired)"),
        (Kind.NO_HANDSHAKE, "", "TLS is not answered"),
        (Kind.SILENT, "", "it takes connections and answers nothing within 3 s"),
        (Kind.CLOSED, "reset", "it ends the connection in the place of an answer (reset)"),
        (Kind.NONSENSE, "x", "what it answers cannot be read (x)"),
        (Kind.OTHER, "x", "it does not answer as it should (x)"),
    ],
)
def test_a_name_server_that_does_not_answer(kind: Kind, text: str, what: str) -> None:
    servers = (dead(NS, kind, text), name_server(NS2))
    assert said(servers=servers) == [f"WRONG name server {NS}: {what}"]
    assert to_do(servers=servers)
    assert ("brokerIP1" in to_do(broker(address="b:1", trouble=Trouble(kind, text)))) is (
        kind is Kind.UNKNOWN_HOST
    )
    of_broker = said(broker(address=NS, trouble=Trouble(kind, text)))
    assert of_broker == [f"WRONG broker a 0, {NS}: {what}"]


def test_no_name_server_answers() -> None:
    found = said(servers=(dead(NS, Kind.REFUSED),))
    assert found == [
        f"WRONG name server {NS}: nothing listens there: the connection is refused",
        "UNSEEN brokers and topics: no name server tells where they are",
    ]


def test_a_broker_as_name_server() -> None:
    servers = (dead(NS, Kind.NONSENSE)._replace(is_broker=True), name_server(NS2))
    assert said(servers=servers) == [f"WRONG name server {NS}: that is a broker and no name server"]


def test_tls_where_there_is_none_and_the_other_way_round() -> None:
    servers = (dead(NS, Kind.CLOSED, speaks=Speech.TLS), name_server(NS2))
    assert said(servers=servers) == [
        f"WRONG name server {NS}: it speaks TLS only, and was spoken to without"
    ]
    trouble = Trouble(Kind.NO_HANDSHAKE, "")
    assert said(broker(trouble=trouble, speaks=Speech.PLAIN)) == [
        f"WRONG {A0}: it does not speak TLS, and was spoken to with"
    ]


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("172.18.0.3:10911", "an address of the kind that Docker gives containers"),
        ("192.168.7.3:10911", "an address of a private network"),
        ("[fd00::1]:10911", "an address of a private network"),
        ("169.254.3.3:10911", "an address that a machine gave itself"),
    ],
)
def test_an_address_of_a_network_that_this_machine_is_not_in(address: str, kind: str) -> None:
    trouble = Trouble(Kind.NO_WAY, "no answer within 3 s")
    assert to_do(broker(address=address, trouble=trouble)).startswith(
        f"that is {kind}: set brokerIP1"
    )
    assert to_do(broker(address="8.8.8.8:1", trouble=trouble)).startswith("see whether the machine")
    assert "brokerIP1" not in to_do(servers=(dead(address, Kind.NO_WAY),))


# --- name servers beside each other
# --------------------------------------------------------------------------------------------------
def test_name_servers_that_disagree() -> None:
    servers = (
        name_server(NS, ("a", 0, ADDRESS), ("b", 0, SLAVE)),
        name_server(NS2, ("a", 0, ADDRESS)),
    )
    brokers = (broker(), broker("b", 0, SLAVE, config={"brokerName": "b", "namesrvAddr": NS}))
    assert said(*brokers, servers=servers) == [
        f"WRONG name server {NS2}: it does not know broker b 0, {SLAVE}, which {NS} knows"
    ]
    assert f"(it is {NS} now)" in to_do(*brokers, servers=servers)
    assert said(*brokers, servers=servers[::-1]) == said(*brokers, servers=servers)


def test_two_brokers_with_one_name() -> None:
    """Each name server has the one that registered there last: none lacks a broker."""
    servers = (
        name_server(NS, ("a", 0, ADDRESS), ("b", 0, "10.0.0.5:10911")),
        name_server(NS2, ("a", 0, SLAVE), ("b", 0, "10.0.0.5:10911")),
    )
    brokers = (broker(), broker("a", 0, SLAVE), broker("b", 0, "10.0.0.5:10911"))
    assert said(*brokers, servers=servers) == [
        f"WRONG broker a 0: {NS} says that it is at {ADDRESS}, {NS2} that it is at {SLAVE}"
    ]
    assert "two brokers have that name and id" in to_do(*brokers, servers=servers)


def test_one_that_knows_no_broker_disagrees() -> None:
    empty = NameServer(Server(NS2), cluster=ClusterInfo())
    assert said(servers=(name_server(), empty)) == [
        f"WRONG name server {NS2}: it does not know {A0}, which {NS} knows"
    ]


def test_a_name_server_that_names_too_many() -> None:
    many = [(f"b{n:03}", 0, f"10.1.0.{n}:1") for n in range(100)]
    servers = (
        name_server(NS, ("a", 0, ADDRESS), *many, lost={f"l{n}": "1" for n in range(100)}),
        name_server(NS2),
    )
    found = said(servers=servers)
    assert (
        f"WRONG name server {NS2}: it does not know 100 brokers that {NS} knows, the first of "
        in (found[0])
    )
    assert len(found) == 1 + 2 * MOST_LINES


def test_name_servers_of_two_clusters() -> None:
    servers = (name_server(NS), name_server(NS2, ("b", 0, SLAVE)))
    assert said(broker(), broker("b", 0, SLAVE), servers=servers) == [
        f"WRONG name server {NS}; name server {NS2}: they have no broker in common: are they of "
        "two clusters?"
    ]


def test_no_broker_is_registered() -> None:
    empty = NameServer(Server(NS), cluster=ClusterInfo())
    seen = Seen((empty,))
    assert f"WRONG name server {NS}: no broker is registered" in lines(findings(seen))


def test_brokers_that_died() -> None:
    lost = {"a": "1", "gone": "1700000000000"}
    assert said(servers=(name_server(lost=lost),)) == [
        "WRONG broker gone: it died at 2023-11-14T22:13:20Z, and its topics are away with it"
    ]
    assert "deleteKvConfig -s LOST_BROKERS -k gone" in to_do(servers=(name_server(lost=lost),))


# --- addresses of brokers
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("trouble", [None, Trouble(Kind.REFUSED, "")])
def test_a_loopback_address(trouble: Trouble | None) -> None:
    address = "127.0.0.1:10911"
    there = broker(address=address, trouble=trouble)
    servers = name_server(NS, ("a", 0, address))
    line = (
        f"WRONG broker a 0, {address}: it is registered with a loopback address, which leads every "
        "client to its own machine"
    )
    assert line in said(there, servers=(servers,))
    here = name_server("localhost:9876", ("a", 0, address), loopback=True)
    assert line not in said(there, servers=(here,))


def test_an_address_that_leads_nowhere() -> None:
    assert said(broker(address="0.0.0.0:10911")) == [
        "WRONG broker a 0, 0.0.0.0:10911: it is registered with an address that leads nowhere"
    ]


def test_two_brokers_with_one_address() -> None:
    assert said(broker("a"), broker("b")) == [
        f"WRONG broker a 0; broker b 0: they are registered with one address, {ADDRESS}"
    ]


def test_another_broker_at_the_address() -> None:
    assert said(broker(config={"brokerName": "z"})) == [
        f"WRONG {A0}: from here that address leads to the broker z"
    ]


def test_the_port_for_small_requests() -> None:
    assert said(broker(vip=Trouble(Kind.NO_WAY, "x"))) == [
        f"NOTE {A0}: its port for small requests, listenPort - 2, cannot be reached (x)"
    ]


# --- masters and slaves
# --------------------------------------------------------------------------------------------------
def test_a_master_is_missing() -> None:
    assert said(broker("a", 1, SLAVE)) == [
        "WRONG broker a: it has no master: its queues can be read and not written"
    ]
    assert said(broker("a", 1, SLAVE), broker()) == []


def test_slaves_that_are_not_where_their_master_is() -> None:
    assert said(broker(), broker("a", 1, SLAVE, behind_bytes=7)) == [
        f"WRONG {A1}: a slave that lacks 7 bytes of what its master had 3 s ago"
    ]
    assert said(broker(), broker("a", 1, SLAVE, behind_bytes=-7)) == [
        f"WRONG {A1}: a slave whose log has 7 bytes more than its master's"
    ]


def test_more_brokers_than_are_looked_at() -> None:
    assert said(left_out=3) == ["UNSEEN brokers: 3 more, which were not looked at"]
