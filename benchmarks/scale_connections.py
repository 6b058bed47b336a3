"""What a message costs while more and more clients are connected that say nothing any more, next to
64 that send."""

from __future__ import annotations

import resource
from contextlib import ExitStack
from functools import partial

from .harness.frames import sends
from .harness.peer import Peer
from .harness.rows import Rows
from .harness.scale import Step, scaled
from .harness.servers import Server, broker, create_topic, floor, has_floor, work_folder

SIZES = (0, 100, 1_000, 5_000, 10_000)
_OTHER_FILES = 500


def run(rows: Rows) -> None:
    """As many as the limit of open files allows."""
    with (
        work_folder(rows.options.directory) as folder,
        rows.attempt("connections"),
        ExitStack() as stack,
    ):
        limit = more_files() - _OTHER_FILES
        sizes = [size for size in ((0, 50) if rows.options.small else SIZES) if size <= limit]
        server = stack.enter_context(broker(folder))
        least = stack.enter_context(floor(folder)) if has_floor() else None
        create_topic(server)
        idle: list[Peer] = []
        stack.callback(close_all, idle)
        steps = [Step(size, sends(), 64, 1, partial(connect, server, idle, size)) for size in sizes]
        name = "CPU time of a send against idle connections, 64x1"
        rows.add(scaled(name, "connections", steps, server, least, rows.options))


def more_files() -> int:
    """Raises this process's limit of open files (and that of its children) as far as it goes; what
    it is then."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def close_all(idle: list[Peer]) -> None:
    for each in idle:
        each.close()


def connect(server: Server, idle: list[Peer], size: int) -> None:
    """Until so many are connected."""
    while len(idle) < size:
        idle.append(Peer(server.port))
        idle[-1].max_offset(0)
