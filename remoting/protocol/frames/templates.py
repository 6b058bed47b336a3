"""JSON headers by template: one ``bytes %`` per header, generated from the annotations of its
Record.

The general way (``serialization.encode_header``) makes a dict of text and encodes it: about 2 µs. A
header of known shape is mostly constant text; filling the holes takes a quarter of a microsecond. A
test holds both ways equal for every command.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from ..codes import VERSION
from ..wire import Field, Record, fields_of, to_text

_json = msgspec.json.Encoder().encode


class HeaderEncoder(NamedTuple):
    """How to write one header type."""

    plain: Callable[[Any, int], bytes]
    """``plain(header, opaque)``: the answer of code 0 without remark, which almost every answer
    is."""
    full: Callable[[int, Any, int, int, bytes, bytes], bytes]
    """``full(code, header, flag, opaque, remark, extra)``: any command. ``remark`` is ``b""`` or
    made by ``remark_piece``; ``extra`` is ``b""`` or made by ``fields_piece``: pairs on top of the
    header's own."""


def remark_piece(remark: str | None) -> bytes:
    return b"" if remark is None else b'"remark":' + _json(remark) + b","


def fields_piece(fields: dict[str, str]) -> bytes:
    """Ext fields as they stand behind other pairs: ``,"name":"text"`` for each."""
    return b"".join(b"," + _json(name) + b":" + _json(text) for name, text in fields.items())


_START = b'{"code":%d,'
_VERSION = str(VERSION).encode()
_END = (
    b'"flag":%d,"language":"PYTHON","opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":'
    + _VERSION
    + b"}"
)
_PLAIN_START = b'{"code":0,'
_PLAIN_END = (
    b'"flag":1,"language":"PYTHON","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":'
    + _VERSION
    + b"}"
)


def _bare_plain(_header: Any, opaque: int) -> bytes:
    return _BARE_PLAIN % opaque


def _bare_full(
    code: int, _header: Any, flag: int, opaque: int, remark: bytes, extra: bytes
) -> bytes:
    if extra:
        return _ANY % (code, extra[1:], flag, opaque, remark)
    return _BARE % (code, flag, opaque, remark)


_BARE = _START + _END
_BARE_PLAIN = _PLAIN_START + _PLAIN_END
_ANY = _START + b'"extFields":{%b},' + _END

NO_HEADER = HeaderEncoder(_bare_plain, _bare_full)
"""For a command without header object: there is no ``extFields`` key unless there are extra
pairs."""


@functools.cache
def encoder_for(header_type: type[Record]) -> HeaderEncoder:
    """The encoder of a header type.

    Fields that are always written become holes of the template. Those that may be ``None`` (rare on
    the hot path) are appended when they are there. The functions are generated once per type, as
    dataclasses do it: a loop over fields would cost more than the formatting.
    """
    fields = fields_of(header_type)
    always = [f for f in fields if not f.optional]
    maybe = [f for f in fields if f.optional]
    holes = b'"extFields":{' + b",".join(_hole(f) for f in always) + b"%b},"

    values = "".join(f"{_value(f)}, " for f in always)
    absent = " and ".join(f"h.{f.name} is None" for f in maybe) or "True"
    short = "extra" if always else "extra[1:]"
    pieces = "".join(
        f"b',{_hole(f).decode()}' % {_value(f)} if h.{f.name} is not None else b'', " for f in maybe
    )
    source = (
        "def pieces(h, extra):\n"
        f"    joined = b''.join(({pieces}extra))\n"
        f"    return joined{'' if always else '[1:]'}\n"
        "def full(code, h, flag, opaque, remark, extra):\n"
        f"    rest = {short} if {absent} else pieces(h, extra)\n"
        f"    return full_template % (code, {values}rest, flag, opaque, remark)\n"
        "def plain(h, opaque):\n"
        f"    rest = b'' if {absent} else pieces(h, b'')\n"
        f"    return plain_template % ({values}rest, opaque)\n"
    )
    namespace: dict[str, Any] = {
        "full_template": _START + holes + _END,
        "plain_template": _PLAIN_START + holes + _PLAIN_END,
        "json": _json,
        "text": to_text,
        "known": _KnownTexts(),
    }
    exec(source, namespace)  # built from our own field names only  # noqa: S102 - written here
    return HeaderEncoder(namespace["plain"], namespace["full"])


def reply_template(header: Record, holes: Mapping[str, bytes], remark: str | None = None) -> bytes:
    """The JSON header of good answers that differ in few fields only, for ``template % values``.

    ``header`` gives the fields that stay; ``holes`` names those that change and how each is written
    (``b"%d"``, or more around it), in the order of the header's declaration: so come the values,
    and behind them the opaque. Values are written as they are: nothing in them may need an escape.
    Half the cost of ``plain``, and no header object is made.
    """
    end = _PLAIN_END.replace(b"%d,", b"%d," + remark_piece(remark).replace(b"%", b"%%"))
    return (
        _PLAIN_START
        + _with_holes(header, {name: b'"' + hole + b'"' for name, hole in holes.items()})
        + end
    )


def request_template(code: int, header: Record, holes: Mapping[str, bytes]) -> bytes:
    """The same for requests. A hole is written without quotes around it: ``b'"%d"'``, or ``b"%b"``
    for JSON."""
    start, end = b'{"code":%d,' % code, b'"flag":0,' + _PLAIN_END.partition(b",")[2]
    return start + _with_holes(header, holes) + end


def _with_holes(header: Record, holes: Mapping[str, bytes]) -> bytes:
    fields = [
        f for f in fields_of(type(header)) if f.name in holes or getattr(header, f.name) is not None
    ]
    pieces = [
        f'"{f.wire_name}":'.encode()
        + (
            holes[f.name]
            if f.name in holes
            else _json(to_text(getattr(header, f.name))).replace(b"%", b"%%")
        )
        for f in fields
    ]
    return b'"extFields":{' + b",".join(pieces) + b"},"


class _KnownTexts(dict[str, bytes]):
    """JSON of texts that hardly ever change (a region name): fields with a default."""

    def __missing__(self, text: str) -> bytes:
        encoded = _json(text)
        if len(self) < 1000:
            self[text] = encoded
        return encoded


def _hole(field: Field) -> bytes:
    name = field.wire_name.encode()
    return b'"' + name + (b'":"%d"' if field.kind is int else b'":%b')


def _value(field: Field) -> str:
    if field.kind is int:
        return f"h.{field.name}"
    if field.kind is bool:
        return f"(b'\"true\"' if h.{field.name} else b'\"false\"')"
    if field.kind is str:
        return (
            f"json(h.{field.name})"
            if field.required or field.optional
            else f"known[h.{field.name}]"
        )
    return f"json(text(h.{field.name}))"
