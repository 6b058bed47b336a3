"""The file with the rows: opened, looked through once, then read again while it is sent."""

from __future__ import annotations

import re
import stat
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from .errors import DemoError
from .rows import (
    SAMPLE_ROWS,
    BadRow,
    Columns,
    DataError,
    Row,
    choose_columns,
    read_csv,
    read_json_lines,
)

FLIGHTS = Path(__file__).resolve().parent.parent / "data" / "flights-2013-01.csv"
_JSON_SUFFIXES = {".jsonl", ".ndjson", ".json"}
_CSV_SUFFIXES = {".csv", ".tsv", ".tab"}


class Source(NamedTuple):
    """A file that has rows, and what the first look at it found."""

    path: Path
    is_json: bool
    rows: int
    """How many can be sent."""
    bad_rows: list[BadRow]
    """Those that cannot."""
    columns: Columns
    tag_counts: dict[str, int]
    """How many rows have which tag, the most frequent first."""

    @property
    def name(self) -> str:
        """The file's name as a topic name."""
        return re.sub(r"[^A-Za-z0-9_-]+", "-", self.path.stem).strip("-")[:60] or "rows"

    def read(self) -> Iterator[Row]:
        """The rows that can be sent. Raises ``DemoError`` when the file cannot be read."""
        return (row for row in read_rows(self.path, is_json=self.is_json) if isinstance(row, Row))


def look_through(path: Path, *, tags: str | None = None, keys: str | None = None) -> Source:
    """Count the rows and choose the columns. Raises ``DemoError`` when there is nothing to send."""
    is_json = _is_json(path)
    bad: list[BadRow] = []
    good = _good_rows(read_rows(path, is_json=is_json), bad)
    sample = list(islice(good, SAMPLE_ROWS))
    if not sample:
        what = (
            f"none of its {len(bad)} rows can be sent, line {bad[0].line}: {bad[0].why}"
            if bad
            else "it has no rows"
        )
        raise DemoError(f"{path}: {what}")
    try:
        columns = choose_columns(sample, tags=tags, keys=keys)
    except DataError as error:
        raise DemoError(f"{path}: {error}") from None
    counts = Counter(columns.tag_of(row, number) for number, row in enumerate(chain(sample, good)))
    tag_counts = {tag: count for tag, count in counts.most_common() if tag is not None}
    return Source(path, is_json, counts.total(), bad, columns, tag_counts)


def _good_rows(rows: Iterator[Row | BadRow], bad: list[BadRow]) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, Row):
            yield row
        else:
            bad.append(row)


def read_rows(path: Path, *, is_json: bool) -> Iterator[Row | BadRow]:
    """Every row of a file. Raises ``DemoError`` when it cannot be read or is neither CSV nor JSON
    lines."""
    try:
        with path.open(
            encoding="utf-8-sig", errors="surrogateescape", newline="\n" if is_json else ""
        ) as lines:
            yield from read_json_lines(lines) if is_json else read_csv(lines)
    except OSError as error:
        raise DemoError(f"cannot read {path}: {error.strerror or error}") from None
    except DataError as error:
        raise DemoError(f"{path}: {error}") from None


def _is_json(path: Path) -> bool:
    """By the name, else by the first character. Raises ``DemoError`` for what is no readable text
    file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DemoError(f"{path} is no file: a CSV file or one with JSON lines is needed")
        with path.open("rb") as file:
            start = file.read(4096)
    except FileNotFoundError:
        raise DemoError(f"there is no file {path}") from None
    except OSError as error:
        raise DemoError(f"cannot read {path}: {error.strerror or error}") from None
    if not start.strip():
        raise DemoError(f"{path}: it is empty")
    if b"\0" in start:
        raise DemoError(
            f"{path}: it is not text; a CSV file or one with JSON lines is needed, UTF-8 and not "
            "compressed"
        )
    if path.suffix.lower() in _JSON_SUFFIXES | _CSV_SUFFIXES:
        return path.suffix.lower() in _JSON_SUFFIXES
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
