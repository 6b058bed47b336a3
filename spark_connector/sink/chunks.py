"""Which rows go where, and in which frames. Pure.

Rows for any queue fill frames of up to ``batchBytes`` in the order of the rows. Rows that are bound
to a queue (by ``queueId``, ``shardingKey`` or ``orderly``) are grouped by queue and keep their
order there. For rows that were read from a topic (they have a ``queueOffset``) queues that the
topic written to does not have stand for others, a queue for a queue. What cannot be part of a batch
(a delay level, a body that is to be compressed, a retry topic) goes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...client.errors import MessageError
from ...client.producer.queue_choice import java_hash
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.message.topic_names import (
    SEND_FORBIDDEN_TOPICS,
    is_retry_topic,
    topic_error,
)
from ...remoting.protocol.record.layout import BATCH_ITEM, BATCH_ITEM_OVERHEAD, BatchItemHead
from .encode import Items, value_ends

__all__ = ["Chunk", "QueuesOf", "Rules", "chunks"]

QueuesOf = Callable[[str, Collection[str]], Sequence[MessageQueue]]
"""The queues of a topic that can be written to, sorted by broker name and queue id; the same ones
for a whole task, unless rows name further brokers, which have to be among theirs."""
_ANY: Final = -1
_MAX_DELAY_LEVEL: Final = 18
_HEAD_SIZE: Final = 20


class Chunk(NamedTuple):
    """What goes to one queue at once."""

    topic: str
    queue: MessageQueue | None
    """None: any queue of the topic."""
    body: memoryview
    """A batch body; of a single message its own."""
    rows: int
    properties: str | None = None
    """None for a batch; the property string of a single message."""
    flag: int = 0
    compress: bool = False


class Rules(NamedTuple):
    """The part of the options that matters here."""

    topic: str | None
    batch_bytes: int
    compress_over: int | None
    orderly_queue: int | None
    """All rows go to this queue of their topic (modulo the number of queues)."""


def chunks(batch: Any, items: Items, rules: Rules, queues_of: QueuesOf) -> Iterator[Chunk]:
    """The rows of a RecordBatch, cut and bound. Raises ``MessageError`` for a row that names no
    place."""
    delays = _delays(batch)
    alone = _go_alone(items, rules, delays)
    for topic, rows in _by_topic(batch, rules.topic):
        queues: Sequence[MessageQueue] = ()
        codes = _bound(batch, rows, rules, partial(queues_of, topic))
        if codes is not None:
            queues = queues_of(topic, ())
        singles = np.ones(batch.num_rows, bool) if is_retry_topic(topic) else alone
        for code in (_ANY,) if codes is None else np.unique(codes).tolist():
            chosen = rows if codes is None else _of_code(rows, codes, code, batch.num_rows)
            queue = None if code == _ANY else queues[code]
            yield from _cut(topic, queue, items, chosen, singles, delays, rules)


# --- which topic
# --------------------------------------------------------------------------------------------------


def _by_topic(batch: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    """Topic and row numbers, None for all rows."""
    if topic is not None:
        if batch.num_rows:
            yield topic, None
        return
    column = batch.column("topic")
    if column.null_count:
        raise MessageError("a row has no topic: fill the column, or give the option topic")
    encoded = pc.dictionary_encode(column)
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        if (why := topic_error(name)) is not None:
            raise MessageError(why)
        if name in SEND_FORBIDDEN_TOPICS:
            raise MessageError(
                f"the topic {name} belongs to the broker, nobody else may send to it"
            )
        yield name, None if len(encoded.dictionary) == 1 else np.flatnonzero(codes == number)


# --- which queue
# --------------------------------------------------------------------------------------------------


def _bound(
    batch: Any,
    rows: Any,
    rules: Rules,
    queues_of: Callable[[Collection[str]], Sequence[MessageQueue]],
) -> Any:
    """For each of the rows the index of its queue, or -1; None when no row is bound."""
    names = batch.schema.names
    count = batch.num_rows if rows is None else len(rows)
    if rules.orderly_queue is not None:
        codes = np.full(count, rules.orderly_queue % len(queues_of(())))
    elif "queueId" in names or "shardingKey" in names:
        codes = np.full(count, _ANY)
    else:
        return None

    def column(name: str) -> Any:
        return batch.column(name) if rows is None else batch.column(name).take(pa.array(rows))

    keys = column("shardingKey") if "shardingKey" in names else None
    queue_ids = column("queueId") if "queueId" in names else None
    brokers = column("brokerName") if "brokerName" in names else None
    read = column("queueOffset").is_valid() if "queueOffset" in names else pa.scalar(False)
    named: Collection[str] = ()
    if queue_ids is not None and brokers is not None:
        bound = pc.and_(queue_ids.is_valid(), pc.invert(read))
        named = pc.unique(brokers.filter(bound).drop_null()).to_pylist()
    if keys is not None and keys.null_count < count:
        _fill(codes, keys, _queues_of_keys(keys, queues_of(named)))
    if queue_ids is not None and queue_ids.null_count < count:
        _fill(codes, queue_ids, _named_queues(queue_ids, brokers, read, queues_of(named)))
    return codes if (codes != _ANY).any() else None


def _fill(codes: Any, column: Any, found: Any) -> None:
    there = column.is_valid().to_numpy(zero_copy_only=False)
    codes[there] = found[there]


def _queues_of_keys(keys: Any, queues: Sequence[MessageQueue]) -> Any:
    """Java's rule, worked out once for each different key."""
    hash_of = _long_hash if keys.type == pa.int64() else java_hash
    encoded = pc.dictionary_encode(keys)
    of_key = np.array(
        [abs(hash_of(key)) % len(queues) for key in encoded.dictionary.to_pylist()], np.int64
    )
    return of_key[pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)]


def _long_hash(key: int) -> int:
    """``Long.hashCode()``; that of an Integer is another one where the number is negative.

    >>> _long_hash(-7), _long_hash(7), _long_hash(1 << 33)
    (6, 7, 2)
    """
    folded = (key ^ (key >> 32)) & 0xFFFF_FFFF
    return folded - (1 << 32) if folded & 0x8000_0000 else folded


def _named_queues(queue_ids: Any, brokers: Any, read: Any, queues: Sequence[MessageQueue]) -> Any:
    """``read``: of the rows, or of all: these are queues of the topic that they were read from."""
    index: dict[tuple[str | None, int], int] = {
        (queue.broker_name, queue.queue_id): number for number, queue in enumerate(queues)
    }
    brokers_there = {queue.broker_name for queue in queues}
    only_broker = brokers_there.pop() if len(brokers_there) == 1 else None
    found = np.full(len(queue_ids), _ANY)
    known: dict[tuple[str | None, int, bool], int] = {}
    count = len(queue_ids)
    names = [None] * count if brokers is None else brokers.to_pylist()
    were_read = [read.as_py()] * count if isinstance(read, pa.Scalar) else read.to_pylist()
    for row, place in enumerate(zip(names, queue_ids.to_pylist(), were_read, strict=True)):
        name, queue_id, was_read = place
        if queue_id is None:
            continue
        number = known.get(place)
        if number is None:
            number = index.get((name or only_broker, queue_id))
            if number is None and not was_read:
                raise _no_queue(name or only_broker, queue_id, queues)
            if number is None:
                number = crc32(f"{name}:{queue_id}".encode()) % len(queues)
            known[place] = number
        found[row] = number
    return found


def _no_queue(name: str | None, queue_id: int, queues: Sequence[MessageQueue]) -> MessageError:
    if name is None:
        brokers = " and ".join(sorted({queue.broker_name for queue in queues}))
        return MessageError(f"queueId {queue_id} is on {brokers}: fill the column brokerName too")
    there = ", ".join(f"{queue.broker_name}:{queue.queue_id}" for queue in queues)
    return MessageError(f"{queues[0].topic} has no queue {queue_id} on {name}; it has {there}")


def _of_code(rows: Any, codes: Any, code: int, count: int) -> Any:
    chosen = np.flatnonzero(codes == code)
    if len(chosen) == count:
        return None
    return chosen if rows is None else rows[chosen]


# --- which frame
# --------------------------------------------------------------------------------------------------


def _delays(batch: Any) -> Any:
    if "delayLevel" not in batch.schema.names:
        return None
    delays = pc.fill_null(batch.column("delayLevel"), 0).to_numpy(zero_copy_only=False)
    if not delays.any():
        return None
    if delays.min() < 0 or delays.max() > _MAX_DELAY_LEVEL:
        raise MessageError(
            f"a delayLevel is 0 (none) to {_MAX_DELAY_LEVEL}; there are {delays.min()} to "
            f"{delays.max()}"
        )
    return delays


def _go_alone(items: Items, rules: Rules, delays: Any) -> Any:
    """A flag for each row, or None when all of them can be part of a batch."""
    alone = delays > 0 if delays is not None else None
    if rules.compress_over is not None:
        long = items.body_sizes >= rules.compress_over
        if long.any():
            alone = long if alone is None else alone | long
    return alone


def _cut(
    topic: str,
    queue: MessageQueue | None,
    items: Items,
    rows: Any,
    alone: Any,
    delays: Any,
    rules: Rules,
) -> Iterator[Chunk]:
    chosen = items.items if rows is None else items.items.take(pa.array(rows))
    ends = value_ends(chosen).astype(np.int64)  # as searchsorted would each time
    view = memoryview(chosen.buffers()[2]).toreadonly()
    start, count = 0, len(chosen)
    singles = (
        () if alone is None else np.flatnonzero(alone if rows is None else alone[rows]).tolist()
    )
    for single in (*singles, count):
        while start < single:
            stop = int(np.searchsorted(ends, int(ends[start]) + rules.batch_bytes, "right")) - 1
            stop = min(max(stop, start + 1), single)
            yield Chunk(topic, queue, view[int(ends[start]) : int(ends[stop])], stop - start)
            start = stop
        if single < count:
            row = single if rows is None else int(rows[single])
            yield _single(
                topic,
                queue,
                view[int(ends[single]) : int(ends[single + 1])],
                row,
                items,
                delays,
                rules,
            )
            start = single + 1


def _single(
    topic: str,
    queue: MessageQueue | None,
    item: memoryview,
    row: int,
    items: Items,
    delays: Any,
    rules: Rules,
) -> Chunk:
    """An item taken apart again."""
    size = int(items.body_sizes[row])
    flag = BatchItemHead._make(BATCH_ITEM.unpack_from(item)).flag
    properties = str(item[BATCH_ITEM_OVERHEAD + size :], "utf-8") + "\x02WAIT\x01true"
    if delays is not None and delays[row]:
        properties += f"\x02DELAY\x01{delays[row]}"
    compress = rules.compress_over is not None and size >= rules.compress_over
    return Chunk(topic, queue, item[_HEAD_SIZE : _HEAD_SIZE + size], 1, properties, flag, compress)
