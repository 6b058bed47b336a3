"""The snippets of the documentation run: those of a page one after the other, against a cluster in
this process."""

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.local_cluster import LocalCluster

DOCS = Path(__file__).resolve().parents[2] / "docs"
SNIPPET = re.compile(
    r"(?P<mark><!-- pytest -->\n)?^```python$(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


def snippets_of(page: str, *, pytest_file: bool) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [found["code"] for found in SNIPPET.finditer(text) if bool(found["mark"]) is pytest_file]


async def run(code: str, names: dict[str, Any]) -> None:
    """As ``python -m asyncio`` runs it."""
    program = compile(code, "snippet", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    outcome = eval(program, names)
    if inspect.isawaitable(outcome):
        await outcome


@pytest.mark.parametrize("page", ["client.md", "consuming.md", "producing.md", "testing.md"])
def test_snippets_run(page: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    async def main() -> None:
        names: dict[str, Any] = {"folder": tmp_path}
        async with asyncio.timeout(60), LocalCluster() as cluster:
            for code in snippets_of(page, pytest_file=False):
                await run(code.replace("localhost:9876", cluster.namesrv_address), names)

    asyncio.run(main())
    assert capsys.readouterr().out


@pytest.mark.parametrize(("number", "passed"), [(0, "2 passed"), (1, "1 passed")])
def test_the_tests_of_the_page_about_testing_pass(tmp_path: Path, number: int, passed: str) -> None:
    code = snippets_of("testing.md", pytest_file=True)[number]
    (tmp_path / "test_order.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_order.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert passed in done.stdout


def test_the_first_program_of_the_readme_runs() -> None:
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    first = SNIPPET.search(text)
    assert first is not None
    with LocalCluster() as cluster:
        program = first["code"].replace("localhost:9876", cluster.namesrv_address)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(
        r"\w{32} MessageQueue\(topic='Orders', .*\)\nnew b'one coffee'\n", done.stdout
    )
