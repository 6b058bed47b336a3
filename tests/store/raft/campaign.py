"""Many schedules of ``schedules.py``, in as many processes as there are processors:

``python -m tests.store.raft.campaign --schedules 100000 --seed 0`` (``make raft``). Says how many
have passed, and of the first that breaks a promise its seed, which repeats it alone:
``--seed SEED --schedules 1``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time

from .model import Violation
from .schedules import run

PART = 250


def _part(seeds: range) -> tuple[int, str] | None:
    for seed in seeds:
        try:
            run(seed)
        except Violation as violation:
            return seed, str(violation)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Random schedules of Raft groups.")
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    end = args.seed + args.schedules
    parts = [range(at, min(at + PART, end)) for at in range(args.seed, end, PART)]
    begin, done = time.monotonic(), 0
    with multiprocessing.Pool(args.jobs) as pool:
        for part, found in zip(parts, pool.imap(_part, parts), strict=True):
            if found is not None:
                print(f"seed {found[0]}: {found[1]}")
                return 1
            done += len(part)
            if done % (PART * 40) == 0:
                print(f"{done} schedules, {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{done} schedules from seed {args.seed} on keep Raft's promises")
    return 0


if __name__ == "__main__":
    sys.exit(main())
