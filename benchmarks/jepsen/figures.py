"""What a history says in figures: rates and latencies for each second, how long nothing was
acknowledged. Pure."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..histories.events import Event, Fail, Invoke, Ok, Unknown
from ..histories.judge import Kind, Violation


class Happened(NamedTuple):
    """A fault: its kind, what was done to whom, and when, in seconds of the history."""

    kind: str
    what: str
    began: float
    healed: float


class Calls(NamedTuple):
    """Ends of sends: when, and how long each took (seconds), in the order of the ends."""

    acknowledged: list[tuple[float, float]]
    failed: list[tuple[float, float]]
    unknown: list[tuple[float, float]]


def calls(events: Iterable[Event]) -> Calls:
    """Of a history."""
    began: dict[int, float] = {}
    found = Calls([], [], [])
    for event in events:
        match event:
            case Invoke():
                began[event.op] = event.at
            case Ok():
                found.acknowledged.append((event.at, event.at - began[event.op]))
            case Fail():
                found.failed.append((event.at, event.at - began[event.op]))
            case Unknown():
                found.unknown.append((event.at, event.at - began[event.op]))
            case _:
                pass
    return found


def unavailable_s(fault: Happened, acknowledged: Sequence[float], end: float) -> float:
    """The longest time without an acknowledgement of which some lies between the fault and its
    healing. ``acknowledged``: times, in order; ``end``: of the history."""
    first = max(bisect_left(acknowledged, fault.began) - 1, 0)
    last = bisect_right(acknowledged, fault.healed) + 1
    around = acknowledged[first:last]
    if not around:
        return end - fault.began
    ends = [*around, end] if last > len(acknowledged) else around
    return max((after - before for before, after in itertools.pairwise(ends)), default=0.0)


def back_s(fault: Happened, acknowledged: Sequence[float], end: float) -> float:
    """From healing to the next acknowledgement."""
    at = bisect_left(acknowledged, fault.healed)
    return (acknowledged[at] if at < len(acknowledged) else end) - fault.healed


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that so many are not above."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def timeline(found: Calls, end: float) -> dict[str, list[Any]]:
    """For each second: how many sends ended how, and the latency of the acknowledged ones in ms
    (None: there were none)."""
    seconds = math.ceil(end)
    latencies: list[list[float]] = [[] for _ in range(seconds)]
    counts = {name: [0] * seconds for name in Calls._fields}
    for name, them in found._asdict().items():
        for at, took in them:
            if at < seconds:
                counts[name][int(at)] += 1
                if name == "acknowledged":
                    latencies[int(at)].append(1000 * took)
    shares: dict[str, list[float | None]] = {"p50_ms": [], "p99_ms": []}
    for values in latencies:
        values.sort()
        for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99)):
            shares[name].append(round(percentile(values, share), 1) if values else None)
    return {**counts, **shares}


def of_faults(
    faults: Sequence[Happened], acknowledged: Sequence[float], end: float
) -> dict[str, dict[str, Any]]:
    """By kind."""
    kinds: dict[str, list[tuple[float, float]]] = {}
    for fault in faults:
        times = (unavailable_s(fault, acknowledged, end), back_s(fault, acknowledged, end))
        kinds.setdefault(fault.kind, []).append(times)
    return {
        kind: {
            "count": len(times),
            "unavailable_s": _spread([each[0] for each in times]),
            "back_s": _spread([each[1] for each in times]),
        }
        for kind, times in sorted(kinds.items())
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 2), "most": round(max(values), 2)}


def figures(
    events: Sequence[Event],
    faults: Sequence[Happened],
    violations: Sequence[Violation],
    end: float,
) -> dict[str, Any]:
    """All that follows from a history of so many seconds and the verdict on it."""
    found = calls(events)
    took = sorted(1000 * each for _, each in found.acknowledged)
    kinds = {kind.name: sum(each.kind is kind for each in violations) for kind in Kind}
    spread: Mapping[str, float] = (
        {"p50": percentile(took, 0.5), "p99": percentile(took, 0.99), "most": took[-1]}
        if took
        else {}
    )
    return {
        "seconds": round(end, 1),
        "sends": {name: len(them) for name, them in found._asdict().items()},
        "latency_ms": {name: round(value, 1) for name, value in spread.items()},
        "violations": kinds,
        "examples": [str(each) for each in some_of_each(violations)],
        "faults": of_faults(faults, [at for at, _ in found.acknowledged], end),
        "happened": [
            [each.kind, each.what, round(each.began, 2), round(each.healed, 2)] for each in faults
        ],
        "timeline": timeline(found, end),
    }


def some_of_each(violations: Iterable[Violation], most: int = 3) -> list[Violation]:
    """So many of each kind."""
    groups = itertools.groupby(violations, lambda each: each.kind)
    return [each for _, them in groups for each in itertools.islice(them, most)]


def to_json(value: Mapping[str, Any]) -> str:
    """A line for each entry of each table."""

    def lines(table: Mapping[str, Any], depth: int) -> str:
        inside = ",\n".join(
            f"{' ' * depth}{json.dumps(key)}: "
            + (
                lines(entry, depth + 1)
                if isinstance(entry, dict) and entry and depth < 2
                else json.dumps(entry, ensure_ascii=False)
            )
            for key, entry in table.items()
        )
        return f"{{\n{inside}\n{' ' * (depth - 1)}}}"

    return lines(value, 1) + "\n"
