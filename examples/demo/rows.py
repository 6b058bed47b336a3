"""Rows of a CSV or JSON lines file, and which of its columns make good tags and keys. Pure: lines
go in, rows come out.

A tag is what consumers filter by, so a column of few different words is wanted; a key is what one
message is found by, so its values must differ.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

MAX_BODY_BYTES = 4 * 1024 * 1024
"""What clients and brokers take by default (``maxMessageSize``)."""

SAMPLE_ROWS = 10_000
MAX_TAGS = 64
MAX_WORD_CHARS = 128

_DELIMITERS = (",", ";", "\t", "|")
_NUMBER_OR_DATE = re.compile(r"[+-]?[.\d][\d.,:/+\-%TZ ]*")
_NOT_IN_WORDS = re.compile(r"[\s\x00-\x1f|]+|^\*$")


class DataError(Exception):
    """The file as a whole is no use; the text is one line that says why and what to do."""


class Row(NamedTuple):
    """One row that can be sent."""

    line: int
    """Where it starts in the file, from 1."""
    values: Mapping[str, Any]
    body: bytes
    """The row as a JSON object."""


class BadRow(NamedTuple):
    """One row that cannot be sent."""

    line: int
    why: str


class Columns(NamedTuple):
    """Where tags and keys come from; ``None``: no column suits."""

    tags: str | None
    keys: str | None

    def tag_of(self, row: Row, number: int) -> str | None:
        """The tag of a row, ``None`` when its field is empty. Without a column: odd or even, by the
        row's number."""
        if self.tags is None:
            return "odd" if number % 2 else "even"
        return word(row.values.get(self.tags)) or None

    def key_of(self, row: Row) -> str | None:
        """The key of a row, ``None`` when its field is empty. Without a column: the line in the
        file."""
        if self.keys is None:
            return f"line-{row.line}"
        return word(row.values.get(self.keys)) or None


def read_csv(lines: Iterable[str]) -> Iterator[Row | BadRow]:
    """Rows of a CSV file whose first line names the columns; the delimiter is the one that line has
    most of.

    Raises ``DataError`` when there is no such line.
    """
    csv.field_size_limit(MAX_BODY_BYTES)
    lines = iter(lines)
    first = list(_until_header(lines))
    reader = csv.reader(chain(first, lines), delimiter=delimiter_of(first[-1] if first else ""))
    names = _column_names(reader)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield BadRow(line, str(error))
            continue
        if len(fields) == len(names):
            yield _checked(line, dict(zip(names, fields, strict=True)))
        elif any(field.strip() for field in fields):
            yield BadRow(line, f"{len(fields)} fields where the header has {len(names)}")


def read_json_lines(lines: Iterable[str]) -> Iterator[Row | BadRow]:
    """Rows of a file with a JSON object on each line. Raises ``DataError`` when it is one JSON
    array instead."""
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        if number == 1 and text.lstrip().startswith("["):
            raise DataError(
                "it is a JSON array; one object per line is needed (jq -c '.[]' makes them)"
            )
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            yield BadRow(number, f"broken JSON: {error.msg} at column {error.colno}")
            continue
        except (ValueError, RecursionError) as error:
            yield BadRow(number, f"broken JSON: {error}")
            continue
        if isinstance(values, dict):
            yield _checked(number, values, text.strip())
        else:
            yield BadRow(number, f"a JSON object is needed, not {text.strip()[:40]}")


def delimiter_of(header: str) -> str:
    """The delimiter that a header line has most of, a comma when it has none."""
    outside_quotes = re.sub(r'"[^"]*"', "", header)
    return max(_DELIMITERS, key=outside_quotes.count)


def choose_columns(
    sample: Sequence[Row], *, tags: str | None = None, keys: str | None = None
) -> Columns:
    """The columns asked for, else the first that suits. Raises ``DataError`` when there is no such
    column."""
    names = list(dict.fromkeys(name for row in sample for name in row.values))
    for asked in (tags, keys):
        if asked is not None and asked not in names:
            raise DataError(f"it has no column {asked!r}; there are {', '.join(names)}")
    chosen_tags = tags or next(
        (name for name in names if _suits_tags(_values(sample, name), len(sample))), None
    )
    chosen_keys = keys or next(
        (name for name in names if _suits_keys(_values(sample, name), len(sample))), None
    )
    return Columns(chosen_tags, chosen_keys)


def word(value: object) -> str:
    """A value as a tag or key: one word, no longer than needed to tell it apart, without what
    separates tags and keys."""
    if value is None:
        return ""
    text = str(value).strip().encode(errors="replace").decode()
    return _NOT_IN_WORDS.sub("_", text)[:MAX_WORD_CHARS]


def _until_header(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line.strip():
            return


def _column_names(reader: Iterator[list[str]]) -> list[str]:
    try:
        found = [name.strip() for name in next((fields for fields in reader if fields), [])]
    except csv.Error as error:
        raise DataError(f"its header is broken: {error}") from None
    if not any(found):
        raise DataError("it is empty")
    if not all(map(_is_utf8, found)):
        raise DataError("it is not UTF-8 text")
    if all(_NUMBER_OR_DATE.fullmatch(name) for name in found if name):
        raise DataError(
            f"its first line must name the columns, not be data: {', '.join(found)[:60]}"
        )
    names = [name or f"column_{number}" for number, name in enumerate(found, 1)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"two of its columns are named {twice!r}")
    return names


def _checked(line: int, values: Mapping[str, Any], text: str | None = None) -> Row | BadRow:
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":")) if text is None else text
    if not _is_utf8(text):
        return BadRow(line, "not UTF-8 text")
    body = text.encode()
    if len(body) > MAX_BODY_BYTES:
        return BadRow(
            line,
            f"{len(body) / 1024**2:.1f} MiB, a message has at most {MAX_BODY_BYTES // 1024**2} MiB",
        )
    return Row(line, values, body)


def _is_utf8(text: str) -> bool:
    """Whether text read with ``errors="surrogateescape"`` had only bytes that are UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _values(sample: Sequence[Row], name: str) -> list[Any]:
    return [value for row in sample if (value := row.values.get(name)) not in (None, "")]


def _suits_tags(values: Sequence[Any], rows: int) -> bool:
    """Words, few different ones, in at least half of the rows."""
    if not 2 * len(values) >= rows or not all(isinstance(value, str) for value in values):
        return False
    different = set(values)
    few = 2 <= len(different) <= min(MAX_TAGS, (rows + 1) // 2)
    return few and all(
        len(v) <= MAX_WORD_CHARS and not _NUMBER_OR_DATE.fullmatch(v) for v in different
    )


def _suits_keys(values: Sequence[Any], rows: int) -> bool:
    """A value in each row, no two alike."""
    if len(values) < rows or not all(type(value) in (str, int) for value in values):
        return False
    words = [word(value) for value in values]
    return len(set(words)) == rows and max(map(len, words)) < MAX_WORD_CHARS
