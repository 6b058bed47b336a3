"""What is shown while rows are on their way: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn

LINE_EVERY_S = 2.0


class Display(Protocol):
    """Shows how far things are."""

    def update(self, done: Mapping[str, int]) -> None:
        """``done``: what is counted and how far it is; a change of the keys is not expected."""
        ...


@contextmanager
def progress_display(console: Console, totals: Mapping[str, int]) -> Iterator[Display]:
    """A display for these counts and how far they go."""
    if not console.is_terminal:
        lines = Lines(console, totals)
        yield lines
        lines.flush()
        return
    text = TextColumn("{task.description}", markup=False)
    with Progress(
        text, BarColumn(bar_width=40), TaskProgressColumn(), MofNCompleteColumn(), console=console
    ) as bars:
        yield Bars(bars, totals)


class Bars:
    """A bar for each count."""

    def __init__(self, bars: Progress, totals: Mapping[str, int]) -> None:
        self._bars = bars
        self._tasks = {name: bars.add_task(name, total=total) for name, total in totals.items()}

    def update(self, done: Mapping[str, int]) -> None:
        for name, count in done.items():
            self._bars.update(self._tasks[name], completed=count)


class Lines:
    """A line every two seconds, as long as something changes."""

    def __init__(self, console: Console, totals: Mapping[str, int]) -> None:
        self._console = console
        self._totals = totals
        self._latest: dict[str, int] = {}
        self._shown: dict[str, int] = {}
        self._shown_at = time.monotonic()

    def update(self, done: Mapping[str, int]) -> None:
        self._latest = dict(done)
        if time.monotonic() - self._shown_at >= LINE_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Print the latest counts unless they are shown already."""
        self._shown_at = time.monotonic()
        if self._latest != self._shown:
            self._shown = self._latest
            counts = (
                f"{name} {count:,} of {self._totals[name]:,}"
                for name, count in self._latest.items()
            )
            self._console.print("  " + ", ".join(counts), soft_wrap=True)
