"""The benchmarks of the store alone: each on a fresh store, its figures next to what the machine
does at best."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from . import store_append, store_flush, store_pull, store_queues, store_recovery, store_roll
from .harness.figures import Row
from .harness.rows import Rows
from .harness.servers import work_folder

_MOST_ROUNDS = {"store_flush": 3, "store_recovery": 3, "store_queues": 2, "store_roll": 2}
"""Of those that take long."""
_WORK: dict[str, Callable[[Path, int], list[Row]]] = {
    "store_append": store_append.run,
    "store_pull": store_pull.run,
    "store_recovery": store_recovery.run,
    "store_queues": store_queues.run,
    "store_flush": store_flush.run,
    "store_roll": store_roll.run,
}


def _run(name: str, rows: Rows) -> None:
    with rows.attempt(name), work_folder(rows.options.directory) as folder:
        for row in _WORK[name](
            folder, min(rows.options.rounds, _MOST_ROUNDS.get(name, rows.options.rounds))
        ):
            rows.add(row)


run_append, run_pull, run_recovery, run_queues, run_flush, run_roll = (
    partial(_run, name) for name in _WORK
)
