"""What a pulled message costs the broker: small messages that lie mixed or side by side, and
answers of 256 KiB.

The queues of one topic: four filled in turn (their records lie mixed), and one for each size whose
records lie side by side.
"""

from __future__ import annotations

from typing import NamedTuple

from .harness.figures import NO_GOALS, BenchmarkError, Goal, Goals
from .harness.frames import QUEUES, TOPIC, batches, pulls
from .harness.peer import Peer
from .harness.rows import Rows, Traffic, traffic
from .harness.servers import (
    Server,
    broker,
    create_topic,
    floor,
    has_floor,
    pure_broker,
    work_folder,
)


class Shape(NamedTuple):
    """Which queues, how many messages a pull asks for, how many of what size lie there."""

    name: str
    queue_ids: range
    most: int
    size: int
    each: int
    goals: Goals = NO_GOALS


SHAPES = [
    Shape(
        "pull 32 x 128 B, mixed queues", range(QUEUES), 32, 128, 8192,
        {"cpu": Goal(0.26, None, 1.06, 0.5), "rate": Goal(1_500_000, original=1_650_000)},
    ),
    Shape("pull 32 x 128 B, side by side", range(4, 5), 32, 128, 8192, {"rate": Goal(2_500_000)}),
    Shape("pull 32 x 8 KiB, side by side", range(5, 6), 32, 8192, 2048,
    {"cpu": Goal(round(70 / 31, 2))}),
    Shape("pull 256 KiB of 1 KiB messages", range(6, 7), 256, 1024, 8192),
]  # fmt: skip
CONNECTIONS, WINDOW = 8, 4
_FILL = 32
"""Messages of one request that fills a queue."""


def run(rows: Rows) -> None:
    """One broker; only that a pull may have 256 messages is not its default."""
    with work_folder(rows.options.directory) as folder, floor(folder) as least:
        limit = {"maxTransferCountOnMessageInMemory": 256}
        with broker(folder, **limit) as server, pure_broker(folder, **limit) as pure:
            for each in (server, pure) if pure else (server,):
                create_topic(each, queues=8)
            for given in SHAPES:
                if not rows.wants(given.name):
                    continue
                shape = given._replace(each=given.each // 4) if rows.options.small else given
                with rows.attempt(shape.name):
                    floors = least if has_floor() else None
                    for target in filter(None, (server, floors, pure)):
                        fill(target, shape)
                    last = shape.each - max(shape.most, 256)
                    places = [(q, at) for at in range(0, last, shape.most) for q in shape.queue_ids]
                    row = Traffic(shape.name, CONNECTIONS, WINDOW, shape.goals)
                    frames = pulls(places, shape.most)
                    rows.add(traffic(row, frames, server, floors, rows.options, pure=pure))


def fill(server: Server, shape: Shape) -> None:
    """Messages of this size into each of the queues, a few in each in turn."""
    step = 1 if len(shape.queue_ids) > 1 else min(_FILL, (1 << 20) // shape.size)
    frames = batches(step, shape.size, queue_ids=shape.queue_ids, frames=256).frames
    at_once = max(1, min(len(frames), (256 << 10) // len(frames[0])))
    frames *= shape.each * len(shape.queue_ids) // step // len(frames) + 1
    with Peer(server.port) as peer:
        total = shape.each * len(shape.queue_ids) // step
        for at in range(0, total, at_once):
            part = frames[at : min(at + at_once, total)]
            peer.send(b"".join(part))
            for _ in part:
                answer, _ = peer.receive()
                if answer.code:
                    raise BenchmarkError(f"{TOPIC} cannot be filled: {answer.code} {answer.remark}")
