"""Many records that lie side by side, decoded at once: a column for each field (with numpy; without it there are none).

Only the plain case: a record that is in any way unusual ends the stretch and is left to ``LogScanner``, which decides what
it is. What is accepted here has passed the same checks as there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from ..remoting.protocol.index_keys import UNIQUE_KEY_AT
from ..remoting.protocol.leaves import crc32
from ..remoting.protocol.record import head_struct
from ..remoting.protocol.sys_flag import MessageSysFlag
from .record_chain import HEAD_SIZE, Buffer, Places, chained, copies_at, first_false
from .record_texts import Rows, Spans, Tags, TagsReader, distinct

try:
    import numpy
except ImportError:  # only speed
    numpy = None  # type: ignore[assignment]

__all__ = ["DispatchRequest", "Stretch", "StretchReader", "TopicNames"]

_V6_HOSTS: Final = MessageSysFlag.BORN_HOST_V6 | MessageSysFlag.STORE_HOST_V6
_SYS_FLAG_LOW_AT: Final = 39
_COPY_BELOW: Final = 2048
"""Slices of bytes are faster for small bodies, slices of a view (no copy) for large ones."""
_LENGTHS: Final = 3
"""Bytes of the lengths of topic and properties."""
_SMALL_NUMBERS: Final = 1 << 16
"""Numbers below are sorted several times faster."""


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
    """Intact records without a gap; entry ``i`` of every column belongs to record ``i``. The columns are numpy arrays, made
    when they are asked for: as long as the bytes that the records were read from are what they were.
    """

    def __init__(
        self,
        phy_offsets: Any,
        heads: Any,
        sys_flags: Any,
        topics: tuple[Any, list[str]],
        properties: Spans | Rows,
        tags: Tags,
    ) -> None:
        self.phy_offsets: Any = phy_offsets
        self.topic_numbers: Any = topics[0]
        self.names: list[str] = topics[1]
        """The topics that ``topic_numbers`` counts."""
        self.tags_codes: Any = tags.codes
        self.has_only_key: Any = tags.has_only_key
        """The unique key comes first and is the only one; most messages."""
        self.sys_flags: Any = sys_flags
        self.all_flags: int = int(numpy.bitwise_or.reduce(sys_flags))
        """Each bit that one of them has."""
        self._heads = heads
        self._properties = properties
        self._tags = tags

    def __len__(self) -> int:
        return len(self.phy_offsets)

    @property
    def end(self) -> int:
        """Physical offset behind the last record."""
        return int(self.phy_offsets[-1]) + int(self._heads["size"][-1])

    @cached_property
    def sizes(self) -> Any:
        return self._column("size")

    @cached_property
    def queue_ids(self) -> Any:
        return self._column("queue_id")

    @cached_property
    def queue_offsets(self) -> Any:
        return self._column("queue_offset")

    @cached_property
    def store_timestamps(self) -> Any:
        return self._column("store_timestamp")

    def _column(self, name: str) -> Any:
        return self._heads[name].astype(numpy.int64)

    @property
    def last_store_timestamp(self) -> int:
        """Of the last record."""
        return int(self._heads["store_timestamp"][-1])

    @cached_property
    def topics(self) -> list[str]:
        """Of every record."""
        return list(map(self.names.__getitem__, self.topic_numbers.tolist()))

    @cached_property
    def properties(self) -> list[bytes]:
        """Of every record."""
        return self._properties.all()

    @property
    def unique_keys(self) -> Any:
        """A row of ``KEY_SIZE`` bytes for each record, if every one has an only key of that length, else None."""
        return self._tags.keys if first_false(self.has_only_key) == len(self) else None

    def of_topics(self, values: list[int]) -> Any:
        """One of the values for each record, by its topic: an array of unsigned 32 bit numbers, of one if there is one
        topic."""
        of_each = numpy.array(values, numpy.uint32)
        return of_each if len(values) == 1 else of_each[self.topic_numbers]

    def topic(self, number: int) -> str:
        """Of one record."""
        return self.names[int(self.topic_numbers[number])]

    def request(self, number: int) -> DispatchRequest:
        """One of the records."""
        head = self._heads[number]
        return DispatchRequest(
            self.topic(number),
            int(head["queue_id"]),
            int(self.phy_offsets[number]),
            int(head["size"]),
            int(head["queue_offset"]),
            int(head["sys_flag"]),
            int(head["store_timestamp"]),
            self._properties.text(number),
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
        keys = self._queue_keys()
        order = keys.argsort(kind="stable")
        ordered, offsets = keys[order], self.queue_offsets[order]
        another = ordered[1:] != ordered[:-1]
        gaps = (offsets[1:] - offsets[:-1] != 1) > another
        has_gaps = b"\1" in gaps.tobytes()
        runs, begin = [], 0
        for end in [*(another.nonzero()[0] + 1).tolist(), len(order)]:
            first = int(order[begin])
            without_gap = not has_gaps or not gaps[begin : end - 1].any()
            runs.append(QueueRun(self.topic(first), int(self.queue_ids[first]), order[begin:end], begin, without_gap))
            begin = end
        self._order = order
        return runs

    def _queue_keys(self) -> Any:
        """A number for each record, the same for those of one queue."""
        ids, topics = self.queue_ids, len(self.names)
        most = int(ids.view(numpy.uint64).max()) + 1  # negative ones are large
        if most * topics > _SMALL_NUMBERS:
            return ids + (self.topic_numbers << 32)
        return (ids if topics == 1 else ids + self.topic_numbers * most).astype(numpy.uint16)

    def units(self) -> bytes:
        """What consume queues get of them: the units of the first run of ``by_queue``, of the second, and so on."""
        order = self._order
        units = numpy.empty(len(self), [("phy_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
        units["phy_offset"] = self.phy_offsets[order]
        units["size"] = self._heads["size"][order]
        units["tags_code"] = self.tags_codes[order]
        return units.tobytes()

    def without_last(self) -> Stretch:
        """All records but the last one."""
        topics = self.topic_numbers[:-1], self.names
        tags = Tags(*(column[:-1] for column in self._tags))
        properties = self._properties.first(len(self) - 1)
        return Stretch(self.phy_offsets[:-1], self._heads[:-1], self.sys_flags[:-1], topics, properties, tags)


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

        ``starts``: where in ``data`` its whole records begin, as ``chained`` tells, if that is known already.
        """
        if numpy is None:
            return None
        if starts is None:
            starts, _ = chained(data, base)
        if len(starts) < 2:
            return None
        kind = data[_SYS_FLAG_LOW_AT] & _V6_HOSTS
        begins, heads = _heads(data, starts, kind)
        if len(heads) < 2:
            return None
        topics, properties, count = _rows(data, begins, heads) or _spans(data, begins, heads)
        sys_flags = heads["sys_flag"].astype(numpy.int32)
        count = min(count, first_false(sys_flags & _V6_HOSTS == kind))
        begins = _array(begins)[:count]
        if self._check_crc:
            bodies = begins + heads.itemsize
            crcs = _crcs(data, bodies, bodies + heads["body_size"][:count])
            count = first_false(crcs == heads["crc"][:count])
        numbers, different = distinct(topics.first(count))
        names = [self._names[name] for name in different]
        if None in names:
            unwritten = names.index(None)
            count = int((numbers == unwritten).argmax())
            del names[unwritten:]  # they come in the order of the records
        if count < max(2, len(starts) // 2):  # what is unusual comes often: one by one is faster
            return None
        properties = properties.first(count)
        known: Any = numbers[:count], names
        return Stretch(
            begins[:count] + base, heads[:count], sys_flags[:count], known, properties, self._tags.read(properties)
        )


def _heads(data: Buffer, starts: Any, kind: int) -> tuple[Any, Any]:
    """Where records begin, and their heads; those whose head reaches over the end of the data are left out."""
    head = _HEADS[kind]
    if isinstance(starts, range):
        starts = starts if starts.step >= head.itemsize else starts[:0]
        return starts, numpy.ndarray((len(starts),), head, data, 0, (starts.step,))
    if isinstance(starts, Places) and head.itemsize == HEAD_SIZE:
        return starts.array, starts.heads.view(head)
    begins = numpy.array(starts.array if isinstance(starts, Places) else starts, numpy.int64)
    begins = begins[: numpy.searchsorted(begins, len(data) - head.itemsize, "right")]
    return begins, copies_at(data, begins, head.itemsize).view(head)


def _array(begins: Any) -> Any:
    return numpy.arange(begins.start, begins.stop, begins.step) if isinstance(begins, range) else begins


def _rows(data: Buffer, begins: Any, heads: Any) -> tuple[Rows, Rows, int] | None:
    """Topics and properties if both have one length each in all records, and how many records that are."""
    first = int(heads["body_size"][0])
    length = int(heads["size"][0]) - heads.itemsize - first
    if first < 0 or length < _LENGTHS:
        return None
    if isinstance(begins, range):
        alike = heads["body_size"] == first
        places: Any = Rows(data, begins.start + heads.itemsize + first, begins.step, len(begins), length)
    else:
        sizes = heads["size"].astype(numpy.int64)
        alike = sizes - heads["body_size"] == length + heads.itemsize
        alike &= sizes >= length + heads.itemsize
        places = begins + (sizes - length)
    if first_false(alike) < len(alike):
        return None
    rows = places if isinstance(places, Rows) else Rows.gathered(data, places, length)
    head = rows.text(0)
    topic_end = 1 + head[0]
    lengths_end = topic_end + 2
    if lengths_end > length or int.from_bytes(head[topic_end:lengths_end]) != length - lengths_end:
        return None
    same = rows.alike(min(lengths_end + UNIQUE_KEY_AT, length))
    if same is None:
        fits = rows.column(0, "u1") == head[0]
        fits &= rows.column(topic_end, ">u2") == length - lengths_end
        if first_false(fits) < len(fits):
            return None
    rows = same or rows
    return rows.part(1, topic_end), rows.part(lengths_end, length), len(heads)


def _spans(data: Buffer, begins: Any, heads: Any) -> tuple[Spans, Spans, int]:
    """The same for any lengths; the records that count are those in which the lengths of body, topic and properties make up
    the size.
    """
    octets, begins, body_sizes = numpy.frombuffer(data, numpy.uint8), _array(begins), heads["body_size"]
    ends = begins + heads["size"]
    topic_at = begins + heads.itemsize + body_sizes + 1
    fits = (body_sizes >= 0) & (topic_at < ends)
    topic_end = topic_at + octets[numpy.where(fits, topic_at - 1, 0)]
    fits &= topic_end + 2 <= ends
    length_at = numpy.where(fits, topic_end, 0)
    fits &= topic_end + 2 + (octets[length_at].astype(numpy.int64) << 8 | octets[length_at + 1]) == ends
    return Spans(data, topic_at, topic_end), Spans(data, topic_end + 2, ends), first_false(fits)


def _crcs(data: Buffer, begins: Any, ends: Any) -> Any:
    """The bodyCRC of every body."""
    sizes = ends - begins
    size = int(sizes[0]) if len(sizes) else 0
    if 0 < size < _COPY_BELOW and first_false(sizes == size) == len(sizes):
        bodies = copies_at(data, begins, size).tolist()
    else:
        large = len(begins) and int(ends[-1] - begins[0]) > len(begins) * _COPY_BELOW
        view: Any = memoryview(data) if large else data
        bodies = [view[at:end] for at, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    found = list(map(crc32, bodies))
    return numpy.array(found, numpy.int64) & 0x7FFFFFFF


def _head_type(kind: int) -> Any:
    """The fields of a record's head as numpy has them; the others are left out."""
    shift = head_struct(kind).size - head_struct(0).size
    born = 12 if kind & MessageSysFlag.BORN_HOST_V6 else 0
    fields = [
        ("size", ">i4", 0), ("crc", ">u4", 8), ("queue_id", ">i4", 12), ("queue_offset", ">i8", 20),
        ("sys_flag", ">i4", 36), ("store_timestamp", ">i8", 56 + born), ("body_size", ">i4", 84 + shift),
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
