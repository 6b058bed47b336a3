"""Storing messages, over the wire of a simulated connection (``headers.md`` §A.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequest, SendMessageRequestV2
from aiorocketmq.remoting.protocol.message.message_id import parse_offset_message_id
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag, PermName
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.protocol.wire import from_fields, to_fields
from aiorocketmq.remoting.responses import Response
from aiorocketmq.store.model.config import BrokerRole, FlushDiskType
from tests.stored import decode_messages

from ..sim import turns
from .sim_broker import SimBroker, SimClient, sim_broker, store_config

HEADER = SendMessageRequestV2(
    producer_group="p",
    topic="T",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=1,
    sys_flag=0,
    born_timestamp=1_600_000_000_000,
    flag=5,
    properties="UNIQ_KEY\x01U1\x02WAIT\x01true\x02TAGS\x01TagA\x02colour\x01red",
    reconsume_times=2,
)


def play(
    folder: Path, scene: Callable[[SimBroker, SimClient], Awaitable[None]], **config: Any
) -> None:
    async def main() -> None:
        async with sim_broker(folder, **config) as world:
            await scene(world, world.connect())

    asyncio.run(main())


async def send(client: SimClient, body: bytes = b"hello", **changes: Any) -> Response:
    return await client.ask(RequestCode.SEND_MESSAGE_V2, replace(HEADER, **changes), body)


def stored(world: SimBroker, topic: str = "T", queue_id: int = 1) -> list[MessageExt]:
    result = world.broker.store.get(
        topic, queue_id, world.broker.store.min_offset(topic, queue_id), 32
    )
    return list(decode_messages(result.body))


def test_a_message_is_stored_as_the_original_stores_it(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer = (await send(client)).check()
        [message] = stored(world)
        assert (message.body, message.flag, message.queue_id, message.reconsume_times) == (
            b"hello",
            5,
            1,
            2,
        )
        assert message.born_timestamp == 1_600_000_000_000
        assert message.store_timestamp == world.clock.time_ms()
        assert message.born_host == "127.0.0.1:50000"
        assert message.store_host == "127.0.0.1:10911"
        assert message.properties == {
            "UNIQ_KEY": "U1",
            "TAGS": "TagA",
            "colour": "red",
            "CLUSTER": "C",
        }
        assert (answer.header.queue_id, answer.header.queue_offset) == (1, 0)
        assert answer.header.msg_id == message.offset_msg_id
        assert parse_offset_message_id(answer.header.msg_id).phy_offset == message.commit_log_offset
        assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
        assert answer.ext_fields["TRACE_ON"] == "true"

    play(tmp_path, scene)


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE])
def test_only_the_header_says_what_is_a_batch(tmp_path: Path, code: RequestCode) -> None:
    items = [
        BatchItem(flag=n, body=f"m{n}".encode(), properties=f"TAGS\x01t{n}".encode())
        for n in range(3)
    ]

    async def scene(world: SimBroker, client: SimClient) -> None:
        header = replace(HEADER, batch=True, properties="WAIT\x01true")
        answer = (await client.ask(code, header, encode_batch(items))).check()
        ids = answer.header.msg_id.split(",")
        messages = stored(world)
        assert [m.body for m in messages] == [b"m0", b"m1", b"m2"]
        assert [m.offset_msg_id for m in messages] == ids
        assert [m.properties for m in messages] == [
            {"TAGS": f"t{n}", "WAIT": "true", "CLUSTER": "C"} for n in range(3)
        ]
        opaque = (await client.ask(code, replace(HEADER, batch=False), encode_batch(items))).check()
        assert stored(world)[-1].body == encode_batch(items)
        assert opaque.header.queue_offset == 3

    play(tmp_path, scene)


def test_the_long_names_of_code_10_are_the_same_message(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        long_names = from_fields(SendMessageRequest, to_fields_by_name(HEADER))
        (await client.ask(RequestCode.SEND_MESSAGE, long_names, b"hello")).check()
        assert [m.body for m in stored(world)] == [b"hello"]

    play(tmp_path, scene)


def to_fields_by_name(header: SendMessageRequestV2) -> dict[str, str]:
    plain = SendMessageRequest(
        **{name: getattr(header, name) for name in SendMessageRequest.__struct_fields__}
    )
    return to_fields(plain)


REFUSALS: list[tuple[dict[str, Any], bytes, ResponseCode, str]] = [
    ({"topic": "bad topic!"}, b"x", ResponseCode.SYSTEM_ERROR, "illegal characters"),
    ({"topic": ""}, b"x", ResponseCode.SYSTEM_ERROR, "blank"),
    ({"topic": "t" * 128}, b"x", ResponseCode.SYSTEM_ERROR, "128 characters long"),
    (
        {"topic": "SCHEDULE_TOPIC_XXXX"},
        b"x",
        ResponseCode.NO_PERMISSION,
        "topic[SCHEDULE_TOPIC_XXXX] is forbidden",
    ),
    (
        {"topic": "Other", "default_topic": "NoSuch"},
        b"x",
        ResponseCode.TOPIC_NOT_EXIST,
        "topic[Other] not exist",
    ),
    ({"queue_id": 4}, b"x", ResponseCode.SYSTEM_ERROR, "request queueId[4] is illegal"),
    (
        {},
        bytes(4 * 1024 * 1024 + 1),
        ResponseCode.MESSAGE_ILLEGAL,
        "msg body length limit 4194304B",
    ),
    (
        {"properties": "k\x01" + "v" * 33000},
        b"x",
        ResponseCode.MESSAGE_ILLEGAL,
        "msg properties length limit 32KB",
    ),
    (
        {"properties": "DELAY\x01soon"},
        b"x",
        ResponseCode.SYSTEM_ERROR,
        "number of a delay level, not 'soon'",
    ),
    (
        {"properties": "UNIQ_KEY\x01K\x02TRAN_MSG\x01true\x02PGROUP\x01p\x02DELAY\x01soon"},
        b"x",
        ResponseCode.SYSTEM_ERROR,
        "number of a delay level, not 'soon'",
    ),
    ({"batch": True}, b"no batch", ResponseCode.MESSAGE_ILLEGAL, "the batch cannot be read"),
    (
        {"batch": True, "properties": "DELAY\x013"},
        b"",
        ResponseCode.MESSAGE_ILLEGAL,
        "neither a delay level nor",
    ),
    ({"batch": True}, b"", ResponseCode.MESSAGE_ILLEGAL, "the batch cannot be read"),
]


@pytest.mark.parametrize(("changes", "body", "code", "remark"), REFUSALS)
def test_what_is_refused(
    tmp_path: Path, changes: dict[str, Any], body: bytes, code: ResponseCode, remark: str
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer = await send(client, body, **changes)
        assert answer.code == code
        assert remark in (answer.remark or "")
        assert answer.ext_fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        assert world.broker.store.max_phy_offset == 0

    play(tmp_path, scene)


def test_a_topic_is_made_after_the_pattern_of_the_default_topic(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        (await send(client, default_topic_queue_nums=3)).check()
        topic = world.broker.state.topics.get("T")
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (3, 3, 6)

    play(tmp_path, scene)


def test_without_automatic_creation_an_unknown_topic_is_refused(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        assert (await send(client)).code == ResponseCode.TOPIC_NOT_EXIST

    play(tmp_path, scene, auto_create_topic_enable=False)


def test_a_negative_queue_id_lets_the_broker_choose(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        chosen = {(await send(client, queue_id=-1)).check().header.queue_id for _ in range(100)}
        assert chosen == {0, 1, 2, 3}

    play(tmp_path, scene)


def test_a_body_may_be_empty(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        (await send(client, b"")).check()
        assert [m.body for m in stored(world)] == [b""]

    play(tmp_path, scene)


def test_a_retry_that_has_no_try_left_goes_to_the_dead_letter_queue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await client.heartbeat("c1", "g")
        retry = {"topic": "%RETRY%g", "queue_id": 0}
        (await send(client, b"again", reconsume_times=15, **retry)).check()
        (await send(client, b"dead", reconsume_times=16, **retry)).check()
        (
            await send(client, b"dead sooner", reconsume_times=3, max_reconsume_times=3, **retry)
        ).check()
        assert [m.body for m in stored(world, "%RETRY%g", 0)] == [b"again"]
        assert [m.body for m in stored(world, "%DLQ%g", 0)] == [b"dead", b"dead sooner"]
        assert caplog.text.count("tried often enough, and is in %DLQ%g now") == 1, "in a minute"

    play(tmp_path, scene)


def test_a_retry_of_an_unknown_group_is_refused_when_groups_are_not_made_automatically(
    tmp_path: Path,
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer = await send(client, topic="%RETRY%nobody", queue_id=0)
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert world.broker.state.topics.get("%RETRY%nobody") is None

    play(tmp_path, scene, auto_create_subscription_group=False)


def test_tags_of_every_shape_reach_the_queue(tmp_path: Path) -> None:
    shapes = [
        "TAGS\x01TagA",
        "a\x01b\x02TAGS\x01TagA",
        "TAGS\x01TagB\x02TAGS\x01TagA",
        "TAGS\x01TagA\x02TAGS\x01",
        "a\x01TAGS\x01no\x02TAGS\x01TagA\x02",
    ]

    async def scene(world: SimBroker, client: SimClient) -> None:
        for properties in shapes:
            (await send(client, properties=properties)).check()
        found = world.broker.store.get("T", 1, 0, 32, tags=frozenset({2598919}))
        assert found.count == len(shapes)
        assert {m.tags for m in decode_messages(found.body)} == {"TagA"}

    play(tmp_path, scene)


def test_with_sync_flush_the_answer_waits_for_the_disk(tmp_path: Path) -> None:

    async def scene(world: SimBroker, client: SimClient) -> None:
        store = world.broker.store
        unflushed = asyncio.ensure_future(send(client))
        await turns()
        assert store.max_phy_offset > 0
        assert not unflushed.done()
        flushing = asyncio.create_task(store.run())
        await asyncio.gather(unflushed, *(send(client, bytes(100)) for _ in range(100)))
        assert store.flushed_offset == store.max_phy_offset
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)

    play(tmp_path, scene, store=store_config(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH))


@pytest.mark.parametrize("batch", [False, True])
def test_an_answer_that_had_to_wait_says_where_the_message_lies_and_what_did_not_come(
    tmp_path: Path, batch: bool
) -> None:

    async def scene(world: SimBroker, client: SimClient) -> None:
        body = encode_batch([BatchItem(0, b"hello", b"")]) if batch else b"hello"
        answer = await send(client, body, batch=batch)
        assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert answer.ext_fields["msgId"] == stored(world)[0].offset_msg_id
        assert (answer.ext_fields["queueId"], answer.ext_fields["queueOffset"]) == ("1", "0")
        (await send(client, body, batch=batch, properties="WAIT\x01false")).check()
        assert (
            await send(client, body, batch=batch, properties="x\x01WAIT\x01false")
        ).code == answer.code

    play(tmp_path, scene, store=store_config(tmp_path, broker_role=BrokerRole.SYNC_MASTER))


@pytest.mark.parametrize("batch", [False, True])
def test_a_client_cannot_say_which_addresses_a_record_holds(tmp_path: Path, batch: bool) -> None:
    """The bits change the layout of a record: stored as they came, it and everything behind it
    could not be read."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        body = encode_batch([BatchItem(0, b"hello", b"")]) if batch else b"hello"
        for sys_flag in (0, MessageSysFlag.BORN_HOST_V6, MessageSysFlag.STORE_HOST_V6, 0x30, 0):
            (await send(client, body, sys_flag=sys_flag, batch=batch)).check()
        assert [(m.body, m.sys_flag, m.born_host) for m in stored(world)] == [
            (b"hello", 0, client.connection.local)
        ] * 5

    play(tmp_path, scene)


def test_an_ordered_topic_is_refused_by_a_broker_that_may_not_be_written(tmp_path: Path) -> None:
    """Of others the name server takes the permission away; where order counts nobody may be
    late."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        (await send(client)).check()
        world.broker.settings.broker.broker_permission = PermName.READ
        (await send(client)).check()
        world.broker.state.topics.set_order_topics({"T"})
        assert (await send(client)).code == ResponseCode.NO_PERMISSION
        world.broker.settings.broker.broker_permission = PermName.READ | PermName.WRITE
        (await send(client)).check()

    play(tmp_path, scene)


def test_what_is_stored_is_counted(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        (await send(client)).check()
        body = encode_batch([BatchItem(0, b"one", b""), BatchItem(0, b"three", b"")])
        (await send(client, body, batch=True)).check()
        assert (await send(client, queue_id=99)).code != 0
        broker, topic = world.broker, world.broker.state.topics.get("T")
        assert topic is not None
        assert (broker.monitoring.stats.put_messages, broker.monitoring.stats.put_bytes) == (
            3,
            broker.store.max_phy_offset,
        )
        assert (topic.put_nums, topic.put_size_bytes) == (3, broker.store.max_phy_offset)

    play(tmp_path, scene)
