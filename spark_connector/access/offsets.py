"""Offsets of queues: what stands in options and checkpoints, and what one trigger takes. Pure.

``{"topic": {"broker": {"queue": offset}}}`` is the JSON everywhere (as in rocketmq-spark); an
offset is that of the next message to read, so an end is exclusive. Brokers are named, not
addressed: a slave that takes over keeps offsets valid. In options the level of brokers may be left
out where only one broker has the topic, and -2 means earliest, -1 latest.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ...client.errors import ConfigError
from ...remoting.protocol.message.message_queue import MessageQueue

__all__ = [
    "EARLIEST",
    "LATEST",
    "Offsets",
    "QueueValue",
    "backlog",
    "behind",
    "clamp",
    "from_json",
    "parse_assignment",
    "parse_queue_values",
    "rate_limited",
    "resolve",
    "to_json",
]

Offsets = dict[MessageQueue, int]
"""Of the next message to read, by queue."""

EARLIEST: Final = -2
LATEST: Final = -1

_MAX_OFFSET: Final = 2**63 - 1
_MAX_QUEUE_ID: Final = 2**31 - 1
_DECIMAL: Final = re.compile(r"-?[0-9]{1,19}")


class QueueValue(NamedTuple):
    """An offset or a time that an option gives for one queue. ``broker_name`` None: the only broker
    that has the topic."""

    topic: str
    broker_name: str | None
    queue_id: int
    value: int


# --- JSON
# --------------------------------------------------------------------------------------------------


def to_json(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """As Spark keeps it; always in the same order, because Spark compares texts.

    >>> to_json({MessageQueue("t", "b", 10): 7, MessageQueue("t", "b", 2): 5})
    {'t': {'b': {'2': 5, '10': 7}}}
    """
    table: dict[str, dict[str, dict[str, int]]] = {}
    for topic, broker_name, queue_id in sorted(offsets):
        queue = MessageQueue(topic, broker_name, queue_id)
        table.setdefault(topic, {}).setdefault(broker_name, {})[str(queue_id)] = offsets[queue]
    return table


def from_json(table: object) -> Offsets:
    """What ``to_json`` made, out of a checkpoint. Raises ``ConfigError`` for anything else."""
    values = _queue_values("the checkpoint", table, lowest=0, highest=_MAX_OFFSET)
    offsets = {
        MessageQueue(v.topic, v.broker_name, v.queue_id): v.value
        for v in values
        if v.broker_name is not None
    }
    if len(offsets) < len(values):
        raise ConfigError(
            "the checkpoint has offsets without a broker's name: it was not written by this source"
        )
    return offsets


def parse_queue_values(option: str, text: str, *, lowest: int = EARLIEST) -> tuple[QueueValue, ...]:
    """The values of an option such as ``startingOffsets``. Raises ``ConfigError``."""
    values = _queue_values(
        f"option {option}", _load(option, text), lowest=lowest, highest=_MAX_OFFSET
    )
    if not values:
        raise ConfigError(f"option {option} names no queue: {text}")
    return tuple(values)


def parse_assignment(option: str, text: str) -> tuple[QueueValue, ...]:
    """``{"topic": {"broker": [0, 1]}}`` or ``{"topic": [0, 1]}``; the values are 0. Raises
    ``ConfigError``."""
    found = []
    for topic, rest in _level(option, _load(option, text)):
        for broker_name, queues in (
            [(None, rest)] if isinstance(rest, list) else _level(option, rest)
        ):
            if not isinstance(queues, list):
                raise ConfigError(
                    f'option {option} must look like {{"topic": {{"broker": [0, 1]}}}}: {text}'
                )
            found += [
                QueueValue(topic, broker_name, _number(option, queue, 0, _MAX_QUEUE_ID), 0)
                for queue in queues
            ]
    if not found:
        raise ConfigError(f"option {option} names no queue: {text}")
    return tuple(dict.fromkeys(found))


def _load(option: str, text: str) -> object:
    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        table: dict[str, object] = {}
        for name, value in pairs:
            if name in table:
                raise ValueError(f"{name} stands there twice, side by side")
            table[name] = value
        return table

    try:
        loaded: object = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"option {option} is no JSON: {error}") from None
    return loaded


def _queue_values(where: str, table: object, *, lowest: int, highest: int) -> list[QueueValue]:
    found: list[QueueValue] = []
    for topic, brokers in _level(where, table):
        for name, value in _level(where, brokers):
            if not isinstance(value, dict):
                found.append(
                    QueueValue(
                        topic,
                        None,
                        _number(where, name, 0, _MAX_QUEUE_ID),
                        _number(where, value, lowest, highest),
                    )
                )
                continue
            found += [
                QueueValue(
                    topic,
                    name,
                    _number(where, queue, 0, _MAX_QUEUE_ID),
                    _number(where, offset, lowest, highest),
                )
                for queue, offset in value.items()
            ]
    return found


def _level(where: str, value: object) -> Iterable[tuple[str, object]]:
    if not isinstance(value, dict):
        raise ConfigError(
            f'{where} must look like {{"topic": {{"broker": {{"0": 5}}}}}}, not {value!r}'
        )
    return value.items()


def _number(where: str, value: object, lowest: int, highest: int) -> int:
    """A whole number, or its text: keys of JSON are text."""
    number = value
    if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
        number = int(value)
    if type(number) is not int or not lowest <= number <= highest:
        raise ConfigError(f"{where}: {value!r} is no whole number between {lowest} and {highest}")
    return number


def resolve(option: str, values: Iterable[QueueValue], queues: Iterable[MessageQueue]) -> Offsets:
    """The values by queue, those without a broker completed.

    Raises ``ConfigError`` for a queue that is not among ``queues``, one with two values, and where
    several brokers have the topic.
    """
    known = set(queues)
    brokers: dict[str, set[str]] = {}
    for queue in known:
        brokers.setdefault(queue.topic, set()).add(queue.broker_name)
    found: Offsets = {}
    for topic, broker_name, queue_id, value in values:
        names = brokers.get(topic, set())
        if broker_name is None and len(names) > 1:
            raise ConfigError(
                f"option {option}: several brokers have the topic {topic}, name them: "
                f'{{"{topic}": {{"{min(names)}": {{"{queue_id}": ...}}}}}}; there are '
                f"{', '.join(sorted(names))}"
            )
        queue = MessageQueue(
            topic, min(names, default="") if broker_name is None else broker_name, queue_id
        )
        if queue not in known:
            raise ConfigError(
                f"option {option}: the queue {_told(queue)} is not among those that are read: "
                f"{_some(known)}"
            )
        if found.setdefault(queue, value) != value:
            raise ConfigError(
                f"option {option}: the queue {_told(queue)} stands there twice, with "
                f"{found[queue]} and with {value}"
            )
    return found


def _told(queue: MessageQueue) -> str:
    return f"{queue.topic}/{queue.broker_name or '?'}/{queue.queue_id}"


def _some(queues: Iterable[MessageQueue]) -> str:
    names = [_told(queue) for queue in sorted(queues)]
    return (
        ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") or "none"
    )


# --- one trigger
# --------------------------------------------------------------------------------------------------


def backlog(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> int:
    """Offsets from ``start`` to ``end``; a queue that is not in ``start`` counts from 0."""
    return sum(max(0, until - start.get(queue, 0)) for queue, until in end.items())


def behind(start: Mapping[MessageQueue, int], latest: Mapping[MessageQueue, int]) -> Offsets:
    """Queues whose latest offset lies before where we are: something of theirs is gone."""
    return {
        queue: latest[queue]
        for queue in sorted(start)
        if queue in latest and latest[queue] < start[queue]
    }


def clamp(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> Offsets:
    """``end`` where it is not behind ``start``, and queues of ``start`` that ``end`` does not have
    stay where they are: Spark reads again whatever an offset goes back over."""
    return {
        queue: max(start.get(queue, 0), end.get(queue, 0)) for queue in start.keys() | end.keys()
    }


def rate_limited(
    start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int], limit: int
) -> Offsets:
    """``end``, or less of each queue in proportion to its backlog, so that it is about ``limit`` in
    all.

    As Kafka's: a share below one offset becomes one, so that small queues are not forgotten beside
    large ones. ``start`` has every queue of ``end``.
    """
    total = backlog(start, end)
    if total <= limit:
        return dict(end)
    limited: Offsets = {}
    for queue, until in end.items():
        begin = start[queue]
        size = until - begin
        if size <= 0:
            limited[queue] = until
            continue
        share = limit * size / total
        limited[queue] = min(
            until, begin + (math.ceil(share) if share < 1 else limit * size // total)
        )
    return limited
