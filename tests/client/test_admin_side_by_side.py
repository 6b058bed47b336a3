"""What an administrator asks many brokers is asked side by side, and fails as if it had been asked
one after another; and what was only looked at is not asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq import Admin
from aiorocketmq.client.admin.core import AT_ONCE
from aiorocketmq.client.admin.offset_reset import PartlyReset
from aiorocketmq.client.errors import NoRouteError
from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Handler, Reply
from aiorocketmq.remoting.errors import BrokerError, ConsumerNotOnline, RocketMQError
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.lists import GroupList
from aiorocketmq.remoting.protocol.bodies.reset import ResetOffsetBody
from aiorocketmq.remoting.protocol.bodies.route import (
    BrokerData,
    ClusterInfo,
    QueueData,
    TopicRouteData,
)
from aiorocketmq.remoting.protocol.bodies.stats import ConsumeStats, TopicStatsTable
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import OffsetResponse
from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record.encode import NewRecord, encode_record

from ..sim import SimOwner, turns
from .scripted_broker import BROKER, ScriptedBroker, route_of

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
BROKERS = 3
Operation = Callable[[Admin], Awaitable[object]]


def run(test: Callable[[ScriptedBroker, Admin], Awaitable[None]]) -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        async with asyncio.timeout(30), broker.instance() as instance:
            await test(broker, Admin(instance=instance))

    asyncio.run(main())


# --- side by side
# --------------------------------------------------------------------------------------------------

SIDE_BY_SIDE: dict[RequestCode, tuple[Operation, Reply]] = {
    RequestCode.GET_TOPIC_STATS_INFO: (
        lambda admin: admin.topic_stats("T"), Reply(body=encode_body(TopicStatsTable())),
    ),
    RequestCode.GET_CONSUME_STATS: (
        lambda admin: admin.consume_stats("g"), Reply(body=encode_body(ConsumeStats())),
    ),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: (
        lambda admin: admin.query_topic_consume_by_who("T"), Reply(body=encode_body(GroupList())),
    ),
    RequestCode.QUERY_MESSAGE: (
        lambda admin: admin.query_messages("T", "key"), Reply(int(ResponseCode.QUERY_NOT_FOUND)),
    ),
}  # fmt: skip


def many_brokers(count: int) -> TopicRouteData:
    names = [f"broker-{number}" for number in range(count)]
    return TopicRouteData(
        queue_datas=[QueueData(broker_name=name, read_queue_nums=1, perm=6) for name in names],
        broker_datas=[
            BrokerData(cluster="C", broker_name=name, broker_addrs={0: f"10.0.0.1:{number + 1}"})
            for number, name in enumerate(names)
        ],
    )


@pytest.mark.parametrize("code", SIDE_BY_SIDE)
def test_no_broker_waits_for_another_one(code: RequestCode) -> None:
    operation, reply = SIDE_BY_SIDE[code]

    async def scenario(broker: ScriptedBroker, admin: Admin) -> None:
        all_are_asked = asyncio.Barrier(BROKERS)

        async def answer(_request: object, _body: Body, _ctx: Context) -> Reply:
            await all_are_asked.wait()
            return reply

        def route(_request: object, _body: Body, _ctx: Context) -> Reply:
            return Reply(body=encode_body(many_brokers(BROKERS)))

        broker.owner = SimOwner(Dispatcher({code: answer, ROUTE: route}), clock=broker.clock)
        await operation(admin)

    run(scenario)


def test_the_first_one_that_fails_is_told_as_if_others_had_not_been_asked() -> None:
    async def scenario(_broker: ScriptedBroker, admin: Admin) -> None:
        second_may_fail = asyncio.Event()
        given_up: list[str] = []

        async def question(name: str) -> str:
            if name == "first":
                return name
            if name == "second":
                await second_may_fail.wait()
                raise BrokerError(1, name)
            if name == "third":
                second_may_fail.set()
                raise BrokerError(1, name)
            try:
                await asyncio.Event().wait()
            finally:
                given_up.append(name)
            return name

        with pytest.raises(BrokerError, match="second"):
            await admin._each(question, ["first", "second", "third", "fourth"])
        assert given_up == ["fourth"]

    run(scenario)


@pytest.mark.parametrize("place", range(BROKERS))
@pytest.mark.parametrize("is_there", [True, False])
def test_who_can_do_with_a_part_gets_what_others_have(place: int, is_there: bool) -> None:
    """One broker fails; the one behind it has the message, or none has it, and then it may be at
    the one that fails."""

    async def scenario(broker: ScriptedBroker, admin: Admin) -> None:
        asked = 0

        def query(_request: object, _body: Body, _ctx: Context) -> Reply:
            nonlocal asked
            asked += 1
            if (asked - 1) % BROKERS == place:
                return Reply(1, remark="it fails")
            if is_there and (asked - 1) % BROKERS == (place + 1) % BROKERS:
                return Reply(body=stored("T", keys="key"))
            return Reply(int(ResponseCode.QUERY_NOT_FOUND))

        def route(_request: object, _body: Body, _ctx: Context) -> Reply:
            return Reply(body=encode_body(many_brokers(BROKERS)))

        handlers: dict[RequestCode, Handler] = {RequestCode.QUERY_MESSAGE: query, ROUTE: route}
        broker.owner = SimOwner(Dispatcher(handlers), clock=broker.clock)
        missing: dict[str, RocketMQError] = {}
        if is_there:
            (found,) = await admin.query_messages("T", "key", missing=missing)
            assert found.keys == ("key",)
        else:
            with pytest.raises(BrokerError, match="it fails"):
                await admin.query_messages("T", "key", missing=missing)
        assert missing.keys() == {f"10.0.0.1:{place + 1}"}
        with pytest.raises(BrokerError, match="it fails"):
            await admin.query_messages("T", "key")

    run(scenario)


def stored(topic: str, *, keys: str) -> bytes:
    return encode_record(
        NewRecord(
            topic=topic,
            body=b"x",
            queue_id=0,
            flag=0,
            queue_offset=0,
            phy_offset=0,
            sys_flag=0,
            born_timestamp=1,
            born_host=pack_host("10.0.0.9", 4000),
            store_timestamp=1,
            store_host=pack_host("10.0.0.1", 1),
            reconsume_times=0,
            prepared_transaction_offset=0,
            properties=encode_properties({"UNIQ_KEY": "ID1", "KEYS": keys}),
        )
    )


def test_hundreds_are_not_asked_at_once() -> None:
    async def scenario(_broker: ScriptedBroker, admin: Admin) -> None:
        under_way, most = 0, 0

        async def question(number: int) -> int:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await turns()
            under_way -= 1
            return number

        assert await admin._each(question, range(200)) == list(range(200))
        assert most == AT_ONCE

    run(scenario)


@pytest.mark.parametrize("refusing", [{}, {0}, {1}, {0, 1, 2}])
def test_a_topic_is_deleted_wherever_it_can_be(refusing: set[int]) -> None:
    """Who has deleted it is no broker of it any more: name servers hear that of nobody else."""

    async def scenario(broker: ScriptedBroker, admin: Admin) -> None:
        told: list[str] = []

        def delete(_request: object, _body: Body, _ctx: Context) -> Reply:
            told.append("broker")
            return Reply(1 if len(told) - 1 in refusing else 0)

        def forget(_request: object, _body: Body, _ctx: Context) -> Reply:
            told.append("name server")
            return Reply()

        def cluster(_request: object, _body: Body, _ctx: Context) -> Reply:
            table = {each.broker_name: each for each in many_brokers(BROKERS).broker_datas}
            return Reply(
                body=encode_body(
                    ClusterInfo(broker_addr_table=table, cluster_addr_table={"C": tuple(table)})
                )
            )

        handlers = {
            RequestCode.DELETE_TOPIC_IN_BROKER: delete,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: forget,
            RequestCode.GET_BROKER_CLUSTER_INFO: cluster,
        }
        broker.owner = SimOwner(Dispatcher(handlers), clock=broker.clock)
        if refusing:
            with pytest.raises(BrokerError):
                await admin.delete_topic("T", "C")
        else:
            await admin.delete_topic("T", "C")
        last = [] if len(refusing) == BROKERS else ["name server"]
        assert told == ["broker"] * BROKERS + last

    run(scenario)


ONLINE, OFFLINE, FAILS = 0, int(ResponseCode.CONSUMER_NOT_ONLINE), 1


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ((OFFLINE, ONLINE, ONLINE), PartlyReset),
        ((ONLINE, OFFLINE, ONLINE), PartlyReset),
        ((OFFLINE, FAILS, ONLINE), PartlyReset),
        ((OFFLINE, OFFLINE, OFFLINE), ConsumerNotOnline),
        ((FAILS, OFFLINE, OFFLINE), BrokerError),
        ((OFFLINE, FAILS, OFFLINE), BrokerError),
        ((OFFLINE, OFFLINE, FAILS), BrokerError),
    ],
)
def test_a_group_that_is_not_online_everywhere_is_no_group_that_is_offline(
    answers: tuple[int, ...], kind: type[RocketMQError]
) -> None:
    """Members that one broker does not know, as it was just started, or does not tell of, would
    write over offsets that are moved there; and the others are asked, whoever comes first."""

    async def scenario(broker: ScriptedBroker, admin: Admin) -> None:
        asked = 0

        def reset(_request: object, _body: Body, _ctx: Context) -> Reply:
            nonlocal asked
            asked += 1
            if code := answers[asked - 1]:
                return Reply(code, remark="not online" if code == OFFLINE else "it fails")
            table = {MessageQueue("T", f"broker-{asked - 1}", 0): 7}
            return Reply(body=encode_body(ResetOffsetBody(offset_table=table)))

        def route(_request: object, _body: Body, _ctx: Context) -> Reply:
            return Reply(body=encode_body(many_brokers(BROKERS)))

        handlers: dict[RequestCode, Handler] = {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: reset,
            ROUTE: route,
        }
        broker.owner = SimOwner(Dispatcher(handlers), clock=broker.clock)
        with pytest.raises(kind, match="it fails" if FAILS in answers else "not online") as raised:
            await admin.reset_offsets("g", "T", 0)
        assert type(raised.value) is kind
        assert asked == BROKERS

    run(scenario)


def test_nothing_is_reset_where_no_broker_is_alive() -> None:
    async def scenario(broker: ScriptedBroker, admin: Admin) -> None:
        broker.answers[ROUTE] = lambda _: Reply(body=encode_body(many_brokers(0)))
        with pytest.raises(NoRouteError, match="no broker of T is alive"):
            await admin.reset_offsets("g", "T", 0)

    run(scenario)


# --- routes
# --------------------------------------------------------------------------------------------------


def test_a_topic_that_was_looked_at_is_not_asked_for_again_and_again() -> None:
    async def scenario(broker: ScriptedBroker, admin: Admin) -> None:
        broker.answers[ROUTE] = lambda _: Reply(body=encode_body(route_of(4)))
        for number in range(10):
            assert len(await admin.read_queues(f"T{number}")) == 4
        await turns()
        broker.clock.advance(100)
        await turns()
        assert [request.topic for request in broker.requests(ROUTE)] == [
            f"T{number}" for number in range(10)
        ]

    run(scenario)


def test_who_shares_the_client_hears_of_its_own_brokers_alone() -> None:
    async def scenario(broker: ScriptedBroker, admin: Admin) -> None:
        routes, heard, changes = admin.instance.routes, list[str](), list[int]()
        routes.on_change.append(heard.append)
        admin.instance.register_producer("p")
        broker.answers[ROUTE] = lambda _: Reply(body=encode_body(route_of(4)))
        for _round in range(3):
            await admin.topic_route("T")
            await turns()
            await routes.refresh_all()
            changes.append(routes.changes)
        assert (heard, changes, broker.requests(RequestCode.HEART_BEAT)) == ([], [0] * 3, [])

        await routes.get("mine")
        assert heard == ["mine"]
        moved = route_of(4)
        moved.broker_datas[0].broker_addrs[0] = "127.0.0.2:10911"
        broker.answers[ROUTE] = lambda _: Reply(body=encode_body(moved))
        await admin.topic_route("T")
        await admin.topic_route("T")
        assert heard == ["mine", "T"]
        assert routes.master(BROKER) == "127.0.0.2:10911"

    run(scenario)


def test_a_broker_that_was_looked_at_is_known_for_a_round_more() -> None:
    async def scenario(broker: ScriptedBroker, admin: Admin) -> None:
        routes = admin.instance.routes
        broker.answers |= {
            ROUTE: lambda _: Reply(body=encode_body(route_of(4))),
            RequestCode.GET_MAX_OFFSET: lambda _: Reply(header=OffsetResponse(offset=7)),
        }
        queues = await admin.read_queues("T")
        await routes.refresh_all()
        assert [await admin.max_offset(queue) for queue in queues] == [7] * 4
        assert len(broker.requests(ROUTE)) == 1
        assert routes.cached("T") is None
        await routes.refresh_all()
        assert routes.master(BROKER) is None

    run(scenario)
