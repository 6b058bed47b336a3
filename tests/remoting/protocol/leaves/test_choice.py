"""Which of both kinds of leaves runs, and what is said about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol import leaves
from aiorocketmq.remoting.protocol.leaves.sources import BAKED_INTO, fingerprint, sources

from .both import SOURCES, compiled_leaves


def chosen(**environment: str) -> str:
    """What a new process says."""
    program = (
        "from aiorocketmq.remoting.protocol.leaves import KIND, crc32; print(KIND, "
        "crc32.__module__, sep=': ')"
    )
    inherited = {name: value for name, value in os.environ.items() if name != leaves.PURE_VARIABLE}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=inherited | environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_compiled_ones_run_where_they_are() -> None:
    compiled_leaves()
    assert chosen() == "compiled: aiorocketmq.remoting.protocol.leaves._compiled"
    assert chosen(AIOROCKETMQ_PURE="0") == chosen()


def test_the_twins_run_where_they_are_asked_for() -> None:
    expected = (
        "pure Python (AIOROCKETMQ_PURE is set): aiorocketmq.remoting.protocol.leaves.pure_checksums"
    )
    assert chosen(AIOROCKETMQ_PURE="1") == expected


def test_a_module_that_was_not_built_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(leaves.PURE_VARIABLE, raising=False)
    monkeypatch.delattr(leaves, "_compiled", raising=False)
    monkeypatch.setitem(sys.modules, f"{leaves.__name__}._compiled", None)
    assert leaves._why_not_compiled(SOURCES).startswith("not built")


def test_a_module_of_other_sources_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled_leaves()
    monkeypatch.delenv(leaves.PURE_VARIABLE, raising=False)
    assert leaves._why_not_compiled(tmp_path) == "", "a wheel has no sources"
    for path in sources(SOURCES):
        shutil.copy(path, tmp_path)
    assert leaves._why_not_compiled(tmp_path) == ""
    with (tmp_path / "crc32.h").open("a") as file:
        file.write("\n")
    assert "pip install -e ." in leaves._why_not_compiled(tmp_path)


def test_names_and_contents_of_the_sources_count(tmp_path: Path) -> None:
    assert fingerprint(tmp_path) == 0
    seen = set()
    for name, text in [("a.pyx", "x"), ("b.pxi", "x"), ("b.pxi", "y"), ("c.h", "x")]:
        (tmp_path / name).write_text(text)
        seen.add(fingerprint(tmp_path))
    (tmp_path / "c.h").rename(tmp_path / "d.h")
    seen.add(fingerprint(tmp_path))
    assert len(seen) == 5
    for name in (BAKED_INTO, "_compiled.cpython-311-x86_64-linux-gnu.so", "sources.py"):
        (tmp_path / name).write_text("x")
    assert fingerprint(tmp_path) in seen
