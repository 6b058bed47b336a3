"""Configuration as text: Java's ``.properties`` format, and Records read from it and written to it.

The same Record that declares a configuration in Python (snake_case, typed, every default in one
place) names its properties outside (camelCase): in the file given with ``-c``, on the command line,
in the bodies of the requests that read and change a configuration at run time (25, 26, 318, 319;
``namesrv.md`` §5.10).

Format (java.util.Properties): one ``name=value`` per line; ``=``, ``:`` or blanks separate; ``#``
and ``!`` start a comment line; a backslash at the end of a line continues it; escapes are ``\\t \\n
\\r \\f \\uXXXX``, before any other character the backslash is dropped. Blanks at the end of a value
belong to it.

Kept apart from the original on purpose (the original ignores both in silence):

* a value that its property cannot take raises ``PropertyError``; so ``slaveReadEnable=yes`` is an
  error, not ``false``;
* a value with a backslash, a line end or a character outside of ASCII is escaped when written, so
  that it can be read back.
"""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from .wire import Field, Record, fields_of, to_text

R = TypeVar("R", bound=Record)

MAX_TEXT_CHARACTERS = 1 << 20
"""A hundred times the longest configuration. A whole frame of text (25, 318) would hold the event
loop for 50 ms."""
_BLANKS = " \t\f"
_LINE = re.compile(r"\r\n|\r|\n")
_NAME = re.compile(r"(?:\\.|[^\\=:\ \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.)?", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN_ESCAPED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_DECIMAL = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)


class Property(NamedTuple):
    """One property as somebody wrote it, and where."""

    name: str
    value: str
    source: str = ""
    """What to show to people: a file name, ``command line``."""
    line: int = 0
    """Counted from 1; 0 where there are no lines."""

    @property
    def place(self) -> str:
        """``broker.conf:12``; empty where the text came without a name: one that a request brings
        is short, and every error says which property it is about."""
        return f"{self.source}:{self.line}" if self.source and self.line else self.source


class PropertyError(ValueError):
    """A property cannot be used. The text tells the place, the name, what was expected and what was
    found."""

    def __init__(self, found: Property, problem: str) -> None:
        place = f"{found.place}: " if found.place else ""
        super().__init__(f"{place}{problem}")
        self.found = found


class Reading(NamedTuple, Generic[R]):
    """A Record read from properties, and what somebody should be told about."""

    record: R
    unknown: tuple[Property, ...]
    """Properties that this Record does not have."""
    renamed: tuple[Property, ...]
    """Properties that were written with an alias of their name."""


def parse_properties(text: str, source: str = "") -> list[Property]:
    """The properties of a text in order; of two with one name the later one counts.

    Raises ``PropertyError`` for a ``\\u`` that four hex digits do not follow, and for a text longer
    than ``MAX_TEXT_CHARACTERS``.
    """
    if len(text) > MAX_TEXT_CHARACTERS:
        whole = Property("", "", source, 0)
        raise PropertyError(
            whole,
            f"{len(text)} characters are no configuration, {MAX_TEXT_CHARACTERS} are the most",
        )
    found = []
    for line_number, line in _logical_lines(text):
        name_end = _end_of(_NAME, line, 0)
        value_start = _end_of(_SEPARATOR, line, name_end)
        where = Property(line[:name_end], "", source, line_number)
        name = _unescape(line[:name_end], where)
        found.append(Property(name, _unescape(line[value_start:], where), source, line_number))
    return found


def format_properties(properties: Mapping[str, str]) -> str:
    """One ``name=value`` line per property, in the order given, escaped where it could not be read
    back otherwise."""
    return "".join(f"{_escape_name(name)}={_escape(value)}\n" for name, value in properties.items())


def record_from_properties(
    record_type: type[R],
    properties: Iterable[Property],
    *,
    aliases: Mapping[str, str] | None = None,
) -> Reading[R]:
    """A Record with the given properties and its defaults for all others.

    ``aliases`` maps other spellings to property names; a property that is there in both takes the
    later one. Raises ``PropertyError`` for a value that the property cannot take and for a required
    property that is absent.
    """
    aliases = aliases or {}
    fields = {field.wire_name: field for field in fields_of(record_type)}
    values: dict[str, Any] = {}
    unknown, renamed = [], []
    for found in properties:
        field = fields.get(aliases.get(found.name, found.name))
        if field is None:
            unknown.append(found)
            continue
        if found.name in aliases:
            renamed.append(found)
        values[field.name] = read_value(field, found)
    for field in fields.values():
        if field.required and field.name not in values:
            raise PropertyError(
                Property(field.wire_name, ""), f"the property {field.wire_name} must be given"
            )
    return Reading(record_type(**values), tuple(unknown), tuple(renamed))


def update_record(record: Record, changes: Iterable[Property]) -> list[str]:
    """Change a Record (not a frozen one) in place, as requests 25 and 318 do; returns the changed
    attributes.

    Properties that the Record does not have are passed over. Every value is read before the first
    one is set: after ``PropertyError`` nothing has changed.
    """
    fields = {field.wire_name: field for field in fields_of(type(record))}
    values = {
        fields[found.name].name: read_value(fields[found.name], found)
        for found in changes
        if found.name in fields
    }
    changed = [name for name, value in values.items() if getattr(record, name) != value]
    for name in changed:
        setattr(record, name, values[name])
    return changed


def record_to_properties(record: Record) -> dict[str, str]:
    """All properties of a Record in the order of declaration; what is ``None`` is left out."""
    properties = {}
    for field in fields_of(type(record)):
        value = getattr(record, field.name)
        if value is not None:
            properties[field.wire_name] = (
                _enum_text(value) if isinstance(value, Enum) else to_text(value)
            )
    return properties


def read_value(field: Field, found: Property) -> Any:
    """The value of one field from its text. Blanks around a number, a boolean and an enum name do
    not count.

    Raises ``PropertyError``.
    """
    kind = enum_type_of(field) or field.kind
    if kind is str:
        return found.value
    text = found.value.strip()
    try:
        return msgspec.convert(_scalar(kind, text), field.annotation)
    except (ValueError, msgspec.ValidationError):
        raise PropertyError(
            found, f"{found.name} must be {expected(field)}, not {_shown(found.value)}"
        ) from None


def expected(field: Field) -> str:
    """What a property takes, for people: ``true or false``, ``a whole number from 0 to 65535``,
    ``A, B or C``."""
    enum = enum_type_of(field)
    if enum is not None:
        *most, last = choices(enum)
        return f"{', '.join(most)} or {last}" if most else last
    if field.kind is bool:
        return "true or false"
    low, high = _limits(field.annotation)
    limits = (
        f" from {low} to {high}"
        if high is not None
        else f" of at least {low}"
        if low is not None
        else ""
    )
    if field.kind is int:
        return f"a whole number{limits}"
    return f"a number{limits}" if field.kind is float else "text"


def enum_type_of(field: Field) -> type[Enum] | None:
    """The enum that a field takes."""
    for part in (field.annotation, *typing.get_args(field.annotation)):
        if isinstance(part, type) and issubclass(part, Enum):
            return part
    return None


def choices(enum: type[Enum]) -> dict[str, Enum]:
    """The members of an enum by their text in properties: their value if that is text, else their
    name."""
    return {_enum_text(member): member for member in enum}


def description_of(field: Field) -> str:
    """What ``msgspec.Meta(description=...)`` in the annotation says about a property."""
    for part in (field.annotation, *typing.get_args(field.annotation)):
        for meta in getattr(part, "__metadata__", ()):
            if isinstance(meta, msgspec.Meta) and meta.description:
                return meta.description
    return ""


def _enum_text(member: Enum) -> str:
    return member.value if isinstance(member.value, str) else member.name


def _scalar(kind: type, text: str) -> Any:
    """Raises ``ValueError``."""
    if issubclass(kind, Enum):
        if text not in (known := choices(kind)):
            raise ValueError
        return known[text].value
    if kind is bool:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise ValueError
        return lowered == "true"
    if kind is int:
        if not _DECIMAL.fullmatch(text):
            raise ValueError
        return int(text)
    if kind is float:
        value = float(text)
        if not math.isfinite(value):
            raise ValueError
        return value
    raise TypeError(f"a property cannot be of type {kind}")


def _limits(annotation: Any) -> tuple[int | None, int | None]:
    low: int | None = None
    high: int | None = None
    for part in (annotation, *typing.get_args(annotation)):
        for meta in getattr(part, "__metadata__", ()):
            if isinstance(meta, msgspec.Meta):
                low = low if meta.ge is None else int(meta.ge)
                high = high if meta.le is None else int(meta.le)
    return low, high


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Comments and blank lines left out, continued lines joined; with the number of the first
    natural line."""
    lines = enumerate(_LINE.split(text), start=1)
    for number, natural in lines:
        line = natural.lstrip(_BLANKS)
        if not line or line[0] in "#!" or line == "\\":  # nothing so far, so nothing to continue
            continue
        while _is_continued(line):
            line = line[:-1] + next(lines, (0, ""))[1].lstrip(_BLANKS)
        yield number, line


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _end_of(pattern: re.Pattern[str], line: str, start: int) -> int:
    match = pattern.match(line, start)
    assert match is not None, "the patterns match the empty text"
    return match.end()


def _unescape(text: str, where: Property) -> str:
    if "\\" not in text:
        return text

    def replaced(match: re.Match[str]) -> str:
        escape = match[1] or ""
        if escape == "u":
            raise PropertyError(
                where, f"the property {where.name} has a \\u that four hex digits do not follow"
            )
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPED.get(escape, escape)

    return _join_surrogates(_ESCAPE.sub(replaced, text))


def _join_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(value: str) -> str:
    escaped = "".join(
        _WRITTEN_ESCAPED.get(c) or (c if c.isascii() else _unicode_escape(c)) for c in value
    )
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _escape_name(name: str) -> str:
    return "".join(f"\\{c}" if c in " =:#!" else _escape(c) for c in name)


def _unicode_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))
