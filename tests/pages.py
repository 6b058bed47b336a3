"""The fenced blocks of all pages that are read by people, for the tests that run or parse them, and
the programs that make pages."""

from __future__ import annotations

import importlib.util
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
_FENCED: Final = re.compile(
    r"(?P<mark><!-- pytest -->\n)?^ *```(?P<language>\w*)$\n(?P<code>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One block of one page."""

    page: str
    """From the root of the repository: ``docs/client.md``."""
    language: str
    code: str
    of_pytest: bool
    """A file of tests; a comment in front of it says so."""

    @property
    def first_line(self) -> str:
        """Without its comment: by which the tests know a block, on whatever page it stands."""
        return re.sub(r"\s+#.*", "", self.code.splitlines()[0])

    @property
    def of_spark(self) -> bool:
        """It needs a session of Spark, or what another block of that page made with one."""
        return self.language == "sql" or (
            self.language == "python"
            and (Path(self.page).name.startswith("spark") or "spark.read" in self.code)
        )


def blocks() -> list[Block]:
    """In the order in which a reader of a page comes to them."""
    pages = [
        *sorted(REPOSITORY.glob("*.md")),
        *sorted((REPOSITORY / "docs").rglob("*.md")),
        *sorted((REPOSITORY / "examples").rglob("*.md")),
    ]
    return [
        Block(
            str(page.relative_to(REPOSITORY)),
            found["language"],
            textwrap.dedent(found["code"]),
            bool(found["mark"]),
        )
        for page in pages
        for found in _FENCED.finditer(page.read_text(encoding="utf-8"))
    ]


def loaded(name: str) -> ModuleType:
    """A program of ``docs/``; the folder is no package."""
    spec = importlib.util.spec_from_file_location(
        f"docs_{name}", REPOSITORY / "docs" / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations are looked up there
    spec.loader.exec_module(module)
    return module
