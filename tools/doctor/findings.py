"""``findings(seen)``: what is to be said of what was seen. Pure."""

from __future__ import annotations

from ...remoting.protocol.codes import version_name
from .finding import Finding, note, together
from .of_brokers import of_brokers
from .of_name_servers import of_name_servers
from .of_topics import of_group, of_topic
from .seen import Broker, NameServer, Seen

__all__ = ["findings", "what_answers"]


def findings(seen: Seen) -> list[Finding]:
    """What is wrong comes first, then what is good to know, then what could not be seen."""
    account = (
        [note("this machine", seen.trouble_of_account, "write both into it, or take it away")]
        if seen.trouble_of_account
        else []
    )
    return together(
        [
            *account,
            *of_name_servers(seen),
            *of_brokers(seen),
            *of_topic(seen),
            *of_group(seen),
        ]
    )


def what_answers(seen: Seen) -> list[str]:
    """A line for everybody who answers."""
    servers = [_of_name_server(each) for each in seen.name_servers if each.cluster is not None]
    brokers = [_of_broker(each) for each in seen.brokers if each.server.trouble is None]
    return [*servers, *brokers]


def _of_name_server(each: NameServer) -> str:
    assert each.cluster is not None
    clusters = ", ".join(sorted(each.cluster.cluster_addr_table)) or "none"
    count = len(each.cluster.broker_addr_table)
    version = f" {version_name(each.version)}," if each.version else ""
    return f"name server {each.server.address}:{version} clusters: {clusters}; brokers: {count}"


def _of_broker(each: Broker) -> str:
    told = [each.figure("brokerVersionDesc"), each.figure("raftRole").lower()]
    role = "master" if each.is_master else "slave"
    return f"{each.place}: {', '.join([role, *(text for text in told if text)])}"
