"""``mqstore rebuild``: consume queues and index from the commit log alone.

The new files are made beside the old ones, synced, and take their place by renaming: whatever
happens in between, the directory has the old ones or none, and none are made again by the next
start or rebuild.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from ...daemon.printable import printable
from ...remoting.outages import Outages
from ...remoting.system_clock import SystemClock
from ...store.disk.holes import data_ranges
from ...store.disk.mapped_file_queue import MappedFileQueue
from ...store.disk.system_disk import PosixDisk
from ...store.index.index_file import HEADER_SIZE, ITEM
from ...store.index.index_files import IndexFiles
from ...store.index.indexing import Indexing
from ...store.inspect import QueueReader, StoreDirectory
from ...store.log.commit_log import CommitLog
from ...store.log.log_reader import FileSequence
from ...store.log.log_scanner import LogScanner
from ...store.model.config import MessageStoreConfig
from ...store.model.delay_levels import parse_delay_levels
from ...store.model.dispatch_request import DispatchRequest
from ...store.model.errors import StoreFileError
from ...store.put.multi_dispatch import DispatchRules
from ...store.put.unit_rules import UnitRules
from ...store.queues.consume_queue import CQ_UNIT, FILLER_SIZE, ConsumeQueue, end_of
from ...store.queues.consume_queues import ConsumeQueues, topic_problem
from ...store.queues.queue_ends import QueueEnd, QueueEnds
from ...store.recovery.queue_rebuild import QueueRebuild, keep_numbers
from .entry_check import refuse_member
from .index_check import index_paths, read_header
from .sole_use import sole_use
from .verify import DELAY_LEVELS

__all__ = ["RebuildSettings", "Rebuilt", "copy_store", "rebuild", "report_lines"]

_WORK: Final = "mqstore-rebuild"
_DERIVED: Final = ("consumequeue", "consumequeue_ext", "index", _WORK)
_NOT_COPIED: Final = {*_DERIVED, "lock"}
_COPY_STEP: Final = 8 << 20
_NAMED_QUEUES: Final = DispatchRules(light=True, max_light_queues=sys.maxsize)
"""Records say themselves which other queues they are in."""
_PROGRESS_EVERY: Final = 4096


class RebuildSettings(NamedTuple):
    """None: as the files that are there, else the defaults."""

    delay_levels: str = DELAY_LEVELS
    queue_file_size: int | None = None
    slots: int | None = None
    items: int | None = None
    with_index: bool = True

    def as_in(self, root: Path) -> RebuildSettings:
        """With the sizes of the files in a directory where nothing else was said."""
        slots, items = _index_sizes(root, self)
        return self._replace(
            queue_file_size=self.queue_file_size or _queue_file_size(root), slots=slots, items=items
        )


class Rebuilt(NamedTuple):
    """What came out."""

    records: int
    queues: int
    units: int
    index_files: int
    damaged: list[tuple[int, int]]
    """Ranges of the log that had to be skipped."""


def copy_store(source: Path, copy: Path, commit_log: Sequence[Path] = ()) -> None:
    """Everything but queues and index; holes stay holes. A commit log of several paths lies in one
    folder then. Raises StoreFileError when ``copy`` holds something, OSError.
    """
    if copy.exists() and (not copy.is_dir() or any(copy.iterdir())):
        raise StoreFileError(copy, "is there already; name a new folder")
    if copy.resolve().is_relative_to(source.resolve()):
        raise StoreFileError(
            copy, "lies in the store that is to be copied; name a folder outside of it"
        )
    copy.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.name in _NOT_COPIED:
            continue
        if path.is_dir():
            shutil.copytree(path, copy / path.name, copy_function=_copy_sparse)
        else:
            _copy_sparse(str(path), str(copy / path.name))
    for file in FileSequence(*commit_log).files if commit_log else ():
        target = copy / "commitlog" / file.path.name
        target.parent.mkdir(exist_ok=True)
        _copy_sparse(str(file.path), str(target))


def _copy_sparse(source: str, target: str) -> str:
    with open(source, "rb", buffering=0) as old, open(target, "wb", buffering=0) as new:
        stat = os.fstat(old.fileno())
        size = stat.st_size
        os.ftruncate(new.fileno(), size)
        for at, stop in data_ranges(old.fileno(), 0, size):
            while data := os.pread(old.fileno(), min(_COPY_STEP, stop - at), at):
                at += os.pwrite(new.fileno(), data, at)  # less, where a disk gets full
        os.fsync(new.fileno())
    os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # which table is newer, say
    return target


def rebuild(
    root: Path,
    settings: RebuildSettings,
    progress: Callable[[int, int], None] = lambda done, total: None,
    commit_log: Sequence[Path] = (),
    before: Path | None = None,
) -> Rebuilt:
    """Make queues and index anew. ``before``: the store that this is a copy of, whose queues tell
    which numbers were given. Raises StoreLockedError, StoreFileError, OutOfSpaceError, OSError."""
    directory = StoreDirectory(root, commit_log)
    refuse_member(
        directory,
        "move consumequeue/ and index/ away, its next start makes them of what is committed",
    )
    with sole_use(directory) as log:
        work = root / _WORK
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        old_queues = StoreDirectory(before or root).queue_readers
        return _Rebuild(directory, work, log.file_size, settings, old_queues).run(progress)


class _Rebuild:
    def __init__(
        self,
        directory: StoreDirectory,
        work: Path,
        file_size: int,
        settings: RebuildSettings,
        old_queues: Callable[[], Iterator[QueueReader]],
    ) -> None:
        root = self._root = directory.root
        self._work: Final = work
        self._disk: Final = PosixDisk()
        self._settings: Final = settings
        self._old_queues: Final = old_queues
        self._ends: Final = QueueEnds(root, self._disk, Outages(SystemClock()))
        known = self._ends.load()
        self._known: Final = (
            known if known is not None and known.belongs_to(directory.checkpoint()) else None
        )
        self._as_known = False
        self._log: Final = CommitLog(
            MappedFileQueue.on_paths(directory.commit_logs, (), file_size, self._disk)
        )
        found = settings.as_in(root)
        self._queues: Final = ConsumeQueues(
            work / "consumequeue", found.queue_file_size or 0, self._disk
        )
        clock = SystemClock()
        self._index: Final = IndexFiles(
            work / "index", found.slots or 0, found.items or 0, self._disk, clock.time_ms
        )
        self._indexing: Final = Indexing(self._index, clock)

    def run(self, progress: Callable[[int, int], None]) -> Rebuilt:
        with ExitStack() as failed:
            failed.callback(shutil.rmtree, self._work, ignore_errors=True)
            failed.callback(self._close)
            self._log.files.load()
            records, damaged = self._read(progress)
            self._sync()
            failed.pop_all()
        units = sum(queue.max_offset - queue.min_offset for queue in self._queues.all())
        index_files = len(self._index.paths)
        self._as_known = self._is_known()
        self._close()
        self._swap()
        return Rebuilt(records, len(self._queues.all()), units, index_files, damaged)

    def _read(self, progress: Callable[[int, int], None]) -> tuple[int, list[tuple[int, int]]]:
        """As recovery reads a whole log: the last record is left out if it was not written to its
        end."""
        scanner = LogScanner(self._log)
        rebuild = QueueRebuild(
            self._queues,
            UnitRules(parse_delay_levels(self._settings.delay_levels), dispatch=_NAMED_QUEUES),
            {},
            whole=True,
        )
        start, end = self._log.files.start, self._log.files.end
        last: DispatchRequest | None = None
        records = 0
        for request in scanner.scan(start):
            if last is not None:
                self._dispatch(rebuild, last)
            last = request
            records += 1
            if records % _PROGRESS_EVERY == 0:
                progress(request.phy_offset - start, end - start)
        if last is not None and rebuild.is_torn(last):
            records -= 1
        elif last is not None:
            self._dispatch(rebuild, last)
        rebuild.finish()
        self._keep_numbers(rebuild.restarted, scanner)
        if self._settings.with_index:
            self._indexing.build_all()
        progress(end - start, end - start)
        return records, scanner.damaged

    def _keep_numbers(self, restarted: Set[ConsumeQueue], scanner: LogScanner) -> None:
        """That the log tells nothing of. ``queueends`` knows them, where it is up to date; the old
        queues do where it is not, and where this makes it so."""
        known = dict(self._known.queues) if self._known is not None else {}
        for reader in self._old_queues():
            key = reader.topic, reader.queue_id
            if topic_problem(*key) is None and (end := self._old_end(reader, scanner)) is not None:
                known[key] = max(end, known.get(key, end), key=lambda each: each.next_offset)
        keep_numbers(self._queues, known, restarted, scanner.end)
        for queue in self._queues.all():
            if queue.max_offset and not queue.files.files:  # the file that it begins tells it
                following = queue.max_offset
                queue.begin_at(following - 1)
                queue.fill_to(following, scanner.end)

    def _old_end(self, reader: QueueReader, scanner: LogScanner) -> QueueEnd | None:
        """Of a queue that reached further: its last messages have expired, or are damaged. Units
        of others behind its end may be what is left of a log that was cut."""
        queue = self._queues.get(reader.topic, reader.queue_id)
        reached = reader.first if queue is None else max(queue.max_offset, reader.first)
        lost = [(0, self._log.files.start), *scanner.damaged]
        for number in range(reader.end - 1, reached - 1, -1):
            phy_offset, size, _ = CQ_UNIT.unpack(reader.unit(number) or bytes(CQ_UNIT.size))
            stop = end_of(phy_offset, size)
            places = [(0, scanner.end)] if size == FILLER_SIZE else lost
            if size > 0 and any(begin <= phy_offset and stop <= end for begin, end in places):
                return QueueEnd(number + 1, stop, reader.first)
        return None

    def _dispatch(self, rebuild: QueueRebuild, request: DispatchRequest) -> None:
        rebuild.dispatch(request)
        if self._settings.with_index:
            self._indexing.dispatch(request)

    def _sync(self) -> None:
        """Nothing takes the place of the old files before it is on the disk."""
        for queue in self._queues.all():
            for file in queue.files.files:
                file.sync()
        self._index.sync(self._index.sync_work())
        folders = [path for path in self._work.rglob("*") if path.is_dir()]
        for folder in [*folders, self._work, self._root]:
            self._disk.sync_directory(folder)

    def _is_known(self) -> bool:
        """The queues reach as far as ``queueends`` says."""
        known = {} if self._known is None else self._known.queues
        reached = {
            (queue.topic, queue.queue_id): (queue.max_offset, queue.known_end())
            for queue in self._queues.all()
        }
        return reached == {key: (end.next_offset, end.phy_end) for key, end in known.items()}

    def _swap(self) -> None:
        if not self._as_known:  # queues of deleted topics are there again, say
            self._ends.path.unlink(missing_ok=True)
            self._disk.sync_directory(self._root)
        names = [
            "consumequeue",
            "consumequeue_ext",
            *(["index"] if self._settings.with_index else []),
        ]
        for name in names:
            old, new = self._root / name, self._work / name
            if old.exists():
                old.rename(self._work / f"{name}.old")
            if new.exists():
                new.rename(old)
        self._disk.sync_directory(self._root)
        shutil.rmtree(self._work)

    def _close(self) -> None:
        self._indexing.close()
        self._index.close()
        self._queues.close()
        self._log.files.close()


def _queue_file_size(root: Path) -> int:
    for reader in StoreDirectory(root).queue_readers():
        if reader.sequence.file_size and reader.sequence.file_size % 20 == 0:
            return reader.sequence.file_size
    return MessageStoreConfig().consume_queue_file_size


def _index_sizes(root: Path, settings: RebuildSettings) -> tuple[int, int]:
    """Slots and items; without ``--items`` as many as the files that are there have space for."""
    default = MessageStoreConfig()
    for path in index_paths(root)[0]:
        header = read_header(path)
        slots = settings.slots or (header.slots if header is not None else 0)
        if header is not None and slots:
            items, rest = divmod(header.length - HEADER_SIZE - slots * 4, ITEM.size)
            if items > 1 and not rest:
                return slots, settings.items or items
    return settings.slots or default.max_hash_slot_num, settings.items or default.max_index_num


def report_lines(rebuilt: Rebuilt) -> list[str]:
    """The result in lines."""
    lines = [
        printable(f"commitlog: {begin}..{end} is damaged: {end - begin} bytes were skipped")
        for begin, end in rebuilt.damaged
    ]
    lines.append(
        f"rebuilt from {rebuilt.records} records: {rebuilt.units} entries in {rebuilt.queues} "
        "consume queues, "
        f"{rebuilt.index_files} index files"
    )
    return lines
