"""Tests have their files in memory where there is enough of it, and do not leave them there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .. import memory_files
from ..memory_files import ENOUGH, in_memory, new_folder, space_in

REPOSITORY = Path(__file__).parents[2]
ENDED = """
import sys
from pathlib import Path
from tests.memory_files import new_folder
print(new_folder(Path(sys.argv[1])))
"""


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Instead of the machine's."""
    monkeypatch.setattr(memory_files, "MEMORY", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())
    monkeypatch.delenv("TMPDIR", raising=False)
    return tmp_path


def test_files_are_in_memory_where_there_is_enough(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_files, "space_in", lambda _: ENOUGH)
    folder = in_memory()
    assert folder is not None
    assert folder.parent == memory
    assert folder.stat().st_mode & 0o7777 == 0o1777  # tests of other users have files there, too
    assert Path(os.environ["TMPDIR"]) == Path(tempfile.gettempdir()) == folder


def test_files_stay_on_the_disk_where_there_is_little(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_files, "space_in", lambda _: ENOUGH - 1)
    assert in_memory() is None
    assert "TMPDIR" not in os.environ
    assert list(memory.iterdir()) == []


def test_files_are_where_the_user_wants_them(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_files, "space_in", lambda _: ENOUGH)
    monkeypatch.setenv("TMPDIR", "/tmp")
    assert in_memory() is None
    assert list(memory.iterdir()) == []


def test_space_is_what_the_file_system_and_the_machine_have(tmp_path: Path) -> None:
    system = os.statvfs(tmp_path)
    assert 0 <= space_in(tmp_path) <= system.f_blocks * system.f_frsize
    assert space_in(tmp_path / "none") == 0


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs /dev/shm")
def test_nothing_stays_in_memory(tmp_path: Path) -> None:
    """Of tests that pass; what those that fail leave goes with the next run, and what a run has
    that still goes on does not."""
    command = [sys.executable, "-c", ENDED, str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    left = Path(done.stdout.strip())
    assert left.is_dir()
    mine = new_folder(tmp_path)
    assert not left.exists()
    assert new_folder(tmp_path) != mine
    assert mine.is_dir()
