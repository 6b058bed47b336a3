"""What a transaction costs the broker: a half message and its commit, from 32 clients.

Clients do not wait for a commit (it is oneway, in the original too): the next half message goes out
with it. The second row is with an answer that is waited for.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

from .harness.figures import NO_GOALS, Goal, Row, Sample, figures_of
from .harness.frames import end_format, halves
from .harness.pages import fetch_pages
from .harness.play import measured, open_player
from .harness.rows import PURE_ROUNDS, Rows, in_turn
from .harness.servers import (
    Server,
    broker,
    create_topic,
    floor,
    floor_is,
    has_floor,
    pure_broker,
    work_folder,
)

CLIENTS = 32
GOALS = {"cpu": Goal(16, None, 54, 35), "rate": Goal(None, None, 16_000)}


def run(rows: Rows) -> None:
    """The store syncs as it does by default, behind the answers."""
    options = rows.options
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder(options.directory))
        server, least = stack.enter_context(broker(folder)), stack.enter_context(floor(folder))
        pure = stack.enter_context(pure_broker(folder))
        for each in (server, pure) if pure else (server,):
            create_topic(each)
        for name, oneway in (
            (f"half and commit, {CLIENTS}x1", True),
            (f"half and answered commit, {CLIENTS}x1", False),
        ):
            if not rows.wants(name):
                continue
            with rows.attempt(name):
                once = partial(_once, folder, oneway, options.seconds)
                ours, floors = in_turn(
                    options.rounds,
                    partial(once, server),
                    partial(once, least) if has_floor() else None,
                )
                (twins,) = in_turn(
                    min(options.rounds, PURE_ROUNDS), partial(once, pure) if pure else None
                )
                figures = figures_of(ours, floors, GOALS if oneway else NO_GOALS, twins)
                rows.add(
                    Row(
                        benchmark="",
                        name=name,
                        figures=figures,
                        floor_is=floor_is() if floors else "",
                    )
                )


def _once(folder: Path, oneway: bool, seconds: float, target: Server) -> Sample:
    fetch_pages(folder)
    with open_player(target.port, CLIENTS, halves()) as player:
        return measured(
            partial(player.transact, end_format(oneway=oneway), oneway), target.pid, seconds
        )
