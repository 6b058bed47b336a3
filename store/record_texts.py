"""Topics, tags and unique keys of many records at once, where they are alike (with numpy).

Neighbours in a log mostly have one of a few topics, and property strings that differ in the unique key at their beginning
only. So each different text is looked at once; what is unusual is looked at one by one. Texts of one length (``Rows``) are
compared several times faster than others (``Spans``).
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import byteorder
from typing import Any, Final, NamedTuple

from ..remoting.protocol.index_keys import UNIQUE_KEY_AT, UNIQUE_KEY_FIRST, only_key
from ..remoting.protocol.properties import tags_code_of
from .record_chain import Buffer, copies_at, first_false, numbers_at

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["KEY_SIZE", "Rows", "Spans", "Tags", "TagsReader", "distinct"]

KEY_SIZE: Final = 32
"""Of the unique keys that clients make."""
_KEY_END: Final = UNIQUE_KEY_AT + KEY_SIZE
_WORD: Final = 8
_SEPARATOR: Final = 2
_SEPARATOR_TEXT: Final = b"\2"
_MANY_TEXTS: Final = 16
"""Of more different texts a dictionary finds the rest."""
_MAX_KNOWN: Final = 10_000


class Spans(NamedTuple):
    """Texts of any lengths: where in ``data`` they begin and end."""

    data: Buffer
    begins: Any
    ends: Any

    @property
    def total(self) -> int:
        return len(self.begins)

    def text(self, number: int) -> bytes:
        """One of them."""
        return bytes(self.data[self.begins[number] : self.ends[number]])

    def all(self) -> list[bytes]:
        """Every one."""
        data = bytes(self.data)
        return [data[at:end] for at, end in zip(self.begins.tolist(), self.ends.tolist(), strict=True)]

    def of(self, chosen: Any) -> Spans:
        """Some of them; ``chosen`` is what chooses from an array."""
        return Spans(self.data, self.begins[chosen], self.ends[chosen])

    def first(self, count: int) -> Spans:
        """The first ones."""
        return self.of(slice(count))

    def behind(self, size: int) -> Spans:
        """Each without its first bytes."""
        return self._replace(begins=self.begins + size)

    def are(self, text: bytes) -> Any:
        """Which of them are this one."""
        same = self.ends - self.begins == len(text)
        for at, kind, word in _words(text):
            last = len(self.data) - numpy.dtype(kind).itemsize
            same &= numbers_at(self.data, kind, numpy.minimum(self.begins + at, last)) == word
        return same


class Rows(NamedTuple):
    """Texts of one length, at equal distances from each other."""

    data: Any
    begin: int
    """Of the first one."""
    distance: int
    total: int
    length: int
    known: int = 0
    """So many bytes at the beginning are known to be the same in all of them."""

    @classmethod
    def gathered(cls, data: Buffer, begins: Any, length: int) -> Rows:
        """Copied from wherever they begin."""
        return cls(copies_at(data, begins, length), 0, length, len(begins), length)

    def text(self, number: int) -> bytes:
        """One of them; a negative number counts from the end."""
        at = self.begin + int(number) % self.total * self.distance
        return bytes(memoryview(self.data).cast("B")[at : at + self.length])

    def all(self) -> list[bytes]:
        """Every one."""
        data, size = self.octets(), self.length
        return [data[at : at + size] for at in range(0, self.total * size, size)] if size else [b""] * self.total

    def octets(self) -> bytes:
        """All of them joined."""
        octets: bytes = self.column(0, f"V{self.length}").tobytes() if self.length else b""
        return octets

    def of(self, chosen: Any) -> Rows:
        """Some of them; ``chosen`` is what chooses from an array."""
        if not self.length:
            return self._replace(total=len(numpy.empty(self.total)[chosen]))
        rows = numpy.ascontiguousarray(self.column(0, f"V{self.length}")[chosen])
        return Rows(rows, 0, self.length, len(rows), self.length)

    def first(self, count: int) -> Rows:
        """The first ones."""
        return self._replace(total=count)

    def part(self, begin: int, end: int) -> Rows:
        """Some of the bytes of each."""
        return Rows(self.data, self.begin + begin, self.distance, self.total, end - begin, max(0, self.known - begin))

    def alike(self, length: int) -> Rows | None:
        """The same, knowing that their first bytes are the same; None when they are not."""
        part = self.part(0, length)
        return self._replace(known=length) if first_false(part.are(part.text(0))) == self.total else None

    def column(self, at: int, kind: str) -> Any:
        """The number at some place of each; ``kind`` as numpy names it."""
        return numpy.ndarray((self.total,), kind, self.data, self.begin + at, (self.distance,))

    def are(self, text: bytes) -> Any:
        """Which of them are this text, which has their length."""
        words = _words(text)
        at, kind, word = next(words, (0, "u1", None))
        if word is None:
            return numpy.ones(self.total, numpy.bool_)
        same = self.column(at, kind) == word
        for at, kind, word in words:
            same &= self.column(at, kind) == word
        return same


def distinct(texts: Spans | Rows) -> tuple[Any, list[bytes]]:
    """Which of the different texts each one is (an array of numbers), and what these are."""
    numbers = numpy.zeros(texts.total, numpy.int64)
    if not texts.total:
        return numbers, []
    different = [texts.text(0)]
    if isinstance(texts, Rows) and texts.known >= texts.length:
        return numbers, different
    same = texts.are(different[0])
    if first_false(same) == texts.total:
        return numbers, different
    left = numpy.flatnonzero(~same)
    while len(left) and len(different) < _MANY_TEXTS:
        different.append(texts.text(left[0]))
        same = texts.of(left).are(different[-1])
        numbers[left[same]] = len(different) - 1
        left = left[~same]
    known: dict[bytes, int] = {}
    for number in left.tolist():
        text = texts.text(number)
        numbers[number] = known.setdefault(text, len(different))
        if numbers[number] == len(different):
            different.append(text)
    return numbers, different


def _words(text: bytes) -> Iterator[tuple[int, str, int]]:
    """What a text consists of: places, kinds as numpy names them, numbers. The last eight bytes perhaps twice."""
    if len(text) < _WORD:
        for at, octet in enumerate(text):
            yield at, "u1", octet
        return
    last = len(text) - _WORD
    for at in (*range(0, last, _WORD), last):
        yield at, "u8", int.from_bytes(text[at : at + _WORD], byteorder)


class Tags(NamedTuple):
    """A row for each record."""

    codes: Any
    """What its consume queue entry has."""
    has_only_key: Any
    """The unique key comes first, has ``KEY_SIZE`` bytes, and there is no other key."""
    keys: Any
    """The bytes of those; of others anything."""


class TagsReader:
    """Reads tags codes and unique keys out of property strings; remembers what it has seen behind unique keys."""

    def __init__(self) -> None:
        self._known: Final[dict[bytes, tuple[int, bool]]] = {}

    def read(self, texts: Spans | Rows) -> Tags:
        """Of property strings."""
        if isinstance(texts, Rows):
            return self._rows(texts) or _by_text(texts)
        usual, keys = _usual(*texts)
        chosen = texts if first_false(usual) == len(usual) else texts.of(usual)
        numbers, different = distinct(chosen.behind(_KEY_END))
        behind = self._behind_keys(numbers, different)
        return Tags(*behind, keys) if chosen is texts else _spread(*texts, usual, *behind, keys)

    def _rows(self, texts: Rows) -> Tags | None:
        """None if not all of them begin with a unique key."""
        if texts.length < _KEY_END or not texts.text(0).startswith(UNIQUE_KEY_FIRST):
            return None
        if texts.known < UNIQUE_KEY_AT and texts.alike(UNIQUE_KEY_AT) is None:
            return None
        keys = texts.part(UNIQUE_KEY_AT, _KEY_END).octets()
        numbers, different = distinct(texts.part(_KEY_END, texts.length))
        if _SEPARATOR in keys or not all(text.startswith(_SEPARATOR_TEXT) for text in different if text):
            return None
        return Tags(*self._behind_keys(numbers, different), numpy.frombuffer(keys, numpy.uint8).reshape(-1, KEY_SIZE))

    def _behind_keys(self, numbers: Any, different: list[bytes]) -> tuple[Any, Any]:
        """Tags codes, and whether there is no other key, by what stands behind unique keys."""
        found = [self._behind(text) for text in different]
        if len(found) == 1:
            code, only = found[0]
            return numpy.full(len(numbers), code, numpy.int64), numpy.full(len(numbers), only, numpy.bool_)
        codes = numpy.array([code for code, _ in found], numpy.int64)
        return codes[numbers], numpy.array([only for _, only in found], numpy.bool_)[numbers]

    def _behind(self, text: bytes) -> tuple[int, bool]:
        """Tags code, and whether there is no other key, by what stands behind a unique key."""
        known = self._known.get(text)
        if known is None:
            own = UNIQUE_KEY_FIRST + b"0" * KEY_SIZE + text
            known = tags_code_of(own), only_key(own) is not None
            if len(self._known) < _MAX_KNOWN:
                self._known[text] = known
        return known


def _by_text(texts: Rows) -> Tags:
    """Of property strings that do not begin with unique keys, or not all of them: what is the same is looked at once."""
    numbers, different = distinct(texts)
    codes = numpy.array(list(map(tags_code_of, different)), numpy.int64)
    unknown = numpy.zeros((texts.total, KEY_SIZE + 1), numpy.uint8)
    return Tags(codes[numbers], unknown[:, KEY_SIZE].view(numpy.bool_), unknown[:, :KEY_SIZE])


def _spread(data: Buffer, begins: Any, ends: Any, usual: Any, known_codes: Any, known_only: Any, keys: Any) -> Tags:
    """What is known of the usual ones, and the others one by one."""
    codes = numpy.zeros(len(begins), numpy.int64)
    has_only_key = numpy.zeros(len(begins), numpy.bool_)
    codes[usual], has_only_key[usual] = known_codes, known_only
    for number in numpy.flatnonzero(~usual).tolist():
        codes[number] = tags_code_of(bytes(data[begins[number] : ends[number]]))
    return Tags(codes, has_only_key, keys)


def _usual(data: Buffer, begins: Any, ends: Any) -> tuple[Any, Any]:
    """Which of the property strings begin with a unique key of ``KEY_SIZE`` bytes; and these bytes."""
    places = numpy.minimum(begins, len(data) - _KEY_END)
    usual = ends - begins >= _KEY_END
    usual &= Spans(data, places, places + UNIQUE_KEY_AT).are(UNIQUE_KEY_FIRST)
    words = [numbers_at(data, "u8", places + UNIQUE_KEY_AT + at) for at in range(0, KEY_SIZE, _WORD)]
    keys = numpy.stack(words, axis=1).view(numpy.uint8)
    cut_short = keys == _SEPARATOR
    if cut_short.any():
        usual &= ~cut_short.any(axis=1)
    behind = numpy.minimum(begins + _KEY_END, len(data) - 1)
    usual &= (behind == ends) | (numbers_at(data, "u1", behind) == _SEPARATOR)
    return usual, keys
