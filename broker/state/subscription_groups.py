"""The consumer groups a broker knows and what each may do (class SubscriptionGroupManager)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from ...remoting.clock import Clock
from ...remoting.errors import RequestError
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.subscription_group import (
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from ...remoting.protocol.bodies.topic_config import DataVersion
from ...remoting.protocol.codes import ResponseCode
from ...remoting.protocol.message.topic_names import group_error
from ..config.config import BrokerConfig
from .frame_limit import FrameBudget, entry_bytes
from .lmq import light_group

log: Final = logging.getLogger(__name__)

MAX_GROUPS: Final = 100_000
"""Clients make groups by using them; this many is the end."""

_BUILT_IN: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
_SYSTEM_PREFIX: Final = "CID_RMQ_SYS_"


class SubscriptionGroups:
    """All groups by name. A group that is asked for and unknown is made, when the configuration
    allows it and the table is this broker's own."""

    def __init__(self, config: BrokerConfig, clock: Clock, *, light: bool = False) -> None:
        """``light``: groups whose names begin with ``%LMQ%`` are kept in no table (``lmq.py``)."""
        self._light = light
        self._config = config
        self._clock = clock
        self._outages = Outages(clock)
        self._table: dict[str, SubscriptionGroupConfig] = {}
        self.frame_budget: FrameBudget = FrameBudget(
            "groups", "delete groups that are not used or start another broker"
        )
        for name in _BUILT_IN:
            self._put(SubscriptionGroupConfig(group_name=name))
        self.data_version: DataVersion = DataVersion(counter=0, timestamp=clock.time_ms())
        self.version_before: DataVersion = self.data_version
        """The version that this broker's last change was made to."""
        self.listeners: list[Callable[[str], None]] = []
        """Called after every change with the name of the group."""
        self.deletion_listeners: list[Callable[[str], None]] = []
        """Called with every group that is gone."""

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[SubscriptionGroupConfig]:
        return iter(self._table.values())

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """The group, made on first use when ``autoCreateSubscriptionGroup`` is on or it is one of
        the system's. Raises ``RequestError`` when there is no space for it. A broker that takes its
        tables from another one makes none (the original does): it serves the group as it would be
        made.

        ``None`` for a group that may not be made, and for a name that no client of the original
        would use (the original's broker takes any; quirk).
        """
        group = self._table.get(name)
        return group if group is not None else self._unknown(name)

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """The group when it exists; never makes one."""
        return self._table.get(name)

    def _unknown(self, name: str) -> SubscriptionGroupConfig | None:
        if self._light and (light := light_group(name)) is not None:
            return light
        allowed = self._config.auto_create_subscription_group or name.startswith(_SYSTEM_PREFIX)
        if not allowed:
            return None
        if error := group_error(name):
            self._outages.fails(log, ("name", name), "no group made: %s", error)
            return None
        group = SubscriptionGroupConfig(group_name=name)
        return self._create(group) if self._config.owns_tables else group

    def _create(self, group: SubscriptionGroupConfig) -> SubscriptionGroupConfig | None:
        name = group.group_name
        if len(self._table) >= MAX_GROUPS:
            self._outages.fails(
                log,
                ("too many",),
                "the broker holds %d groups, none is made for %s: delete unused ones",
                MAX_GROUPS,
                name,
            )
            return None
        if not self.frame_budget.has(entry_bytes(name, group)):
            raise RequestError(ResponseCode.SYSTEM_ERROR, self.frame_budget.refusal(name))
        self._put(group)
        log.info("group made %s", group)
        self._has_changed(name)
        return group

    def update(self, group: SubscriptionGroupConfig) -> None:
        """Create or change a group as an administrator asks for. Raises ``RequestError`` when there
        are too many."""
        if group.group_name not in self._table and len(self._table) >= MAX_GROUPS:
            remark = (
                f"the broker holds {MAX_GROUPS} groups, {group.group_name} cannot be added: "
                "delete unused groups first"
            )
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        if group.group_name not in self._table and not self.frame_budget.has(
            entry_bytes(group.group_name, group)
        ):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, self.frame_budget.refusal(group.group_name)
            )
        log.info("group changed old=%s new=%s", self._table.get(group.group_name), group)
        self._put(group)
        self._has_changed(group.group_name)

    def delete(self, name: str) -> bool:
        """Whether there was such a group."""
        group = self._table.pop(name, None)
        if group is None:
            return False
        self.frame_budget.take(-entry_bytes(name, group))
        log.info("group deleted %s", group)
        self._has_changed(name)
        self._are_gone([name])
        return True

    def _are_gone(self, names: Iterable[str]) -> None:
        for name in names:
            for listener in self.deletion_listeners:
                listener(name)

    def _put(self, group: SubscriptionGroupConfig) -> None:
        name = group.group_name
        before = self._table.get(name)
        self.frame_budget.take(
            entry_bytes(name, group) - (0 if before is None else entry_bytes(name, before))
        )
        self._table[name] = group

    def new_version(self) -> None:
        """Slaves have to take over every group anew, though none has changed."""
        self.version_before = self.data_version
        self.data_version = self.data_version.next(self._clock.time_ms())

    def _has_changed(self, name: str) -> None:
        self.frame_budget.tell()
        self.new_version()
        for listener in self.listeners:
            listener(name)

    def record(self) -> SubscriptionGroupTable:
        """The table as it is persisted and as GET_ALL_SUBSCRIPTIONGROUP_CONFIG answers: a
        snapshot."""
        return SubscriptionGroupTable(
            data_version=self.data_version, subscription_group_table=dict(self._table)
        )

    def load(self, table: SubscriptionGroupTable) -> None:
        """Lay a persisted table over the built-in groups; the file wins. The key is the name that
        counts."""
        for name, group in table.subscription_group_table.items():
            self._put(replace(group, group_name=name))
        self.frame_budget.tell()
        self.data_version = table.data_version

    def replace(self, table: SubscriptionGroupTable) -> None:
        """On a slave: have exactly the groups of the master, in its version."""
        gone = self._table.keys() - table.subscription_group_table.keys()
        self.frame_budget.take(-self.frame_budget.taken_bytes)
        self._table.clear()
        for name, group in table.subscription_group_table.items():
            self._put(replace(group, group_name=name))
        self.frame_budget.tell()
        self.data_version = table.data_version
        self._are_gone(gone)

    def take_over(self, group: SubscriptionGroupConfig, version: DataVersion) -> None:
        """On a follower: a group as it is at its leader, and this table has ``version`` now."""
        self._put(group)
        self.frame_budget.tell()
        self.data_version = version

    def take_deletion(self, name: str, version: DataVersion) -> None:
        """On a follower: the leader has deleted a group. ``version`` as in ``take_over``."""
        group = self._table.pop(name, None)
        self.data_version = version
        if group is not None:
            self.frame_budget.take(-entry_bytes(name, group))
            self.frame_budget.tell()
            self._are_gone([name])
