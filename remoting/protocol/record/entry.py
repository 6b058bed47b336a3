"""Entries of a DLedger log: a head of 48 bytes, then one ordinary record (dledger.md §4;
DLedgerEntryCoder, DLedgerMmapFileStore).

The record says where it lies itself: 48 bytes behind its entry. Entries never cross the end of a
file. One that would leave fewer than 8 bytes of it goes into the next file, and the rest becomes a
blank: -1 (4), how many bytes are left (4), zeros. Positions are not replicated, every member finds
them by this rule.

Indexes are found by files of units: that of entry n is at byte 32·n.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from .layout import BLANK_SIZE, fields_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

ENTRY_MAGIC: Final = 1
"""Of an entry and of its unit."""
ENTRY_BLANK_MAGIC: Final = -1
MAX_ENTRY_SIZE: Final = 4 << 20
"""What the original can encode, so what a member of it can take: a head and its record."""


class EntryHead(NamedTuple):
    """In front of a record."""

    magic: Annotated[int, "i", "magic", "1"]
    size: Annotated[int, "i", "size", "48 + n"]
    index: Annotated[int, "q", "index", "from 0 on, without gaps"]  # type: ignore[assignment]
    term: Annotated[int, "q", "term", "never less than that of the entry before"]
    pos: Annotated[int, "q", "pos", "of this entry in the log"]
    channel: Annotated[int, "i", "channel", "0"]
    chain_crc: Annotated[int, "i", "chainCRC", "0"]
    body_crc: Annotated[int, "i", "bodyCRC", "0"]
    body_size: Annotated[int, "i", "bodyLength", "n"]


class IndexUnit(NamedTuple):
    """Where an entry lies."""

    magic: Annotated[int, "i"]
    pos: Annotated[int, "q"]
    size: Annotated[int, "i"]
    index: Annotated[int, "q"]  # type: ignore[assignment]
    term: Annotated[int, "q"]


ENTRY_HEAD: Final = struct.Struct(">" + "".join(field.code for field in fields_of(EntryHead)))
INDEX_UNIT: Final = struct.Struct(">" + "".join(field.code for field in fields_of(IndexUnit)))
_START: Final = struct.Struct(">ii")
INDEX_AND_TERM: Final = struct.Struct(">8x2q")
"""Of a head."""


def entry_head(index: int, term: int, pos: int, body_size: int) -> bytes:
    """The head of an entry whose record has ``body_size`` bytes."""
    return ENTRY_HEAD.pack(
        ENTRY_MAGIC, ENTRY_HEAD.size + body_size, index, term, pos, 0, 0, 0, body_size
    )


def entry_start(data: Buffer, at: int) -> tuple[int, int]:
    """The first two fields, which tell an entry from a blank and from nothing: magic and size.
    ``data`` must hold 8 bytes there."""
    return _START.unpack_from(data, at)


def entry_blank(remaining: int) -> bytes:
    """What ends a file in which ``remaining`` bytes are left, 8 or more; behind it come zeros."""
    return _START.pack(ENTRY_BLANK_MAGIC, remaining)


def position_of_next(position: int, size: int, file_size: int) -> int:
    """Where an entry of ``size`` bytes, head included, goes in a log that ends at ``position``: at
    once or, where fewer than 8 bytes would be left of the file, at the beginning of the next one.
    """
    room = file_size - position % file_size
    return position if size + BLANK_SIZE <= room else position + room
