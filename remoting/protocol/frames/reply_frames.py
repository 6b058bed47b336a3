"""Whole frames of answers that differ in few fields only, in every form of header: what the answer
to a send is made of.

``templates`` has the answers of all commands as JSON; ``serialization`` writes any header in any
form, in 2 to 5 µs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ..codes import VERSION, LanguageCode
from ..leaves import FrameTemplate
from ..leaves.pure_answers import Piece, Value
from ..wire import Record, fields_of, to_text
from .frame import PREFIX_BYTES, encode_frame
from .serialization import (
    RESPONSE_FLAG,
    RemotingCommand,
    SerializeType,
    decode_header,
    encode_header,
)
from .templates import reply_template

Fill = Callable[[tuple[Value, ...]], bytes]
_KINDS: Final = {b"%d": "d", b"%016X": "X", b"%b": "b", b"%s": "s"}


def reply_frames(
    header: Record, holes: Mapping[str, bytes], remark: str | None = None
) -> dict[int, Fill]:
    """By the form of the header (``SerializeType``), functions that make the frame of an answer
    with code 0.

    ``header`` gives the fields that stay; ``holes`` names those that change and how each is written
    (``b"%d"``, ``b"%016X"`` or ``b"%b"``, and perhaps text around it). The values are one for each
    hole, in the order of the header's declaration, and behind them the opaque.
    """
    changing = {f.wire_name: holes[f.name] for f in fields_of(type(header)) if f.name in holes}
    texts = {
        f.wire_name: to_text(value)
        for f in fields_of(type(header))
        if (value := getattr(header, f.name)) is not None or f.name in holes
    }
    binary: list[Piece] = [
        _BINARY_START,
        ("i", len(changing)),
        _BINARY_FLAG + _sized((remark or "").encode()),
        "(",
    ]
    for name, text in texts.items():
        binary.append(len(name.encode()).to_bytes(2, "big") + name.encode())
        if name in changing:
            binary += ["(", *template_pieces(changing[name], [*changing].index(name)), ")"]
        else:
            binary.append(_sized(text.encode()))
    json = FrameTemplate(
        SerializeType.JSON, template_pieces(reply_template(header, holes, remark), 0)
    )
    return {
        SerializeType.JSON: json.fill,
        SerializeType.ROCKETMQ: FrameTemplate(SerializeType.ROCKETMQ, [*binary, ")"]).fill,
        SerializeType.MSGPACK: partial(_msgpack, texts, changing, remark),
    }


def frame_with_code(frame: bytes, code: int) -> bytes:
    """Such a frame with another code than 0."""
    form, header = frame[4], frame[PREFIX_BYTES:]
    if form == SerializeType.JSON:
        return encode_frame(form, b'{"code":%d' % code + header.removeprefix(b'{"code":0'))
    if form == SerializeType.ROCKETMQ:
        return encode_frame(form, code.to_bytes(2, "big", signed=True) + header[2:])
    command = decode_header(form, header)
    command.code = code
    return encode_frame(form, encode_header(command, form))


_BINARY_START: Final = (
    b"\0\0" + bytes([LanguageCode.PYTHON]) + min(VERSION, 2**15 - 1).to_bytes(2, "big")
)
_BINARY_FLAG: Final = RESPONSE_FLAG.to_bytes(4, "big")


def _sized(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


def template_pieces(template: bytes, number: int) -> list[Piece]:
    """A template of ``bytes %``, in pieces (``%s``: text as JSON); its values are numbered from
    ``number`` on."""
    pieces: list[Piece] = []
    for part in re.split(b"(%d|%016X|%b|%s|%%)", template):
        if part in _KINDS:
            pieces.append((_KINDS[part], number))
            number += 1
        elif part:
            pieces.append(b"%" if part == b"%%" else part)
    return pieces


def _msgpack(
    texts: dict[str, str], changing: dict[str, bytes], remark: str | None, values: tuple[Value, ...]
) -> bytes:
    """The general way: the form is ours, and nobody counts on its speed."""
    filled = {
        name: (hole % value).decode()
        for (name, hole), value in zip(changing.items(), values, strict=False)
    }
    command = RemotingCommand(code=0, flag=RESPONSE_FLAG, remark=remark, ext_fields=texts | filled)
    command.opaque = values[-1]  # type: ignore[assignment]
    header = encode_header(command, SerializeType.MSGPACK)
    return encode_frame(SerializeType.MSGPACK, header)
