"""How long after it was sent a held pull brings a message: one message at a time, one consumer that
waits for it."""

from __future__ import annotations

from functools import partial

from .harness.figures import Row, figures_of
from .harness.rows import Rows, in_turn
from .harness.servers import broker, create_topic, floor, floor_is, has_floor, work_folder
from .latency import relayed


def run(rows: Rows) -> None:
    """The next message is sent when the last one has arrived. What 10,000 held pulls cost:
    ``benchmarks.long_poll``."""
    name = "wake-up of a held pull"
    options = rows.options
    with (
        work_folder(options.directory) as folder,
        broker(folder) as server,
        floor(folder) as least,
        rows.attempt(name),
    ):
        create_topic(server)
        once = partial(relayed, 0.0, 1, 1, 1, options.seconds)
        ours, floors = in_turn(
            options.rounds, partial(once, server), partial(once, least) if has_floor() else None
        )
        rows.add(
            Row(
                benchmark="",
                name=name,
                figures=figures_of(ours, floors),
                floor_is=floor_is() if floors else "",
            )
        )
