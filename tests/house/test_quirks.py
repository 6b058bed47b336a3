"""``docs/quirks.md``: every oddity has a name, a class of the original, and tests that exist."""

from __future__ import annotations

import ast
import functools
import re
from typing import NamedTuple

import pytest

from .names import REPOSITORY

PAGE = REPOSITORY / "docs" / "quirks.md"
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_MENTIONED = re.compile(r"quirk ``([A-Z0-9_]+)``")


class Quirk(NamedTuple):
    """A row of the page."""

    name: str
    original: str
    ours: str
    source: str
    proofs: str


def rows() -> list[Quirk]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    return [Quirk(*(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])) for line in lines]


QUIRKS = rows()


@functools.cache
def functions_in(path: str) -> frozenset[str]:
    tree = ast.parse((REPOSITORY / path).read_text("utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_quirks_are_named_and_explained() -> None:
    assert len(QUIRKS) > 20
    assert len({quirk.name for quirk in QUIRKS}) == len(QUIRKS)
    for quirk in QUIRKS:
        assert re.fullmatch(r"`[A-Z][A-Z0-9_]+`", quirk.name)
        assert all(quirk)


@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk.name)
def test_a_quirk_is_proved_by_tests_that_exist(quirk: Quirk) -> None:
    proofs = _TEST.findall(quirk.proofs)
    assert proofs
    assert len(proofs) == quirk.proofs.count("::")
    for path, name in proofs:
        assert (REPOSITORY / path).is_file(), path
        assert name in functions_in(path), f"{path} has no {name}"


def test_code_speaks_of_quirks_that_there_are() -> None:
    names = {quirk.name.strip("`") for quirk in QUIRKS}
    said = {
        name
        for room in ("remoting", "broker", "client", "namesrv", "store")
        for path in (REPOSITORY / room).rglob("*.py")
        for name in _MENTIONED.findall(" ".join(path.read_text("utf-8").split()))
    }
    assert len(said) > 4
    assert said <= names
