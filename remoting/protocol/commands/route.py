"""Name server: brokers, routes, lists of topics (``headers.md`` part D)."""

from __future__ import annotations

from typing import Final

from ..bodies.kv import KVTable
from ..bodies.lists import TopicList
from ..bodies.registration import RegisterBrokerBody
from ..bodies.route import ClusterInfo, TopicRouteData
from ..bodies.topic_config import DataVersion
from ..codes import RequestCode
from ..wire import NoFields, Record, i32, i64
from .base import Command

MAX_NAME: Final = 512
"""Characters of anything that a name server keeps of a broker (ours). A record has a byte for the
length of its topic."""


class RegisterBrokerRequest(Record, frozen=True, kw_only=True):
    """A broker says that it lives and what it has (code 103). The body's form depends on its
    version and ``compressed``."""

    broker_name: str
    broker_addr: str
    """``ip:port`` under which clients reach it; the key of the live table."""
    cluster_name: str
    ha_server_addr: str
    broker_id: i64
    """0 is the master."""
    compressed: bool = False
    body_crc32: i32 = 0
    """31 bits of the body's CRC-32 as sent (``registration.body_crc32``); 0: not checked."""
    whole_table: bool | None = None
    """Only ours: this is all that the broker has. A name server of ours forgets what else it knows
    of it (``namesrv/whole_tables.py``); others read over this."""


class RegisterBrokerResponse(Record, frozen=True, kw_only=True):
    """For slaves: where their master is. A master gets ``"extFields":{}``."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerRequest(Record, frozen=True, kw_only=True):
    """One broker (classes UnRegisterBrokerRequestHeader, QueryDataVersionRequestHeader)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: i64


class QueryDataVersionResponse(Record, frozen=True, kw_only=True):
    """Whether the name server knows another version of this broker's topics; the body is the
    version it has (code 322)."""

    changed: bool


class GetRouteInfoRequest(Record, frozen=True, kw_only=True):
    """Where a topic is (code 105)."""

    topic: str
    accept_standard_json_only: bool | None = None


class BrokerNameRequest(Record, frozen=True, kw_only=True):
    """One broker name, that is a master and its slaves."""

    broker_name: str


class WipeWritePermResponse(Record, frozen=True, kw_only=True):
    """How many topics lost their write permission there (code 205)."""

    wipe_topic_count: i32


class AddWritePermResponse(Record, frozen=True, kw_only=True):
    """How many topics can be written there again (code 327)."""

    add_topic_count: i32


class DeleteTopicFromNamesrvRequest(Record, frozen=True, kw_only=True):
    """Forget a topic, everywhere or in one cluster (code 216)."""

    topic: str
    cluster_name: str | None = None


class GetTopicsByClusterRequest(Record, frozen=True, kw_only=True):
    """Topics of a cluster (code 224)."""

    cluster: str


_TOPICS = Command(NoFields, NoFields, response_body=TopicList)

COMMANDS = {
    RequestCode.REGISTER_BROKER: Command(
        RegisterBrokerRequest,
        RegisterBrokerResponse,
        request_body=RegisterBrokerBody,
        response_body=KVTable,
    ),
    RequestCode.UNREGISTER_BROKER: Command(BrokerRequest, NoFields),
    RequestCode.QUERY_DATA_VERSION: Command(
        BrokerRequest, QueryDataVersionResponse, request_body=DataVersion, response_body=DataVersion
    ),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Command(
        GetRouteInfoRequest, NoFields, response_body=TopicRouteData
    ),
    RequestCode.GET_BROKER_CLUSTER_INFO: Command(NoFields, NoFields, response_body=ClusterInfo),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Command(BrokerNameRequest, WipeWritePermResponse),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Command(BrokerNameRequest, AddWritePermResponse),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Command(DeleteTopicFromNamesrvRequest, NoFields),
    RequestCode.GET_TOPICS_BY_CLUSTER: Command(
        GetTopicsByClusterRequest, NoFields, response_body=TopicList
    ),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _TOPICS,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _TOPICS,
    RequestCode.GET_UNIT_TOPIC_LIST: _TOPICS,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _TOPICS,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _TOPICS,
}
