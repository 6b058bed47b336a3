"""The code as trees, and names of it that stand in pages: ``path/file.py`` and ``path/file.py:
Name.attribute``."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
NOT_INSTALLED = {"benchmarks", "examples", "tests"}
ROOMS = (
    "aiorocketmq",
    "broker",
    "client",
    "daemon",
    "namesrv",
    "remoting",
    "spark_connector",
    "store",
    "tools",
)
_NAMED = re.compile(r"`((?:" + "|".join(ROOMS) + r")/[\w/]+\.py)(?:: ([\w.]+))?`")


def folders_with_code() -> set[Path]:
    """Every folder of the rooms that holds a Python file, whether it says that it is a package or
    not."""
    rooms = (p for p in REPOSITORY.iterdir() if p.is_dir() and (p / "__init__.py").exists())
    installed = (room for room in rooms if room.name not in NOT_INSTALLED)
    return {file.parent for room in installed for file in room.rglob("*.py")}


@functools.cache
def trees() -> Mapping[Path, ast.Module]:
    """Everything that is installed: a million objects, which ``conftest.py`` lets go again."""
    files = sorted(file for folder in folders_with_code() for file in folder.glob("*.py"))
    return {file: ast.parse(file.read_text("utf-8")) for file in files}


class Named(NamedTuple):
    """A file of the package, and what is said to stand in it."""

    path: str
    name: str

    def __str__(self) -> str:
        return f"{self.path}: {self.name}" if self.name else self.path


def named_in(text: str) -> list[Named]:
    return [Named(path, name) for path, name in _NAMED.findall(" ".join(text.split()))]


def module_of(path: str) -> ModuleType:
    """The module of a file, imported."""
    name = path.removeprefix("aiorocketmq/").removesuffix(".py").removesuffix("/__init__")
    return importlib.import_module("aiorocketmq." + name.replace("/", "."))


def problem_of(named: Named) -> str | None:
    """Why a name leads nowhere: it has to be defined in that very file. The file is read, not
    imported: not everybody has Spark."""
    if not (REPOSITORY / named.path).is_file():
        return f"{named.path} does not exist"
    if named.name and named.name not in defined_in(named.path):
        return f"{named.path} defines no {named.name}"
    return None


@functools.cache
def defined_in(path: str) -> frozenset[str]:
    """Functions, classes with their members, and names that are set."""
    return frozenset(_defined(ast.parse((REPOSITORY / path).read_text("utf-8")).body, ""))


def _defined(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from _defined(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (prefix + each.id for each in targets if isinstance(each, ast.Name))
        elif isinstance(node, ast.If):
            yield from _defined([*node.body, *node.orelse], prefix)
