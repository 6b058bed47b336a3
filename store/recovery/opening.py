"""What a store directory must be like to be opened, and what is made of one where a power failure
took names of files.

Nothing here deletes anything. Where messages seem to be missing that somebody may still have (a
disk that is not mounted, a file that was moved), opening is refused, with a text that tells how to
go on without them: ``mqstore mend``.
"""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ...remoting.protocol.fastjson.reader import JsonError, loads
from ..disk.checkpoint import Checkpoint
from ..disk.disk import Disk, Lock
from ..disk.mapped_file_queue import MappedFileQueue
from ..disk.system_disk import SystemDisk
from ..log.commit_log import CommitLog
from ..model.errors import MissingFileError, StoreFileError, translated
from ..queues.consume_queues import ConsumeQueues
from ..queues.queue_ends import KnownEnds

log: Final = logging.getLogger(__name__)

REMEDY: Final = (
    "put them back; if they are lost, `mqstore mend` (broker stopped) lets it go on with what is "
    "left"
)

_MOST_WRITTEN_AGAIN: Final = 256 << 20
"""A sync is tried several times a second, and after one that failed nothing more is taken."""
MEMBER_REMEDY: Final = (
    "put them back; if they are lost, remove the folder dledger-<dLegerSelfId> and leave config: "
    "the member gets everything from its leader, and does not vote before it has it"
)


def make_directories(paths: Sequence[Path], disk: Disk) -> None:
    """Make folders, with names that outlive a power failure. Raises StoreFileError."""
    for path in paths:
        with translated(path, "cannot be made"):
            missing = [folder for folder in (path, *path.parents) if not disk.exists(folder)]
            disk.make_directories(path)
        for folder in missing:
            disk.sync_directory(folder.parent)


@contextlib.contextmanager
def locked_directory(root: Path, disk: Disk | None = None) -> Iterator[Lock]:
    """A store directory, made if need be, that nobody else uses: for who keeps more in it than the
    store. Raises StoreLockedError, StoreFileError."""
    disk = disk or SystemDisk()
    make_directories((root,), disk)
    lock = disk.lock(root / "lock")
    lock.acquire()
    try:
        yield lock
    finally:
        lock.release()


def load_commit_log(
    files: MappedFileQueue,
    checkpoint: Checkpoint,
    disk: Disk,
    *,
    clean: bool,
    remedy: str = REMEDY,
) -> None:
    """Take in the files of the commit log. Raises StoreFileError; ``remedy``: what to do then.

    A missing file is made anew, empty, when nobody was ever told that it is on the disk: names are
    synced before anything is acknowledged, so a power failure can only have taken those of files
    that held nothing acknowledged. Recovery skips it, what lies behind it is kept.
    """
    while True:
        try:
            files.load()
            break
        except MissingFileError as error:
            if (
                clean
                or len(files.directories) > 1
                or not _claims_nothing_from(checkpoint, error.start)
            ):
                raise StoreFileError(
                    error.path, f"{error.problem}: files of the commit log are missing; {remedy}"
                ) from error
            log.error(
                "%s; nothing in it had been acknowledged as synced: the log goes on without it",
                error,
            )
            files.make(error.start)
    for file in files.files:
        # Better now than when somebody asks for a message in it.
        if not disk.is_usable(file.path):
            raise StoreFileError(file.path, "cannot be used: Permission denied")


def configured_topics(root: Path, disk: Disk) -> set[str] | None:
    """The topics that ``config/topics.json`` knows; None when it cannot be read."""
    try:
        value = loads(disk.contents(root / "config" / "topics.json"))
    except (OSError, JsonError):
        return None
    table = value.get("topicConfigTable") if isinstance(value, dict) else None
    return set(map(str, table)) if isinstance(table, dict) else None


def _claims_nothing_from(checkpoint: Checkpoint, phy_offset: int) -> bool:
    safe = checkpoint.safe_phy_offset
    return safe <= phy_offset if safe is not None else not checkpoint.min_timestamp


def check_claims(
    files: MappedFileQueue,
    queues: ConsumeQueues,
    checkpoint: Checkpoint,
    known: KnownEnds | None,
    *,
    clean: bool,
) -> None:
    """The commit log does not end in front of what is known to have been on the disk. Where the
    checkpoint tells nothing, ``known`` does, which has a checksum, unlike the queues; unless a
    broker of the original has worked here since. Raises StoreFileError."""
    safe, end = checkpoint.safe_phy_offset, files.end
    if safe is not None:
        claimed, who = safe, "the checkpoint"
    elif not clean and (end or checkpoint.logics_msg_timestamp <= 0):
        return
    elif known is not None and checkpoint.physic_msg_timestamp <= known.timestamps[0]:
        claimed, who = known.safe_phy_offset, "queueends"
    else:
        claimed = max((queue.end_phy_offset() for queue in queues.all()), default=0)
        who = "its consume queues"
    if claimed > end:
        where = ", ".join(map(str, files.directories))
        what = f"the commit log ends at {end}" if end else "there is no commit log"
        raise StoreFileError(
            files.directory,
            f"{what}, but {who} knew it up to {claimed}: files are missing; is the disk mounted "
            f"at {where}? "
            f"Otherwise {REMEDY}"
            + ("" if end else "; to start empty, choose another storePathRootDir"),
        )


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """For work that makes many objects and no cycles: a tenth faster."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def write_again(commit_log: CommitLog, begin: int, end: int) -> None:
    """What was found behind the checkpoint at [begin, end): it may be in the kernel's memory only,
    if it was a sync that failed that ended the last run."""
    try:
        commit_log.write_again(max(begin, end - _MOST_WRITTEN_AGAIN), end)
    except StoreFileError as error:  # a disk without space may still be read
        log.warning(
            "the end of the commit log could not be written once more; if a sync has failed before "
            "this start, part of it may not be on the disk: %s",
            error,
        )
