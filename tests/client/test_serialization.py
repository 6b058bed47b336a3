"""Values as bodies, in both directions, and what is wrong with them."""

from __future__ import annotations

import asyncio
import datetime
import logging
import sys
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq import (
    ConfigError,
    DeserializationError,
    JsonSerializer,
    Message,
    MessageExt,
    MsgpackSerializer,
    SerializationError,
    Serializer,
)
from aiorocketmq.client.handlers import delay_level_of, failure_of
from aiorocketmq.client.serialization import CONTENT_TYPE
from aiorocketmq.remoting.protocol.message.compression import CompressionUnavailable
from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag

from ..sim import told_of
from .messages import stored


@dataclass
class Order:
    number: int
    at: datetime.datetime | None = None


class Letters(msgspec.Struct):
    text: str


ORDERS = JsonSerializer(Order)


def arrived(message: Message) -> MessageExt:
    return stored(1, message.body, topic=message.topic, properties=message.properties)


def test_a_value_comes_back_with_the_fields_of_its_message() -> None:
    order = Order(4711, datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))
    message = ORDERS.message(
        "Order", order, tags="new", keys=["4711"], delay_level=3, flag=7, properties={"a": "b"}
    )
    assert message == Message(
        "Order",
        b'{"number":4711,"at":"2026-01-02T00:00:00Z"}',
        tags="new",
        keys=["4711"],
        delay_level=3,
        flag=7,
        properties={"contentType": "application/json", "a": "b"},
    )
    assert ORDERS.value(arrived(message)) == order


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_whatever_has_no_type_comes_back(value: Any) -> None:
    serializer: Serializer[Any]
    for serializer in (JsonSerializer(), MsgpackSerializer()):
        assert serializer.value(arrived(serializer.message("T", value))) == value


@given(st.text())
def test_msgpack_has_types_as_well(text: str) -> None:
    letters = MsgpackSerializer(Letters)
    message = letters.message("T", Letters(text))
    assert message.properties == {"contentType": "application/msgpack"}
    assert letters.value(arrived(message)) == Letters(text)


def test_the_sender_may_say_more_of_its_content_type() -> None:
    message = ORDERS.message("T", Order(1), properties={CONTENT_TYPE: "application/json; v=2"})
    assert message.properties == {CONTENT_TYPE: "application/json; v=2"}
    assert ORDERS.value(arrived(message)) == Order(1)


@pytest.mark.parametrize(
    "said",
    [
        None,
        "application/json",
        "Application/JSON;charset=UTF-8",
        "text/plain;charset=UTF-8",
        "application/cloudevents+json",
    ],
)
def test_who_writes_json_under_another_name_is_read(said: str | None) -> None:
    properties = {} if said is None else {CONTENT_TYPE: said}
    assert ORDERS.value(stored(1, b'{"number":1}', properties=properties)) == Order(1)


@pytest.mark.parametrize(
    ("body", "said", "problem"),
    [
        (b"\x81", None, "no application/json: JSON is malformed: invalid character (byte 0)"),
        (b'{"number":"x"}', None, "no application/json: Expected `int`, got `str` - at `$.number`"),
        (b"{}", "application/json", "no application/json: Object missing required field `number`"),
        (b'{"number":1}', "application/msgpack",
         "it is 'application/msgpack', not application/json"),
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_read_names_its_message(
    body: bytes, said: str | None, problem: str
) -> None:
    message = stored(
        1, body, topic="Order", properties=None if said is None else {CONTENT_TYPE: said}
    )
    with pytest.raises(DeserializationError) as raised:
        ORDERS.value(message)
    error = raised.value
    assert (error.topic, error.msg_id, error.message) == ("Order", message.msg_id, message)
    assert str(error).startswith(
        f"topic Order, message {message.msg_id}, {len(body)} bytes: {problem}"
    )


@pytest.mark.parametrize("package", ["lz4.frame", "zstandard"])
def test_what_only_this_machine_cannot_read_is_no_dead_letter(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package for its compression is missing here: elsewhere, or later, it can be read."""
    monkeypatch.setitem(sys.modules, package, None)
    message = stored(1, b"packed", topic="Order")
    kind = {
        "lz4.frame": MessageSysFlag.COMPRESSION_LZ4,
        "zstandard": MessageSysFlag.COMPRESSION_ZSTD,
    }
    message.sys_flag |= MessageSysFlag.COMPRESSED | kind[package]
    with pytest.raises(CompressionUnavailable) as raised:
        ORDERS.value(message)
    assert delay_level_of(message, raised.value) == 0


def test_a_body_as_deep_as_a_well_is_refused() -> None:
    with pytest.raises(DeserializationError, match="no application/json: RecursionError: "):
        JsonSerializer().value(stored(1, b"[" * 100_000))


def test_a_value_that_cannot_be_written_is_not_sent() -> None:
    text = "topic T: a object is not written as application/json: TypeError: Encoding objects of"
    with pytest.raises(SerializationError, match=text) as raised:
        JsonSerializer().message("T", object())
    assert raised.value.topic == "T"
    assert isinstance(raised.value, ValueError)


def test_nothing_at_all_is_no_body() -> None:
    class Empty(Serializer[None]):
        content_type = "application/x-nothing"

        def dumps(self, value: None) -> bytes:
            return b""

        def loads(self, body: bytes) -> None:
            """Never."""

    with pytest.raises(SerializationError, match="RocketMQ has no empty bodies"):
        Empty().message("T", None)


def test_a_type_that_cannot_be_read_is_told_when_it_is_given() -> None:
    with pytest.raises(ConfigError, match="bodies cannot be read as "):
        JsonSerializer(cast(type[object], int | Order | Letters))


def test_handlers_of_values() -> None:
    seen: list[tuple[Order, str]] = []

    async def later(order: Order, message: MessageExt) -> None:
        seen.append((order, message.topic))

    def at_once(order: Order, message: MessageExt) -> None:
        seen.append((order, message.topic))

    async def main() -> None:
        message = arrived(ORDERS.message("T", Order(1)))
        await cast(Any, ORDERS.handler(later)(message))
        ORDERS.handler(at_once)(message)

    asyncio.run(main())
    assert seen == [(Order(1), "T")] * 2
    with pytest.raises(ConfigError, match="a handler is called with a value and its message"):
        ORDERS.handler(cast(Any, lambda order: None))


def test_what_cannot_be_read_is_a_dead_letter_at_once_and_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        bad, good = stored(1, b"?"), stored(2, b"?")

        async def call(messages: list[MessageExt]) -> None:
            ORDERS.value(messages[0])

        failure = await failure_of(call, [bad, good], "g", told_of(), lambda: False)
        assert failure is not None
        assert [delay_level_of(each, failure) for each in (bad, good)] == [-1, 0]

        async def another(_messages: list[MessageExt]) -> None:
            ORDERS.value(good)

        failure = await failure_of(another, [bad], "g", told_of(), lambda: False)
        assert failure is not None
        assert delay_level_of(bad, failure) == 0, "it is about another message"

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    first, second = caplog.records
    assert first.getMessage().startswith(
        "body cannot be read, it is not tried again group=g error=topic T, message "
    )
    assert first.exc_info is None
    assert second.getMessage().startswith("handler failed group=g")
