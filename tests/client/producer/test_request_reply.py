"""Requests that wait for their replies, and replies as they are made and as they arrive."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest

from aiorocketmq.client.cluster.pushed_requests import _reset_targets
from aiorocketmq.client.cluster.replies import Requests, pushed_message
from aiorocketmq.client.errors import MessageError
from aiorocketmq.client.producer.request_reply import reply_to, request_properties
from aiorocketmq.remoting.outages import Outages
from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.reset import (
    MessageQueueForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.send import ReplyMessageRequest
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.properties import decode_properties
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag

from ...sim import ManualClock
from ..messages import stored

ASKED = {
    "CORRELATION_ID": "id-1",
    "REPLY_TO_CLIENT": "asker",
    "TTL": "3000",
    "CLUSTER": "C",
    "TAGS": "a",
}


def pushed(**change: Any) -> ReplyMessageRequest:
    fields: dict[str, Any] = {
        "producer_group": "p", "topic": "C_REPLY_TOPIC", "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0, "sys_flag": 0, "born_timestamp": 1, "flag": 7,
        "properties": "CORRELATION_ID\x01id-1\x02colour\x01red",
        "born_host": "10.0.0.1:4711", "store_host": "10.0.0.2:10911", "store_timestamp": 2,
    }  # fmt: skip
    return ReplyMessageRequest(**fields | change)


class Pushed:
    """What the handler looks at of its context."""

    received_at_ms = 99
    peer = "10.0.0.2:10911"


def test_a_reply_finds_the_request_that_waits_for_it() -> None:
    async def main() -> None:
        requests = Requests(Outages(ManualClock()))
        with requests.expect("id-1") as reply, requests.expect("id-2") as other:
            requests.replied(pushed(), memoryview(b"body"), Pushed())  # type: ignore[arg-type]
            assert (await reply).body == b"body"
            assert not other.done()
            assert requests.replied(pushed(), memoryview(b"again"), Pushed()).code == 0  # type: ignore[arg-type]
            assert (await reply).body == b"body"
        assert len(requests) == 0
        assert requests.replied(pushed(), memoryview(b"late"), Pushed()).code == 0  # type: ignore[arg-type]
        assert requests.replied(pushed(properties=None), memoryview(b"?"), Pushed()).code == 0  # type: ignore[arg-type]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("10.0.0.1:4711", "10.0.0.1:4711"),
        ("/10.0.0.1:4711", "10.0.0.1:4711"),
        ("[::1]:4711", "[::1]:4711"),
        ("/0:0:0:0:0:0:0:1:4711", "[::1]:4711"),
    ],
)
def test_a_pushed_reply_as_a_message(given: str, shown: str) -> None:
    body = zlib.compress(b"long")
    packed = MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_ZLIB
    message = pushed_message(pushed(born_host=given, sys_flag=packed), body, 99)
    assert (message.body, message.stored_body, message.flag, message.topic) == (
        b"long",
        body,
        7,
        "C_REPLY_TOPIC",
    )
    assert (message.born_host, message.store_host, message.store_timestamp) == (
        shown,
        "10.0.0.2:10911",
        2,
    )
    assert message.properties == {"CORRELATION_ID": "id-1", "colour": "red", "ARRIVE_TIME": "99"}


def test_what_makes_a_request() -> None:
    assert request_properties("id-1", "asker", 2.5) == {
        "CORRELATION_ID": "id-1",
        "REPLY_TO_CLIENT": "asker",
        "TTL": "2500",
    }


def test_a_reply_goes_to_the_reply_topic_of_the_cluster() -> None:
    outgoing = reply_to(stored(0, properties=ASKED), b"reply", {"colour": "red"}, "U1", 100)
    assert (outgoing.topic, outgoing.code, outgoing.body) == (
        "C_REPLY_TOPIC",
        RequestCode.SEND_REPLY_MESSAGE_V2,
        b"reply",
    )
    found = decode_properties(outgoing.properties)
    assert found.pop("WAIT", "true") == "true"
    assert found == {
        "CORRELATION_ID": "id-1", "REPLY_TO_CLIENT": "asker", "TTL": "3000", "MSG_TYPE": "reply",
        "UNIQ_KEY": "U1",
        "colour": "red",
    }  # fmt: skip


@pytest.mark.parametrize("missing", ["CORRELATION_ID", "REPLY_TO_CLIENT", "CLUSTER"])
def test_what_is_no_request_cannot_be_replied_to(missing: str) -> None:
    asked = {name: value for name, value in ASKED.items() if name != missing}
    with pytest.raises(MessageError, match=missing):
        reply_to(stored(0, properties=asked), b"reply", None, "U1", 100)


@pytest.mark.parametrize(
    ("body", "properties"), [(b"", {}), (b"x" * 101, {}), (b"x", {"MSG_TYPE": "mine"})]
)
def test_a_reply_that_no_broker_would_take(body: bytes, properties: dict[str, str]) -> None:
    with pytest.raises(MessageError):
        reply_to(stored(0, properties=ASKED), body, properties, "U1", 100)


def test_a_reset_may_come_as_a_table_or_as_a_list() -> None:
    queue = MessageQueue("T", "b", 3)
    row = MessageQueueForC(topic="T", broker_name="b", queue_id=3, offset=5)
    assert _reset_targets(encode_body(ResetOffsetBody(offset_table={queue: 5}))) == {queue: 5}
    assert _reset_targets(encode_body(ResetOffsetBodyForC(offset_table=[row]))) == {queue: 5}
