"""The benchmarks of the store alone, by name."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.table import Table

from . import store_append, store_flush, store_pull, store_queues, store_recovery, store_roll
from .store_common import Row

__all__ = ["STORE_BENCHMARKS", "run_store", "store_table"]

STORE_BENCHMARKS: dict[str, Callable[[Path, int], list[Row]]] = {
    "store_append": store_append.run,
    "store_pull": store_pull.run,
    "store_recovery": store_recovery.run,
    "store_queues": store_queues.run,
    "store_flush": store_flush.run,
    "store_roll": store_roll.run,
}


def run_store(name: str, rounds: int, directory: Path | None) -> list[Row]:
    """One of them on a fresh store."""
    with tempfile.TemporaryDirectory(prefix="aiorocketmq-bench-", dir=directory) as folder:
        return [{"benchmark": name, **row, "rounds": rounds} for row in STORE_BENCHMARKS[name](Path(folder), rounds)]


def store_table(rows: list[Row]) -> Table:
    result = Table(title="The store alone")
    for heading in ("what", "best", "median", "unit", "floor best", "floor median", "the floor is"):
        result.add_column(heading, justify="right" if "best" in heading or "median" in heading else "left")
    for each in rows:
        ours, floor = each["ours"], each["floor"]
        cells = [_text(ours["best"]), _text(ours["median"]), each["unit"]]
        cells += [_text(floor["best"]), _text(floor["median"])] if floor else ["", ""]
        result.add_row(each["what"], *cells, each["floor_is"])
    return result


def _text(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
