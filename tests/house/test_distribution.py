"""A process of the tests that dies costs the test that it died of, and the run goes on to its
end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xdist")
REPOSITORY = Path(__file__).parents[2]

CONFTEST = """
import pytest
from tests.distribution import LongestFirst

def pytest_xdist_make_scheduler(config, log):
    return LongestFirst(config, log)
"""
FATAL = "import os\ndef test_fatal(): os._exit(1)\n"


def many(first: int, count: int) -> str:
    return "".join(f"def test_{number}(): pass\n" for number in range(first, first + count))


@pytest.mark.parametrize(
    ("workers", "files"),
    [
        (1, {"a": FATAL + many(0, 1)}),
        (2, {"a": many(0, 3) + FATAL + many(3, 3), "b": many(0, 2), "c": many(0, 1)}),
        (2, {"a": many(0, 1), "b": many(0, 1), "c": many(0, 5) + FATAL}),
    ],
    ids=["one is left", "in the middle", "the last one"],
)
def test_what_a_dead_process_left_is_done_by_another_one(
    tmp_path: Path, workers: int, files: dict[str, str]
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST")
    }
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # most of what a process costs
    command = [
        "-m",
        "pytest",
        "-q",
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "-p",
        "no:cacheprovider",
        "-p",
        "xdist",
        f"-n{workers}",
    ]
    done = subprocess.run(
        [sys.executable, *command, "--dist", "loadfile", str(tmp_path)],
        cwd=tmp_path, env={**environment, "PYTHONPATH": str(REPOSITORY)}, capture_output=True,
        text=True, timeout=600,
    )  # fmt: skip
    expected = sum(text.count("def test_") for text in files.values()) - 1
    assert f"1 failed, {expected} passed" in done.stdout, done.stdout + done.stderr
