"""Which parts of a store each task reads: the files of its commit log, or ranges of its queues."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from ...client.errors import ConfigError
from ...remoting.errors import RocketMQError
from ...remoting.protocol.record.layout import STORED_AT_SHOWN, stored_at
from ...store.inspect import QueueReader, StoreDirectory
from ...store.log.log_reader import FileSequence, StoredFile
from .store_options import StoreOptions, StorePlace

__all__ = [
    "LogFilePart",
    "Part",
    "QueuePart",
    "StoreDamageError",
    "log_sequence",
    "plan",
    "report_damage",
]

log: Final = logging.getLogger(__name__)

_CLOCK_STEP_MS: Final = 3_600_000
"""A broker's clock may have been set back: files are left out by their time only when they are off
by more."""


class StoreDamageError(RocketMQError):
    """A place in a store that should be a record and is none (``failOnDamage=true``)."""

    def __init__(self, path: Path, position: int, problem: str) -> None:
        super().__init__(
            f"{path}, byte {position}: {problem}. The command mqstore verify tells all that is "
            "wrong with a store; the "
            "option failOnDamage=false reads what is intact"
        )
        self.path = path
        self.position = position


class LogFilePart(msgspec.Struct, frozen=True):
    """One file of a commit log."""

    place: StorePlace
    file: StoredFile
    last: bool
    """No file follows."""


class QueuePart(msgspec.Struct, frozen=True):
    """Units ``[first, end)`` of one queue."""

    place: StorePlace
    folder: Path
    topic: str
    queue_id: int
    first: int
    end: int
    log_start: int
    log_end: int
    """What points before or behind these files of the log is left out: deleted long ago, or not of
    the wanted time."""


Part = LogFilePart | QueuePart


def plan(options: StoreOptions) -> list[Part]:
    """The parts of all stores, each for a task of its own. Raises ConfigError, StoreDamageError,
    OSError."""
    parts: list[Part] = []
    for place in options.stores:
        files = _log_files(place, options)
        parts += _queue_parts(place, files, options) if options.by_queue else files
    return parts


def log_sequence(place: StorePlace) -> FileSequence:
    """The files of the commit log as they are now."""
    return StoreDirectory(place.root, place.commit_logs).log_files()


def report_damage(path: Path, position: int, problem: str, fail: bool) -> None:
    """Raises StoreDamageError, or writes a warning where that is enough."""
    if fail:
        raise StoreDamageError(path, position, problem)
    log.warning("%s, byte %d: %s; going on behind it", path, position, problem)


def _log_files(place: StorePlace, options: StoreOptions) -> list[LogFilePart]:
    """The files that may hold messages of the wanted time."""
    sequence = log_sequence(place)
    files = _without_copies(sequence.files, options.fail_on_damage)
    for begin, end in sequence.holes():
        problem = f"the log has a hole: bytes {begin} to {end} are in no file"
        report_damage(place.commit_logs[0] / f"{begin:020d}", 0, problem, options.fail_on_damage)
    times = [_first_timestamp(file) for file in files]
    wanted = []
    for number, (file, oldest, newest) in enumerate(
        zip(files, times, [*times[1:], None], strict=False)
    ):
        too_old = (
            options.from_ms is not None
            and newest is not None
            and newest < options.from_ms - _CLOCK_STEP_MS
        )
        too_new = (
            options.until_ms is not None
            and oldest is not None
            and oldest > options.until_ms + _CLOCK_STEP_MS
        )
        if not too_old and not too_new:
            wanted.append(LogFilePart(place, file, number + 1 == len(files)))
    return wanted


def _without_copies(files: list[StoredFile], fail: bool) -> list[StoredFile]:
    kept: list[StoredFile] = []
    for file in files:
        if kept and kept[-1].start == file.start:
            report_damage(file.path, 0, f"is there twice, also as {kept[-1].path}", fail)
        else:
            kept.append(file)
    return kept


def _first_timestamp(file: StoredFile) -> int | None:
    """When the first record of a file was stored; ``None`` when it does not begin with one."""
    return stored_at(file.read(file.head, STORED_AT_SHOWN), any_version=True)


def _queue_parts(
    place: StorePlace, files: list[LogFilePart], options: StoreOptions
) -> Iterator[QueuePart]:
    _refuse_batches(place, options)
    queues = place.root / "consumequeue"
    if not queues.is_dir():
        raise StoreDamageError(
            queues,
            0,
            "is not there: without consume queues a store can only be read with partitionBy=file",
        )
    if not files:
        return
    for folder in sorted(
        queues.glob("*/*"), key=lambda path: (path.parent.name, path.name.zfill(10))
    ):
        if (
            not folder.name.isdecimal()
            or not folder.is_dir()
            or not options.wants_topic(folder.parent.name)
        ):
            continue
        queue = QueueReader(folder.parent.name, int(folder.name), folder)
        step = options.max_records_per_partition or max(1, queue.end - queue.first)
        for first in range(queue.first, queue.end, step):
            end = min(first + step, queue.end)
            log_start, log_end = files[0].file.start, files[-1].file.end
            yield QueuePart(
                place, folder, queue.topic, queue.queue_id, first, end, log_start, log_end
            )


def _refuse_batches(place: StorePlace, options: StoreOptions) -> None:
    """Topics whose messages RocketMQ 5 keeps in batches have queues of another form, elsewhere."""
    folders = (place.root / "batchconsumequeue").glob("*/*")
    topics = {each.parent.name for each in folders if options.wants_topic(each.parent.name)}
    if topics:
        raise ConfigError(
            f"{', '.join(sorted(topics))}: queues of batches (BatchCQ of RocketMQ 5) cannot be "
            "read: leave out partitionBy=queue, or name other topics"
        )
