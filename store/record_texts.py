"""Topics, tags and unique keys of many records at once, where they are alike (with numpy).

Neighbours in a log mostly have one of a few topics, and property strings that differ in the unique key at their beginning
only. So each different text is looked at once; what is unusual is looked at one by one.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ..remoting.protocol.properties import tags_code_of
from .index_keys import UNIQUE_KEY_AT, UNIQUE_KEY_FIRST, only_key
from .record_chain import Buffer, numbers_at

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["KEY_SIZE", "Tags", "TagsReader", "distinct"]

KEY_SIZE: Final = 32
"""Of the unique keys that clients make."""
_WORD: Final = 8
_SEPARATOR: Final = 2
_MANY_TEXTS: Final = 16
"""Of more different texts a dictionary finds the rest."""
_MAX_KNOWN: Final = 10_000


def distinct(data: Buffer, begins: Any, ends: Any) -> tuple[Any, list[bytes]]:
    """Which of the different texts each one is (an array of numbers), and what these are."""
    numbers = numpy.zeros(len(begins), numpy.int64)
    texts: list[bytes] = []
    left = numpy.arange(len(begins))
    while len(left) and len(texts) < _MANY_TEXTS:
        first = left[0]
        text = bytes(data[begins[first] : ends[first]])
        same = _equal(data, begins[left], ends[left], text)
        texts.append(text)
        if same.all():
            numbers[left] = len(texts) - 1
            return numbers, texts
        numbers[left[same]] = len(texts) - 1
        left = left[~same]
    known: dict[bytes, int] = {}
    for number, at, end in zip(left.tolist(), begins[left].tolist(), ends[left].tolist(), strict=True):
        text = bytes(data[at:end])
        numbers[number] = known.setdefault(text, len(texts))
        if numbers[number] == len(texts):
            texts.append(text)
    return numbers, texts


def _equal(data: Buffer, begins: Any, ends: Any, text: bytes) -> Any:
    """Which of the texts are this one: eight bytes at a time, the last eight perhaps twice."""
    same = ends - begins == len(text)
    if len(text) < _WORD:
        for at, octet in enumerate(text):
            same &= numbers_at(data, "u1", numpy.minimum(begins + at, len(data) - 1)) == octet
        return same
    last = len(text) - _WORD
    for at in (*range(0, last, _WORD), last):
        word = int.from_bytes(text[at : at + _WORD], "big")
        same &= numbers_at(data, ">u8", numpy.minimum(begins + at, len(data) - _WORD)) == word
    return same


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

    def read(self, data: Buffer, begins: Any, ends: Any) -> Tags:
        """``begins`` and ``ends`` tell where the property strings are."""
        usual, keys = _usual(data, begins, ends)
        whole = usual.all()
        chosen = (begins, ends) if whole else (begins[usual], ends[usual])
        numbers, behind = distinct(data, chosen[0] + UNIQUE_KEY_AT + KEY_SIZE, chosen[1])
        found = [self._behind(text) for text in behind]
        codes = numpy.array([code for code, _ in found], numpy.int64)[numbers]
        has_only_key = numpy.array([only for _, only in found], numpy.bool_)[numbers]
        return Tags(codes, has_only_key, keys) if whole else _spread(data, begins, ends, usual, codes, has_only_key, keys)

    def _behind(self, text: bytes) -> tuple[int, bool]:
        """Tags code, and whether there is no other key, by what stands behind a unique key."""
        known = self._known.get(text)
        if known is None:
            own = UNIQUE_KEY_FIRST + b"0" * KEY_SIZE + text
            known = tags_code_of(own), only_key(own) is not None
            if len(self._known) < _MAX_KNOWN:
                self._known[text] = known
        return known


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
    places = numpy.minimum(begins, len(data) - UNIQUE_KEY_AT - KEY_SIZE)
    usual = ends - begins >= UNIQUE_KEY_AT + KEY_SIZE
    usual &= _equal(data, places, places + UNIQUE_KEY_AT, UNIQUE_KEY_FIRST)
    words = [numbers_at(data, "u8", places + UNIQUE_KEY_AT + at) for at in range(0, KEY_SIZE, _WORD)]
    keys = numpy.stack(words, axis=1).view(numpy.uint8)
    cut_short = keys == _SEPARATOR
    if cut_short.any():
        usual &= ~cut_short.any(axis=1)
    behind = numpy.minimum(begins + UNIQUE_KEY_AT + KEY_SIZE, len(data) - 1)
    usual &= (behind == ends) | (numbers_at(data, "u1", behind) == _SEPARATOR)
    return usual, keys
