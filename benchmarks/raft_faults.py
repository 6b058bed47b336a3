"""Three brokers that elect their master, and everything that can go wrong with them: what was
acknowledged stays.

``python -m benchmarks.raft_faults`` (a part of ``make soak``). A name server and a DLedger group of
three processes; between their members small proxies that delay what goes through, or hold it, each
way by itself (``raft_group/links.py``); a disk of its own for each, which can be full where
mounting a tmpfs is allowed. Producers, a push consumer and a reader at each member write down what
they see. Each round does something to somebody (``raft_group/faults.py``), then all has to heal:
acknowledgements come again, the logs come together and are the same byte for byte. At the end
``histories/judge.py`` holds the history against what is stored: nothing acknowledged is lost,
nothing is read that is not there later, the order within a queue is that of the acknowledgements,
no term has two leaders.
"""

from __future__ import annotations

import itertools
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from examples.demo.daemons import data_folder
from examples.demo.program import run_program

from .command_line import HELP, KEEP, SEED, load, rounds
from .histories.judge import Violation
from .raft_group.campaign import FAULTS, Campaign, Options


def _report(run: Campaign, seed: int, seconds: float) -> None:
    recorder, sends = run.recorder, run.clients.sends
    print(f"seed                {seed:>9}")
    faults = ", ".join(f"{name} {count}" for name, count in run.happened.most_common())
    print(f"faults              {run.happened.total():>9,}   {faults}; in {seconds:.0f} s")
    print(f"acknowledged        {recorder.acknowledged:>9,}   {recorder.failed:,} sends failed")
    print(f"stored              {run.stored:>9,}   retries included, the same at all members")
    print(f"terms with a leader {run.terms:>9,}")
    print(f"longest pause       {sends.longest_s:>9.2f} s without an acknowledgement")
    print("seconds from healing to acknowledgements, median and longest:")
    for name, times in sorted(run.recovery_s.items()):
        times = sorted(times)
        print(f"  {name:<17} {times[len(times) // 2]:>9.2f} {times[-1]:>9.2f}   of {len(times)}")
    print("longest pauses without an acknowledgement, and what happened in them:")
    for pause in sends.longest:
        print(*run.timeline.lines(pause, "acknowledged again"), sep="\n")


def _some_of_each(violations: Sequence[Violation]) -> Iterator[str]:
    """Three of each kind, and how many there are."""
    for kind, found in itertools.groupby(violations, lambda each: each.kind):
        first, *others = map(str, found)
        yield first
        yield from others[:2]
        if len(others) > 2:
            yield f"{kind.name}: and {len(others) - 2:,} more"


async def campaign(options: Options) -> int:
    """Run it; returns the exit code."""
    started = time.monotonic()
    with data_folder(options.keep, keep=options.keep is not None) as folder:
        run = Campaign(folder, options)
        await run.run()
        _report(run, options.seed, time.monotonic() - started)
    for problem in (*run.problems[:20], *_some_of_each(run.violations)):
        print(f"NOT GOOD: {problem}")
    return 1 if run.problems or run.violations else 0


@click.command(context_settings=HELP)
@rounds(200, "faults")
@SEED
@load(2.0, "of load before a fault")
@click.option(
    "--short", is_flag=True, help="Processes stand still for a few seconds, not for half a minute."
)
@click.option(
    "--only", type=click.Choice([each.name for each in FAULTS]), multiple=True, help="Only these."
)
@KEEP
def main(
    rounds: int, seed: int, load_s: float, short: bool, only: tuple[str, ...], keep: Path | None
) -> None:
    """Three brokers that elect their master, and everything that can go wrong with them."""
    logging.getLogger("aiorocketmq").setLevel(logging.CRITICAL)
    stands_still_s = (1.0, 4.0) if short else (3.0, 30.0)
    options = Options(rounds, seed, load_s, stands_still_s, only, keep)
    sys.exit(run_program("raft_faults", campaign(options)))


if __name__ == "__main__":
    main()
