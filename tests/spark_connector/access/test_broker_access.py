"""Which answers are asked for again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aiorocketmq.client.admin import Admin
from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.remoting.errors import (
    BrokerError,
    ConnectError,
    RequestTimeout,
    RocketMQError,
    SystemBusy,
)
from aiorocketmq.remoting.protocol.bodies.route import BrokerData, ClusterInfo
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.offset import QueueRequest
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.spark_connector.access.broker_access import BrokerAccess
from aiorocketmq.spark_connector.access.connection_options import ConnectionOptions
from aiorocketmq.spark_connector.access.shared_clients import SharedClients
from aiorocketmq.spark_connector.access.stored_times import StoredTimes

from ...sim import ManualClock


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerAccess]:
    async def start(_: ConnectionOptions) -> ClientInstance:
        return ClientInstance(namesrv="ns:1", clock=ManualClock())

    monkeypatch.setattr(BrokerAccess, "_clients", SharedClients(start))
    yield BrokerAccess(ConnectionOptions(("ns:1",)), retries=2, retry_interval_ms=0)
    BrokerAccess.close_all()


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


def test_brokers_are_asked_for_what_no_route_has(
    access: BrokerAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("has", "had", "away", "busy", "no master", "refuses", "forgotten")
    brokers = {
        name: BrokerData(broker_name=name, broker_addrs={int(name == "no master"): name})
        for name in names[:-1]
    }

    async def cluster_info(_: Admin) -> ClusterInfo:
        return ClusterInfo(broker_addr_table=brokers)

    async def invoke(_: object, address: str, code: int, *__: object, **___: object) -> Response:
        if address == "away":
            raise ConnectError("it is away")
        refusal = {"busy": ResponseCode.SYSTEM_BUSY, "refuses": ResponseCode.NO_PERMISSION}
        fields = {"offset": "7" if address == "has" else "0"}
        command = RemotingCommand(
            code=refusal.get(address, ResponseCode.SUCCESS), opaque=1, flag=1, ext_fields=fields
        )
        return Response.of(command, b"", RequestCode(code))

    monkeypatch.setattr(Admin, "__init__", lambda *_, **__: None)
    monkeypatch.setattr(Admin, "cluster_info", cluster_info)
    monkeypatch.setattr(RemotingClient, "invoke", invoke)
    found = access.unrouted(MessageQueue("t", name, 0) for name in names)
    assert {queue.broker_name for queue in found} == set(names) - {"had", "refuses"}


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("from_master", [True, False])
def test_that_a_group_was_never_there_only_masters_know(
    access: BrokerAccess, monkeypatch: pytest.MonkeyPatch, is_there: bool, from_master: bool
) -> None:
    """A slave hears of its offsets some time later."""
    queue = MessageQueue("t", "a", 0)
    code = ResponseCode.SUCCESS if is_there else ResponseCode.QUERY_NOT_FOUND
    command = RemotingCommand(code=code, opaque=1, flag=1, ext_fields={"offset": "7"})
    answer = Response.of(command, b"", RequestCode.QUERY_CONSUMER_OFFSET)

    async def ask(*_: object, check: bool = True) -> tuple[Response, bool]:
        return (answer.check("a:1") if check else answer), from_master

    monkeypatch.setattr(access, "_ask", ask)
    if is_there or from_master:
        assert access.group_offsets([queue]) == {queue: 7 if is_there else None}
    else:
        with pytest.raises(ConnectError, match="the master of the broker a is away, and a slave"):
            access.group_offsets([queue])


def test_a_time_is_looked_for_anew_where_a_master_goes_on_the_way(
    access: BrokerAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its slave does not have yet would be taken for newer than the time, and a read that
    ends there would miss it."""
    queue = MessageQueue("t", "a", 0)
    by_master = [True, True, False, False, False, False]

    def answer_of(number: int) -> Response:
        command = RemotingCommand(code=0, opaque=1, flag=1, ext_fields={"offset": str(number)})
        return Response.of(command, b"", RequestCode.GET_MAX_OFFSET)

    async def ask(*_: object, check: bool = True) -> tuple[Response, bool]:
        return answer_of(len(by_master)), by_master.pop(0)

    async def first_at(times: StoredTimes, _time_ms: int) -> int:
        for _ in range(3):
            answer = await times._ask(
                RequestCode.GET_MAX_OFFSET, QueueRequest(topic="t", queue_id=0)
            )
        return int(answer.header.offset)

    monkeypatch.setattr(access, "_ask", ask)
    monkeypatch.setattr(StoredTimes, "first_at", first_at)
    assert access.offsets_for_times({queue: 5}) == {queue: 1}


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
