"""``python -m tests.simulation [--seeds N] [--seed FIRST]``: run seeds; a failure prints what
happened, and the fewest faults that still break it. ``--out FILE`` adds up over several runs; the
fewest faults are looked for another time."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .campaign import load, run, save
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
@click.option("--jobs", default=1, show_default=True, help="Side by side.")
@click.option("--out", type=click.Path(path_type=Path), help="Adds up here; goes on where it was.")
@click.option("--show", is_flag=True, help="What happened, also where all held.")
@click.option("--logs", is_flag=True, help="And what the programs said.")
def main(seeds: int, seed: int, jobs: int, out: Path | None, *, show: bool, logs: bool) -> None:
    """Simulated clusters under faults, one for each seed."""
    campaign = load(out)
    for verdicts in run(campaign, range(seed, seed + seeds), jobs):
        if out is not None:
            save(campaign, out)
        for verdict in verdicts:
            if verdict.broken or show:
                tell(shrunk(verdict) if verdict.broken and out is None else verdict, logs=logs)
    print(
        f"{campaign.seeds} seeds: {len(campaign.broken)} broken {sorted(campaign.broken) or ''}; "
        f"{campaign.acknowledged} acknowledged, {campaign.faults} faults; "
        f"{campaign.simulated_s:.0f} simulated s in {campaign.cpu_s:.0f} s of CPU"
    )
    sys.exit(bool(campaign.broken))


def tell(verdict: Verdict, *, logs: bool) -> None:
    """What happened, and what was broken."""
    print(f"seed {verdict.seed}: {verdict.acknowledged} acknowledged, digest {verdict.digest[:16]}")
    print("\n".join(sorted(verdict.events + (verdict.logs if logs else []))))
    print("\n".join(f"BROKEN {each}" for each in verdict.broken[:10]), flush=True)


if __name__ == "__main__":
    main()
