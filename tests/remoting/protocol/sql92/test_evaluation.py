"""Text as numbers, as Java reads it, for what values of properties are compared with."""

from __future__ import annotations

import re

import pytest

from aiorocketmq.remoting.protocol.sql92.evaluation import _DOUBLE, EvaluationError, parse_double


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5.0), ("5.", 5.0), (".5", 0.5), ("-5.5e3", -5500.0), ("+1E-2", 0.01), ("7f", 7.0),
        ("7.25D", 7.25), (" 1 \x00", 1.0), ("-Infinity", float("-inf")), ("0" * 30_000, 0.0),
    ],
)  # fmt: skip
def test_doubles(text: str, value: float) -> None:
    assert parse_double(text) == value


@pytest.mark.parametrize(
    "text", ["", ".", "e5", "5e", "1_0", "٣", "5ff", "0x1p3", "nan", "1 2", "9" * 30_000 + "x"]
)
def test_what_is_no_double(text: str) -> None:
    with pytest.raises(EvaluationError):
        parse_double(text)


def test_nothing_is_tried_again() -> None:
    """Else a property of so many digits is tried at each of them, in the loop, for many seconds."""
    assert re.findall(r"\][+*](?!\+)", _DOUBLE.pattern) == []
