"""What clients ask for: heartbeats, who is in a group, locks of queues, running info."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.processors import client as client_processor
from aiorocketmq.broker.state.clients import CLIENT_EXPIRED_MS
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.connection import (
    ConsumerConnection,
    ProducerConnection,
    ProducerTable,
)
from aiorocketmq.remoting.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from aiorocketmq.remoting.protocol.bodies.lists import ConsumerIdList
from aiorocketmq.remoting.protocol.bodies.lock import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import ConsumerGroupRequest
from aiorocketmq.remoting.protocol.commands.client import (
    GetConsumerRunningInfoRequest,
    ProducerGroupRequest,
    UnregisterClientRequest,
)
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.model.config import BrokerRole, MessageStoreConfig

from .sim_broker import SimBroker, sim_broker

NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


Play = Callable[..., None]


def test_a_heartbeat_joins_groups_makes_retry_topics_and_tells_the_members(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        one, two = sim.connect(), sim.connect()
        assert (await one.heartbeat("c1", "g", producers=("p",))).code == 0
        assert one.pushed == [(NOTIFY, ConsumerGroupRequest(consumer_group="g"))]
        assert (await one.heartbeat("c1", "g")).code == 0
        assert len(one.pushed) == 1
        await two.heartbeat("c2", "g")
        assert [code for code, _ in two.pushed] == [NOTIFY]
        while len(one.pushed) < 2:
            await asyncio.sleep(0)
        assert "%RETRY%g" in sim.broker.state.topics
        assert sim.broker.state.groups.find("g") is not None
        listed = await two.ask(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupRequest(consumer_group="g")
        )
        assert decode_body(ConsumerIdList, listed.body).consumer_id_list == ["c1", "c2"]

    play(scenario)


def test_the_notice_comes_before_the_answer_to_the_heartbeat(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.heartbeat("c1", "g")
        assert client.pushed  # it was there already when the answer came

    play(scenario)


@pytest.mark.parametrize("by_group", [True, False])
def test_notices_can_be_switched_off(play: Play, by_group: bool) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        quiet = SubscriptionGroupConfig(
            group_name="g", notify_consumer_ids_changed_enable=not by_group
        )
        await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(quiet))
        await client.heartbeat("c1", "g")
        assert client.pushed == []

    play(scenario, notify_consumer_ids_changed_enable=by_group)


def test_who_leaves_or_is_lost_is_no_member_and_the_others_are_told(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        one, two, three = sim.connect(), sim.connect(), sim.connect()
        for number, client in enumerate((one, two, three)):
            await client.heartbeat(f"c{number}", "g", producers=("p",))
        one.pushed.clear()
        await two.ask(
            RequestCode.UNREGISTER_CLIENT,
            UnregisterClientRequest(client_id="c1", consumer_group="g", producer_group="p"),
        )
        while not one.pushed:
            await asyncio.sleep(0)
        assert sim.broker.state.consumers.client_ids("g") == ["c0", "c2"]
        one.pushed.clear()
        three.connection.close()
        while not one.pushed:
            await asyncio.sleep(0)
        assert sim.broker.state.consumers.client_ids("g") == ["c0"]
        group = sim.broker.state.producers.get("p")
        assert group is not None
        assert [each.client_id for each in group.channels.values()] == ["c0"]

    play(scenario)


def test_a_silent_client_is_closed_and_the_others_are_told(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        silent, lively = sim.connect(), sim.connect()
        await silent.heartbeat("c1", "g")
        await lively.heartbeat("c2", "g")
        sim.clock.advance(CLIENT_EXPIRED_MS / 1000)
        await lively.heartbeat("c2", "g")
        sim.clock.put_forward(3600)
        at_once(sim.broker.clients.watch.scan())
        assert sim.broker.state.consumers.client_ids("g") == ["c1", "c2"]  # no time has passed
        sim.clock.put_forward(-7200)
        sim.clock.advance(0.001)
        lively.pushed.clear()
        at_once(sim.broker.clients.watch.scan())
        while not (lively.pushed and silent.connection.closed):
            await asyncio.sleep(0)
        assert sim.broker.state.consumers.client_ids("g") == ["c2"]
        assert not lively.connection.closed

    play(scenario)


def test_nobody_in_the_group(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        answer = await sim.connect().ask(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupRequest(consumer_group="g")
        )
        assert (answer.code, answer.remark) == (1, "no consumer for this group, g")

    play(scenario)


def test_a_heartbeat_without_body_is_an_error(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        answer = await client.ask(RequestCode.HEART_BEAT)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (await client.heartbeat("c1", "g")).code == 0

    play(scenario)


def test_a_group_whose_retry_topic_would_have_no_name_gets_none(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        assert (await client.heartbeat("c1", "x" * 130, "../../x")).code == 0
        assert not any(topic.name.startswith("%RETRY%") for topic in sim.broker.state.topics)

    play(scenario)


@pytest.mark.parametrize(("kind", "code"), [("TAG", 0), (None, 0), ("SQL92", 1)])
def test_check_of_a_subscription(play: Play, kind: Any, code: int) -> None:
    async def scenario(sim: SimBroker) -> None:
        data = SubscriptionData(topic="T", sub_string="a > 1", expression_type=kind)
        body = CheckClientRequestBody(client_id="c", group="g", subscription_data=data)
        answer = await sim.connect().ask(RequestCode.CHECK_CLIENT_CONFIG, None, encode_body(body))
        assert answer.code == code

    play(scenario)


def test_queue_locks(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await sim.make_topic("T")
        queues = (MessageQueue("T", "b", 0), MessageQueue("T", "b", 1))

        async def lock(client_id: str, *wanted: MessageQueue) -> tuple[MessageQueue, ...]:
            body = LockBatchRequestBody(consumer_group="g", client_id=client_id, mq_set=wanted)
            answer = await client.ask(RequestCode.LOCK_BATCH_MQ, None, encode_body(body))
            return decode_body(LockBatchResponseBody, answer.check().body).lock_ok_mq_set

        assert await lock("one", queues[0]) == queues[:1]
        assert await lock("two", *queues) == queues[1:]
        sim.clock.put_forward(3600)  # which is no reason to take a queue from who works in it
        at_once(sim.broker.clients.watch.scan())
        assert await lock("two", *queues) == queues[1:]
        body = UnlockBatchRequestBody(consumer_group="g", client_id="one", mq_set=queues)
        assert (await client.ask(RequestCode.UNLOCK_BATCH_MQ, None, encode_body(body))).code == 0
        assert await lock("two", *queues) == queues

    play(scenario)


def test_there_are_locks_of_queues_that_are_here(play: Play) -> None:
    """One client could take the places of all."""

    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"x")
        queues = [MessageQueue("T", "b", 3)]
        others = [
            MessageQueue("T", "b", 4),
            MessageQueue("T", "b", -1),
            MessageQueue("T", "another", 0),
            MessageQueue("never-made", "b", 0),
        ]
        body = LockBatchRequestBody(
            consumer_group="g", client_id="one", mq_set=tuple(queues + others)
        )
        answer = await client.ask(RequestCode.LOCK_BATCH_MQ, None, encode_body(body))
        found = decode_body(LockBatchResponseBody, answer.check().body)
        assert list(found.lock_ok_mq_set) == queues
        assert len(sim.broker.state.locks) == 1

    play(scenario)


def test_a_slave_gives_no_locks(tmp_path: Path) -> None:
    """Who asks it has an old route: the master may have given the queue to somebody else."""

    async def scenario() -> None:
        store = MessageStoreConfig(store_path_root_dir=str(tmp_path), broker_role=BrokerRole.SLAVE)
        async with sim_broker(tmp_path, store=store) as sim:
            queue = MessageQueue("T", "b", 0)
            body = LockBatchRequestBody(consumer_group="g", client_id="one", mq_set=(queue,))
            client = sim.connect()
            answer = await client.ask(RequestCode.LOCK_BATCH_MQ, None, encode_body(body))
            assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
            assert "master" in (answer.remark or "")

    asyncio.run(scenario())


def test_a_member_of_a_group_gives_locks_while_it_leads_and_says_when_they_end(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        store = MessageStoreConfig(
            store_path_root_dir=str(tmp_path),
            enable_dledger_commit_log=True,
            dledger_group="b",
            dledger_peers="n0-127.0.0.1:40911",
            dledger_self_id="n0",
        )
        async with sim_broker(tmp_path, store=store) as sim:
            assert sim.broker.group is not None
            assert sim.broker.group._roles is not None
            appearance = sim.broker.group._roles._appearance
            sim.owner.dispatcher = sim.broker._ports._dispatcher
            await sim.make_topic("T")
            queue, clients = MessageQueue("T", "b", 0), [sim.connect(), sim.connect()]
            for client, name in zip(clients, ("one", "two"), strict=True):
                await client.heartbeat(name, "g", f"unordered of {name}")

            async def lock(number: int) -> int:
                """What is answered, and the number of queues with it."""
                body = LockBatchRequestBody(
                    consumer_group="g", client_id=f"{number}", mq_set=(queue,)
                )
                answer = await clients[number].ask(
                    RequestCode.LOCK_BATCH_MQ, None, encode_body(body)
                )
                if answer.code:
                    assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
                    return -1
                return len(decode_body(LockBatchResponseBody, answer.body).lock_ok_mq_set)

            assert await lock(0) == -1  # it does not know yet what it is
            appearance.be_master()
            assert (await lock(0), await lock(1)) == (1, 0)
            for client in clients:
                client.pushed.clear()
            appearance.be_slave()
            assert await lock(0) == -1
            for client in clients:
                assert client.pushed == [(NOTIFY, ConsumerGroupRequest(consumer_group="g"))]
            appearance.be_master()
            assert (await lock(1), await lock(0)) == (1, 0)  # what was is forgotten

    asyncio.run(scenario())


def test_who_is_connected(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.heartbeat("c1", "g", producers=("p",))
        answer = await client.ask(
            RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupRequest(consumer_group="g")
        )
        found = decode_body(ConsumerConnection, answer.check().body)
        assert [(each.client_id, each.client_addr) for each in found.connection_set] == [
            ("c1", "127.0.0.1:50000")
        ]
        assert found.subscription_table["T"].sub_string == "*"
        answer = await client.ask(
            RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupRequest(producer_group="p")
        )
        assert len(decode_body(ProducerConnection, answer.check().body).connection_set) == 1
        answer = await client.ask(RequestCode.GET_ALL_PRODUCER_INFO)
        (info,) = decode_body(ProducerTable, answer.check().body).data["p"]
        assert (info.client_id, info.remote_ip) == ("c1", "/127.0.0.1:50000")

    play(scenario)


def test_who_is_not_connected(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        answer = await client.ask(
            RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupRequest(consumer_group="g")
        )
        assert (answer.code, answer.remark) == (206, "the consumer group[g] not online")
        answer = await client.ask(
            RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupRequest(producer_group="p")
        )
        assert (answer.code, answer.remark) == (1, "the producer group[p] not exist")

    play(scenario)


def test_running_info_is_the_answer_of_the_consumer(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        consumer, admin = sim.connect(), sim.connect()
        await consumer.heartbeat("c1", "g")
        wanted = GetConsumerRunningInfoRequest(
            consumer_group="g", client_id="c1", jstack_enable=True
        )
        consumer.answers[RequestCode.GET_CONSUMER_RUNNING_INFO] = lambda *_: Reply(
            7, body=b"{}", remark="as it is"
        )
        answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, wanted)
        assert (answer.code, answer.body, answer.remark) == (7, b"{}", "as it is")
        assert consumer.pushed[-1] == (RequestCode.GET_CONSUMER_RUNNING_INFO, wanted)
        consumer.answers[RequestCode.GET_CONSUMER_RUNNING_INFO] = lambda *_: (
            consumer.connection.close()
        )
        answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, wanted)
        assert answer.code == 1
        assert (answer.remark or "").startswith("invoke consumer <g> <c1> Exception:")
        answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, wanted)
        assert (answer.code, answer.remark) == (1, "The Consumer <g> <c1> not online")

    play(scenario)


def test_a_client_cannot_join_any_number_of_groups(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_processor, "MAX_GROUPS_PER_CLIENT", 3)

    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        assert (await client.heartbeat("c", "a", "b", "c", "d")).code == ResponseCode.SYSTEM_ERROR
        codes = [
            (await client.heartbeat("c", f"g{n}", producers=(f"p{n}",))).code for n in range(6)
        ]
        assert codes == [0, 0, 1, 1, 1, 1]

    play(scenario)


def test_who_is_one_member_too_many_is_told_so_is_the_log(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(sim: SimBroker) -> None:
        state, first, second = sim.broker.state, sim.connect(), sim.connect()
        await first.heartbeat("c1", "g", producers=("p",))
        for table in (state.producers, state.consumers):
            assert 0 < table.size_bytes < table._most_bytes
            table._most_bytes = table.size_bytes
        answer = await second.heartbeat("c2", "h", producers=("p",))
        assert answer.code == 1
        assert "start another broker, or use fewer groups and clients" in (answer.remark or "")
        assert state.consumers.get("h") is None
        assert (await first.heartbeat("c1", "g", producers=("p",))).code == 0
        await second.heartbeat("c2", "h", producers=("p",))

    play(scenario)
    told = [each.getMessage() for each in caplog.records if "refused in part" in each.getMessage()]
    assert len(told) == 1


def test_a_heartbeat_has_limits(play: Play) -> None:
    async def scene(sim: SimBroker) -> None:
        client = sim.connect()
        wanted = tuple(
            SubscriptionData(topic=f"t{number}", sub_string="*") for number in range(10_001)
        )
        data = HeartbeatData(
            client_id="c",
            consumer_data_set=(ConsumerData(group_name="g", subscription_data_set=wanted),),
        )
        answer = await client.ask(RequestCode.HEART_BEAT, None, encode_body(data))
        assert answer.code == 1
        assert "subscribes 10001 topics, the limit is 10000" in (answer.remark or "")
        answer = await client.ask(
            RequestCode.HEART_BEAT, None, b'{"clientID":"' + b"c" * (4 << 20) + b'"}'
        )
        assert answer.code == 1
        assert "4194319 bytes, the limit is 4194304" in (answer.remark or "")

    play(scene)


def test_a_client_that_goes_in_the_middle_of_its_long_heartbeat_is_in_no_group(play: Play) -> None:
    async def scene(sim: SimBroker) -> None:
        client = sim.connect()
        beat = asyncio.create_task(client.heartbeat("c", *(f"g{number}" for number in range(2000))))
        while not sim.broker.state.consumers.get("g0"):
            await asyncio.sleep(0)
        client.connection.close()
        await asyncio.gather(beat, *sim.owner.tasks, return_exceptions=True)
        await asyncio.sleep(0)
        assert len(sim.broker.state.consumers) == 0
        assert not sim.broker.state.topics.get("%RETRY%g1999")

    play(scene)


def long_heartbeat() -> bytes:
    """Of a group whose expressions take several slices."""
    wanted = tuple(
        SubscriptionData(
            topic=f"t{number}",
            expression_type="SQL92",
            sub_string=f"a = '{'x' * 1500}'",
            sub_version=1,
        )
        for number in range(6)
    )
    group = ConsumerData(group_name="g", subscription_data_set=wanted)
    return encode_body(HeartbeatData(client_id="c", consumer_data_set=(group,)))


def test_who_leaves_while_its_heartbeat_waits_is_no_member_afterwards(tmp_path: Path) -> None:
    async def main() -> None:
        async with sim_broker(tmp_path, enable_property_filter=True) as sim:
            other, client = sim.connect(), sim.connect()
            leave = UnregisterClientRequest(client_id="c1", consumer_group="mine")
            answers = await asyncio.gather(
                other.ask(RequestCode.HEART_BEAT, None, long_heartbeat()),
                client.heartbeat("c1", "mine"),
                client.ask(RequestCode.UNREGISTER_CLIENT, leave),
            )
            assert [answer.code for answer in answers] == [0, 0, 0]
            assert sim.broker.state.consumers.client_ids("mine") == []

    asyncio.run(main())


def test_a_client_that_goes_while_its_expressions_are_compiled_leaves_no_living_filter(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with sim_broker(tmp_path, enable_property_filter=True) as sim:
            client, filters = sim.connect(), sim.broker.state.filters
            beat = asyncio.create_task(client.ask(RequestCode.HEART_BEAT, None, long_heartbeat()))
            while filters.get("t1", "g") is None:
                await asyncio.sleep(0)
            client.connection.close()
            await asyncio.gather(beat, *sim.owner.tasks, return_exceptions=True)
            found = [
                each for number in range(6) if (each := filters.get(f"t{number}", "g")) is not None
            ]
            assert [each.is_dead for each in found] == [True] * len(found) != []

    asyncio.run(main())


def test_others_are_served_while_many_producers_are_listed(play: Play) -> None:
    async def scene(sim: SimBroker) -> None:
        client, quick = sim.connect(), sim.connect()
        await client.heartbeat("c", producers=tuple(f"p{number}" for number in range(9000)))
        long = asyncio.create_task(client.ask(RequestCode.GET_ALL_PRODUCER_INFO))
        asked = 0
        while not long.done():
            await quick.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
            asked += 1
        assert len(decode_body(ProducerTable, (await long).check().body).data) == 9000
        assert asked > 5

    play(scene)
