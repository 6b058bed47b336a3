"""From end to end: how long after a message was due its consumer has it, at 1,000 a second and at
half of the most.

Messages are sent when they are due, whether or not answers came (so that a slow answer does not
hide what waited behind it). Four consumers hold a pull each, one for each queue.
"""

from __future__ import annotations

from functools import partial

from .harness.figures import Row, Sample, figures_of
from .harness.frames import QUEUES, pull_format, sends
from .harness.peer import Peer
from .harness.play import measured, open_player
from .harness.rows import Rows, in_turn
from .harness.servers import Server, broker, create_topic, floor, floor_is, has_floor, work_folder

SENDERS = 4
HOLD_MS = 20_000
MOST_ON_THEIR_WAY = 1024
STEADY = 1_000


def run(rows: Rows) -> None:
    """The most is what gets through with 1,024 messages on their way; the floor has the broker's
    rates."""
    options = rows.options
    names = (
        "end to end, as much as gets through",
        "end to end, 1,000/s",
        "end to end, half of the most",
    )
    if not rows.wants_any(list(names)):
        return
    with (
        work_folder(options.directory) as folder,
        broker(folder) as server,
        floor(folder) as floor_server,
    ):
        create_topic(server)
        least = floor_server if has_floor() else None
        most = 0.0
        with rows.attempt(names[0]):
            found = _row(rows, names[0], server, least, 0.0)
            most = found.figures["rate"].median
            rows.add(found)
        for name, rate in ((names[1], STEADY), (names[2], most / 2)):
            with rows.attempt(name):
                rows.add(_row(rows, name, server, least, rate))


def _row(rows: Rows, name: str, server: Server, least: Server | None, rate: float) -> Row:
    once = partial(relayed, rate, MOST_ON_THEIR_WAY, SENDERS, QUEUES, rows.options.seconds)
    ours, floors = in_turn(
        rows.options.rounds, partial(once, server), partial(once, least) if least else None
    )
    note = f"{rate:,.0f} messages/s" if rate else ""
    return Row(
        benchmark="",
        name=name,
        figures=figures_of(ours, floors),
        floor_is=floor_is() if floors else "",
        note=note,
    )


def relayed(
    rate: float, window: int, senders: int, queues: int, seconds: float, target: Server
) -> Sample:
    """One round: messages through a server, from senders to a consumer for each queue."""
    with Peer(target.port) as peer:
        offsets = [peer.max_offset(queue_id) for queue_id in range(queues)]
    frames = sends(queues=[("Benchmark", queue_id) for queue_id in range(queues)])
    with open_player(target.port, senders + queues, frames) as player:
        relay = partial(player.relay, senders, offsets, pull_format(32, HOLD_MS), rate, window)
        return measured(relay, target.pid, seconds)
