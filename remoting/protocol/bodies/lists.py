"""Lists of names (classes TopicList, GroupList, GetConsumerListByGroupResponseBody)."""

from __future__ import annotations

from msgspec import field

from ..wire import Record


class TopicList(Record, frozen=True, kw_only=True):
    topic_list: tuple[str, ...] = ()
    broker_addr: str | None = None
    """A broker that knows more system topics (code 304)."""


class GroupList(Record, frozen=True, kw_only=True):
    group_list: tuple[str, ...] = ()


class ConsumerIdList(Record, frozen=True, kw_only=True):
    """The client ids of a group, for the rebalance (class GetConsumerListByGroupResponseBody)."""

    consumer_id_list: list[str] = field(default_factory=list)
