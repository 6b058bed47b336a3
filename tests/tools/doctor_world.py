"""What the doctor may have seen of a cluster, made by hand."""

from __future__ import annotations

from typing import Any

from aiorocketmq.remoting.protocol.bodies.route import (
    BrokerData,
    ClusterInfo,
    QueueData,
    TopicRouteData,
)
from aiorocketmq.tools.doctor.finding import Finding
from aiorocketmq.tools.doctor.findings import findings
from aiorocketmq.tools.doctor.seen import Broker, Kind, NameServer, Seen, Server, Trouble

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
