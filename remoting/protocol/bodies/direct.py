"""Bodies straight through msgspec, which knows the types and is a hundred times as fast as the long
way; whatever it does not take, the long way does (``codec.py``).

Maps whose keys are queues are no JSON as fastjson writes them: ``{{"brokerName":"b","queueId":0,
"topic":"t"}:{...}, ...}``. Here each queue becomes a number in the text, ``{"0":{...}, ...}``, and
a queue again in what msgspec made of it. The quotes of such a key would end a string that it stood
in, so no text is changed by that.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from types import GenericAlias
from typing import Annotated, Any, Final

import msgspec

from ..message.message_queue import MessageQueue
from ..wire import Record, fields_of

Queues = Mapping[int, MessageQueue]
Lift = Callable[[Any, Queues], Any]
"""Makes what was meant of what msgspec has made. Raises ``KeyError`` for a number of no queue."""

_KEY: Final = re.compile(
    rb'\{("brokerName":"[^"\\]*","queueId":[0-9]{1,9},"topic":"[^"\\]*")\}:', re.ASCII
)
"""The one order in which fastjson writes it."""


@functools.cache
def direct_decoder(body_type: Any) -> msgspec.json.Decoder[Any] | None:
    """A decoder for types whose JSON form msgspec shares with us; ``None`` when a queue or a
    numbered enum is inside."""
    return msgspec.json.Decoder(body_type) if _is_plain(body_type) else None


@functools.cache
def queues_decoder(body_type: Any) -> Callable[[bytes], Any] | None:
    """The same for types that have queues as keys, and are plain otherwise. Raises what msgspec
    raises, and ``LookupError``, for what is to be read the long way."""
    found = _with_numbers(body_type)
    if found is None:
        return None
    numbered_type, lift = found
    decoder = msgspec.json.Decoder(numbered_type)

    def straight(text: bytes) -> Any:
        numbers: dict[bytes, int] = {}
        numbered = _KEY.sub(lambda key: b'"%d":' % numbers.setdefault(key[1], len(numbers)), text)
        value = decoder.decode(numbered)
        names = _NAMES.decode(b"[{" + b"},{".join(numbers) + b"}]") if numbers else ()
        queues = {
            number: MessageQueue(name.topic, name.broker_name, name.queue_id)
            for number, name in enumerate(names)
        }
        return lift(value, queues)

    return straight


class _Name(msgspec.Struct, rename="camel", gc=False):
    broker_name: str
    queue_id: int
    topic: str


_NAMES: Final = msgspec.json.Decoder(list[_Name])


def _with_numbers(annotation: Any) -> tuple[Any, Lift] | None:
    """The type with numbers in the place of queues, and the way back; ``None``: there is none."""
    if _is_plain(annotation):
        return annotation, lambda value, _: value
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is dict and arguments[0] is MessageQueue and _is_plain(arguments[1]):
        return GenericAlias(dict, (int, arguments[1])), lambda value, queues: {
            queues[number]: each for number, each in value.items()
        }
    if origin is list or (origin is dict and _is_plain(arguments[0])):
        inner = _with_numbers(arguments[-1])
        return None if inner is None else _collection(origin, arguments, *inner)
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return _record(annotation)
    return None


def _collection(
    origin: Any, arguments: tuple[Any, ...], inner: Any, lift: Lift
) -> tuple[Any, Lift]:
    if origin is list:
        return GenericAlias(list, inner), lambda value, queues: [
            lift(each, queues) for each in value
        ]
    return GenericAlias(dict, (arguments[0], inner)), lambda value, queues: {
        key: lift(each, queues) for key, each in value.items()
    }


def _record(record_type: type[Record]) -> tuple[Any, Lift] | None:
    lifts: dict[str, Lift] = {}
    fields: list[Any] = []
    names: dict[str, str] = {}
    for field in fields_of(record_type):
        found = _with_numbers(field.annotation)
        if found is None:
            return None
        numbered, lifts[field.name] = found
        names[field.name] = field.wire_name
        absent = () if field.required else (msgspec.UNSET,)
        fields.append((field.name, numbered if field.required else numbered | msgspec.UnsetType,
                       *absent))  # fmt: skip
    numbered_record = msgspec.defstruct(
        record_type.__name__, fields, rename=names, kw_only=True, gc=False
    )

    def lift_record(value: Any, queues: Queues) -> Record:
        return record_type(
            **{
                name: lift(each, queues)
                for name, lift in lifts.items()
                if (each := getattr(value, name)) is not msgspec.UNSET
            }
        )

    return numbered_record, lift_record


def _is_plain(annotation: Any) -> bool:
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Annotated:
        return True
    if arguments:
        return all(
            _is_plain(argument) for argument in arguments if argument not in (Ellipsis, type(None))
        )
    if not isinstance(annotation, type):
        return False
    if issubclass(annotation, Record):
        return all(_is_plain(field.annotation) for field in fields_of(annotation))
    if issubclass(annotation, Enum):
        return issubclass(annotation, str)
    return annotation in (str, int, float, bool)
