"""Reading the commit log of a store that is opened: its records, many at once, and what is damaged
between them."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from ...remoting.protocol.record import NoRecord, Reason, Records, body_crc
from ...remoting.protocol.record.layout import size_and_magic
from ...remoting.protocol.record.search import LOOKED_AT, possible_records
from ...remoting.protocol.record.verdict import Parts, take_apart
from ...remoting.protocol.record.walk import Gap, LogFile, LogWalk
from ..model.dispatch_request import DispatchRequest, requests_of
from .commit_log import CommitLog

_WINDOW: Final = 1 << 20


class LogScanner:
    """Reads records of the commit log in order and tells where the intact ones end."""

    def __init__(self, commit_log: CommitLog, *, check_crc: bool = True) -> None:
        self._files: Final = commit_log.files
        self._head_at: Final = commit_log.head_at
        self._walk: Final = LogWalk(crc=body_crc if check_crc else None)
        self.end: int = commit_log.files.start
        """Behind the last intact record, after the scan."""
        self.gaps: list[Gap] = []
        """What is damaged, with intact records behind it."""

    @property
    def damaged(self) -> list[tuple[int, int]]:
        """From, to; gaps that lie side by side in one file are one."""
        return [(gap.begin, gap.end) for gap in self.gaps]

    def claimed(self) -> Iterator[DispatchRequest]:
        """What is damaged and says where it lies, and that it is whole: all but its body may be
        right. In the order of the log."""
        for gap in self.gaps:
            for begin in range(gap.begin, gap.end, _WINDOW):
                size = min(_WINDOW + LOOKED_AT, gap.end - begin)
                data = self._files.read(begin, size)
                for at in possible_records(data, 0, begin):
                    record = self._files.read(begin + at, size_and_magic(data, at)[0])
                    with contextlib.suppress(NoRecord):
                        yield _request_of(record, begin + at)

    def data_end(self) -> int:
        """Where the log ends at the latest, as far as the file system knows."""
        for file in reversed(self._files.files):
            stops = [stop for _, stop in file.data_ranges(0)]
            if stops:
                return file.start + stops[-1]
        return self._files.start

    def scan(self, start: int) -> Iterator[DispatchRequest]:
        """Every intact record from ``start`` on."""
        for records in self.pieces(start):
            yield from requests_of(records)

    def pieces(self, start: int, stop: int | None = None) -> Iterator[Records]:
        """The same, many at once. They are read, not mapped: no page faults, and a bad sector is
        damage and not the end of the process. ``stop``: a record ends there, and no further one is
        wanted; so what is damaged in front of it is in the middle, whatever lies behind.
        """
        self.end = offset = start
        held: list[Gap] = []  # the log ends there, unless something intact follows
        while (file := self._files.find(offset)) is not None:
            with file.reading() as read:
                head = self._head_at(file.start)
                source = LogFile(file.start, file.size, read, file.data_ranges, head)
                for found in self._walk.through(source, offset - file.start):
                    if stop is not None and self.end >= stop:
                        return
                    if isinstance(found, Records):
                        self.gaps += self._in_the_middle(held, stop)
                        held = []
                        if stop is not None:
                            found = found.first(bisect_left(found.phy_offsets, stop))
                            if not len(found):
                                self.end = stop
                                return
                        self.end = found.phy_offsets[-1] + found.sizes[-1]
                        yield found
                    elif held or found.verdict.reason is not Reason.BLANK:
                        held.append(found)
                    else:
                        self.end = found.end
            offset = file.end
        if held and stop is not None:
            self.gaps += self._in_the_middle(held, stop)
            self.end = stop

    def _in_the_middle(self, gaps: list[Gap], stop: int | None) -> list[Gap]:
        if stop is not None:
            gaps = [gap._replace(end=min(gap.end, stop)) for gap in gaps if gap.begin < stop]
        return _joined(gaps, self._files.file_size)


def _request_of(record: bytes, phy_offset: int) -> DispatchRequest:
    """Of a record whose body may be another one. Raises NoRecord."""
    found = Parts(*take_apart(record, 0, phy_offset, len(record), contents=False))
    return DispatchRequest(
        found.topic,
        found.queue_id,
        phy_offset,
        found.size,
        found.queue_offset,
        found.sys_flag,
        found.store_timestamp,
        found.properties,
    )


def _joined(gaps: list[Gap], file_size: int) -> list[Gap]:
    """Those that lie side by side in one file as one, with the verdict of the first: a place that
    is mended is one of a file."""
    joined: list[Gap] = []
    for gap in gaps:
        if joined and joined[-1].end == gap.begin and gap.begin % file_size:
            joined[-1] = joined[-1]._replace(end=gap.end)
        else:
            joined.append(gap)
    return joined
