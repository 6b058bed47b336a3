"""What a pulled message costs while more and more consumer groups read the same topic, and commit
their offsets with it."""

from __future__ import annotations

from functools import partial

from .harness.frames import QUEUES, pulls
from .harness.rows import Rows
from .harness.scale import Step, play_once, scaled
from .harness.servers import broker, create_topic, floor, has_floor, work_folder
from .pull import SHAPES, fill

SIZES = (1, 10, 100, 1_000)
_MOST = 32


def run(rows: Rows) -> None:
    """Pulls of 32 messages from four queues; the next pull is the next group's."""
    sizes = SIZES[:2] if rows.options.small else SIZES
    with (
        work_folder(rows.options.directory) as folder,
        broker(folder) as server,
        floor(folder) as least,
    ):
        with rows.attempt("groups"):
            create_topic(server, queues=8)
            for target in (server, least) if has_floor() else (server,):
                fill(target, SHAPES[0])
            steps = []
            for size in sizes:
                groups = [f"Group-{number}" for number in range(size)]
                places = [(n % QUEUES, n // QUEUES * _MOST % 4096) for n in range(max(size, 1024))]
                first = [(queue_id, 0) for queue_id in range(QUEUES) for _ in groups]
                prepare = partial(play_once, server.port, pulls(first, _MOST, groups).frames)
                steps.append(Step(size, pulls(places, _MOST, groups), 8, 4, prepare))
            name = "CPU time of a pulled message against consumer groups, 32 x 128 B, 8x4"
            rows.add(
                scaled(name, "groups", steps, server, least if has_floor() else None, rows.options)
            )
