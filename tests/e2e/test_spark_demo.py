"""The last step of ``python -m examples.demo``: Spark counts the rows of the topic, and a consumer
shows what it wrote."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from aiorocketmq.spark_connector import local
from aiorocketmq.spark_connector.local import spark_problem
from examples.demo.spark_step import spark_step
from examples.demo.tally import Sent

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 300.0


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A file with rows of three kinds, one of them without a name."""
    path = tmp_path / "rows.csv"
    path.write_text(
        "id,kind\n"
        + "".join(f"{number},{['a', 'b', 'a', ''][number % 4]}\n" for number in range(40))
    )
    return path


def demo(rows: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "examples.demo",
        "--input",
        str(rows),
        "--tags",
        "kind",
        "--data",
        str(rows.parent),
    ]
    environment = {
        "PYTHONDONTWRITEBYTECODE": "",
        **environment,
    }  # there are dozens of processes that import the package
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def test_spark_counts_the_rows(rows: Path) -> None:
    if (problem := spark_problem()) is not None:
        pytest.skip(problem)
    done = demo(rows)
    assert (done.returncode, done.stderr) == (0, "")
    _, found, table = done.stdout.partition(
        "A Spark query counts the rows of rows and writes the counts to rows-totals ...\n"
    )
    assert found
    cells = [
        [cell.strip() for cell in line.split("│")[1:4]]
        for line in table.splitlines()
        if line.startswith("│")
    ]
    assert sorted(cells) == [["(none)", "10", "10"], ["a", "20", "20"], ["b", "10", "10"]]
    assert list(rows.parent.iterdir()) == [rows]


def test_without_java_it_says_how_to_get_one_and_goes_on(rows: Path) -> None:
    folders = os.environ["PATH"].split(os.pathsep)
    without = os.pathsep.join(
        folder for folder in folders if shutil.which("java", path=folder) is None
    )
    done = demo(rows, PATH=without, JAVA_HOME="")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "The last step, with Spark, is left out. Spark needs Java 17 or newer, and there is no "
        "java here." in done.stdout
    )
    assert "apt install openjdk-17-jre-headless" in done.stdout


def test_without_pyspark_it_says_how_to_get_it_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only the step: what comes before and after it is the same as without Java."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(local, "java_problem", lambda: None)
    console = Console(file=io.StringIO(), markup=False, soft_wrap=True)
    assert asyncio.run(spark_step(console, "127.0.0.1:1", "rows", Sent(), tmp_path))
    assert "The last step, with Spark, is left out." in console.file.getvalue()  # type: ignore[attr-defined]
    assert "pip install 'aiorocketmq[spark]'" in console.file.getvalue()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []
