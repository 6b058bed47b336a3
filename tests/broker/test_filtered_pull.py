"""Pulling by SQL92: what a client asks, what its heartbeat says, and what waits for messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.client import UnregisterClientRequest
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.responses import Response
from aiorocketmq.store.model.put import PutMessage
from tests.stored import decode_messages

from ..sim import turns
from .sim_broker import SimBroker, SimClient, sim_broker

FLAGS = PullSysFlag.SUBSCRIPTION
BY_SQL = PullMessageRequest(
    consumer_group="g", topic="T", queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=FLAGS,
    commit_offset=0,
    suspend_timeout_millis=15_000, subscription="a BETWEEN 0 AND 3", sub_version=0,
    expression_type="SQL92",
)  # fmt: skip
HELD = FLAGS | PullSysFlag.SUSPEND


def play(
    folder: Path, scene: Callable[[SimBroker, SimClient], Awaitable[None]], **config: Any
) -> None:
    async def main() -> None:
        async with sim_broker(folder, **{"enable_property_filter": True, **config}) as world:
            for name in ("T", "%RETRY%g"):
                world.broker.state.topics.update(
                    TopicConfig(topic_name=name, read_queue_nums=2, write_queue_nums=2)
                )
            await scene(world, world.connect())

    asyncio.run(main())


async def pull(client: SimClient, **changes: Any) -> Response:
    return await client.ask(RequestCode.PULL_MESSAGE, replace(BY_SQL, **changes))


async def pull_subscribed(client: SimClient, **changes: Any) -> Response:
    return await pull(
        client, **{"sys_flag": 0, "subscription": None, "expression_type": None, **changes}
    )


async def send(client: SimClient, *values: int, topic: str = "T", extra: str = "") -> None:
    for value in values:
        await client.send(topic, b"%d" % value, properties=f"a\x01{value}{extra}")


async def subscribe(
    client: SimClient, expression: str, version: int = 1, topic: str = "T"
) -> Response:
    wanted = (
        SubscriptionData(
            topic=topic, sub_string=expression, sub_version=version, expression_type="SQL92"
        ),
        SubscriptionData(topic="%RETRY%g", sub_string="*", sub_version=version),
    )
    member = ConsumerData(group_name="g", subscription_data_set=wanted)
    body = encode_body(HeartbeatData(client_id="c1", consumer_data_set=(member,)))
    return await client.ask(RequestCode.HEART_BEAT, None, body)


def bodies(response: Response) -> list[bytes]:
    return [message.body for message in decode_messages(response.body)]


# --- an expression that comes with the pull
# -------------------------------------------------------------------------


def test_only_what_matches_is_handed_out(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await send(client, -1, 0, 2, 3, 4, 1)
        answer = await pull(client)
        assert (answer.code, bodies(answer), answer.header.next_begin_offset) == (
            0,
            [b"0", b"2", b"3", b"1"],
            6,
        )
        few = await pull(client, max_msg_nums=2)
        assert (bodies(few), few.header.next_begin_offset) == ([b"0", b"2"], 3)

    play(tmp_path, scene)


def test_nothing_that_matches_moves_on(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await send(client, 7, 8, 9)
        answer = await pull(client, sys_flag=HELD)
        assert (answer.code, answer.remark) == (
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            "NO_MATCHED_MESSAGE",
        )
        assert answer.header.next_begin_offset == 3

    play(tmp_path, scene)


def test_a_pull_does_not_look_at_thousands_of_messages_in_one_turn(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        for _ in range(40):
            await asyncio.gather(*(client.send("T", b"m", properties="a\x019") for _ in range(50)))
        offsets = [0]
        while (
            answer := await pull(client, queue_offset=offsets[-1])
        ).code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            offsets.append(answer.header.next_begin_offset)
        steps = [after - before for before, after in pairwise(offsets)]
        assert offsets[-1] == 2000
        assert max(steps) < 500
        assert answer.code == ResponseCode.PULL_NOT_FOUND

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("expression", "kind", "code", "remark"),
    [
        ("a >", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED, "position 4: expected a property"),
        (
            "a = 1 garbage",
            "SQL92",
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "position 7: garbage follows",
        ),
        (
            "",
            "SQL92",
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "position 1: the expression is empty",
        ),
        (
            None,
            "SQL92",
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "position 1: the expression is empty",
        ),
        (
            "a = 1",
            "XPATH",
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "there is no expression type XPATH",
        ),
    ],
)
def test_an_expression_that_is_none_is_refused(
    tmp_path: Path, expression: str | None, kind: str, code: ResponseCode, remark: str
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer = await pull(client, subscription=expression, expression_type=kind)
        assert answer.code == code
        assert remark in (answer.remark or "")

    play(tmp_path, scene)


def test_without_enable_property_filter_there_are_only_tags(tmp_path: Path) -> None:
    remark = "The broker does not support consumer to filter message by SQL92"

    async def scene(world: SimBroker, client: SimClient) -> None:
        await subscribe(client, "a = 1")
        for answer in (
            await pull(client),
            await pull_subscribed(client),
            await check(client, "a = 1"),
        ):
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
        assert (
            await pull(client, subscription="*", expression_type="TAG")
        ).code == ResponseCode.PULL_NOT_FOUND

    play(tmp_path, scene, enable_property_filter=False)


# --- an expression of the group's heartbeats
# ------------------------------------------------------------------------


def test_the_filter_of_the_heartbeat(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        (await subscribe(client, "a > 3")).check()
        await send(client, 1, 5, 2, 9)
        answer = await pull_subscribed(client, sub_version=1)
        assert (bodies(answer), answer.header.next_begin_offset) == ([b"5", b"9"], 4)
        (await subscribe(client, "a < 3", version=2)).check()
        assert bodies(await pull_subscribed(client, sub_version=2)) == [b"1", b"2"]
        newer = await pull_subscribed(client, sub_version=3)
        assert newer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST

    play(tmp_path, scene)


def test_a_heartbeat_with_a_bad_expression_succeeds_and_its_group_gets_nothing_there(
    tmp_path: Path,
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        (await subscribe(client, "a > 3 garbage")).check()
        await send(client, 5)
        answer = await pull_subscribed(client)
        assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST
        assert (await pull_subscribed(client, topic="%RETRY%g")).code == ResponseCode.PULL_NOT_FOUND

    play(tmp_path, scene)


def test_a_heartbeat_with_more_sql_than_can_be_compiled_at_once_is_refused(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        wanted = tuple(
            SubscriptionData(
                topic=f"T{n}",
                sub_string="a IN (" + "'x', " * 1600 + "'y')",
                expression_type="SQL92",
            )
            for n in range(9)
        )
        for count, code in ((8, 0), (9, ResponseCode.SYSTEM_ERROR)):
            member = ConsumerData(group_name="g", subscription_data_set=wanted[:count])
            body = encode_body(HeartbeatData(client_id="c1", consumer_data_set=(member,)))
            assert (await client.ask(RequestCode.HEART_BEAT, None, body)).code == code
        assert len(world.broker.state.filters) == 8

    play(tmp_path, scene)


def test_a_newer_expression_that_does_not_compile_ends_the_older(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await subscribe(client, "a > 3")
        await subscribe(client, "a >", version=2)
        assert (await pull_subscribed(client)).code == ResponseCode.FILTER_DATA_NOT_EXIST

    play(tmp_path, scene)


def test_filter_data_that_are_older_than_the_subscription(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await subscribe(client, "a > 3", version=5)
        found = world.broker.state.filters.get("T", "g")
        assert found is not None
        found.version = 4
        assert (
            await pull_subscribed(client, sub_version=5)
        ).code == ResponseCode.FILTER_DATA_NOT_LATEST

    play(tmp_path, scene)


def test_the_filter_dies_with_the_last_member(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await subscribe(client, "a > 3")
        leaving = UnregisterClientRequest(client_id="c1", consumer_group="g")
        (await client.ask(RequestCode.UNREGISTER_CLIENT, leaving)).check()
        found = world.broker.state.filters.get("T", "g")
        assert found is not None
        assert found.is_dead
        world.clock.advance(1)
        await subscribe(client, "a > 3")
        assert not found.is_dead

    play(tmp_path, scene)


@pytest.mark.parametrize(("support", "expected"), [(False, [b"1", b"5"]), (True, [b"5"])])
def test_retried_messages_are_filtered_when_wanted(
    tmp_path: Path, support: bool, expected: list[bytes]
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await subscribe(client, "a > 3")
        await send(client, 1, 5, topic="%RETRY%g", extra="\x02RETRY_TOPIC\x01T")
        assert bodies(await pull_subscribed(client, topic="%RETRY%g")) == expected
        by_header = {"topic": "%RETRY%g", "subscription": "*", "expression_type": "TAG"}
        assert bodies(await pull(client, **by_header)) == expected

    play(tmp_path, scene, filter_support_retry=support)


# --- CHECK_CLIENT_CONFIG
# --------------------------------------------------------------------------------------------


async def check(client: SimClient, expression: str, kind: str = "SQL92") -> Response:
    wanted = SubscriptionData(topic="T", sub_string=expression, sub_version=1, expression_type=kind)
    body = encode_body(CheckClientRequestBody(client_id="c1", group="g", subscription_data=wanted))
    return await client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body)


@pytest.mark.parametrize(
    ("expression", "kind", "code", "remark"),
    [
        ("a > 1", "SQL92", 0, None),
        ("||", "TAG", 0, None),
        (
            "a > 1 and",
            "SQL92",
            23,
            "position 10: expected a property, a literal or '(', found the end",
        ),
        (
            "a = 010",
            "SQL92",
            23,
            "position 6: 10 follows a complete expression (numbers have no leading zeros)",
        ),
        ("a > 1", "XPATH", 23, "position 1: there is no expression type XPATH, use TAG or SQL92"),
    ],
)
def test_a_client_asks_whether_its_expression_is_one(
    tmp_path: Path, expression: str, kind: str, code: int, remark: str | None
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        answer = await check(client, expression, kind)
        assert (answer.code, answer.remark) == (code, remark)

    play(tmp_path, scene)


# --- waiting
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_heartbeat", [False, True])
def test_a_held_pull_wakes_only_for_what_matches(tmp_path: Path, by_heartbeat: bool) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        await subscribe(client, "a BETWEEN 0 AND 3")
        ask = pull_subscribed if by_heartbeat else pull
        waiting = asyncio.ensure_future(
            ask(client, sys_flag=PullSysFlag.SUSPEND if by_heartbeat else HELD)
        )
        await turns()
        other = world.connect()
        await send(other, 7, 8, 9)
        await turns()
        assert not waiting.done()
        assert world.broker.reads.pull.held_pulls == 1
        await send(other, 2)
        answer = await waiting
        assert (bodies(answer), answer.header.next_begin_offset) == ([b"2"], 4)

    play(tmp_path, scene)


def test_a_held_pull_goes_through_thousands_of_messages_in_steps(tmp_path: Path) -> None:
    """They arrive at once, more of them than are looked at in a turn of the loop; the last one
    matches."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        waiting = asyncio.ensure_future(pull(client, sys_flag=HELD))
        await turns()
        put = world.broker.store.put_message
        for value in [9] * 3000 + [1]:
            put(PutMessage("T", 0, b"%d" % value, b"a\x01%d" % value, bytes(8), 1, 1))
        seen = 0
        while not waiting.done():
            await asyncio.sleep(0)
            seen += 1
        answer = await waiting
        assert (bodies(answer), answer.header.next_begin_offset) == ([b"1"], 3001)
        assert seen > 8
        assert world.broker.reads.pull.held_pulls == 0

    play(tmp_path, scene)


def test_a_held_pull_that_found_nothing_is_answered_at_its_deadline_behind_it(
    tmp_path: Path,
) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        waiting = asyncio.ensure_future(pull(client, sys_flag=HELD, suspend_timeout_millis=30))
        await turns()
        await send(world.connect(), 7, 8)
        await turns()
        world.clock.advance(0.03)
        answer = await waiting
        assert (answer.code, answer.header.next_begin_offset) == (ResponseCode.PULL_NOT_FOUND, 2)

    play(tmp_path, scene)


def test_a_pull_that_is_being_read_goes_with_its_connection(tmp_path: Path) -> None:
    async def scene(world: SimBroker, client: SimClient) -> None:
        waiting = asyncio.ensure_future(pull(client, sys_flag=HELD))
        await turns()
        put = world.broker.store.put_message
        for _ in range(3000):
            put(PutMessage("T", 0, b"m", b"a\x019", bytes(8), 1, 1))
        client.at_broker.close("test")
        await turns(60)
        assert world.broker.reads.pull.held_pulls == 0
        await asyncio.gather(waiting, return_exceptions=True)
        await send(world.connect(), 1)

    play(tmp_path, scene)


def test_a_held_pull_gets_what_its_group_wants_when_a_message_comes(tmp_path: Path) -> None:
    """A member may be started anew with another expression while others wait: what only that one
    wants would be passed over."""

    async def scene(world: SimBroker, client: SimClient) -> None:
        await subscribe(client, "a = 1")
        held = asyncio.ensure_future(pull_subscribed(client, sys_flag=PullSysFlag.SUSPEND))
        await turns()
        await send(client, 2)
        await subscribe(world.connect(), "a = 1 OR a = 2", version=2)
        await send(client, 2, 1)
        answer = await held
        begin = answer.header.next_begin_offset - len(bodies(answer))
        assert (begin, bodies(answer)[0]) == (1, b"2")

    play(tmp_path, scene)
