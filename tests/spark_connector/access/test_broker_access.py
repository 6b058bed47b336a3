"""Which answers are asked for again."""

from __future__ import annotations

from typing import Any

import pytest

from aiorocketmq.client.admin import Admin
from aiorocketmq.remoting.errors import BrokerError, RequestTimeout, RocketMQError, SystemBusy
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, ClusterInfo
from aiorocketmq.spark_connector.access.broker_access import BrokerAccess
from aiorocketmq.spark_connector.access.connection_options import ConnectionOptions


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> BrokerAccess:
    monkeypatch.setattr(BrokerAccess, "_instance", lambda _: None)
    return BrokerAccess(ConnectionOptions(("ns:1",)), retries=2, retry_interval_ms=0)


@pytest.mark.parametrize("error", [SystemBusy(2, "flow control"), RequestTimeout("late")])
def test_what_may_be_different_the_next_time(access: BrokerAccess, error: RocketMQError) -> None:
    answers: list[Any] = [error, error, 7]

    async def ask(_: object) -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    assert access._run(ask) == 7
    answers = [error] * 4
    with pytest.raises(type(error)):
        access._run(ask)
    assert len(answers) == 1


def test_a_broker_of_which_only_slaves_are_registered_does_not_tell_its_topics(
    access: BrokerAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that was started again hears of topics from masters alone: while a slave is
    there and its master not yet, the topics of the broker are not gone."""
    brokers = {
        "a": BrokerData(broker_name="a", broker_addrs={0: "a:1", 1: "a:2"}),
        "b": BrokerData(broker_name="b", broker_addrs={1: "b:2"}),
    }

    async def cluster_info(_: Admin) -> ClusterInfo:
        return ClusterInfo(broker_addr_table=brokers)

    monkeypatch.setattr(Admin, "__init__", lambda *_, **__: None)
    monkeypatch.setattr(Admin, "cluster_info", cluster_info)
    assert access.registered_brokers() == {"a"}


def test_what_is_refused_is_not_asked_for_again(access: BrokerAccess) -> None:
    asked = 0

    async def ask(_: object) -> int:
        nonlocal asked
        asked += 1
        raise BrokerError(1, "no")

    with pytest.raises(BrokerError):
        access._run(ask)
    assert asked == 1


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        (".*", ["Orders"]),
        ("Orders|%RETRY%g", ["%RETRY%g", "Orders"]),
        ("(Orders|%DLQ%.*)", ["%DLQ%g", "Orders"]),
        ("(TBW102|Orders)", ["Orders", "TBW102"]),
        (".*_REPLY_TOPIC", ["C_REPLY_TOPIC"]),
    ],
)
def test_topics_of_the_system_are_meant_where_the_pattern_has_their_names(
    access: BrokerAccess, monkeypatch: pytest.MonkeyPatch, pattern: str, meant: list[str]
) -> None:
    there = ["Orders", "%RETRY%g", "%DLQ%g", "TBW102", "C_REPLY_TOPIC", "SCHEDULE_TOPIC_XXXX"]
    monkeypatch.setattr(access, "_run", lambda _ask: there)
    assert access.topics(pattern) == meant
    assert access.told_topics(pattern) == meant
