"""Running rows: rounds in turn with the floor; a failure is printed and does not end the others."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.store.model.errors import StoreError
from examples.demo.errors import DemoError

from .draw import Draw
from .figures import BenchmarkError, Goals, Row, Sample, figures_of
from .play import Frames, measured, open_player
from .servers import Server, floor_is

FAILURES = (
    BenchmarkError, DemoError, RocketMQError, StoreError, OSError, subprocess.SubprocessError,
    AssertionError, ValueError,
    LookupError, MemoryError,
)  # fmt: skip
"""What may go wrong with a benchmark without being a mistake in the harness."""
_TRIES = 3
PURE_ROUNDS = 2
"""Of a server without the compiled leaves: its figures scatter little, and take long."""


class Options(NamedTuple):
    """How much is measured. ``only``: rows whose name contains one of these words."""

    rounds: int = 5
    seconds: float = 0.5
    directory: Path | None = None
    only: tuple[str, ...] = ()
    small: bool = False
    """Tiny stores and few connections: to see whether everything works."""
    seed: int = 0
    """Of what requests look like; a run has one of its own."""


class Rows:
    """Collects them; what is there is written to a file after each one."""

    def __init__(self, benchmark: str, options: Options, target: Path | None = None) -> None:
        self.options = options
        self.rows: list[Row] = []
        self._benchmark = benchmark
        self._target = target

    def wants(self, name: str) -> bool:
        return not self.options.only or any(word in name for word in self.options.only)

    def draw(self, name: str, orders: int = 1) -> Draw:
        """For the row of that name."""
        return Draw(self.options.seed, name, orders)

    def wants_any(self, names: list[str]) -> bool:
        return any(self.wants(name) for name in names)

    @contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """A row of this name is made in the block; when that fails the row says why."""
        try:
            yield
        except FAILURES as error:
            self._add(
                Row(
                    benchmark=self._benchmark,
                    name=name,
                    failed=f"{type(error).__name__}: {error}"[:400],
                )
            )

    def add(self, row: Row) -> None:
        self._add(msgspec.structs.replace(row, benchmark=self._benchmark))

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        print(
            f"  {self._benchmark}: {row.name}{' FAILED ' + row.failed if row.failed else ''}",
            file=sys.stderr,
            flush=True,
        )
        if self._target is not None:
            self._target.write_bytes(json.dumps(msgspec.to_builtins(self.rows)).encode())


def in_turn(rounds: int, *works: Callable[[], Sample] | None) -> list[list[Sample]]:
    """Each of them ``rounds`` times, one after the other; ``None`` gives nothing. What fails is
    tried again twice."""
    found: list[list[Sample]] = [[] for _ in works]
    for _ in range(rounds):
        for place, work in enumerate(works):
            if work is not None:
                found[place].append(_tried(work))
    return found


def _tried(work: Callable[[], Sample]) -> Sample:
    for _ in range(_TRIES - 1):
        try:
            return work()
        except BenchmarkError as error:
            print(f"    again: {error}"[:300], file=sys.stderr, flush=True)
    return work()


class Traffic(NamedTuple):
    """A row of the broker: so many connections, so many requests on their way over each of them."""

    name: str
    connections: int
    window: int
    goals: Goals
    awake: bool = False
    """The clients never sleep while they wait for an answer."""


def traffic(
    row: Traffic,
    frames: Frames,
    server: Server,
    floor: Server | None,
    options: Options,
    before: Callable[[], object] = lambda: None,
    pure: Server | None = None,
) -> Row:
    """Play it against both in turn; ``before`` comes before every round. Then, in fewer rounds,
    against ``pure``."""

    def once(target: Server) -> Sample:
        before()
        with open_player(target.port, row.connections, frames) as player:
            return measured(
                partial(player.play, row.window, awake=row.awake), target.pid, options.seconds
            )

    ours, least = in_turn(
        options.rounds, partial(once, server), partial(once, floor) if floor else None
    )
    (twins,) = in_turn(min(options.rounds, PURE_ROUNDS), partial(once, pure) if pure else None)
    figures = figures_of(ours, least, row.goals, twins)
    return Row(benchmark="", name=row.name, figures=figures, floor_is=floor_is() if floor else "")
