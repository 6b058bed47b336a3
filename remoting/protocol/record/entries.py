"""Entries that are believed: their heads lead from one to the next. For who wrote them, or has
looked at them before."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from ..leaves import leaf
from .entry import ENTRY_HEAD, ENTRY_MAGIC, INDEX_UNIT
from .layout import MIN_RECORD_SIZE

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LEAST: Final = ENTRY_HEAD.size + MIN_RECORD_SIZE


@leaf
def entry_units(data: Buffer, at: int, end: int, index: int, place: int, /) -> tuple[bytes, int]:
    """The index units of the entries that lie side by side in ``data[at:end]``, whose first one has
    that index, and where in ``data`` they end: in front of a blank, of nothing, of another index or
    position, or of an entry that reaches over ``end``. ``data[0]`` is at ``place`` of the log.
    Raises ValueError where ``data`` is shorter.
    """
    view, units = memoryview(data), list[bytes]()
    if not 0 <= at <= end <= len(view):
        raise ValueError("the entries do not lie in the data")
    while end - at >= _LEAST:
        magic, size, own_index, term, pos, *_ = ENTRY_HEAD.unpack_from(view, at)
        if (
            magic != ENTRY_MAGIC
            or own_index != index
            or pos != place + at
            or not _LEAST <= size <= end - at
        ):
            break
        units.append(INDEX_UNIT.pack(magic, pos, size, index, term))
        at += size
        index += 1
    return b"".join(units), at


@leaf
def entries_json(data: Buffer, at: int, end: int, index: int, place: int, /) -> bytes:
    """The same entries as a JSON array, as a push carries them (dledger.md §2.7): objects of index,
    term, pos, body (base64), size, magic. What is always 0 is left out."""
    units, _ = entry_units(data, at, end, index, place)
    view = memoryview(data)
    return b"[%b]" % b",".join(
        b'{"index":%d,"term":%d,"pos":%d,"body":"%b","size":%d,"magic":%d}'
        % (
            own,
            term,
            pos,
            b64encode(view[pos - place + ENTRY_HEAD.size : pos - place + size]),
            size,
            magic,
        )
        for magic, pos, size, own, term in INDEX_UNIT.iter_unpack(units)
    )


@leaf
def entry_checksums(data: Buffer, at: int, end: int, index: int, place: int, /) -> bytes:
    """The CRC-32 of each of the same entries, head and record, and its complement, each of 4 bytes,
    big-endian."""
    units, _ = entry_units(data, at, end, index, place)
    view = memoryview(data)
    crcs = (
        crc32(view[pos - place : pos - place + size])
        for _, pos, size, *_ in INDEX_UNIT.iter_unpack(units)
    )
    return b"".join((crc << 32 | crc ^ 0xFFFFFFFF).to_bytes(8, "big") for crc in crcs)


@leaf
def join_entries(entries: Iterable[Any], most: int, /) -> tuple[bytes, int]:
    """The bytes of the first entries, side by side, as far as the sizes that they say are not more
    than ``most`` together, and how many they are. They have the fields of a head as attributes, as
    wide as there, and ``body``.
    """
    parts, left = list[bytes](), most
    for entry in entries:
        left -= entry.size
        if left < 0:
            break
        parts += (
            ENTRY_HEAD.pack(
                entry.magic, entry.size, entry.index, entry.term, entry.pos, entry.channel,
                entry.chain_crc, entry.body_crc, len(entry.body),
            ),
            entry.body,
        )  # fmt: skip
    return b"".join(parts), len(parts) // 2
