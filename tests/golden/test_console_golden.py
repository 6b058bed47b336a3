"""What the console makes of the original's own answers: whatever they lack is left out."""

from __future__ import annotations

from typing import Any

import pytest

from aiorocketmq.client.admin.brokers import members_of
from aiorocketmq.console.model.groups import group_troubles, lags_of, member_rows, queue_rows
from aiorocketmq.console.model.overview import Asked, brokers_of, troubles_of
from aiorocketmq.console.model.topics import queue_rows as topic_queues
from aiorocketmq.console.model.topics import route_rows, search
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.codes import RequestCode

from .test_wire_golden import captured


def answers(code: RequestCode) -> list[Any]:
    """All bodies with which the original answered this request."""
    found = [
        decode_body(item.body_type, item.body)
        for item in captured("json-wire")
        if item.code is code and item.is_response and item.body
    ]
    if not found:
        pytest.skip(f"{code.name} was not captured")
    return found


def test_the_overview() -> None:
    members = {
        member
        for info in answers(RequestCode.GET_BROKER_CLUSTER_INFO)
        for member in members_of(info)
    }
    member = min(members)
    for table in answers(RequestCode.GET_BROKER_RUNTIME_INFO):
        now = int(table.table["bootTimestamp"])
        (broker,) = brokers_of([Asked(member, table.table, None, now)])
        assert broker.version.startswith("V4_9")
        assert (broker.put_rate or 0) >= 0  # it has none yet just after its start
        assert broker.disk_ratio is not None
        assert broker.raft is None
        assert 0 <= (broker.clock_apart_ms or 0) < 3_600_000
        for trouble in troubles_of([broker], {"ns": None}, {}):
            assert trouble.text


def test_topics() -> None:
    for found in answers(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER):
        assert search(found.topic_list, "", "all", 1, 1000).total == len(found.topic_list)
    for route in answers(RequestCode.GET_ROUTEINFO_BY_TOPIC):
        assert all(row.addresses for row in route_rows(route))
    for stats in answers(RequestCode.GET_TOPIC_STATS_INFO):
        assert all(row.stored >= 0 for row in topic_queues(stats, {}))


def test_groups() -> None:
    infos = {
        f"client-{number}": info
        for number, info in enumerate(answers(RequestCode.GET_CONSUMER_RUNNING_INFO))
    }
    for connection in answers(RequestCode.GET_CONSUMER_CONNECTION_LIST):
        members = member_rows(connection, {}, {})
        assert [member.client_id for member in members if not member.client_id] == []
        assert all(member.version.startswith("V") for member in members)
        for stats in answers(RequestCode.GET_CONSUME_STATS):
            queues = queue_rows(stats, infos)
            assert len(queues) == len(stats.offset_table)
            assert isinstance(group_troubles("g", queues, members, {}), list)
    assert lags_of(answers(RequestCode.GET_BROKER_CONSUME_STATS)) != {}
