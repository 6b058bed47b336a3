"""Ctrl-C while a program is still being imported."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

ENTRY_POINTS = (
    "broker.__main__",
    "namesrv.__main__",
    "tools.mqadmin.__main__",
    "tools.mqstore.__main__",
    "tools.mqcluster",
    "tools.mqshutdown",
)


@pytest.mark.parametrize("module", ENTRY_POINTS)
def test_no_traceback(module: str) -> None:
    program = f"""
import sys

class Interrupted:  # at the first of the modules that take long
    def find_spec(self, name, path=None, target=None):
        if "click" in name or "launch" in name:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
import aiorocketmq.{module}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_other_errors_are_told() -> None:
    program = "from aiorocketmq.daemon import quiet_interrupt\nraise ValueError('this')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: this\n")
