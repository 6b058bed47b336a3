"""Where groups stand, and moving them (222, 223, 303, 308, 309, 314, 321), over a simulated
connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiorocketmq.broker.processors import group_offset
from aiorocketmq.broker.processors import relay as relaying
from aiorocketmq.broker.processors.group_offset import NOBODY_BEHIND, GroupOffsetProcessor
from aiorocketmq.remoting.dispatch import PENDING, Body, Context, Outcome, Reply
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import QueryCorrectionOffsetBody
from aiorocketmq.remoting.protocol.bodies.reset import GetConsumerStatusBody, ResetOffsetBody
from aiorocketmq.remoting.protocol.bodies.stats import (
    QueryConsumeQueueBody,
    QueryConsumeTimeSpanBody,
)
from aiorocketmq.remoting.protocol.codes import LanguageCode, RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.admin import QueryConsumeQueueRequest
from aiorocketmq.remoting.protocol.commands.client import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
)
from aiorocketmq.remoting.protocol.commands.offset import (
    CloneGroupOffsetRequest,
    GetConsumerStatusRequest,
    QueryConsumeTimeSpanRequest,
    QueryCorrectionOffsetRequest,
    ResetOffsetRequest,
)
from aiorocketmq.remoting.protocol.fastjson.reader import loads
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.properties import tags_code
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.slices import at_once

from ..sim import turns as loop_turns
from .sim_broker import SimBroker, SimClient, sim_broker, store_config

RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
QUEUE = MessageQueue("T", "b", 0)


def play(
    folder: Path, scene: Callable[[SimBroker, SimClient], Awaitable[None]], **config: Any
) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(30),
            sim_broker(folder, default_topic_queue_nums=1, **config) as sim,
        ):
            client = sim.connect()
            for number in range(5):
                await client.send(
                    "T", b"%d" % number, properties="TAGS\x01TagA" if number % 2 else None
                )
                sim.clock.advance(1)
            await scene(sim, client)

    asyncio.run(main())


def reset(timestamp: int = -1, *, force: bool = False, topic: str = "T") -> ResetOffsetRequest:
    return ResetOffsetRequest(topic=topic, group="g", timestamp=timestamp, is_force=force)


@pytest.mark.parametrize(("long", "turns"), [(True, 5), (False, 1)])
def test_many_queues_are_told_to_one_member_in_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: bool, turns: int
) -> None:
    """Or megabytes would be copied for each of thousands before anything leaves."""

    async def scene(sim: SimBroker, admin: SimClient) -> None:
        now, told = 0, list[int]()

        async def count() -> None:
            nonlocal now
            while True:
                now += 1
                await asyncio.sleep(0)

        class Member:
            closed = False

            def invoke_oneway(self, *_: object) -> None:
                told.append(now)

        channels = [SimpleNamespace(connection=Member()) for _ in range(5)]
        monkeypatch.setattr(GroupOffsetProcessor, "_channels_to_reset", lambda *_: channels)
        monkeypatch.setattr(group_offset, "MUCH_BYTES", 10 if long else 1 << 16)
        sim.broker.state.offsets.commit("g", "T", 0, 3)
        counting = asyncio.create_task(count())
        (await admin.ask(RESET, reset(force=True))).check()
        counting.cancel()
        assert (len(told), len(set(told))) == (5, turns)

    play(tmp_path, scene)


def _always(answer: Reply, *_: object) -> Reply:
    return answer


async def pushed(client: SimClient, code: RequestCode) -> bytes:
    """The body of the last push of that code, which may still be on its way."""
    while not client.pushed or client.pushed[-1][0] is not code:
        await asyncio.sleep(0)
    return client.pushed_bodies[-1]


# --- reset
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp", "force", "target"),
    [
        (-1, True, 5),
        (-1, False, 3),
        (1_700_000_000_000 + 2000, True, 2),
        (1_700_000_000_000 + 2000, False, 2),
        (0, True, 0),
    ],
)
def test_every_consumer_is_told_where_to_go_on(
    tmp_path: Path, timestamp: int, force: bool, target: int
) -> None:
    async def scene(sim: SimBroker, admin: SimClient) -> None:
        one, two = sim.connect(), sim.connect()
        await one.heartbeat("c1", "g")
        await two.heartbeat("c2", "g")
        sim.broker.state.offsets.commit("g", "T", 0, 3)
        answer = await admin.ask(RESET, reset(timestamp, force=force))
        assert (answer.code, answer.remark) == (0, "not set any response code")
        expected = ResetOffsetBody(offset_table={QUEUE: target})
        assert decode_body(ResetOffsetBody, answer.body) == expected
        for consumer in (one, two):
            body = await pushed(consumer, RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
            assert decode_body(ResetOffsetBody, body) == expected
            assert consumer.pushed[-1][1] == reset(timestamp)  # isForce is never passed on
        assert sim.broker.state.offsets.get("g", "T", 0) == 3  # the consumers commit

    play(tmp_path, scene)


def test_a_reset_asked_for_from_cpp_is_pushed_as_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(sim: SimBroker, admin: SimClient) -> None:
        await admin.heartbeat("c1", "g")
        sim.broker.state.offsets.commit("g", "T", 0, 3)
        monkeypatch.setattr("aiorocketmq.remoting.dispatch.Context.language", LanguageCode.CPP)
        await admin.ask(RESET, reset())
        body = await pushed(admin, RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
        assert loads(body) == {
            "offsetTable": [{"brokerName": "b", "offset": 3, "queueId": 0, "topic": "T"}]
        }

    play(tmp_path, scene)


def test_what_cannot_be_reset(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, admin: SimClient) -> None:
        answer = await admin.ask(RESET, reset(topic="U"))
        assert (answer.code, answer.remark) == (
            1,
            "[reset-offset] reset offset failed, no topic in this broker. topic=U",
        )
        answer = await admin.ask(RESET, reset())
        assert (answer.code, answer.remark) == (1, "THe consumer group <g> not exist")
        sim.broker.state.offsets.commit("g", "T", 0, 3)
        answer = await admin.ask(RESET, reset())
        assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
        consumer = sim.connect()
        await consumer.heartbeat("c1", "g")
        for channel in sim.broker.state.consumers.get("g").channels.values():  # type: ignore[union-attr]
            channel.version = 27
        answer = await admin.ask(RESET, reset())
        assert answer.code == 1
        assert "V3_0_6" in (answer.remark or "")
        assert RequestCode.RESET_CONSUMER_CLIENT_OFFSET not in {code for code, _ in consumer.pushed}

    play(tmp_path, scene)


# --- looking
# --------------------------------------------------------------------------------------------------


def test_time_spans(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, admin: SimClient) -> None:
        sim.broker.state.offsets.commit("g", "T", 0, 3)
        answer = await admin.ask(
            RequestCode.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpanRequest(topic="T", group="g")
        )
        (span,) = decode_body(QueryConsumeTimeSpanBody, answer.check().body).consume_time_span_set
        first = 1_700_000_000_000
        assert span.message_queue == QUEUE
        assert (span.min_time_stamp, span.max_time_stamp, span.consume_time_stamp) == (
            first,
            first + 4000,
            first + 2000,
        )
        assert span.delay_time == 2000  # message number 3 was stored at second 3, it is second 5
        assert (span.consume_time_stamp_str or "").endswith(":22:000")
        sim.broker.state.offsets.commit("g", "T", 0, 5)
        answer = await admin.ask(
            RequestCode.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpanRequest(topic="T", group="g")
        )
        assert (
            decode_body(QueryConsumeTimeSpanBody, answer.body).consume_time_span_set[0].delay_time
            == 0
        )
        answer = await admin.ask(
            RequestCode.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpanRequest(topic="U", group="g")
        )
        assert (answer.code, answer.remark) == (17, "topic[U] not exist")

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("without", "expected"),
    [(None, {0: 1, 1: 4}), ("far", {0: 3, 1: 4}), ("far,g", {0: NOBODY_BEHIND, 1: NOBODY_BEHIND})],
)
def test_corrections(tmp_path: Path, without: str | None, expected: dict[int, int]) -> None:
    async def scene(sim: SimBroker, admin: SimClient) -> None:
        commit = sim.broker.state.offsets.commit
        for group, queue_id, offset in (("g", 0, 3), ("g", 1, 4), ("far", 0, 1), ("ahead", 0, 5)):
            commit(group, "T", queue_id, offset)
        request = QueryCorrectionOffsetRequest(topic="T", compare_group="g", filter_groups=without)
        answer = await admin.ask(RequestCode.QUERY_CORRECTION_OFFSET, request)
        assert (
            decode_body(QueryCorrectionOffsetBody, answer.check().body).correction_offsets
            == expected
        )
        assert sim.broker.state.offsets.get("far", "T", 0) == 1  # the original forgets it

    play(tmp_path, scene)


# --- clone
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["T", None, " "])
def test_offsets_are_cloned(tmp_path: Path, topic: str | None) -> None:
    async def scene(sim: SimBroker, admin: SimClient) -> None:
        offsets = sim.broker.state.offsets
        offsets.commit("g", "T", 0, 3)
        offsets.commit("g", "gone", 0, 3)
        offsets.commit("h", "T", 7, 9)
        request = CloneGroupOffsetRequest(src_group="g", dest_group="h", topic=topic)
        assert (await admin.ask(RequestCode.CLONE_GROUP_OFFSET, request)).code == 0
        assert offsets.queues("h", "T") == {0: 3}
        assert at_once(offsets.topics_of("h")) == ["T"]
        offsets.commit("g", "T", 0, 4)
        assert offsets.get("h", "T", 0) == 3  # a copy

    play(tmp_path, scene)


@pytest.mark.parametrize("offline", [True, False])
def test_a_topic_that_the_online_group_left_is_cloned_only_on_demand(
    tmp_path: Path, offline: bool
) -> None:
    async def scene(sim: SimBroker, admin: SimClient) -> None:
        await admin.heartbeat("c1", "g", topic="U")
        sim.broker.state.offsets.commit("g", "T", 0, 3)
        request = CloneGroupOffsetRequest(src_group="g", dest_group="h", topic="T", offline=offline)
        assert (await admin.ask(RequestCode.CLONE_GROUP_OFFSET, request)).code == 0
        assert sim.broker.state.offsets.get("h", "T", 0) == (3 if offline else -1)

    play(tmp_path, scene)


# --- questions passed on
# --------------------------------------------------------------------------------------------

STATUS = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT


def test_status_of_all_consumers_or_of_one(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, admin: SimClient) -> None:
        body = encode_body(GetConsumerStatusBody(message_queue_table={QUEUE: 2}))
        for name, answer in (
            ("c1", Reply(body=body)),
            ("c2", Reply(1, remark="no")),
            ("c3", Reply(body=b"rubbish")),
        ):
            consumer = sim.connect()
            await consumer.heartbeat(name, "g")
            consumer.answers[STATUS] = partial(_always, answer)

        async def ask(client_id: str | None) -> Response:
            request = GetConsumerStatusRequest(topic="T", group="g", client_addr=client_id)
            return await admin.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, request)

        found = await ask(None)
        assert found.remark == "not set any response code"
        assert decode_body(GetConsumerStatusBody, found.check().body).consumer_table == {
            "c1": {QUEUE: 2}
        }
        assert decode_body(GetConsumerStatusBody, (await ask("c1")).body).consumer_table == {
            "c1": {QUEUE: 2}
        }
        assert decode_body(GetConsumerStatusBody, (await ask("c2")).body).consumer_table == {}
        request = GetConsumerStatusRequest(topic="T", group="nobody")
        assert (
            await admin.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, request)
        ).code == 1

    play(tmp_path, scene)


def test_only_so_many_questions_about_status_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaying, "MAX_RELAYS", 1)

    async def scene(sim: SimBroker, admin: SimClient) -> None:
        consumer = sim.connect()
        await consumer.heartbeat("c1", "g")
        waiting: list[Context] = []

        def wait(_request: object, _body: Body, ctx: Context) -> Outcome:
            waiting.append(ctx)
            return PENDING

        consumer.answers[STATUS] = wait
        request = GetConsumerStatusRequest(topic="T", group="g")
        ask = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        first = asyncio.create_task(admin.ask(ask, request))
        while not waiting:
            await asyncio.sleep(0)
        assert (await admin.ask(ask, request)).code == ResponseCode.SYSTEM_BUSY
        consumer.answers[STATUS] = lambda *_: Reply(1)
        waiting[0].reply(Reply(1))
        assert (await first).code == (await admin.ask(ask, request)).code == 0

    play(tmp_path, scene)


def test_a_message_is_handed_to_one_consumer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(sim: SimBroker, admin: SimClient) -> None:
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        consumer = sim.connect()
        await consumer.heartbeat("c1", "g")
        consumer.answers[code] = lambda *_: Reply(body=b'{"consumeResult":"CR_SUCCESS"}')
        msg_id = (await admin.send("T", b"this one")).msg_id
        request = ConsumeMessageDirectlyRequest(consumer_group="g", client_id="c1", msg_id=msg_id)
        answer = await admin.ask(code, request)
        assert (answer.code, answer.body) == (0, b'{"consumeResult":"CR_SUCCESS"}')
        assert consumer.pushed[-1][1].broker_name == "b"
        assert b"this one" in consumer.pushed_bodies[-1]
        assert int.from_bytes(consumer.pushed_bodies[-1][:4], "big") == len(
            consumer.pushed_bodies[-1]
        )

        async def refused(**change: Any) -> str:
            fields = {"consumer_group": "g", "client_id": "c1", "msg_id": msg_id} | change
            answer = await admin.ask(code, ConsumeMessageDirectlyRequest(**fields))
            assert answer.code == 1
            return answer.remark or ""

        assert await refused(client_id="c9") == "The Consumer <g> <c9> not online"
        assert "msgId" in await refused(msg_id=None)
        assert "hexadecimal" in await refused(msg_id="x" * 32)
        assert "no message" in await refused(msg_id=f"{msg_id[:16]}{12345:016X}")
        consumer.answers[code] = lambda *_: None
        monkeypatch.setattr(relaying, "CLIENT_TIMEOUT_S", 0.01)
        answer = await admin.ask(code, request)
        assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
        assert (answer.remark or "").startswith("consumer <g> <c1> Timeout:")
        monkeypatch.setattr(relaying, "MAX_RELAYS", 1)
        answers = await asyncio.gather(admin.ask(code, request), admin.ask(code, request))
        assert [answer.code for answer in answers] == [
            ResponseCode.CONSUME_MSG_TIMEOUT,
            ResponseCode.SYSTEM_BUSY,
        ]
        assert (await admin.ask(code, request)).code == ResponseCode.CONSUME_MSG_TIMEOUT

    play(tmp_path, scene)


def test_who_asks_much_leaves_places_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(sim: SimBroker, admin: SimClient) -> None:
        code, waiting = RequestCode.GET_CONSUMER_RUNNING_INFO, list[Context]()
        consumer = sim.connect()
        await consumer.heartbeat("c1", "g")

        def wait(_request: object, _body: Body, ctx: Context) -> Outcome:
            waiting.append(ctx)
            return PENDING

        consumer.answers[code] = wait
        request = GetConsumerRunningInfoRequest(consumer_group="g", client_id="c1")
        monkeypatch.setattr(relaying, "MAX_RELAYS", 8)
        asked = [asyncio.create_task(admin.ask(code, request)) for _ in range(8)]
        await loop_turns()
        others = [asyncio.create_task(sim.connect().ask(code, request)) for _ in range(2)]
        await loop_turns()
        for ctx in waiting:
            ctx.reply(Reply(0))
        codes = [answer.code for answer in await asyncio.gather(*asked)]
        assert codes == [0] * 4 + [ResponseCode.SYSTEM_BUSY] * 4
        assert [answer.code for answer in await asyncio.gather(*others)] == [0, 0]

    play(tmp_path, scene)


# --- the consume queue
# ----------------------------------------------------------------------------------------------


def test_entries_of_a_queue(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, admin: SimClient) -> None:
        async def ask(**change: Any) -> Response:
            fields: dict[str, Any] = {"topic": "T", "queue_id": 0, "index": 1, "count": 2} | change
            return await admin.ask(
                RequestCode.QUERY_CONSUME_QUEUE, QueryConsumeQueueRequest(**fields)
            )

        answer = await ask()
        assert answer.remark == "not set any response code"
        assert b"filterData" not in answer.body
        body = decode_body(QueryConsumeQueueBody, answer.check().body)
        assert (body.min_queue_index, body.max_queue_index) == (0, 5)
        assert [(row.tags_code, row.eval) for row in body.queue_data] == [
            (tags_code("TagA"), False),
            (0, False),
        ]
        assert (
            body.queue_data[1].physic_offset
            == body.queue_data[0].physic_offset + body.queue_data[0].physic_size
        )

        await admin.heartbeat("c1", "g")
        body = decode_body(QueryConsumeQueueBody, (await ask(consumer_group="g")).body)
        assert [row.eval for row in body.queue_data] == [False, False], "only by an extension"
        assert body.filter_data == "null"
        assert body.subscription_data is not None
        body = decode_body(QueryConsumeQueueBody, (await ask(consumer_group="h")).body)
        assert (body.subscription_data, body.filter_data) == (None, "h@T is not online!")

        answer = await ask(index=5)
        assert (answer.code, answer.remark, answer.body) == (0, "Index 5 of 0@T is not exist!", b"")
        assert (await ask(index=-1)).body == b""
        answer = await ask(queue_id=9)
        assert (answer.code, answer.remark) == (1, "9@T is not exist!")
        assert decode_body(QueryConsumeQueueBody, (await ask(count=-1)).body).queue_data == []

    play(tmp_path, scene)


def test_entries_with_an_extension(tmp_path: Path) -> None:
    """What the extension of a queue knows is shown, and asked whether an expression may want a
    message."""
    store = store_config(tmp_path, enable_consume_queue_ext=True)

    async def scene(sim: SimBroker, admin: SimClient) -> None:
        request = QueryConsumeQueueRequest(topic="T", queue_id=0, index=1, count=1)
        answer = await admin.ask(RequestCode.QUERY_CONSUME_QUEUE, request)
        (row,) = decode_body(QueryConsumeQueueBody, answer.check().body).queue_data
        assert row.tags_code == tags_code("TagA")
        extension = loads(row.extend_data_json or "")
        assert (extension["tagsCode"], extension["msgStoreTime"]) == (
            tags_code("TagA"),
            1_700_000_001_000,
        )
        assert (extension["bitMapSize"], extension["size"], row.bit_map) == (0, 20, None)
        await admin.heartbeat("c1", "g")
        request = QueryConsumeQueueRequest(
            topic="T", queue_id=0, index=1, count=1, consumer_group="g"
        )
        answer = await admin.ask(RequestCode.QUERY_CONSUME_QUEUE, request)
        (row,) = decode_body(QueryConsumeQueueBody, answer.check().body).queue_data
        assert row.eval

    play(tmp_path, scene, store=store)
