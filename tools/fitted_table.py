"""A table that fits the window of a terminal: a name or an address is never broken where it fits.

Columns stand side by side as long as they fit; those that do not go on in further lines of the same
row, which are indented.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, TextIO

__all__ = ["print_fitted"]

_GAP: Final = 2
_INDENT: Final = 2
_RULE: Final = "─" * 8


def print_fitted(
    stream: TextIO,
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    rules: Collection[int] = (),
) -> None:
    """Print rows below their titles; ``rules``: the numbers of rows that a line stands in front of.
    Only a cell that is wider than the window goes on in a line of its own."""
    from rich.cells import cell_len, set_cell_size  # here, because a pipe does without it
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    cells = [[row[position] for row in rows] for position in range(len(titles))]
    widths = [
        max(map(cell_len, (title, *column))) for title, column in zip(titles, cells, strict=True)
    ]
    numbers = [bool(column) and all(map(_is_number, column)) for column in cells]
    groups = _side_by_side(widths, console.width)

    def print_row(row: Sequence[str], style: str) -> None:
        for number, group in enumerate(groups):
            line = " " * (_INDENT if number else 0)
            for position in group:
                cell, width = row[position], widths[position]
                padded = (
                    " " * (width - cell_len(cell)) + cell
                    if numbers[position]
                    else set_cell_size(cell, width)
                )
                line += padded + " " * _GAP
            console.print(Text(line.rstrip(), style), overflow="fold")

    print_row(titles, "bold cyan")
    for number, row in enumerate(rows):
        if number in rules:
            console.print(Text(_RULE, "dim"))
        print_row(row, "")


def _side_by_side(widths: Sequence[int], width: int) -> list[list[int]]:
    """Positions of columns, line by line.

    >>> _side_by_side([10, 4, 12, 30], 30), _side_by_side([10, 4], 80)
    ([[0, 1], [2], [3]], [[0, 1]])
    """
    lines: list[list[int]] = [[]]
    used = 0
    for position, wide in enumerate(widths):
        if lines[-1] and used + wide > width:
            lines.append([])
            used = _INDENT
        lines[-1].append(position)
        used += wide + _GAP
    return lines


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).removeprefix("-").isdecimal()
