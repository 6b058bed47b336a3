"""mqshutdown against processes that only this test started, in homes of their own."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aiorocketmq.daemon.pid_files import command_line
from aiorocketmq.tools import mqshutdown

WAITS = "import time; time.sleep(600)"
DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', "
    "flush=True); time.sleep(600)"
)

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """ROCKETMQ_HOME; the fallback home is below the same directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path / "rocketmq"))
    return tmp_path / "rocketmq"


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Start a process that has a PID file as a daemon would."""
    processes = []

    def call(
        role: str, port: int, *, code: str = WAITS, home: Path = home
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        threading.Thread(
            target=process.wait, daemon=True
        ).start()  # a parent that cares: no zombie stays
        if code == DEAF:
            assert process.stdout is not None
            process.stdout.readline()
        if command_line(os.getpid()) is None:
            pytest.skip("command lines of processes cannot be read here")
        while (
            own := command_line(process.pid)
        ) is None:  # for a moment, while the process becomes this program
            assert process.poll() is None
        folder = home / "run"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{role}-{port}.pid").write_text(f"{process.pid}\n{' '.join(own.split())}\n")
        return process

    yield call
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def alive(process: subprocess.Popen[str]) -> bool:
    return command_line(process.pid) is not None


def run(*arguments: str) -> Result:
    return CliRunner().invoke(mqshutdown.main, arguments)


def test_stops_and_waits(start: Start) -> None:
    process = start("broker", 10911)
    result = run("broker")
    assert result.exit_code == 0
    assert not alive(process)
    assert result.stdout.splitlines() == [
        f"The mqbroker({process.pid}) on port 10911 is running...",
        f"Asked mqbroker({process.pid}) to stop.",
        f"The mqbroker({process.pid}) has stopped.",
    ]


def test_nothing_runs(home: Path) -> None:
    result = run("namesrv")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "No mqnamesrv is running.\n")


def test_only_that_role(start: Start) -> None:
    broker, namesrv = start("broker", 10911), start("namesrv", 9876)
    assert run("namesrv").exit_code == 0
    assert not alive(namesrv)
    assert alive(broker)


def test_all_of_a_role_or_one_port(start: Start) -> None:
    first, second, third = (start("broker", port) for port in (10911, 10921, 10931))
    assert run("broker", "--port", "10921").exit_code == 0
    assert [alive(process) for process in (first, second, third)] == [True, False, True]
    assert run("broker", "--port", "10921").stderr == "No mqbroker is running on port 10921.\n"
    assert run("broker").exit_code == 0
    assert [alive(process) for process in (first, third)] == [False, False]


def test_a_daemon_of_another_home_is_left_alone(
    start: Start, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "run").mkdir(parents=True)
    without_home = start("broker", 10911, home=home.parent / ".aiorocketmq")
    assert run("broker").exit_code == 1
    assert alive(without_home)
    monkeypatch.delenv("ROCKETMQ_HOME")
    assert run("broker").exit_code == 0
    assert not alive(without_home)


def test_one_that_does_not_stop(start: Start) -> None:
    process = start("broker", 10911, code=DEAF)
    result = run("broker", "--timeout", "0")
    assert result.exit_code == 1
    assert "has not stopped in time" in result.stderr
    assert alive(process)


@pytest.mark.parametrize("arguments", [(), ("proxy",), ("broker", "--port", "x")])
def test_wrong_command_line(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("mqshutdown: ")
    assert result.stderr.endswith(" (mqshutdown -h shows the options)\n")
