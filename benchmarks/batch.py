"""What a message of a batch costs the broker: 10, 32 and 100 of them in a request, each with a
unique key."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from .harness.figures import Goal, Goals
from .harness.frames import batches
from .harness.pages import fetch_pages
from .harness.rows import Rows, Traffic, traffic
from .harness.servers import broker, create_topic, floor, pure_broker, work_folder

CONNECTIONS, WINDOW = 8, 4
GOALS: dict[int, Goals] = {
    10: {"cpu": Goal(1.0, pure_mark=5)},
    32: {"cpu": Goal(0.7, None, 2.5, 4), "rate": Goal(700_000, original=582_000)},
    100: {"cpu": Goal(0.5, pure_mark=3.5)},
}
PAGES = 640 << 20
"""Bytes of the log that a round of large batches fills, and some more."""


def run(rows: Rows) -> None:
    """One broker with its defaults."""
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder(rows.options.directory))
        server, least = stack.enter_context(broker(folder)), stack.enter_context(floor(folder))
        pure = stack.enter_context(pure_broker(folder))
        for each in (server, pure) if pure else (server,):
            create_topic(each)
        for count in (10, 32, 100):
            name = f"batches of {count}, {CONNECTIONS}x{WINDOW}"
            if not rows.wants(name):
                continue
            with rows.attempt(name):
                row = Traffic(name, CONNECTIONS, WINDOW, GOALS[count])
                frames = batches(count, draw=rows.draw(name))
                rows.add(
                    traffic(
                        row,
                        frames,
                        server,
                        least,
                        rows.options,
                        partial(fetch_pages, folder, PAGES),
                        pure,
                    )
                )
