"""Hypothesis profiles for all tests.

``dev`` looks at new examples on every run; ``ci`` (chosen when the variable CI is set) repeats the same ones,
so that a red build is red again on the next machine; ``nightly`` (TEST_SIZE=nightly, ``make fuzz``) looks at twenty times as
many. None has a deadline: a slow machine is not a failure.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for the processes that tests start: see ``remoting/one_thread.py``

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("nightly", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("TEST_SIZE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadfile``, in an order of our own: see ``distribution``."""
    if config.getoption("dist") != "loadfile":
        return None
    from .distribution import LongestFirst

    return LongestFirst(config, log)
