"""What the doctor says of what was seen. (With real daemons: tests/e2e/test_doctor.py.)"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.errors import (
    BrokerError,
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    RequestTimeout,
    RocketMQError,
    broker_error,
)
from aiorocketmq.remoting.protocol.bodies.connection import ClientConnection, ConsumerConnection
from aiorocketmq.remoting.protocol.bodies.heartbeat import SubscriptionData
from aiorocketmq.remoting.protocol.bodies.route import (
    BrokerData,
    ClusterInfo,
    QueueData,
    TopicRouteData,
)
from aiorocketmq.tools.doctor.finding import Finding, Level, note, together, wrong
from aiorocketmq.tools.doctor.findings import findings, what_answers
from aiorocketmq.tools.doctor.of_brokers import CLOCK_MS, clock_ahead_ms
from aiorocketmq.tools.doctor.of_name_servers import MOST_LINES
from aiorocketmq.tools.doctor.report import Hider, as_json, as_text
from aiorocketmq.tools.doctor.seen import (
    Broker,
    Kind,
    NameServer,
    Seen,
    Server,
    Speech,
    Trouble,
    trouble_of,
)

NS, NS2 = "10.0.0.1:9876", "10.0.0.2:9876"
ADDRESS, SLAVE = "10.0.0.3:10911", "10.0.0.4:10911"
NOW = 1_700_000_000_000
CLOCKS = "UNSEEN clocks of the name servers: they do not tell the time; look there: date -u"
"""Said whenever a name server answers."""
A0, A1 = f"broker a 0, {ADDRESS}", f"broker a 1, {SLAVE}"


def info(*brokers: tuple[str, int, str]) -> ClusterInfo:
    table: dict[str, BrokerData] = {}
    for name, number, address in brokers:
        before = table[name].broker_addrs if name in table else {}
        table[name] = BrokerData(
            cluster="C", broker_name=name, broker_addrs={**before, number: address}
        )
    return ClusterInfo(broker_addr_table=table, cluster_addr_table={"C": tuple(table)})


def runtime(ahead_ms: int = 0, **more: str) -> dict[str, str]:
    """Of a broker that started 90,061 s ago, and whose clock is ahead of ours."""
    return {
        "bootTimestamp": str(NOW + ahead_ms - 90_061_000),
        "runtime": "[ 1 days, 1 hours, 1 minutes, 1 seconds ]",
        "brokerVersion": "409",
        "brokerVersionDesc": "V4_9_8",
        "commitLogDiskRatio": "0.5",
        **more,
    }


def broker(
    name: str = "a",
    number: int = 0,
    address: str = ADDRESS,
    *,
    trouble: Trouble | None = None,
    **more: Any,
) -> Broker:
    """One that is as it should be but for what is said."""
    if trouble is not None:
        return Broker("C", name, number, Server(address, trouble, more.get("speaks")))
    values: dict[str, Any] = {
        "runtime": runtime(),
        "config": {"brokerName": name},
        "asked_ms": NOW,
        "answered_ms": NOW + 3,
        **more,
    }
    return Broker("C", name, number, Server(address), **values)


def name_server(
    address: str = NS, *brokers: tuple[str, int, str], loopback: bool = False, **more: Any
) -> NameServer:
    """One that knows the broker ``a`` when nothing is said."""
    known = info(*(brokers or (("a", 0, ADDRESS),)))
    return NameServer(Server(address, is_loopback=loopback), version=409, cluster=known, **more)


def dead(address: str, kind: Kind, text: str = "", **more: Any) -> NameServer:
    return NameServer(Server(address, Trouble(kind, text), **more))


def lines(found: list[Finding]) -> list[str]:
    return [f"{each.level.value} {each.where}: {each.what}" for each in found]


def said(*brokers: Broker, servers: tuple[NameServer, ...] | None = None, **more: Any) -> list[str]:
    """Without what is always said."""
    seen = Seen(servers or (name_server(),), brokers or (broker(),), **more)
    return [line for line in lines(findings(seen)) if line != CLOCKS]


def to_do(*brokers: Broker, servers: tuple[NameServer, ...] | None = None, **more: Any) -> str:
    """Of the worst finding."""
    return findings(Seen(servers or (name_server(),), brokers or (broker(),), **more))[0].to_do


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


# --- clocks, disks, versions
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ahead_ms", "what"),
    [
        (0, None),
        (CLOCK_MS, None),
        (-CLOCK_MS, None),
        (CLOCK_MS + 5, "5 s ahead of"),
        (3_600_000, "3600 s ahead of"),
        (-7_200_000, "7200 s behind"),
    ],
)
def test_clocks(ahead_ms: int, what: str | None) -> None:
    found = said(broker(runtime=runtime(ahead_ms)))
    assert found == ([] if what is None else [f"WRONG {A0}: its clock is {what} this machine's"])


def test_a_question_that_took_long_says_less_of_the_clock() -> None:
    slow = broker(runtime=runtime(8_000), answered_ms=NOW + 4_000)
    assert clock_ahead_ms(slow) == (4_000, 9_000)
    assert said(slow) == []


@pytest.mark.parametrize("table", [{}, {"runtime": "long"}, {"bootTimestamp": "-1"}])
def test_a_broker_that_tells_no_time(table: Mapping[str, str]) -> None:
    whole: dict[str, str] = {**(runtime() if table else {}), **table}
    assert said(broker(runtime=whole)) == [
        f"UNSEEN {A0}: its clock: it does not tell since when it runs"
    ]


def test_a_full_disk() -> None:
    assert said(broker(runtime=runtime(commitLogDiskRatio="0.93"))) == [
        f"WRONG {A0}: its disk is 93% full: it refuses messages, or will soon"
    ]
    assert said(broker(runtime=runtime(commitLogDiskRatio="-1.0"))) == []


def test_a_member_that_began_with_another_log() -> None:
    assert said(broker(runtime=runtime(raftOldLogDiffers="true"))) == [
        f"WRONG {A0}: its commit log from before the group is not that of its leader: messages of "
        "it come and go with who leads"
    ]
    assert said(broker(runtime=runtime(raftOldLogDiffers="false"))) == []


def test_mixed_and_old_versions() -> None:
    old = broker("b", 0, SLAVE, runtime=runtime(brokerVersion="373"))
    assert said(broker(), old) == [
        "NOTE versions: they are mixed: V4_8_0 (1), V4_9_8 (2)",
        f"NOTE broker b 0, {SLAVE}: its version is V4_8_0, and this client speaks as 4.9 does",
    ]
    assert said(broker(runtime=runtime(brokerVersion="393")))[1:] == []


# --- access control, and what is not told
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signed", "remark", "what"),
    [
        (False, "No accessKey is configured", "it wants an account, and requests are not signed"),
        (True, "No accessKey is configured", "it wants an account, and requests are not signed"),
        (False, "whatever", "it wants an account, and requests are not signed"),
        (True, "No acl config for KEY", "it does not know this access key"),
        (
            True,
            "Check signature failed for accessKey=KEY",
            "it knows this access key, but the signature is wrong: the secret key is another one "
            "there",
        ),
        (True, "no way", "its access control refuses this account (no way)"),
    ],
)
def test_access_control(signed: bool, remark: str, what: str) -> None:
    remark = f"org.apache.rocketmq.acl.common.AclException: {remark}"
    trouble = trouble_of(broker_error(1, remark, ADDRESS))
    assert said(broker(runtime=trouble, config=trouble), signed=signed) == [f"WRONG {A0}: {what}"]


def test_what_only_administrators_are_told() -> None:
    trouble = Trouble(Kind.ACCESS, "Need admin permission for request code=26 ...")
    assert said(broker(config=trouble), signed=True) == [
        f"UNSEEN {A0}: whether it is the one that is registered: it tells that to administrators "
        "only"
    ]


def test_what_a_broker_does_not_know() -> None:
    trouble = trouble_of(broker_error(3, "no", ADDRESS))
    assert said(broker(runtime=trouble)) == [
        f"UNSEEN {A0}: its version, clock and disk: it does not know that request"
    ]


def test_an_account_that_is_only_half_there() -> None:
    assert said(trouble_of_account="~/conf/tools.yml has no secretKey") == [
        "NOTE this machine: ~/conf/tools.yml has no secretKey"
    ]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RequestTimeout("t"), Kind.SILENT),
        (ConnectionLostError("l"), Kind.CLOSED),
        (ProtocolError("p"), Kind.NONSENSE),
        (ConnectError("c"), Kind.OTHER),
        (broker_error(206, "nobody"), Kind.OFFLINE),
        (BrokerError(1, "busy"), Kind.OTHER),
    ],
)
def test_errors_as_troubles(error: RocketMQError, kind: Kind) -> None:
    assert trouble_of(error).kind is kind


# --- topics and groups
# --------------------------------------------------------------------------------------------------


def route(*queues: tuple[str, int], masters: bool = True, count: int = 8) -> TopicRouteData:
    """Brokers with their permissions."""
    return TopicRouteData(
        queue_datas=[
            QueueData(broker_name=name, perm=perm, read_queue_nums=count, write_queue_nums=count)
            for name, perm in queues
        ],
        broker_datas=[
            BrokerData(broker_name=name, broker_addrs={0 if masters else 1: "x:1"})
            for name, _ in queues
        ],
    )


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


# --- what is printed
# --------------------------------------------------------------------------------------------------


def test_the_same_of_several_places_is_said_once() -> None:
    found = together(wrong(f"p{n}", "w", "d") for n in range(8))
    assert found == [Finding(Level.WRONG, "p0; p1; p2; p3; p4; and 3 more", "w", "d")]
    assert together([note("n", "n"), wrong("w", "w", ""), wrong("w", "w", "")]) == [
        wrong("w", "w", ""),
        note("n", "n"),
    ]


def test_a_report_hides_secrets_and_the_home() -> None:
    hide = Hider(("KEY", "KEYLONGER", ""), Path("/home/me"))
    found = [wrong("KEYLONGER", "in /home/me/x for KEY\nand\x1b[31m", "KEY")]
    shown = as_text("v", Seen(()), ["KEY"], found, hide)
    assert "KEY" not in shown
    assert "LONGER" not in shown
    assert "WRONG   ***: in ~/x for *** and\\x1b[31m" in shown
    assert shown.endswith(
        "1 wrong, 0 to know, 0 not seen. Nothing was changed, no message was read."
    )
    assert "KEY" not in as_json("v", Seen(()), ["KEY"], found, hide)


def test_the_whole_text() -> None:
    found = [wrong("w", "x", "do " * 40), note("n", "y")]
    hide = Hider((), Path("/"))
    lines = as_text("v", Seen((), tls=True, signed=True), ["a /b"], found, hide).splitlines()
    assert re.fullmatch(r"v, Python \S+, \w+; TLS, requests signed", lines[0])
    assert lines[1:] == [
        "",
        "answers a /b",
        "",
        "WRONG   w: x",
        "        -> " + " ".join(["do"] * 30),
        "           " + " ".join(["do"] * 10),
        "NOTE    n: y",
        "",
        "1 wrong, 1 to know, 0 not seen. Nothing was changed, no message was read.",
    ]
    first, empty, last = as_text("v", Seen(()), [], [], hide).splitlines()
    assert first.endswith("; plain, requests not signed")
    assert (empty, last[:7]) == ("", "0 wrong")


def test_the_whole_of_json() -> None:
    found = [wrong("w", "x", "do"), note("n", "y")]
    told = json.loads(as_json("v", Seen(()), ["a"], found, Hider((), None)))
    assert told.pop("platform").startswith("Python 3.")
    assert told == {
        "version": "v",
        "manner": "plain, requests not signed",
        "answers": ["a"],
        "findings": [
            {"level": "WRONG", "where": "w", "what": "x", "toDo": "do"},
            {"level": "NOTE", "where": "n", "what": "y", "toDo": ""},
        ],
    }


TEXTS = st.text(max_size=8) | st.sampled_from(
    ["0", "9" * 30, "[ 1 days, 2 hours, 3 minutes, 4 seconds ]", "127.0.0.1:1", "[::1]:2", "0.99"]
)
TROUBLES = st.builds(Trouble, st.sampled_from(Kind), TEXTS)
KEYS = st.sampled_from([*runtime(), "brokerName", "namesrvAddr", "raftRole"])
TABLES = st.dictionaries(KEYS, TEXTS) | TROUBLES | st.none()
SERVERS = st.builds(Server, TEXTS, TROUBLES | st.none(), st.sampled_from(Speech) | st.none())


@st.composite
def anything(draw: st.DrawFn) -> Seen:
    """Whatever peers say."""
    members = draw(st.lists(st.tuples(TEXTS, st.integers(-1, 2), TEXTS), max_size=4))

    def brokers() -> Iterator[Broker]:
        for name, number, address in members:
            server = draw(SERVERS)._replace(address=address)
            yield Broker("C", name, number, server, draw(TABLES), draw(TABLES), 0, 1)

    routes = st.just(route(("a", 4))) | TROUBLES | st.none()
    servers = st.builds(
        NameServer,
        SERVERS,
        st.integers(-1, 1 << 40),
        st.booleans(),
        st.just(info(*members)) | st.none(),
        routes,
        st.dictionaries(TEXTS, TEXTS, max_size=2),
    )
    return Seen(
        tuple(draw(st.lists(servers, max_size=3))),
        tuple(brokers()),
        topic=draw(st.none() | TEXTS),
        group=draw(st.none() | TEXTS),
    )


@settings(max_examples=settings().max_examples // 4)
@given(anything())
def test_whatever_peers_say_there_is_a_report(seen: Seen) -> None:
    found = findings(seen)
    text = as_text("v", seen, what_answers(seen), found, Hider((), None))
    assert all(each.what and each.where for each in found)
    assert all(c.isprintable() or c == "\n" for c in text)
