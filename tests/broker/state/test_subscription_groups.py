"""Consumer groups: made on first use, changed by administrators."""

from __future__ import annotations

from typing import Any

import pytest

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.config.group_config import UNDECIDED_ID
from aiorocketmq.broker.state.subscription_groups import SubscriptionGroups
from aiorocketmq.remoting.protocol.bodies.subscription_group import (
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import DataVersion

from ...sim import ManualClock


def make_groups(**settings: Any) -> SubscriptionGroups:
    return SubscriptionGroups(BrokerConfig(broker_name="b", **settings), ManualClock())


def test_built_in_groups() -> None:
    groups = make_groups()
    assert {group.group_name for group in groups} == {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
    }


def test_a_group_is_made_when_it_is_used() -> None:
    groups = make_groups()
    calls: list[int] = []
    groups.listeners.append(lambda _name: calls.append(1))
    group = groups.get("g")
    assert group == SubscriptionGroupConfig(group_name="g")
    assert groups.get("g") is group
    assert (groups.data_version.counter, len(calls)) == (1, 1)


@pytest.mark.parametrize("broker_id", [1, UNDECIDED_ID])
def test_who_takes_its_table_from_another_broker_serves_a_group_and_makes_none(
    broker_id: int,
) -> None:
    groups = make_groups(broker_id=broker_id)
    calls: list[str] = []
    groups.listeners.append(calls.append)
    before = groups.record()
    assert groups.get("g") == SubscriptionGroupConfig(group_name="g")
    assert groups.get("a b") is None
    assert (groups.record(), calls) == (before, [])
    known = SubscriptionGroupConfig(group_name="g", retry_max_times=3)
    groups.take_over(known, DataVersion(counter=1, timestamp=1))
    assert groups.get("g") is known


def test_without_automatic_groups_a_slave_serves_none() -> None:
    groups = make_groups(broker_id=1, auto_create_subscription_group=False)
    assert groups.get("g") is None
    assert groups.get("CID_RMQ_SYS_x") == SubscriptionGroupConfig(group_name="CID_RMQ_SYS_x")
    assert "CID_RMQ_SYS_x" not in groups


def test_a_slave_that_has_become_the_master_makes_groups() -> None:
    config = BrokerConfig(broker_name="b", broker_id=1)
    groups = SubscriptionGroups(config, ManualClock())
    groups.get("g")
    config.broker_id = 0
    assert groups.get("g") is groups.find("g") is not None


def test_looking_makes_no_group() -> None:
    groups = make_groups()
    assert groups.find("g") is None
    assert groups.data_version.counter == 0


def test_no_automatic_groups_but_for_the_system() -> None:
    groups = make_groups(auto_create_subscription_group=False)
    assert groups.get("g") is None
    assert groups.get("CID_RMQ_SYS_x") is not None
    assert groups.get("TOOLS_CONSUMER") is not None


@pytest.mark.parametrize("name", ["", "  ", "a b", "a@b", "x" * 256])
def test_names_that_no_client_uses_make_no_group(name: str) -> None:
    groups = make_groups()
    assert groups.get(name) is None
    assert groups.data_version.counter == 0


def test_an_administrator_changes_and_deletes() -> None:
    groups = make_groups()
    limited = SubscriptionGroupConfig(group_name="g", retry_max_times=3, consume_enable=False)
    groups.update(limited)
    assert groups.get("g") is limited
    assert groups.delete("g")
    assert not groups.delete("g")
    assert groups.find("g") is None
    assert groups.data_version.counter == 2


def test_the_file_wins_over_the_built_in_groups() -> None:
    groups = make_groups()
    saved = {
        "TOOLS_CONSUMER": SubscriptionGroupConfig(group_name="TOOLS_CONSUMER", retry_max_times=1)
    }
    groups.load(
        SubscriptionGroupTable(
            subscription_group_table=saved, data_version=DataVersion(counter=4, timestamp=9)
        )
    )
    tools = groups.find("TOOLS_CONSUMER")
    assert tools is not None
    assert tools.retry_max_times == 1
    assert "SELF_TEST_C_GROUP" in groups
    assert groups.data_version == DataVersion(counter=4, timestamp=9)
    others = make_groups()
    others.load(groups.record())
    assert others.record() == groups.record()


def test_a_name_that_is_none_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    groups = make_groups()
    for _ in range(50):
        assert groups.get("a b") is None
    assert len(caplog.records) == 1
