"""Single properties as columns of a type of their own: what the text of a property is as a number.

Properties are text. What is a value of a type is said once, by ``_READERS``: what Spark's
``try_cast`` takes, without Java's suffixes and hexadecimal digits; times are milliseconds since
1970, as everywhere in RocketMQ. Arrow reads whole columns of plain texts, of which it takes the
same to be values (a property test holds the two together); each different text of the others is
read by itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ...remoting.errors import RocketMQError
from .schema import ARROW_TYPES

__all__ = ["PropertyColumns", "PropertyValueError", "read_text", "typed"]

log: Final = logging.getLogger(__name__)

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_FRACTION: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_NOT_FINITE: Final = re.compile(r"nan|[+-]?inf(inity)?", re.IGNORECASE)
_WORDS: Final = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
_BLANKS: Final = "".join(map(chr, (*range(0x21), 0x7F)))
"""What Spark leaves out around a text: blanks and controls of ASCII, none of Unicode's."""
_MOST_DIGITS: Final = 19
"""Of what fits into 64 bits."""
_MAX_MS: Final = (2**63 - 1) // 1000
_SHOWN: Final = 60
"""Characters of a value that a text of an error shows."""


class PropertyValueError(RocketMQError, ValueError):
    """The text of a property is no value of the type of its column
    (``propertyColumnsMode=failfast``)."""


class PropertyColumns:
    """The properties that one task reads as columns, and which texts were no values."""

    def __init__(self, types: Mapping[str, str], *, fail: bool = False) -> None:
        """``types``: Spark SQL types by name of property. ``fail``: raise at the first text that is
        no value."""
        self.types: Final = dict(types)
        self._fail = fail
        self._unread: dict[str, tuple[int, str]] = {}

    def column(self, name: str, texts: pa.Array, where: Callable[[int], str]) -> pa.Array:
        """The values of a property; null where there is none, and where it is no such value.

        ``where``: names the message of a row. Raises PropertyValueError.
        """
        values = typed(texts, self.types[name])
        if values.null_count > texts.null_count:
            self._note(name, texts, values, where)
        return values

    def tell(self) -> None:
        """Says once, in the log of the executor, how many values have become null."""
        for count, first in self._unread.values():
            log.warning("%s; null in %d rows of this task (propertyColumns)", first, count)
        self._unread.clear()

    def _note(
        self, name: str, texts: pa.Array, values: pa.Array, where: Callable[[int], str]
    ) -> None:
        lost = np.flatnonzero(_mask(texts.is_valid()) & _mask(values.is_null()))
        count, first = self._unread.get(name, (0, ""))
        if not count:
            at = int(lost[0])
            shown = repr(texts[at].as_py()[:_SHOWN])
            first = f"{where(at)}: the property {name} is no {self.types[name]}: {shown}"
        if self._fail:
            raise PropertyValueError(
                f"{first}; propertyColumnsMode=permissive makes it null, propertyColumns with "
                f"{name}:string reads the text"
            )
        self._unread[name] = count + len(lost), first


def typed(texts: pa.Array, kind: str) -> pa.Array:
    """Texts as values of a Spark SQL type; null where they are none."""
    if kind == "string":
        return texts
    arrow_type = ARROW_TYPES[kind]
    if (plain := _PLAIN.get(kind)) is not None and plain[_octets(texts)].all():
        try:
            return texts.cast(arrow_type)
        except pa.ArrowInvalid:
            pass  # one of them at least is none
    different = texts.dictionary_encode()
    read = _READERS[kind]
    values = [read(text.strip(_BLANKS)) for text in different.dictionary.to_pylist()]
    return pa.array(values, arrow_type).take(different.indices)


def read_text(text: str, kind: str) -> Any:
    """One text as a value, times in microseconds; ``None`` where it is none."""
    return _READERS[kind](text.strip(_BLANKS))


def _whole(lowest: int, highest: int, times: int = 1) -> Callable[[str], int | None]:
    def number(text: str) -> int | None:
        digits = text.lstrip("+-0")
        if not _WHOLE.fullmatch(text) or len(digits) > _MOST_DIGITS:
            return None
        found = int(digits or "0") * (-1 if text[0] == "-" else 1)
        return found * times if lowest <= found <= highest else None

    return number


def _fraction(text: str) -> float | None:
    return float(text) if _FRACTION.fullmatch(text) or _NOT_FINITE.fullmatch(text) else None


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "string": str,
    "int": _whole(-(2**31), 2**31 - 1),
    "bigint": _whole(-(2**63), 2**63 - 1),
    "double": _fraction,
    "boolean": lambda text: _WORDS.get(text.lower()),
    "timestamp": _whole(-_MAX_MS, _MAX_MS, times=1000),
}


def _alphabet(characters: bytes) -> Any:
    plain = np.zeros(256, bool)
    plain[list(characters)] = True
    return plain


_PLAIN: Final = {
    "int": _alphabet(b"0123456789-"),
    "bigint": _alphabet(b"0123456789-"),
    "double": _alphabet(b"0123456789-.eE"),
}
"""Of texts that have no other characters Arrow thinks as ``_READERS`` do. (It takes hexadecimal
digits, too, and no blanks or signs in front.)"""


def _octets(texts: pa.Array) -> Any:
    """All bytes of the texts."""
    _, edges, data = texts.buffers()
    if not len(texts) or data is None:
        return np.zeros(0, np.uint8)
    edges = np.frombuffer(edges, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8)[edges[0] : edges[-1]]


def _mask(flags: pa.Array) -> Any:
    return flags.to_numpy(zero_copy_only=False).astype(bool)
