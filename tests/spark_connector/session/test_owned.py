"""What is owned ends with its owner, and with it what it has started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiorocketmq.spark_connector.session.owned import MODULE, owned

from .processes import runs, wait_until_gone

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")

HANGS = """
import os, subprocess, sys
sleeper = subprocess.Popen(["sleep", "600"])
print(os.getpid(), sleeper.pid, *sys.argv[1:], flush=True)
sleeper.wait()
"""

OWNER = f"""
import sys
from pathlib import Path
from aiorocketmq.spark_connector.session.owned import owned
with owned([sys.executable, "-m", "{MODULE}", "hangs", "argument"], Path()) as process:
    print(process.stdout.readline().decode(), end="", flush=True)
    process.communicate()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the module ``hangs``."""
    (tmp_path / "hangs.py").write_text(HANGS)
    return tmp_path


def test_it_ends_when_its_owner_is_killed(folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=folder, stdout=subprocess.PIPE) as it:
        assert it.stdout is not None
        *pids, argument = it.stdout.readline().split()
        assert argument == b"argument"
        assert all(runs(int(pid)) for pid in pids)
        it.kill()
    for pid in pids:
        wait_until_gone(int(pid))


def test_none_of_its_group_is_left_where_its_owner_gives_up(folder: Path) -> None:
    command = [sys.executable, str(folder / "hangs.py")]  # does not look whether it is alone
    pids: list[bytes] = []

    def give_up() -> None:
        with owned(command, folder) as process:
            assert process.stdout is not None
            pids.extend(process.stdout.readline().split())
            process.communicate(timeout=0)

    with pytest.raises(subprocess.TimeoutExpired):
        give_up()
    assert len(pids) == 2
    for pid in pids:
        wait_until_gone(int(pid))


def test_it_runs_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text("import sys; print(sys.argv[1]); sys.exit(3)")
    before = os.listdir("/proc/self/fd")
    with owned([sys.executable, "-m", MODULE, "short", "said"], tmp_path) as process:
        assert process.communicate()[0] == b"said\n"
    assert process.returncode == 3
    assert os.listdir("/proc/self/fd") == before
