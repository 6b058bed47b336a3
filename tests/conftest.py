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

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("nightly", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("TEST_SIZE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadfile``, with all tests of Spark in one process: see ``distribution``."""
    if config.getoption("dist") != "loadfile":
        return None
    from .distribution import ByFileSparkFirst

    return ByFileSparkFirst(config, log)
