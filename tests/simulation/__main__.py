"""``python -m tests.simulation [--seeds N] [--seed FIRST]``: run seeds; a failure prints what
happened, and the fewest faults that still break it."""

from __future__ import annotations

import sys
import time

import click

from .seeds import Verdict, run_seed


def shrunk(verdict: Verdict) -> Verdict:
    """The same seed without the faults that do not matter, tried one after the other."""
    skip: frozenset[int] = frozenset()
    for number in range(verdict.faults):
        again = run_seed(verdict.seed, skip=skip | {number})
        if again.broken:
            verdict, skip = again, skip | {number}
    return verdict


@click.command()
@click.option("--seeds", default=100, show_default=True, help="How many.")
@click.option("--seed", default=1, show_default=True, help="The first one.")
@click.option("--show", is_flag=True, help="What happened, also where all held.")
@click.option("--logs", is_flag=True, help="And what the programs said.")
def main(seeds: int, seed: int, *, show: bool, logs: bool) -> None:
    """Simulated clusters under faults, one for each seed."""
    began, cpu, simulated, failed = time.monotonic(), 0.0, 0.0, []
    for each in range(seed, seed + seeds):
        verdict = run_seed(each)
        cpu += verdict.cpu_s
        simulated += verdict.simulated_s
        if verdict.broken:
            failed.append(each)
            verdict = shrunk(verdict)
        if verdict.broken or show:
            print(f"seed {each}: {verdict.acknowledged} acknowledged, digest {verdict.digest[:16]}")
            print("\n".join(sorted(verdict.events + (verdict.logs if logs else []))))
            print("\n".join(f"BROKEN {each}" for each in verdict.broken[:10]))
    print(
        f"{seeds} seeds from {seed}: {len(failed)} broken {failed or ''}; {simulated:.0f} "
        f"simulated s in {cpu:.0f} s of CPU, {time.monotonic() - began:.0f} s"
    )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
