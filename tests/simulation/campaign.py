"""Many seeds, in processes side by side; what they came to adds up in a file, and one that is
interrupted goes on where it was."""

from __future__ import annotations

import datetime
import functools
import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from .seeds import Verdict, run_seed

PART = 20
"""Seeds that a process runs before it tells of them; those are lost when it is interrupted."""


class Campaign(msgspec.Struct):
    """What seeds came to so far. Times in seconds."""

    done: list[tuple[int, int]] = []
    """Seeds that were run, from and to."""
    seeds: int = 0
    acknowledged: int = 0
    delivered: int = 0
    faults: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    timed: int = 0
    """Seeds of which promises were looked at when they were due; of the others at the end only."""
    broken: dict[int, list[str]] = {}
    commits: dict[str, int] = {}
    """How many seeds were run on each, in the order of the runs."""
    date: str = ""
    """Of the last run."""

    def add(self, seeds: range, verdicts: list[Verdict]) -> None:
        spans = sorted([*self.done, (seeds.start, seeds.stop)])
        self.done = spans[:1]
        for begin, end in spans[1:]:
            if begin <= self.done[-1][1]:
                self.done[-1] = self.done[-1][0], max(end, self.done[-1][1])
            else:
                self.done.append((begin, end))
        self.commits[commit()] = self.commits.get(commit(), 0) + len(verdicts)
        for verdict in verdicts:
            self.seeds += 1
            self.timed += verdict.timed
            self.acknowledged += verdict.acknowledged
            self.delivered += verdict.delivered
            self.faults += verdict.faults
            self.simulated_s += verdict.simulated_s
            self.cpu_s += verdict.cpu_s
            if verdict.broken:
                self.broken[verdict.seed] = verdict.broken[:10]

    def left(self, seeds: range) -> Iterator[range]:
        """Those that were not run yet, in parts."""
        new = [s for s in seeds if not any(begin <= s < end for begin, end in self.done)]
        at = 0
        while at < len(new):
            end = at
            while end < len(new) and end - at < PART and new[end] - new[at] == end - at:
                end += 1
            yield range(new[at], new[end - 1] + 1)
            at = end


def load(path: Path | None) -> Campaign:
    """A new one, where there is no file."""
    if path is None or not path.exists():
        return Campaign()
    return msgspec.convert(json.loads(path.read_text()), Campaign, strict=False)


def save(campaign: Campaign, path: Path) -> None:
    campaign.date = datetime.datetime.now(datetime.UTC).date().isoformat()
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(msgspec.to_builtins(campaign, str_keys=True), indent=1) + "\n")
    os.replace(fresh, path)


@functools.cache
def commit() -> str:
    """What is run."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def run(campaign: Campaign, seeds: range, jobs: int) -> Iterator[list[Verdict]]:
    """The verdicts of each part, once the campaign has them."""
    parts = list(campaign.left(seeds))
    with ProcessPoolExecutor(jobs) as pool:
        for part, verdicts in zip(parts, pool.map(_part, parts), strict=True):
            campaign.add(part, verdicts)
            yield verdicts


def _part(seeds: range) -> list[Verdict]:
    return [run_seed(seed) for seed in seeds]
