"""What the dearest frames cost: no request may hold the event loop of a daemon for long.

``python -m benchmarks.cost`` (``make fuzz`` runs it, too). A name server and a broker with 50,000
topics, 20,000 groups and 200,000 offsets get for every request code of the table the frames of
``dear_frames.py``, one by one. What counts is the CPU time of the longest callback of the event
loop, so that whatever else the machine does costs nothing: 50 ms, a registration 150 ms.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from aiorocketmq.daemon.logs import LogFile, set_up_logging
from aiorocketmq.remoting.protocol.codes import RequestCode

from .command_line import HELP
from .cost_world import SMALL, Size, World, timed_handles
from .dear_frames import DearFrame, dear_frames

HOLD_S = 0.050
REGISTRATION_HOLD_S = 0.150


class Cost(NamedTuple):
    """What a frame cost a daemon."""

    daemon: str
    frame: DearFrame
    seconds: float
    callback: str

    @property
    def is_too_much(self) -> bool:
        return self.seconds > (
            REGISTRATION_HOLD_S if self.frame.code == RequestCode.REGISTER_BROKER else HOLD_S
        )

    def __str__(self) -> str:
        place = f" in {self.callback}" if "_read_ready" not in self.callback else ""
        return f"{self.seconds * 1000:7.1f} ms  {self.daemon:8} {self.frame.name}{place}"


def costs(world: World, frames: Iterator[DearFrame]) -> Iterator[Cost]:
    """Of each frame at every daemon that serves its code. What costs too much is tried twice again:
    the least counts, for a service of the daemon may have had its turn meanwhile."""
    for frame in frames:
        for daemon in world.servers_of(frame.code):
            cost = Cost(daemon, frame, *world.cost(daemon, frame.frame))
            for _ in range(2):
                if cost.is_too_much:
                    cost = min(
                        cost,
                        Cost(daemon, frame, *world.cost(daemon, frame.frame)),
                        key=lambda each: each.seconds,
                    )
            yield cost


@click.command(context_settings=HELP)
@click.option("--code", "codes", type=int, multiple=True, help="Only requests of this code.")
@click.option("--small", is_flag=True, help="Daemons that know little.")
@click.option("--show", type=float, default=30.0, help="Tell also what costs so many milliseconds.")
def main(codes: tuple[int, ...], small: bool, show: float) -> None:
    """The longest hold of the event loop by each of the dearest frames."""
    with tempfile.TemporaryDirectory() as folder, timed_handles():
        set_up_logging("INFO", form="text", file=LogFile(str(Path(folder) / "log")))
        size = SMALL if small else Size()
        with World(Path(folder), size) as world:
            frames = (each for each in dear_frames() if not codes or each.code in codes)
            found = []
            for cost in costs(world, frames):
                found.append(cost)
                if cost.is_too_much or cost.seconds * 1000 > show:
                    print(f"{'NOT GOOD: ' if cost.is_too_much else ''}{cost}", flush=True)
        logging.shutdown()
    bad = [cost for cost in found if cost.is_too_much]
    worst = max(found, key=lambda each: each.seconds, default=None)
    print(
        f"{len(found)} frames, {size.topics:,} topics, {size.groups:,} groups, {size.offsets:,} "
        "offsets"
    )
    print(f"the dearest: {worst}")
    limit = f"{HOLD_S * 1000:.0f} ms (103: {REGISTRATION_HOLD_S * 1000:.0f} ms)"
    print(f"{len(bad)} of them held the event loop for longer than {limit}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
