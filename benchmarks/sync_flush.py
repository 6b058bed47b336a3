"""Sends that are answered when they are on the disk (flushDiskType=SYNC_FLUSH), from 64 clients that wait for each."""

from __future__ import annotations

from functools import partial

from .harness.figures import Goal
from .harness.frames import sends
from .harness.pages import fetch_pages
from .harness.rows import Rows, Traffic, traffic
from .harness.servers import broker, create_topic, floor, has_floor, work_folder

GOALS = {"cpu": Goal(20, None, 50), "rate": Goal(30_000, original=18_000)}


def run(rows: Rows) -> None:
    """The floor syncs once for all that came since the last time, in its only thread."""
    name = "sync flush, 64x1"
    if not rows.wants(name):
        return
    with work_folder(rows.options.directory) as folder, rows.attempt(name):
        with broker(folder, flushDiskType="SYNC_FLUSH") as server, floor(folder, "sync") as least:
            create_topic(server)
            row = Traffic(name, 64, 1, GOALS)
            rows.add(
                traffic(row, sends(), server, least if has_floor() else None, rows.options, partial(fetch_pages, folder))
            )
