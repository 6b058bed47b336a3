"""Replies on their way from one client to another (324, 325, 326), over a simulated connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aiorocketmq.broker.processors import reply as replies
from aiorocketmq.remoting.dispatch import Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import (
    ReplyMessageRequest,
    SendMessageRequest,
    SendMessageRequestV2,
    SendMessageResponse,
)
from aiorocketmq.remoting.protocol.message.properties import decode_properties
from aiorocketmq.remoting.protocol.wire import from_fields
from tests.stored import decode_messages

from .sim_broker import SimBroker, SimClient, sim_broker

PUSH = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
PROPERTIES = (
    "MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01asker\x02TTL\x013000\x02"
    "CORRELATION_ID\x01id-1\x02WAIT\x01true"
)
HEADER: dict[str, Any] = {
    "producer_group": "p", "topic": "C_REPLY_TOPIC", "default_topic": "TBW102",
    "default_topic_queue_nums": 4,
    "queue_id": -1, "sys_flag": 0, "born_timestamp": 12, "flag": 3, "properties": PROPERTIES,
    "reconsume_times": 0,
}  # fmt: skip
REPLY = SendMessageRequestV2(**HEADER)


def play(
    folder: Path, scene: Callable[[SimBroker, SimClient, SimClient], Awaitable[None]], **config: Any
) -> None:
    """The requester, who is known, and the replier."""

    async def main() -> None:
        async with asyncio.timeout(30), sim_broker(folder, **config) as sim:
            asker, replier = sim.connect(), sim.connect()
            await asker.heartbeat("asker", producers=("askers",))
            asker.answers[PUSH] = lambda *_: Reply()
            await scene(sim, asker, replier)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("code", "request_"),
    [
        (RequestCode.SEND_REPLY_MESSAGE_V2, REPLY),
        (RequestCode.SEND_REPLY_MESSAGE, SendMessageRequest(**HEADER)),
    ],
)
def test_a_reply_is_pushed_to_its_requester_and_stored(
    tmp_path: Path, code: RequestCode, request_: SendMessageRequest
) -> None:
    async def scene(sim: SimBroker, asker: SimClient, replier: SimClient) -> None:
        answer = await replier.ask(code, request_, b"the reply")
        header = answer.check().header
        assert isinstance(header, SendMessageResponse)
        assert (header.queue_id, header.queue_offset, header.msg_region, header.trace_on) == (
            0,
            0,
            "DefaultRegion",
            True,
        )
        ((pushed_code, pushed),) = asker.pushed
        assert pushed_code is PUSH
        assert isinstance(pushed, ReplyMessageRequest)
        assert asker.pushed_bodies == [b"the reply"]
        assert (pushed.born_host, pushed.store_host) == (
            replier.connection.local,
            "127.0.0.1:10911",
        )
        assert pushed.store_timestamp == sim.clock.time_ms()
        assert (pushed.topic, pushed.producer_group, pushed.flag, pushed.born_timestamp) == (
            "C_REPLY_TOPIC",
            "p",
            3,
            12,
        )
        assert decode_properties(pushed.properties or "") == {
            **decode_properties(PROPERTIES),
            "PUSH_REPLY_TIME": str(sim.clock.time_ms()),
        }
        (stored,) = decode_messages(sim.broker.store.get("C_REPLY_TOPIC", 0, 0).body, "b")
        assert (stored.body, stored.raw_properties) == (
            b"the reply",
            PROPERTIES.encode(),
        )  # as they came, no CLUSTER
        assert stored.offset_msg_id == header.msg_id

    play(tmp_path, scene)


def test_a_reply_that_is_not_to_be_stored(tmp_path: Path) -> None:
    async def scene(sim: SimBroker, asker: SimClient, replier: SimClient) -> None:
        answer = await replier.ask(RequestCode.SEND_REPLY_MESSAGE_V2, REPLY, b"r")
        assert answer.check().header.msg_id == "0"
        assert len(asker.pushed) == 1
        assert sim.broker.store.max_offset("C_REPLY_TOPIC", 0) == 0
        answer = await replier.ask(RequestCode.SEND_REPLY_MESSAGE_V2, _to("nobody"), b"r")
        assert (answer.code, answer.ext_fields) == (
            1,
            {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"},
        )

    play(tmp_path, scene, store_reply_message_enable=False)


def test_a_reply_is_not_stored_where_its_topic_went_while_its_requester_was_asked(
    tmp_path: Path,
) -> None:
    async def scene(sim: SimBroker, asker: SimClient, replier: SimClient) -> None:
        def take(*_: object) -> Reply:
            sim.broker.state.topics.delete("Replies")
            sim.clock.advance(5)
            return Reply()

        asker.answers[PUSH] = take
        stored_at = []
        for topic in ("C_REPLY_TOPIC", "Replies"):
            await sim.make_topic("Replies")
            answer = await replier.ask(
                RequestCode.SEND_REPLY_MESSAGE_V2, replace(REPLY, topic=topic, queue_id=0), b"r"
            )
            stored_at.append(answer.check().header.msg_id)
        assert stored_at[1] == "0"
        assert sim.broker.store.max_offset("Replies", 0) == 0
        (kept,) = decode_messages(sim.broker.store.get("C_REPLY_TOPIC", 0, 0).body, "b")
        assert kept.store_timestamp == sim.clock.time_ms() - 5000, "when it was stored"

    play(tmp_path, scene, auto_create_topic_enable=False)


def _to(client_id: str | None) -> SendMessageRequestV2:
    properties = "A\x01b" if client_id is None else PROPERTIES.replace("asker", client_id)
    return replace(REPLY, properties=properties)


@pytest.mark.parametrize(
    ("to", "remark"),
    [
        ("nobody", "push reply message fail, channel of <nobody> not found."),
        (None, "reply message properties[REPLY_TO_CLIENT] is null"),
    ],
)
def test_a_reply_to_nobody_is_stored_all_the_same(
    tmp_path: Path, to: str | None, remark: str
) -> None:
    async def scene(sim: SimBroker, asker: SimClient, replier: SimClient) -> None:
        answer = await replier.ask(RequestCode.SEND_REPLY_MESSAGE_V2, _to(to), b"r")
        assert (answer.code, answer.remark) == (1, remark)
        assert from_fields(SendMessageResponse, answer.ext_fields).queue_offset == 0
        assert sim.broker.store.max_offset("C_REPLY_TOPIC", 0) == 1
        assert asker.pushed == []

    play(tmp_path, scene)


@pytest.mark.parametrize("how", ["refuses", "leaves", "is silent"])
def test_a_requester_that_does_not_take_it(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(sim: SimBroker, asker: SimClient, replier: SimClient) -> None:
        if how == "is silent":
            monkeypatch.setattr(replies, "CLIENT_TIMEOUT_S", 0.01)
        ways = {
            "refuses": lambda *_: Reply(1, remark="no"),
            "leaves": lambda *_: asker.connection.close(),
        }
        asker.answers[PUSH] = ways.get(how, lambda *_: None)
        answer = await replier.ask(RequestCode.SEND_REPLY_MESSAGE_V2, REPLY, b"r")
        assert (answer.code, answer.remark) == (1, "push reply message to askerfail.")

    play(tmp_path, scene)


def test_replies_that_wait_for_their_requesters_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(sim: SimBroker, asker: SimClient, replier: SimClient) -> None:
        monkeypatch.setattr(replies, "MAX_PUSHED_BYTES", 100)
        monkeypatch.setattr(replies, "CLIENT_TIMEOUT_S", 0.05)
        asker.answers[PUSH] = lambda *_: None
        first = asyncio.ensure_future(
            replier.ask(RequestCode.SEND_REPLY_MESSAGE_V2, REPLY, bytes(100))
        )
        while not asker.pushed:
            await asyncio.sleep(0)
        refused = await replier.ask(RequestCode.SEND_REPLY_MESSAGE_V2, REPLY, b"r")
        assert (refused.code, refused.ext_fields) == (
            2,
            {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"},
        )
        assert (await first).code == 1
        asker.answers[PUSH] = lambda *_: Reply()
        assert (await replier.ask(RequestCode.SEND_REPLY_MESSAGE_V2, REPLY, b"r")).code == 0

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "SELF_TEST_TOPIC"}, 16),
        ({"topic": "no such", "queue_id": 0}, 1),
        ({"queue_id": 99}, 1),
    ],
)
def test_the_checks_of_every_message(tmp_path: Path, change: dict[str, Any], code: int) -> None:
    async def scene(sim: SimBroker, asker: SimClient, replier: SimClient) -> None:
        answer = await replier.ask(
            RequestCode.SEND_REPLY_MESSAGE_V2, replace(REPLY, **change), b"r"
        )
        assert (answer.code, answer.ext_fields) == (
            code,
            {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"},
        )
        assert asker.pushed == []

    play(tmp_path, scene)
