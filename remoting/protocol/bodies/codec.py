"""Between JSON bodies and typed Records, directed by annotations.

``decode_body`` lets msgspec decode straight into the type when it can (``direct.py``); whatever
that refuses (fastjson's liberties, numbers as text, ``null`` for a number) is read by ``fastjson``
and converted here:

* keys that the type does not know are ignored; a field whose value is ``null`` gets its default;
* a number may stand as text, text as a number or a boolean, an enum as its ordinal;
* an enum value that nobody knows is ``None`` where the type allows it;
* the keys of ``dict[MessageQueue, V]`` are objects, or objects as text.
"""

from __future__ import annotations

import functools
import math
import re
import types
import typing
from collections.abc import Callable, Generator
from contextlib import suppress
from enum import Enum
from typing import Annotated, Any, TypeVar

import msgspec

from ..fastjson import reader as fastjson
from ..fastjson import writer as fastjson_writer
from ..fastjson.writer import tuple_members
from ..wire import Record, fields_of, int_bounds, to_text
from .direct import direct_decoder, queues_decoder

T = TypeVar("T")

MAX_SHARED_NODES = 1_000_000
"""How many values a body with ``$ref`` may have once every reference is written out."""
MAX_LONG_WAY_BYTES = 24 * 1024
"""The longest body of a request that may take fastjson's liberties. Reading those is a hundred
times slower, a microsecond per byte, and whoever serves others must not stand still because of one
of them."""
MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""The longest body of a request, registrations apart: a fiftieth of a second."""
MAX_CONVERTED_BYTES = 512 * 1024
"""The longest body of a request whose type msgspec does not know (queues in it): 8,000 queues, a
fiftieth of a second."""


class BodyError(ValueError):
    """A body is missing, is no JSON, or does not have the declared shape. The text says where:
    ``$.a.b[1]``."""


def encode_body(value: Any) -> bytes:
    """A Record (or list, dict, ...) as a body: fastjson's compact form."""
    return fastjson_writer.dumps(value)


def encode_in_slices(value: Any) -> Generator[None, None, bytes]:
    """``encode_body`` of something large, some milliseconds at a time."""
    return fastjson_writer.dumps_in_slices(value)


def decode_request_body(
    body_type: type[T], data: bytes | bytearray | memoryview, *, max_bytes: int = MAX_REQUEST_BYTES
) -> T:
    """``decode_body`` for what anybody may send: a body of up to ``max_bytes``; only one of up to
    ``MAX_LONG_WAY_BYTES`` may need the long way, only one of up to ``MAX_CONVERTED_BYTES`` may have
    to be converted."""
    kind: Any = body_type
    limit = max_bytes if direct_decoder(kind) is not None else MAX_CONVERTED_BYTES
    if len(data) > limit:
        raise BodyError(f"{_name(body_type)}: a body of {len(data)} bytes, the limit is {limit}")
    return decode_body(body_type, data, long_way_bytes=MAX_LONG_WAY_BYTES)


def decode_body(
    body_type: type[T], data: bytes | bytearray | memoryview, *, long_way_bytes: int | None = None
) -> T:
    """A body as its type; ``bytes`` as it is. Raises ``BodyError``.

    ``long_way_bytes``: the longest text that may be read the long way, ``None`` for any.
    """
    if body_type is bytes:
        return typing.cast(T, bytes(data))
    text = bytes(data)
    if not text:
        raise BodyError(f"the body is missing: expected {_name(body_type)}")
    kind: Any = body_type  # or any other annotation: dict[str, DataVersion] works too
    decoder = direct_decoder(kind)
    if b"$ref" not in text:
        try:
            if decoder is not None:
                return typing.cast(T, decoder.decode(text))
            if (decode := queues_decoder(kind)) is not None:
                with suppress(msgspec.DecodeError, LookupError):
                    return typing.cast(T, decode(text))
            standard = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass  # the long way either succeeds or finds a better text
        else:
            return convert_body(body_type, standard)
    if long_way_bytes is not None and len(text) > long_way_bytes:
        raise BodyError(
            f"{_name(body_type)}: a body of {len(text)} bytes must be standard JSON and have the "
            "right fields"
        )
    try:
        value, shared = fastjson.parse(text)
    except fastjson.JsonError as error:
        raise BodyError(f"the body is no JSON: {error}") from None
    if shared and isinstance(value, (dict, list)):
        _check_written_out(value)
    return convert_body(body_type, value)


def convert_body(body_type: type[T], value: Any) -> T:
    """The same from what ``fastjson.loads`` returned."""
    kind: Any = body_type
    try:
        return typing.cast(T, _converter(kind)(value))
    except _Misfit as misfit:
        place = "$" + "".join(reversed(misfit.path))
        raise BodyError(
            f"{_name(body_type)}: {place} must be {misfit.expected}, not {misfit.found}"
        ) from None


def _check_written_out(value: Any) -> None:
    """Shared parts multiply when they are converted (and a circle never ends), so they are counted
    before."""
    nodes = 0
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        container, depth = waiting.pop()
        children = container.values() if isinstance(container, dict) else container
        nodes += len(container) + 1
        if nodes > MAX_SHARED_NODES or depth > fastjson.MAX_DEPTH:
            raise BodyError("the body is too large once its references are written out")
        waiting.extend((child, depth + 1) for child in children if isinstance(child, (dict, list)))


# --- one converter per annotation
# -----------------------------------------------------------------------------------

Converter = Callable[[Any], Any]


class _Misfit(Exception):
    """A value does not fit; the way to it is collected from the inside out."""

    def __init__(self, expected: str, value: Any) -> None:
        super().__init__()
        self.expected = expected
        self.found = _shown(value)
        self.path: list[str] = []

    def at(self, step: str) -> _Misfit:
        self.path.append(step)
        return self


@functools.cache
def _converter(annotation: Any) -> Converter:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _int_converter(annotation) if arguments[0] is int else _converter(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return _optional_converter(arguments)
    if origin in (list, tuple, set, frozenset):
        return _sequence_converter(origin, _converter(arguments[0]))
    if origin is dict:
        return _dict_converter(_key_converter(arguments[0]), _converter(arguments[1]))
    if isinstance(annotation, type):
        if issubclass(annotation, Record):
            return _record_converter(annotation)
        if issubclass(annotation, Enum):
            return _enum_converter(annotation)
        if issubclass(annotation, tuple):
            return _named_tuple_converter(annotation)
    scalars: dict[Any, Converter] = {
        str: _to_str, int: _int_converter(int), float: _to_float, bool: _to_bool,
        Any: lambda value: value,
    }  # fmt: skip
    return scalars[annotation]


def _optional_converter(arguments: tuple[Any, ...]) -> Converter:
    (inner,) = (argument for argument in arguments if argument is not type(None))
    convert = _converter(inner)
    if isinstance(inner, type) and issubclass(inner, Enum):
        return lambda value: _known_member(convert, value)
    return lambda value: None if value is None else convert(value)


def _known_member(convert: Converter, value: Any) -> Any:
    try:
        return None if value is None else convert(value)
    except _Misfit:
        return None


def _sequence_converter(kind: Any, convert: Converter) -> Converter:
    def to_sequence(value: Any) -> Any:
        if not isinstance(value, list):
            raise _Misfit("an array", value)
        converted = []
        for index, element in enumerate(value):
            try:
                converted.append(convert(element))
            except _Misfit as misfit:
                raise misfit.at(f"[{index}]") from None
        return converted if kind is list else kind(converted)

    return to_sequence


def _dict_converter(convert_key: Converter, convert: Converter) -> Converter:
    def to_dict(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise _Misfit("an object", value)
        converted = {}
        for key, element in value.items():
            if element is None:
                continue
            try:
                converted[convert_key(key)] = convert(element)
            except _Misfit as misfit:
                raise misfit.at(f"[{_shown(key)}]") from None
        return converted

    return to_dict


def _key_converter(annotation: Any) -> Converter:
    convert = _converter(annotation)
    if not (isinstance(annotation, type) and issubclass(annotation, (Record, tuple))):
        return convert

    def to_key(key: Any) -> Any:
        if isinstance(key, str):
            try:
                key = fastjson.loads(key)
            except fastjson.JsonError:
                raise _Misfit("an object as key", key) from None
        return convert(key)

    return to_key


def _record_converter(record_type: type[Record]) -> Converter:
    fields = [
        (f.name, f.wire_name, _converter(f.annotation), f.required) for f in fields_of(record_type)
    ]

    def to_record(value: Any) -> Record:
        if not isinstance(value, dict):
            raise _Misfit("an object", value)
        values = {}
        for name, wire_name, convert, required in fields:
            raw = value.get(wire_name)
            if raw is not None:
                try:
                    values[name] = convert(raw)
                except _Misfit as misfit:
                    raise misfit.at(f".{wire_name}") from None
            elif required:
                raise _Misfit("there", None).at(f".{wire_name}")
        return record_type(**values)

    return to_record


def _named_tuple_converter(tuple_type: Any) -> Converter:
    hints = typing.get_type_hints(tuple_type, include_extras=True)
    fields = [
        (name, wire_name, _converter(hints[name])) for name, wire_name in tuple_members(tuple_type)
    ]

    def to_tuple(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Misfit("an object", value)
        values = {}
        for name, wire_name, convert in fields:
            try:
                values[name] = convert(value.get(wire_name))
            except _Misfit as misfit:
                raise misfit.at(f".{wire_name}") from None
        return tuple_type(**values)

    return to_tuple


def _enum_converter(enum_type: type[Enum]) -> Converter:
    members = list(enum_type)
    expected = "one of " + ", ".join(member.name for member in members)

    def to_member(value: Any) -> Enum:
        if isinstance(value, str) and value in enum_type.__members__:
            return enum_type[value]
        if type(value) is int and 0 <= value < len(members):
            return members[value]
        raise _Misfit(expected, value)

    return to_member


def _int_converter(annotation: Any) -> Converter:
    low, high = int_bounds(annotation)

    def to_int(value: Any) -> int:
        number = value
        if isinstance(value, str):
            number = int(value) if _DECIMAL.fullmatch(value) else None
        elif isinstance(value, float) and value.is_integer():
            number = int(value)
        if type(number) is not int:
            raise _Misfit("a whole number", value)
        if not low <= number <= high:
            raise _Misfit(f"a number from {low} to {high}", value)
        return number

    return to_int


_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


def _to_str(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return to_text(value)
    if isinstance(value, float):
        return fastjson_writer.java_double(value)
    raise _Misfit("text", value)


def _to_float(value: Any) -> float:
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            pass
    if not math.isfinite(number):
        raise _Misfit("a number", value)
    return number


_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def _to_bool(value: Any) -> bool:
    text = to_text(value).lower() if isinstance(value, bool | int | str) else ""
    if text not in _BOOLEANS:
        raise _Misfit("true or false", value)
    return _BOOLEANS[text]


def _shown(value: Any) -> str:
    if value is None:
        return "absent"
    text = repr(value) if isinstance(value, str) else fastjson_writer.dumps(value).decode()
    return text if len(text) <= 60 else text[:60] + "..."


def _name(body_type: Any) -> str:
    return body_type.__name__ if isinstance(body_type, type) else str(body_type)
