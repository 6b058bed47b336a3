"""``python -m benchmarks [NAME...]``: what a message costs broker, name server, client and store,
next to the floor.

Every server is a process of its own; its CPU time is the operating system's figure for it, divided
by the messages of the measured window. The floor, in turn with it in the same run, is what the
machine allows: a server in C that does the same exchange, or bare system calls. ``NAME`` is a
benchmark or the beginning of several (``send``, ``client``, ``store``, ``scale``); ``matrix``
compares interpreters. Without a name everything is measured, which takes up to 20 minutes.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from .catalog import catalog, chosen
from .harness.figures import Report
from .harness.rows import Options
from .harness.runner import run_all
from .harness.sheets import rich_table, sheets

MINUTES = 20.0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "name",
        nargs="*",
        help=f"which: {', '.join(catalog())}, or how several of them begin; matrix",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WORD",
        help="only rows whose name contains it",
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="of each row, in turn with its floor (5)"
    )
    parser.add_argument(
        "--seconds", type=float, default=Options().seconds, help="measured time of a round (0.5)"
    )
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument(
        "--small",
        action="store_true",
        help="tiny stores, few queues: to see whether everything works",
    )
    parser.add_argument(
        "--seed",
        type=int,
        help="what requests look like: lengths, properties, order of fields (drawn)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=MINUTES,
        help="what has not begun by then is left out (20)",
    )
    parser.add_argument("--directory", type=Path, help="where stores are put (temporary files)")
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write all figures as JSON (standard output)",
    )
    parser.add_argument(
        "--page", type=Path, help="write the page of the documentation; charts beside it"
    )
    parser.add_argument("--charts", type=Path, metavar="FOLDER", help="draw the charts of scale")
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="FILE", help="measure nothing, take such a JSON"
    )
    return parser


def main() -> int:
    parser = _options()
    if sys.argv[1:2] == ["matrix"]:
        from .matrix import main as matrix

        return matrix(sys.argv[2:])
    given = parser.parse_args()
    try:
        names = chosen(given.name)
    except LookupError as error:
        parser.error(str(error.args[0]))
    rounds, seconds = (2, 0.3) if given.quick else (max(1, given.rounds), given.seconds)
    seed = secrets.randbits(32) if given.seed is None else given.seed
    options = Options(rounds, seconds, given.directory, tuple(given.only), given.small, seed)
    if given.source is not None:
        report = msgspec.json.decode(given.source.read_bytes(), type=Report)
    else:
        report = run_all(names, options, given.minutes)
    _write(report, given)
    return 1 if any(row.failed for row in report.rows) else 0


def _write(report: Report, given: argparse.Namespace) -> None:
    data = msgspec.json.format(msgspec.json.encode(report), indent=2)
    if given.json == "-":
        sys.stdout.write(data.decode() + "\n")
    else:
        console = Console(width=None if sys.stdout.isatty() else 150)
        for sheet in sheets(report.rows):
            console.print(rich_table(sheet))
        console.print(
            ", ".join(report.machine.values()),
            f"{report.seconds:.0f} s",
            style="dim",
            highlight=False,
        )
    if given.json and given.json != "-":
        Path(given.json).write_bytes(data)
    charts = given.charts or (given.page.parent / "performance" if given.page else None)
    if charts:
        from .charts import draw

        draw(report, charts)
    if given.page:
        from .page import page

        given.page.write_text(page(report, charts), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
