"""The options of ``format("rocketmq-store")``, parsed on the driver into values that are sent to
executors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...client.errors import ConfigError
from ...store.inspect import StoreDirectory
from ...store.model.errors import StoreFileError
from ..access.option_reader import OptionReader
from ..access.options import PROPERTY_MODES, read_arrow_bytes
from ..decode.schema import chosen_columns, property_types

__all__ = ["StoreOptions", "StorePlace", "parse_store_options"]

_LOG_FILE: Final = re.compile(r"[0-9]{20}")
_OTHER_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


@dataclass(frozen=True)
class StorePlace:
    """One store: a directory that has at least the files of a commit log in it."""

    root: Path
    commit_logs: tuple[Path, ...]
    """The directories of the commit log: mostly ``root/commitlog``."""
    broker_name: str
    """What the column ``brokerName`` says: files do not tell whose they are."""


@dataclass(frozen=True)
class StoreOptions:
    """The options of a read."""

    stores: tuple[StorePlace, ...]
    topics: tuple[str, ...]
    topic_pattern: str | None
    from_ms: int | None
    until_ms: int | None
    by_queue: bool
    tags: frozenset[str] | None
    columns: tuple[str, ...]
    property_types: dict[str, str]
    """Columns that are properties, and their types."""
    fail_on_property: bool
    fail_on_damage: bool
    check_crc: bool
    decompress: bool
    max_records_per_partition: int | None
    arrow_batch_rows: int
    arrow_batch_bytes: int

    def wants_topic(self, topic: str) -> bool:
        if self.topic_pattern is not None:
            return re.fullmatch(self.topic_pattern, topic) is not None
        return not self.topics or topic in self.topics

    @property
    def filters_topics(self) -> bool:
        return bool(self.topics) or self.topic_pattern is not None


def parse_store_options(options: Mapping[str, str]) -> StoreOptions:
    """Raises ``ConfigError`` naming the option and what it takes."""
    reader = OptionReader(options)
    stores = _stores(reader)
    topics, pattern = _topics(reader)
    by_queue = reader.choice("partitionBy", "file", ("file", "queue")) == "queue"
    from_ms, until_ms = (
        reader.time_ms("startingTimestamp"),
        reader.time_ms("endingTimestamp", lowest=1),
    )
    if from_ms is not None and until_ms is not None and from_ms >= until_ms:
        raise ConfigError(
            f"option startingTimestamp ({from_ms}) must be before endingTimestamp ({until_ms})"
        )
    most = reader.optional_integer("maxRecordsPerPartition")
    if most is not None and not by_queue:
        raise ConfigError(
            "option maxRecordsPerPartition needs partitionBy=queue: only queues count their "
            "messages"
        )
    include = reader.boolean("includeProperties", False)
    own = property_types(reader.text("propertyColumns"))
    parsed = StoreOptions(
        stores=stores,
        topics=topics,
        topic_pattern=pattern,
        from_ms=from_ms,
        until_ms=until_ms,
        by_queue=by_queue,
        tags=_tags(reader),
        columns=chosen_columns(reader.text("columns"), include, own),
        property_types=own,
        fail_on_property=reader.choice("propertyColumnsMode", "permissive", PROPERTY_MODES)
        == "failfast",
        fail_on_damage=reader.boolean("failOnDamage", True),
        check_crc=reader.boolean("checkCrc", True),
        decompress=reader.boolean("decompress", True),
        max_records_per_partition=most,
        arrow_batch_rows=reader.integer("arrowBatchRows", 16_384),
        arrow_batch_bytes=read_arrow_bytes(reader),
    )
    reader.finish()
    return parsed


# --- where
# --------------------------------------------------------------------------------------------------


def _stores(reader: OptionReader) -> tuple[StorePlace, ...]:
    roots = [_local(text) for text in _paths(reader)]
    logs, names = reader.text("storePathCommitLog"), reader.text("brokerName")
    if logs is not None and len(roots) > 1:
        raise ConfigError(
            "option storePathCommitLog belongs to one store; read several in several DataFrames "
            "and unite them"
        )
    own = None if logs is None else tuple(_local(each) for each in _listed(logs))
    broker_names = [root.name for root in roots] if names is None else _listed(names)
    if len(broker_names) != len(roots):
        raise ConfigError(
            f"option brokerName must name as many brokers as there are stores: {len(roots)}"
        )
    return tuple(_place(root, own, name) for root, name in zip(roots, broker_names, strict=True))


def _paths(reader: OptionReader) -> list[str]:
    """``load(path)``, ``load([path, path])`` (which Spark turns into JSON) and ``option("path",
    "one,other")``."""
    one, several = reader.text("path"), reader.text("paths")
    if several is not None:
        try:
            paths = [str(each) for each in json.loads(several)]
        except (ValueError, TypeError):
            raise ConfigError(
                f"option paths must be a JSON list of directories, not {several!r}"
            ) from None
    else:
        paths = _listed(one or "")
    if not paths:
        raise ConfigError(
            'name the store: load("/path/of/store"), or option path, several separated by commas'
        )
    return paths


def _listed(text: str) -> list[str]:
    return [part for each in text.split(",") if (part := each.strip())]


def _local(text: str) -> Path:
    """A directory that is there. Executors may have another working directory, so the path becomes
    a full one."""
    bare = (
        text.removeprefix("file://") if text.startswith("file:///") else text.removeprefix("file:")
    )
    if match := _OTHER_SCHEME.match(bare):
        raise ConfigError(
            f"{text}: a store is read as files; mount the {match[1]} storage on driver and "
            "executors and give that path"
        )
    path = Path(bare).expanduser().absolute()
    if not path.is_dir():
        raise ConfigError(
            f"{path} is not a directory on the driver; a store must be there, and on every "
            "executor, by that path"
        )
    return path


def _place(root: Path, logs: tuple[Path, ...] | None, broker_name: str) -> StorePlace:
    if logs is not None:
        return StorePlace(root, logs, broker_name)
    try:
        found = StoreDirectory(root).commit_logs
    except StoreFileError as error:
        raise ConfigError(str(error)) from error
    if found[0].is_dir():
        return StorePlace(root, found, broker_name)
    if any(_LOG_FILE.fullmatch(path.name) for path in root.iterdir()):
        return StorePlace(root, (root,), broker_name)  # only the log was copied
    raise ConfigError(
        f"{root} is no store: it has no directory commitlog, or dledger-<id>, and no files of a "
        "commit log (names of 20 digits); where the log lies elsewhere, name that with the option "
        "storePathCommitLog"
    )


# --- what
# --------------------------------------------------------------------------------------------------


def _topics(reader: OptionReader) -> tuple[tuple[str, ...], str | None]:
    text, pattern = (
        reader.text("topic", "subscribe"),
        reader.text("topicPattern", "subscribePattern"),
    )
    if text is not None and pattern is not None:
        raise ConfigError("give either the option topic or topicPattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"option topicPattern is no regular expression: {error}") from None
    topics = tuple(dict.fromkeys(_listed(text or "")))
    if text is not None and not topics:
        raise ConfigError(f"option topic names no topic: {text!r}")
    return topics, pattern


def _tags(reader: OptionReader) -> frozenset[str] | None:
    text = reader.text("subExpression")
    if text is None or text == "*":
        return None
    if text.lower().startswith("sql:"):
        raise ConfigError(
            "option subExpression takes tags here (TagA || TagB): filter with DataFrame.where "
            "instead of sql:"
        )
    tags = frozenset(tag for each in text.split("||") if (tag := each.strip()))
    if not tags:
        raise ConfigError(f"option subExpression names no tag: {text!r}; write TagA || TagB")
    return tags
