"""What a message costs while more and more topics are busy at the same time."""

from __future__ import annotations

from .harness.frames import sends
from .harness.rows import Rows
from .harness.scale import Step, scaled
from .harness.servers import broker, create_topic, floor, has_floor, work_folder

SIZES = (1, 4, 16, 64)
QUEUES = 4


def run(rows: Rows) -> None:
    """Eight connections with 64 requests each on their way, the topics in turn."""
    names = [f"Busy-{number}" for number in range(SIZES[-1])]
    with (
        work_folder(rows.options.directory) as folder,
        broker(folder) as server,
        floor(folder) as least,
    ):
        with rows.attempt("topics"):
            create_topic(server, *names, queues=QUEUES)
            steps = [
                Step(
                    size,
                    sends(queues=[(name, q) for q in range(QUEUES) for name in names[:size]]),
                    8,
                    64,
                )
                for size in SIZES
            ]
            name = "CPU time of a send against busy topics, 8x64"
            rows.add(
                scaled(name, "topics", steps, server, least if has_floor() else None, rows.options)
            )
