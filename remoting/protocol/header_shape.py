"""JSON headers that are alike: one text but for some numbers and a unique key (with numpy; without it there are none).

What a producer sends again and again differs in its opaque, the queue id, the time of birth and the unique key::

    {"code":310,"extFields":{"a":"Group","b":"Topic",...,"e":"3",...,"g":"1700000000000",...,
     "i":"UNIQ_KEY\\u00017F000001...\\u0002TAGS\\u0001TagA",...},"flag":0,"language":"JAVA","opaque":4711,...}

``learn`` takes one header to pieces: the text that stays, and the holes in it. ``HeaderShape.read`` compares headers with
the text at once and reads what stands in their holes as columns. A shape is not believed but tried: its header with other
values in the holes has to decode to the same request with those values. A header that differs anywhere else, be it only by
one digit more, does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from .frame import Frame
from .serialization import ONEWAY_FLAG
from .wire import Record, fields_of, int_bounds

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["Columns", "HeaderShape", "Varying", "join_columns", "learn", "rows_of_bytes"]

_MOST_DIGITS: Final = 15
"""More would not be exact in a double."""
_UNIQUE_KEY: Final = "UNIQ_KEY\x01"
_OPAQUE: Final = "opaque"
_INT_MAX: Final = 2**31 - 1


class Varying(NamedTuple):
    """The fields of a request in which headers may differ."""

    numbers: tuple[str, ...]
    properties: str | None = None
    """A property string that begins with the unique key, which is followed by other pairs."""


class Columns(NamedTuple):
    """What stands in the holes of many headers: arrays of numpy with one entry, or one row of bytes, for each."""

    numbers: dict[str, Any]
    """The fields that were named, and ``opaque``."""
    digits: dict[str, Any]
    """The same as it stands there: rows of bytes."""
    keys: Any
    """The unique keys: rows of bytes. None where no property string was named."""


class _Hole(NamedTuple):
    start: int
    stop: int
    least: int
    """The smallest number with so many digits, and the greatest that its field may have."""
    most: int

    @property
    def width(self) -> int:
        return self.stop - self.start


class HeaderShape:
    """The text that headers of one kind share. ``request`` is that of the header that it was learned from."""

    def __init__(self, header: bytes, code: int, request: Any, numbers: dict[str, _Hole], key: _Hole | None) -> None:
        self.code: int = code
        self.request: Any = request
        self.length: int = len(header)
        self._fixed = numpy.full(len(header), 0xFF, numpy.uint8)
        for hole in (*numbers.values(), *(() if key is None else (key,))):
            self._fixed[hole.start : hole.stop] = 0
        self._numbers = numbers
        self._key = key
        holes = list(numbers.values())
        self._same = (numpy.frombuffer(header, numpy.uint8) & self._fixed).tobytes()
        self._digits_at = numpy.array([place for hole in holes for place in range(hole.start, hole.stop)])
        self._least = numpy.array([hole.least for hole in holes], float)
        self._most = numpy.array([hole.most for hole in holes], float)
        self._weights = numpy.zeros((len(self._digits_at), len(holes)))
        self._places: dict[str, slice] = {}
        at = 0
        for number, (name, hole) in enumerate(numbers.items()):
            self._places[name] = slice(at, at + hole.width)
            self._weights[at : at + hole.width, number] = 10.0 ** numpy.arange(hole.width - 1, -1, -1)
            at += hole.width
        self._zeros = self._weights.sum(0) * ord("0")

    def read(self, headers: Sequence[bytes]) -> Columns | None:
        """The columns of headers of this length; None when one of them does not fit."""
        rows = self._rows(headers)
        if (rows & self._fixed).tobytes() != self._same * len(headers):
            return None
        digits, key = rows.take(self._digits_at, axis=1), self._key
        keys = None if key is None else rows[:, key.start : key.stop].tobytes()
        if not digits.tobytes().isdigit() or not (keys is None or keys.isalnum()):
            return None
        values = digits.astype(float) @ self._weights - self._zeros
        if b"\x01" in ((values < self._least) | (values > self._most)).tobytes():  # half of the time of ``any()``
            return None
        numbers = dict(zip(self._numbers, values.T.astype(numpy.int64), strict=True))
        texts = {name: digits[:, places] for name, places in self._places.items()}
        return Columns(numbers, texts, None if keys is None else rows_of_bytes(keys, len(headers)))

    def fits(self, frames: Sequence[Frame]) -> bool:
        """Whether all of them have a header with this text. (What stands in its holes may still be something else.)"""
        if any(form or len(header) != self.length for form, header, _ in frames):
            return False
        rows = self._rows([header for _, header, _ in frames])
        return bool((rows & self._fixed).tobytes() == self._same * len(frames))

    def _rows(self, headers: Sequence[bytes]) -> Any:
        return numpy.frombuffer(b"".join(headers), numpy.uint8).reshape(len(headers), self.length)


def learn(header: bytes, decode: Callable[[bytes], Any], request_type: type[Record], varying: Varying) -> HeaderShape | None:
    """The shape of a header that ``decode`` (an ``Entry``'s, of the envelope) has read; None when it has none, or when it is
    oneway."""
    envelope = decode(header)
    request = envelope.extFields
    fields = {field.name: field for field in fields_of(request_type)}
    if envelope.flag & ONEWAY_FLAG:
        return None
    key, rest = None, ""
    if varying.properties is not None:
        text = getattr(request, varying.properties) or ""
        if (found := _unique_key(header, fields[varying.properties].wire_name, text)) is None:
            return None
        key, rest = found
    numbers: dict[str, _Hole | None] = {_OPAQUE: _number(header, f'"{_OPAQUE}":', envelope.opaque, _INT_MAX)}
    for name in varying.numbers:
        most = int_bounds(fields[name].annotation)[1]
        numbers[name] = _number(header, f'"{fields[name].wire_name}":"', getattr(request, name), most)
    holes = {name: hole for name, hole in numbers.items() if hole is not None}
    if len(holes) < len(numbers):
        return None
    shape = HeaderShape(header, envelope.code, request, holes, key)
    return shape if _is_right(shape, header, decode, holes, key, varying.properties, rest) else None


def _unique_key(header: bytes, wire_name: str, text: str) -> tuple[_Hole, str] | None:
    """Where the unique key stands, and the pairs behind it."""
    key, separator, rest = text.removeprefix(_UNIQUE_KEY).partition("\x02")
    if not text.startswith(_UNIQUE_KEY) or not separator or not key.isascii() or not key.isalnum():
        return None
    hole = _hole(header, f'"{wire_name}":"UNIQ_KEY\\u0001', key, 0, 0)
    return None if hole is None else (hole, rest)


def _number(header: bytes, before: str, value: int, most: int) -> _Hole | None:
    text = str(value)
    if value < 0 or len(text) > _MOST_DIGITS:
        return None
    return _hole(header, before, text, 10 ** (len(text) - 1) if len(text) > 1 else 0, most)


def _hole(header: bytes, before: str, text: str, least: int, most: int) -> _Hole | None:
    """Where a value stands behind its name, if that name stands there once only."""
    start = header.find((before + text).encode())
    if start < 0 or header.count(before.encode()) != 1:
        return None
    start += len(before)
    return _Hole(start, start + len(text), least, most)


def _is_right(
    shape: HeaderShape,
    header: bytes,
    decode: Callable[[bytes], Any],
    holes: dict[str, _Hole],
    key: _Hole | None,
    properties: str | None,
    rest: str,
) -> bool:
    """Whether the header with other values in its holes is decoded as it is read from the columns."""
    probe = bytearray(header)
    for hole in holes.values():
        first = b"2" if header[hole.start] == ord("1") else b"1"
        probe[hole.start : hole.stop] = first + b"0" * (hole.width - 1)
    if key is not None:
        probe[key.start : key.stop] = (b"B" if header[key.start] == ord("A") else b"A") * key.width
    tried = decode(bytes(probe))
    columns = shape.read([bytes(probe)])
    if columns is None:
        return False
    changed: dict[str, Any] = {name: int(column[0]) for name, column in columns.numbers.items()}
    opaque = changed.pop(_OPAQUE)
    if properties is not None:
        changed[properties] = f"{_UNIQUE_KEY}{columns.keys[0].tobytes().decode()}\x02{rest}"
    expected = msgspec.structs.replace(shape.request, **changed)
    return bool(tried.opaque == opaque and tried.extFields == expected and tried.code == shape.code)


def rows_of_bytes(text: bytes, count: int) -> Any:
    """A row for each of so many texts of one length that stand one behind the other."""
    return numpy.frombuffer(text, numpy.uint8).reshape(count, len(text) // count)


def join_columns(parts: Sequence[bytes], columns: Sequence[Any]) -> list[bytes]:
    """``part column part column ... part``, for every row of the columns: many texts that differ in their holes only."""
    count = len(columns[0])
    widths = [column.shape[1] for column in columns]
    empty = b"".join([part + bytes(width) for part, width in zip(parts, (*widths, 0), strict=True)])
    rows = numpy.empty((count, len(empty)), numpy.uint8)
    rows[:] = numpy.frombuffer(empty, numpy.uint8)
    at = 0
    for part, column, width in zip(parts, columns, widths, strict=False):
        at += len(part)
        rows[:, at : at + width] = column
        at += width
    texts: list[bytes] = rows.reshape(-1).view(f"V{len(empty)}").tolist()
    return texts
