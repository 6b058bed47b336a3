"""Groups that read too far back are disabled where they are made, and nowhere else."""

from __future__ import annotations

import pytest

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.pulls.slow_consumers import SlowConsumers
from aiorocketmq.broker.state.subscription_groups import SubscriptionGroups
from aiorocketmq.remoting.protocol.bodies.subscription_group import (
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import DataVersion

from ...sim import ManualClock


@pytest.mark.parametrize("broker_id", [0, 1])
def test_only_who_owns_the_table_disables_a_group(broker_id: int) -> None:
    """Another one would take it away from itself with its master's table, or bring it along as the
    next master."""
    config = BrokerConfig(
        broker_id=broker_id,
        disable_consume_if_consumer_read_slowly=True,
        consumer_fallbehind_threshold=1,
    )
    groups, version = SubscriptionGroups(config, ManualClock()), DataVersion(counter=7)
    table = {"g": SubscriptionGroupConfig(group_name="g")}
    groups.load(SubscriptionGroupTable(subscription_group_table=table, data_version=version))
    slow = SlowConsumers(config, groups, ManualClock())
    slow.note("g", "T", 0, 2)
    slow.check()
    group = groups.find("g")
    assert group is not None
    assert group.consume_enable is bool(broker_id)
    assert (groups.data_version == version) is bool(broker_id)
