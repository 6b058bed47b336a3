"""What the properties of a broker say about the member that it is (dledger.md §5.1)."""

from __future__ import annotations

from ...store.model.config import MessageStoreConfig
from ...store.raft.settings import RaftSettings
from ..config.config import BrokerConfig
from ..config.group_config import GroupConfig
from .group import raft_settings


def member_settings(
    config: BrokerConfig, store: MessageStoreConfig, group: GroupConfig
) -> RaftSettings:
    """Raises ``StoreConfigError``."""
    group.check()
    return raft_settings(store, config.broker_name)._replace(
        heartbeat_ms=group.heart_beat_time_interval_ms,
        max_leak=group.max_heart_beat_leak,
        vote_min_ms=group.min_vote_interval_ms,
        vote_max_ms=group.max_vote_interval_ms,
        push_resend_ms=group.max_push_time_out_ms,
    )
