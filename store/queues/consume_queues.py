"""All consume queues of a store: ``consumequeue/<topic>/<queueId>/`` (classes DefaultMessageStore,
ConsumeQueue).
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from ...remoting.protocol.record import MAX_TOPIC_BYTES
from ...remoting.slices import Steps
from ..disk.disk import Disk
from ..disk.mapped_file import MappedFile
from ..disk.mapped_file_queue import MappedFileQueue, refuse_other_lengths
from ..disk.mapping_limit import MappingLimit
from ..model.config import CQ_UNIT_SIZE
from ..model.errors import StoreFileError, translated
from .consume_queue import ConsumeQueue
from .consume_queue_ext import ConsumeQueueExts

log: Final = logging.getLogger(__name__)

_QUEUE_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def topic_problem(topic: str, queue_id: int) -> str | None:
    """Why a topic and a queue number cannot name a folder and stand in a record; None when they
    can."""
    if not topic or "/" in topic or "\0" in topic or topic in (".", ".."):
        return f"topic {topic!r} cannot name a folder"
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        return f"topic {topic!r} is no text"
    if size > MAX_TOPIC_BYTES:
        return f"topic {topic!r} is longer than {MAX_TOPIC_BYTES} bytes"
    if not 0 <= queue_id <= 0x7FFFFFFF:
        return f"queue id {queue_id} is out of range"
    return None


class ConsumeQueues:
    """The table of consume queues by (topic, queue id)."""

    def __init__(
        self, directory: Path, file_size: int, disk: Disk, mappings: MappingLimit | None = None
    ) -> None:
        self.directory: Final = directory
        self._where: Final = str(directory)
        self.table: Final[dict[tuple[str, int], ConsumeQueue]] = {}
        self.by_topic: Final[dict[str, dict[int, ConsumeQueue]]] = {}
        """The same by topic."""
        self._file_size: Final = file_size
        self._disk: Final = disk
        self.mappings: Final = mappings or MappingLimit()
        self.on_delete: Callable[[Iterable[tuple[str, int]]], None] = lambda _queues: None
        """Called with the queues that are about to be deleted."""
        self._gone: Final[set[MappedFile]] = set()
        """Somebody has deleted them; that is told."""
        self._removed = False
        """Folders were deleted; until that is durable they could come back after a power
        failure."""
        self.exts: ConsumeQueueExts | None = None
        """The extensions; None when no queue has one."""

    def load(self, known_file_size: int = 0) -> None:
        """Find the queues on the disk. Folders that cannot be those of one are left alone. Raises
        StoreFileError.

        A file of another length is damage when others have the configured one, or
        ``known_file_size`` says that they had.
        """
        disk = self._disk
        for topic in disk.listed(self._where) if disk.is_directory(self.directory) else ():
            if not topic.is_dir():
                raise StoreFileError(Path(topic.path), "is not a folder of a topic; move it away")
            for queue in disk.listed(topic.path):
                if queue.is_dir() and _QUEUE_ID.fullmatch(queue.name):
                    problem = topic_problem(topic.name, int(queue.name))
                    if problem is None:
                        self.get_or_create(topic.name, int(queue.name)).load()
                    else:
                        log.warning("no queue of a topic, left alone: %r: %s", queue.path, problem)
        if known_file_size != self._file_size:
            refuse_other_lengths([queue.files for queue in self.table.values()])
        if self.exts is not None:
            self._load_exts(self.exts)

    def _load_exts(self, exts: ConsumeQueueExts) -> None:
        for topic, queue_id in exts.found():
            if topic_problem(topic, queue_id) is not None:
                continue
            queue = (
                self.get_or_create(topic, queue_id) if exts.enabled else self.get(topic, queue_id)
            )
            if queue is not None and (ext := exts.load(topic, queue_id)) is not None:
                queue.ext = ext
        refuse_other_lengths(
            [queue.ext.files for queue in self.table.values() if queue.ext is not None]
        )

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self.table.get((topic, queue_id))

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue; a new one has no files until its first unit."""
        queue = self.table.get((topic, queue_id))
        if queue is None:
            directory = f"{self._where}/{topic}/{queue_id}"
            queue = ConsumeQueue(
                topic,
                queue_id,
                MappedFileQueue(directory, self._file_size, self._disk),
                self.mappings,
            )
            if self.exts is not None:
                queue.ext = self.exts.make(topic, queue_id)
            self.table[topic, queue_id] = self.by_topic.setdefault(topic, {})[queue_id] = queue
        return queue

    def all(self) -> list[ConsumeQueue]:
        return list(self.table.values())

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """The queues of a topic in the order of their ids."""
        return [queue for _, queue in sorted(self.by_topic.get(topic, {}).items())]

    def topics(self) -> set[str]:
        return set(self.by_topic)

    def delete_topic(self, topic: str, before: int | None = None) -> Steps[bool]:
        """Forget and delete the queues of a topic, one in a slice: a loaded disk takes milliseconds
        for the files of each. ``before``: those that have no message at or behind this place of the
        log. The records stay in the commit log until they expire. False when there are no queues. A
        queue that is made anew meanwhile is another one, and stays.
        """
        queues = self.by_topic.get(topic)
        if queues is None:
            return False
        for queue in list(queues.values()):
            if self.table.get((topic, queue.queue_id)) is not queue:
                continue
            if before is None or queue.known_end() <= before:
                self.delete(queue)
                yield
        if topic not in self.by_topic:
            self._disk.delete_tree(self.directory / topic)
            if self.exts is not None:
                self.exts.delete_topic(topic)
        return True

    def delete(self, queue: ConsumeQueue) -> None:
        """Forget and delete one queue: it starts at 0 again."""
        self.on_delete([(queue.topic, queue.queue_id)])
        del self.table[queue.topic, queue.queue_id]
        del self.by_topic[queue.topic][queue.queue_id]
        if not self.by_topic[queue.topic]:
            del self.by_topic[queue.topic]
        queue.clear()
        with contextlib.suppress(OSError):
            # unless there are others
            self._disk.delete_directory(self.directory / queue.topic)
        self._removed = True

    def close(self) -> None:
        for queue in self.table.values():
            queue.close()

    @property
    def lacks_folder_sync(self) -> bool:
        """A queue was deleted, and its name may come back with a power failure."""
        return self._removed

    def sync(self, queues: Iterable[ConsumeQueue]) -> None:
        """Put all units written so far on the disk, and the names of new files and folders. For a
        worker thread. Raises StoreFileError; the next call tries again what this one did not do.
        """
        new_folders, self._removed = self._removed, False
        try:
            for queue in queues:
                new_folders |= self._sync_written(queue)
            if new_folders and self._disk.is_directory(
                self.directory
            ):  # a queue without messages has none
                self._disk.sync_directory(self.directory)
                self._disk.sync_directory(self.directory.parent)
        except StoreFileError:
            self._removed |= new_folders
            raise

    def _sync_written(self, queue: ConsumeQueue) -> bool:
        """One queue, if something of it is not on the disk; True when its folder may be new."""
        has_new_names = (
            queue.files.new_files and queue.files.files
        )  # a half message makes a file and no unit
        if queue.flushed_offset >= queue.max_offset and not has_new_names:
            return False
        begin, end = queue.to_sync()
        synced = False
        try:
            new_names = self._sync_one(queue, begin * CQ_UNIT_SIZE, end * CQ_UNIT_SIZE)
            synced = True
        except StoreFileError:
            if self.table.get((queue.topic, queue.queue_id)) is queue:
                raise
            return False  # deleted meanwhile
        finally:
            if not synced:
                queue.sync_again(begin)
        return new_names

    def _sync_one(self, queue: ConsumeQueue, begin: int, end: int) -> bool:
        if self.exts is not None and queue.ext is not None:  # first, for the units point to it
            self.exts.sync(queue.ext, self._sync_file)
        for file in tuple(queue.files.files):
            if file.end > begin and file.start < end:
                self._sync_file(file)
        if not queue.files.new_files:
            return False
        queue.files.sync_directory(queue.files.directory.parent)
        return True

    def _sync_file(self, file: MappedFile) -> None:
        """One that somebody has deleted is left out: a start misses what the checkpoint claims of
        it, and makes it again. Raises StoreFileError."""
        try:
            file.sync()
        except StoreFileError:
            with translated(file.path, "cannot be looked at"):
                if file.deleted or self._disk.exists(file.path):
                    raise
            if file not in self._gone:
                self._gone.add(file)
                log.error(
                    "%s is gone: it is made again when the broker is started again", file.path
                )


def find_min_offsets(
    queues: Iterable[ConsumeQueue], min_phy_offset: int
) -> list[int | StoreFileError]:
    """``find_min_offset`` of each; the error of one that cannot be looked at."""
    found: list[int | StoreFileError] = []
    for queue in queues:
        try:
            found.append(queue.find_min_offset(min_phy_offset))
        except StoreFileError as error:
            found.append(error)
    return found
