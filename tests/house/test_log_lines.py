"""docs/log-lines.md says what every line at WARNING or worse asks for, and quotes no other."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from .names import REPOSITORY, trees

PAGE: Final = REPOSITORY / "docs" / "log-lines.md"
ROOMS: Final = ("broker", "daemon", "namesrv", "remoting", "store")
BELOW: Final = ("DEBUG", "INFO")
AT_ONCE: Final = {"warning", "error", "critical", "exception"}
OF_OUTAGES: Final = {"fails", "occurs", "tell_of"}
GAP: Final = "..."
"""In the page: what differs."""
_PLACEHOLDER: Final = re.compile(r"%(?:[-+ #0]*\d*(?:\.\d+)?[a-zA-Z])")
_LONGEST: Final = 600
_LETTERS: Final = 8
"""A line with fewer of its own is made of others: the page has those, which the other direction
looks up."""


class Line(NamedTuple):
    place: str
    text: str
    """With gaps in the place of values."""


def rooms() -> list[tuple[Path, ast.Module]]:
    """Without ``outages.py``, which says once more what others have said."""
    return [
        (path, tree)
        for path, tree in trees().items()
        if path.relative_to(REPOSITORY).parts[0] in ROOMS and path.name != "outages.py"
    ]


def texts_of(node: ast.expr, names: dict[str, list[ast.expr]]) -> list[str]:
    """What the template may be: a literal, or what a name of the module was given."""
    match node:
        case ast.Constant(value=str(text)):
            return [_PLACEHOLDER.sub(GAP, text)]
        case ast.JoinedStr():
            parts = (part.value if isinstance(part, ast.Constant) else GAP for part in node.values)
            return ["".join(map(str, parts))]
        case ast.IfExp():
            return [*texts_of(node.body, names), *texts_of(node.orelse, names)]
        case ast.Name():
            return [text for value in names.pop(node.id, []) for text in texts_of(value, names)]
        case ast.Tuple(elts=elements):
            return [text for element in elements for text in texts_of(element, names)]
        case _:
            return []


def names_of(module: ast.Module) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.setdefault(name, []).append(value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for each, value in zip(names, values, strict=True):
                    if isinstance(each, ast.Name):
                        found.setdefault(each.id, []).append(value)
            case _:
                pass
    return found


def template_of(call: ast.Call, names: dict[str, list[ast.expr]]) -> ast.expr | None:
    """Of a call that logs at WARNING or worse, or may."""
    if not isinstance(call.func, ast.Attribute):
        return None
    name, owner = call.func.attr, ast.unparse(call.func.value)
    is_log = owner.split(".")[-1].lstrip("_") == "log"
    level = next((each.value for each in call.keywords if each.arg == "level"), None)
    levels: Sequence[ast.expr | None] = [level]
    if isinstance(level, ast.Name):
        levels = names.get(level.id, [level])
    if name in AT_ONCE and is_log:
        return call.args[0]
    if name == "log" and is_log and not all_below([call.args[0]]):
        return call.args[1]
    if name in OF_OUTAGES and len(call.args) > 2 and not all_below(levels):
        return call.args[2]
    return None


def all_below(levels: Sequence[ast.expr | None]) -> bool:
    text = " ".join(ast.unparse(each) for each in levels if each is not None)
    found = re.findall(r"logging\.([A-Z]+)", text)
    return bool(found) and all(each in BELOW for each in found)


@functools.cache
def lines() -> list[Line]:
    found = []
    for path, module in rooms():
        names = names_of(module)
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and (template := template_of(node, names)) is not None:
                place = f"{path.relative_to(REPOSITORY)}:{node.lineno}"
                for text in texts_of(template, dict(names)):
                    if len(re.sub(r"[^a-zA-Z]", "", text)) >= _LETTERS:
                        found.append(Line(place, text))
    return found


@functools.cache
def phrases() -> list[str]:
    """Those in the first column."""
    found = []
    for row in PAGE.read_text(encoding="utf-8").splitlines():
        if row.startswith("| ") and not row.startswith(("| ---", "| Line")):
            found += re.findall(r"`([^`]+)`", row.split(" | ")[0])
    return found


def pattern_of(phrase: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, phrase.split(GAP))))


def part_of(phrase: str) -> re.Pattern[str]:
    """To be searched for: a gap at an end means nothing, and in front it costs a square."""
    return pattern_of(phrase.removeprefix(GAP).removesuffix(GAP))


def is_said(line: Line) -> bool:
    """By a phrase that is part of it, or by one that gives an example of it."""
    whole = pattern_of(line.text)
    return any(part_of(phrase).search(line.text) or whole.fullmatch(phrase) for phrase in phrases())


def test_there_are_lines() -> None:
    """So that the tests below look at something."""
    assert len(lines()) > 180
    assert any("the disk failed" in line.text for line in lines())
    assert "take turns" in strings()


def test_every_line_is_on_the_page() -> None:
    assert [line for line in lines() if not is_said(line)] == [], (
        f"{PAGE.name} does not say what these mean and ask for"
    )


@functools.cache
def strings() -> str:
    """Everything that the rooms may say, one a line; no docstrings."""
    return "\n".join(
        " ".join(text.split())
        for _, module in rooms()
        for node in ast.walk(module)
        if isinstance(node, (ast.Constant, ast.JoinedStr))
        for text in texts_of(node, {})
        if " " in text and len(text) < _LONGEST
    )


@functools.cache
def openings() -> list[re.Pattern[str]]:
    """Of lines that end with a reason, of which the page gives an example."""
    return [pattern_of(line.text) for line in lines() if line.text.endswith(": " + GAP)]


def test_the_page_quotes_what_is_said() -> None:
    """Values that are examples apart."""
    assert [phrase for phrase in phrases() if not is_quoted(phrase)] == [], "no line says these"


def is_quoted(phrase: str) -> bool:
    sought = part_of(re.sub(r"=[A-Z][A-Z_]+\b", "=", phrase))
    return sought.search(strings()) is not None or any(
        each.fullmatch(phrase) for each in openings()
    )
