"""Configuration of the name server (classes NamesrvConfig, NettyServerConfig; ``namesrv.md``
§5.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ..daemon.pid_files import rocketmq_home
from ..remoting.protocol.wire import Record
from ..remoting.transport.config import ServerConfig

HOME = "rocketmqHome"
SCAN_FIRST_S = 5.0
SCAN_PERIOD_S = 10.0
TIDY_UP_PERIOD_S = 1.0
KV_DUMP_FIRST_S = 60.0
KV_DUMP_PERIOD_S = 600.0


def _in_user_home(*parts: str) -> str:
    return str(Path.home().joinpath(*parts))


class NamesrvConfig(ServerConfig, kw_only=True):
    """Every property of the name server, with its default. The paths are the original's, so that it
    finds its files here."""

    listen_port: Annotated[
        int, Meta(ge=0, le=65535, description="the port to serve, 0 for any free one")
    ] = 9876
    rocketmq_home: Annotated[str, Meta(description="ROCKETMQ_HOME; PID files are in run/")] = (
        msgspec.field(default_factory=lambda: str(rocketmq_home()))
    )
    kv_config_path: Annotated[str, Meta(description="where the KV config is kept")] = msgspec.field(
        default_factory=lambda: _in_user_home("namesrv", "kvConfig.json")
    )
    config_store_path: Annotated[
        str, Meta(description="where changes are written to; the -c file if there is one")
    ] = msgspec.field(default_factory=lambda: _in_user_home("namesrv", "namesrv.properties"))
    product_env_name: Annotated[str, Meta(description="the cluster that clusterTest asks")] = (
        "center"
    )
    cluster_test: Annotated[
        bool, Meta(description="ask another cluster for topics that are not known here")
    ] = False
    order_message_enable: Annotated[
        bool, Meta(description="put the order configuration of a topic into its route")
    ] = False
    max_topics: Annotated[
        int,
        Meta(
            ge=0,
            le=2**31 - 1,
            description="topics of all brokers together, 0: as many as there is memory for (ours)",
        ),
    ] = 0
    config_black_list: Annotated[
        str, Meta(description="properties that cannot be changed at run time, joined by ;")
    ] = "configBlackList;configStorePath;kvConfigPath"

    def is_black_listed(self, name: str) -> bool:
        """Whether request 318 must not touch a property. The list can be made longer, not
        shorter."""
        return name in _ALWAYS_BLACK_LISTED or name in (
            entry.strip() for entry in self.config_black_list.split(";")
        )


class ClusterTestConfig(Record, frozen=True, kw_only=True):
    """Where ``clusterTest`` finds the other cluster. The first is ours, the others are system
    properties in the original."""

    cluster_test_namesrv_addr: Annotated[
        str,
        Meta(
            description="name servers of the cluster that clusterTest asks; "
            "empty: an address server tells them"
        ),
    ] = ""
    domain: Annotated[
        str, Meta(description="the address server that clusterTest asks, host or host:port")
    ] = msgspec.field(name="rocketmq.namesrv.domain", default="jmenv.tbsite.net")
    domain_subgroup: Annotated[
        str, Meta(description="the last part of the path on the address server")
    ] = msgspec.field(name="rocketmq.namesrv.domain.subgroup", default="nsaddr")


_ALWAYS_BLACK_LISTED = frozenset({"configBlackList", "configStorePath", "kvConfigPath", HOME})
