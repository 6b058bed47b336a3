"""PID files: who runs, and who only seems to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiorocketmq.daemon import pid_files
from aiorocketmq.daemon.pid_files import command_line, pid_file, running_daemons


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pid_files, "FALLBACK_HOME", tmp_path / "fallback")
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_daemon_is_listed_while_it_runs(home: Path) -> None:
    with pid_file("namesrv", 9876) as path, pid_file("broker", 10911):
        assert path == home / "run" / "namesrv-9876.pid"
        assert path.read_text().splitlines()[0] == str(os.getpid())
        assert running_daemons("namesrv") == [("namesrv", 9876, os.getpid(), path)]
        assert [daemon.role for daemon in running_daemons()] == ["broker", "namesrv"]
    assert running_daemons() == []
    assert list((home / "run").iterdir()) == []


def test_the_file_goes_when_the_daemon_fails(home: Path) -> None:
    with pytest.raises(RuntimeError), pid_file("namesrv", 9876):
        raise RuntimeError
    assert list((home / "run").iterdir()) == []


def test_a_file_of_a_process_that_is_gone_is_removed(home: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    stale = home / "run" / "broker-1.pid"
    stale.parent.mkdir(parents=True)
    stale.write_text(f"{process.pid}\npython -m aiorocketmq.broker\n")
    assert running_daemons("broker") == []
    assert not stale.exists()


@pytest.mark.parametrize("content", ["{pid}\nanother command line\n", "{pid}\n", "", "what?"])
def test_a_process_id_that_belongs_to_another_process_by_now_does_not_count(
    home: Path, content: str
) -> None:
    stale = home / "run" / "broker-1.pid"
    stale.parent.mkdir(parents=True)
    stale.write_text(content.replace("{pid}", str(os.getpid())))
    assert running_daemons() == []
    assert not stale.exists()


def test_a_file_of_the_next_daemon_on_the_port_stays(home: Path) -> None:
    with pid_file("broker", 1) as path:
        assert path is not None
        path.write_text("1\nthe next one\n")
    assert path.exists()
    assert path.is_relative_to(home)


def test_a_home_that_cannot_be_written_to_is_done_without(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home.write_text("a file where the folder should be")
    with pid_file("namesrv", 9876) as path:
        assert path == tmp_path / "fallback" / "run" / "namesrv-9876.pid"
        assert [daemon.port for daemon in running_daemons()] == [9876]
    (tmp_path / "fallback").rename(tmp_path / "was")
    (tmp_path / "fallback").write_text("neither")
    with pid_file("namesrv", 9876) as path:
        assert path is None
    assert "no PID file" in caplog.text


def test_command_lines() -> None:
    command = [sys.executable, "-c", "print(flush=True); input()", "some argument"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # for a moment after its start a process has no command line
        shown = command_line(process.pid)
        process.communicate(b"\n")
    assert shown is not None
    assert shown.endswith("input() some argument")
    assert command_line(process.pid) is None
