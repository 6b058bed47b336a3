"""Tests that hang say where, and nothing that tests have started stays behind.

Starting pytest takes a machine with much else to do a minute: there are no deadlines here, who
waits in vain hangs, which is watched as well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
CONFTEST = """
from tests import hangs, orphans

def pytest_configure(config):
    config.pluginmanager.register(hangs)
    orphans.watch()
"""
HANGING = """
import asyncio, threading, time
import pytest
from aiorocketmq.daemon.event_loop import new_event_loop

async def waits_for_ever():
    await asyncio.Event().wait()

async def gathers():
    async with asyncio.TaskGroup() as group:
        group.create_task(waits_for_ever(), name="one of many")

FACTORIES = [asyncio.new_event_loop, new_event_loop]

@pytest.mark.parametrize("factory", FACTORIES, ids=["asyncio", "fast"])
def test_tasks(factory):
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(gathers())

def test_threads():
    event = threading.Event()
    thread = threading.Thread(target=event.wait, name="another thread", daemon=True)
    thread.start()
    try:
        thread.join()
    finally:
        event.set()

def test_that_follows():
    pass
"""
STARTING = """
import subprocess, sys, time
from pathlib import Path

CHILD = '''
import os, sys, time

open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(1000)
'''

def test_starts():
    files = [Path(f"pid-{number}") for number in range(2)]
    for file in files:
        subprocess.Popen([sys.executable, "-c", CHILD, str(file)])
    while not all(file.exists() and file.read_text() for file in files):
        time.sleep(0.01)
    Path("started").touch()
    time.sleep(1000)
"""


def start(folder: Path, test: str, *options: str) -> subprocess.Popen[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\nfaulthandler_timeout = 60\n")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST")
    }
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(REPOSITORY), "TEST_HANG_S": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_what_hangs_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    printed, _ = start(tmp_path, HANGING).communicate()
    assert "3 failed, 1 passed" in printed, printed
    for test in ("test_tasks[asyncio]", "test_tasks[fast]", "test_threads"):
        assert f"Hangs: test_it.py::{test}" in printed, printed
    assert (
        printed.count("task one of many:") >= 2
    )  # once more for each time that a slow machine had to be told again
    assert printed.count("in waits_for_ever") >= 2
    assert "thread another thread:" in printed


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_nothing_outlives_the_tests(tmp_path: Path) -> None:
    with start(tmp_path, STARTING, "-n1") as tests:
        wait_for(tmp_path / "started")
        tests.kill()
        pids = [int((tmp_path / f"pid-{number}").read_text()) for number in range(2)]
        while any(map(is_alive, pids)):
            time.sleep(0.02)
        assert tests.wait() == -signal.SIGKILL


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")
