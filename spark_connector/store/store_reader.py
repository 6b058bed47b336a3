"""One part of a store to batches of the wanted messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from ..decode.decode import DecodeOptions, decode_found
from ..decode.property_columns import PropertyColumns
from .store_log_file import read_log_file
from .store_options import StoreOptions
from .store_parts import LogFilePart, Part
from .store_queue import read_queue

__all__ = ["read_part"]


def read_part(part: Part, options: StoreOptions) -> Iterator[pa.RecordBatch]:
    """The wanted messages of one part. Raises StoreDamageError, DamagedMessageError, DecodeError,
    PropertyValueError, OSError."""
    own = PropertyColumns(options.property_types, fail=options.fail_on_property)
    decoding = DecodeOptions(
        broker_name=part.place.broker_name,
        from_offset=-(2**63),
        from_ms=options.from_ms,
        until_ms=options.until_ms,
        keep_topic=_topics_of(part, options),
        check_crc=options.check_crc,
        fail_on_damage=options.fail_on_damage,
        decompress=options.decompress,
        keep_tags=options.tags,
        most_bytes=options.arrow_batch_bytes,
        properties=own,
    )
    try:
        yield from _batches(part, options, decoding)
    finally:  # also of a task that is cut short
        own.tell()


def _topics_of(part: Part, options: StoreOptions) -> Callable[[str], bool] | None:
    """Of which messages are wanted. Those of another topic that lie in a (light) queue, too, are
    read in their own, where that is."""
    if isinstance(part, LogFilePart):
        return options.wants_topic if options.filters_topics else None
    return lambda topic: topic == part.topic or not options.wants_topic(topic)


def _batches(
    part: Part, options: StoreOptions, decoding: DecodeOptions
) -> Iterator[pa.RecordBatch]:
    """As many messages at once as there may be."""
    pieces = (
        read_log_file(part, options) if isinstance(part, LogFilePart) else read_queue(part, options)
    )
    held: list[pa.RecordBatch] = []
    rows = size = 0
    batches = (
        batch
        for view, records in pieces
        for batch in decode_found(view, records, options.columns, decoding)
        if batch.num_rows
    )
    for batch in batches:  # few of a piece may be wanted: Spark takes large ones more cheaply
        full = rows >= options.arrow_batch_rows or size + batch.nbytes > options.arrow_batch_bytes
        if held and full:
            yield _united(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if held:
        yield _united(held)


def _united(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
