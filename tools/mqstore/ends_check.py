"""``queueends`` against consume queues and index: what the log cannot tell, because it has lost the
messages as well, or does not know that there was an index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...remoting.outages import Outages
from ...remoting.system_clock import SystemClock
from ...store.disk.system_disk import PosixDisk
from ...store.index.index_files import lost_ranges
from ...store.inspect import QueueReader, StoreDirectory
from ...store.queues.consume_queue import CQ_UNIT, FILLER_SIZE
from ...store.queues.queue_ends import QueueEnd, QueueEnds, QueueKey
from .findings import Findings
from .index_check import index_paths, read_header

__all__ = ["check_ends"]


def check_ends(
    directory: StoreDirectory,
    queues: Mapping[QueueKey, QueueReader],
    log_start: int,
    findings: Findings,
) -> None:
    """Tell what no other check has told. Raises StoreFileError when the file cannot be read."""
    ends = QueueEnds(directory.root, PosixDisk(), Outages(SystemClock()))
    if not ends.path.is_file():
        return  # a store of the original, say
    known = ends.load()
    if known is None:
        findings.damage(
            ends.path, 0, "is damaged: the next start reads the entries of all consume queues"
        )
    if known is None or not known.belongs_to(directory.checkpoint()):
        return
    topics = directory.topics()
    for key, end in sorted(known.queues.items()):
        folder = directory.root / "consumequeue" / key[0]
        if topics is None or key[0] in topics or folder.is_dir():  # else it was deleted
            _check_queue(folder / str(key[1]), queues.get(key), end, findings)
    _check_index(directory.root, known.index_ranges, log_start, findings)


def _check_index(
    root: Path, known: Sequence[tuple[int, int]], log_start: int, findings: Findings
) -> None:
    if findings.has_told_of(root / "index"):
        return
    headers = [
        header
        for path in index_paths(root)[0]
        if (header := read_header(path)) is not None and header.next_item > 1
    ]
    present = [(header.begin_phy_offset, header.end_phy_offset) for header in headers]
    if lost := lost_ranges(known, present, log_start):
        problem = f"has lost files: it had items of the messages from {lost[0][0]} to {lost[-1][1]}"
        findings.damage(root / "index", 0, problem)


def _check_queue(
    folder: Path, reader: QueueReader | None, end: QueueEnd, findings: Findings
) -> None:
    if end.phy_end < 0 or findings.has_told_of(folder):
        return
    if reader is None:
        findings.damage(folder, 0, f"is missing: it had entries up to {end.next_offset}")
        return
    path, byte = reader.where(end.next_offset - 1)
    unit = reader.unit(end.next_offset - 1)
    if not unit:
        findings.damage(path, byte, f"entry {end.next_offset - 1} is missing")
        return
    phy_offset, size, _ = CQ_UNIT.unpack(unit)
    if phy_offset + (0 if size == FILLER_SIZE else size) != end.phy_end:
        problem = (
            f"entry {end.next_offset - 1} is not what it was: its message ended at {end.phy_end}"
        )
        findings.damage(path, byte, problem)
