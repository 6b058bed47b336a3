"""``docs/design/promises.md``: for every promise of the page of reliability the functions that
could break it, each with a comparison in it that ``python -O`` keeps, and a test that comes to it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from .names import REPOSITORY, Named, module_of, problem_of, trees
from .test_limits import Function, named

PAGE = (REPOSITORY / "docs" / "design" / "promises.md").read_text("utf-8")
RELIABILITY = (REPOSITORY / "docs" / "reliability" / "page.template").read_text("utf-8")
ROWS = re.findall(
    r"^\| `(\S+\.py): ([\w.]+)` \| (.+) \| `(\S+\.py): (\w+)` \|$", PAGE, re.MULTILINE
)


def test_every_row_is_one() -> None:
    rows = re.findall(r"^\| `", PAGE, re.MULTILINE)
    assert len(rows) == len(ROWS) > 40


def test_each_promise_has_its_functions() -> None:
    promises = RELIABILITY.split("And in all of them:\n")[1].split("## ")[0]
    told = re.findall(r"^\| (.+?) \| `", promises, re.MULTILINE)
    sections = re.findall(r"^## (.+)$\n\n\| Function .+\n.+\n\| `", PAGE, re.MULTILINE)
    assert sections == ["What is acknowledged is where the table says", *told]


@pytest.mark.parametrize(("path", "name"), sorted({(path, name) for path, name, *_ in ROWS}))
def test_there_is_a_check(path: str, name: str) -> None:
    assert problem_of(Named(path, name)) is None
    found: object = module_of(path)
    for part in name.split("."):
        found = getattr(found, part)
    (function,) = [
        node
        for outer, node in named(trees()[REPOSITORY / path])
        if outer == name and isinstance(node, Function)
    ]
    kept = [node for node in ast.walk(function) if not isinstance(node, ast.Assert)]
    assert any(isinstance(node, ast.Compare | ast.If | ast.IfExp) for node in kept)


@pytest.mark.parametrize(("path", "name"), sorted({(path, name) for *_, path, name in ROWS}))
def test_there_is_a_test(path: str, name: str) -> None:
    tree = ast.parse((REPOSITORY / path).read_text("utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def narrows(test: ast.expr) -> bool:
    """``x is not None``, ``isinstance(x, ...)``: for the type checker."""
    match test:
        case ast.Compare(ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return True
        case ast.Call(func=ast.Name(id="isinstance")):
            return True
        case _:
            return False


def asserts() -> Iterator[tuple[str, str]]:
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert) and not narrows(node.test):
                yield file.name, ast.unparse(node)


def test_nothing_depends_on_an_assert() -> None:
    assert list(asserts()) == []


@pytest.mark.parametrize(
    ("code", "only_types"),
    [("x is not None", True), ("isinstance(x, int)", True), ("x > 0", False), ("x is y", False)],
)
def test_what_is_for_the_type_checker(code: str, only_types: bool) -> None:
    assert narrows(ast.parse(code, mode="eval").body) is only_types


def test_a_check_is_there_without_asserts() -> None:
    """As ``python -O`` runs it."""
    code = (
        "from aiorocketmq.store.raft.state import MemberState as S\n"
        "from aiorocketmq.store.raft.entry_log import CommittedConflict\n"
        "state = S.__new__(S)\n"
        "state.term, state.vote = 3, 'n1'\n"
        "assert False\n"
        "try: state.vote_for('n2')\n"
        "except CommittedConflict as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-O", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    assert done.stdout == "the vote of term 3 is n1's, it cannot be n2's\n"
