"""What the members of a group told of their work, and what of it must never be.

A member appends a record per event to a file of its own; a SIGKILL loses none that was written.
Times are of the machine's monotonic clock, so those of several processes can be compared.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

RECORD: Final = struct.Struct(">BiqQ")
"""Kind, queue id, queue offset, nanoseconds."""


class Kind(IntEnum):
    ORDERED_BEGIN = 1
    """An ordered handler begins."""
    ORDERED_END = 2
    ANY = 3
    """A message was handled by the group without order."""


class Handled(NamedTuple):
    """A run of an ordered handler. ``end_ns`` of one that was killed is the last moment it can have
    lasted to."""

    begin_ns: int
    end_ns: int
    queue_offset: int
    member: str


class Verdict(NamedTuple):
    """Of one group."""

    handled: int
    """Messages that were handled at least once."""
    lost: int
    duplicates: int
    two_at_once: int
    """Pairs of handlers of one queue that ran at the same time."""
    out_of_order: int
    """Messages that came before one in front of them was handled, or again without a change of the
    owner."""
    owner_changes: int
    first_violation: str = ""
    """What came out of order first."""


def read_journal(path: Path) -> list[tuple[Kind, int, int, int]]:
    """What a member has told so far."""
    data = path.read_bytes() if path.exists() else b""
    return [
        (Kind(kind), *rest)
        for kind, *rest in RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size])
    ]


def judge_unordered(journals: Iterable[Path], ends: dict[int, int]) -> Verdict:
    """``ends``: how many messages each queue has."""
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for path in journals:
        for kind, queue_id, offset, _ in read_journal(path):
            if kind is Kind.ANY:
                counts[queue_id, offset] += 1
    return Verdict(
        len(counts), sum(ends.values()) - len(counts), sum(counts.values()) - len(counts), 0, 0, 0
    )


def judge_ordered(
    journals: Iterable[Path], ends: dict[int, int], killed_ns: dict[Path, int]
) -> Verdict:
    """``killed_ns``: when a member that was killed was certainly dead."""
    runs: dict[int, list[Handled]] = defaultdict(list)
    for path in journals:
        for queue_id, run_of_queue in _runs(path, killed_ns.get(path)):
            runs[queue_id].append(run_of_queue)
    handled = duplicates = two_at_once = out_of_order = changes = 0
    first_violation = ""
    for queue_id, of_queue in runs.items():
        of_queue.sort()
        seen: set[int] = set()
        before: Handled | None = None
        latest_end = 0
        for run in of_queue:
            two_at_once += run.begin_ns < latest_end
            latest_end = max(latest_end, run.end_ns)
            same_owner = before is not None and before.member == run.member
            changes += before is not None and not same_owner
            skipped = run.queue_offset > 0 and run.queue_offset - 1 not in seen
            back = same_owner and before is not None and run.queue_offset <= before.queue_offset
            if skipped or back:
                out_of_order += 1
                what = "skips" if skipped else "goes back"
                first_violation = (
                    first_violation or f"queue {queue_id}: {run} {what}; before it: {before}"
                )
            duplicates += run.queue_offset in seen
            seen.add(run.queue_offset)
            before = run
        handled += len(seen)
    return Verdict(
        handled,
        sum(ends.values()) - handled,
        duplicates,
        two_at_once,
        out_of_order,
        changes,
        first_violation,
    )


def _runs(path: Path, killed_ns: int | None) -> Iterable[tuple[int, Handled]]:
    open_runs: dict[int, tuple[int, int]] = {}
    records = read_journal(path)
    for kind, queue_id, offset, at_ns in records:
        if kind is Kind.ORDERED_BEGIN:
            if (
                queue_id in open_runs
            ):  # two handlers of one queue in one member: both count, and overlap
                begun_ns, begun_offset = open_runs.pop(queue_id)
                yield queue_id, Handled(begun_ns, at_ns + 1, begun_offset, path.name)
            open_runs[queue_id] = (at_ns, offset)
        elif kind is Kind.ORDERED_END and queue_id in open_runs:
            begun_ns, begun_offset = open_runs.pop(queue_id)
            yield queue_id, Handled(begun_ns, at_ns, begun_offset, path.name)
    for queue_id, (begun_ns, offset) in open_runs.items():
        yield queue_id, Handled(begun_ns, killed_ns or records[-1][3], offset, path.name)
