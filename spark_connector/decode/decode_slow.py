"""Records to rows one by one: the plain description of what ``decode`` does for many at once.

Whatever is unusual ends up here (a batch inside of a record), and whoever wants to know what is
wrong with a broken record and where. A property test holds the two together.

What is a record, and what is wrong with one, ``remoting/protocol/record/verdict`` says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from ...remoting.errors import RocketMQError
from ...remoting.protocol.message.compression import (
    CompressionError,
    CompressionUnavailable,
    decompress_body,
)
from ...remoting.protocol.message.message_id import format_host, offset_message_id
from ...remoting.protocol.message.properties import decode_properties
from ...remoting.protocol.message.sys_flag import MessageSysFlag, compression_type
from ...remoting.protocol.record import MIN_RECORD_SIZE, NoRecord, body_crc, head_struct
from ...remoting.protocol.record.batch import BatchError, decode_batch
from ...remoting.protocol.record.layout import RecordHead
from ...remoting.protocol.record.verdict import Parts, take_apart
from ..access.errors import DamagedMessageError
from .property_columns import PropertyColumns
from .schema import SOURCE_COLUMNS, arrow_schema

__all__ = [
    "DecodeError",
    "DecodeOptions",
    "Row",
    "read_rows",
    "rows_to_batch",
    "rows_to_batches",
    "unpack_body",
]

log: Final = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 64 << 20
_UNPACKED_AT_ONCE: Final = 1 << 18
_INNER_BATCH: Final = MessageSysFlag.INNER_BATCH | MessageSysFlag.NEED_UNWRAP
_MAX_OFFSET: Final = 2**63 - 1
_MAX_MS: Final = (2**63 - 1) // 1000
NO_PROPERTY_COLUMNS: Final = PropertyColumns({})


class DecodeError(RocketMQError, ValueError):
    """The bytes are not whole, consistent records; ``position`` is the byte at which the broken one
    begins."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message, position)
        self.position: Final = position

    def __str__(self) -> str:
        return str(self.args[0])


class DecodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is decoded and what is left out."""

    broker_name: str
    from_offset: int = 0
    """Queue offsets ``[from_offset, until_offset)`` are wanted."""
    until_offset: int | None = None
    from_ms: int | None = None
    """Messages that were stored before are left out ..."""
    until_ms: int | None = None
    """... and those that were stored then or later."""
    keep_topic: Callable[[str], bool] | None = None
    check_crc: bool = False
    """Compare the body of each that is not left out with its CRC."""
    fail_on_damage: bool = True
    """False: a message whose body has another CRC is left out, too."""
    decompress: bool = True
    """False: compressed bodies stay as they are, and so does bit 0 of their sysFlag."""
    keep_tags: frozenset[str] | None = None
    """Others are left out (the broker only compares hashes)."""
    drop_ids: set[str] | None = None
    """Messages with one of these ids are left out; the ids that were met are added."""
    drop_ids_property: str = "SPARK_DEDUP_ID"
    most_bytes: int = 8 << 20
    """A batch ends before its records would be longer, with their bodies decompressed; a longer one
    is a batch of its own. As ``arrowBatchBytes`` is."""
    properties: PropertyColumns = NO_PROPERTY_COLUMNS
    """Which columns are single properties; takes note of what is no value of their types."""


class Row(msgspec.Struct, gc=False):
    """One message; the fields in the order of SOURCE_COLUMNS."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    msg_id: str
    offset_msg_id: str
    keys: str | None
    tags: str | None
    properties: dict[str, str]
    body: bytes
    born_timestamp: int
    store_timestamp: int
    born_host: str
    store_host: str
    flag: int
    sys_flag: int
    reconsume_times: int


def read_rows(data: bytes | memoryview, options: DecodeOptions, at: int = 0) -> Iterator[Row]:
    """The rows of the records that lie one after the other in ``data``, from byte ``at`` on. Raises
    DecodeError, DamagedMessageError."""
    view = memoryview(data)
    until = options.until_offset
    while at < len(view):
        size, rows, intact = _read_record(view, at, options)
        for row in rows:
            if (row.queue_offset < options.from_offset and not _may_go_on(row, intact)) or (
                until is not None and row.queue_offset >= until
            ):
                continue
            if not _is_stored_between(row.store_timestamp, options.from_ms, options.until_ms):
                continue
            if options.keep_topic is not None and not options.keep_topic(row.topic):
                continue
            if (
                options.keep_tags is not None
                and row.tags not in options.keep_tags
                and not _may_go_on(row, intact)
            ):
                continue
            if not intact:
                _pass_over(row, options.fail_on_damage)
            elif options.drop_ids is None or _is_new(
                row, options.drop_ids, options.drop_ids_property
            ):
                _unpack(row, options, at)
                yield row
        at += size


def _may_go_on(row: Row, intact: bool) -> bool:
    """It stands for all messages of a damaged batch, of which nobody knows how many they are, and
    what tags they have: any of them may be wanted."""
    return not intact and row.sys_flag & _INNER_BATCH == _INNER_BATCH


def _pass_over(row: Row, fail: bool) -> None:
    """Raises DamagedMessageError, or writes a warning where that is enough."""
    what = (
        f"{where_is(row)} ({row.msg_id}): the body does not have the CRC that was stored with it: "
        "it is damaged"
    )
    if fail:
        raise DamagedMessageError(what)
    log.warning("%s, and left out (failOnDamage=false)", what)


def where_is(row: Row) -> str:
    """The message of a row, for texts."""
    return f"{row.topic}, queue {row.broker_name}/{row.queue_id}, offset {row.queue_offset}"


def _is_stored_between(timestamp: int, from_ms: int | None, until_ms: int | None) -> bool:
    return (from_ms is None or timestamp >= from_ms) and (until_ms is None or timestamp < until_ms)


def _is_new(row: Row, seen: set[str], name: str) -> bool:
    own = row.properties.get(name)
    if own is None:
        return True
    if own in seen:
        return False
    seen.add(own)
    return True


def _unpack(row: Row, options: DecodeOptions, at: int) -> None:
    if options.decompress and row.sys_flag & MessageSysFlag.COMPRESSED:
        row.body = unpack_body(row.body, row.sys_flag, at, row.queue_offset)
        row.sys_flag &= ~MessageSysFlag.COMPRESSED


def _read_record(data: memoryview, at: int, options: DecodeOptions) -> tuple[int, list[Row], bool]:
    """One record: its size, its row or the rows of the batch in it, and whether its body has its
    CRC."""
    try:
        parts = Parts(*take_apart(data, at, None, len(data) - at, None, any_version=True))
    except NoRecord as error:
        problem = f"the record at {at} is none: {error.verdict.problem}"
        if options.fail_on_damage or not error.verdict.size:
            raise DecodeError(problem, at) from None
        log.warning("%s; left out (failOnDamage=false)", problem)
        return error.verdict.size, [], True
    head = RecordHead._make(head_struct(parts.sys_flag).unpack_from(data, at))
    stored = bytes(data[parts.body_at : parts.body_at + parts.body_size])
    intact = not options.check_crc or body_crc(stored) == head.body_crc
    properties = decode_properties(parts.properties)
    offset_id = offset_message_id(head.store_host, head.phy_offset)
    row = Row(
        parts.topic, options.broker_name, head.queue_id, head.queue_offset,
        properties.get("UNIQ_KEY") or offset_id,
        offset_id, properties.get("KEYS"), properties.get("TAGS"), properties, stored,
        head.born_timestamp,
        head.store_timestamp, format_host(head.born_host), format_host(head.store_host), head.flag,
        head.sys_flag,
        head.reconsume_times,
    )  # fmt: skip
    unpacked = options.decompress or not head.sys_flag & MessageSysFlag.COMPRESSED
    if head.sys_flag & _INNER_BATCH == _INNER_BATCH and unpacked and intact:
        _unpack(row, options, at)
        return parts.size, _rows_of_batch(row, at), True
    return parts.size, [row], intact


def _rows_of_batch(row: Row, at: int) -> list[Row]:
    """The messages of a batch that RocketMQ 5 keeps as one record; the first one has the record's
    queue offset."""
    try:
        items = decode_batch(row.body)
    except BatchError as error:
        text = (
            f"the batch in the record at {at} (queue offset {row.queue_offset}) is broken: {error}"
        )
        raise DecodeError(text, at) from error
    if row.queue_offset + len(items) > _MAX_OFFSET:
        raise DecodeError(
            f"the batch in the record at {at} begins at the queue offset {row.queue_offset}", at
        )
    rows = []
    for number, item in enumerate(items):
        own = decode_properties(item.properties)
        rows.append(
            msgspec.structs.replace(
                row,
                queue_offset=row.queue_offset + number,
                msg_id=own.get("UNIQ_KEY") or row.offset_msg_id,
                keys=own.get("KEYS"),
                tags=own.get("TAGS"),
                properties=own,
                body=item.body,
                flag=item.flag,
                reconsume_times=0,
            )
        )
    return rows


def rows_to_batches(
    rows: Iterator[Row], columns: tuple[str, ...], options: DecodeOptions
) -> Iterator[pa.RecordBatch]:
    """The wanted columns of the rows, so many at a time as ``most_bytes`` says; at least one batch,
    without rows where there are none. Raises as ``rows_to_batch``, and what ``rows`` does."""
    held: list[Row] = []
    size = 0
    for row in rows:
        own = _size_of(row)
        if held and size + own > options.most_bytes:
            yield rows_to_batch(held, columns, options.properties)
            held, size = [], 0
        held.append(row)
        size += own
    yield rows_to_batch(held, columns, options.properties)


def _size_of(row: Row) -> int:
    """About that of a record with this row: a batch inside of one may become any number of them."""
    texts = sum(len(name) + len(value) + 2 for name, value in row.properties.items())
    return MIN_RECORD_SIZE + len(row.body) + texts


def rows_to_batch(
    rows: list[Row], columns: tuple[str, ...], own: PropertyColumns = NO_PROPERTY_COLUMNS
) -> pa.RecordBatch:
    """The wanted columns of the rows, as Arrow. Raises PropertyValueError."""
    schema = arrow_schema(columns, own.types)
    fields = dict(zip(SOURCE_COLUMNS, Row.__struct_fields__, strict=True))
    arrays = []
    for field in schema:
        if field.name in own.types:
            texts = pa.array([row.properties.get(field.name) for row in rows], pa.string())
            arrays.append(own.column(field.name, texts, lambda at: where_is(rows[at])))
            continue
        values: list[Any] = [getattr(row, fields[field.name]) for row in rows]
        if pa.types.is_map(field.type):
            values = [list(properties.items()) for properties in values]
        elif pa.types.is_timestamp(field.type):
            values = [max(-_MAX_MS, min(_MAX_MS, value)) * 1000 for value in values]
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def unpack_body(body: bytes | memoryview, sys_flag: int, position: int, queue_offset: int) -> bytes:
    """A compressed body as it was sent. Arrow's own LZ4 and ZSTD stand in for packages that are not
    installed.

    Raises DecodeError.
    """
    try:
        try:
            return decompress_body(body, sys_flag)
        except CompressionUnavailable:
            return _unpack_by_arrow(
                body,
                "lz4" if compression_type(sys_flag) == MessageSysFlag.COMPRESSION_LZ4 else "zstd",
            )
    except (CompressionError, OSError) as error:
        text = (
            f"the body of the message at queue offset {queue_offset} cannot be decompressed: "
            f"{error}; "
            "decompress=false reads bodies as they are stored"
        )
        raise DecodeError(text, position) from error


def _unpack_by_arrow(body: bytes | memoryview, codec: str) -> bytes:
    pieces, size = [], 0
    with pa.input_stream(pa.py_buffer(body), compression=codec) as stream:
        while piece := stream.read(_UNPACKED_AT_ONCE):  # it makes room for all that it is asked for
            pieces.append(piece)
            size += len(piece)
            if size > MAX_BODY_BYTES:
                raise CompressionError(
                    f"the body would be longer than {MAX_BODY_BYTES} bytes when decompressed"
                )
    return b"".join(pieces)
