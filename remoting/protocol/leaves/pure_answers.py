"""Python twin of ``answers.pxi``: frames of answers, and headers of requests, that differ in few places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Any, Final

import msgspec

from .pure_frames import MAX_FRAME_BYTES, PREFIX_BYTES

Value = int | bytes | str
Piece = bytes | str | tuple[str, int]
"""What a template is made of: bytes as they are; ``(kind, number)``, a value of that number; ``"("`` and ``")"`` around what
its length stands in front of, as four bytes. Kinds of values:

* ``d``: a whole number of 64 bits as decimal text; ``X``: one that is not negative as sixteen digits;
* ``i``: a whole number of 32 bits as four bytes, the highest first; ``b``: bytes as they are;
* ``s``: text as JSON, its quotes included.
"""
DEEPEST: Final = 4
"""So many groups may stand in each other."""
_FORMATS: Final = {"d": b"%d", "X": b"%016X", "i": b"%b", "b": b"%b", "s": b"%b"}
_PREFIX: Final = Struct(">II").pack
_pack_raw: Final = Struct(">i").pack
_pack_length: Final = Struct(">I").pack
_json: Final = msgspec.json.Encoder().encode
_Fill = Callable[[tuple[Value, ...]], bytes]


class FrameTemplate:
    """``fill`` makes the frame of an answer: its prefix and its header; a body may follow."""

    def __init__(self, form: int, pieces: Sequence[Piece], /) -> None:
        """``form``: of the header (``SerializeType``). Raises ``ValueError`` for what is no piece."""
        self._form: Final = form << 24
        self._header: Final = _filling(iter(pieces), 0)

    def fill(self, values: tuple[Value, ...], body_size: int = 0, /) -> bytes:
        """``values`` by their numbers. Compiled: 60 ns for the answer to a send.

        Raises ``ValueError`` for a frame over ``MAX_FRAME_BYTES``.
        """
        header = self._header(values)
        size = len(header)
        if size + body_size > MAX_FRAME_BYTES - PREFIX_BYTES:
            raise ValueError(f"a frame of {PREFIX_BYTES + size + body_size} bytes is over the limit of {MAX_FRAME_BYTES}")
        return _PREFIX(4 + size + body_size, self._form | size) + header

    def header(self, values: tuple[Value, ...], /) -> bytes:
        """Without the prefix in front of it. Compiled: 100 ns for a send.

        Raises ``UnicodeEncodeError`` for a text that has no bytes.
        """
        return self._header(values)


def _filling(pieces: Iterator[Piece], depth: int) -> _Fill:
    """The pieces, up to the end of their group, as one format, and what is put into it."""
    template = b""
    arguments: list[Callable[[tuple[Value, ...]], Value]] = []
    numbers: list[int] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            template += piece.replace(b"%", b"%%")
        elif piece == "(" and depth < DEEPEST:
            template += b"%b"
            arguments.append(_sized(_filling(pieces, depth + 1)))
        elif piece == ")" and depth:
            break
        elif isinstance(piece, tuple) and piece[0] in _FORMATS:
            kind, number = piece
            template += _FORMATS[kind]
            arguments.append(_CHANGED[kind](number) if kind in _CHANGED else _plain(number))
            numbers += [number] if kind not in _CHANGED else []
        else:
            raise ValueError(f"{piece!r} is no piece of a template here")
    else:
        if depth:
            raise ValueError("a group without its end")
    if not depth and numbers == list(range(len(arguments))):
        return template.__mod__  # all values in their order, which is the usual template of JSON
    return lambda values: template % tuple([argument(values) for argument in arguments])


def _plain(number: int) -> Callable[[tuple[Value, ...]], Value]:
    return lambda values: values[number]


def _through(change: Callable[[Any], bytes]) -> Callable[[int], Callable[[tuple[Value, ...]], Value]]:
    return lambda number: lambda values: change(values[number])


_CHANGED: Final = {"i": _through(_pack_raw), "s": _through(_json)}
"""What is made of a value first."""


def _sized(fill: _Fill) -> _Fill:
    def sized(values: tuple[Value, ...]) -> bytes:
        filled = fill(values)
        return _pack_length(len(filled)) + filled

    return sized
