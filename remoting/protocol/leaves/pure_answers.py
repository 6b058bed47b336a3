"""Python twin of ``answers.pxi``: frames of answers, and headers of requests, that differ in few
places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, Final

import msgspec

from .pure_frames import MAX_FRAME_BYTES, PREFIX_BYTES

Value = int | bytes | str
Piece = bytes | str | tuple[str, int]
"""What a template is made of: bytes as they are; ``(kind, number)``, a value of that number;
``"("`` and ``")"`` around what its length stands in front of, as four bytes. Kinds of values:

* ``d``: a whole number of 64 bits as decimal text; ``X``: one that is not negative as sixteen
  digits;
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
_CHANGED: Final = {"i": _pack_raw, "s": _json}
"""What is made of a value first."""
_Fill = Callable[[tuple[Value, ...]], bytes]


class FrameTemplate:
    """``fill`` makes the frame of an answer: its prefix and its header; a body may follow."""

    def __init__(self, form: int, pieces: Sequence[Piece], /) -> None:
        """``form``: of the header (``SerializeType``). Raises ``ValueError`` for what is no
        piece."""
        self._form: Final = form << 24
        self._header: Final = _filling(pieces)

    def fill(self, values: tuple[Value, ...], body_size: int = 0, /) -> bytes:
        """``values`` by their numbers. Compiled: 60 ns for the answer to a send.

        Raises ``ValueError`` for a frame over ``MAX_FRAME_BYTES``.
        """
        header = self._header(values)
        size = len(header)
        if size + body_size > MAX_FRAME_BYTES - PREFIX_BYTES:
            raise ValueError(
                f"a frame of {PREFIX_BYTES + size + body_size} bytes is over the limit of "
                f"{MAX_FRAME_BYTES}"
            )
        return _PREFIX(4 + size + body_size, self._form | size) + header

    def header(self, values: tuple[Value, ...], /) -> bytes:
        """Without the prefix in front of it. Compiled: 100 ns for a send.

        Raises ``UnicodeEncodeError`` for a text that has no bytes.
        """
        return self._header(values)


def _filling(pieces: Iterable[Piece]) -> _Fill:
    """All pieces as one format, filled by a function that is made for it: to look at groups each
    time takes three times as long."""
    template = b""
    arguments: list[str] = []
    texts: dict[str, str] = {}
    groups: list[tuple[int, list[str]]] = [
        (0, [])
    ]  # where its length stands among the arguments, what it is the sum of
    for piece in pieces:
        _, lengths = groups[-1]
        if isinstance(piece, bytes):
            template += piece.replace(b"%", b"%%")
            lengths.append(str(len(piece)))
        elif piece == "(" and len(groups) <= DEEPEST:
            template += b"%b"
            groups.append((len(arguments), []))
            arguments.append("")
        elif piece == ")" and len(groups) > 1:
            at, inside = groups.pop()
            arguments[at] = (
                # numbers come first, and are added now
                f"length({'+'.join(sorted(['0', *inside]))})"
            )
            groups[-1][1].extend(["4", *inside])
        elif not isinstance(piece, tuple) or piece[0] not in _FORMATS:
            raise ValueError(f"{piece!r} is no piece of a template here")
        elif len(groups) == 1 and piece[0] not in _CHANGED:
            template += _FORMATS[piece[0]]
            arguments.append(f"values[{piece[1]}]")
        else:
            change = "{0}(values[{1}])" if piece[0] in _CHANGED else "{2!r} % values[{1}]"
            made = change.format(*piece, _FORMATS[piece[0]])
            arguments.append(texts.setdefault(made, f"text{len(texts)}"))
            template += b"%b"
            lengths.append(f"len({arguments[-1]})")
    if len(groups) > 1:
        raise ValueError("a group without its end")
    if arguments == [f"values[{number}]" for number in range(len(arguments))]:
        return template.__mod__  # all values in their order, which is the usual template of JSON
    source = "".join(f"    {text} = {made}\n" for made, text in texts.items())
    source = (
        f"def fill(values):\n{source}    return {template!r} % "
        f"({''.join(f'{each}, ' for each in arguments)})\n"
    )
    names: dict[str, Any] = {"length": _pack_length, **_CHANGED}
    exec(source, names)  # there is nothing in it but numbers of values  # noqa: S102 - written here
    fill: _Fill = names["fill"]
    return fill
