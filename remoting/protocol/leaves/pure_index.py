"""Python twins of ``index.pxi``: messages into the entries of an index file
(``store/index/index_file.py`` has its layout)."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, Protocol

from ..message.index_keys import TopicPrefixes, hash_keys, keys_of

Columns = tuple["array[int]", "array[int]", "array[int]"]
"""Of keys: their hashes (``i``), where their messages lie and when these were stored (``q``)."""
_Message = tuple[str, bytes, int, int, int]

LOOKED_AT: Final = 1 << 20
"""Bytes of properties that one call looks at."""
_ROLLED_BACK: Final = 0xC
_SLOT: Final = struct.Struct(">i")
_ITEM: Final = struct.Struct(">iqii")
_INT_MAX: Final = 0x7FFFFFFF
_prefixes: Final = TopicPrefixes()


class Scanned(Protocol):
    """Records side by side, by columns (``record.scan.Records``)."""

    @property
    def topics(self) -> array[int]: ...
    @property
    def phy_offsets(self) -> array[int]: ...
    @property
    def store_timestamps(self) -> array[int]: ...
    @property
    def sys_flags(self) -> array[int]: ...
    def all_properties(self) -> Iterable[bytes]: ...


class KeyEntries:
    """The keys of messages on their way into the index."""

    def __init__(self) -> None:
        self._messages: list[_Message] = []

    def __len__(self) -> int:
        """How many wait, about."""
        return len(self._messages)

    @property
    def first_offset(self) -> int:
        """Where the first message lies whose keys wait, -1 when none do."""
        return self._messages[0][2] if self._messages else -1

    @property
    def last_offset(self) -> int:
        """The same of the last one."""
        return self._messages[-1][2] if self._messages else -1

    def add(
        self, topic: str, properties: bytes, phy_offset: int, timestamp: int, sys_flag: int, /
    ) -> None:
        """The keys of a message; rolled back ones have none. (Compiled, those of a usual message
        become entries here and now: 50 ns.)"""
        if sys_flag & _ROLLED_BACK != _ROLLED_BACK:
            self._messages.append((topic, properties, phy_offset, timestamp, sys_flag))

    def take(self, most: int, /) -> Columns:
        """The first ``most`` entries, or so many that a bounded number of keys and bytes was looked
        at; those are gone here. No entries: there are no more. Raises ValueError when ``most`` is
        not at least 1."""
        if most < 1:
            raise ValueError("nothing can be taken")
        columns: Columns = array("i"), array("q"), array("q")
        while self._messages and not columns[0]:
            count, columns = _entries(self._messages, _prefixes, most)
            del self._messages[:count]
        return columns


def record_entries(
    records: Scanned, prefixes: list[int], first: int, most: int, /
) -> tuple[int, Columns]:
    """The keys of records from number ``first`` on, and of how many records these are; ``prefixes``
    has ``topic_prefix`` of each of ``records.names``. Raises IndexError for a negative number.
    """
    if first < 0:
        raise IndexError(first)
    columns = (
        records.topics,
        records.all_properties(),
        records.phy_offsets,
        records.store_timestamps,
        records.sys_flags,
    )
    return _entries(islice(zip(*columns, strict=True), first, None), prefixes, most)


def _entries(messages: Iterable[Any], prefixes: Any, most: int) -> tuple[int, Columns]:
    """The keys of the first messages; how many messages these are. One message may have 16,000
    keys: behind the one with key number ``most``, or behind ``LOOKED_AT`` bytes, it ends. Whatever
    a topic is called by, ``prefixes`` has its prefix.
    """
    keys: list[bytes] = []
    own: list[int] = []
    phy_offsets: list[int] = []
    timestamps: list[int] = []
    taken = looked_at = 0
    for topic, properties, phy_offset, timestamp, sys_flag in messages:
        if len(phy_offsets) >= most or looked_at >= LOOKED_AT:
            break
        taken += 1
        if sys_flag & _ROLLED_BACK == _ROLLED_BACK:
            continue
        looked_at += len(properties)
        found = keys_of(properties)
        keys += found
        if len(found) == 1:
            own.append(prefixes[topic])
            phy_offsets.append(phy_offset)
            timestamps.append(timestamp)
        else:
            own += [prefixes[topic]] * len(found)
            phy_offsets += [phy_offset] * len(found)
            timestamps += [timestamp] * len(found)
    return taken, (
        array("i", hash_keys(own, keys)),
        array("q", phy_offsets),
        array("q", timestamps),
    )


def chain_items(
    slots: Any,
    first: int,
    begin_timestamp: int,
    hashes: array[int],
    phy_offsets: array[int],
    timestamps: array[int],
    /,
) -> tuple[bytes, int]:
    """Items from number ``first`` on, as bytes, and how many slots are in use by them that were
    not.

    ``slots``: those of the file, big-endian and writable; each item becomes the newest of its slot.
    What stands in a slot and is no item in front of it counts as none. ``begin_timestamp``: of the
    file; item 1 is the first to count from itself.
    """
    count = len(memoryview(slots)) // _SLOT.size
    if hashes and not count:
        raise ValueError("there are no slots")
    unpack, pack_into, pack = _SLOT.unpack_from, _SLOT.pack_into, _ITEM.pack
    items: list[bytes] = []
    used = 0
    for number, (hashed, phy_offset, timestamp) in enumerate(
        zip(hashes, phy_offsets, timestamps, strict=True), first
    ):
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
