"""JSON as the original's library reads and writes it (fastjson 1.2; ``remoting.md`` §1.2, §1.9).

``loads`` reads standard JSON and what fastjson takes besides: unquoted keys, numbers and even
objects as keys, single quotes, superfluous commas, comments, ``NaN``, and ``$ref`` for an object
that stands elsewhere in the text.

``fastjson_writer`` writes. Typed bodies: ``bodies.codec``.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

MAX_JSON_BYTES: Final = 64 * 1024 * 1024
"""Longest text; frames are shorter anyway, so this is for files."""
MAX_DEPTH: Final = 64
"""Deepest nesting. The deepest body of the protocol has seven levels."""
_MAX_NUMBER: Final = 400
"""Longest number, in characters."""


class JsonError(ValueError):
    """The text is no JSON, not even for fastjson, or it is over a limit. ``position`` counts
    characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} at position {position}")
        self.position = position


class ObjectKey(dict[str, Any]):
    """An object that is the key of a map: ``{{"queueId":0}:5}``. Hashable, so it must not be
    changed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def loads(text: bytes | memoryview | str, *, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Read JSON. Unquoted numeric keys become ``int``, object keys ``ObjectKey``. Raises
    ``JsonError``.

    A ``$ref`` becomes the object that it names, ``None`` when there is none; one that names
    something around itself makes the result contain itself.
    """
    return parse(text, max_bytes=max_bytes)[0]


def parse(text: bytes | memoryview | str, *, max_bytes: int = MAX_JSON_BYTES) -> tuple[Any, bool]:
    """``loads``, and whether a ``$ref`` was met: then parts of the value are shared, perhaps in a
    circle."""
    if len(text) > max_bytes:
        raise JsonError(f"{len(text)} bytes of JSON are over the limit of {max_bytes}", max_bytes)
    data = text if isinstance(text, str) else bytes(text)
    if ("$ref" if isinstance(data, str) else b"$ref") not in data:  # type: ignore[operator]
        try:
            return msgspec.json.decode(data), False
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
    parser = _Parser(data if isinstance(data, str) else data.decode("utf-8", "replace"))
    value = parser.document()
    return (_resolve(value) if parser.has_references else value), parser.has_references


class _Reference:
    """Stands for a ``$ref`` until the whole text is read."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path


# Not possessive as a whole: Python 3.11.2 (Debian 12) would not give back a comment that has no
# end.
_SPACE = re.compile(r"(?:[ \t\r\n\f\b\ufeff]++|//[^\n]*+|/\*.*?\*/)*", re.DOTALL)
_SPACE_AND_COMMAS = re.compile(r"(?:[ \t\r\n\f\b,\ufeff]++|//[^\n]*+|/\*.*?\*/)*", re.DOTALL)
_CHUNK = {'"': re.compile(r'[^"\\]*+'), "'": re.compile(r"[^'\\]*+")}
_NUMBER = re.compile(r"(-?[0-9]++)(\.[0-9]*+)?([eE][+-]?[0-9]++)?[LSBFD]?(?![\w$.])", re.ASCII)
_PLAIN_PAIR = re.compile(
    r'[ \t\r\n]*+(?:"([^"\\]*+)"|(-?[0-9]{1,20}+))[ \t\r\n]*+:[ '
    r'\t\r\n]*+(?:"([^"\\]*+)"|(-?[0-9]{1,20}+))[ \t\r\n]*+([,}])'
)
_NAME = re.compile(r"(?!\d)[\w$]++")
_HEX = re.compile(r"[0-9a-fA-F]{1,4}")
_ESCAPES = {
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    '"': '"', "'": "'", "\\": "\\", "/": "/",
    **{str(digit): chr(digit) for digit in range(8)},
}  # fmt: skip
_LITERALS = {"true": True, "false": False, "null": None, "undefined": None, "NaN": None}


class _Parser:
    """A recursive descent over one text. Every method starts at ``position`` and leaves it behind
    what it read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.has_references = False

    def document(self) -> Any:
        self._skip(_SPACE)
        value = self._value(0)
        self._skip(_SPACE)
        if self.position < len(self.text):
            raise self._error("expected the end of the text")
        return value

    def _value(self, depth: int) -> Any:
        start = self.text[self.position : self.position + 1]
        if start in ('"', "'"):
            return self._string(start)
        if start == "{":
            return self._object(depth + 1)
        if start == "[":
            return self._array(depth + 1)
        number = _NUMBER.match(self.text, self.position)
        if number:
            return self._number(number)
        name = _NAME.match(self.text, self.position)
        if name and name[0] in _LITERALS:
            self.position = name.end()
            return _LITERALS[name[0]]
        raise self._error("expected a value")

    def _object(self, depth: int) -> Any:
        self._enter(depth)
        values: dict[Any, Any] = {}
        while not self._plain_pairs(values):
            self._skip(_SPACE_AND_COMMAS)
            if self._take("}"):
                break
            key = self._key(depth)
            self._skip(_SPACE)
            if not self._take(":"):
                raise self._error("expected ':'")
            self._skip(_SPACE)
            values[key] = self._value(depth)
            self._skip(_SPACE)
            if self.text[self.position : self.position + 1] not in (",", "}"):
                raise self._error("expected ',' or '}'")
        if len(values) == 1 and isinstance(values.get("$ref"), str):
            self.has_references = True
            return _Reference(values["$ref"])
        return values

    def _plain_pairs(self, values: dict[Any, Any]) -> bool:
        """Most pairs of large bodies are text or number to text or number: one match each. True:
        the object is complete."""
        match = _PLAIN_PAIR.match(self.text, self.position)
        while match:
            key, key_number, value, number, end = match.groups()
            values[int(key_number) if key is None else key] = (
                int(number) if value is None else value
            )
            self.position = match.end()
            if end == "}":
                return True
            match = _PLAIN_PAIR.match(self.text, self.position)
        return False

    def _array(self, depth: int) -> list[Any]:
        self._enter(depth)
        values: list[Any] = []
        while True:
            self._skip(_SPACE_AND_COMMAS)
            if self._take("]"):
                return values
            values.append(self._value(depth))
            self._skip(_SPACE)
            if self.text[self.position : self.position + 1] not in (",", "]"):
                raise self._error("expected ',' or ']'")

    def _key(self, depth: int) -> str | int | ObjectKey:
        start = self.text[self.position : self.position + 1]
        if start in ('"', "'"):
            return self._string(start)
        if start == "{":
            return self._object_key(depth)
        number = _NUMBER.match(self.text, self.position)
        if number:
            key = self._number(number)
            if isinstance(key, int):
                return key
            raise self._error("expected a whole number as key")
        name = _NAME.match(self.text, self.position)
        if not name:
            raise self._error("expected a key")
        self.position = name.end()
        return name[0]

    def _object_key(self, depth: int) -> ObjectKey:
        position = self.position
        values = self._object(depth + 1)
        if isinstance(values, _Reference):
            raise JsonError("a reference cannot be a key", position)
        for value in values.values():
            if isinstance(value, (dict, list, _Reference)):
                raise JsonError("an object that is a key must be flat", position)
        return ObjectKey(values)

    def _string(self, quote: str) -> str:
        chunk = _CHUNK[quote]
        pieces: list[str] = []
        position = self.position + 1
        surrogates = False
        while True:
            match = chunk.match(self.text, position)
            assert match is not None  # it matches the empty text too
            pieces.append(match[0])
            position = match.end()
            end = self.text[position : position + 1]
            if end == quote:
                self.position = position + 1
                text = "".join(pieces)
                return _join_surrogates(text) if surrogates else text
            if not end:
                raise self._error("this text has no end")
            self.position = position
            character, position = self._escape(position + 1)
            surrogates = surrogates or "\ud800" <= character <= "\udfff"
            pieces.append(character)

    def _escape(self, position: int) -> tuple[str, int]:
        letter = self.text[position : position + 1]
        if letter in ("u", "x"):
            digits = 4 if letter == "u" else 2
            found = _HEX.match(self.text, position + 1, position + 1 + digits)
            if found and len(found[0]) == digits:
                return chr(int(found[0], 16)), found.end()
        elif letter in _ESCAPES:
            return _ESCAPES[letter], position + 1
        raise self._error("unknown escape")

    def _number(self, match: re.Match[str]) -> int | float:
        if match.end() - match.start() > _MAX_NUMBER:
            raise self._error(f"a number of more than {_MAX_NUMBER} characters")
        self.position = match.end()
        whole, fraction, exponent = match.groups()
        if fraction is None and exponent is None:
            return int(whole)
        return float(whole + (fraction or "") + (exponent or ""))

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.position)
        assert match is not None  # it matches the empty text too
        self.position = match.end()

    def _take(self, character: str) -> bool:
        if self.text.startswith(character, self.position):
            self.position += 1
            return True
        return False

    def _enter(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels")
        self.position += 1

    def _error(self, message: str) -> JsonError:
        found = self.text[self.position : self.position + 10]
        shown = f", found '{found}'" if found else ", found the end of the text"
        return JsonError(message + shown, self.position)


def _join_surrogates(text: str) -> str:
    """Pairs of ``\\uD83D\\uDE00`` become one character, single halves ``?``."""
    return (
        text.encode("utf-16-be", "surrogatepass")
        .decode("utf-16-be", "replace")
        .replace("\ufffd", "?")
    )


# --- references
# --------------------------------------------------------------------------------------------------

_STEP = re.compile(r"\.((?:\\.|[^.\[\\])+)|\[(\d{1,9})\]|\[(['\"])(.*?)\3\]")
_MAX_HOPS = 16
"""References to references to ... that are followed."""


def _resolve(root: Any) -> Any:
    """Put the objects where the references stand.

    ``@`` is the container that holds the reference, ``..`` the one around that, ``$`` the whole,
    ``$.a.b[1]`` a path in it.
    """
    if isinstance(root, _Reference):
        return None
    waiting: list[tuple[Any, Any]] = [(root, root)]
    while waiting:
        container, parent = waiting.pop()
        items = list(container.items() if isinstance(container, dict) else enumerate(container))
        for key, value in items:
            if isinstance(value, _Reference):
                container[key] = _target(value.path, container, parent, root)
            elif isinstance(value, (dict, list)):
                waiting.append((value, container))
    return root


def _target(path: str, container: Any, parent: Any, root: Any, hops: int = 0) -> Any:
    if path == "@":
        return container
    if path == "..":
        return parent
    found, position = root, 1
    while position < len(path) and path[0] == "$":
        step = _STEP.match(path, position)
        if not step:
            return None
        found = _step(found, step)
        if isinstance(found, _Reference):
            absolute = found.path.startswith("$") and hops < _MAX_HOPS
            found = _target(found.path, root, root, root, hops + 1) if absolute else None
        position = step.end()
    return found if path[:1] == "$" else None


def _step(container: Any, step: re.Match[str]) -> Any:
    name, index, _, quoted = step.groups()
    if isinstance(container, list):
        return container[int(index)] if index and int(index) < len(container) else None
    if not isinstance(container, dict):
        return None
    if index is not None:
        return container.get(int(index), container.get(index))
    key = quoted if name is None else re.sub(r"\\(.)", r"\1", name)
    if key not in container and key.isdecimal() and len(key) < 20:
        return container.get(int(key))
    return container.get(key)
