"""Many records that lie side by side, decoded at once: a column for each field (with numpy; without it there are none).

Only the plain case: a record that is in any way unusual ends the stretch and is left to ``LogScanner``, which decides what
it is. What is accepted here has passed the same checks as there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from ..remoting.protocol.properties import tags_code_of
from ..remoting.protocol.record import MAGIC, MIN_RECORD_SIZE, crc32, head_struct
from ..remoting.protocol.sys_flag import MessageSysFlag
from .index_keys import only_key

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
_UNIQ_KEY_FIRST: Final = b"UNIQ_KEY\x01"
_UNIQ_KEY_WORD: Final = int.from_bytes(_UNIQ_KEY_FIRST[:8], "big")
_KEY_AT: Final = len(_UNIQ_KEY_FIRST)
_MAX_KNOWN: Final = 10_000
_COLUMNS: Final = {
    "sizes": "size",
    "queue_ids": "queue_id",
    "queue_offsets": "queue_offset",
    "phy_offsets": "phy_offset",
    "sys_flags": "sys_flag",
    "store_timestamps": "store_timestamp",
}


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


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """Intact records without a gap; entry ``i`` of every column belongs to record ``i``. The numbers are numpy arrays."""

    sizes: Any
    queue_ids: Any
    queue_offsets: Any
    phy_offsets: Any
    sys_flags: Any
    store_timestamps: Any
    topics: list[str]
    properties: list[bytes]
    tags_codes: list[int]
    only_keys: list[bytes | None]
    """The unique key where there is no other one, else None."""

    def __len__(self) -> int:
        return len(self.topics)

    @property
    def end(self) -> int:
        """Physical offset behind the last record."""
        return int(self.phy_offsets[-1] + self.sizes[-1])

    def request(self, number: int) -> DispatchRequest:
        """One of the records."""
        return DispatchRequest(
            self.topics[number],
            int(self.queue_ids[number]),
            int(self.phy_offsets[number]),
            int(self.sizes[number]),
            int(self.queue_offsets[number]),
            int(self.sys_flags[number]),
            int(self.store_timestamps[number]),
            self.properties[number],
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

    def by_queue(self) -> list[Any]:
        """Numbers of the records of each queue, in order."""
        topics = set(self.topics)
        keys = self.queue_ids
        if len(topics) > 1:
            places = {topic: number << 32 for number, topic in enumerate(topics)}
            keys = keys + numpy.array([places[topic] for topic in self.topics], numpy.int64)
        order = keys.argsort(kind="stable")
        ordered = keys[order]
        groups: list[Any] = numpy.split(order, numpy.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
        return groups

    def carries_on(self, numbers: Any, queue_offset: int) -> bool:
        """The records have queue offsets from this one on, without a gap."""
        return bool((self.queue_offsets[numbers] == numpy.arange(queue_offset, queue_offset + len(numbers))).all())

    def units(self) -> Any:
        """What consume queues get of them: an array of their units."""
        units = numpy.empty(len(self), [("phy_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
        units["phy_offset"], units["size"], units["tags_code"] = self.phy_offsets, self.sizes, self.tags_codes
        return units

    def without_last(self) -> Stretch:
        """All records but the last one."""
        return Stretch(*(getattr(self, name)[:-1] for name in self.__struct_fields__))


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
        self._codes: Final[dict[bytes, int]] = {}

    def read(self, data: bytes, base: int, starts: list[int] | None = None) -> Stretch | None:
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
        names = self._names
        topics: list[Any] = [names[name] for name in _slices(data, topic_at[:count], topic_end[:count])]
        if None in names.values() and None in topics:
            count = topics.index(None)
        if count < max(2, len(starts) // 2):  # what is unusual comes often: one by one is faster
            return None
        properties = _slices(data, topic_end[:count] + 2, ends[:count])
        codes, keys = self._codes_and_keys(properties, _begin_with_unique_key(data, topic_end[:count] + 2))
        return Stretch(
            **{column: heads[name][:count].astype(numpy.int64) for column, name in _COLUMNS.items()},
            topics=topics[:count],
            properties=properties,
            tags_codes=codes,
            only_keys=keys,
        )

    def _codes_and_keys(self, properties: list[bytes], unique_first: bool) -> tuple[list[int], list[bytes | None]]:
        """Tags codes, and the unique keys where that is the only key. Mostly it comes first and is all that neighbours
        differ in: what stands behind it is looked through once.
        """
        codes: list[int] = []
        keys: list[bytes | None] = []
        if unique_first:
            known = self._codes
            parts = [own.partition(b"\x02") for own in properties]
            found = [known.get(behind) for _, _, behind in parts]
            if None not in found:
                keys += [first[_KEY_AT:] for first, _, _ in parts]
                if b"" not in keys:
                    return found, keys  # type: ignore[return-value]  # there is no None
                keys.clear()
            elif len(known) < _MAX_KNOWN:
                known.update(_only_unique_keys(zip(properties, parts, found, strict=True)))
        for own in properties:
            codes.append(tags_code_of(own))
            keys.append(only_key(own))
        return codes, keys


def _only_unique_keys(messages: Iterable[tuple[bytes, tuple[bytes, bytes, bytes], int | None]]) -> dict[bytes, int]:
    """Tags codes by what stands behind a unique key, where that is the only key."""
    return {
        behind: tags_code_of(own)
        for own, (_, _, behind), code in messages
        if code is None and behind and only_key(own) is not None
    }


def _begin_with_unique_key(data: bytes, properties_at: Any) -> bool:
    """All of these property strings do."""
    places = numpy.minimum(properties_at, len(data) - 9)
    words = numpy.ndarray((len(data) - 7,), ">u8", data, 0, (1,))[places]
    ninth = numpy.frombuffer(data, numpy.uint8)[places + 8]
    return bool((words == _UNIQ_KEY_WORD).all() and (ninth == _UNIQ_KEY_FIRST[8]).all())


def _chain(data: bytes) -> list[int]:
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


def _heads(data: bytes, starts: list[int], kind: int) -> tuple[Any, Any]:
    """Where records begin, and their heads; those whose head reaches over the end of the data are left out."""
    head = _HEADS[kind]
    begins = numpy.array(starts, numpy.int64)
    begins = begins[: numpy.searchsorted(begins, len(data) - head.itemsize, "right")]
    everywhere = numpy.ndarray((len(data) - head.itemsize + 1,), f"V{head.itemsize}", data, 0, (1,))
    return begins, everywhere[begins].view(head)


def _lengths(data: bytes, body_at: Any, ends: Any, heads: Any) -> tuple[Any, Any, Any]:
    """Where topics begin and end, and whether the lengths of body, topic and properties make up the size of the record."""
    octets = numpy.frombuffer(data, numpy.uint8)
    topic_at = body_at + heads["body_size"] + 1
    fits = (heads["body_size"] >= 0) & (topic_at < ends)
    topic_end = topic_at + octets[numpy.where(fits, topic_at - 1, 0)]
    fits &= topic_end + 2 <= ends
    length_at = numpy.where(fits, topic_end, 0)
    fits &= topic_end + 2 + (octets[length_at].astype(numpy.int64) << 8 | octets[length_at + 1]) == ends
    return topic_at, topic_end, fits


def _crcs(data: bytes, begins: Any, ends: Any) -> Any:
    """The bodyCRC of every body."""
    large = len(begins) and int(ends[-1] - begins[0]) > len(begins) * _COPY_BELOW
    view: Any = memoryview(data) if large else data
    found = [crc32(view[at:end]) for at, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    return numpy.array(found, numpy.int64) & 0x7FFFFFFF


def _slices(data: bytes, begins: Any, ends: Any) -> list[bytes]:
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
