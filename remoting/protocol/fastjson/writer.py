"""Writes JSON byte for byte as fastjson does (see ``fastjson``).

Three ways to write, from plain values, Records (keys by wire name, alphabetical, ``None`` left out)
and enums (by name):

* ``dumps``: compact, numeric keys unquoted, object keys as objects. The form of nearly all bodies.
* ``dumps_browser_compatible``: standard JSON in ASCII. Routes for those who ask for it
  (``namesrv.md`` §5.6).
* ``dumps_pretty``: the files of ``config/``, indented with tabs (``commitlog.md`` §15).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from json.encoder import encode_basestring as _quote
from typing import Any, ClassVar

from ..wire import Record, fields_of

_SAFE_INTEGER = 2**53 - 1
"""The largest number that JavaScript keeps."""


def dumps(value: Any) -> bytes:
    """Compact. Control characters are escaped, everything else is UTF-8."""
    writer = _CompactWriter()
    writer.value(value)
    return writer.text().encode("utf-8", "replace")


def dumps_in_slices(value: Any) -> Generator[None, None, bytes]:
    """``dumps`` of something large, some milliseconds at a time."""
    writer = _CompactWriter()
    pieces: list[bytes] = []
    for _ in writer.steps(value):
        pieces.append(writer.text().encode("utf-8", "replace"))
        writer.out.clear()
        yield
    pieces.append(writer.text().encode("utf-8", "replace"))
    return b"".join(pieces)


def dumps_browser_compatible(value: Any) -> bytes:
    """Standard JSON in ASCII: quoted keys in order, ``/`` escaped, integers that JavaScript would
    round as text."""
    writer = _BrowserWriter()
    writer.value(value)
    return writer.text().encode()


def dumps_pretty(value: Any, indent: int = 0) -> str:
    """Indented with tabs. A ``list`` (Java: List) has a line for each element; a ``tuple`` or set
    (array, Set) has not.

    ``indent``: how many tabs the line begins with on which the value stands.
    """
    writer = _PrettyWriter(indent)
    writer.value(value)
    return writer.text()


def java_double(number: float) -> str:
    """A number as Java's ``Double.toString`` writes it: ``0.0``, ``1.0E7``, ``1.0E-4``.

    >>> java_double(2.0), java_double(12345678.9), java_double(0.0001), java_double(-0.5)
    ('2.0', '1.23456789E7', '1.0E-4', '-0.5')
    """
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    exponent = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent}"


@functools.cache
def record_members(record_type: type[Record]) -> tuple[tuple[str, str], ...]:
    """Attribute and key of each field, in the order in which the keys are written."""
    return tuple(
        sorted(
            ((f.name, f.wire_name) for f in fields_of(record_type)), key=lambda member: member[1]
        )
    )


@functools.cache
def tuple_members(tuple_type: type[Any]) -> tuple[tuple[str, str], ...]:
    """The same for a NamedTuple (MessageQueue): its keys are the camelCase of its fields."""
    names: tuple[str, ...] = tuple_type._fields
    return tuple(sorted(((name, _camel(name)) for name in names), key=lambda member: member[1]))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_PIECES_AT_ONCE = 8000


@functools.cache
def _has_containers(record_type: type[Record]) -> bool:
    """Whether it may have many parts. Most Records of tables have none but texts and numbers."""
    return any(
        field.kind is object
        and not (isinstance(field.annotation, type) and issubclass(field.annotation, Enum))
        for field in fields_of(record_type)
    )


def _is_of_numbers(values: dict[Any, Any]) -> bool:
    """It is written in one step, and 100,000 take ten milliseconds."""
    return all(type(key) is int and type(value) is int for key, value in values.items())


class _Writer:
    """The compact form, straightforward; the others override what differs."""

    _special = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]')
    _escapes: ClassVar = {
        '"': '\\"',
        "\\": "\\\\",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
    }

    def __init__(self) -> None:
        self.out: list[str] = []

    def text(self) -> str:
        return "".join(self.out)

    def value(self, value: Any) -> None:
        """Append one value. Raises ``TypeError`` for something that JSON has no form for."""
        if isinstance(value, Enum):
            self.out.append(self._quoted(value._name_))
        elif isinstance(value, str):
            self.out.append(self._quoted(value))
        elif value is None or isinstance(value, bool):
            self.out.append("null" if value is None else "true" if value else "false")
        elif isinstance(value, int):
            self.out.append(self._integer(value))
        elif isinstance(value, float):
            self.out.append(java_double(value) if math.isfinite(value) else "null")
        else:
            self._container(value)

    def _container(self, value: Any) -> None:
        if isinstance(value, Record):
            self._record(value)
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            self._bean(
                (wire_name, getattr(value, name)) for name, wire_name in tuple_members(type(value))
            )
        elif isinstance(value, (dict, Mapping)):
            self._map(value)
        elif isinstance(value, list):
            self._list(value)
        elif isinstance(value, (tuple, AbstractSet)):
            self._items(value)
        else:
            raise TypeError(f"JSON has no form for a {type(value).__name__}")

    def _record(self, record: Record) -> None:
        self._bean(
            (wire_name, getattr(record, name)) for name, wire_name in record_members(type(record))
        )

    def _bean(self, members: Iterable[tuple[str, Any]]) -> None:
        separator = "{"
        for wire_name, value in members:
            if value is not None:
                self.out.append(f'{separator}"{wire_name}":')
                self.value(value)
                separator = ","
        self.out.append("{}" if separator == "{" else "}")

    def _map(self, values: Mapping[Any, Any]) -> None:
        separator = "{"
        for key, value in values.items():
            if value is not None:
                self.out.append(separator)
                self._key(key)
                self.out.append(":")
                self.value(value)
                separator = ","
        self.out.append("{}" if separator == "{" else "}")

    def _key(self, key: Any) -> None:
        self.value(key)

    def _list(self, values: Iterable[Any]) -> None:
        self._items(values)

    def _items(self, values: Iterable[Any]) -> None:
        self.out.append("[")
        for index, value in enumerate(values):
            if index:
                self.out.append(",")
            self.value(value)
        self.out.append("]")

    def _integer(self, number: int) -> str:
        return str(int(number))

    def _quoted(self, text: str) -> str:
        return f'"{self._special.sub(self._escape, text)}"'

    def _escape(self, match: re.Match[str]) -> str:
        character = match[0]
        return self._escapes.get(character) or f"\\u{ord(character):04X}"


class _CompactWriter(_Writer):
    """The same bytes with fewer calls: tables of thousands of topics are written every 30
    seconds."""

    def steps(self, value: Any) -> Iterator[None]:
        """``value``, with a step whenever some thousand pieces were written. What has few parts is
        written in one."""
        if isinstance(value, Record) and _has_containers(type(value)):
            separator = "{"
            for name, wire_name in record_members(type(value)):
                if (member := getattr(value, name)) is not None:
                    self.out.append(f'{separator}"{wire_name}":')
                    yield from self.steps(member)
                    separator = ","
            self.out.append("{}" if separator == "{" else "}")
        elif isinstance(value, dict) and value and not _is_of_numbers(value):
            yield from self._parts(value.items(), "{", "}")
        elif isinstance(value, (list, tuple)) and value and not hasattr(value, "_fields"):
            yield from self._parts(((None, each) for each in value), "[", "]")
        else:
            self.value(value)

    def _parts(self, parts: Iterable[tuple[Any, Any]], begin: str, end: str) -> Iterator[None]:
        separator = begin
        for key, value in parts:
            if value is None and begin == "{":
                continue
            self.out.append(separator)
            separator = ","
            if begin == "{":
                self._key(key)
                self.out.append(":")
            if isinstance(value, (dict, list, tuple)) or (
                isinstance(value, Record) and _has_containers(type(value))
            ):
                yield from self.steps(value)
            else:
                self.value(value)
            if len(self.out) > _PIECES_AT_ONCE:
                yield
        self.out.append(f"{begin}{end}" if separator == begin else end)

    def value(self, value: Any) -> None:
        kind = type(value)
        if kind is str:
            self.out.append(_quote(value) if value.isprintable() else self._quoted(value))
        elif kind is int:
            self.out.append(str(value))
        else:
            super().value(value)

    def _record(self, record: Record) -> None:
        out, separator = self.out, "{"
        for name, wire_name in record_members(type(record)):
            value = getattr(record, name)
            kind = type(value)
            if kind is int:
                out.append(f'{separator}"{wire_name}":{value}')
            elif kind is bool:
                out.append(f'{separator}"{wire_name}":{"true" if value else "false"}')
            elif kind is str and value.isprintable():
                out.append(f'{separator}"{wire_name}":{_quote(value)}')
            elif value is None:
                continue
            else:
                out.append(f'{separator}"{wire_name}":')
                self.value(value)
            separator = ","
        out.append("{}" if separator == "{" else "}")

    def _map(self, values: Mapping[Any, Any]) -> None:
        if not all(type(key) is int and type(value) is int for key, value in values.items()):
            super()._map(values)
            return
        self.out.append("{" + ",".join([f"{key}:{value}" for key, value in values.items()]) + "}")


class _BrowserWriter(_Writer):
    _special = re.compile(r"[^ !#-.0-\[\]-~]")
    """All but the printable ASCII characters, and of these ``"``, ``/`` and the backslash. (Named
    one by one, the others would take 5 ms to compile.)"""
    _escapes: ClassVar = {**_Writer._escapes, "/": "\\/"}

    def _map(self, values: Mapping[Any, Any]) -> None:
        if all(isinstance(key, int) for key in values):
            super()._map(dict(sorted(values.items())))
        else:
            super()._map(dict(sorted(values.items(), key=lambda item: str(item[0]))))

    def _key(self, key: Any) -> None:
        """Objects as text: standard JSON has no object keys."""
        if isinstance(key, str):
            text = key
        elif isinstance(key, int):
            text = str(key)
        else:
            text = dumps(key).decode()
        self.out.append(self._quoted(text))

    def _integer(self, number: int) -> str:
        return str(number) if -_SAFE_INTEGER <= number <= _SAFE_INTEGER else f'"{number}"'

    def _escape(self, match: re.Match[str]) -> str:
        character = match[0]
        if character in self._escapes:
            return self._escapes[character]
        if ord(character) < 0x10000:
            return f"\\u{ord(character):04X}"
        units = character.encode("utf-16-be").hex().upper()
        return f"\\u{units[:4]}\\u{units[4:]}"


class _PrettyWriter(_Writer):
    def __init__(self, indent: int) -> None:
        super().__init__()
        self._indent = indent

    def _line(self) -> None:
        self.out.append("\n" + "\t" * self._indent)

    def _bean(self, members: Iterable[tuple[str, Any]]) -> None:
        self.out.append("{")
        self._indent += 1
        self._line()
        separator = ""
        for wire_name, value in members:
            if value is not None:
                if separator:
                    self.out.append(",")
                    self._line()
                self.out.append(f'"{wire_name}":')
                self.value(value)
                separator = ","
        self._indent -= 1
        self._line()
        self.out.append("}")

    def _map(self, values: Mapping[Any, Any]) -> None:
        """Text keys stand on lines of their own, other keys where they are; a brace closes on its
        own line after both."""
        self.out.append("{")
        self._indent += 1
        separator = ""
        for key, value in values.items():
            if value is None:
                continue
            self.out.append(separator)
            if isinstance(key, str):
                self._line()
            self._key(key)
            self.out.append(":")
            self.value(value)
            separator = ","
        self._indent -= 1
        if values:
            self._line()
        self.out.append("}")

    def _list(self, values: Iterable[Any]) -> None:
        separator = "["
        self._indent += 1
        for value in values:
            self.out.append(separator)
            self._line()
            self.value(value)
            separator = ","
        self._indent -= 1
        if separator == "[":
            self.out.append("[]")
        else:
            self._line()
            self.out.append("]")
