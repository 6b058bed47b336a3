"""``python -m tests.simulation.other_tests 24 25``: do other tests see these planted defects, all
of them at once? Runs the tests of all rooms around them, or those that stand behind ``--``, with
options of pytest's.

The defects are in whatever Python is started meanwhile, so that daemons of tests have them, too: a
``sitecustomize`` on PYTHONPATH waits for the first import of the package; in pytest, which imports
past everybody, this module is a plugin. Without a number nothing is planted: what fails then fails
because of all that. (``-I``, ``-E`` and ``-S`` keep a process out. PYTEST_DONT_REWRITE)
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = "aiorocketmq"
AROUND = ("store", "broker", "client", "namesrv", "remoting", "scenario", "fault", "e2e")
NUMBERS = "PLANTED_DEFECTS"
_HOOK = "from tests.simulation.other_tests import wait\nwait()\n"


class _Planting:
    """Finds the package when somebody imports it, and plants before he has anything of it."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        if name != PACKAGE:
            return None
        sys.meta_path.remove(self)
        plant()
        module = sys.modules[name]
        its = module.__spec__
        module.__spec__ = spec = ModuleSpec(name, _IsThere(module, its), is_package=True)
        return spec


class _IsThere(Loader):
    """Loads a module that has been loaded meanwhile."""

    def __init__(self, module: ModuleType, its: ModuleSpec | None) -> None:
        self._module, self._its = module, its

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._its


def wait() -> None:
    """For the first import of the package."""
    if PACKAGE not in sys.modules:
        sys.meta_path.insert(0, _Planting())


def plant() -> None:
    """What the environment says, in this process. (All is imported then also where nothing is.)"""
    planted = importlib.import_module("tests.simulation.planted")
    for number in os.environ[NUMBERS].split():
        defect = planted.DEFECTS[int(number)]
        setattr(defect.of, defect.name, defect.by)


def pytest_configure() -> None:
    """Of this module as a plugin."""
    plant()


def run(numbers: Sequence[str], arguments: Sequence[str]) -> int:
    """pytest's exit code with these defects planted: 0 where no test sees one of them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(_HOOK)
        path = os.pathsep.join((folder, str(ROOT), os.environ.get("PYTHONPATH", "")))
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", __spec__.name, *arguments],
            env={
                **os.environ,
                "PYTHONPATH": path.strip(os.pathsep),
                NUMBERS: " ".join(numbers),
            },
            cwd=ROOT,
            check=False,
        ).returncode


def main() -> None:
    numbers, arguments = sys.argv[1:], [f"tests/{each}" for each in AROUND]
    if "--" in numbers:
        at = numbers.index("--")
        numbers, arguments = numbers[:at], numbers[at + 1 :]
    sys.exit(run(numbers, arguments))


if __name__ == "__main__":
    main()
