"""The options of the sink, parsed once into values that are sent to the tasks (spark.md §5.3)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...client.errors import ConfigError
from ...client.producer.batches import DEFAULT_MAX_BYTES
from ...client.usage_errors import checked_group, checked_topic
from ..access.connection_options import ConnectionOptions, read_connection
from ..access.option_reader import OptionReader

__all__ = ["SinkOptions", "parse_sink_options"]

DEFAULT_GROUP: Final = "spark-rocketmq-sink"
_GUARANTEES: Final = ("at_least_once", "exactly_once")
_MOST_BATCHES: Final = 200_000_000
"""So many fit into the numbers of rows (``manifest.py``)."""
_WRITE_ID: Final = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z_.-]{0,99}")
_OF_SPARK: Final = ("checkpointLocation", "queryName")


@dataclass(frozen=True)
class SinkOptions:
    """The options of a write; see ``docs/spark.md`` for each."""

    connection: ConnectionOptions
    topic: str | None
    group: str
    send_timeout_s: float
    delivery_timeout_s: float
    retries: int | None
    batch_bytes: int
    max_in_flight: int
    compress_over: int | None
    dedup: bool
    dedup_prefix: str | None
    dedup_key_columns: tuple[str, ...]
    orderly: bool
    require_send_ok: bool
    drop_reserved: bool | None
    """None: of rows that were read from a topic."""
    exactly_once: bool
    staging_location: str
    """Where rows wait until one attempt of each task is chosen; empty without ``exactly_once``."""
    checkpoint: str | None
    """Of the query, where its option says so."""
    write_id: str | None
    """Of a batch write: the same one when it is repeated."""
    batch: int | None
    """Of several writes with one ``write_id``, one after the other. None: in ``foreachBatch`` the
    number of the micro-batch, elsewhere 0."""


def parse_sink_options(
    options: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> SinkOptions:
    """Raises ``ConfigError`` naming the option and what it takes."""
    reader = OptionReader(options, environment)
    reader.allow(*_OF_SPARK)
    topic = reader.text("topic")
    checkpoint = options.get("checkpointLocation") or options.get("checkpointlocation")
    exactly_once = reader.choice("guarantee", "at_least_once", _GUARANTEES) == "exactly_once"
    parsed = SinkOptions(
        connection=read_connection(reader, environment),
        topic=None if topic is None else checked_topic(topic),
        group=checked_group(reader.text("producerGroup") or DEFAULT_GROUP),
        send_timeout_s=reader.duration_ms("sendTimeoutMs", "10s") / 1000,
        delivery_timeout_s=reader.duration_ms("deliveryTimeout", "120s") / 1000,
        retries=reader.optional_integer("retries", lowest=0),
        batch_bytes=reader.size_bytes("batchBytes", "256k", lowest=1 << 10),
        max_in_flight=reader.integer("maxInFlight", 8, highest=1024),
        compress_over=reader.size_bytes("compressThreshold", "0")
        if reader.text("compressThreshold")
        else None,
        dedup=reader.boolean("dedupId", not exactly_once),
        dedup_prefix=reader.text("dedupPrefix"),
        dedup_key_columns=_names(reader.text("dedupKeyColumns")),
        orderly=reader.boolean("orderly", False),
        require_send_ok=reader.boolean("requireSendOk", True),
        drop_reserved=_drop_reserved(reader),
        exactly_once=exactly_once,
        staging_location=reader.text("stagingLocation") or _in_checkpoint(checkpoint),
        checkpoint=checkpoint,
        write_id=reader.text("writeId"),
        batch=reader.optional_integer("batchId", lowest=0, highest=_MOST_BATCHES),
    )
    reader.finish()
    _check(parsed)
    return parsed


def _in_checkpoint(checkpoint: str | None) -> str:
    """The default: beside the rest of what a query remembers."""
    return f"{checkpoint.rstrip('/')}/rocketmq-sink" if checkpoint else ""


def _drop_reserved(reader: OptionReader) -> bool | None:
    if reader.text("reservedProperties") is None:
        return None
    return reader.choice("reservedProperties", "error", ("error", "drop")) == "drop"


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name for each in (text or "").split(",") if (name := each.strip()))


def _check(options: SinkOptions) -> None:
    if options.exactly_once and not options.staging_location:
        raise ConfigError(
            "guarantee=exactly_once needs stagingLocation, a folder that the driver and all "
            "executors reach; a query with the option checkpointLocation uses a folder of that"
        )
    if options.write_id is not None and (
        not options.exactly_once or _WRITE_ID.fullmatch(options.write_id) is None
    ):
        raise ConfigError(
            "option writeId is for guarantee=exactly_once, and of letters, digits, - _ and . (not "
            f"the first), not {options.write_id!r}"
        )
    if options.batch is not None and options.write_id is None:
        raise ConfigError("option batchId counts the writes of one writeId: give that, too")
    if options.send_timeout_s <= 0:
        raise ConfigError("option sendTimeoutMs must be greater than 0")
    if options.delivery_timeout_s <= 0:
        raise ConfigError(
            "option deliveryTimeout must be greater than 0; retries=0 fails at the first failure"
        )
    if options.batch_bytes > DEFAULT_MAX_BYTES:
        raise ConfigError(
            f"option batchBytes is at most {DEFAULT_MAX_BYTES} (maxMessageSize of the brokers)"
        )
    if not options.dedup and (options.dedup_prefix or options.dedup_key_columns):
        raise ConfigError("dedupId=false makes no ids: leave dedupPrefix and dedupKeyColumns out")
    if options.exactly_once and options.dedup_prefix:
        raise ConfigError(
            "option dedupPrefix is for guarantee=at_least_once: exactly_once has writeId, and "
            "queries have their ids"
        )
    if options.dedup_prefix and ("\x01" in options.dedup_prefix or "\x02" in options.dedup_prefix):
        raise ConfigError(
            "option dedupPrefix must not hold U+0001 or U+0002, which separate properties"
        )
