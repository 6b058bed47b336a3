"""What pages say of places in the code is true: walks, rules, decisions, the picture of the
rooms."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .names import REPOSITORY, ROOMS, module_of, named_in, problem_of

ARCHITECTURE = REPOSITORY / "ARCHITECTURE.md"
DOCS = REPOSITORY / "docs"
TEXTS = [*sorted(REPOSITORY.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
MOST_BYTES = 10_000
WALKS = {
    "A send": 7,
    "A pull": 6,
    "A replicated record": 5,
    "A send of a group": 6,
    "A Spark row": 4,
}
"""Headings of walks, each with the number of its steps at least."""


def load_rooms() -> ModuleType:
    """``docs/rooms.py``; the folder is no package."""
    spec = importlib.util.spec_from_file_location("docs_rooms", DOCS / "rooms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def code_and_pages() -> list[Path]:
    places = [REPOSITORY / room for room in (*ROOMS, "benchmarks", "docs", "examples", "tests")]
    found = [*REPOSITORY.glob("*.md")]
    for place in places:
        for ending in ("py", "pyx", "pxi", "md"):
            found += place.rglob(f"*.{ending}")
    return found


def walk_of(heading: str) -> str:
    return ARCHITECTURE.read_text("utf-8").split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_what_a_page_names_is_defined_there(page: Path) -> None:
    problems = [problem_of(named) for named in named_in(page.read_text("utf-8"))]
    assert [problem for problem in problems if problem] == []


def test_files_that_are_named_without_a_room_exist() -> None:
    """In pages (`mapped_file.py`) and in docstrings (``disk/mapped_file.py``). The changelog speaks
    of what was, tests of the house of anything."""
    paths = code_and_pages()
    files = [f"/{path.relative_to(REPOSITORY)}" for path in paths]
    missing = [
        f"{path.relative_to(REPOSITORY)}: {name}"
        for path in paths
        if path.name != "CHANGELOG.md" and path.parent != Path(__file__).parent
        for name in re.findall(r"`((?:\w+/)*\w+\.(?:py|pyx|pxi))`", path.read_text("utf-8"))
        if not any(file.endswith(f"/{name}") for file in files)
    ]
    assert missing == []


def test_names_that_decisions_speak_of_occur_in_the_code() -> None:
    """Whatever has an underscore or a capital inside: a name that was changed is noticed."""
    code = "\n".join(
        path.read_text("utf-8")
        for room in (*ROOMS, "benchmarks", "tests")
        for ending in ("py", "pyx", "pxi", "h", "c")
        for path in (REPOSITORY / room).rglob(f"*.{ending}")
    )
    known = set(re.findall(r"\w+", code))
    unknown = [
        f"{page.name}: {name}"
        for page in [ARCHITECTURE, DOCS / "glossary.md", *(DOCS / "design").glob("*.md")]
        for quoted in re.findall(r"(?<!`)`([^`\n]+)`", page.read_text("utf-8"))
        for name in re.findall(r"\b\w*[a-z](?:_[a-z]|[A-Z])\w*\b", re.sub(r"\S+/\S+", "", quoted))
        if len(name) > 2 and name not in known
    ]
    assert unknown == []


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_names_a_file_at_each_step(walk: str) -> None:
    steps = re.split(r"^\d+\. ", walk_of(walk), flags=re.MULTILINE)[1:]
    assert len(steps) >= WALKS[walk]
    assert [step for step in steps if not named_in(step)] == []


@pytest.mark.parametrize("walk", [walk for walk in WALKS if "Spark" not in walk])
def test_a_walk_can_be_imported(walk: str) -> None:
    for named in named_in(walk_of(walk)):
        value: object = module_of(named.path)
        for part in filter(None, named.name.split(".")):
            value = getattr(value, part)


def test_the_map_is_a_short_page() -> None:
    assert len(ARCHITECTURE.read_bytes()) <= MOST_BYTES


def test_pictures_of_rooms_are_up_to_date() -> None:
    assert list(load_rooms().outdated()) == [], "run: python docs/rooms.py"


def test_rooms_do_not_import_each_other() -> None:
    """What the picture leaves out can only be left out where there is no circle."""
    rooms = load_rooms()
    graph = rooms.reduced(rooms.rooms())
    assert graph["remoting/protocol"] == set()
    assert graph["remoting"] == {"remoting/protocol"}
    assert "broker" not in graph["namesrv"] | graph["store"] | graph["client"]


def test_a_name_that_is_nowhere_is_noticed() -> None:
    named = named_in(
        "`store/nowhere.py` and `store/message_store.py: MessageStore.get`, `store/a b`"
    )
    assert [str(each) for each in named] == [
        "store/nowhere.py",
        "store/message_store.py: MessageStore.get",
    ]
    assert problem_of(named[0]) == "store/nowhere.py does not exist"
    assert problem_of(named[1]) is None
    assert problem_of(named[1]._replace(name="MessageStore.gone")) is not None


def test_every_decision_is_in_the_list_with_its_date() -> None:
    """Each says when, with which figure, and what would change it."""
    index = (DOCS / "design" / "README.md").read_text("utf-8")
    for page in sorted((DOCS / "design").glob("*.md")):
        if page.name == "README.md":
            continue
        title, _, when, *rest = page.read_text("utf-8").split("\n")
        assert f"| {when[:10]} | {title.removeprefix('# ')} | [{page.name}]({page.name}) |" in index
        for part in ("**Figure.**", "**What would change it.**"):
            assert part in "\n".join(rest), f"{page.name} has no {part}"
