"""Topics of a broker (``headers.md`` part C)."""

from __future__ import annotations

from ..bodies.lists import GroupList, TopicList
from ..bodies.stats import TopicStatsTable
from ..bodies.topic_config import TopicConfig, TopicConfigList, TopicConfigTable
from ..codes import RequestCode
from ..wire import EmptyFields, NoFields, Record, i32
from .base import Command, TopicRequest


class CreateTopicRequest(Record, frozen=True, kw_only=True):
    """Make or change a topic (code 17). The reply is code 0 with a misleading remark."""

    topic: str
    default_topic: str
    read_queue_nums: i32
    write_queue_nums: i32
    perm: i32
    topic_filter_type: str
    """Name of a TopicFilterType."""
    topic_sys_flag: i32 | None = None
    order: bool = False
    """Brokers of 4.9 ignore it: ordered topics are named in the name server's KV config."""


class KnownTableRequest(Record, frozen=True, kw_only=True):
    """All topics, groups or offsets of a broker (codes 21, 201, 43; the original's have no
    fields)."""

    known: str | None = None
    """Only ours: what the sender has, a version of topics or groups (``DataVersion.text``), or the
    ``state`` of the last answer with offsets. A master of ours that has the same topics or groups
    answers without a body; others read over this."""


COMMANDS = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: Command(CreateTopicRequest, NoFields),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: Command(
        NoFields, NoFields, request_body=TopicConfigList
    ),
    RequestCode.GET_TOPIC_CONFIG: Command(TopicRequest, NoFields, response_body=TopicConfig),
    RequestCode.DELETE_TOPIC_IN_BROKER: Command(TopicRequest, NoFields),
    RequestCode.GET_ALL_TOPIC_CONFIG: Command(
        KnownTableRequest, EmptyFields, response_body=TopicConfigTable
    ),
    RequestCode.GET_TOPIC_STATS_INFO: Command(
        TopicRequest, NoFields, response_body=TopicStatsTable
    ),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Command(
        TopicRequest, NoFields, response_body=GroupList
    ),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Command(
        NoFields, NoFields, response_body=TopicList
    ),
}
