"""The processors as a client meets them: typed requests go in, answers come out, over a simulated connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.broker.clients import CLIENT_EXPIRED_MS
from aiorocketmq.broker.processors import client as client_processor
from aiorocketmq.broker.topics import MAX_QUEUES_PER_TOPIC
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.connection import ConsumerConnection, ProducerConnection, ProducerTable
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import ConsumerOffsetTable, DelayOffsetTable
from aiorocketmq.remoting.protocol.bodies.heartbeat import CheckClientRequestBody, SubscriptionData
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.bodies.lists import ConsumerIdList, GroupList, TopicList
from aiorocketmq.remoting.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from aiorocketmq.remoting.protocol.bodies.stats import ConsumeStats, OffsetWrapper, TopicOffset, TopicStatsTable
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig, SubscriptionGroupTable
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfigTable
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import ConsumerGroupRequest, TopicRequest
from aiorocketmq.remoting.protocol.commands.client import (
    GetConsumerRunningInfoRequest,
    ProducerGroupRequest,
    UnregisterClientRequest,
)
from aiorocketmq.remoting.protocol.commands.group import DeleteSubscriptionGroupRequest, GetConsumeStatsRequest
from aiorocketmq.remoting.protocol.commands.offset import (
    QueryConsumerOffsetRequest,
    QueueRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from aiorocketmq.remoting.protocol.commands.pull import QueryMessageRequest, ViewMessageRequest
from aiorocketmq.remoting.protocol.commands.send import ConsumerSendMsgBackRequest
from aiorocketmq.remoting.protocol.commands.topic import CreateTopicRequest
from aiorocketmq.remoting.protocol.message import MessageQueue
from aiorocketmq.remoting.protocol.record import decode_messages, decode_record

from .sim_broker import SimBroker, sim_broker

Scenario = Callable[[SimBroker], Awaitable[None]]
NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Run a scenario against a fresh broker."""

    def run(scenario: Scenario, **config: Any) -> None:
        async def main() -> None:
            async with asyncio.timeout(30), sim_broker(tmp_path, **config) as sim:
                await scenario(sim)

        asyncio.run(main())

    return run


Play = Callable[..., None]


def topic_request(name: str, queues: int = 4, **more: Any) -> CreateTopicRequest:
    fields = {"read_queue_nums": queues, "write_queue_nums": queues, "perm": 6, "topic_filter_type": "SINGLE_TAG"} | more
    return CreateTopicRequest(topic=name, default_topic="TBW102", **fields)


# -- clients -----------------------------------------------------------------------------------------------------


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
        assert "%RETRY%g" in sim.broker.topics
        assert sim.broker.groups.find("g") is not None
        listed = await two.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupRequest(consumer_group="g"))
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
        quiet = SubscriptionGroupConfig(group_name="g", notify_consumer_ids_changed_enable=not by_group)
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
            RequestCode.UNREGISTER_CLIENT, UnregisterClientRequest(client_id="c1", consumer_group="g", producer_group="p")
        )
        while not one.pushed:
            await asyncio.sleep(0)
        assert sim.broker.consumers.client_ids("g") == ["c0", "c2"]
        one.pushed.clear()
        three.connection.close()
        while not one.pushed:
            await asyncio.sleep(0)
        assert sim.broker.consumers.client_ids("g") == ["c0"]
        group = sim.broker.producers.get("p")
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
        sim.clock.advance(0.001)
        lively.pushed.clear()
        sim.broker.watch.scan(sim.clock.time_ms())
        while not (lively.pushed and silent.connection.closed):
            await asyncio.sleep(0)
        assert sim.broker.consumers.client_ids("g") == ["c2"]
        assert not lively.connection.closed

    play(scenario)


def test_nobody_in_the_group(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        answer = await sim.connect().ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupRequest(consumer_group="g"))
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
        assert not any(topic.name.startswith("%RETRY%") for topic in sim.broker.topics)

    play(scenario)


@pytest.mark.parametrize(("kind", "code"), [("TAG", 0), (None, 0), ("SQL92", 1)])
def test_check_of_a_subscription(play: Play, kind: str | None, code: int) -> None:
    async def scenario(sim: SimBroker) -> None:
        data = SubscriptionData(topic="T", sub_string="a > 1", expression_type=kind)
        body = CheckClientRequestBody(client_id="c", group="g", subscription_data=data)
        answer = await sim.connect().ask(RequestCode.CHECK_CLIENT_CONFIG, None, encode_body(body))
        assert answer.code == code

    play(scenario)


def test_queue_locks(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        queues = (MessageQueue("T", "b", 0), MessageQueue("T", "b", 1))

        async def lock(client_id: str, *wanted: MessageQueue) -> tuple[MessageQueue, ...]:
            body = LockBatchRequestBody(consumer_group="g", client_id=client_id, mq_set=wanted)
            answer = await client.ask(RequestCode.LOCK_BATCH_MQ, None, encode_body(body))
            return decode_body(LockBatchResponseBody, answer.check().body).lock_ok_mq_set

        assert await lock("one", queues[0]) == queues[:1]
        assert await lock("two", *queues) == queues[1:]
        body = UnlockBatchRequestBody(consumer_group="g", client_id="one", mq_set=queues)
        assert (await client.ask(RequestCode.UNLOCK_BATCH_MQ, None, encode_body(body))).code == 0
        assert await lock("two", *queues) == queues

    play(scenario)


def test_who_is_connected(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.heartbeat("c1", "g", producers=("p",))
        answer = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupRequest(consumer_group="g"))
        found = decode_body(ConsumerConnection, answer.check().body)
        assert [(each.client_id, each.client_addr) for each in found.connection_set] == [("c1", "127.0.0.1:50000")]
        assert found.subscription_table["T"].sub_string == "*"
        answer = await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupRequest(producer_group="p"))
        assert len(decode_body(ProducerConnection, answer.check().body).connection_set) == 1
        answer = await client.ask(RequestCode.GET_ALL_PRODUCER_INFO)
        (info,) = decode_body(ProducerTable, answer.check().body).data["p"]
        assert (info.client_id, info.remote_ip) == ("c1", "/127.0.0.1:50000")

    play(scenario)


def test_who_is_not_connected(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        answer = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupRequest(consumer_group="g"))
        assert (answer.code, answer.remark) == (206, "the consumer group[g] not online")
        answer = await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupRequest(producer_group="p"))
        assert (answer.code, answer.remark) == (1, "the producer group[p] not exist")

    play(scenario)


def test_running_info_is_the_answer_of_the_consumer(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        consumer, admin = sim.connect(), sim.connect()
        await consumer.heartbeat("c1", "g")
        wanted = GetConsumerRunningInfoRequest(consumer_group="g", client_id="c1", jstack_enable=True)
        consumer.answers[RequestCode.GET_CONSUMER_RUNNING_INFO] = lambda *_: Reply(7, body=b"{}", remark="as it is")
        answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, wanted)
        assert (answer.code, answer.body, answer.remark) == (7, b"{}", "as it is")
        assert consumer.pushed[-1] == (RequestCode.GET_CONSUMER_RUNNING_INFO, wanted)
        consumer.answers[RequestCode.GET_CONSUMER_RUNNING_INFO] = lambda *_: consumer.connection.close()
        answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, wanted)
        assert answer.code == 1
        assert (answer.remark or "").startswith("invoke consumer <g> <c1> Exception:")
        answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, wanted)
        assert (answer.code, answer.remark) == (1, "The Consumer <g> <c1> not online")

    play(scenario)


# -- topics and groups -------------------------------------------------------------------------------------------


def test_a_topic_is_made_changed_listed_and_deleted(play: Play, tmp_path: Path) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T"))
        assert (answer.code, answer.remark) == (0, "not set any response code")
        assert '"T":{' in (tmp_path / "config" / "topics.json").read_text()
        await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T", 2, perm=4, topic_filter_type="MULTI_TAG"))
        answer = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
        assert answer.ext_fields == {}
        table = decode_body(TopicConfigTable, answer.check().body)
        config = table.topic_config_table["T"]
        assert (config.read_queue_nums, config.perm, config.topic_filter_type.value) == (2, 4, "MULTI_TAG")
        assert table.data_version.counter == 2
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T"))).code == 0
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T"))).code == 0
        assert "T" not in sim.broker.topics
        assert '"T":{' not in (tmp_path / "config" / "topics.json").read_text()

    play(scenario)


def test_the_same_topic_again_is_no_change(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        for _ in range(2):
            await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T"))
        assert sim.broker.topics.data_version.counter == 1

    play(scenario)


@pytest.mark.parametrize(
    "request_",
    [
        topic_request("bad name"),
        topic_request(" "),
        topic_request("x" * 128),
        topic_request("TBW102"),
        topic_request("C"),
        topic_request("rmq_sys_x"),
        topic_request("T", topic_filter_type="NO_TAG"),
        topic_request("T", -1),
        topic_request("T", MAX_QUEUES_PER_TOPIC + 1),
    ],
)
def test_topics_that_cannot_be_made(play: Play, request_: CreateTopicRequest) -> None:
    async def scenario(sim: SimBroker) -> None:
        answer = await sim.connect().ask(RequestCode.UPDATE_AND_CREATE_TOPIC, request_)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark
        assert sim.broker.topics.data_version.counter == 0

    play(scenario)


def test_system_topics_cannot_be_deleted(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        answer = await sim.connect().ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="TBW102"))
        assert (answer.code, answer.remark) == (1, "The topic[TBW102] is conflict with system topic.")
        listed = await sim.connect().ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        assert {"TBW102", "C", "b", "C_REPLY_TOPIC"} <= set(decode_body(TopicList, listed.body).topic_list)

    play(scenario)


def test_a_deleted_topic_begins_anew(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"one")
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T"))
        assert (await client.send("T", b"two")).queue_offset == 0

    play(scenario)


def test_stats_of_a_topic(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T", 2))
        await client.send("T", b"one", 1)
        now = sim.clock.time_ms()
        answer = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicRequest(topic="T"))
        assert decode_body(TopicStatsTable, answer.check().body).offset_table == {
            MessageQueue("T", "b", 0): TopicOffset(),
            MessageQueue("T", "b", 1): TopicOffset(max_offset=1, last_update_timestamp=now),
        }
        answer = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicRequest(topic="U"))
        assert (answer.code, answer.remark) == (17, "topic[U] not exist")

    play(scenario)


def test_who_consumes_a_topic(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.heartbeat("c1", "online")
        sim.broker.offsets.commit("offline", "T", 0, 1)
        sim.broker.offsets.commit("online", "T", 0, 1)
        answer = await client.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicRequest(topic="T"))
        assert decode_body(GroupList, answer.check().body).group_list == ("online", "offline")

    play(scenario)


def test_a_group_is_made_listed_and_deleted(play: Play, tmp_path: Path) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        wanted = SubscriptionGroupConfig(group_name="g", retry_max_times=2)
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(wanted))
        assert answer.code == 0
        assert '"g":{' in (tmp_path / "config" / "subscriptionGroup.json").read_text()
        answer = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        assert decode_body(SubscriptionGroupTable, answer.check().body).subscription_group_table["g"] == wanted
        for group in ("g", "h"):
            sim.broker.offsets.commit(group, "T", 0, 1)
        for name, remove in (("g", False), ("h", True)):
            delete = DeleteSubscriptionGroupRequest(group_name=name, remove_offset=remove)
            assert (await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, delete)).code == 0
        assert sim.broker.groups.find("g") is None
        assert sim.broker.offsets.groups_of("T") == ["g"]
        bad = encode_body(SubscriptionGroupConfig(group_name="a b"))
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, bad)).code == 1

    play(scenario)


def test_progress_of_a_group(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_request("T", 2))
        for _ in range(3):
            await client.send("T", b"x", 0)
        for topic in ("T", "gone"):
            sim.broker.offsets.commit("g", topic, 0, 2)
        now = sim.clock.time_ms()
        answer = await client.ask(RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequest(consumer_group="g"))
        stats = decode_body(ConsumeStats, answer.check().body)
        assert stats.offset_table == {
            MessageQueue("T", "b", 0): OffsetWrapper(broker_offset=3, consumer_offset=2, last_timestamp=now),
            MessageQueue("T", "b", 1): OffsetWrapper(),
        }
        await client.heartbeat("c1", "g", topic="U")  # the group is online now, and does not want T any more
        answer = await client.ask(RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequest(consumer_group="g"))
        assert decode_body(ConsumeStats, answer.check().body).offset_table == {}

    play(scenario)


# -- offsets and messages ----------------------------------------------------------------------------------------


def query(topic: str = "T", **more: Any) -> QueryConsumerOffsetRequest:
    return QueryConsumerOffsetRequest(consumer_group="g", topic=topic, queue_id=0, **more)


def test_consumer_offsets(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query())
        assert (answer.code, answer.header.offset) == (0, 0)
        answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query(set_zero_if_not_found=False))
        assert answer.code == 22
        update = UpdateConsumerOffsetRequest(consumer_group="g", topic="T", queue_id=0, commit_offset=0)
        (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)).check()
        answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query(set_zero_if_not_found=False))
        assert (answer.code, answer.header.offset) == (0, 0)  # 0 is an offset like any other
        update = UpdateConsumerOffsetRequest(consumer_group="g", topic="T", queue_id=0, commit_offset=5)
        answer = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)
        assert (answer.code, answer.ext_fields) == (0, {})
        answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query())
        assert answer.header.offset == 5
        answer = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert decode_body(ConsumerOffsetTable, answer.check().body).offset_table == {"T@g": {0: 5}}
        answer = await client.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        assert decode_body(DelayOffsetTable, answer.check().body).offset_table == {}

    play(scenario)


def test_offsets_of_queues(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        queue = QueueRequest(topic="T", queue_id=0)
        first = sim.clock.time_ms()
        for _ in range(3):
            await client.send("T", b"x")
            sim.clock.advance(10)
        assert (await client.ask(RequestCode.GET_MAX_OFFSET, queue)).check().header.offset == 3
        assert (await client.ask(RequestCode.GET_MIN_OFFSET, queue)).check().header.offset == 0
        assert (await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, queue)).check().header.timestamp == first
        for timestamp, offset in ((0, 0), (first + 10_000, 1), (first + 99_000, 2)):
            search = SearchOffsetRequest(topic="T", queue_id=0, timestamp=timestamp)
            assert (await client.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)).check().header.offset == offset
        unknown = QueueRequest(topic="U", queue_id=0)
        assert (await client.ask(RequestCode.GET_MAX_OFFSET, unknown)).check().header.offset == 0
        assert (await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, unknown)).check().header.timestamp == -1

    play(scenario)


def test_a_message_by_its_offset(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"one")
        answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=0))
        assert decode_record(answer.check().body).body == b"one"
        for offset in (1, -1, 1 << 40):
            answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=offset))
            assert (answer.code, answer.remark) == (1, f"can not find message by the offset, {offset}")

    play(scenario)


def by_key(key: str, **more: Any) -> QueryMessageRequest:
    fields = {"topic": "T", "key": key, "max_num": 64, "begin_timestamp": 0, "end_timestamp": 1 << 62}
    return QueryMessageRequest(**(fields | more))


def test_messages_by_their_keys(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        code = RequestCode.QUERY_MESSAGE
        for number in range(40):
            await client.send("T", b"%d" % number, properties=f"UNIQ_KEY\x01u{number % 39}\x02KEYS\x01all k{number}")
        sim.broker.store._indexing.build_all()  # what the store's service does
        answer = (await client.ask(code, by_key("k7"))).check()
        assert decode_record(answer.body).body == b"7"
        assert answer.header.index_last_update_timestamp == sim.clock.time_ms()
        last = sim.broker.store.query("T", "k39", 1, 0, 1 << 62).index_last_update_phyoffset
        assert answer.header.index_last_update_phyoffset == last > 0
        assert len(list(decode_messages((await client.ask(code, by_key("all"))).body))) == 40
        assert len(list(decode_messages((await client.ask(code, by_key("all", max_num=3))).body))) == 3
        one = by_key("u0", max_num=1, unique_key_query=True)  # the number is the broker's then
        assert [message.body for message in decode_messages((await client.ask(code, one)).body)] == [b"0", b"39"]
        many = by_key("all", unique_key_query=True)
        assert len(list(decode_messages((await client.ask(code, many)).body))) == 32
        for nothing in (by_key("none"), by_key("all", topic="U"), by_key("all", end_timestamp=1), by_key("all", max_num=-1)):
            answer = await client.ask(code, nothing)
            assert (answer.code, answer.body) == (ResponseCode.QUERY_NOT_FOUND, b"")
            assert answer.remark == "can not find message, maybe time range not correct"

    play(scenario)


def back(**more: Any) -> ConsumerSendMsgBackRequest:
    return ConsumerSendMsgBackRequest(**({"offset": 0, "group": "g", "delay_level": 0} | more))


def test_a_message_given_back_goes_to_the_retry_topic(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        sent = await client.send("T", b"one", properties="a\x01b\x02TAGS\x01X")
        answer = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back())
        assert answer.code == 0
        assert sim.broker.store.max_offset("%RETRY%g", 0) == 0
        (message,) = decode_messages(sim.broker.store.get("SCHEDULE_TOPIC_XXXX", 2, 0).body)
        assert (message.body, message.reconsume_times, message.born_timestamp) == (b"one", 1, 1)
        assert message.properties == {
            "a": "b",
            "TAGS": "X",
            "CLUSTER": "C",
            "RETRY_TOPIC": "T",
            "WAIT": "false",
            "DELAY": "3",
            "ORIGIN_MESSAGE_ID": sent.msg_id,
            "REAL_TOPIC": "%RETRY%g",
            "REAL_QID": "0",
        }
        sim.clock.advance(10)
        sim.broker.schedule.deliver_due()
        (message,) = decode_messages(sim.broker.store.get("%RETRY%g", 0, 0).body)
        await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(offset=message.commit_log_offset))
        message = decode_messages(sim.broker.store.get("SCHEDULE_TOPIC_XXXX", 3, 0).body)[0]
        assert (message.reconsume_times, message.properties["DELAY"]) == (2, "4")
        assert message.properties["ORIGIN_MESSAGE_ID"] == sent.msg_id
        assert message.properties["RETRY_TOPIC"] == "T"

    play(scenario)


@pytest.mark.parametrize("more", [{"delay_level": -1}, {"max_reconsume_times": 0}])
def test_a_message_given_up_goes_to_the_dead_letter_queue(play: Play, more: dict[str, int]) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"one")
        assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(**more))).code == 0
        (message,) = decode_messages(sim.broker.store.get("%DLQ%g", 0, 0).body)
        assert (message.topic, message.properties["DELAY"]) == ("%DLQ%g", "0")
        assert sim.broker.store.max_offset("%RETRY%g", 0) == 0

    play(scenario)


def test_messages_that_cannot_be_given_back(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"one")
        answer = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(offset=5))
        assert (answer.code, answer.remark) == (1, "look message by offset failed, 5")
        answer = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(group="a b"))
        assert answer.code == 26
        answer = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(group="x" * 125))
        assert answer.code == 1  # its retry topic would have no valid name
        sim.broker.groups.update(SubscriptionGroupConfig(group_name="none", retry_queue_nums=0))
        assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(group="none"))).code == 0
        assert "%RETRY%none" not in sim.broker.topics
        sim.broker.settings.broker.broker_permission = 4
        assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back())).code == 16

    play(scenario)


# -- the broker itself -------------------------------------------------------------------------------------------


def test_configuration_is_read_and_changed(play: Play, tmp_path: Path) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        answer = await client.ask(RequestCode.GET_BROKER_CONFIG)
        assert answer.header.version == f'{{"counter":0,"timestamp":{sim.clock.time_ms()}}}'
        lines = answer.body.decode().splitlines()
        assert {"brokerName=b", "listenPort=10911", "brokerRole=ASYNC_MASTER", "autoCreateTopicEnable=true"} <= set(lines)
        answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"autoCreateTopicEnable=false\nnobodyKnows=1\n")
        assert answer.code == 0
        assert not sim.broker.settings.broker.auto_create_topic_enable
        text = (tmp_path / "config" / "broker.properties").read_text()
        assert "autoCreateTopicEnable=false" in text.splitlines()
        assert "nobodyKnows" not in text
        answer = await client.ask(RequestCode.GET_BROKER_CONFIG)
        assert '"counter":1' in answer.header.version

    play(scenario)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"rocketmqHome=/x", 16),
        (b"brokerPermission=4\nconfigBlackList=", 16),
        (b"brokerPermission=4\nlistenPort=x", 1),
        (b"brokerPermission=\\u12", 1),
    ],
)
def test_changes_that_are_refused_change_nothing(play: Play, text: bytes, code: int) -> None:
    async def scenario(sim: SimBroker) -> None:
        answer = await sim.connect().ask(RequestCode.UPDATE_BROKER_CONFIG, None, text)
        assert answer.code == code
        assert sim.broker.settings.broker.broker_permission == 6

    play(scenario)


def test_a_property_of_the_store_waits_for_the_next_start(play: Play, tmp_path: Path) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"fileReservedTime=48\n")).code == 0
        assert "fileReservedTime=48" in (tmp_path / "config" / "broker.properties").read_text().splitlines()
        answer = await client.ask(RequestCode.GET_BROKER_CONFIG)
        assert b"fileReservedTime=48\n" in answer.body

    play(scenario)


def test_the_brokers_permission_makes_a_new_version_of_the_topics(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        await sim.connect().ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerPermission=4\n")
        assert sim.broker.topics.data_version.counter == 1

    play(scenario)


def test_runtime_info(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"one")
        table = decode_body(KVTable, (await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).check().body).table
        assert table["msgPutTotalTodayNow"] == "1"
        assert table["commitLogMinOffset"] == "0"
        assert int(table["commitLogMaxOffset"]) > 91
        assert table["earliestMessageTimeStamp"] == str(sim.clock.time_ms())

    play(scenario)


def test_queues_of_unknown_topics_are_cleaned(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        for topic in ("T", "U"):
            await client.send(topic, b"one")
        sim.broker.topics.delete("U")
        assert (await client.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
        assert sim.broker.store.topics() == {"T"}

    play(scenario)


def test_codes_that_nobody_serves(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        assert (await client.ask(RequestCode.PUT_KV_CONFIG)).code == 3
        assert RequestCode.PULL_MESSAGE in sim.broker.table

    play(scenario)


@pytest.mark.parametrize("queues", [-1, MAX_QUEUES_PER_TOPIC + 1, 2**31 - 1])
def test_a_group_cannot_have_any_number_of_retry_queues(play: Play, queues: int) -> None:
    """Whoever lists the queues of its retry topic would never come to an end."""

    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        group = encode_body(SubscriptionGroupConfig(group_name="g", retry_queue_nums=queues))
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group)
        assert (answer.code, "retryQueueNums" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        sim.broker.groups.update(SubscriptionGroupConfig(group_name="g", retry_queue_nums=queues))  # from an older file
        (await client.heartbeat("c", "g")).check()
        retry = sim.broker.topics.get("%RETRY%g")
        assert retry is not None
        assert retry.read_queue_nums == (0 if queues < 0 else MAX_QUEUES_PER_TOPIC)

    play(scenario)


def test_a_client_cannot_join_any_number_of_groups(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_processor, "MAX_GROUPS_PER_CLIENT", 3)

    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        assert (await client.heartbeat("c", "a", "b", "c", "d")).code == ResponseCode.SYSTEM_ERROR
        codes = [(await client.heartbeat("c", f"g{n}", producers=(f"p{n}",))).code for n in range(6)]
        assert codes == [0, 0, 1, 1, 1, 1]

    play(scenario)


def test_offsets_are_kept_under_names_of_sensible_length_only(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        for group, topic, code in (("g" * 600, "T", 1), ("g", "T" * 600, 1), ("g" * 300, "T" * 300, 0)):
            header = UpdateConsumerOffsetRequest(consumer_group=group, topic=topic, queue_id=0, commit_offset=5)
            assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == code

    play(scenario)
