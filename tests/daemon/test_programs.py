"""Commands that a log or an answer names can be found."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from aiorocketmq.daemon.launch import Settings, report
from aiorocketmq.daemon.programs import folder_not_in_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with the programs in it, which is not active."""
    (tmp_path / "mqadmin").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    return tmp_path


def test_programs_of_an_environment_that_is_not_active(folder: Path) -> None:
    assert folder_not_in_path() == folder


def test_programs_that_a_shell_finds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"/nowhere:{folder}")
    assert folder_not_in_path() is None


def test_a_clone_that_is_not_installed_has_none(folder: Path) -> None:
    (folder / "mqadmin").unlink()
    assert folder_not_in_path() is None


def test_a_daemon_says_it_at_its_start(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiorocketmq")
    report(Settings([]))
    assert f"are not in PATH but in folder={folder}" in caplog.text
