"""Python twins of ``index.pxi``: messages into the entries of an index file (``store/index_file.py`` has its layout)."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Mapping
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Final

from ..index_keys import UNIQUE_KEY_AT, hash_keys, keys_of

if TYPE_CHECKING:
    from ..record.scan import Records

    Column = array[int]

PendingMessage = tuple[int, str, bytes, int, int, int]
"""``(phy_offset, topic, properties, store_timestamp, sys_flag, keys_end)``; see ``MessageWriter.put_message``."""

LOOKED_AT: Final = 1 << 20
"""Bytes of properties that one call looks at (0.6 ms where they are many short ones)."""
_ROLLED_BACK: Final = 0xC
_SLOT: Final = struct.Struct(">i")
_ITEM: Final = struct.Struct(">iqii")
_INT_MAX: Final = 0x7FFFFFFF


def index_entries(
    messages: list[PendingMessage], prefixes: Mapping[str, int], most: int, /
) -> tuple[int, tuple[Column, Column, Column]]:
    """The keys of the first messages: how many messages these are; of the keys, in order, their hashes (``i``), where their
    messages lie and when they were stored (``q``).

    One message may have 16,000 keys: behind the one with key number ``most``, or behind ``LOOKED_AT`` bytes, it ends.
    ``prefixes`` has ``topic_prefix`` of every topic. Rolled back messages have no keys.
    """
    return _entries(messages, prefixes, most)


def record_entries(
    records: Records, prefixes: list[int], first: int, most: int, /
) -> tuple[int, tuple[Column, Column, Column]]:
    """The same of records from number ``first`` on; ``prefixes`` are those of ``records.names``."""
    columns = records.phy_offsets, records.topics, records.all_properties(), records.store_timestamps, records.sys_flags
    return _entries(islice(zip(*columns, repeat(0)), first, None), prefixes, most)


def _entries(messages: Iterable[Any], prefixes: Any, most: int) -> tuple[int, tuple[Column, Column, Column]]:
    """Whatever a topic is called by, ``prefixes`` has its prefix."""
    keys: list[bytes] = []
    own: list[int] = []
    phy_offsets: list[int] = []
    timestamps: list[int] = []
    taken = looked_at = 0
    for phy_offset, topic, properties, timestamp, sys_flag, keys_end in messages:
        if len(phy_offsets) >= most or looked_at >= LOOKED_AT:
            break
        taken += 1
        if sys_flag & _ROLLED_BACK == _ROLLED_BACK or keys_end < 0:
            continue
        looked_at += keys_end or len(properties)
        if keys_end:
            keys.append(properties[UNIQUE_KEY_AT:keys_end])
        else:
            keys += (found := keys_of(properties))
            if len(found) != 1:
                own += [prefixes[topic]] * len(found)
                phy_offsets += [phy_offset] * len(found)
                timestamps += [timestamp] * len(found)
                continue
        own.append(prefixes[topic])
        phy_offsets.append(phy_offset)
        timestamps.append(timestamp)
    return taken, (array("i", hash_keys(own, keys)), array("q", phy_offsets), array("q", timestamps))


def chain_items(
    slots: Any, first: int, begin_timestamp: int, hashes: Column, phy_offsets: Column, timestamps: Column, /
) -> tuple[bytes, int]:
    """Items from number ``first`` on, as bytes, and how many slots are in use by them that were not.

    ``slots``: those of the file, big-endian and writable; each item becomes the newest of its slot. What stands in a slot
    and is no item in front of it counts as none. ``begin_timestamp``: of the file; item 1 is the first to count from itself.
    """
    count = len(memoryview(slots)) // _SLOT.size
    if hashes and not count:
        raise ValueError("there are no slots")
    unpack, pack_into, pack = _SLOT.unpack_from, _SLOT.pack_into, _ITEM.pack
    items: list[bytes] = []
    used = 0
    for number, (hashed, phy_offset, timestamp) in enumerate(zip(hashes, phy_offsets, timestamps, strict=True), first):
        at = hashed % count * _SLOT.size
        (older,) = unpack(slots, at)
        if not 0 < older <= number:
            older = 0
            used += 1
        seconds = (timestamp - begin_timestamp) // 1000 if timestamp > begin_timestamp > 0 else 0
        items.append(pack(hashed, phy_offset, seconds if seconds < _INT_MAX else _INT_MAX, older))
        pack_into(slots, at, number)
        if number == 1:
            begin_timestamp = timestamp
    return b"".join(items), used
