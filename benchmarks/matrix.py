"""``python -m benchmarks matrix [PYTHON...]``: the same broker on the Pythons at hand, in turn
round by round.

Every interpreter gets a virtual environment in a temporary folder with the package and what it
needs (wheels only). All brokers live at the same time; load generator and floor are those of this
interpreter. Without names: what is found in PATH, /usr/bin, /usr/local/bin and among the versions
of pyenv, 3.11 and newer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console

from .harness.figures import Figure, Goal, Report, Row, Sample, figure
from .harness.frames import QUEUES, batches, pulls, sends
from .harness.machine import describe
from .harness.play import Frames, measured, open_player
from .harness.rows import FAILURES, in_turn
from .harness.servers import Server, broker, create_topic, floor, work_folder
from .harness.sheets import Sheet, markdown_table, rich_table, sheets
from .pull import SHAPES as PULLS
from .pull import fill

_ROOT = Path(__file__).resolve().parent.parent
_ASK = """
import json, platform, sys, sysconfig
optimised = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
name = f"{platform.python_implementation()} {platform.python_version()}"
base = getattr(sys, "_base_executable", sys.executable)
print(json.dumps([list(sys.version_info[:2]), name, optimised, base]))
"""
_OLDEST = [3, 11]
_NOT_COPIED = (
    "tests",
    "docs",
    "examples",
    "benchmarks",
    "build",
    "*.egg-info",
    ".*",
    "__pycache__",
)
_INTRO = """# Interpreters

The same broker on the Pythons of one machine, all at once and in turn, round by round; \
`python -m benchmarks matrix --page
docs/interpreters.md` wrote this page. CPU time of the broker per message; the floor is the C \
server of
[performance](performance.md). The package index has no interpreters, so the tables have those \
that the machine had: that of
its distribution (profile-guided) and plain builds of pyenv. On no others was it run: nothing is \
said of 3.14, nor of PyPy, where the
Python twins of the compiled leaves do the work. Compare the rows of a table: all of them had the \
same machine at the same time, other
days had another one.
"""


class Interpreter(NamedTuple):
    """One that can run the broker."""

    label: str
    path: str


class Shape(NamedTuple):
    """What is measured on each of them."""

    name: str
    frames: Frames
    connections: int
    window: int


def shapes() -> list[Shape]:
    places = [(q, at) for at in range(0, 4096, 32) for q in range(QUEUES)]
    return [
        Shape("send 64x1", sends(), 64, 1),
        Shape("send 8x64", sends(), 8, 64),
        Shape("batches of 32, 8x4", batches(32), 8, 4),
        Shape("pull 32 x 128 B, mixed queues, 8x4", pulls(places, 32), 8, 4),
    ]


def interpreters(given: list[str]) -> list[Interpreter]:
    """Different ones only; those that are too old or do not run are left out."""
    names = [f"python3.{minor}" for minor in range(11, 16)]
    places = [
        Path(folder) / name
        for folder in ("/usr/bin", "/usr/local/bin")
        for name in ("python3", *names)
    ]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = given or [
        *(found for name in names if (found := shutil.which(name))), *map(str, places),
        *map(str, sorted(pyenv.glob("3.*/bin/python"))), sys.executable,
    ]  # fmt: skip
    known: dict[str, Interpreter] = {}
    for candidate in candidates:
        try:
            done = subprocess.run(
                [candidate, "-c", _ASK], capture_output=True, text=True, timeout=30, check=True
            )
        except (OSError, subprocess.SubprocessError):
            continue
        version, name, optimised, base = json.loads(done.stdout)
        if version >= _OLDEST:
            how = (
                "of the distribution"
                if base.startswith("/usr/bin/")
                else "profile-guided"
                if optimised
                else "plain build"
            )
            known.setdefault(os.path.realpath(base), Interpreter(f"{name}, {how}", base))
    return list(known.values())


def install(interpreter: Interpreter, folder: Path) -> str:
    """An environment with the package; its Python. Raises ``subprocess.SubprocessError``."""
    python = folder / "bin" / "python"
    source = folder.parent / "source"
    if not source.exists():
        shutil.copytree(_ROOT, source, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    run = partial(subprocess.run, check=True, capture_output=True, timeout=600)
    run([interpreter.path, "-m", "venv", str(folder)])
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run([*pip, "--prefer-binary", str(source)])
    return str(python)


def measure(found: list[tuple[Interpreter, str]], rounds: int, seconds: float) -> list[Row]:
    """A row for each shape, a figure for each interpreter."""
    rows = []
    with work_folder(None) as folder, ExitStack() as stack:
        least = stack.enter_context(floor(folder))
        servers = [
            stack.enter_context(broker(folder, f"broker{n}", python))
            for n, (_, python) in enumerate(found)
        ]
        for server in (*servers, least):
            create_topic(server, queues=8)
            fill(server, PULLS[0])
        for shape in shapes():
            works: list[Callable[[], Sample]] = [
                partial(_once, shape, seconds, server) for server in (*servers, least)
            ]
            *ours, floors = in_turn(rounds, *works)
            figures = {
                interpreter.label: _figure(samples, floors)
                for (interpreter, _), samples in zip(found, ours, strict=True)
            }
            rows.append(
                Row(
                    benchmark="matrix",
                    name=f"CPU time per message, {shape.name}",
                    figures=figures,
                    note="Python",
                )
            )
            print(f"  {shape.name}", file=sys.stderr, flush=True)
    return rows


def _figure(samples: list[Sample], floors: list[Sample]) -> Figure:
    return figure(
        "µs/message", [s["cpu"] for s in samples], [s["cpu"] for s in floors], **Goal()._asdict()
    )


def _once(shape: Shape, seconds: float, target: Server) -> Sample:
    with open_player(target.port, shape.connections, shape.frames) as player:
        return measured(partial(player.play, shape.window), target.pid, seconds)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks matrix", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("python", nargs="*", help="interpreters; without: those that are found")
    parser.add_argument("--rounds", type=int, default=5, help="(5)")
    parser.add_argument("--seconds", type=float, default=0.6, help="measured time of a round (0.6)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--page", type=Path, help="write the page of the documentation")
    given = parser.parse_args(arguments)
    begin, found = time.monotonic(), []
    with work_folder(None) as folder:
        for number, interpreter in enumerate(interpreters(given.python)):
            try:
                found.append((interpreter, install(interpreter, folder / f"env{number}")))
                print(f"{interpreter.label}: {interpreter.path}", file=sys.stderr, flush=True)
            except FAILURES as error:
                why = getattr(error, "stderr", None) or str(error).encode()
                print(f"not {interpreter.label}: {why[-300:]!r}", file=sys.stderr, flush=True)
        if not found:
            parser.error("no Python of 3.11 or newer could be set up")
        report = Report(
            machine=describe(),
            rows=measure(found, given.rounds, given.seconds),
            seconds=time.monotonic() - begin,
        )
    if given.json:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    found_sheets = sheets(report.rows, wide=True)
    for sheet in found_sheets:
        Console().print(rich_table(sheet))
    if given.page:
        given.page.write_text(_page(report, found_sheets), encoding="utf-8")
    return 0


def _page(report: Report, tables: list[Sheet]) -> str:
    lines = [_INTRO, "| | |\n| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in report.machine.items() if name != "Python"]
    lines += [f"\n## {table.title}\n\n{markdown_table(table)}" for table in tables]
    return "\n".join(lines) + "\n"
