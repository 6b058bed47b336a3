"""Values as the bodies of messages: an object of one of these classes makes messages of values, and
reads values from messages.

::

    orders = JsonSerializer(Order)

    await producer.send(orders.message("Order", Order(4711, 9.5), keys=["4711"]))

    @consumer.on_value(orders)
    async def handle(order: Order, message: MessageExt) -> None: ...

The message says what its body is in the user property ``contentType``, as programs with Spring do,
and is an ordinary message for everybody else. Nothing of this is on the way of other messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar, cast, overload

import msgspec

from ..remoting.errors import RocketMQError
from ..remoting.protocol.message.compression import CompressionUnavailable
from ..remoting.protocol.message.message import Message
from ..remoting.protocol.record.decode import MessageExt
from .errors import ConfigError, DeserializationError, SerializationError
from .handlers import MessageHandler
from .usage_errors import check_handler, is_async
from .user_code import UserCode

__all__ = ["CONTENT_TYPE", "JsonSerializer", "MsgpackSerializer", "Serializer", "ValueHandler"]

T = TypeVar("T")

CONTENT_TYPE: Final = "contentType"
"""The user property that says what a body is."""

ValueHandler = Callable[[T, MessageExt], Awaitable[object] | object]
"""Called with a value and the message that it came in. Returns when it is consumed; raises to have
it again. A plain function runs in a thread, which reads the value, too."""


class Serializer(ABC, Generic[T]):
    """A way to write values of a type. For another format: a subclass with ``content_type``,
    ``dumps`` and ``loads``, which may raise what they like."""

    content_type: ClassVar[str]
    """What ``dumps`` writes, such as ``application/json``."""

    @abstractmethod
    def dumps(self, value: T) -> bytes:
        """The body."""

    @abstractmethod
    def loads(self, body: bytes) -> T:
        """The value."""

    def accepts(self, content_type: str) -> bool:
        """Whether ``loads`` can make something of a body that is said to be of this media type (in
        small letters, without parameters)."""
        return content_type == self.content_type

    def message(
        self,
        topic: str,
        value: T,
        *,
        tags: str | None = None,
        keys: Sequence[str] = (),
        delay_level: int = 0,
        flag: int = 0,
        wait_store_ok: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> Message:
        """The value as a message, to be sent in any way. Raises ``SerializationError``."""
        with UserCode() as code:
            body = self.dumps(value)
        if (error := code.failure()) is not None:
            what = f"topic {topic}: a {type(value).__name__} is not written as"
            raise SerializationError(
                f"{what} {self.content_type}: {_told(error)}", topic=topic
            ) from error
        if not body:
            raise SerializationError(
                f"topic {topic}: a {type(value).__name__} is written as nothing at all, and "
                "RocketMQ has no empty bodies",
                topic=topic,
            )
        return Message(
            topic,
            body,
            tags,
            keys,
            delay_level,
            flag,
            wait_store_ok,
            {CONTENT_TYPE: self.content_type, **(properties or {})},
        )

    def value(self, message: MessageExt) -> T:
        """What was sent. A message that does not say what its body is, as most programs' do not, is
        read all the same. Raises ``DeserializationError``, and ``CompressionUnavailable`` where
        only this machine cannot read it."""
        said = message.properties.get(CONTENT_TYPE)
        if said is not None and not self.accepts(said.partition(";")[0].strip().lower()):
            raise _unreadable(message, f"it is {said[:100]!r}, not {self.content_type}")
        with UserCode() as code:
            return self.loads(message.body)
        error = code.failure()
        assert error is not None
        if isinstance(error, CompressionUnavailable):
            raise error
        raise _unreadable(message, f"no {self.content_type}: {_told(error)}") from error

    def handler(self, function: ValueHandler[T]) -> MessageHandler:
        """For ``on_message``: has the function called with values. Raises ``ConfigError`` for what
        cannot be one."""
        check_handler(function, "a value and its message", arguments=2)
        if not is_async(function):
            return lambda message: function(self.value(message), message)

        async def handle(message: MessageExt) -> None:
            await cast(Awaitable[object], function(self.value(message), message))

        return handle


class JsonSerializer(Serializer[T]):
    """JSON of a type that msgspec knows: its Structs, dataclasses, attrs classes, TypedDicts, lists
    and dicts of them. Without a type whatever JSON has. Raises ``ConfigError`` for other types."""

    content_type = "application/json"

    @overload
    def __init__(self: JsonSerializer[Any]) -> None: ...
    @overload
    def __init__(self, kind: type[T]) -> None: ...
    def __init__(self, kind: Any = Any) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._decode = _decoder(msgspec.json.Decoder, kind).decode

    def dumps(self, value: T) -> bytes:
        return self._encode(value)

    def loads(self, body: bytes) -> T:
        return cast(T, self._decode(body))

    def accepts(self, content_type: str) -> bool:
        """JSON under its other names, too; Java programs also send it as text."""
        return (
            content_type == self.content_type
            or content_type.startswith("text/")
            or (content_type.endswith("+json"))
        )


class MsgpackSerializer(Serializer[T]):
    """MessagePack of the types that ``JsonSerializer`` knows: shorter, and faster to read."""

    content_type = "application/msgpack"

    @overload
    def __init__(self: MsgpackSerializer[Any]) -> None: ...
    @overload
    def __init__(self, kind: type[T]) -> None: ...
    def __init__(self, kind: Any = Any) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = _decoder(msgspec.msgpack.Decoder, kind).decode

    def dumps(self, value: T) -> bytes:
        return self._encode(value)

    def loads(self, body: bytes) -> T:
        return cast(T, self._decode(body))

    def accepts(self, content_type: str) -> bool:
        return content_type in (self.content_type, "application/x-msgpack")


def _decoder(make: Callable[[Any], Any], kind: Any) -> Any:
    try:
        return make(kind)
    except TypeError as error:
        raise ConfigError(f"bodies cannot be read as {kind!r}: {error}") from None


def _unreadable(message: MessageExt, why: str) -> DeserializationError:
    where = f"topic {message.topic}, message {message.msg_id}, {len(message.stored_body)} bytes"
    return DeserializationError(f"{where}: {why}", message)


def _told(error: BaseException) -> str:
    if isinstance(error, (RocketMQError, msgspec.MsgspecError)):
        return str(error)
    return f"{type(error).__name__}: {error}"
