"""The benchmarks by name, and which module has them; imported only when they are run.

``spark_*`` modules take part on their own: whatever lies in this folder under such a name and has
``run(rows)``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .harness.rows import Rows

USUAL_ROUNDS = 5


class Entry(NamedTuple):
    """``at``: module and function. ``part``: of the page. ``takes_s``: about so long with five
    rounds."""

    at: str
    part: str
    takes_s: int

    def limit_s(self, rounds: int, busy: float) -> float:
        """It is ended after that time. ``busy``: by how much others slow this machine down, 1 where
        each has a processor of its own."""
        return 60 + 3 * self.takes_s * max(1.0, rounds / USUAL_ROUNDS) * max(1.0, busy)


CATALOG: dict[str, Entry] = {
    "send": Entry("send:run", "Broker", 110),
    "batch": Entry("batch:run", "Broker", 23),
    "pull": Entry("pull:run", "Broker", 38),
    "latency": Entry("latency:run", "Broker", 27),
    "wake_up": Entry("wake_up:run", "Broker", 9),
    "sync_flush": Entry("sync_flush:run", "Broker", 9),
    "sync_replication": Entry("sync_replication:run", "Broker", 11),
    "raft": Entry("raft:run", "Broker", 30),
    "transaction": Entry("transaction:run", "Broker", 16),
    "route": Entry("route:run", "Name server", 17),
    "client_send": Entry("client:run_sends", "Client", 85),
    "client_accumulate": Entry("client:run_accumulates", "Client", 15),
    "client_sync": Entry("client:run_sync", "Client", 8),
    "client_consume": Entry("client:run_consumes", "Client", 90),
    "start_up": Entry("start_up:run", "Start and memory", 25),
    "memory": Entry("memory:run", "Start and memory", 30),
    "store_append": Entry("store_all:run_append", "Store", 5),
    "store_pull": Entry("store_all:run_pull", "Store", 4),
    "store_flush": Entry("store_all:run_flush", "Store", 15),
    "store_recovery": Entry("store_all:run_recovery", "Store", 12),
    "store_queues": Entry("store_all:run_queues", "Store", 25),
    "store_roll": Entry("store_all:run_roll", "Store", 28),
    "scale_queues": Entry("scale_queues:run", "Scale", 40),
    "scale_connections": Entry("scale_connections:run", "Scale", 16),
    "scale_offsets": Entry("scale_offsets:run", "Scale", 14),
    "scale_groups": Entry("scale_groups:run", "Scale", 13),
    "scale_topics": Entry("scale_topics:run", "Scale", 12),
}


def catalog() -> dict[str, Entry]:
    """All of them, with those of the Spark connector."""
    scale = {name: entry for name, entry in CATALOG.items() if entry.part == "Scale"}
    found = {name: entry for name, entry in CATALOG.items() if name not in scale}
    for path in sorted(Path(__file__).parent.glob("spark_*.py")):
        if "\ndef run(rows" in path.read_text(encoding="utf-8"):
            found[path.stem] = Entry(f"{path.stem}:run", "Spark", 60)
    return found | scale


def chosen(words: list[str]) -> list[str]:
    """The names that are meant: all, or those that begin with a word. Raises ``LookupError``."""
    known = catalog()
    names: dict[str, None] = {}
    for word in words or [""]:
        found = [name for name in known if name.startswith(word)]
        if not found:
            raise LookupError(f"nothing is called {word}; there are: {', '.join(known)}")
        names.update(dict.fromkeys(found))
    return list(names)


def load(entry: Entry) -> Callable[[Rows], None]:
    """The function that runs it."""
    module, _, function = entry.at.partition(":")
    run: Callable[[Rows], None] = getattr(
        importlib.import_module(f".{module}", __package__), function
    )
    return run
