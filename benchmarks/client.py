"""What a message costs whoever sends or reads it: the client's CPU time, next to the floor in the
same run.

A name server and a broker on a fresh store; the client is a process of its own (``client_load``),
whose CPU time counts. The floor of a send, and of pulling 32 messages, is a frame made before, and
an answer that is only counted.

Whoever sends one message after the other waits for the broker, and the broker for him. Where each
has a core of its own, a core that has nothing to do is put to rest in between, and waking it may
cost more than the work (of all three: client, broker, floor). So there is a row with both on one
core: what the exchange itself takes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from .harness.cores import THIS_THREAD, cores, on_cores
from .harness.figures import NO_GOALS, Goal, Goals, Row, Sample, figures_of
from .harness.rows import Rows, in_turn
from .harness.servers import Server, broker, create_topic, name_server, work_folder

FLOOR = "frames made before, answers counted"


class Shape(NamedTuple):
    """One row: what ``client_load`` does, messages on their way, size of their bodies."""

    name: str
    kind: str
    in_flight: int
    size: int
    goals: Goals = NO_GOALS
    one_core: bool = False
    """For the client and the broker together."""

    @property
    def floor_kind(self) -> str | None:
        """None for what no single exchange stands behind."""
        return {
            "send": "floor", "sync": "floor-sync", "push": "floor-pull", "push_batch": "floor-pull",
            "pull": "floor-pull"
        }.get(self.kind)  # fmt: skip


SENDS = [
    Shape(
        f"client send, {n} on their way, {size} B",
        "send",
        n,
        size,
        {"cpu": Goal(3)} if n == 1024 else {},
    )
    for size in (128, 1024)
    for n in (1, 64, 1024)
]
ACCUMULATES = [
    Shape(f"client accumulate, 1024 on their way, {size} B", "accumulate", 1024, size)
    for size in (128, 1024)
]
SYNC = [
    Shape("client blocking send, 1 thread, 128 B", "sync", 1, 128, {"rate": Goal(20_000)}),
    Shape(
        "client blocking send, 1 thread, 128 B, on the broker's core", "sync", 1, 128, one_core=True
    ),
]
CONSUMES = [
    Shape(
        f"client {kind.replace('_', ' ')}, {size} B",
        kind,
        1,
        size,
        {"cpu": Goal(1.2)} if kind == "push" else {},
    )
    for kind in ("push", "push_batch", "pull")
    for size in (128, 1024)
]


def run_sends(rows: Rows) -> None:
    """Awaited sends."""
    _run(rows, SENDS)


def run_accumulates(rows: Rows) -> None:
    """The same through an accumulator."""
    _run(rows, ACCUMULATES)


def run_sync(rows: Rows) -> None:
    """The blocking client."""
    _run(rows, SYNC)


def run_consumes(rows: Rows) -> None:
    """A new group reads a topic from its beginning."""
    _run(rows, CONSUMES)


def _run(rows: Rows, shapes: list[Shape]) -> None:
    shapes = [shape for shape in shapes if rows.wants(shape.name)]
    if not shapes:
        return
    with _cluster(rows) as (namesrv, server):
        for size in {shape.size for shape in shapes if shape.floor_kind == "floor-pull"}:
            _load("fill", namesrv, 1, size, 0)
        for shape in shapes:
            with rows.attempt(shape.name):
                some = cores()[: 1 if shape.one_core else None]
                with on_cores([THIS_THREAD, server.pid], some):
                    rows.add(_row(rows, shape, namesrv, server.address))


@contextmanager
def _cluster(rows: Rows) -> Iterator[tuple[str, Server]]:
    with work_folder(rows.options.directory) as folder, name_server(folder) as namesrv:
        with broker(folder, namesrvAddr=namesrv.address) as server:
            create_topic(server)
            yield namesrv.address, server


def _row(rows: Rows, shape: Shape, namesrv: str, target: str) -> Row:
    seconds, floor_kind = rows.options.seconds, shape.floor_kind
    ours, floors = in_turn(
        rows.options.rounds,
        partial(_load, shape.kind, namesrv, shape.in_flight, shape.size, seconds),
        partial(_load, floor_kind, target, shape.in_flight, shape.size, seconds)
        if floor_kind
        else None,
    )
    figures = figures_of(ours, floors, shape.goals)
    return Row(benchmark="", name=shape.name, figures=figures, floor_is=FLOOR if floors else "")


def _load(kind: str, address: str, in_flight: int, size: int, seconds: float) -> Sample:
    """Run ``client_load``."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.client_load",
        kind,
        address,
        str(in_flight),
        str(size),
        str(seconds),
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + 60
    )
    found = json.loads(done.stdout)
    messages = max(1, found["messages"])
    return {"cpu": found["cpu"] / messages * 1e6, "rate": messages / max(found["seconds"], 1e-9)}
