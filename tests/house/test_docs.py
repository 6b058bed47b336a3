"""The documentation is what the code says: generated pages are up to date, links lead somewhere.
What stands in blocks is run by ``e2e/test_docs.py``."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from aiorocketmq.tools.mqadmin.catalog import CATALOG, load

from ..pages import loaded
from .names import ROOMS

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.glob("*.md"))
TEXTS = [
    *sorted(DOCS.rglob("*.md")),
    *sorted(REPOSITORY.glob("*.md")),
    *sorted((REPOSITORY / "examples").rglob("*.md")),
    *sorted((REPOSITORY / "tests").glob("*/*.md")),
]
COMMON_OPTIONS = {
    "namesrv_addr",
    "compat_exit",
    "log_level",
    "log_format",
    "tls_config",
    "wait_s",
}


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("generate")


# --- generated pages
# ------------------------------------------------------------------------------------------------


def test_generated_pages_are_up_to_date(generator: ModuleType) -> None:
    assert list(generator.outdated()) == [], "run: python docs/generate.py"


def test_the_figures_of_reliability_are_those_of_the_campaigns() -> None:
    written = (DOCS / "reliability.md").read_text()
    assert loaded("reliability").page() == written, "run: python docs/reliability.py"


def test_generated_pages_are_the_same_on_every_machine(tmp_path: Path) -> None:
    """Another host name, home, environment, number of cores."""
    program = f"""
        import os, runpy, socket, sys
        os.cpu_count = lambda: 77
        socket.gethostname = lambda: "elsewhere"
        sys.argv = ["generate.py", "--check"]
        runpy.run_path({str(DOCS / "generate.py")!r}, run_name="__main__")
    """
    environment = {
        "HOME": str(tmp_path),
        "ROCKETMQ_HOME": "/elsewhere",
        "NAMESRV_ADDR": "elsewhere:1",
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_properties_toml_names_properties_that_exist(generator: ModuleType) -> None:
    known = {
        record.__name__: {f.wire_name for f in generator.fields_of(record)}
        for record, _ in generator.CONFIGURATION
    }
    told = {
        name: texts for name, texts in generator.property_texts().items() if isinstance(texts, dict)
    }
    assert set(told) <= set(known)
    for record, texts in told.items():
        named = {*texts, *texts.get("at_once", ())} - {"at_once", "intro"}
        assert named <= known[record], f"{record} has no {named - known[record]}"


def test_a_property_that_is_read_nowhere_is_said_to_have_no_effect(generator: ModuleType) -> None:
    files = [path for room in ROOMS for path in (REPOSITORY / room).rglob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    by_name = {"configBlackList"}  # its record is one of several: asked for by its property name
    silent = [
        f"{record.__name__}.{field.wire_name}"
        for record, _ in generator.CONFIGURATION
        for field in generator.fields_of(record)
        if not re.search(rf"\.{field.name}\b", code)
        and field.wire_name not in by_name
        and not generator.effect_of(record, field).lower().startswith(generator.NO_EFFECT)
    ]
    assert silent == []


# --- what is missing
# ------------------------------------------------------------------------------------------------


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of that level or above."""
    level = heading.count("#")
    text = (DOCS / page).read_text(encoding="utf-8").split(f"\n{heading}\n", 1)[1]
    return re.split(rf"^#{{1,{level}}} ", text, maxsplit=1, flags=re.MULTILINE)[0]


def test_requests_that_nobody_serves_are_named_as_missing(generator: ModuleType) -> None:
    text = section("differences.md", "## Not yet")
    named = {int(number) for number in re.findall(r"\b\d+\b", text)}
    for first, last in re.findall(r"\b(\d+) to (\d+)\b", text):
        named |= set(range(int(first), int(last) + 1))
    missing = {code for code, servers in generator.served_by().items() if not servers}
    assert {int(code) for code in missing} - named == set()


def test_every_command_of_mqadmin_has_its_row() -> None:
    """With all of its options."""
    rows = re.findall(
        r"^\| (\w+)(?:, \w+)? \| (.*) \| (.*) \|$",
        section("mqadmin.md", "## Commands"),
        re.MULTILINE,
    )
    assert [name for name, _, _ in rows] == [entry.name for entry in CATALOG]
    for (name, options, summary), entry in zip(rows, CATALOG, strict=True):
        own = [p for p in load(entry).params if p.name not in COMMON_OPTIONS]
        assert set(re.findall(r"`(--?\w[\w-]*)`", options)) == {
            min(param.opts, key=len) for param in own
        }, name
        assert summary == entry.summary


# --- links
# --------------------------------------------------------------------------------------------------


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    headings = re.findall(
        r"^#+ (.+)$", without_code(page.read_text(encoding="utf-8")), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and anchor not in anchors_of(found)):
            broken.append(target)
    assert broken == []


def links_of(page: Path) -> set[Path]:
    """The pages that a page links to."""
    targets = re.findall(r"\]\(([^)\s:#]+\.md)[)#]", without_code(page.read_text("utf-8")))
    return {(page.parent / target).resolve() for target in targets}


def test_every_page_can_be_reached_from_the_index() -> None:
    """Those of ``docs/`` itself in one step."""
    index = DOCS / "README.md"
    assert {*PAGES} - {index} <= links_of(index)
    reached, new = {index}, {index}
    while new:
        new = {target for page in new for target in links_of(page)} - reached
        reached |= new
    assert {*TEXTS} - reached == set()


def test_the_index_has_pages_of_users_apart_from_those_of_builders() -> None:
    """Who only uses it need not find out which pages he can leave alone."""
    for_users, for_builders = (DOCS / "README.md").read_text("utf-8").split("## Build it")
    builders = {"rooms.md", "where-is.md", "how-it-is-tested.md", "design/README.md"}
    assert [page for page in builders if f"]({page})" in for_users] == []
    assert [page for page in builders if f"]({page})" not in for_builders] == []


def test_files_that_are_named_exist() -> None:
    """Names in backquotes that look like a file of the repository."""
    missing = [
        f"{page.name}: {name}"
        for page in TEXTS
        for name in re.findall(
            r"`((?:docs|tests|examples|conf|" + "|".join(ROOMS) + r")/(?:[\w/]*/|[\w/]+\.\w+))`",
            page.read_text("utf-8"),
        )
        if not (REPOSITORY / name).exists()
    ]
    assert missing == []


def test_properties_that_the_threat_model_names_exist() -> None:
    text = (DOCS / "threat-model.md").read_text("utf-8")
    known = (DOCS / "configuration.md").read_text("utf-8")
    names = re.findall(r"`((?:tls\.[\w.]+)|[a-z]+[A-Z]\w*)(?:=\w+)?`", text)
    assert len(set(names)) > 25
    assert [name for name in names if f"`{name}`" not in known] == []


# --- tables
# --------------------------------------------------------------------------------------------


def rows_of_tables(text: str) -> Iterator[tuple[str, int, int]]:
    """Every row of every table, its number of cells and that of the heading."""
    columns = 0
    for line in without_code(text).splitlines():
        if not line.startswith("|"):
            columns = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        columns = columns or cells
        yield line, cells, columns


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_rows_have_as_many_cells_as_their_heading(page: Path) -> None:
    assert [
        line
        for line, cells, columns in rows_of_tables(page.read_text(encoding="utf-8"))
        if cells != columns
    ] == []
