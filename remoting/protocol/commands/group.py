"""Consumer groups of a broker (``headers.md`` part C)."""

from __future__ import annotations

from ..bodies.stats import ConsumeStats, ConsumeStatsList
from ..bodies.subscription_group import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from ..codes import RequestCode
from ..wire import NoFields, Record
from .base import Command
from .topic import KnownTableRequest


class DeleteSubscriptionGroupRequest(Record, frozen=True, kw_only=True):
    """Forget a group (code 207)."""

    group_name: str
    remove_offset: bool = False
    clean_offset: bool | None = None
    """What 5.x calls ``remove_offset``."""


class GetConsumeStatsRequest(Record, frozen=True, kw_only=True):
    """How far a group is behind (code 208)."""

    consumer_group: str
    topic: str | None = None
    """Absent: all topics of the group."""


class GetConsumeStatsInBrokerRequest(Record, frozen=True, kw_only=True):
    """How far all groups are behind (code 317, class GetConsumeStatsInBrokerHeader)."""

    is_order: bool = False


COMMANDS = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Command(
        NoFields, NoFields, request_body=SubscriptionGroupConfig
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Command(
        NoFields, NoFields, request_body=SubscriptionGroupList
    ),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Command(
        KnownTableRequest, NoFields, response_body=SubscriptionGroupTable
    ),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: Command(DeleteSubscriptionGroupRequest, NoFields),
    RequestCode.GET_CONSUME_STATS: Command(
        GetConsumeStatsRequest, NoFields, response_body=ConsumeStats
    ),
    RequestCode.GET_BROKER_CONSUME_STATS: Command(
        GetConsumeStatsInBrokerRequest, NoFields, response_body=ConsumeStatsList
    ),
}
