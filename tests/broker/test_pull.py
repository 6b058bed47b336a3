"""Handing out messages, over the wire of a simulated connection (``headers.md`` §A.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aiorocketmq.remoting.invocations import Response
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, MessageModel, SubscriptionData
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import TopicRequest
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.record import decode_messages

from .sim_broker import SimBroker, SimClient, sim_broker

HELD_BY_REQUEST = PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND
HEADER = PullMessageRequest(
    consumer_group="g",
    topic="T",
    queue_id=0,
    queue_offset=0,
    max_msg_nums=32,
    sys_flag=PullSysFlag.SUBSCRIPTION,
    commit_offset=0,
    suspend_timeout_millis=15_000,
    subscription="*",
    sub_version=1,
    expression_type="TAG",
)


def play(folder: Path, scene: Callable[[SimBroker, SimClient], Awaitable[None]], **config: Any) -> None:
    async def main() -> None:
        async with sim_broker(folder, **config) as world:
            world.broker.topics.update(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2))
            await scene(world, world.connect())

    asyncio.run(main())


async def pull(client: SimClient, **changes: Any) -> Response:
    return await client.ask(RequestCode.PULL_MESSAGE, replace(HEADER, **changes))


def bodies(response: Response) -> list[bytes]:
    return [message.body for message in decode_messages(response.body)]


async def turns(count: int = 20) -> None:
    """Let everything run that can run."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_messages_come_as_they_are_stored(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        for n in range(5):
            await client.send("T", f"m{n}".encode(), properties=f"TAGS\x01{'AB'[n % 2]}")
        answer = await pull(client, queue_offset=1, max_msg_nums=3)
        assert (answer.code, answer.remark, bodies(answer)) == (0, "FOUND", [b"m1", b"m2", b"m3"])
        header = answer.header
        assert (header.next_begin_offset, header.min_offset, header.max_offset, header.suggest_which_broker_id) == (
            4,
            0,
            5,
            0,
        )
        tagged = await pull(client, subscription="B || C")
        assert bodies(tagged) == [b"m1", b"m3"]
        assert tagged.header.next_begin_offset == 5
        lite = await client.ask(RequestCode.LITE_PULL_MESSAGE, HEADER)
        assert len(bodies(lite)) == 5

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("stored", "offset", "code", "next_offset", "remark"),
    [
        (0, 0, ResponseCode.PULL_NOT_FOUND, 0, "NO_MESSAGE_IN_QUEUE"),
        (0, 7, ResponseCode.PULL_OFFSET_MOVED, 0, "NO_MESSAGE_IN_QUEUE"),
        (3, 3, ResponseCode.PULL_NOT_FOUND, 3, "OFFSET_OVERFLOW_ONE"),
        (3, 4, ResponseCode.PULL_OFFSET_MOVED, 3, "OFFSET_OVERFLOW_BADLY"),
        (3, -1, ResponseCode.PULL_OFFSET_MOVED, 0, "OFFSET_TOO_SMALL"),
    ],
)
def test_where_there_is_nothing(
    tmp_path: Path, stored: int, offset: int, code: ResponseCode, next_offset: int, remark: str
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        for _ in range(stored):
            await client.send("T", b"m")
        answer = await pull(client, queue_offset=offset)
        assert (answer.code, answer.remark) == (code, remark)
        assert (answer.header.next_begin_offset, answer.header.max_offset) == (next_offset, stored)

    play(tmp_path, scene)


def test_nothing_that_matches_is_answered_at_once_and_moves_on(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await client.send("T", b"m", properties="TAGS\x01A")
        answer = await pull(client, subscription="B", sys_flag=HELD_BY_REQUEST)
        assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
        assert answer.header.next_begin_offset == 1

    play(tmp_path, scene)


REFUSALS: list[tuple[dict[str, Any], ResponseCode, str]] = [
    ({"topic": "NoSuch"}, ResponseCode.TOPIC_NOT_EXIST, "topic[NoSuch] not exist"),
    ({"queue_id": 2}, ResponseCode.SYSTEM_ERROR, "queueId[2] is illegal, topic:[T] topicConfig.readQueueNums:[2]"),
    ({"queue_id": -1}, ResponseCode.SYSTEM_ERROR, "queueId[-1] is illegal"),
    ({"subscription": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"),
    ({"expression_type": "SQL92"}, ResponseCode.SYSTEM_ERROR, "does not support consumer to filter message by SQL92"),
    ({"sys_flag": 0}, ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist"),
]


@pytest.mark.parametrize(("changes", "code", "remark"), REFUSALS)
def test_what_is_refused(tmp_path: Path, changes: dict[str, Any], code: ResponseCode, remark: str) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer = await pull(client, **changes)
        assert answer.code == code
        assert remark in (answer.remark or "")

    play(tmp_path, scene)


def test_permissions(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        broker = world.broker
        broker.topics.update(TopicConfig(topic_name="WriteOnly", read_queue_nums=1, write_queue_nums=1, perm=2))
        assert (await pull(client, topic="WriteOnly")).code == ResponseCode.NO_PERMISSION
        group = broker.groups.get("g")
        assert group is not None
        broker.groups.update(replace(group, consume_enable=False))
        assert (await pull(client)).code == ResponseCode.NO_PERMISSION

    play(tmp_path, scene)


def test_the_subscription_of_the_heartbeat(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await client.heartbeat("c1", "g")
        await client.send("T", b"m")
        assert bodies(await pull(client, sys_flag=0)) == [b"m"]
        newer = await pull(client, sys_flag=0, sub_version=2)
        assert newer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        world.broker.topics.update(TopicConfig(topic_name="U", read_queue_nums=1, write_queue_nums=1))
        assert (await pull(client, sys_flag=0, topic="U")).code == ResponseCode.SUBSCRIPTION_NOT_EXIST

    play(tmp_path, scene)


def test_the_offset_that_comes_with_a_pull_is_committed_also_when_it_is_held(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        flags = HELD_BY_REQUEST | PullSysFlag.COMMIT_OFFSET
        waiting = asyncio.ensure_future(pull(client, sys_flag=flags, commit_offset=42))
        await turns()
        assert world.broker.offsets.get("g", "T", 0) == 42
        assert not waiting.done()
        waiting.cancel()

    play(tmp_path, scene)


# --- long polling ---------------------------------------------------------------------------------------------------


def test_a_held_pull_is_answered_when_a_message_arrives(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        other_queue = asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST, queue_id=1))
        waiting = asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST))
        await turns()
        assert world.broker.pull.held_pulls == 2
        await world.connect().send("T", b"news")
        assert bodies(await waiting) == [b"news"]
        assert world.broker.pull.held_pulls == 1
        other_queue.cancel()

    play(tmp_path, scene)


def test_a_held_pull_does_not_wake_for_what_it_does_not_want(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        waiting = asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST, subscription="B"))
        await turns()
        for _ in range(3):
            await client.send("T", b"no", properties="TAGS\x01A")
        await turns()
        assert not waiting.done()
        await client.send("T", b"yes", properties="TAGS\x01B")
        answer = await waiting
        assert (bodies(answer), answer.header.next_begin_offset) == ([b"yes"], 4)

    play(tmp_path, scene)


def test_a_held_pull_is_answered_at_its_deadline(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await client.send("T", b"m")
        loop = asyncio.get_running_loop()
        start = loop.time()
        waiting = asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST, queue_offset=1, suspend_timeout_millis=50))
        await turns()
        world.clock.advance(0.05)
        answer = await waiting
        assert loop.time() - start >= 0.045
        assert (answer.code, answer.header.next_begin_offset) == (ResponseCode.PULL_NOT_FOUND, 1)

    play(tmp_path, scene)


def test_a_held_pull_goes_with_its_connection(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        gone = world.connect()
        waiting = asyncio.ensure_future(pull(gone, sys_flag=HELD_BY_REQUEST))
        await turns()
        gone.at_broker.close("test")
        await turns()
        assert world.broker.pull.held_pulls == 0
        await client.send("T", b"m")
        with pytest.raises(Exception, match="lost"):
            await waiting

    play(tmp_path, scene)


def test_many_wait_for_one_queue_and_all_are_answered(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        clients = [world.connect() for _ in range(50)]
        waiting = [
            asyncio.ensure_future(pull(c, sys_flag=HELD_BY_REQUEST, consumer_group=f"g{n}")) for n, c in enumerate(clients)
        ]
        await turns()
        await client.send("T", b"m")
        assert [bodies(answer) for answer in await asyncio.gather(*waiting)] == [[b"m"]] * 50
        assert world.broker.pull.held_pulls == 0

    play(tmp_path, scene)


def test_who_still_waits_is_woken_after_another_has_left(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        other = world.connect()
        leaving = asyncio.create_task(pull(other, sys_flag=HELD_BY_REQUEST))
        staying = asyncio.create_task(pull(client, sys_flag=HELD_BY_REQUEST))
        await turns()
        other.connection.close()
        await asyncio.gather(leaving, return_exceptions=True)
        await client.send("T", b"m")
        async with asyncio.timeout(10):
            assert bodies(await staying) == [b"m"]

    play(tmp_path, scene)


@pytest.mark.parametrize(("allowed", "code"), [(False, ResponseCode.NO_PERMISSION), (True, ResponseCode.SUCCESS)])
def test_a_group_may_be_forbidden_to_broadcast(tmp_path: Path, allowed: bool, code: ResponseCode) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        world.broker.groups.update(SubscriptionGroupConfig(group_name="g", consume_broadcast_enable=allowed))
        await client.send("T", b"m")
        wanted = (SubscriptionData(topic="T", sub_string="*", sub_version=1),)
        member = ConsumerData(group_name="g", message_model=MessageModel.BROADCASTING, subscription_data_set=wanted)
        heartbeat = HeartbeatData(client_id="c", consumer_data_set=(member,))
        (await client.ask(RequestCode.HEART_BEAT, None, encode_body(heartbeat))).check()
        assert (await pull(client, sys_flag=0)).code == code

    play(tmp_path, scene)


def test_a_held_pull_is_told_when_its_topic_is_deleted_and_the_broker_goes_on(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        waiting = asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST))
        await turns()
        (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T"))).check()
        assert (await waiting).code == ResponseCode.TOPIC_NOT_EXIST
        assert world.broker.pull.held_pulls == 0
        flushing = asyncio.create_task(world.broker.store.run())  # nothing was ever stored: there is no folder yet
        await world.broker.store.sync()
        await client.send("T", b"made again")
        assert bodies(await pull(client)) == [b"made again"]
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)

    play(tmp_path, scene)
