"""What brokers hand out, asked for in every way: they agree, at slaves and followers, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from aiorocketmq.remoting.protocol.message.properties import PropertyName
from aiorocketmq.remoting.protocol.record.decode import MessageExt, read_messages
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.message_store import MessageStore

FOREVER: Final = (1 << 63) - 1
MOST_FOUND: Final = 32
"""A delayed message is delivered again after each kill, and kills may follow each other fast."""


class Place(NamedTuple):
    """Of a message."""

    topic: str
    broker: str
    queue_id: int
    offset: int


Stored = dict[Place, bytes]


def said(place: Place) -> str:
    return f"{place.broker}/{place.topic}/{place.queue_id} {place.offset}"


def stored(store: MessageStore, broker: str, topics: Iterable[str]) -> Stored:
    """Every message of the topics that a broker hands out."""
    return {place: each.body for place, each in messages(store, broker, topics).items()}


def messages(store: MessageStore, broker: str, topics: Iterable[str]) -> dict[Place, MessageExt]:
    """By queue and offset. (At a damaged place a slave has consumers wait for its master's.)"""
    found: dict[Place, MessageExt] = {}
    for topic in topics:
        for queue_id in range(16):
            offset = store.min_offset(topic, queue_id)
            while offset < store.max_offset(topic, queue_id):
                result = store.get(topic, queue_id, offset)
                for message in read_messages(bytes(result.body), broker)[0]:
                    found[Place(topic, broker, queue_id, message.queue_offset)] = message
                if result.next_begin_offset <= offset and not store.damage.places:
                    break
                offset = max(result.next_begin_offset, offset + 1)
    return found


def reads_differ(
    store: MessageStore, name: str, there: dict[Place, MessageExt], damaged: dict[int, int]
) -> Iterator[str]:
    """What is read from ``store``, of a broker with that machine, by its offset in the log, by its
    unique key and by its time, against ``there``, what it has by queue. What was ``damaged`` (from,
    size) need not have a key: what is mended is not indexed, the index is in the log's order."""
    queues: dict[tuple[str, int], list[tuple[Place, MessageExt]]] = defaultdict(list)
    for place, message in sorted(there.items()):
        queues[place.topic, place.queue_id].append((place, message))
        record = store.readable_record(message.commit_log_offset)
        if record is None or message.body not in record:
            yield f"{said(place)} is not read from {name} at {message.commit_log_offset}"
        at = message.commit_log_offset
        was_damaged = any(begin <= at < begin + size for begin, size in damaged.items())
        if not was_damaged and not _by_key(store, message):
            yield f"{said(place)} is not found at {name} by {message.msg_id}"
    for (topic, queue_id), lying in queues.items():
        times = [message.store_timestamp for _, message in lying]
        for place, message in lying:
            at = store.entries.stored_at(topic, queue_id, place.offset)
            if at != message.store_timestamp:
                yield f"{said(place)} was stored at {message.store_timestamp}, {name} says {at}"
        ordered = all(one <= other for one, other in pairwise(times))  # no clock was set back
        if ordered and not store.damage.places:  # or a number may have no message, and no time
            for place, message in lying[:: max(1, len(lying) // 4)]:
                number = store.entries.offset_by_time(topic, queue_id, message.store_timestamp)
                behind = (each for at, each in lying if at.offset >= number)
                found = next(behind, None)  # a number may have lost its message
                if found is None or found.store_timestamp != message.store_timestamp:
                    yield f"{name} finds {number} for the time of {said(place)}"


def _by_key(store: MessageStore, message: MessageExt) -> bool:
    key = message.properties.get(PropertyName.UNIQ_KEY)
    if not key:
        return True
    query = store.query.steps(message.topic, key, MOST_FOUND, 0, FOREVER)
    found = [each.commit_log_offset for each in read_messages(at_once(query).records, "")[0]]
    return message.commit_log_offset in found or len(found) >= MOST_FOUND
