"""Spark's daemon for Python workers, with everything that they need in it already.

``pyspark.daemon`` forks a process per task slot, and each of them imports pyspark's worker, numpy,
pandas, pyarrow and this package: half a second of CPU time before its first row. Then Spark
collects garbage after every task, which walks through all of their objects. Here that happens once,
in the daemon. (Spark imports nothing before it forks because pandas and pyarrow may start threads;
the one that pyarrow's allocator starts knows how to live through a fork.) The script of
``worker_python.py`` starts it in place of ``pyspark.daemon``, with the same argument: the module of
the workers.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from typing import Final

__all__ = ["main"]

_OURS: Final = [
    f"{__package__.rpartition('.')[0]}.{name}"
    for name in (
        "data_source",
        "source.batch",
        "source.stream",
        "sink.sink",
        "sink.stream_sink",
        "store.store_source",
    )
]
_OF_TASKS: Final = ["pyspark.sql.pandas.serializers", "pandas", "pyarrow"]
_LOOK_UP: Final = "pyspark.sql.worker.lookup_data_sources"
"""Asks for names only, and once per session."""


def main() -> None:
    """Serve until Spark closes the standard input. Raises SystemExit then, as ``pyspark.daemon``
    does."""
    gc.disable()  # nothing of what is imported ever becomes garbage
    worker_module = sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker"
    modules = [worker_module, *([] if worker_module == _LOOK_UP else _OURS)]
    if worker_module == "pyspark.worker":
        modules += _OF_TASKS
    for module in modules:
        with contextlib.suppress(
            ImportError
        ):  # the worker, which may not need it, tells what is missing
            importlib.import_module(module)
    if (
        "numpy.random" in sys.modules
    ):  # or all workers would draw the same numbers, as they never do in Spark
        os.register_at_fork(after_in_child=sys.modules["numpy.random"].seed)
    gc.freeze()
    gc.enable()
    importlib.import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
