"""How long until a daemon listens: name server, broker with an empty store, broker after a clean
stop with gigabytes in it.

The floor is an interpreter that does nothing but listen.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from examples.demo.daemons import free_port

from .harness.figures import Goal, Row, Sample, figure
from .harness.peer import until_listening
from .harness.rows import Rows, in_turn
from .harness.servers import Server, broker, name_server, running, work_folder
from .store_common import open_store, put

FLOOR = "an interpreter that only listens"
_LISTEN = "import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(600)"
_BODY = bytes(64 << 10)
_LEAVE_S = 60.0
"""A clean stop is what the next start is about."""


def run(rows: Rows) -> None:
    """Seconds from fork to the first connection that is accepted."""
    gib = 0.1 if rows.options.small else 3
    with work_folder(rows.options.directory) as folder:
        _row(
            rows,
            folder,
            "name server",
            lambda number: name_server(folder, f"namesrv{number}"),
            Goal(1),
        )
        _row(
            rows,
            folder,
            "broker, empty store",
            lambda number: broker(folder, f"empty{number}"),
            Goal(1),
        )
        name = f"broker, after a clean stop with {gib} GiB"
        if rows.wants(name):
            with rows.attempt(name):
                fill(folder / "full" / "store", int(gib * (1 << 30)))
                with broker(folder, "full", sys.executable, _LEAVE_S):
                    pass
            _row(
                rows,
                folder,
                name,
                lambda _number: broker(folder, "full", sys.executable, _LEAVE_S),
                Goal(1),
            )


def fill(directory: Path, size_bytes: int) -> None:
    """A store with so much in it, small messages and large ones."""
    store = open_store(directory, message_index_enable=True)
    small, end, number = bytes(128), 0, 0
    while end < size_bytes:
        body = _BODY if number % 8 else small
        end = put(store, number % 4, body)
        number += 1
    store.close()


def _row(
    rows: Rows,
    folder: Path,
    name: str,
    start: Callable[[int], AbstractContextManager[Server]],
    goal: Goal,
) -> None:
    if not rows.wants(name):
        return
    numbers = iter(range(1000))

    def ours() -> Sample:
        begin = time.perf_counter()
        with start(next(numbers)):
            return {"seconds": time.perf_counter() - begin}

    with rows.attempt(name):
        found, floors = in_turn(rows.options.rounds, ours, partial(_bare, folder))
        values, least = ([sample["seconds"] for sample in of] for of in (found, floors))
        figures = {"seconds": figure("s", values, least, **goal._asdict())}
        rows.add(Row(benchmark="", name=name, figures=figures, floor_is=FLOOR))


def _bare(folder: Path) -> Sample:
    port = free_port()
    begin = time.perf_counter()
    with running(
        [sys.executable, "-c", _LISTEN.format(port=port)], folder / "bare.log", folder, leave_s=0
    ):
        until_listening(port)
        return {"seconds": time.perf_counter() - begin}
