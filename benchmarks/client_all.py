"""The client's benchmarks: what a message costs whoever sends or reads it, next to the floor in the same run.

A name server and a broker on a fresh store; the client is a process of its own (``client_load``), whose CPU time counts. The
floor of a send, and of pulling 32 messages, is a frame made before, and an answer that is only counted.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import Any, NamedTuple

from rich.table import Table


class ClientShape(NamedTuple):
    """One row of the table."""

    name: str
    kind: str
    in_flight: int
    size: int


CLIENT_SHAPES = [
    *(ClientShape(f"client_send {n} in flight, {size} B", "send", n, size) for size in (128, 1024) for n in (1, 64, 1024)),
    *(ClientShape(f"client_accumulate 1024, {size} B", "accumulate", 1024, size) for size in (128, 1024)),
    ClientShape("client_sync 1 thread, 128 B", "sync", 1, 128),
    *(
        ClientShape(f"client_{kind}, {size} B", kind, 1, size)
        for kind in ("push", "push_batch", "pull")
        for size in (128, 1024)
    ),
]


class Load(NamedTuple):
    """One run: microseconds of the client's CPU per message, messages per second."""

    cpu_us: float
    rate: float


def load(kind: str, address: str, in_flight: int, size: int, seconds: float) -> Load:
    """Run ``client_load``."""
    arguments = [kind, address, str(in_flight), str(size), str(seconds)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client_load", *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    result = json.loads(done.stdout)
    return Load(result["cpu"] / result["messages"] * 1e6, result["messages"] / max(result["seconds"], 1e-9))


def run_client(shape: ClientShape, namesrv: str, broker: str, rounds: int, seconds: float) -> dict[str, Any]:
    """One shape in turn with the floor."""
    ours, floor = [], []
    for _ in range(rounds):
        ours.append(load(shape.kind, namesrv, shape.in_flight, shape.size, seconds))
        if shape.kind in ("send", "push", "push_batch", "pull"):
            kind = "floor" if shape.kind == "send" else "floor-pull"
            floor.append(load(kind, broker, shape.in_flight, shape.size, seconds))
    return {
        "client": shape.name,
        "cpu_us_per_message": {"best": min(r.cpu_us for r in ours), "median": statistics.median(r.cpu_us for r in ours)},
        "floor_us_per_message": min((r.cpu_us for r in floor), default=None),
        "messages_per_second": {"best": max(r.rate for r in ours), "median": statistics.median(r.rate for r in ours)},
        "per_core": 1e6 / min(r.cpu_us for r in ours),
        "rounds": rounds,
    }


def client_table(rows: list[dict[str, Any]]) -> Table:
    result = Table(title="CPU of the client per message (µs)")
    for heading in ("client", "best", "median", "floor best", "messages/s best", "messages/s per core"):
        result.add_column(heading, justify="left" if heading == "client" else "right")
    for each in rows:
        ours, floor, rate = each["cpu_us_per_message"], each["floor_us_per_message"], each["messages_per_second"]
        result.add_row(
            each["client"],
            f"{ours['best']:.2f}",
            f"{ours['median']:.2f}",
            "" if floor is None else f"{floor:.2f}",
            f"{rate['best']:,.0f}",
            f"{each['per_core']:,.0f}",
        )
    return result
