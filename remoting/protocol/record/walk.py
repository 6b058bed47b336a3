"""From record to record through a file of a commit log, and behind damaged places to where it goes
on.

The bytes come from whoever walks. Behind damage the log goes on with the next record that proves
itself and is not older than the last one: an older one is a leftover of a log that was cut here
once, and not of this log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from .crc import BodyCrc, body_crc
from .entry import INDEX_AND_TERM
from .entry_verdict import BEFORE_ALL, EntryEnd, entry_verdict_of
from .layout import SIZE_AND_MAGIC, size_and_magic
from .scan import Records, entry_of, scan
from .search import LOOKED_AT, possible_records
from .verdict import SECTOR, NoRecord, Parts, Reason, Verdict, take_apart

CHUNK: Final = 1 << 20
"""Read and looked at at once: less than a millisecond's work."""
_ZEROS: Final = bytes(CHUNK + LOOKED_AT)


class LogFile(NamedTuple):
    """A file of a commit log."""

    start: int
    """Physical offset of its first byte."""
    size: int
    read: Callable[[int, int], bytes]
    """Some bytes: position, how many; fewer where the file ends."""
    data_ranges: Callable[[int], Iterable[tuple[int, int]]]
    """From a position on, what may hold something else than zeros: from, to."""
    head: int = 0
    """48: of a DLedger log, with the heads of entries (``scan``)."""


class Gap(NamedTuple):
    """Bytes of one file, from one physical offset to another, that are no intact record."""

    begin: int
    end: int
    verdict: Verdict
    """Of what lies at ``begin``. ``Reason.BLANK``: this is as it should be."""
    tail: bool = False
    """No intact record follows in this file: the log may simply end here."""


class LogWalk:
    """Through the files of a log, one after the other. A DLedger log goes on behind damage with a
    higher index instead of a later time."""

    def __init__(
        self,
        *,
        crc: BodyCrc | None = body_crc,
        any_version: bool = False,
        timestamp: int = 0,
        chunk: int = CHUNK,
        after: EntryEnd | None = None,
    ) -> None:
        self._crc: Final = crc
        self._any_version: Final = any_version
        self._chunk: Final = chunk
        self.after: EntryEnd | None = after
        """The last entry, ``None`` before the first one."""
        self._gap_before: bool = False
        """Behind the last one something is damaged."""
        self.timestamp: int = timestamp
        """When the last record was stored."""
        self.position: int = 0
        """Physical offset of what is looked at."""

    def through(self, file: LogFile, position: int = 0) -> Iterator[Records | Gap]:
        """From a position, where a record or its head begins, to the end of a file."""
        wanted = self._chunk
        while True:
            self.position = file.start + position
            size, left = min(wanted, file.size - position), file.size - position
            data = file.read(position, size)
            left = left if len(data) == size else len(data)  # somebody has cut the file short
            records, end, verdict = scan(
                data, self.position, left=left, crc=self._crc, any_version=self._any_version,
                head=file.head, after=None if self._gap_before else self.after,
            )  # fmt: skip
            position += end
            if end:
                self.position, self.timestamp = file.start + position, records.store_timestamps[-1]
                if file.head:
                    self.after, self._gap_before = entry_of(records, -1), False
                yield records
            wanted = max(self._chunk, verdict.needed)
            if verdict.reason is not Reason.MORE:
                gap = self._gap(file, position, verdict)
                if file.head and verdict.reason is Reason.CRC:
                    self.after = EntryEnd._make(INDEX_AND_TERM.unpack_from(data, end))
                elif verdict.reason is not Reason.BLANK:
                    self._gap_before = True
                yield gap
                position = gap.end - file.start
                if position >= file.size:
                    return

    def _gap(self, file: LogFile, position: int, verdict: Verdict) -> Gap:
        begin = file.start + position
        if verdict.reason is Reason.BLANK:
            return Gap(begin, file.start + file.size, verdict)
        if verdict.reason is Reason.CRC:
            return Gap(begin, begin + verdict.size, verdict)
        following = self.next_intact(file, position + 1)
        return Gap(
            begin,
            file.start + (file.size if following is None else following),
            verdict,
            following is None,
        )

    def next_intact(self, file: LogFile, position: int = 0) -> int | None:
        """The position of the next intact record, or entry, in a file."""
        position += file.head
        for start, stop in file.data_ranges(position):
            for at in range(max(position, start - SIZE_AND_MAGIC.size), stop, CHUNK):
                window = file.read(at, min(CHUNK, stop - at) + LOOKED_AT)
                if _ZEROS.startswith(
                    window
                ):  # space made ahead, up to 64 MiB: that is seen 30 times as fast as by a search
                    continue
                for found in possible_records(window, 0, file.start + at):
                    if self._is_intact(file, at + found, size_and_magic(window, found)[0]):
                        return at + found - file.head
        return None

    def _is_intact(self, file: LogFile, at: int, size: int) -> bool:
        if file.head:
            return self._is_intact_entry(file, at - file.head, size)
        place, left = file.start + at, file.size - at
        data = file.read(at, min(size + SECTOR, left))
        try:
            timestamp = Parts(
                *take_apart(data, 0, place, left, self._crc or body_crc, self._any_version)
            ).store_timestamp
        except NoRecord:
            return False
        return timestamp >= self.timestamp

    def _is_intact_entry(self, file: LogFile, at: int, size: int) -> bool:
        left = file.size - at
        data = file.read(at, min(file.head + size + SECTOR, left))
        problem = entry_verdict_of(
            data, 0, file.start + at, left, crc=self._crc or body_crc, any_version=self._any_version
        )
        if problem is not None:
            return False
        own = EntryEnd._make(INDEX_AND_TERM.unpack_from(data))
        after = self.after or BEFORE_ALL
        return own.index > after.index and own.term >= after.term
