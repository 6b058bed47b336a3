"""Where topics and brokers are, as the name server tells it (``namesrv.md`` §5.6).

Classes of the original: TopicRouteData, QueueData, BrokerData, ClusterInfo.
"""

from __future__ import annotations

from msgspec import field

from ..wire import Record, i32, i64

MASTER_ID = 0
"""The broker id of a master."""


class QueueData(Record, frozen=True, kw_only=True):
    """The queues of a topic on one broker."""

    broker_name: str
    read_queue_nums: i32 = 0
    write_queue_nums: i32 = 0
    perm: i32 = 0
    topic_sys_flag: i32 = 0


class BrokerData(Record, frozen=True, kw_only=True):
    """A broker: a master and its slaves under one name."""

    cluster: str | None = None
    broker_name: str
    broker_addrs: dict[i64, str] = field(default_factory=dict)
    """Broker id to ``ip:port``."""

    @property
    def master_addr(self) -> str | None:
        return self.broker_addrs.get(MASTER_ID)


class TopicRouteData(Record, frozen=True, kw_only=True):
    """Which brokers have a topic. Two encodings: ``encode_body`` and
    ``fastjson_writer.dumps_browser_compatible``."""

    order_topic_conf: str | None = None
    """``broker:queues;broker:queues`` of an ordered topic."""
    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)


class ClusterInfo(Record, frozen=True, kw_only=True):
    """All brokers, and the broker names of each cluster. Numeric keys are never quoted here."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, tuple[str, ...]] = field(default_factory=dict)
