"""Whether bytes are an entry of a DLedger log, and if not, why.

The original believes a head that goes on from the one before, whatever lies behind it. Here the
record has to be intact as well, and to be what its head says: as long, and at its place. So
bits that are lost in an entry are seen where ``verdict`` sees those of a record, or in its head,
all of which is known beforehand but for the term.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from .crc import BodyCrc, body_crc
from .entry import ENTRY_BLANK_MAGIC, ENTRY_HEAD, ENTRY_MAGIC, EntryHead, entry_start
from .layout import BLANK_SIZE, MIN_RECORD_SIZE, MOST_PHY_OFFSET
from .verdict import NoRecord, Reason, Verdict, take_apart

_HEAD: Final = ENTRY_HEAD.size
_LEAST: Final = _HEAD + MIN_RECORD_SIZE
MOST_INDEX: Final = MOST_PHY_OFFSET
"""No log has more entries than bytes."""


class EntryEnd(NamedTuple):
    """The entry that the next one has to go on from: index + 1, and no smaller term."""

    index: int  # type: ignore[assignment]
    term: int


BEFORE_ALL: Final = EntryEnd(-1, -1)
"""The first entry of all follows it."""


def take_apart_entry(
    data: Any,
    at: int,
    place: int | None,
    left: int,
    after: EntryEnd | None = None,
    crc: BodyCrc | None = body_crc,
    any_version: bool = False,
) -> tuple[int, int, int, int, int, int, int, int, int, str, bytes]:
    """The parts of the record (``verdict.Parts``) in the entry that begins at byte ``at``, with
    position and place of the entry. ``after``: ``None`` when nobody knows what is in front of it.
    The rest as for ``take_apart``. Raises NoRecord."""
    head = _head_of(data, at, place, left, after)
    try:
        parts = take_apart(data, at + _HEAD, head.pos + _HEAD, left - _HEAD, crc, any_version)
    except NoRecord as error:
        raise NoRecord(_behind_head(error.verdict), at) from None
    if parts[1] != head.body_size:
        raise NoRecord(_misfit(f"its record says it is {parts[1]} bytes long", head), at)
    return parts


def entry_verdict_of(
    data: Any, at: int, place: int | None, left: int, **how: Any
) -> Verdict | None:
    """The same question for somebody who wants nothing but the verdict; None: it is intact as far
    as can be proved."""
    try:
        take_apart_entry(data, at, place, left, **how)
    except NoRecord as error:
        return error.verdict
    return None


def _head_of(data: Any, at: int, place: int | None, left: int, after: EntryEnd | None) -> EntryHead:
    """The head, if it can be one. Raises NoRecord."""
    shown = len(data) - at
    if shown < BLANK_SIZE:
        raise NoRecord(_of_few(shown, left), at)
    magic, size = entry_start(data, at)
    if magic != ENTRY_MAGIC:
        raise NoRecord(_of_magic(data, at, magic, size, left), at)
    if not _LEAST <= size <= left:
        problem = f"the entry says it is {size} bytes long, {left} are left in the file"
        raise NoRecord(Verdict(Reason.SIZE, problem, BLANK_SIZE // 2), at)
    if shown < _LEAST:
        raise NoRecord(_more(_LEAST), at)
    head = EntryHead._make(ENTRY_HEAD.unpack_from(data, at))
    if head.body_size != size - _HEAD or head.channel or head.chain_crc or head.body_crc:
        problem = f"the entry says {head.body_size} bytes for its record, and {size} in all"
        if head.body_size == size - _HEAD:
            problem = "channel and CRCs of an entry are 0"
        raise NoRecord(_misfit(problem, head), at)
    if place is not None and head.pos != place:
        problem = f"the entry says it is at {head.pos}, it is at {place}"
        raise NoRecord(Verdict(Reason.PLACE, problem), at)
    _check_order(head, at, after)
    return head


def _check_order(head: EntryHead, at: int, after: EntryEnd | None) -> None:
    """Whether it goes on from the one before."""
    if not 0 <= head.index < MOST_INDEX or (after is not None and head.index != after.index + 1):
        wanted = "" if after is None else f", {after.index + 1} is next"
        raise NoRecord(Verdict(Reason.INDEX, f"the entry has the index {head.index}{wanted}"), at)
    if head.term < 0 or (after is not None and head.term < after.term):
        behind = "" if after is None else f", behind one of the term {after.term}"
        raise NoRecord(Verdict(Reason.TERM, f"the entry has the term {head.term}{behind}"), at)


def _misfit(problem: str, head: EntryHead) -> Verdict:
    return Verdict(Reason.HEAD, f"{problem} (entry {head.index}, size {head.size})")


def _behind_head(verdict: Verdict) -> Verdict:
    """What was said of a record, of its entry."""
    if verdict.reason in (Reason.NOTHING, Reason.BLANK):
        return Verdict(Reason.HEAD, "the head of an entry without its record", _HEAD)
    return verdict._replace(
        byte=verdict.byte + _HEAD,
        size=verdict.size and verdict.size + _HEAD,
        needed=verdict.needed and verdict.needed + _HEAD,
    )


def _more(needed: int) -> Verdict:
    return Verdict(Reason.MORE, f"it takes {needed} bytes to see what this is", 0, 0, needed)


def _of_few(shown: int, left: int) -> Verdict:
    """Too few bytes for the blank at the end of a file."""
    if shown < left:
        return _more(min(BLANK_SIZE, left))
    return Verdict(Reason.NOTHING, "the file ends without the blank that leads to the next one")


def _of_magic(data: Any, at: int, magic: int, size: int, left: int) -> Verdict:
    """No entry."""
    if magic == ENTRY_BLANK_MAGIC:
        return Verdict(
            Reason.BLANK, f"the blank at the end of the file says {size} bytes, {left} are left",
            0, size,
        )  # fmt: skip
    if not any(data[at : at + _HEAD]):
        return Verdict(Reason.NOTHING, "zeros where an entry should begin")
    return Verdict(Reason.MAGIC, f"the magic is {magic:#010x}, an entry has {ENTRY_MAGIC}")
