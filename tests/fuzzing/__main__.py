"""``python -m tests.fuzzing``: campaigns against the parsers; the exit code is 1 with findings."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

import click

from .campaign import BUILD, Campaigns, Outcome, fresh_seed, repeat
from .figures import write_figures
from .parsers import Parser
from .registry import PARSERS

EXECUTIONS = 20_000
"""Of a target that opens no files; a twentieth of it of the others."""
FEWER = 20


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--target", "names", multiple=True, help="Only this one; may be given again.")
@click.option("--executions", type=click.IntRange(1), help="Inputs for each target.")
@click.option("--seed", type=click.IntRange(1), help="The same seed begins in the same way.")
@click.option("--seconds", type=click.FloatRange(1), default=3600.0, help="Most for a target.")
@click.option("--repeat", "path", type=click.Path(path_type=Path), help="The file of a finding.")
@click.option("--figures", type=click.Path(path_type=Path), help="JSON to put the figures into.")
@click.option("--blind", is_flag=True, help="By mutation alone: more inputs, no coverage.")
@click.option("--list", "lists", is_flag=True, help="The list of parsers, and nothing else.")
def main(
    names: tuple[str, ...],
    executions: int | None,
    seed: int | None,
    seconds: float,
    path: Path | None,
    figures: Path | None,
    blind: bool,
    lists: bool,
) -> None:
    """Run the targets, or repeat a finding."""
    logging.disable(logging.CRITICAL)
    if unknown := [name for name in names if name not in PARSERS]:
        raise click.UsageError(f"there is no target {unknown[0]}; --list shows all")
    chosen = [PARSERS[name] for name in names] or list(PARSERS.values())
    if lists:
        sys.exit(_show(chosen))
    if path is not None:
        sys.exit(_repeat(chosen, path))
    seed = seed or fresh_seed()
    campaigns = Campaigns(guided=not blind)
    how = "guided by coverage" if campaigns.guided else "by mutation alone"
    print(f"{len(chosen)} targets, seed {seed}, {how}; {BUILD} keeps what was found", flush=True)
    outcomes = []
    with campaigns:
        for parser in chosen:
            usual = EXECUTIONS // FEWER if parser.opens_files else EXECUTIONS
            outcomes.append(campaigns.run(parser, executions or usual, seed, seconds))
            _print(outcomes[-1])
            if figures is not None:
                write_figures(figures, outcomes[-1:], time.strftime("%Y-%m-%d", time.gmtime()))
    sys.exit(_end(outcomes))


def _show(chosen: list[Parser]) -> int:
    for parser in chosen:
        files = ", opens files" if parser.opens_files else ""
        print(f"{parser.name}: {parser.bytes_per_byte} bytes per byte{files}")
        for line in (*parser.functions, *(f"limit {each}" for each in parser.limits)):
            print(f"    {line}")
        if parser.bounded_by:
            print(f"    bounded by {parser.bounded_by}")
    return 0


def _repeat(chosen: list[Parser], path: Path) -> int:
    if len(chosen) != 1:
        raise click.UsageError("--repeat needs one --target")
    problem = repeat(chosen[0], path.read_bytes())
    print(problem or "nothing is wrong with it")
    return 0 if problem is None else 1


def _print(outcome: Outcome) -> None:
    coverage = "" if outcome.coverage is None else f", {outcome.coverage:,} edges"
    print(
        f"{outcome.target}: {outcome.executions:,} inputs in {outcome.seconds:.0f} s{coverage}, "
        f"{len(outcome.findings)} findings",
        flush=True,
    )
    for path in outcome.findings:
        print(f"  NOT GOOD: {path}", flush=True)


def _end(outcomes: list[Outcome]) -> int:
    count = sum(outcome.executions for outcome in outcomes)
    found = sum(len(outcome.findings) for outcome in outcomes)
    idle = [outcome.target for outcome in outcomes if not outcome.executions]
    print(f"{count:,} inputs, {found} findings")
    for name in idle:
        print(f"NOT GOOD: {name} ran nothing")
    return 1 if found or idle else 0


if __name__ == "__main__":
    main()
