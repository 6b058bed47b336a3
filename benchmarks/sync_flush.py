"""Sends that are answered when they are on the disk (flushDiskType=SYNC_FLUSH), from 64 clients
that wait for each."""

from __future__ import annotations

from functools import partial

from .harness.figures import Goal
from .harness.frames import sends
from .harness.pages import fetch_pages
from .harness.rows import Rows, Traffic, traffic
from .harness.servers import broker, create_topic, floor, has_floor, pure_broker, work_folder

GOALS = {"cpu": Goal(12, None, 50, 28), "rate": Goal(30_000, original=18_000)}


def run(rows: Rows) -> None:
    """The floor syncs once for all that came since the last time, in its only thread."""
    name = "sync flush, 64x1"
    if not rows.wants(name):
        return
    with work_folder(rows.options.directory) as folder, rows.attempt(name):
        mode = {"flushDiskType": "SYNC_FLUSH"}
        with (
            broker(folder, **mode) as server,
            floor(folder, "sync") as least,
            pure_broker(folder, **mode) as pure,
        ):
            for each in (server, pure) if pure else (server,):
                create_topic(each)
            floors, pages = least if has_floor() else None, partial(fetch_pages, folder)
            rows.add(
                traffic(
                    Traffic(name, 64, 1, GOALS), sends(), server, floors, rows.options, pages, pure
                )
            )
