"""``mqstore verify``: everything in a store directory against everything else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ...store.inspect import StoreDirectory
from ...store.log.log_reader import Damage, LogReader, LogRecord, crc_engine
from ...store.model.delay_levels import parse_delay_levels
from .ends_check import check_ends
from .entry_check import EntryCheck
from .findings import Findings
from .index_check import IndexCheck
from .queue_check import QueueCheck

__all__ = ["DELAY_LEVELS", "Verdict", "verify"]

DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_PROGRESS_EVERY: Final = 1024
_CHECKPOINT_SIZE: Final = 4096
_SAFE_OFFSET_AT: Final = 4072


class Verdict(NamedTuple):
    """What verifying came to."""

    findings: int
    recoverable: int
    records: int
    log_bytes: int
    queues: int
    units: int
    index_files: int
    items: int
    seconds: float
    entries: str = ""
    """Of a DLedger member."""

    def __str__(self) -> str:
        return f"{self._judgement()}\n{self._figures()}"

    def _judgement(self) -> str:
        if not self.findings:
            return "clean: commit log, consume queues and index agree"
        count = f"{self.findings} finding{'s' if self.findings > 1 else ''}"
        if self.recoverable == self.findings:
            return (
                f"needs recovery: {count}, all of them work that a broker had not finished when "
                "it was stopped; "
                "the next start does it"
            )
        return f"DAMAGED: {count}"

    def _figures(self) -> str:
        speed = self.log_bytes / (1 << 20) / max(self.seconds, 1e-9)
        return (
            f"{self.records} records, {self.log_bytes} bytes of commit log"
            f"{self.entries and f' ({self.entries})'}; {self.units} entries "
            f"in {self.queues} consume "
            f"queues; {self.items} items in {self.index_files} index files; {self.seconds:.1f} s, "
            f"{speed:.1f} MiB/s, "
            f"CRC by {crc_engine()}"
        )


def verify(
    root: Path,
    tell: Callable[[str], None],
    *,
    delay_levels: str | None = None,
    slots: int | None = None,
    commit_log: Sequence[Path] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verdict:
    """Read everything and tell each finding in one line. Raises OSError when there is no commit log
    to read."""
    began = time.perf_counter()
    directory = StoreDirectory(root, commit_log)
    log = directory.log_files()
    findings = Findings(root, tell)
    recoverable = directory.has_abort_file
    for path, byte, problem in log.problems:
        findings.damage(path, byte, problem)
    for path, problem in log.notes:
        findings.note(path, problem)
    queues = QueueCheck(
        directory,
        log,
        findings,
        delay_levels=parse_delay_levels(delay_levels or DELAY_LEVELS),
        strict_levels=delay_levels is not None,
        recoverable=recoverable,
    )
    index = IndexCheck(root, log.start, findings, slots=slots, recoverable=recoverable)
    for begin, end in log.holes():
        queues.damaged(begin, end)
        index.damaged(begin, end)
    entries = EntryCheck.of(directory, findings)
    total = sum(file.length for file in log.files)
    reader = LogReader(log)
    newest, tails = _read_log(
        reader, Checks(queues, index, entries), findings, lambda at: progress(at - log.start, total)
    )
    _note_tails(tails, findings, recoverable=recoverable)
    progress(total, total)
    queues.finish(reader.end)
    index.finish(reader.end)
    if entries is not None:
        entries.finish()
    check_ends(directory, queues.readers, log.start, findings)
    _check_checkpoint(
        directory, findings, newest, log_end=reader.next_position, complete=not findings.count
    )
    return Verdict(
        findings.count,
        findings.recoverable,
        reader.records,
        reader.end - log.start,
        queues.queues,
        queues.units,
        len(index.paths),
        index.items,
        time.perf_counter() - began,
        "" if entries is None else str(entries),
    )


class Checks(NamedTuple):
    """What every record is shown to."""

    queues: QueueCheck
    items: IndexCheck
    entries: EntryCheck | None

    def record(self, record: LogRecord) -> None:
        entries = self.entries
        if entries is not None:
            entries.record(record)
            if entries.is_uncommitted() and not self.queues.has_entry(record):
                entries.uncommitted += 1
                return
        self.queues.record(record)
        self.items.record(record)

    def damaged(self, begin: int, end: int) -> None:
        self.queues.damaged(begin, end)
        self.items.damaged(begin, end)
        if self.entries is not None:
            self.entries.damaged(begin, end)


def _read_log(
    reader: LogReader,
    checks: Checks,
    findings: Findings,
    progress: Callable[[int], None],
) -> tuple[int, list[Damage]]:
    """Show every record to the checks. Returns the newest store time, and what lies behind the last
    record."""
    tails: list[Damage] = []
    newest = 0
    for item in reader.read():
        if not isinstance(item, Damage):
            checks.record(item)
            if item.store_timestamp > newest:
                newest = item.store_timestamp
            if reader.records % _PROGRESS_EVERY == 0:
                progress(item.phy_offset)
        elif item.tail:
            tails.append(item)
        else:
            findings.damage(item.path, item.position, _text(item))
            checks.damaged(item.begin, item.end)
    return newest, tails


def _text(damage: Damage) -> str:
    if damage.begin == damage.end:
        return damage.problem
    size = damage.end - damage.begin
    lost = (
        ""
        if "CRC" in damage.problem
        else f"; {size} bytes are lost, the log goes on at {damage.end}"
    )
    return f"record at {damage.begin}: {damage.problem}{lost}"


def _check_checkpoint(
    directory: StoreDirectory, findings: Findings, newest: int, *, log_end: int, complete: bool
) -> None:
    """It must not claim more than is there. If messages are lost, what it says about them is no
    further finding."""
    path = directory.root / "checkpoint"
    if not path.is_file():
        findings.note(path, "is missing: after a crash the whole log will be read")
        return
    if (length := path.stat().st_size) != _CHECKPOINT_SIZE:
        findings.damage(
            path,
            min(length, _CHECKPOINT_SIZE),
            f"is {length} bytes long instead of {_CHECKPOINT_SIZE}",
        )
        return
    checkpoint = directory.checkpoint()
    times = (
        checkpoint.physic_msg_timestamp,
        checkpoint.logics_msg_timestamp,
        checkpoint.index_msg_timestamp,
    )
    for byte, name, claimed in zip(
        (0, 8, 16), ("commit log", "consume queues", "index"), times, strict=True
    ):
        if not 0 <= claimed <= newest and complete and newest:
            problem = (
                f"says that the {name} is on the disk up to the store time {claimed}, the newest "
                f"message has {newest}"
            )
            findings.damage(path, byte, problem)
    if checkpoint.safe_phy_offset is not None and checkpoint.safe_phy_offset > log_end and complete:
        problem = (
            f"says that the log is on the disk up to {checkpoint.safe_phy_offset}, it ends at "
            f"{log_end}"
        )
        findings.damage(path, _SAFE_OFFSET_AT, problem)


def _note_tails(tails: list[Damage], findings: Findings, *, recoverable: bool) -> None:
    """What lies behind the last record.

    Without a crash it is a leftover of a recovery by the original, which clears nothing. A record
    that was acknowledged there has an entry that points to it, and that is a finding.
    """
    for tail in tails:
        if tail.empty or tail.begin == tail.end:
            continue
        if recoverable:
            problem = (
                f"the log ends at {tail.begin} with something that is no record: {tail.problem}"
            )
            findings.damage(tail.path, tail.position, problem, recoverable=True)
        else:
            findings.note(
                tail.path,
                f"byte {tail.position}: the log ends here, what follows is no record: "
                f"{tail.problem}",
            )
