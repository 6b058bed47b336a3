"""All records of a buffer at once: where they lie and what they say, as columns, and why it ends
where it ends."""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from ..leaves import leaf
from .crc import BodyCrc, body_crc
from .entry import ENTRY_HEAD, INDEX_AND_TERM
from .entry_verdict import EntryEnd, entry_verdict_of, take_apart_entry
from .layout import MAGIC, V6_HOSTS, head_struct
from .verdict import TOPICS, NoRecord, Parts, Verdict, glance_v4, take_apart, verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    Column = array[int]


class Records(msgspec.Struct, frozen=True, gc=False):
    """Records side by side in a buffer; entry ``i`` of every column belongs to record ``i``.
    Positions are bytes of it."""

    data: bytes | memoryview
    """Perhaps a view that is good for a while only."""
    names: list[str]
    """The topics that ``topics`` counts."""
    at: Column
    """Where they begin."""
    sizes: Column
    phy_offsets: Column
    queue_ids: Column
    queue_offsets: Column
    sys_flags: Column
    store_timestamps: Column
    body_at: Column
    body_sizes: Column
    topics: Column
    properties_at: Column
    """They go to the end of the record."""

    def __len__(self) -> int:
        return len(self.at)

    def first(self, count: int) -> Records:
        """The first ones."""
        columns = (getattr(self, name)[:count] for name in self.__struct_fields__[2:])
        return Records(self.data, self.names, *columns)

    @property
    def end(self) -> int:
        """Behind the last one."""
        return self.at[-1] + self.sizes[-1]

    def topic(self, number: int) -> str:
        """Of one of them."""
        return self.names[self.topics[number]]

    def body(self, number: int) -> bytes:
        """Of one of them, as it is stored."""
        at = self.body_at[number]
        return bytes(self.data[at : at + self.body_sizes[number]])

    def properties(self, number: int) -> bytes:
        """The property string of one of them."""
        return bytes(self.data[self.properties_at[number] : self.at[number] + self.sizes[number]])

    def all_properties(self) -> Iterator[bytes]:
        """Of every one."""
        data = bytes(self.data)
        for properties_at, at, size in zip(self.properties_at, self.at, self.sizes, strict=True):
            yield data[properties_at : at + size]


_HEAD_SIZE: Final = head_struct(0).size
ANY_ORDER: Final = (-1, -1)
"""Of entries: nobody knows what is in front of them."""


class Scan(NamedTuple):
    """What a buffer begins with."""

    records: Records
    end: int
    """Where in the buffer they end."""
    verdict: Verdict
    """Why no further one begins there: mostly because the buffer ends (``Reason.MORE``)."""


def scan(
    data: bytes | memoryview,
    place: int | None = None,
    *,
    at: int = 0,
    left: int | None = None,
    crc: BodyCrc | None = body_crc,
    any_version: bool = False,
    head: int = 0,
    after: EntryEnd | None = None,
) -> Scan:
    """The intact records that lie side by side from byte ``at`` on. ``place`` is the physical
    offset of ``data[0]``, if this is a piece of a log, and ``left`` how many bytes its file has
    from there on; for the rest see ``take_apart``.

    With ``head`` (``LogEnd.head``) they are entries, each with its record behind the head, the
    first one ``after`` another: ``at`` and ``Scan.end`` are where entries begin, the columns speak
    of the records.
    """
    left = len(data) if left is None else left
    order = None if not head else ANY_ORDER if after is None else (after.index + 1, after.term)
    if crc is None or crc is body_crc:
        check = crc is not None
        names, columns = scan_columns(data, at, place, left - at, check, any_version, order)
    else:
        names, columns = _columns(bytes(data), at, place, left - at, crc, any_version, order)
    records = Records(data, names, *columns)
    end = records.end if len(records) else at
    behind = None if place is None else place + end
    if head:
        after = entry_of(records, -1) if len(records) else after
        verdict = entry_verdict_of(
            data, end, behind, left - end, after=after, crc=crc, any_version=any_version
        )
    else:
        verdict = verdict_of(data, end, behind, left - end, crc=crc, any_version=any_version)
    assert verdict is not None, "the leaf stops at what is no record only"
    return Scan(records, end, verdict)


def entry_of(records: Records, number: int) -> EntryEnd:
    """Index and term of one of them, where they were read with heads."""
    at = records.at[number] - ENTRY_HEAD.size
    return EntryEnd._make(INDEX_AND_TERM.unpack_from(records.data, at))


@leaf
def scan_columns(
    data: Buffer,
    at: int,
    place: int | None,
    left: int,
    check_crc: bool,
    any_version: bool,
    order: tuple[int, int] | None,
    /,
) -> tuple[list[str], list[Column]]:
    """``Records.names`` and its columns; ``left`` counts from ``at`` on here. ``order``: of
    entries, the index of the first one, -1 for any, and its least term; ``None``: they have no
    heads."""
    crc = body_crc if check_crc else None
    return _columns(bytes(data), at, place, left, crc, any_version, order)


def scan_stretches(
    data: bytes | memoryview, begins: list[int], ends: list[int], *, check_crc: bool
) -> Records:
    """The intact records of stretches of ``data``, of any version, one stretch after the other, up
    to the first stretch that is not made of such.
    """
    names, columns = stretch_columns(data, begins, ends, check_crc)
    return Records(data, names, *columns)


@leaf
def stretch_columns(
    data: Buffer, begins: list[int], ends: list[int], check_crc: bool, /
) -> tuple[list[str], list[Column]]:
    """``Records.names`` and its columns."""
    crc, found = body_crc if check_crc else None, list[tuple[Any, ...]]()
    for begin, end in zip(begins, ends, strict=True):
        if _collect(bytes(data[:end]), begin, None, end - begin, crc, True, found) != end:  # type: ignore[index]
            break
    return _in_columns(found)


def _columns(
    data: bytes,
    at: int,
    place: int | None,
    left: int,
    crc: BodyCrc | None,
    any_version: bool,
    order: tuple[int, int] | None,
) -> tuple[list[str], list[Column]]:
    found: list[tuple[Any, ...]] = []
    if order is None:
        _collect(data, at, place, left, crc, any_version, found)
    else:
        _collect_entries(data, at, place, left, crc, any_version, order, found)
    return _in_columns(found)


def _collect(
    data: bytes,
    at: int,
    place: int | None,
    left: int,
    crc: BodyCrc | None,
    any_version: bool,
    found: list[tuple[Any, ...]],
) -> int:
    """Where that ends."""
    begin = at
    try:
        while True:
            at = _plain_records(data, at, place, crc, found)
            behind = left - (at - begin)
            parts = take_apart(
                data, at, None if place is None else place + at, behind, crc, any_version
            )
            at += parts[1]
            found.append((*parts[:-1], at - len(parts[-1])))
    except NoRecord:
        return at


def _collect_entries(
    data: bytes,
    at: int,
    place: int | None,
    left: int,
    crc: BodyCrc | None,
    any_version: bool,
    order: tuple[int, int],
    found: list[tuple[Any, ...]],
) -> None:
    """The same of entries."""
    limit, after = at + left, None if order[0] < 0 else EntryEnd(order[0] - 1, order[1])
    try:
        while True:
            own = None if place is None else place + at
            parts = take_apart_entry(data, at, own, limit - at, after, crc, any_version)
            after = EntryEnd._make(INDEX_AND_TERM.unpack_from(data, at))
            at += ENTRY_HEAD.size + parts[1]
            found.append((*parts[:-1], at - len(parts[-1])))
    except NoRecord:
        return


def _plain_records(
    data: bytes, at: int, place: int | None, crc: BodyCrc | None, found: list[tuple[Any, ...]]
) -> int:
    """What ``take_apart`` would find, of records in which nothing is unusual; where that ends. Here
    a recovery spends its time.
    """
    length = len(data)
    try:
        while True:
            (
                size,
                magic,
                own_crc,
                queue_id,
                queue_offset,
                phy_offset,
                flags,
                timestamp,
                body_size,
            ) = glance_v4(data, at)
            end = at + size
            body_at = at + _HEAD_SIZE
            topic_at = body_at + body_size + 1
            topic_end = topic_at + data[topic_at - 1]
            properties_at = topic_end + 2
            if (
                magic != MAGIC
                or properties_at + (data[topic_end] << 8 | data[topic_end + 1]) != end
                or end > length
                or body_size < 0
                or flags & V6_HOSTS
                or not (topic := TOPICS[data[topic_at:topic_end]])
                or data.find(0, properties_at, end) >= 0
                or (place is not None and phy_offset != place + at)
                or (crc is not None and crc(data[body_at : topic_at - 1]) != own_crc)
            ):
                return at
            found.append(
                (
                    at,
                    size,
                    phy_offset,
                    queue_id,
                    queue_offset,
                    flags,
                    timestamp,
                    body_at,
                    body_size,
                    topic,
                    properties_at,
                )
            )
            at = end
    except (IndexError, struct.error):  # it ends behind the buffer
        return at


def _in_columns(found: list[tuple[Any, ...]]) -> tuple[list[str], list[Column]]:
    columns: list[Any] = list(zip(*found, strict=True)) if found else [()] * len(Parts._fields)
    numbers = {topic: number for number, topic in enumerate(dict.fromkeys(columns[-2]))}
    columns[-2] = map(numbers.__getitem__, columns[-2])
    return list(numbers), [array("q", struct.pack(f"{len(found)}q", *column)) for column in columns]
