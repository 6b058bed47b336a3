"""What one send costs the broker: synchronous and pipelined clients, JSON and binary headers, small and larger bodies."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from aiorocketmq.remoting.protocol.serialization import SerializeType

from .harness.figures import NO_GOALS, Goal, Goals
from .harness.frames import sends
from .harness.pages import fetch_pages
from .harness.rows import Rows, Traffic, traffic
from .harness.servers import broker, create_topic, floor, work_folder


class Shape(NamedTuple):
    """Connections x requests on their way over each."""

    name: str
    connections: int
    window: int
    size: int = 128
    form: SerializeType = SerializeType.JSON
    goals: Goals = NO_GOALS
    awake: bool = False


_GOALS: dict[str, Goals] = {
    "1x1": {"rate": Goal(45_000, original=10_500), "p50": Goal(22, original=91)},
    "8x1": {},
    "64x1": {"cpu": Goal(11, 1.9, 28), "rate": Goal(75_000, original=55_700)},
    "8x16": {},
    "8x64": {"cpu": Goal(3.4, 5, 11.7), "rate": Goal(250_000, original=142_000)},
}
_COUNTS = ((1, 1), (8, 1), (64, 1), (8, 16), (8, 64))
SHAPES = [
    *(Shape(f"send {c}x{w}", c, w, goals=_GOALS[f"{c}x{w}"]) for c, w in _COUNTS),
    Shape("send 1x1, client awake", 1, 1, goals=_GOALS["1x1"], awake=True),
    *(Shape(f"send {c}x{w}, binary header", c, w, form=SerializeType.ROCKETMQ) for c, w in _COUNTS),
    Shape("send 64x1, 1 KiB", 64, 1, 1024, goals={"cpu": Goal(12, None, 31), "rate": Goal(None, None, 47_600)}),
]


def run(rows: Rows) -> None:
    """One broker with its defaults, and all rows one after the other."""
    if not rows.wants_any([shape.name for shape in SHAPES]):
        return
    with work_folder(rows.options.directory) as folder, broker(folder) as server, floor(folder) as least:
        create_topic(server)
        for shape in SHAPES:
            if not rows.wants(shape.name):
                continue
            with rows.attempt(shape.name):
                frames = sends(shape.size, form=shape.form)
                row = Traffic(shape.name, shape.connections, shape.window, shape.goals, shape.awake)
                rows.add(traffic(row, frames, server, least, rows.options, partial(fetch_pages, folder)))
