"""What a message of a batch costs the broker: 10, 32 and 100 of them in a request, each with a unique key."""

from __future__ import annotations

from functools import partial

from .harness.figures import NO_GOALS, Goal, Goals
from .harness.frames import batches
from .harness.pages import fetch_pages
from .harness.rows import Rows, Traffic, traffic
from .harness.servers import broker, create_topic, floor, work_folder

CONNECTIONS, WINDOW = 8, 4
GOALS: dict[int, Goals] = {32: {"cpu": Goal(1.2, None, 2.5), "rate": Goal(700_000, original=582_000)}}


def run(rows: Rows) -> None:
    """One broker with its defaults."""
    with work_folder(rows.options.directory) as folder, broker(folder) as server, floor(folder) as least:
        create_topic(server)
        for count in (10, 32, 100):
            name = f"batches of {count}, {CONNECTIONS}x{WINDOW}"
            if not rows.wants(name):
                continue
            with rows.attempt(name):
                row = Traffic(name, CONNECTIONS, WINDOW, GOALS.get(count, NO_GOALS))
                frames = batches(count, draw=rows.draw(name))
                rows.add(traffic(row, frames, server, least, rows.options, partial(fetch_pages, folder)))
