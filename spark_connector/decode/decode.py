"""Records of pull answers, or of a commit log, to Arrow: many at once (spark.md §4).

``record_arrays`` finds out where everything lies, ``property_pieces`` takes the property strings
apart, and here the pieces become columns. Ten times the speed of a loop, if there are enough
records: join the answers of many pulls before, 1,000 records or more. What is out of the ordinary
is left to the loop of ``decode_slow``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...remoting.protocol.message.message_id import format_host, offset_message_id
from ...remoting.protocol.message.sys_flag import MessageSysFlag
from .arrow_arrays import from_numbers, from_texts
from .decode_slow import DecodeError, DecodeOptions, Row, read_rows, rows_to_batches, unpack_body
from .property_pieces import Properties
from .record_arrays import Array, RecordArrays, find_in_stretches, find_records, gather
from .schema import arrow_schema

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["DecodeError", "DecodeOptions", "decode_found", "decode_records"]

_INNER_BATCH: Final = MessageSysFlag.INNER_BATCH | MessageSysFlag.NEED_UNWRAP
_COMPRESSED: Final = int(MessageSysFlag.COMPRESSED)
_NAMED: Final = ("UNIQ_KEY", "KEYS", "TAGS")
"""Properties that are columns of their own."""
_MAX_MS: Final = (2**63 - 1) // 1000
_HEX: Final = np.frombuffer("".join(f"{byte:02X}" for byte in range(256)).encode(), np.uint16)
"""The two characters of every byte."""


def decode_records(
    buffer: Buffer,
    columns: Sequence[str],
    options: DecodeOptions,
    stretches: tuple[list[int], list[int]] | None = None,
    offsets: Sequence[tuple[int, int]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records that lie one after the other in ``buffer`` as the columns asked for, in the order
    of ``arrow_schema``: one batch, which may have no rows, or several where compressed bodies
    become longer than ``most_bytes`` of the options.

    ``stretches``, begins and ends: they only lie in these, one stretch after the other.
    ``offsets``: queue offsets, from one to before another, that each stretch is wanted for. (A
    batch that is one record comes as a whole to whoever asks for one of its messages.)

    Raises DecodeError for what is no whole record, with the position in ``buffer``, or among the
    joined stretches; DamagedMessageError for a wrong CRC.
    """
    view = memoryview(buffer)
    if stretches is None:
        records = find_records(view, check_crc=options.check_crc)
        yield from decode_found(view, records, columns, options)
        return
    records = find_in_stretches(view, *stretches, check_crc=options.check_crc)
    if records is None or _has_batches(records):
        view = memoryview(
            b"".join([view[begin:end] for begin, end in zip(*stretches, strict=True)])
        )
        if offsets is not None:  # where a record is damaged, another one may be a batch
            rows = _rows_between(view, stretches, offsets, options)
            yield from rows_to_batches(rows, tuple(columns), options)
            return
    yield from decode_found(view, records, columns, options)


def decode_found(
    view: memoryview, records: RecordArrays | None, columns: Sequence[str], options: DecodeOptions
) -> Iterator[pa.RecordBatch]:
    """The same, of records that have been found already in ``view``: all of them, with their CRCs
    if these are to be checked; ``None``: something is wrong with one of them.
    """
    if records is None or _has_batches(records):
        yield from rows_to_batches(read_rows(view, options), tuple(columns), options)
        return
    records = _first_of_each(_wanted(records, options), options)
    if options.decompress and "body" in columns and (records.sys_flag & _COMPRESSED).any():
        for some, bodies in _unpacked(records, options.most_bytes):
            yield _Columns(some, options, bodies).batch(columns)
    else:
        yield _Columns(records, options).batch(columns)


def _has_batches(records: RecordArrays) -> bool:
    """A batch of messages inside of a record."""
    return bool((records.sys_flag & _INNER_BATCH == _INNER_BATCH).any())


def _rows_between(
    view: memoryview,
    stretches: tuple[list[int], list[int]],
    offsets: Sequence[tuple[int, int]],
    options: DecodeOptions,
) -> Iterator[Row]:
    """``view``: the joined stretches."""
    at = 0
    for begin, end, (first, until) in zip(*stretches, offsets, strict=True):
        own = msgspec.structs.replace(options, from_offset=first, until_offset=until)
        until_at = at + end - begin
        yield from read_rows(view[:until_at], own, at)
        at = until_at


def _wanted(records: RecordArrays, options: DecodeOptions) -> RecordArrays:
    """The records that are asked for."""
    offsets = records.queue_offset
    wanted = offsets >= options.from_offset
    if options.until_offset is not None:
        wanted &= offsets < options.until_offset
    if options.from_ms is not None:
        wanted &= records.store_timestamp >= options.from_ms
    if options.until_ms is not None:
        wanted &= records.store_timestamp < options.until_ms
    records = _select(records, wanted)
    if options.keep_topic is not None and len(records):
        known = np.array([options.keep_topic(name) for name in records.names], bool)
        records = _select(records, known[records.topics])
    if options.keep_tags is not None and len(records):
        tags = Properties(records, ["TAGS"]).column("TAGS")
        records = _select(
            records, _to_mask(pc.is_in(tags, pa.array(sorted(options.keep_tags), pa.string())))
        )
    return records


def _first_of_each(records: RecordArrays, options: DecodeOptions) -> RecordArrays:
    """Without those whose dedup id was there before."""
    if options.drop_ids is not None and len(records):
        name = options.drop_ids_property
        ids = Properties(records, [name]).column(name)
        if ids.null_count < len(ids):
            records = _select(records, _first_seen(ids.to_pylist(), options.drop_ids))
    return records


def _select(records: RecordArrays, wanted: Array) -> RecordArrays:
    return records if wanted.all() else records.select(wanted)


def _to_mask(flags: pa.Array) -> Array:
    return flags.to_numpy(zero_copy_only=False).astype(bool)


def _first_seen(ids: list[str | None], seen: set[str]) -> Array:
    """Which ids are met for the first time, or are none; those are added to ``seen``."""
    new = [own for own in ids if own is not None]
    if len(before := set(new)) == len(new) and before.isdisjoint(seen):
        seen |= before
        return np.ones(len(ids), bool)
    wanted = []
    for own in ids:
        wanted.append(own is None or own not in seen)
        if own is not None:
            seen.add(own)
    return np.array(wanted, bool)


class _Columns:
    """Makes the columns of some records."""

    def __init__(
        self, records: RecordArrays, options: DecodeOptions, unpacked: pa.Array | None = None
    ) -> None:
        """``unpacked``: the bodies of those that are compressed, unless they stay as they are."""
        self._records: Final = records
        self._options: Final = options
        self._unpacked: Final = unpacked
        self._with_maps = False

    def batch(self, names: Sequence[str]) -> pa.RecordBatch:
        own = self._options.properties
        self._with_maps = "properties" in names
        schema = arrow_schema(names, own.types)
        if not len(self._records):
            return pa.RecordBatch.from_pylist([], schema=schema)
        return pa.RecordBatch.from_arrays(
            [
                own.column(name, self.property(name), self._where)
                if name in own.types
                else _MAKERS[name](self)
                for name in schema.names
            ],
            schema=schema,
        )

    def _where(self, at: int) -> str:
        """The message of a row, for texts."""
        records = self._records
        return (
            f"{records.names[records.topics[at]]}, queue {self._options.broker_name}/"
            f"{records.queue_id[at]}, offset {records.queue_offset[at]}"
        )

    @functools.cached_property
    def _properties(self) -> Properties:
        names = (*_NAMED, *self._options.properties.types)
        return Properties(self._records, names, with_maps=self._with_maps)

    def property(self, name: str) -> pa.Array:
        return self._properties.column(name)

    def properties(self) -> pa.Array:
        return self._properties.maps()

    def topic(self) -> pa.Array:
        return from_texts(self._records.names).take(from_numbers(self._records.topics))

    def broker_name(self) -> pa.Array:
        return from_texts([self._options.broker_name]).take(
            from_numbers(np.zeros(len(self._records), np.int32))
        )

    def number(self, name: str, dtype: type[np.generic]) -> pa.Array:
        return from_numbers(self._records.field(name, dtype))

    def timestamp(self, name: str) -> pa.Array:
        """Milliseconds to microseconds; what is no time at all stays at the end of all times."""
        ms = self._records.field(name, np.int64)
        if ms.max() > _MAX_MS or ms.min() < -_MAX_MS:
            ms = np.clip(ms, -_MAX_MS, _MAX_MS)
        return from_numbers(ms * 1000).view(pa.timestamp("us", tz="UTC"))

    def sys_flag(self) -> pa.Array:
        flags = self._records.field("sys_flag", np.int32)
        return from_numbers(flags & ~_COMPRESSED if self._options.decompress else flags)

    def body(self) -> pa.Array:
        records = self._records
        if self._unpacked is None:
            return gather(records.octets, records.body_at, records.body_end, pa.binary())
        packed = records.sys_flag & _COMPRESSED != 0
        if packed.all():
            return self._unpacked
        plain = records.select(~packed)
        stored = gather(plain.octets, plain.body_at, plain.body_end, pa.binary())
        order = np.where(packed, len(plain) + np.cumsum(packed) - 1, np.cumsum(~packed) - 1)
        return pa.concat_arrays([stored, self._unpacked]).take(from_numbers(order))

    def host(self, born: bool) -> pa.Array:
        """Hosts as text: there are few different ones."""
        begins, ends = self._records.host_edges(born)
        raw = gather(self._records.octets, begins, ends, pa.binary()).dictionary_encode()
        return from_texts([format_host(host) for host in raw.dictionary.to_pylist()]).take(
            raw.indices
        )

    def msg_id(self) -> pa.Array:
        own = self.property("UNIQ_KEY")
        return pc.coalesce(own, self.offset_msg_id()) if own.null_count else own

    def offset_msg_id(self) -> pa.Array:
        """Store host and physical offset in hexadecimal digits."""
        records = self._records
        begins, ends = records.host_edges(False)
        offsets = records.phy_offset
        if (ends - begins != 8).any():
            hosts = gather(records.octets, begins, ends, pa.binary()).to_pylist()
            pairs = zip(hosts, offsets.tolist(), strict=True)
            return pa.array(
                [offset_message_id(host, offset) for host, offset in pairs], pa.string()
            )
        raw = np.empty((len(records), 16), np.uint8)
        raw[:, :8] = records.octets[begins[:, None] + np.arange(8)]
        raw[:, 8:] = offsets.astype(">i8").view(np.uint8).reshape(-1, 8)
        places = np.arange(0, 32 * len(records) + 1, 32, dtype=np.int32)
        return pa.Array.from_buffers(
            pa.string(), len(records), [None, pa.py_buffer(places), pa.py_buffer(_HEX[raw])]
        )


def _unpacked(records: RecordArrays, most_bytes: int) -> Iterator[tuple[RecordArrays, pa.Array]]:
    """Some of the records at a time, and the bodies of those among them that are compressed: a few
    kilobytes may become many megabytes, and nobody knows before."""
    packed = np.flatnonzero(records.sys_flag & _COMPRESSED)
    sizes = records.ends - records.starts
    sizes[packed] -= (records.body_end - records.body_at)[packed]
    ends = np.cumsum(sizes)  # of the records one after the other, without compressed bodies
    chosen = records.select(packed)
    rows = zip(
        packed.tolist(),
        (ends - sizes)[packed].tolist(),
        ends[packed].tolist(),
        chosen.body_at.tolist(),
        chosen.body_end.tolist(),
        chosen.sys_flag.tolist(),
        chosen.starts.tolist(),
        chosen.queue_offset.tolist(),
        strict=True,
    )
    view, bodies = memoryview(records.octets), list[bytes]()
    first = begin = longer = 0  # longer: by all bodies so far
    for row, before, behind, at, end, flag, start, offset in rows:
        body = unpack_body(view[at:end], flag, start, offset)
        if row > first and behind + longer + len(body) - begin > most_bytes:
            yield records.select(slice(first, row)), pa.array(bodies, pa.binary())
            first, begin, bodies = row, before + longer, []
        bodies.append(body)
        longer += len(body)
        if behind + longer - begin > most_bytes:  # on its own
            yield records.select(slice(first, row + 1)), pa.array(bodies, pa.binary())
            first, begin, bodies = row + 1, behind + longer, []
    if first < len(records):
        yield records.select(slice(first, None)), pa.array(bodies, pa.binary())


_MAKERS: Final[dict[str, Callable[[_Columns], Any]]] = {
    "topic": _Columns.topic,
    "brokerName": _Columns.broker_name,
    "queueId": lambda columns: columns.number("queue_id", np.int32),
    "queueOffset": lambda columns: columns.number("queue_offset", np.int64),
    "msgId": _Columns.msg_id,
    "offsetMsgId": _Columns.offset_msg_id,
    "keys": lambda columns: columns.property("KEYS"),
    "tags": lambda columns: columns.property("TAGS"),
    "properties": _Columns.properties,
    "body": _Columns.body,
    "bornTimestamp": lambda columns: columns.timestamp("born_timestamp"),
    "storeTimestamp": lambda columns: columns.timestamp("store_timestamp"),
    "bornHost": lambda columns: columns.host(True),
    "storeHost": lambda columns: columns.host(False),
    "flag": lambda columns: columns.number("flag", np.int32),
    "sysFlag": _Columns.sys_flag,
    "reconsumeTimes": lambda columns: columns.number("reconsume_times", np.int32),
}
