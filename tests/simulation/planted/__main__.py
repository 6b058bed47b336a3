"""Defects are planted, each into processes of its own, and found by seeds: ``python -m
tests.simulation.planted`` says which seed finds which.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import click

from ..campaign import commit
from ..seeds import run_seed, shape_of
from . import DEFECTS


class Found(NamedTuple):
    """``seed`` is None where none of the seeds did."""

    what: str
    real: bool
    seed: int | None
    tried: int
    broken: str


def find(number_of_defect: int, most: int, first: int) -> Found:
    """The first seed that breaks a promise with it. Where its code does not run, because the
    cluster is another one, nothing is different: such seeds are passed over."""
    defect = DEFECTS[number_of_defect]
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(defect.of, defect.name, defect.by))
        for number in range(most):
            if shape_of(first + number) not in defect.shapes:
                continue
            verdict = run_seed(first + number)
            if verdict.broken:
                return Found(
                    defect.what, defect.real, first + number, number + 1, verdict.broken[0]
                )
    return Found(defect.what, defect.real, None, most, "")


@click.command()
@click.option("--seeds", default=500, show_default=True, help="Tried for each at most.")
@click.option("--seed", default=1, show_default=True, help="The first one.")
@click.option("--only", type=int, multiple=True, help="Defects by number, from 0.")
@click.option("--jobs", default=1, show_default=True, help="Side by side.")
@click.option("--out", type=click.Path(path_type=Path), help="The table as JSON.")
def main(seeds: int, seed: int, only: tuple[int, ...], jobs: int, out: Path | None) -> None:
    """Which seed finds each planted defect."""
    found = []
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for each in pool.imap(partial(find, most=seeds, first=seed), only or range(len(DEFECTS))):
            found.append(each)
            print(
                f"{each.what} ({'real' if each.real else 'made up'}): "
                f"{'NOT FOUND' if each.seed is None else f'seed {each.seed}'} "
                f"of {each.tried}  {each.broken}",
                flush=True,
            )
    if out is not None:
        rows = [{**each._asdict(), "commit": commit()} for each in found]
        out.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(any(each.seed is None for each in found))


if __name__ == "__main__":
    main()
