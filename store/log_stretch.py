"""Many records that lie side by side, decoded at once: a column for each field (with numpy; without it there are none).

Only the plain case: a record that is in any way unusual ends the stretch and is left to ``LogScanner``, which decides what
it is. What is accepted here has passed the same checks as there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from ..remoting.protocol.record import MAGIC, MIN_RECORD_SIZE, crc32, head_struct
from ..remoting.protocol.sys_flag import MessageSysFlag
from .record_chain import Buffer
from .record_texts import Tags, TagsReader, distinct

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["DispatchRequest", "Stretch", "StretchReader", "TopicNames"]

_V6_HOSTS: Final = MessageSysFlag.BORN_HOST_V6 | MessageSysFlag.STORE_HOST_V6
_SIZE_AND_MAGIC: Final = struct.Struct(">iI")
_SYS_FLAG_LOW_AT: Final = 39
_COPY_BELOW: Final = 2048
"""Slices of bytes are faster for small bodies, slices of a view (no copy) for large ones."""
_COLUMNS: Final = {
    "size": "sizes",
    "queue_id": "queue_ids",
    "queue_offset": "queue_offsets",
    "phy_offset": "phy_offsets",
    "sys_flag": "sys_flags",
    "store_timestamp": "store_timestamps",
}
Texts = tuple[Any, Any]
"""Where texts begin and end."""


class DispatchRequest(msgspec.Struct, frozen=True, gc=False):
    """What consume queues and index want to know of a record (class DispatchRequest)."""

    topic: str
    queue_id: int
    phy_offset: int
    size: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    properties: bytes


class QueueRun(NamedTuple):
    """The records of one queue in a stretch."""

    topic: str
    queue_id: int
    numbers: Any
    """Which they are, in order."""
    begin: int
    """How many records are in runs before it."""
    without_gap: bool
    """Each queue offset is one more than the one before."""


class Stretch:
    """Intact records without a gap; entry ``i`` of every column belongs to record ``i``. The columns are numpy arrays."""

    def __init__(
        self, data: Buffer, columns: dict[str, Any], properties: Texts, topics: tuple[Any, list[str]], tags: Tags
    ) -> None:
        self.sizes: Any = columns["size"]
        self.queue_ids: Any = columns["queue_id"]
        self.queue_offsets: Any = columns["queue_offset"]
        self.phy_offsets: Any = columns["phy_offset"]
        self.sys_flags: Any = columns["sys_flag"]
        self.store_timestamps: Any = columns["store_timestamp"]
        self.topic_numbers: Any = topics[0]
        self.names: list[str] = topics[1]
        """The topics that ``topic_numbers`` counts."""
        self.tags_codes: Any = tags.codes
        self.has_only_key: Any = tags.has_only_key
        """The unique key comes first and is the only one; most messages."""
        self._data = data
        self._texts = properties
        self._tags = tags

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def end(self) -> int:
        """Physical offset behind the last record."""
        return int(self.phy_offsets[-1] + self.sizes[-1])

    @cached_property
    def topics(self) -> list[str]:
        """Of every record."""
        return list(map(self.names.__getitem__, self.topic_numbers.tolist()))

    @cached_property
    def properties(self) -> list[bytes]:
        """Of every record."""
        return _slices(self._data, *self._texts)

    @property
    def unique_keys(self) -> Any:
        """A row of ``KEY_SIZE`` bytes for each record, if every one has an only key of that length, else None."""
        return self._tags.keys if self.has_only_key.all() else None

    def of_topics(self, values: list[int]) -> Any:
        """One of the values for each record, by its topic: an array of unsigned 32 bit numbers."""
        return numpy.array(values, numpy.uint32)[self.topic_numbers]

    def topic(self, number: int) -> str:
        """Of one record."""
        return self.names[int(self.topic_numbers[number])]

    def request(self, number: int) -> DispatchRequest:
        """One of the records."""
        at, end = (int(column[number]) for column in self._texts)
        return DispatchRequest(
            self.topic(number),
            int(self.queue_ids[number]),
            int(self.phy_offsets[number]),
            int(self.sizes[number]),
            int(self.queue_offsets[number]),
            int(self.sys_flags[number]),
            int(self.store_timestamps[number]),
            bytes(self._data[at:end]),
        )

    def requests(self) -> Iterator[DispatchRequest]:
        """All of them, in order."""
        return map(
            DispatchRequest,
            self.topics,
            self.queue_ids.tolist(),
            self.phy_offsets.tolist(),
            self.sizes.tolist(),
            self.queue_offsets.tolist(),
            self.sys_flags.tolist(),
            self.store_timestamps.tolist(),
            self.properties,
        )

    @cached_property
    def by_queue(self) -> list[QueueRun]:
        """The records of each queue."""
        keys = self.queue_ids + (self.topic_numbers << 32) if len(self.names) > 1 else self.queue_ids
        order = keys.argsort(kind="stable")
        ordered, offsets = keys[order], self.queue_offsets[order]
        ends = [*(numpy.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
        gaps = (numpy.flatnonzero(offsets[1:] != offsets[:-1] + 1) + 1).tolist()
        has_gaps = not set(ends).issuperset(gaps)
        runs, begin = [], 0
        for end in ends:
            first = int(order[begin])
            without_gap = not has_gaps or not any(begin < gap < end for gap in gaps)
            runs.append(QueueRun(self.topic(first), int(self.queue_ids[first]), order[begin:end], begin, without_gap))
            begin = end
        self._order = order
        return runs

    def units(self) -> bytes:
        """What consume queues get of them: the units of the first run of ``by_queue``, of the second, and so on."""
        order = self._order
        units = numpy.empty(len(self), [("phy_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
        units["phy_offset"] = self.phy_offsets[order]
        units["size"] = self.sizes[order]
        units["tags_code"] = self.tags_codes[order]
        return units.tobytes()

    def without_last(self) -> Stretch:
        """All records but the last one."""
        columns = {name: getattr(self, column)[:-1] for name, column in _COLUMNS.items()}
        at, end = self._texts
        tags = Tags(*(column[:-1] for column in self._tags))
        return Stretch(self._data, columns, (at[:-1], end[:-1]), (self.topic_numbers[:-1], self.names), tags)


class TopicNames(dict[bytes, "str | None"]):
    """Topics as text; ``None`` for a name with zero bytes: the record was never written to its end."""

    def __missing__(self, name: bytes) -> str | None:
        topic = self[name] = None if b"\0" in name else name.decode("utf-8", "replace")
        return topic


class StretchReader:
    """Decodes stretches. What many records have in common is decoded once."""

    def __init__(self, names: TopicNames, *, check_crc: bool = True) -> None:
        self._names: Final = names
        self._check_crc: Final = check_crc
        self._tags: Final = TagsReader()

    def read(self, data: Buffer, base: int, starts: Any = None) -> Stretch | None:
        """The plain records that ``data`` begins with; ``base`` is its physical offset. ``None``: there are hardly any.

        ``starts``: where in ``data`` its whole records begin, if that is known already.
        """
        if starts is None:
            starts = _chain(data) if numpy is not None else []
        if len(starts) < 2 or numpy is None:
            return None
        kind = data[_SYS_FLAG_LOW_AT] & _V6_HOSTS
        begins, heads = _heads(data, starts, kind)
        ends = begins + heads["size"]
        body_at = begins + heads.itemsize
        topic_at, topic_end, plain = _lengths(data, body_at, ends, heads)
        plain &= (heads["phy_offset"] == begins + base) & (heads["sys_flag"] & _V6_HOSTS == kind)
        count = _first_false(plain)
        if self._check_crc:
            count = _first_false(_crcs(data, body_at[:count], topic_at[:count] - 1) == heads["crc"][:count])
        numbers, topics = distinct(data, topic_at[:count], topic_end[:count])
        names = [self._names[name] for name in topics]
        if None in names:
            count = int((numbers == names.index(None)).argmax())
        if count < max(2, len(starts) // 2):  # what is unusual comes often: one by one is faster
            return None
        columns = {name: heads[name][:count].astype(numpy.int64) for name in _COLUMNS}
        properties = topic_end[:count] + 2, ends[:count]
        tags = self._tags.read(data, *properties)
        return Stretch(data, columns, properties, (numbers[:count], names), tags)  # type: ignore[arg-type]  # there is no None


def _chain(data: Buffer) -> list[int]:
    """Where records begin, as far as sizes and magics lead from one to the next inside ``data``."""
    unpack = _SIZE_AND_MAGIC.unpack_from
    starts: list[int] = []
    add = starts.append
    at, last, length = 0, len(data) - MIN_RECORD_SIZE, len(data)
    while at <= last:
        size, magic = unpack(data, at)
        end = at + size
        if magic != MAGIC or size < MIN_RECORD_SIZE or end > length:
            break
        add(at)
        at = end
    return starts


def _heads(data: Buffer, starts: list[int], kind: int) -> tuple[Any, Any]:
    """Where records begin, and their heads; those whose head reaches over the end of the data are left out."""
    head = _HEADS[kind]
    begins = numpy.array(starts, numpy.int64)
    begins = begins[: numpy.searchsorted(begins, len(data) - head.itemsize, "right")]
    everywhere = numpy.ndarray((len(data) - head.itemsize + 1,), f"V{head.itemsize}", data, 0, (1,))
    return begins, everywhere[begins].view(head)


def _lengths(data: Buffer, body_at: Any, ends: Any, heads: Any) -> tuple[Any, Any, Any]:
    """Where topics begin and end, and whether the lengths of body, topic and properties make up the size of the record."""
    octets = numpy.frombuffer(data, numpy.uint8)
    topic_at = body_at + heads["body_size"] + 1
    fits = (heads["body_size"] >= 0) & (topic_at < ends)
    topic_end = topic_at + octets[numpy.where(fits, topic_at - 1, 0)]
    fits &= topic_end + 2 <= ends
    length_at = numpy.where(fits, topic_end, 0)
    fits &= topic_end + 2 + (octets[length_at].astype(numpy.int64) << 8 | octets[length_at + 1]) == ends
    return topic_at, topic_end, fits


def _crcs(data: Buffer, begins: Any, ends: Any) -> Any:
    """The bodyCRC of every body."""
    large = len(begins) and int(ends[-1] - begins[0]) > len(begins) * _COPY_BELOW
    view: Any = memoryview(data) if large else data
    found = [crc32(view[at:end]) for at, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    return numpy.array(found, numpy.int64) & 0x7FFFFFFF


def _slices(data: Buffer, begins: Any, ends: Any) -> list[bytes]:
    data = bytes(data)
    return [data[at:end] for at, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def _first_false(flags: Any) -> int:
    """How many are true in front."""
    return len(flags) if flags.all() else int(flags.argmin())


def _head_type(kind: int) -> Any:
    """The fields of a record's head as numpy has them; the others are left out."""
    shift = head_struct(kind).size - head_struct(0).size
    born = 12 if kind & MessageSysFlag.BORN_HOST_V6 else 0
    fields = [
        ("size", ">i4", 0), ("crc", ">u4", 8), ("queue_id", ">i4", 12), ("queue_offset", ">i8", 20),
        ("phy_offset", ">i8", 28), ("sys_flag", ">i4", 36), ("store_timestamp", ">i8", 56 + born),
        ("body_size", ">i4", 84 + shift),
    ]  # fmt: skip
    names, formats, offsets = zip(*fields, strict=True)
    return numpy.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": head_struct(kind).size})


_HEADS: Final[dict[int, Any]] = (
    {}
    if numpy is None
    else {
        int(kind): _head_type(int(kind))
        for kind in (0, MessageSysFlag.BORN_HOST_V6, MessageSysFlag.STORE_HOST_V6, _V6_HOSTS)
    }
)
