"""What changed between two runs, beyond the noise: ``python benchmarks/compare.py OLD.json
NEW.json``.

A figure has a value for each round. Its better half, from the best value to the median, is what the
machine's other work disturbed least. A figure has changed when the better halves of the two runs do
not overlap and their best values differ by more than 3 %. When the floor has changed in the same
way, it is the machine that changed: such figures are listed apart. Ends with 1 when something
became worse.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

LEAST = 0.03
"""Smaller differences are not reported, however little the values scatter."""


class Change(NamedTuple):
    """``share``: how much better (above 0) or worse the new best value is; ``machine``: the floor
    changed alike."""

    name: str
    unit: str
    old: float
    new: float
    share: float
    machine: bool


class Comparison(NamedTuple):
    """``same``: how many figures did not change; ``missing``: rows that only one of the runs has,
    or that failed in one."""

    changes: list[Change]
    same: int
    missing: list[str]


def compare(old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Two reports as they stand in the files."""
    before, after = _figures(old), _figures(new)
    changes, same = [], 0
    for key in before.keys() & after.keys():
        change = changed(key, before[key], after[key])
        if change is None:
            same += 1
        else:
            changes.append(change)
    changes.sort(key=lambda each: (each.machine, each.share))
    return Comparison(changes, same, sorted(_rows(old) ^ _rows(new)))


def changed(name: str, old: dict[str, Any], new: dict[str, Any]) -> Change | None:
    """One figure; ``None`` when the difference may be noise."""
    more = bool(old.get("more_is_better"))
    share = _share(old["ours"], new["ours"], more)
    if share is None:
        return None
    floor = _share(old.get("floor", []), new.get("floor", []), more)
    machine = floor is not None and floor * share > 0 and abs(floor) >= abs(share) / 2
    return Change(
        name, old["unit"], _best(old["ours"], more), _best(new["ours"], more), share, machine
    )


def _share(old: list[float], new: list[float], more: bool) -> float | None:
    if not old or not new:
        return None
    best, median = _best(old, more), statistics.median(old)
    new_best, new_median = _best(new, more), statistics.median(new)
    apart = max(best, median) < min(new_best, new_median) or max(new_best, new_median) < min(
        best, median
    )
    if not apart or not best or not new_best:
        return None
    share = new_best / best - 1 if more else best / new_best - 1
    return share if abs(share) > LEAST else None


def _best(values: list[float], more: bool) -> float:
    return max(values) if more else min(values)


def _figures(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{row['benchmark']}: {row['name']}, {name}": figure
        for row in report["rows"]
        for name, figure in row.get("figures", {}).items()
    }


def _rows(report: dict[str, Any]) -> set[str]:
    return {f"{row['benchmark']}: {row['name']}" for row in report["rows"] if not row.get("failed")}


def lines(found: Comparison) -> Iterator[str]:
    """For people."""
    for change in found.changes:
        word = "better" if change.share > 0 else "WORSE "
        why = "  (so is the floor: the machine)" if change.machine else ""
        yield (
            f"{word} {abs(change.share):6.1%}  {change.name}: {change.old:.4g} -> "
            f"{change.new:.4g} {change.unit}{why}"
        )
    for name in found.missing:
        yield f"only in one of them: {name}"
    yield f"{found.same} figures did not change beyond the noise"


def main() -> int:
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/compare.py OLD.json NEW.json")
    old, new = (json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:])
    for what in ("processor", "kernel", "Python", "packages"):
        if (was := old["machine"].get(what)) != (now := new["machine"].get(what)):
            print(f"not the same {what}: {was} -> {now}")
    found = compare(old, new)
    for line in lines(found):
        print(line)
    return 1 if any(change.share < 0 and not change.machine for change in found.changes) else 0


if __name__ == "__main__":
    sys.exit(main())
