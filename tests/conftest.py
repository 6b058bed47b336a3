"""Hypothesis profiles for all tests.

``dev`` looks at new examples on every run; ``ci`` (chosen when the variable CI is set) repeats the
same ones, so that a red build is red again on the next machine; ``nightly`` (TEST_SIZE=nightly,
``make fuzz``) looks at twenty times as many. None has a deadline: a slow machine is not a failure.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from . import hangs, memory_files, orphans

os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # else numpy starts threads that spin, in each worker of Spark

gc.disable()  # while all of this is imported: see ``pytest_collection_finish``

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("nightly", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("TEST_SIZE") or ("ci" if os.environ.get("CI") else "dev"))


FILES = pytest.StashKey[Path | None]()


def pytest_configure(config: pytest.Config) -> None:
    """What watches over all tests. And each process of ``-n`` begins to collect in another folder:
    in a fresh clone the first one that meets a module compiles it for the others; side by side all
    of them would compile all 400."""
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # a shell gives that to what it starts in the background
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # and so would all programs that are interrupted here
    config.pluginmanager.register(hangs)
    orphans.watch()
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker:  # those of ``-n`` have what this process has
        config.stash[FILES] = memory_files.in_memory()
    if worker and config.args == config.getini("testpaths"):
        left_out = [
            Path(path).resolve() for path in config.getoption("ignore") or ()
        ]  # asks nobody who names a folder
        folders = (path.parent.resolve() for path in Path(__file__).parent.glob("*/__init__.py"))
        rooms = sorted(str(folder) for folder in folders if folder not in left_out)
        first = (
            len(rooms)
            * int(worker.removeprefix("gw"))
            // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        )
        config.args[:] = rooms[first:] + rooms[:first]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The same order in all processes, as ``pytest_configure`` makes them differ."""
    items.sort(key=lambda item: item.path)


def pytest_collection_finish() -> None:
    """The garbage collector looks through all objects less often, and never again at those of the
    6,000 tests and all that is imported by now: an eighth of the time of the unit tests was spent
    on that."""
    gc.freeze()
    gc.set_threshold(5000, 20, 20)
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """What tests that pass leave is no use to anybody."""
    if (files := terminalreporter.config.stash.get(FILES, None)) is None:
        return
    if exitstatus:
        terminalreporter.line(f"files of tests that failed, until the next run begins: {files}")
    else:
        for folder in files.glob("pytest-of-*"):  # what else is there is removed by who made it
            shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadfile``, in an order of our own: see ``distribution``."""
    if config.getoption("dist") != "loadfile":
        return None
    from .distribution import LongestFirst

    return LongestFirst(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """``-n auto`` is one more than there are processors: tests that wait for other processes leave
    theirs to it."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return 1 + (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
