"""``mqstore mend``: a store from which files of the commit log are gone for good opens again, with
what is left.

Nothing is deleted. Where files are missing between others, empty ones take their place: what they
held counts as damaged, what lies behind is kept. When the whole log is gone, it goes on behind what
it was known to have held, so that the numbers of the queues go on too. When only its end is gone,
the checkpoint takes back what it claims: the next start reads what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...daemon.printable import printable
from ...store.disk.lock_file import AbortFile
from ...store.disk.mapped_file import MappedFile
from ...store.disk.system_disk import PosixDisk
from ...store.inspect import StoreDirectory
from ...store.log.log_reader import FileSequence
from ...store.model.errors import StoreFileError
from ...store.queues.consume_queue import CQ_UNIT, FILLER_SIZE
from .entry_check import ELSEWHERE, refuse_member
from .sole_use import sole_use

__all__ = ["mend"]

_MISSING: Final = ("is missing", "is 0 bytes long")


def mend(root: Path, commit_log: Sequence[Path] = (), *, file_size: int) -> list[str]:
    """What was done, in lines; none when nothing is missing. ``file_size``: of the commit log, for
    when there is none.

    Raises StoreLockedError, StoreFileError, OSError; a file that does not belong there is for a
    person to look at.
    """
    directory = StoreDirectory(root, commit_log)
    refuse_member(directory, ELSEWHERE)
    with sole_use(directory) as log:
        for path, _, problem in log.problems:
            if not problem.startswith(_MISSING):
                raise StoreFileError(path, problem)
        return [printable(line) for line in _mend(directory, log, log.file_size or file_size)]


def _mend(directory: StoreDirectory, log: FileSequence, size: int) -> list[str]:
    done = []
    missing = [start for begin, end in log.holes() for start in range(begin, end, size)]
    claimed, end = _claimed(directory), log.files[-1].end if log.files else 0
    if missing or claimed > end > 0:
        _have_everything_read(directory)  # first: behind a stop in the middle nothing is missing
    for start in missing:
        path = _make_empty(directory, start, size)
        done.append(f"{path}: made, empty: the messages in it are lost, those behind it are kept")
    if claimed <= end:
        return done
    if not log.files:
        start = -(-claimed // size) * size
        path = _make_empty(directory, start, size)
        return [
            f"{path}: made, empty: the commit log goes on at {start}, and queues with their next "
            "number"
        ]
    claim = (
        f"{directory.root / 'checkpoint'}: does not claim the log up to {claimed} any more, "
        f"there is one up to {end}"
    )
    return [
        *done,
        f"{claim}: the next start reads all of it, and forgets the numbers of messages that are "
        "lost",
    ]


def _have_everything_read(directory: StoreDirectory) -> None:
    """By the next start, as after a crash: entries of consume queues must not point to what is
    lost."""
    AbortFile(directory.root / "abort", PosixDisk()).create()
    checkpoint = directory.checkpoint()
    checkpoint.safe_phy_offset = None
    checkpoint.physic_msg_timestamp = checkpoint.logics_msg_timestamp = 0
    checkpoint.save()


def _make_empty(directory: StoreDirectory, start: int, size: int) -> Path:
    disk = PosixDisk()
    folder = directory.commit_logs[start // size % len(directory.commit_logs)]
    file = MappedFile.create(folder, start, size, disk)
    disk.sync_directory(folder)
    return file.path


def _claimed(directory: StoreDirectory) -> int:
    """How far checkpoint and queues knew the log."""
    claimed = directory.checkpoint().safe_phy_offset or 0
    for reader in directory.queue_readers():
        for number in range(reader.end - 1, reader.first - 1, -1):
            phy_offset, size, _ = CQ_UNIT.unpack(reader.unit(number) or bytes(CQ_UNIT.size))
            if phy_offset >= 0 and 0 < size < FILLER_SIZE:
                claimed = max(claimed, phy_offset + size)
                break
    return claimed
