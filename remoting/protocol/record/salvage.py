"""The body of a pull in which a record is damaged: a damaged record costs itself only.

``read_messages`` stops at it, and this finds where the next one begins. A record tells its size
twice: in its first field, and by the lengths of body, topic and properties. Where one of the two
leads to another record (or to the end), that is its end; where both do, the nearer one: a wrong
size that is too large may well lead behind a neighbour, one that is too small only to a record
within the body. Only where both are wrong the magic is looked for, and what follows has to be whole
records up to the end then: a body may hold records, too, and those are no messages of this queue.
"""

from __future__ import annotations

from typing import NamedTuple

from .decode import MessageExt, read_messages, whole_record
from .layout import BLANK_SIZE, MIN_RECORD_SIZE, size_and_magic
from .search import possible_records
from .verdict import NoRecord, Reason, size_by_lengths, verdict_of


class DamagedRecord(NamedTuple):
    """A place in the body of a pull that is no intact record."""

    at: int
    size: int
    problem: str
    message: MessageExt | None = None
    """What it says of itself where it is whole. Its body, or its properties, are not what was
    sent."""


def read_salvaged(data: bytes, broker_name: str) -> tuple[list[MessageExt], list[DamagedRecord]]:
    """All intact records, in order, and what lies between them."""
    messages, at = read_messages(data, broker_name)
    damaged: list[DamagedRecord] = []
    while at < len(data):
        found = _damaged_at(data, at, broker_name)
        damaged.append(found)
        more, at = read_messages(data, broker_name, at + found.size)
        messages += more
    return messages, damaged


def _damaged_at(data: bytes, at: int, broker_name: str) -> DamagedRecord:
    verdict = verdict_of(data, at)
    assert verdict is not None
    if verdict.size and verdict.reason is not Reason.BLANK:  # which no answer to a pull has
        return DamagedRecord(at, verdict.size, verdict.problem, whole_record(data, at, broker_name))
    return DamagedRecord(at, _next_record(data, at) - at, verdict.problem)


def _next_record(data: bytes, at: int) -> int:
    said = size_and_magic(data, at)[0] if len(data) - at >= BLANK_SIZE else 0
    for size in sorted((said, size_by_lengths(data, at))):
        if size >= MIN_RECORD_SIZE and (at + size == len(data) or _size(data, at + size)):
            return at + size
    in_vain = set[int]()
    for found in possible_records(data, at + 1, None):
        if _whole_up_to_the_end(data, found, in_vain):
            return found
    return len(data)


def _size(data: bytes, at: int) -> int:
    """Of the whole record there, 0 for none."""
    try:
        return whole_record(data, at).store_size
    except NoRecord:
        return 0


def _whole_up_to_the_end(data: bytes, at: int, in_vain: set[int]) -> bool:
    """``in_vain``: places from which the end was not reached; so each record is looked at once."""
    while at < len(data) and at not in in_vain and (size := _size(data, at)):
        in_vain.add(at)
        at += size
    return at == len(data)
