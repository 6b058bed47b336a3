"""Draw the rooms from the imports of the code: ``python docs/rooms.py`` (``--check`` only says when
a picture is old).

Pictures, as Mermaid: the rooms in ``ARCHITECTURE.md``, between its marks, and each room's folders
and modules in ``rooms.md``, with the first sentence of each folder's ``__init__``. An arrow is an
import, wherever it stands, also one for types alone. What follows from other arrows is left out:
who imports the broker may import what the broker imports.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
ROOT: Final = "aiorocketmq"
FACE: Final = "the face"
GENERATED: Final = "<!-- Made by docs/rooms.py from the imports; do not edit. -->"
BEGIN: Final = "<!-- rooms: made by docs/rooms.py from the imports; do not edit -->"
END: Final = "<!-- end of rooms -->"

Graph = dict[str, set[str]]
"""Who imports whom."""


@functools.cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name; a package by its own name."""
    setup = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    mapped: dict[str, str] = setup["package-dir"]
    found = {}
    for package in setup["packages"]:
        head = max((name for name in mapped if f"{package}.".startswith(f"{name}.")), key=len)
        folder = REPOSITORY / mapped[head] / package[len(head) :].strip(".").replace(".", "/")
        for path in sorted(folder.glob("*.py")):
            found[package if path.stem == "__init__" else f"{package}.{path.stem}"] = path
    return found


def imported_by(name: str, path: Path) -> Iterator[str]:
    """The modules of the package that a module imports."""
    known = modules()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = node.level - (path.stem == "__init__")
            base = ".".join(name.split(".")[: len(name.split(".")) - above]) if node.level else ""
            whole = ".".join(part for part in (base, node.module) if part)
            for alias in node.names:
                inner = f"{whole}.{alias.name}"
                if inner in known or whole in known:
                    yield inner if inner in known else whole


def room_of(name: str) -> str:
    """The folder at the top of the repository; the protocol is a room within a room."""
    parts = name.split(".")
    if name.startswith(f"{ROOT}.remoting.protocol"):
        return "remoting/protocol"
    path = modules()[name].relative_to(REPOSITORY)
    return FACE if path.parts[0] == ROOT else parts[1] if parts[0] == ROOT else path.parts[0]


def folder_of(name: str) -> str:
    """The folder of a module, as a path in the repository."""
    return str(modules()[name].relative_to(REPOSITORY).parent)


@functools.cache
def imports() -> frozenset[tuple[str, str]]:
    """Pairs of modules."""
    return frozenset(
        (name, other) for name, path in modules().items() for other in imported_by(name, path)
    )


def reduced(graph: Graph) -> Graph:
    """Without the arrows that follow from others. Raises ``graphlib.CycleError``."""
    below: Graph = {}
    for name in graphlib.TopologicalSorter(graph).static_order():
        direct = graph.get(name, set())
        below[name] = direct.union(*(below[other] for other in direct))
    return {
        name: {other for other in direct if not any(other in below[via] for via in direct)}
        for name, direct in graph.items()
    }


def mermaid(graph: Graph) -> list[str]:
    """The lines of a picture, callers above."""
    marks = {name: re.sub(r"\W", "_", name) for name in sorted(_nodes(graph))}
    lines = ["```mermaid", "graph TD"]
    lines += [f'    {mark}["{name}"]' for name, mark in marks.items()]
    lines += [
        f"    {marks[name]} --> {marks[other]}"
        for name in sorted(graph)
        for other in sorted(graph[name])
    ]
    return [*lines, "```"]


def _nodes(graph: Graph) -> set[str]:
    return set(graph).union(*graph.values()) if graph else set()


def rooms() -> Graph:
    graph: Graph = {room_of(name): set() for name in modules()}
    for one, other in imports():
        if (here := room_of(one)) != (there := room_of(other)):
            graph[here].add(there)
    return graph


def folders(room: str) -> list[str]:
    """The folders of a room that have a docstring of their own, the room's among them."""
    return sorted({folder_of(name) for name in modules() if room_of(name) == room})


def siblings(room: str) -> Graph:
    """What stands side by side in a room: its folders, each with all that is below it, and its own
    modules."""
    graph: Graph = {_sibling(name): set() for name in modules() if room_of(name) == room}
    for one, other in imports():
        if room_of(one) == room_of(other) == room and _sibling(one) != _sibling(other):
            graph[_sibling(one)].add(_sibling(other))
    graph.pop("__init__", None)
    return {name: others - {"__init__"} for name, others in graph.items()}


def _sibling(name: str) -> str:
    """What of its room a module belongs to: ``frames/`` or ``wire``."""
    room = room_of(name)
    path = modules()[name].relative_to(REPOSITORY / (ROOT if room == FACE else room))
    return f"{path.parts[0]}/" if len(path.parts) > 1 else path.stem


def picture() -> str:
    """What stands in ``ARCHITECTURE.md``."""
    return "\n".join([BEGIN, *mermaid(reduced(rooms())), END])


def page() -> str:
    """``rooms.md``."""
    lines = [
        "# Rooms",
        "",
        GENERATED,
        "",
        "What each folder is for, and who imports whom of its room's folders and modules; arrows",
        "that follow from others are left out. The rooms among each other:",
        "[ARCHITECTURE.md](../ARCHITECTURE.md).",
        "",
    ]
    for room in _from_the_bottom():
        lines += [f"## {room}", "", "| folder | what it is for |", "| --- | --- |"]
        lines += [f"| `{folder}/` | {_purpose(folder)} |" for folder in folders(room)]
        lines += ["", *mermaid(reduced(siblings(room))), ""]
    return "\n".join(lines).rstrip().replace("\n\n\n", "\n\n") + "\n"


def _from_the_bottom() -> Iterable[str]:
    graph = {name: sorted(others) for name, others in sorted(rooms().items())}
    return graphlib.TopologicalSorter(graph).static_order()


def _purpose(folder: str) -> str:
    """The first sentence of the folder's docstring, without its sources."""
    tree = ast.parse((REPOSITORY / folder / "__init__.py").read_text("utf-8"))
    text = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split()).replace("``", "`")
    first = re.sub(r" \([^()]*\)$", "", text.split(". ")[0].rstrip(".:"))
    return first.replace("|", "\\|")


def pages() -> dict[Path, str]:
    """The files with what should stand in them."""
    map_page = REPOSITORY / "ARCHITECTURE.md"
    before, _, rest = map_page.read_text("utf-8").partition(BEGIN)
    return {
        map_page: before + picture() + rest.partition(END)[2],
        REPOSITORY / "docs/rooms.md": page(),
    }


def outdated() -> dict[Path, str]:
    return {
        path: text
        for path, text in pages().items()
        if not path.exists() or path.read_text("utf-8") != text
    }


def main(arguments: list[str]) -> int:
    """Write what is old; with ``--check`` only name it, and return 1."""
    old, check = outdated(), "--check" in arguments
    for path, text in old.items():
        if not check:
            path.write_text(text, "utf-8")
        said = "is old" if check else "written"
        sys.stdout.write(f"{path.relative_to(REPOSITORY)} {said}\n")
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
