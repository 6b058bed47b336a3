"""What one task of a batch or of a stream does on an executor: pull, decode, hand over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...client.namespaces import without_namespace
from ..access.options import SourceOptions
from .fetch import RangeReader, SocketCluster, settle_worker
from .planner import QueueRange

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_ranges"]

Hints = Mapping[str, Mapping[int, str]]
"""Addresses by broker name and id."""


def read_ranges(
    ranges: Sequence[QueueRange], hints: Hints, options: SourceOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The messages of these ranges, in the order of each queue.

    Raises ``DataLossError``, ``DamagedMessageError``, ``RangeTimeoutError``, ``BrokerError``,
    ``DecodeError``, ``PropertyValueError``.
    """
    from ..decode.decode import DecodeOptions, decode_records
    from ..decode.property_columns import PropertyColumns
    from ..decode.schema import property_types

    settle_worker()
    keep_tags = frozenset(tag.strip() for tag in options.tags.split("||") if tag.strip())
    own = PropertyColumns(property_types(options.property_columns), fail=options.fail_on_property)
    decoding = partial(
        DecodeOptions,
        check_crc=options.check_crc,
        fail_on_damage=options.fail_on_damage,
        decompress=options.decompress,
        keep_tags=keep_tags if options.tags != "*" else None,
        drop_ids=set() if options.drop_spark_duplicates else None,
        most_bytes=options.arrow_batch_bytes,
        properties=own,
    )
    try:
        for piece in RangeReader(ranges, hints, options, SocketCluster(options)):
            of_broker = decoding(broker_name=piece.broker_name)
            edges = piece.begins, piece.ends
            for batch in decode_records(piece.buffer, columns, of_broker, edges, piece.offsets):
                if batch.num_rows:
                    yield _bare(batch, columns, options.connection.namespace)
    finally:  # also of a task that is cut short
        own.tell()


def _bare(batch: pa.RecordBatch, columns: Sequence[str], namespace: str | None) -> pa.RecordBatch:
    """With topics as the program knows them."""
    if namespace is None or "topic" not in columns:
        return batch
    import pyarrow as pa

    at = list(columns).index("topic")
    names = batch.column(at).dictionary_encode()
    bare = pa.array(
        [without_namespace(name, namespace) for name in names.dictionary.to_pylist()], pa.string()
    )
    return batch.set_column(at, batch.schema.field(at), bare.take(names.indices))
