"""Where commands print: the original's bytes into a pipe or file, tables that fit the window on a
terminal, or JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TextIO

from ...daemon.printable import printable, printable_json
from ..fitted_table import print_fitted

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+|\d+")
_FIXED_POINT: Final = re.compile(r"-?\d+\.\d+")
_KEPT: Final = "\n\t"


class Layout(NamedTuple):
    """A table as the original prints it.

    ``row`` and ``header`` are printf formats, one ``%s`` per heading. Some tables of the original
    have a header that does not line up with the rows; then ``header`` differs from ``row``.
    ``header=""``: it has none.
    """

    headings: tuple[str, ...]
    row: str
    header: str | None = None

    def header_line(self) -> str:
        return (self.row if self.header is None else self.header) % self.headings

    def row_line(self, *cells: object) -> str:
        return self.row % cells

    @property
    def keys(self) -> list[str]:
        """The headings as names in JSON.

        >>> Layout(("#Broker Name", "#QID", "#InTPS(LOAD)"), "").keys
        ['brokerName', 'qid', 'inTpsLoad']
        """
        return [camel_case(heading) for heading in self.headings]


def camel_case(heading: str) -> str:
    words: list[str] = [word.lower() for word in _WORD.findall(heading)]
    first, *others = words
    return first + "".join(word.capitalize() for word in others)


class Table:
    """Takes rows, in a block of ``Output.table``."""

    def row(self, *cells: object) -> None:
        raise NotImplementedError

    def rule(self, line: str) -> None:
        """A line between the rows before and a total."""
        raise NotImplementedError


class Output:
    """Standard output. ``terminal``: a person reads it. ``as_json``: one JSON document instead of
    text.

    A pipe gets exactly what a command prints, without a newline at the end where the original has
    none. A terminal gets one, and no control characters: what peers send must not steer it.

    In JSON the rows of a table are a list of objects, and the whole document when a command prints
    nothing else; otherwise they are its ``rows``, next to what ``fact`` said.
    """

    def __init__(self, stream: TextIO, *, terminal: bool = False, as_json: bool = False) -> None:
        self._stream = stream
        self.terminal: bool = terminal and not as_json
        self.as_json = as_json
        self._document: dict[str, Any] = {}
        self._at_line_start = True
        self._progress_shown = False

    def text(self, text: str) -> None:
        """Exactly this text."""
        if text and not self.as_json:
            self.progress("")
            self._stream.write(printable(text, _KEPT) if self.terminal else text)
            self._at_line_start = text.endswith("\n")

    def line(self, text: str = "") -> None:
        self.text(text + "\n")

    def fact(self, name: str, value: object, text: str = "") -> None:
        """One value: in JSON under its name, otherwise as ``text``."""
        self._document[name] = value
        self.text(text)

    def add_row(self, row: Mapping[str, object]) -> None:
        """In JSON, one more object in the list."""
        self._document.setdefault("rows", []).append(dict(row))

    @contextmanager
    def table(self, layout: Layout) -> Iterator[Table]:
        """A table whose rows come one by one; a pipe gets each at once, a terminal all of them at
        the end."""
        if self.as_json:
            yield _JsonTable(layout, self._document.setdefault("rows", []))
        elif not self.terminal:
            if layout.header != "":
                self.line(layout.header_line())
            yield _PlainTable(self, layout)
        else:
            table = _FittedTable(layout)
            try:
                yield table
            finally:
                self.progress("")
                table.print_to(self._stream)
        self.flush()

    def pairs(self, pairs: Mapping[str, object], row: str, *, name: str | None = None) -> None:
        """Names and values, a line each by the printf format ``row``; in JSON an object, below
        ``name`` if there is one."""
        if name is None:
            self._document.update(pairs)
        else:
            self._document[name] = dict(pairs)
        for pair in pairs.items():
            self.line(row % pair)

    def progress(self, text: str) -> None:
        """How far a long command is: one line that comes and goes. Only on a terminal, and on
        standard error."""
        if self.terminal and (text or self._progress_shown):
            self.flush()
            sys.stderr.write(f"\r\x1b[K{printable(text, _KEPT)}")
            sys.stderr.flush()
            self._progress_shown = bool(text)

    def clear(self) -> None:
        """An empty screen, on a terminal."""
        if self.terminal:
            self._stream.write("\x1b[2J\x1b[H")

    @property
    def is_empty(self) -> bool:
        """Nothing was printed, or said for the JSON document."""
        return not self._document and self._at_line_start

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        """The end of the command, or of one round of it."""
        if self.as_json:
            document = (
                self._document["rows"] if self._document.keys() == {"rows"} else self._document
            )
            self._stream.write(printable_json(document, indent=2) + "\n")
            self._document = {}
        self.progress("")
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


class _JsonTable(Table):
    """The rows before a rule; a total can be counted by whoever reads them."""

    def __init__(self, layout: Layout, rows: list[dict[str, Any]]) -> None:
        self._keys = layout.keys
        self._rows = rows
        self._closed = False

    def row(self, *cells: object) -> None:
        if not self._closed:
            self._rows.append(dict(zip(self._keys, map(_json_value, cells), strict=True)))

    def rule(self, line: str) -> None:
        self._closed = True


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
        print_fitted(
            stream,
            [heading.removeprefix("#") for heading in self._headings],
            [[printable(str(cell).strip(), _KEPT) for cell in row] for row in self._rows],
            rules=self._rules,
        )


def _json_value(cell: object) -> object:
    """Numbers as numbers, also those that were made text with so many digits."""
    if isinstance(cell, str):
        text = cell.strip()
        return float(text) if _FIXED_POINT.fullmatch(text) else text
    return cell if isinstance(cell, (int, float, bool)) or cell is None else str(cell)
