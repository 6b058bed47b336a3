"""How ``pytest -n`` shares out the tests: a file stays together, and all tests of Spark are as one
file.

Spark takes ten seconds to start: one process runs every ``tests/e2e/test_spark_*.py`` in one
session, and begins with them, because together they take longest. The tests that start other
processes and wait for them follow, while the others work; the last are many short ones, so that no
process goes on alone at the end.

A process that dies (the watchdog of ``pyproject.toml`` ends one whose test stands still) costs its
test and nothing else.
"""

from __future__ import annotations

from functools import cache
from pathlib import PurePosixPath
from typing import Final

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SPARK: Final = "spark"
WITH_PROCESSES: Final = ("tests/e2e/", "tests/fault/")


@cache  # asked for every test several times
def unit_of(file: str) -> str:
    """What has to stay together with the tests of this file.

    >>> unit_of("tests/e2e/test_spark_sink.py"), unit_of("tests/e2e/test_broker.py")
    ('spark', 'tests/e2e/test_broker.py')
    """
    return SPARK if PurePosixPath(file).match("e2e/test_spark_*.py") else file


def turn_of(unit: str) -> int:
    """Lower ones begin earlier.

    >>> turn_of("spark"), turn_of("tests/e2e/test_broker.py"), turn_of("tests/store/test_get.py")
    (0, 1, 2)
    """
    return 0 if unit == SPARK else 1 if unit.startswith(WITH_PROCESSES) else 2


class LongestFirst(LoadFileScheduling):
    """``--dist loadfile`` with these rules."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=turn_of), last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """What a process that died has not done goes back, but for the test that it died of: that
        one would take the next process with it. (pytest-xdist also gives back what is done, and
        waits for ever for who gets only that.)"""
        work = self.assigned_work.pop(node)
        crashed: str | None = next(
            (test for tests in work.values() for test, done in tests.items() if not done), None
        )
        if crashed is None:
            return None
        for unit, tests in work.items():
            left = {test: done for test, done in tests.items() if not done and test != crashed}
            if left:
                self.workqueue[unit] = left
        self._give_more()
        return crashed

    def schedule(self) -> None:
        """A process that takes the place of another one gets a second piece of work, or hears that
        there is none: until then it keeps its last test back."""
        super().schedule()
        self._give_more()

    def _give_more(self) -> None:
        for node in self.nodes:
            if node in self.registered_collections:  # others still collect
                self._reschedule(node)
