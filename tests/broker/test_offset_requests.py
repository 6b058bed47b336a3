"""Offsets of consumers and queues, messages by offset and key, messages that are given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import (
    ConsumerOffsetTable,
    DelayOffsetTable,
)
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.offset import (
    QueryConsumerOffsetRequest,
    QueueRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from aiorocketmq.remoting.protocol.commands.pull import QueryMessageRequest, ViewMessageRequest
from aiorocketmq.remoting.protocol.commands.send import ConsumerSendMsgBackRequest
from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.remoting.slices import at_once
from tests.stored import decode_messages

from .sim_broker import SimBroker, SimClient

NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


Play = Callable[..., None]


def query(topic: str = "T", **more: Any) -> QueryConsumerOffsetRequest:
    return QueryConsumerOffsetRequest(consumer_group="g", topic=topic, queue_id=0, **more)


def test_consumer_offsets(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query())
        assert (answer.code, answer.header.offset) == (0, 0)
        answer = await client.ask(
            RequestCode.QUERY_CONSUMER_OFFSET, query(set_zero_if_not_found=False)
        )
        assert answer.code == 22
        await sim.make_topic("T")
        update = UpdateConsumerOffsetRequest(
            consumer_group="g", topic="T", queue_id=0, commit_offset=0
        )
        (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)).check()
        answer = await client.ask(
            RequestCode.QUERY_CONSUMER_OFFSET, query(set_zero_if_not_found=False)
        )
        assert (answer.code, answer.header.offset) == (0, 0)  # 0 is an offset like any other
        update = UpdateConsumerOffsetRequest(
            consumer_group="g", topic="T", queue_id=0, commit_offset=5
        )
        answer = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)
        assert (answer.code, answer.ext_fields) == (0, {})
        answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query())
        assert answer.header.offset == 5
        answer = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert decode_body(ConsumerOffsetTable, answer.check().body).offset_table == {"T@g": {0: 5}}
        answer = await client.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        assert decode_body(DelayOffsetTable, answer.check().body).offset_table == {}

    play(scenario)


def test_an_offset_of_a_queue_that_is_not_there_is_answered_and_not_kept(play: Play) -> None:
    """One client could fill the table of all with it."""

    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"x", queue_id=3)  # of 4
        await client.send("gone from the table".replace(" ", "-"), b"x")
        sim.broker.state.topics._table.pop("gone-from-the-table")
        for topic, queue_id, is_kept in (
            ("T", 0, True),
            ("T", 3, True),
            ("T", 4, False),
            ("T", -1, False),
            ("never-made", 0, False),
            ("gone-from-the-table", 0, True),
            ("gone-from-the-table", 1, False),
        ):
            update = UpdateConsumerOffsetRequest(
                consumer_group="g", topic=topic, queue_id=queue_id, commit_offset=1
            )
            (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)).check()
            assert (sim.broker.state.offsets.get("g", topic, queue_id) == 1) is is_kept
        shrunk = sim.broker.state.topics.get("T")
        assert shrunk is not None
        sim.broker.state.topics.update(
            replace(shrunk.config, read_queue_nums=2, write_queue_nums=2)
        )
        update = UpdateConsumerOffsetRequest(  # of what its members still have
            consumer_group="g", topic="T", queue_id=3, commit_offset=2
        )
        (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)).check()
        assert sim.broker.state.offsets.get("g", "T", 3) == 2

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
        assert (
            await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, queue)
        ).check().header.timestamp == first
        for timestamp, offset in ((0, 0), (first + 10_000, 1), (first + 99_000, 2)):
            search = SearchOffsetRequest(topic="T", queue_id=0, timestamp=timestamp)
            assert (
                await client.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)
            ).check().header.offset == offset
        unknown = QueueRequest(topic="U", queue_id=0)
        assert (await client.ask(RequestCode.GET_MAX_OFFSET, unknown)).check().header.offset == 0
        assert (
            await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, unknown)
        ).check().header.timestamp == -1

    play(scenario)


def test_a_message_by_its_offset(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"one")
        answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=0))
        assert decode_record(answer.check().body).body == b"one"
        for offset in (1, -1, 1 << 40):
            answer = await client.ask(
                RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=offset)
            )
            assert (answer.code, answer.remark) == (
                1,
                f"can not find message by the offset, {offset}",
            )

    play(scenario)


def by_key(key: str, **more: Any) -> QueryMessageRequest:
    fields: dict[str, Any] = {
        "topic": "T",
        "key": key,
        "max_num": 64,
        "begin_timestamp": 0,
        "end_timestamp": 1 << 62,
    }
    return QueryMessageRequest(**(fields | more))


def test_messages_by_their_keys(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        code = RequestCode.QUERY_MESSAGE
        for number in range(40):
            await client.send(
                "T",
                b"%d" % number,
                properties=f"UNIQ_KEY\x01u{number % 39}\x02KEYS\x01all k{number}",
            )
        sim.broker.store._indexing.build_all()  # what the store's service does
        answer = (await client.ask(code, by_key("k7"))).check()
        assert decode_record(answer.body).body == b"7"
        assert answer.header.index_last_update_timestamp == sim.clock.time_ms()
        last = at_once(
            sim.broker.store.query.steps("T", "k39", 1, 0, 1 << 62)
        ).index_last_update_phyoffset
        assert answer.header.index_last_update_phyoffset == last > 0
        assert len(list(decode_messages((await client.ask(code, by_key("all"))).body))) == 40
        assert (
            len(list(decode_messages((await client.ask(code, by_key("all", max_num=3))).body))) == 3
        )
        one = by_key("u0", max_num=1, unique_key_query=True)  # the number is the broker's then
        assert [
            message.body for message in decode_messages((await client.ask(code, one)).body)
        ] == [b"0", b"39"]
        many = by_key("all", unique_key_query=True)
        assert len(list(decode_messages((await client.ask(code, many)).body))) == 32
        for nothing in (
            by_key("none"),
            by_key("all", topic="U"),
            by_key("all", end_timestamp=1),
            by_key("all", max_num=-1),
        ):
            answer = await client.ask(code, nothing)
            assert (answer.code, answer.body) == (ResponseCode.QUERY_NOT_FOUND, b"")
            assert answer.remark == "can not find message, maybe time range not correct"

    play(scenario)


def test_a_query_waits_for_what_was_stored_before_it(play: Play) -> None:
    """Of 300 messages none is in the index, for there is no file yet."""

    async def scenario(sim: SimBroker) -> None:
        store, client = sim.broker.store, sim.connect()
        for number in range(300):
            await client.send("T", b"%d" % number, properties=f"KEYS\x01k{number}")
        service = asyncio.create_task(store._index_service.run())
        await sent_to(client)
        asked = [
            asyncio.create_task(client.ask(RequestCode.QUERY_MESSAGE, by_key(f"k{number}")))
            for number in (0, 299)
        ]
        await sent_to(client)
        sim.clock.advance(0.02)
        for number, answer in zip((0, 299), await asyncio.gather(*asked), strict=True):
            assert decode_record(answer.check().body).body == b"%d" % number
            assert answer.remark is None
        service.cancel()

    play(scenario)


async def sent_to(client: SimClient) -> None:
    """What the client has asked before, and what runs beside, waits now: this is asked behind it,
    and answered at once."""
    await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=0))


def test_what_an_index_does_not_get_in_time_is_missing_and_that_is_said(play: Play) -> None:
    """Nobody builds it."""

    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        for number in range(300):
            if number == 100:
                sim.broker.store._indexing.build_all()
            await client.send("T", b"%d" % number, properties=f"KEYS\x01k{number} all")
        asked = [
            asyncio.create_task(client.ask(RequestCode.QUERY_MESSAGE, by_key(key)))
            for key in ("k299", "all")
        ]
        await sent_to(client)
        sim.clock.advance(2)
        missing, found = await asyncio.gather(*asked)
        said = "the index does not have all messages yet"
        assert (missing.code, missing.remark) == (
            ResponseCode.QUERY_NOT_FOUND,
            f"can not find message, {said}",
        )
        assert found.remark == said
        assert decode_messages(found.check().body)

    play(scenario)


def back(**more: Any) -> ConsumerSendMsgBackRequest:
    fields: dict[str, Any] = {"offset": 0, "group": "g", "delay_level": 0}
    return ConsumerSendMsgBackRequest(**fields | more)


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
        sim.broker.storage.schedule.deliver_due()
        (message,) = decode_messages(sim.broker.store.get("%RETRY%g", 0, 0).body)
        await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(offset=message.commit_log_offset))
        message = decode_messages(sim.broker.store.get("SCHEDULE_TOPIC_XXXX", 3, 0).body)[0]
        assert (message.reconsume_times, message.properties["DELAY"]) == (2, "4")
        assert message.properties["ORIGIN_MESSAGE_ID"] == sent.msg_id
        assert message.properties["RETRY_TOPIC"] == "T"

    play(scenario)


@pytest.mark.parametrize("more", [{"delay_level": -1}, {"max_reconsume_times": 0}])
def test_a_message_given_up_goes_to_the_dead_letter_queue(
    play: Play, more: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"one")
        assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(**more))).code == 0
        (message,) = decode_messages(sim.broker.store.get("%DLQ%g", 0, 0).body)
        assert (message.topic, message.properties["DELAY"]) == ("%DLQ%g", "0")
        assert sim.broker.store.max_offset("%RETRY%g", 0) == 0
        assert "a message was tried often enough, and is in %DLQ%g now group=g" in caplog.text

    play(scenario)


def test_messages_that_cannot_be_given_back(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await client.send("T", b"one")
        answer = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(offset=5))
        assert (answer.code, answer.remark) == (1, "look message by offset failed, 5")
        answer = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(group="a b"))
        assert answer.code == 26
        answer = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(group="x" * 125))
        assert answer.code == 1  # its retry topic would have no valid name
        sim.broker.state.groups.update(
            SubscriptionGroupConfig(group_name="none", retry_queue_nums=0)
        )
        assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(group="none"))).code == 0
        assert "%RETRY%none" not in sim.broker.state.topics
        assert "is dropped, its group has retryQueueNums=0 group=none" in caplog.text
        sim.broker.settings.broker.broker_permission = 4
        assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back())).code == 16

    play(scenario)


def test_offsets_are_kept_under_names_of_sensible_length_only(play: Play) -> None:
    async def scenario(sim: SimBroker) -> None:
        client = sim.connect()
        await sim.make_topic("T")
        for group, code in (("g" * 600, 1), ("g" * 300, 0)):
            header = UpdateConsumerOffsetRequest(
                consumer_group=group, topic="T", queue_id=0, commit_offset=5
            )
            assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == code

    play(scenario)
