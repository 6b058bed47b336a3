"""Handing out messages, over the wire of a simulated connection (``headers.md`` §A.3)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aiorocketmq.broker.pulls import long_polling
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from aiorocketmq.remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.base import TopicRequest
from aiorocketmq.remoting.protocol.commands.offset import QueueRequest
from aiorocketmq.remoting.protocol.commands.pull import (
    PullMessageRequest,
    PullSysFlag,
    ViewMessageRequest,
)
from aiorocketmq.remoting.responses import Response
from aiorocketmq.store.model.config import FlushDiskType
from aiorocketmq.store.model.errors import ShortageError
from aiorocketmq.store.model.put import PutMessage
from tests.stored import decode_messages

from ..sim import turns
from .sim_broker import SimBroker, SimClient, sim_broker, store_config

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


def play(
    folder: Path, scene: Callable[[SimBroker, SimClient], Awaitable[None]], **config: Any
) -> None:
    async def main() -> None:
        async with sim_broker(folder, **config) as world:
            world.broker.state.topics.update(
                TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)
            )
            await scene(world, world.connect())

    asyncio.run(main())


async def pull(client: SimClient, **changes: Any) -> Response:
    return await client.ask(RequestCode.PULL_MESSAGE, replace(HEADER, **changes))


def bodies(response: Response) -> list[bytes]:
    return [message.body for message in decode_messages(response.body)]


def test_who_limits_the_bytes_gets_more_messages_than_others(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        for _ in range(60):
            await client.send("T", b"m")
        assert len(bodies(await pull(client, max_msg_nums=50))) == 32
        assert len(bodies(await pull(client, max_msg_nums=50, max_msg_bytes=1 << 18))) == 50
        for least in (0, -1, 1):
            assert len(bodies(await pull(client, max_msg_nums=50, max_msg_bytes=least))) == 1

    play(tmp_path, scene)


def test_messages_come_as_they_are_stored(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        for n in range(5):
            await client.send("T", f"m{n}".encode(), properties=f"TAGS\x01{'AB'[n % 2]}")
        answer = await pull(client, queue_offset=1, max_msg_nums=3)
        assert (answer.code, answer.remark, bodies(answer)) == (0, "FOUND", [b"m1", b"m2", b"m3"])
        header = answer.header
        assert (
            header.next_begin_offset,
            header.min_offset,
            header.max_offset,
            header.suggest_which_broker_id,
        ) == (
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
        assert (answer.code, answer.remark) == (
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            "NO_MATCHED_MESSAGE",
        )
        assert answer.header.next_begin_offset == 1

    play(tmp_path, scene)


REFUSALS: list[tuple[dict[str, Any], ResponseCode, str]] = [
    ({"topic": "NoSuch"}, ResponseCode.TOPIC_NOT_EXIST, "topic[NoSuch] not exist"),
    (
        {"queue_id": 2},
        ResponseCode.SYSTEM_ERROR,
        "queueId[2] is illegal, topic:[T] topicConfig.readQueueNums:[2]",
    ),
    ({"queue_id": -1}, ResponseCode.SYSTEM_ERROR, "queueId[-1] is illegal"),
    (
        {"subscription": "||"},
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        "parse the consumer's subscription failed",
    ),
    (
        {"expression_type": "SQL92"},
        ResponseCode.SYSTEM_ERROR,
        "does not support consumer to filter message by SQL92",
    ),
    ({"sys_flag": 0}, ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist"),
]


@pytest.mark.parametrize(("changes", "code", "remark"), REFUSALS)
def test_what_is_refused(
    tmp_path: Path, changes: dict[str, Any], code: ResponseCode, remark: str
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer = await pull(client, **changes)
        assert answer.code == code
        assert remark in (answer.remark or "")

    play(tmp_path, scene)


def test_permissions(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        broker = world.broker
        broker.state.topics.update(
            TopicConfig(topic_name="WriteOnly", read_queue_nums=1, write_queue_nums=1, perm=2)
        )
        assert (await pull(client, topic="WriteOnly")).code == ResponseCode.NO_PERMISSION
        group = broker.state.groups.get("g")
        assert group is not None
        broker.state.groups.update(replace(group, consume_enable=False))
        assert (await pull(client)).code == ResponseCode.NO_PERMISSION

    play(tmp_path, scene)


def test_the_subscription_of_the_heartbeat(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await client.heartbeat("c1", "g")
        await client.send("T", b"m")
        assert bodies(await pull(client, sys_flag=0)) == [b"m"]
        newer = await pull(client, sys_flag=0, sub_version=2)
        assert newer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        world.broker.state.topics.update(
            TopicConfig(topic_name="U", read_queue_nums=1, write_queue_nums=1)
        )
        assert (
            await pull(client, sys_flag=0, topic="U")
        ).code == ResponseCode.SUBSCRIPTION_NOT_EXIST

    play(tmp_path, scene)


def test_the_offset_that_comes_with_a_pull_is_committed_also_when_it_is_held(
    tmp_path: Path,
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        flags = HELD_BY_REQUEST | PullSysFlag.COMMIT_OFFSET
        waiting = asyncio.ensure_future(pull(client, sys_flag=flags, commit_offset=42))
        await turns()
        assert world.broker.state.offsets.get("g", "T", 0) == 42
        assert not waiting.done()
        waiting.cancel()

    play(tmp_path, scene)


# --- long polling
# --------------------------------------------------------------------------------------------------


def test_a_held_pull_is_answered_when_a_message_arrives(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        other_queue = asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST, queue_id=1))
        waiting = asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST))
        await turns()
        assert world.broker.reads.pull.held_pulls == 2
        await world.connect().send("T", b"news")
        assert bodies(await waiting) == [b"news"]
        assert world.broker.reads.pull.held_pulls == 1
        other_queue.cancel()

    play(tmp_path, scene)


def test_what_cannot_be_read_just_now_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """To who asks, and to who waits for it."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        def fails(*_: object, **__: object) -> None:
            raise ShortageError(tmp_path, "cannot be used: Too many open files")

        await client.send("T", b"one")
        held = asyncio.ensure_future(pull(client, queue_offset=1, sys_flag=HELD_BY_REQUEST))
        await turns()
        assert world.broker.reads.pull.held_pulls == 1
        with monkeypatch.context() as patch:
            patch.setattr(world.broker.store, "get", fails)
            answers = [await pull(client), await pull(client)]
            await client.send("T", b"two")
            answers.append(await held)
        for answer in answers:
            assert (answer.code, "Too many open files" in str(answer.remark)) == (
                ResponseCode.SYSTEM_ERROR,
                True,
            )
        assert world.broker.reads.pull.held_pulls == 0
        assert (await pull(client)).code == ResponseCode.SUCCESS

    play(tmp_path, scene)
    assert caplog.text.count("request cannot be served just now") == 1
    assert "Traceback" not in caplog.text


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


@pytest.mark.parametrize("taken", ["topic", "group", "broker", "queue"])
def test_a_held_pull_gets_nothing_once_that_is_not_allowed_any_more(
    tmp_path: Path, taken: str
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        state, held = world.broker.state, []
        for queue_id in (1, 1):
            flags = {"sys_flag": HELD_BY_REQUEST, "queue_id": queue_id}
            held.append(asyncio.ensure_future(pull(client, **flags)))
        await turns()
        group = state.groups.get("g")
        assert group is not None
        if taken == "topic":
            state.topics.update(
                TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2, perm=2)
            )
        elif taken == "group":
            state.groups.update(replace(group, consume_enable=False))
        elif taken == "broker":
            world.broker.settings.broker.broker_permission = 2
        else:
            state.topics.update(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=2))
        await world.broker.tables.topics_file.saved()
        await world.connect().send("T", b"secret", queue_id=1)
        refused = ResponseCode.SYSTEM_ERROR if taken == "queue" else ResponseCode.NO_PERMISSION
        for each in held:
            assert ((await each).code, bodies(await each)) == (refused, [])
        assert world.broker.reads.pull.held_pulls == 0

    play(tmp_path, scene)


def test_pulls_that_cannot_be_held_are_told_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Their consumers ask again at once."""
    monkeypatch.setattr(long_polling, "MAX_HELD_PULLS", 1)

    async def scene(world: SimBroker, client: SimClient) -> None:
        held = asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST))
        await turns()
        for _ in range(3):
            answer = await pull(client, sys_flag=HELD_BY_REQUEST)
            assert answer.code == ResponseCode.PULL_NOT_FOUND
        held.cancel()

    play(tmp_path, scene)
    [line] = [each.getMessage() for each in caplog.records if "held" in each.getMessage()]
    assert line.startswith("pulls are answered at once, too many are held already held=1 group=g")


@pytest.mark.parametrize("limit", ["pulls", "bytes"])
def test_some_greedy_consumers_leave_places_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """The limit of a connection (``maxInFlight``) is not enough for that."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        held = [asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST))]
        await turns()
        if limit == "pulls":
            monkeypatch.setattr(long_polling, "MAX_HELD_PULLS", 80)
        else:
            monkeypatch.setattr(
                long_polling, "MAX_HELD_BYTES", 80 * world.broker.reads.pull._held._bytes
            )
        greedy = [world.connect() for _ in range(7)]
        for _ in range(80):
            for each in greedy:
                held.append(asyncio.ensure_future(pull(each, sys_flag=HELD_BY_REQUEST)))
            await turns()
        before = world.broker.reads.pull.held_pulls
        assert 65 < before < 75
        held.append(asyncio.ensure_future(pull(world.connect(), sys_flag=HELD_BY_REQUEST)))
        await turns()
        assert world.broker.reads.pull.held_pulls == before + 1
        await client.send("T", b"m")
        await asyncio.gather(*held)
        assert world.broker.reads.pull.held_pulls == world.broker.reads.pull._held._bytes == 0

    play(tmp_path, scene)


def test_a_held_pull_is_answered_at_its_deadline(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await client.send("T", b"m")
        loop = asyncio.get_running_loop()
        start = loop.time()
        waiting = asyncio.ensure_future(
            pull(client, sys_flag=HELD_BY_REQUEST, queue_offset=1, suspend_timeout_millis=50)
        )
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
        assert world.broker.reads.pull.held_pulls == 0
        await client.send("T", b"m")
        with pytest.raises(Exception, match="lost"):
            await waiting

    play(tmp_path, scene)


def test_many_wait_for_one_queue_and_all_are_answered(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        clients = [world.connect() for _ in range(50)]
        waiting = [
            asyncio.ensure_future(pull(c, sys_flag=HELD_BY_REQUEST, consumer_group=f"g{n}"))
            for n, c in enumerate(clients)
        ]
        await turns()
        await client.send("T", b"m")
        assert [bodies(answer) for answer in await asyncio.gather(*waiting)] == [[b"m"]] * 50
        assert world.broker.reads.pull.held_pulls == 0

    play(tmp_path, scene)


def test_more_than_can_be_answered_in_one_turn_are_answered_in_the_next(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        waiting = [
            asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST)) for _ in range(300)
        ]
        await turns()
        assert world.broker.reads.pull.held_pulls == 300
        world.broker.store.put_message(PutMessage("T", 0, b"m", b"", bytes(8), 1, 1))
        left = []
        while world.broker.reads.pull.held_pulls:
            await asyncio.sleep(0)
            left.append(world.broker.reads.pull.held_pulls)
        assert len(set(left)) >= 4
        assert [bodies(answer) for answer in await asyncio.gather(*waiting)] == [[b"m"]] * 300

    play(tmp_path, scene)


def test_many_who_wait_for_a_topic_that_is_deleted_are_told_in_several_turns(
    tmp_path: Path,
) -> None:
    """Whoever waits for one of the same name that is made meanwhile is not meant."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        pulls, topics = world.broker.reads.pull, world.broker.state.topics
        waiting = [
            asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST)) for _ in range(300)
        ]
        await turns()
        topics.delete("T")
        assert pulls.held_pulls >= 200
        topics.update(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2))
        later = asyncio.ensure_future(pull(world.connect(), sys_flag=HELD_BY_REQUEST))
        for answer in await asyncio.gather(*waiting):
            assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        await turns()
        assert pulls.held_pulls == 1
        world.broker.store.put_message(PutMessage("T", 0, b"m", b"", bytes(8), 1, 1))
        assert bodies(await later) == [b"m"]
        assert pulls.held_pulls == 0

    play(tmp_path, scene)


def test_deadlines_that_come_together_are_met_in_several_turns(tmp_path: Path) -> None:
    """Who asks says how long he waits: thousands may come in one millisecond."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        pulls = world.broker.reads.pull
        waiting = [
            asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST)) for _ in range(300)
        ]
        await turns()
        assert pulls.held_pulls == 300
        world.clock.advance(15)
        pulls._deadline()
        left = [pulls.held_pulls]
        while pulls.held_pulls:
            await asyncio.sleep(0)
            left.append(pulls.held_pulls)
        assert len(set(left)) >= 4
        for answer in await asyncio.gather(*waiting):
            assert answer.code == ResponseCode.PULL_NOT_FOUND

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


@pytest.mark.parametrize(
    ("allowed", "code"), [(False, ResponseCode.NO_PERMISSION), (True, ResponseCode.SUCCESS)]
)
def test_a_group_may_be_forbidden_to_broadcast(
    tmp_path: Path, allowed: bool, code: ResponseCode
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        world.broker.state.groups.update(
            SubscriptionGroupConfig(group_name="g", consume_broadcast_enable=allowed)
        )
        await client.send("T", b"m")
        wanted = (SubscriptionData(topic="T", sub_string="*", sub_version=1),)
        member = ConsumerData(
            group_name="g", message_model=MessageModel.BROADCASTING, subscription_data_set=wanted
        )
        heartbeat = HeartbeatData(client_id="c", consumer_data_set=(member,))
        (await client.ask(RequestCode.HEART_BEAT, None, encode_body(heartbeat))).check()
        assert (await pull(client, sys_flag=0)).code == code

    play(tmp_path, scene)


def test_a_held_pull_is_told_when_its_topic_is_deleted_and_the_broker_goes_on(
    tmp_path: Path,
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        waiting = asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST))
        await turns()
        (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic="T"))).check()
        assert (await waiting).code == ResponseCode.TOPIC_NOT_EXIST
        assert world.broker.reads.pull.held_pulls == 0
        flushing = asyncio.create_task(
            world.broker.store.run()
        )  # nothing was ever stored: there is no folder yet
        await world.broker.store.sync()
        await client.send("T", b"made again")
        assert bodies(await pull(client)) == [b"made again"]
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)

    play(tmp_path, scene)


# --- what the configuration changes
# ---------------------------------------------------------------------------------


def test_a_wrong_offset_is_told_to_whoever_watches(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await client.send("T", b"m")
        assert (await pull(client, queue_offset=5)).code == ResponseCode.PULL_OFFSET_MOVED
        assert (
            await pull(client, queue_id=1, queue_offset=7)
        ).code == ResponseCode.PULL_OFFSET_MOVED
        events = decode_messages(world.broker.store.get("OFFSET_MOVED_EVENT", 0, 0).body)
        assert [json.loads(event.body) for event in events] == [
            {
                "consumerGroup": "g",
                "messageQueue": {"brokerName": "b", "queueId": queue_id, "topic": "T"},
                "offsetNew": new,
                "offsetRequest": asked,
            }
            for queue_id, asked, new in ((0, 5, 1), (1, 7, 0))
        ]
        assert (
            world.broker.monitoring.stats.put_messages,
            world.broker.monitoring.stats.all_messages,
        ) == (1, 3)
        assert (events[0].tags, list(events[0].keys)) == ("g", ["g"])

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("enabled", "in_memory", "suggested"), [(False, False, 0), (True, True, 3), (True, False, 7)]
)
def test_who_reads_what_lies_far_back_is_sent_to_a_slave(
    tmp_path: Path, enabled: bool, in_memory: bool, suggested: int
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        world.broker.state.groups.update(
            SubscriptionGroupConfig(group_name="g", broker_id=3, which_broker_when_consume_slowly=7)
        )
        for _ in range(3):
            await client.send("T", b"m")
        if not in_memory:
            world.broker.store._reader._in_memory = 10
        answer = await pull(client, max_msg_nums=1)
        assert answer.header.suggest_which_broker_id == suggested

    play(tmp_path, scene, slave_read_enable=enabled)


@pytest.mark.parametrize(("in_memory", "suggested"), [(True, 0), (False, 1)])
def test_a_group_that_a_slave_does_not_know_is_sent_where_a_new_one_is(
    tmp_path: Path, in_memory: bool, suggested: int
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        for _ in range(3):
            await client.send("T", b"m")
        if not in_memory:
            world.broker.store._reader._in_memory = 10
        answer = await pull(client, max_msg_nums=1)
        assert (answer.code, answer.header.suggest_which_broker_id) == (0, suggested)
        assert "g" not in world.broker.state.groups

    play(tmp_path, scene, slave_read_enable=True, broker_id=1)


def test_without_long_polling_a_pull_waits_as_long_as_configured(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        waiting = asyncio.ensure_future(
            pull(client, sys_flag=HELD_BY_REQUEST, suspend_timeout_millis=3_600_000)
        )
        await turns()
        assert not waiting.done()
        world.clock.advance(0.02)
        assert (await waiting).code == ResponseCode.PULL_NOT_FOUND

    play(tmp_path, scene, long_polling_enable=False, short_polling_time_mills=20)


@pytest.mark.parametrize(
    ("enabled", "limit", "allowed"), [(True, 500, False), (True, 10_000, True), (False, 500, True)]
)
def test_groups_that_read_far_back_may_be_stopped(
    tmp_path: Path, enabled: bool, limit: int, allowed: bool
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        for _ in range(5):
            await client.send("T", b"m" * 100)
        slow = world.broker.reads.slow_consumers
        await pull(client, max_msg_nums=1)
        slow.check()
        await pull(client, max_msg_nums=1, consumer_group="quick", queue_offset=4)
        slow.check()
        assert (await pull(client)).code == (0 if allowed else ResponseCode.NO_PERMISSION)
        assert (await pull(client, consumer_group="quick")).code == 0

    play(
        tmp_path,
        scene,
        disable_consume_if_consumer_read_slowly=enabled,
        consumer_fallbehind_threshold=limit,
    )


def synced_only(folder: Path) -> dict[str, Any]:
    """Of a broker that hands out only what is on its disk."""
    return {"store": store_config(folder, flush_disk_type=FlushDiskType.SYNC_FLUSH)}


NO_WAIT = "WAIT\x01false"


def test_with_sync_flush_a_held_pull_is_answered_when_the_disk_has_the_message(
    tmp_path: Path,
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        flush = world.broker.store.flush
        held = asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST))
        await turns()
        await client.send("T", b"a", properties=NO_WAIT)
        await turns()
        assert not held.done()
        sync = asyncio.ensure_future(flush.sync_log())
        await client.send("T", b"b", properties=NO_WAIT)
        await sync
        first = await held
        assert (bodies(first), first.header.max_offset) == ([b"a"], 1)
        # "b" was put before anybody waited for it
        held = asyncio.ensure_future(pull(client, queue_offset=1, sys_flag=HELD_BY_REQUEST))
        await turns()
        assert not held.done()
        await flush.sync_log()
        assert bodies(await held) == [b"b"]

    play(tmp_path, scene, **synced_only(tmp_path))


def test_with_sync_flush_who_waits_for_a_message_has_it_synced(tmp_path: Path) -> None:
    """Although its sender does not wait. The clock stands still: nothing is due by itself."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        service = asyncio.ensure_future(world.broker.store.flush.run())
        held = asyncio.ensure_future(pull(client, sys_flag=HELD_BY_REQUEST))
        await turns()
        await client.send("T", b"a", properties=NO_WAIT)
        assert bodies(await held) == [b"a"]
        service.cancel()
        await asyncio.wait([service])

    play(tmp_path, scene, **synced_only(tmp_path))


def test_with_sync_flush_single_messages_and_ends_wait_for_the_disk(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await client.send("T", b"a", properties=NO_WAIT)
        view, end = ViewMessageRequest(offset=0), QueueRequest(topic="T", queue_id=0)
        answer = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, view)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (await client.ask(RequestCode.GET_MAX_OFFSET, end)).header.offset == 0
        await world.broker.store.flush.sync_log()
        assert (await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, view)).code == 0
        assert (await client.ask(RequestCode.GET_MAX_OFFSET, end)).header.offset == 1

    play(tmp_path, scene, **synced_only(tmp_path))
