"""How ``pytest -n`` shares out the tests: a file stays together, and all tests of Spark are as one file.

Spark takes ten seconds to start: one process runs every ``tests/e2e/test_spark_*.py`` in one session, and begins with them,
because together they take longest.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SPARK: Final = "spark"


def unit_of(file: str) -> str:
    """What has to stay together with the tests of this file.

    >>> unit_of("tests/e2e/test_spark_sink.py"), unit_of("tests/e2e/test_broker.py")
    ('spark', 'tests/e2e/test_broker.py')
    """
    return SPARK if PurePosixPath(file).match("e2e/test_spark_*.py") else file


class ByFileSparkFirst(LoadFileScheduling):
    """``--dist loadfile`` with that rule."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: WorkerController) -> None:
        if SPARK in self.workqueue:
            self.workqueue.move_to_end(SPARK, last=False)
        super()._assign_work_unit(node)
