"""Sizes of functions, files and folders, broad excepts, and what rooms say of themselves.

What is over a limit is listed here with its size. The lists only shrink: what has become smaller is
written down here, or struck out, in the same change.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from .names import REPOSITORY, folders_with_code, trees

MOST_LINES_OF_A_FUNCTION: Final = 60
MOST_PARAMETERS: Final = 8
MOST_LINES_OF_A_FILE: Final = 400
MOST_FILES_OF_A_FOLDER: Final = 22
PAGE: Final = REPOSITORY / "docs" / "design" / "broad-excepts.md"

Function = ast.FunctionDef | ast.AsyncFunctionDef

LONG_FUNCTIONS: Final[dict[str, int]] = {}
"""``room: Class.function`` (so that a file may move): lines."""

MANY_PARAMETERS: Final = {
    # numbers and bytes of one record, for a compiled leaf or its twin: no object per message
    "remoting: put_batch": 13,
    "remoting: put_record": 13,
    # the same, handed over by the one handler that does nothing else
    "store: MessageWriter.put_fields": 12,
}
"""``self`` and ``cls`` do not count."""

LONG_FILES_THAT_DO_NOT_SAY_WHY: Final[set[str]] = set()
"""Of a file that is longer, the docstring says why it is one idea, with the words "one file"."""

FULL_FOLDERS: Final[dict[str, int]] = {}
"""Folder: modules, ``__init__`` among them."""

ROOMS_THAT_DO_NOT_SAY: Final = {
    "aiorocketmq",  # the face: shown to its users
    "spark_connector/pyspark_rocketmq",  # one name each, for Spark
    "spark_connector/pyspark_rocketmq_store",
}


def room_of(file: Path) -> str:
    return file.relative_to(REPOSITORY).parts[0]


def functions() -> Iterator[tuple[str, Function]]:
    for file, tree in trees().items():
        for name, node in named(tree):
            if isinstance(node, Function):
                yield f"{room_of(file)}: {name}", node


def named(node: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every node below ``node`` with the name of the class or function that it is or is in."""
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, Function | ast.ClassDef):
            name = f"{outer}.{child.name}".lstrip(".")
        yield name, child
        yield from named(child, name)


def lines_of(node: Function) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def parameters_of(node: Function) -> int:
    args = node.args
    names = [each.arg for each in args.posonlyargs + args.args]
    return len(names) + len(args.kwonlyargs) - (names[:1] in (["self"], ["cls"]))


def largest(sizes: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Of those with the same name."""
    found: dict[str, int] = {}
    for name, size in sizes:
        found[name] = max(size, found.get(name, 0))
    return found


def over(found: Mapping[str, int], limit: int) -> dict[str, int]:
    return {name: size for name, size in found.items() if size > limit}


def docstring_of(file: Path) -> str:
    return " ".join((ast.get_docstring(trees()[file]) or "").split())


def is_broad(handler: ast.ExceptHandler) -> bool:
    """It takes whatever is raised, and does not end in a ``raise`` of its own."""
    names = {each.id for each in ast.walk(handler) if isinstance(each, ast.Name)}
    if handler.type is not None:
        names = {each.id for each in ast.walk(handler.type) if isinstance(each, ast.Name)}
        if not names & {"Exception", "BaseException"}:
            return False
    leaves = (ast.Return, ast.Continue, ast.Break)
    return not isinstance(handler.body[-1], ast.Raise) or any(
        isinstance(each, leaves) for line in handler.body for each in ast.walk(line)
    )


def swallows(node: ast.AST) -> bool:
    """An ``__exit__`` that may end an error, or a ``suppress`` of all of them."""
    if isinstance(node, Function) and node.name in ("__exit__", "__aexit__"):
        return isinstance(node.returns, ast.Name) and node.returns.id == "bool"
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("suppress")
        and any(ast.unparse(each) in ("Exception", "BaseException") for each in node.args)
    )


def test_no_function_is_longer() -> None:
    found = largest((name, lines_of(node)) for name, node in functions())
    assert over(found, MOST_LINES_OF_A_FUNCTION) == LONG_FUNCTIONS


def test_no_function_has_more_parameters() -> None:
    found = largest((name, parameters_of(node)) for name, node in functions())
    assert over(found, MOST_PARAMETERS) == MANY_PARAMETERS


def test_a_long_file_says_why_it_is_one() -> None:
    silent = {
        f"{room_of(file)}: {file.name}"
        for file in trees()
        if len(file.read_text().splitlines()) > MOST_LINES_OF_A_FILE
        and not re.search(r"\bone file\b", docstring_of(file), re.IGNORECASE)
    }
    assert silent == LONG_FILES_THAT_DO_NOT_SAY_WHY


def test_no_folder_is_fuller() -> None:
    found = Counter(file.parent.relative_to(REPOSITORY).as_posix() for file in trees())
    assert over(found, MOST_FILES_OF_A_FOLDER) == FULL_FOLDERS


@pytest.mark.parametrize(
    "folder", sorted(each.relative_to(REPOSITORY).as_posix() for each in folders_with_code())
)
def test_a_room_says_what_it_imports_and_where_to_start(folder: str) -> None:
    text = docstring_of(REPOSITORY / folder / "__init__.py")
    says = "imports" in text.lower() and "start with" in text.lower()
    assert says is (folder not in ROOMS_THAT_DO_NOT_SAY), text


def test_every_broad_except_is_on_its_page_with_a_reason() -> None:
    listed = re.findall(r"^\| `(.+?)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    found = [
        f"{room_of(file)}: {name}"
        for file, tree in trees().items()
        for name, node in named(tree)
        if swallows(node) or (isinstance(node, ast.ExceptHandler) and is_broad(node))
    ]
    assert sorted(found) == sorted(name for name, _ in listed)


@pytest.mark.parametrize(
    ("code", "broad"),
    [
        ("except Exception: pass", True),
        ("except BaseException as error: report(error)", True),
        ("except (ValueError, Exception): pass", True),
        ("except: pass", True),
        ("except Exception:\n  if odd: return\n  raise", True),
        ("except BaseException:\n  close()\n  raise", False),
        ("except Exception as error: raise Known from error", False),
        ("except (OSError, ValueError): pass", False),
    ],
)
def test_what_is_broad(code: str, broad: bool) -> None:
    function = ast.parse(f"def f():\n try: g()\n {code.replace(chr(10), chr(10) + ' ')}")
    (handler,) = [each for each in ast.walk(function) if isinstance(each, ast.ExceptHandler)]
    assert is_broad(handler) is broad
