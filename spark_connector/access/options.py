"""The options of the source, parsed once into values that are sent to executors (spark.md §5.3;
Kafka's names and meanings).

How to reach the cluster stands in ``connection_options.py``.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from ...client.errors import ConfigError
from ...client.usage_errors import checked_group, checked_topic
from .connection_options import ConnectionOptions, read_connection
from .expected import Expected, read_expected
from .offsets import LATEST, QueueValue, parse_assignment, parse_queue_values
from .option_reader import OptionReader, check_ms

__all__ = [
    "OptionReader",
    "Position",
    "PositionKind",
    "SourceOptions",
    "parse_source_options",
    "read_arrow_bytes",
]

DEFAULT_GROUP: Final = "spark-rocketmq-source"
"""Brokers count pulls by group and may insist that it exists; a new name per query would fill their
tables."""
_GROUP_NAMES: Final = ("consumerGroup", "rocketmq.group")
PROPERTY_MODES: Final = ("permissive", "failfast")
"""What becomes of a property that is no value of its column's type: null, or the query fails."""
MOST_PER_PULL: Final = 4096
_MOST_ARROW_BYTES: Final = 512 << 20
"""A column of Arrow ends at 2 GiB; a batch may be twice as long as ``arrowBatchBytes``, and texts
of addresses are longer than what is stored of them."""


# --- where to begin and to end
# --------------------------------------------------------------------------------------


class PositionKind(Enum):
    """How a position in a queue is named."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"
    """Where ``consumerGroup`` stands."""
    OFFSETS = "offsets"
    """By queue; -2 earliest, -1 latest."""
    TIMESTAMP = "timestamp"
    """One time for all queues (ms)."""
    TIMESTAMPS = "timestamps"
    """By queue."""


@dataclass(frozen=True)
class Position:
    """Where reading begins or ends in each queue."""

    kind: PositionKind
    values: tuple[QueueValue, ...] = ()
    timestamp_ms: int = 0
    option: str = ""
    """The option it came from, for texts."""


def _position(
    reader: OptionReader, which: str, *, given: bool, default: PositionKind
) -> Position | None:
    """``starting...`` or ``ending...``: a time counts more than times by queue, those more than
    offsets (as in Kafka)."""
    names = (f"{which}Timestamp", f"{which}OffsetsByTimestamp", f"{which}Offsets")
    timestamp = reader.time_ms(names[0])
    by_queue, offsets = reader.text(names[1]), reader.text(names[2])
    if not given:
        return (
            None
            if (timestamp, by_queue, offsets) == (None, None, None)
            else Position(default, option=which)
        )
    if timestamp is not None:
        return Position(PositionKind.TIMESTAMP, timestamp_ms=timestamp, option=names[0])
    if by_queue is not None:
        times = parse_queue_values(names[1], by_queue, lowest=0)
        for each in times:
            check_ms(names[1], each.value)
        return Position(PositionKind.TIMESTAMPS, times, option=names[1])
    if offsets is None:
        return Position(default, option=names[2])
    if offsets.lower() in ("earliest", "latest", "group"):
        return Position(PositionKind(offsets.lower()), option=names[2])
    if not offsets.startswith("{"):
        raise ConfigError(
            f"option {names[2]} must be earliest, latest, group or JSON, not {offsets!r}; a time "
            f"is given with {names[0]}"
        )
    return Position(PositionKind.OFFSETS, parse_queue_values(names[2], offsets), option=names[2])


# --- the source
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceOptions:
    """The options of a read or a stream; see ``docs/spark.md`` for each."""

    connection: ConnectionOptions
    topics: tuple[str, ...]
    topic_pattern: str | None
    assigned: tuple[QueueValue, ...]
    starting: Position
    ending: Position
    starting_missing: str
    timestamp_strategy: str
    tags: str
    sql: str | None
    group: str
    commit_to_group: bool
    fail_on_data_loss: bool
    fail_on_damage: bool
    expected: Expected
    min_partitions: int | None
    max_records_per_partition: int | None
    max_partitions: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    retries: int
    retry_interval_ms: int
    poll_timeout_ms: int
    route_interval_ms: int
    pull_batch_size: int
    pull_max_bytes: int
    pulls_in_flight: int
    arrow_batch_rows: int
    arrow_batch_bytes: int
    include_properties: bool
    columns: str | None
    property_columns: str | None
    fail_on_property: bool
    check_crc: bool
    decompress: bool
    drop_spark_duplicates: bool


def parse_source_options(
    options: Mapping[str, str], *, streaming: bool, environment: Mapping[str, str] = os.environ
) -> SourceOptions:
    """Raises ``ConfigError`` naming the option and what it takes."""
    reader = OptionReader(options, environment)
    connection = read_connection(reader, environment)
    topics, pattern, assigned = _subscription(reader)
    starting, ending = _positions(reader, streaming=streaming)
    tags, sql = _expression(reader)
    group = _group(reader)
    parsed = SourceOptions(
        connection=connection,
        topics=topics,
        topic_pattern=pattern,
        assigned=assigned,
        starting=starting,
        ending=ending,
        starting_missing=reader.choice(
            "startingOffsetsMissing", "error", ("error", "earliest", "latest")
        ),
        timestamp_strategy=reader.choice(
            "startingOffsetsByTimestampStrategy", "error", ("error", "latest")
        ),
        tags=tags,
        sql=sql,
        group=group or DEFAULT_GROUP,
        commit_to_group=reader.boolean("commitOffsetsToGroup", False),
        fail_on_data_loss=reader.boolean("failOnDataLoss", True),
        fail_on_damage=reader.boolean("failOnDamage", True),
        expected=read_expected(reader),
        min_partitions=reader.optional_integer("minPartitions"),
        max_records_per_partition=reader.optional_integer("maxRecordsPerPartition"),
        max_partitions=reader.optional_integer("maxPartitions"),
        max_offsets_per_trigger=reader.optional_integer("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=reader.optional_integer("minOffsetsPerTrigger"),
        max_trigger_delay_ms=reader.duration_ms("maxTriggerDelay", "15m"),
        retries=reader.integer("fetchOffset.numRetries", 3, lowest=0, highest=1000),
        retry_interval_ms=reader.integer(
            "fetchOffset.retryIntervalMs", 10, lowest=0, highest=600_000
        ),
        poll_timeout_ms=reader.integer("rocketmqConsumer.pollTimeoutMs", 120_000),
        route_interval_ms=reader.duration_ms("newQueuePollInterval", "5s"),
        pull_batch_size=reader.integer("pullBatchSize", 1024, highest=MOST_PER_PULL),
        pull_max_bytes=reader.size_bytes("pullMaxBytes", "32m", lowest=1 << 16),
        pulls_in_flight=reader.integer("pullsInFlight", 16, highest=256),
        arrow_batch_rows=reader.integer("arrowBatchRows", 16_384),
        arrow_batch_bytes=read_arrow_bytes(reader),
        include_properties=reader.boolean("includeProperties", False),
        columns=reader.text("columns"),
        property_columns=reader.text("propertyColumns"),
        fail_on_property=reader.choice("propertyColumnsMode", "permissive", PROPERTY_MODES)
        == "failfast",
        check_crc=reader.boolean("checkCrc", True),
        decompress=reader.boolean("decompress", True),
        drop_spark_duplicates=reader.boolean("dropSparkDuplicates", False),
    )
    reader.finish()
    _check(parsed, group_named=reader.text(*_GROUP_NAMES) is not None)
    return _in_one_task(parsed, streaming) if parsed.drop_spark_duplicates else parsed


def read_arrow_bytes(reader: OptionReader) -> int:
    """``arrowBatchBytes``. Raises ``ConfigError``."""
    return reader.size_bytes("arrowBatchBytes", "8m", lowest=1 << 10, highest=_MOST_ARROW_BYTES)


def _in_one_task(options: SourceOptions, streaming: bool) -> SourceOptions:
    """A row and its duplicate may be in different queues: who drops one has to see both."""
    other = "use drop_spark_duplicates(frame) of aiorocketmq.spark_connector.sink.dedup"
    if streaming:
        why = "in a stream a duplicate may come in a later micro-batch"
        raise ConfigError(f"option dropSparkDuplicates is for batch reads: {why}; {other}")
    if options.min_partitions or options.max_records_per_partition or options.max_partitions:
        raise ConfigError(
            "option dropSparkDuplicates reads everything in one task, which keeps the ids: leave "
            f"minPartitions, maxRecordsPerPartition and maxPartitions out, or {other}"
        )
    return replace(options, max_partitions=1)


def _subscription(
    reader: OptionReader,
) -> tuple[tuple[str, ...], str | None, tuple[QueueValue, ...]]:
    subscribe, pattern, assign = (
        reader.text("subscribe", "topic"),
        reader.text("subscribePattern"),
        reader.text("assign"),
    )
    ways = sum(each is not None for each in (subscribe, pattern, assign))
    one = "give exactly one of the options subscribe (or topic), subscribePattern and assign"
    if ways > 1:
        raise ConfigError(one)
    if not ways:
        reader.lacks(one)
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"option subscribePattern is no regular expression: {error}"
            ) from None
    topics = _names(subscribe)
    assigned = parse_assignment("assign", assign) if assign is not None else ()
    if subscribe is not None and not topics:
        raise ConfigError(f"option subscribe names no topic: {subscribe!r}")
    for topic in (*topics, *(each.topic for each in assigned)):
        checked_topic(topic)
    return topics, pattern, assigned


def _names(text: str | None) -> tuple[str, ...]:
    """What stands between commas, each once."""
    return tuple(dict.fromkeys(name for each in (text or "").split(",") if (name := each.strip())))


def _positions(reader: OptionReader, *, streaming: bool) -> tuple[Position, Position]:
    default = PositionKind.LATEST if streaming else PositionKind.EARLIEST
    starting = _position(reader, "starting", given=True, default=default)
    ending = _position(reader, "ending", given=not streaming, default=PositionKind.LATEST)
    assert starting is not None
    if streaming:
        if ending is not None:
            raise ConfigError(
                "a stream has no end: the options endingOffsets, endingTimestamp, ... are for "
                "batch reads"
            )
        return starting, Position(PositionKind.LATEST)
    assert ending is not None
    if starting.kind is PositionKind.LATEST or any(v.value == LATEST for v in starting.values):
        raise ConfigError(
            "a batch read from the latest offset on would read nothing: choose another "
            "startingOffsets"
        )
    if ending.kind in (PositionKind.EARLIEST, PositionKind.GROUP):
        raise ConfigError(
            f"option endingOffsets cannot be {ending.kind.value}; give latest or JSON"
        )
    if ending.kind is PositionKind.OFFSETS and any(v.value < LATEST for v in ending.values):
        raise ConfigError(
            "option endingOffsets: -2 (earliest) cannot be an end; give an offset, or -1 for latest"
        )
    times = (starting.kind, ending.kind) == (PositionKind.TIMESTAMP, PositionKind.TIMESTAMP)
    if times and starting.timestamp_ms > ending.timestamp_ms:
        raise ConfigError(
            f"option startingTimestamp ({starting.timestamp_ms}) is after endingTimestamp "
            f"({ending.timestamp_ms})"
        )
    return starting, ending


def _expression(reader: OptionReader) -> tuple[str, str | None]:
    """Tags, and SQL92 where it is that: ``TagA || TagB``, ``sql: amount > 3``."""
    text = reader.text("subExpression") or "*"
    if not text.lower().startswith("sql:"):
        if text != "*" and not any(tag.strip() for tag in text.split("||")):
            raise ConfigError(
                f"option subExpression names no tag: {text!r}; write TagA || TagB, or "
                "sql:<expression>"
            )
        return text, None
    if not text[4:].strip():
        raise ConfigError("option subExpression has no expression behind sql:")
    return "*", text[4:].strip()


def _group(reader: OptionReader) -> str | None:
    group, prefix = reader.text(*_GROUP_NAMES), reader.text("groupIdPrefix")
    if group is not None and prefix is not None:
        raise ConfigError("give either the option consumerGroup or groupIdPrefix")
    if prefix is not None:
        checked_group(prefix)
        return f"{prefix}-{uuid.uuid4()}"
    return None if group is None else checked_group(group)


def _check(options: SourceOptions, *, group_named: bool) -> None:
    """``group_named``: by the user. One with a random part has no offsets, nobody looks for any
    there, and each start of a query would make brokers know another one."""
    if not group_named and (options.commit_to_group or options.starting.kind is PositionKind.GROUP):
        what = "commitOffsetsToGroup" if options.commit_to_group else "startingOffsets=group"
        raise ConfigError(f"option {what} needs to know which group: add consumerGroup")
    low, high = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if low is not None and high is not None and low > high:
        raise ConfigError(
            f"option minOffsetsPerTrigger ({low}) is above maxOffsetsPerTrigger ({high})"
        )
