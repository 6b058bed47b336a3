"""Consumer groups as a broker keeps them: ``subscriptionGroup.json``, the bodies of codes 200 and
201.

Classes of the original: SubscriptionGroupConfig, SubscriptionGroupWrapper.
"""

from __future__ import annotations

from msgspec import field

from ..message.retries import MAX_RECONSUME_TIMES
from ..wire import Record, i32, i64
from .topic_config import DataVersion


class SubscriptionGroupConfig(Record, frozen=True, kw_only=True):
    """One consumer group; the defaults are those of a group made on first use."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: i32 = 1
    """0: messages that are given back are dropped."""
    retry_max_times: i32 = MAX_RECONSUME_TIMES
    broker_id: i64 = 0
    which_broker_when_consume_slowly: i64 = 1
    notify_consumer_ids_changed_enable: bool = True


class SubscriptionGroupList(Record, frozen=True, kw_only=True):
    """Groups to be made (5.x)."""

    group_config_list: tuple[SubscriptionGroupConfig, ...]


class SubscriptionGroupTable(Record, frozen=True, kw_only=True):
    """All consumer groups of a broker (class SubscriptionGroupWrapper)."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    data_version: DataVersion = DataVersion()
