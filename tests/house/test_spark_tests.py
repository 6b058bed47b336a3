"""Tests that ask for Spark run in one process with one session: they are found by the names of
their files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ..distribution import SPARK, turn_of, unit_of

TESTS = Path(__file__).resolve().parents[1]


def asks_for_spark(file: Path) -> bool:
    """A function of the file has an argument ``spark``."""
    text = file.read_text(encoding="utf-8")
    if not re.search(r"\bspark\b", text):  # most: parsing all takes a second
        return False
    tree = ast.parse(text)
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return any(argument.arg == "spark" for function in functions for argument in function.args.args)


def test_files_that_ask_for_spark_have_its_name() -> None:
    found = {file for file in TESTS.rglob("test_*.py") if asks_for_spark(file)}
    assert found
    assert {file.name for file in found if unit_of(file.as_posix()) != SPARK} == set()


@pytest.mark.parametrize(
    ("file", "unit"),
    [
        ("tests/e2e/test_spark_sink.py", SPARK),
        ("tests/e2e/test_spark_demo.py", SPARK),
        ("tests/e2e/test_broker.py", "tests/e2e/test_broker.py"),
        ("tests/spark_connector/sink/test_sink.py", "tests/spark_connector/sink/test_sink.py"),
    ],
)
def test_what_stays_together(file: str, unit: str) -> None:
    assert unit_of(file) == unit


def test_spark_begins_then_those_that_wait_for_processes() -> None:
    units = [
        "tests/client/producer/test_trace.py",
        "tests/fault/test_kill.py",
        SPARK,
        "tests/broker/acl/test_acl.py",
        "tests/e2e/test_acl.py",
    ]
    assert sorted(units, key=turn_of) == [units[2], units[1], units[4], units[0], units[3]]
