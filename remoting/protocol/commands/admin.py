"""Configuration, statistics and upkeep of brokers and name servers (``headers.md`` parts C and
D)."""

from __future__ import annotations

from typing import Final

from ..bodies.kv import KVTable
from ..bodies.stats import BrokerStatsData, QueryConsumeQueueBody
from ..codes import RequestCode
from ..wire import NoFields, Record, i32, i64
from .base import Command


class GetBrokerConfigResponse(Record, frozen=True, kw_only=True):
    """The body is ``.properties`` text (code 26)."""

    version: str
    """A DataVersion as JSON text."""


class ViewBrokerStatsDataRequest(Record, frozen=True, kw_only=True):
    """One statistic (code 315)."""

    stats_name: str
    stats_key: str


class QueryConsumeQueueRequest(Record, frozen=True, kw_only=True):
    """Entries of a consume queue (code 321)."""

    topic: str
    queue_id: i32 = 0
    index: i64 = 0
    count: i32 = 0
    consumer_group: str | None = None


TAKES_EFFECT_LATER: Final = "takes effect at the next start: "
"""Ours: how the remark to a change begins (code 25, done) that a broker has written down, and goes
on without; the names follow. The original says nothing."""

_UPDATE_CONFIG = Command(NoFields, NoFields, request_body=bytes)
_UPKEEP = Command(NoFields, NoFields)

COMMANDS = {
    RequestCode.UPDATE_BROKER_CONFIG: _UPDATE_CONFIG,
    RequestCode.GET_BROKER_CONFIG: Command(NoFields, GetBrokerConfigResponse, response_body=bytes),
    RequestCode.UPDATE_NAMESRV_CONFIG: _UPDATE_CONFIG,
    RequestCode.GET_NAMESRV_CONFIG: Command(NoFields, NoFields, response_body=bytes),
    RequestCode.GET_BROKER_RUNTIME_INFO: Command(NoFields, NoFields, response_body=KVTable),
    RequestCode.VIEW_BROKER_STATS_DATA: Command(
        ViewBrokerStatsDataRequest, NoFields, response_body=BrokerStatsData
    ),
    RequestCode.QUERY_CONSUME_QUEUE: Command(
        QueryConsumeQueueRequest, NoFields, response_body=QueryConsumeQueueBody
    ),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: _UPKEEP,
    RequestCode.CLEAN_UNUSED_TOPIC: _UPKEEP,
    RequestCode.DELETE_EXPIRED_COMMITLOG: _UPKEEP,
    RequestCode.HEALTH: _UPKEEP,
}
