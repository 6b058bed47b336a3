"""Intact bytes from another replica in the place of damaged ones.

What comes is believed only if it proves itself: whole records with their own places and CRCs that
end where the damage does, and beside them the same bytes as here, so that it is the same log. A
file that was lost as a whole has those in the files beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeVar

from ...remoting.protocol.record import NoRecord, Reason, Verdict, scan
from ...remoting.protocol.record.layout import offset_of
from ...remoting.protocol.record.search import next_record
from ...remoting.protocol.record.verdict import (
    SECTOR,
    Parts,
    problem_of,
    take_apart,
    verdict_of,
)
from ..disk.mapped_file import MappedFile
from ..log.commit_log import CommitLog
from ..model.errors import StoreError
from .log_fetch import LogStream

BESIDE: Final = 512
"""So many bytes beside the damage are compared, and more where these are zeros."""
MOST: Final = 64 << 20
"""More is not fetched for one place: copy the file."""
_LEAST_BESIDE: Final = 64


class _Part(Protocol):
    """A file of a log."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


F = TypeVar("F", bound=_Part)
_BEHIND_CRC: Final = offset_of("queue_id")


class RepairError(StoreError):
    """What the other replica has is not what belongs here."""


class DamagedThereTooError(RepairError):
    """The other replica has the place damaged as well, or a part of it: ``intact`` are the records
    side by side that it has, sizes by offsets, ``damaged`` is what lies between them."""

    def __init__(self, problem: str, intact: Mapping[int, int], damaged: Mapping[int, int]) -> None:
        super().__init__(f"the other replica has it damaged too: {problem}")
        self.intact: Final = intact
        self.damaged: Final = damaged


def intact_beside(
    begin: int, end: int, log_start: int, log_end: int, damaged: Iterable[tuple[int, int]]
) -> tuple[int, int]:
    """From where, and up to where, the log is intact around what is damaged at [begin, end).
    ``damaged``: all places that are known, from and to. Who found one may not have known of the
    other ones: they may lie over each other."""
    places = list(damaged)
    return (
        max([log_start, *(min(stop, begin) for start, stop in places if start < begin)]),
        min([log_end, *(max(start, end) for start, stop in places if stop > end)]),
    )


def intact_bytes(
    begin: int,
    end: int,
    file: tuple[int, int],
    read: Callable[[int, int], bytes],
    stream_from: Callable[[int], AbstractContextManager[LogStream]],
    *,
    log: tuple[int, int],
    damaged: Iterable[tuple[int, int]],
) -> tuple[int, bytes]:
    """From where on it belongs, and what belongs at [begin, end) of one file of the log, which is
    at ``file``. ``read(offset, size)`` reads this log, which is at ``log``; ``damaged``: all places
    of it that are known, from and to.

    It begins in front of ``begin`` where the lost sector does: the few zeros that end the record
    before do not make that one damaged (``record/verdict.py``).

    Raises RepairError (DamagedThereTooError), ReplicationError.
    """
    if end - begin > MOST:
        raise RepairError(
            f"{end - begin} bytes are more than is fetched for one place ({MOST}): copy the file"
        )
    places = list(damaged)
    intact_from, _ = intact_beside(begin, end, *log, places)
    lost = min(begin % SECTOR, begin - max(intact_from, file[0]))
    if any(read(begin - lost, lost)):
        lost = 0
    front = begin - lost
    (before, before_end), (after, after_end) = _intact_around(
        front, end, file[0], read, log, places
    )
    with stream_from(before) as stream:
        theirs = stream.read(max(end, after_end) - before)
        data = theirs[begin - before : end - before]
        needed = _needed_behind(data, begin, min(file[1], log[1])) - (before + len(theirs))
        theirs += stream.read(max(0, needed))
    beside = theirs[: before_end - before] + theirs[after - before : after_end - before]
    if beside != read(before, before_end - before) + read(after, after_end - after):
        raise RepairError(
            "the other replica has other bytes beside it: its log is another one, or damaged "
            "there too"
        )
    behind = theirs[end - before :]
    if (problem := problem_of_records(data, begin, file[1], behind)) is not None:
        raise DamagedThereTooError(problem, *_parts_of(data, begin, file[1], behind))
    if _differ_around_body(read(begin, end - begin), data):
        raise RepairError(
            "the other replica has another head or other properties around the body, which no CRC "
            "covers"
        )
    return front, theirs[front - before : end - before]


def _intact_around(
    begin: int,
    end: int,
    file_start: int,
    read: Callable[[int, int], bytes],
    log: tuple[int, int],
    damaged: Iterable[tuple[int, int]],
) -> tuple[tuple[int, int], tuple[int, int]]:
    """What is compared in front of a place and behind it, from and to: what lies beside it; where
    that tells nothing, what lies beyond the damaged places there. Raises RepairError."""
    front, behind = begin, end
    while behind - front <= MOST:
        intact = intact_beside(front, behind, *log, damaged)
        # of the same file, where that tells enough: a replica may have deleted the one before
        before = _size_in_front(front, max(intact[0], min(file_start, front)), read)
        after = 0 if before >= _LEAST_BESIDE else min(BESIDE, max(0, intact[1] - behind))
        if before + after < _LEAST_BESIDE:
            before = _size_in_front(front, intact[0], read)
        if before + after >= _LEAST_BESIDE:
            return (front - before, front), (behind, behind + after)
        wider = (
            min([front, *(start for start, stop in damaged if start < intact[0] <= stop)]),
            max([behind, *(stop for start, stop in damaged if start <= intact[1] < stop)]),
        )
        if wider == (front, behind):
            break
        front, behind = wider
    raise RepairError(
        "nothing intact lies beside it by which to tell whether the other log is the same"
    )


def _size_in_front(front: int, intact: int, read: Callable[[int, int], bytes]) -> int:
    """How much of what is intact from ``intact`` on is compared: of zeros alone, as they end files,
    nothing could be told."""
    size = 0
    while size < min(front - intact, MOST):
        size = min(max(BESIDE, 2 * size), front - intact, MOST)
        if any(read(front - size, size)):
            return size
    return 0


def fetch_again(
    log: CommitLog,
    phy_offset: int,
    size: int,
    stream_from: Callable[[int], AbstractContextManager[LogStream]],
    damaged: Iterable[tuple[int, int]],
) -> None:
    """Put what another replica has intact in the place of something damaged; ``damaged``: all that
    is, from and to. Raises StoreError."""
    file = log.file_of(phy_offset, size)
    if file is None:
        raise RepairError("it is not there any more")
    end = phy_offset + size
    front, data = intact_bytes(
        phy_offset,
        end,
        (file.start, file.end),
        lambda at, length: bytes_over_files(
            log.files.find, at, length, MappedFile.read_what_is_left
        ),
        stream_from,
        log=(log.min_phy_offset, log.max_phy_offset),
        damaged=damaged,
    )
    log.put_back(file, front, data)


def put_record_back(log: CommitLog, phy_offset: int, record: bytes) -> None:
    """Put the record that another replica has at a place there, if only the body is damaged here:
    all else has to be alike. Nothing is done where a kill came behind that. Raises StoreError."""
    file = log.file_of(phy_offset, len(record))
    if file is None:
        raise RepairError("it is not there any more")
    if (problem := problem_of(record, 0, len(record), phy_offset)) is not None:
        raise DamagedThereTooError(problem, {}, {phy_offset: len(record)})
    size = len(record)
    stop = min(phy_offset + size + SECTOR, file.end, log.max_phy_offset)
    shown = file.read_what_is_left(phy_offset - file.start, stop - phy_offset)
    mine = shown[:size]
    if mine == record:
        if problem_of(shown, 0, size, phy_offset) is None:
            return
        # what is wrong with it shows by what lies behind it
        raise DamagedThereTooError("it is the same", {}, {phy_offset: size})
    try:
        take_apart(mine, 0, phy_offset, len(mine), contents=False)
    except NoRecord as error:
        raise RepairError(
            f"not only its body is damaged ({error.verdict.problem}): repair it by mqstore repair"
        ) from None
    if _differ_around_body(mine, record):
        raise RepairError(
            "the other replica has another head or other properties around the body, which no CRC "
            "covers"
        )
    log.put_back(file, phy_offset, record)


def bytes_over_files(
    find: Callable[[int], F | None],
    phy_offset: int,
    size: int,
    read: Callable[[F, int, int], bytes],
) -> bytes:
    """Bytes of one file of a log, or of several: ``find`` has the one at an offset, ``read`` a
    piece of one, from its position and length. Raises RepairError, and what ``read`` raises."""
    parts, end = [], phy_offset + size
    while phy_offset < end:
        file = find(phy_offset)
        if file is None:
            raise RepairError("what lies beside it is not there any more")
        length = min(file.end, end) - phy_offset
        parts.append(read(file, phy_offset - file.start, length))
        phy_offset += length
    return b"".join(parts)


def are_the_same(mine: bytes, theirs: bytes, phy_offset: int) -> bool:
    """Whether two replicas have one record at a place: equal, or with a body that is damaged in one
    of both."""
    if mine == theirs:
        return True
    both_intact = all(problem_of(each, 0, len(each), phy_offset) is None for each in (mine, theirs))
    return len(mine) == len(theirs) and not both_intact and not _differ_around_body(mine, theirs)


def _differ_around_body(mine: bytes, theirs: bytes) -> bool:
    """Where only the body or its CRC is damaged, all else has to be alike: one of both would be
    wrong. But for a sector of zeros, which is lost there and tells nothing."""
    try:
        here, there = (
            Parts(*take_apart(data, 0, None, len(data), contents=False)) for data in (mine, theirs)
        )
    except NoRecord:
        return False
    if here.size < len(mine) or here.phy_offset != there.phy_offset:
        return False
    body_at, body_end = there.body_at, there.body_at + there.body_size
    mixed = (
        theirs[:_BEHIND_CRC]
        + mine[_BEHIND_CRC:body_at]
        + theirs[body_at:body_end]
        + mine[body_end:]
    )
    starts = range(-(there.phy_offset % SECTOR), len(mine), SECTOR)
    sectors = (slice(max(start, 0), start + SECTOR) for start in starts)
    return any(
        mixed[each] != theirs[each] and any(mine[each]) and any(theirs[each]) for each in sectors
    )


def _needed_behind(data: bytes, begin: int, stop: int) -> int:
    """Up to where more has to be seen to know whether the last record of these bytes is intact, in
    a file or log that ends at ``stop``: its last sector may have been lost."""
    _, at, verdict = scan(data, begin, left=stop - begin)
    is_last = verdict.reason is Reason.MORE and verdict.size == len(data) - at
    return begin + at + verdict.needed if is_last else begin


def _intact_until(data: bytes, begin: int, at: int, behind: bytes) -> tuple[int, Verdict]:
    """Where the intact records that lie side by side from byte ``at`` on end, and why. Whether the
    last one is may show by what lies ``behind`` it."""
    _, stop, verdict = scan(data, begin, at=at, left=len(data) + len(behind))
    if verdict.reason is Reason.MORE and verdict.size == len(data) - stop:
        lost = verdict_of(data + behind, stop, begin + stop)
        return (stop, lost) if lost is not None else (len(data), verdict)
    return stop, verdict


def _parts_of(
    data: bytes, begin: int, file_end: int, behind: bytes
) -> tuple[dict[int, int], dict[int, int]]:
    """What of these bytes is intact, and what is not: sizes by offsets."""
    intact: dict[int, int] = {}
    damaged: dict[int, int] = {}
    at = 0
    while at < len(data):
        stop, verdict = _intact_until(data, begin, at, behind)
        ends = _is_the_end(data, begin, stop, verdict, file_end)
        if stop > at or ends:
            intact[begin + at] = (len(data) if ends else stop) - at
        if ends:
            break
        whole = verdict.size if verdict.reason not in (Reason.BLANK, Reason.PLACE) else 0
        at = stop + whole if whole else next_record(data, stop + 1, begin) or len(data)
        at = min(at, len(data))
        damaged[begin + stop] = at - stop
    return intact, damaged


def problem_of_records(data: bytes, begin: int, file_end: int, behind: bytes = b"") -> str | None:
    """Why these bytes are not whole records (and perhaps the blank that ends their file); None when
    they are."""
    at, verdict = _intact_until(data, begin, 0, behind)
    if _is_the_end(data, begin, at, verdict, file_end):
        return None
    return f"at {begin + at}: {verdict.problem}"


def _is_the_end(data: bytes, begin: int, at: int, verdict: Verdict, file_end: int) -> bool:
    """Whether nothing is left at ``at``, or only the blank that ends the file."""
    left = len(data) - at
    return not left or (
        verdict.reason is Reason.BLANK and verdict.size == left == file_end - begin - at
    )
