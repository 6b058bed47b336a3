"""Where commands print: the original's bytes into a pipe or file, tables that fit the window on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TextIO

_NEVER_FOLDED: Final = 16


class Layout(NamedTuple):
    """A table as the original prints it.

    ``row`` and ``header`` are printf formats, one ``%s`` per heading. Some tables of the original have a header that does
    not line up with the rows; then ``header`` differs from ``row``.
    """

    headings: tuple[str, ...]
    row: str
    header: str | None = None

    def header_line(self) -> str:
        return (self.header or self.row) % self.headings

    def row_line(self, *cells: object) -> str:
        return self.row % cells


class Table:
    """Takes rows, in a block of ``Output.table``."""

    def row(self, *cells: object) -> None:
        raise NotImplementedError

    def rule(self, line: str) -> None:
        """A line between the rows before and a total."""
        raise NotImplementedError


class Output:
    """Standard output. ``terminal``: a person reads it.

    A pipe gets exactly what a command prints, without a newline at the end where the original has none. A terminal gets
    one, and no control characters: what peers send must not steer it.
    """

    def __init__(self, stream: TextIO, *, terminal: bool = False) -> None:
        self._stream = stream
        self.terminal = terminal
        self._at_line_start = True

    def text(self, text: str) -> None:
        """Exactly this text."""
        if text:
            self._stream.write(_harmless(text) if self.terminal else text)
            self._at_line_start = text.endswith("\n")

    def line(self, text: str = "") -> None:
        self.text(text + "\n")

    @contextmanager
    def table(self, layout: Layout) -> Iterator[Table]:
        """A table whose rows come one by one; a pipe gets each at once, a terminal all of them at the end."""
        if not self.terminal:
            self.line(layout.header_line())
            yield _PlainTable(self, layout)
        else:
            table = _FittedTable(layout)
            try:
                yield table
            finally:
                table.print_to(self._stream)
        self.flush()

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        """The end of the command."""
        if self.terminal and not self._at_line_start:
            self.line()
        self.flush()


class _PlainTable(Table):
    def __init__(self, output: Output, layout: Layout) -> None:
        self._output = output
        self._layout = layout

    def row(self, *cells: object) -> None:
        self._output.line(self._layout.row_line(*cells))

    def rule(self, line: str) -> None:
        self._output.line(line)


class _FittedTable(Table):
    def __init__(self, layout: Layout) -> None:
        self._headings = layout.headings
        self._rows: list[tuple[object, ...]] = []
        self._rules: set[int] = set()

    def row(self, *cells: object) -> None:
        self._rows.append(cells)

    def rule(self, line: str) -> None:
        self._rules.add(len(self._rows))

    def print_to(self, stream: TextIO) -> None:
        from rich.console import Console  # here, because a pipe does without it
        from rich.table import Table as RichTable

        table = RichTable(box=None, header_style="bold cyan", pad_edge=False, padding=(0, 2, 0, 0))
        for position, heading in enumerate(self._headings):
            cells = [str(row[position]).strip() for row in self._rows]
            table.add_column(
                heading.removeprefix("#"),
                justify="right" if cells and all(map(_is_number, cells)) else "left",
                overflow="fold",
                no_wrap=max(map(len, [heading, *cells])) <= _NEVER_FOLDED,  # where room is short, names give way
            )
        for position, row in enumerate(self._rows):
            if position in self._rules:
                table.add_row(*("─" * 8 for _ in row), style="dim")
            table.add_row(*(str(cell).strip() for cell in row))
        Console(file=stream, highlight=False, markup=False, emoji=False).print(table)


def _harmless(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).removeprefix("-").isdecimal()
