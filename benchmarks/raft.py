"""Sends into a group that elects its master, answered when a majority has them: three brokers of
ours, the processor time of the leader, and of a follower."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from examples.demo.daemons import free_port

from .harness.figures import BenchmarkError, Goal, Goals
from .harness.frames import batches, sends
from .harness.pages import fetch_pages
from .harness.peer import Peer
from .harness.play import Frames, open_player
from .harness.rows import Rows, Traffic, traffic
from .harness.servers import Server, broker, create_topic, work_folder

LAGGING: Final = "group of three, 16x8, the leader, while a follower catches up"
_STOPPED_S: Final = 4.0
_PATIENCE_S: Final = 60.0
_FOLLOWER: Final[Goals] = {"cpu": Goal(6)}


class Shape(NamedTuple):
    """``name``: connections x requests on their way over each."""

    name: str
    connections: int
    window: int
    batch: int
    leader: Goals
    follower: Goals = _FOLLOWER


SHAPES: Final = (
    Shape("64x1", 64, 1, 1, {"cpu": Goal(25, None, 68)}),
    Shape("16x8", 16, 8, 1, {"cpu": Goal(15, None, 45)}),
    Shape("batches of 32, 64x1", 64, 1, 32, {"cpu": Goal(2.5, None, 10)}),
    Shape("1x1", 1, 1, 1, {"p50": Goal(400, original=1000)}, {}),
)


def run(rows: Rows) -> None:
    """Whoever leads is sent to."""
    names = [f"group of three, {shape.name}, the {who}" for shape in SHAPES for who in _WHO]
    if not rows.wants_any([*names, LAGGING]):
        return
    with work_folder(rows.options.directory) as folder, _group(folder) as (leader, follower):
        for shape in SHAPES:
            for who, pid, goals in (
                ("leader", leader.pid, shape.leader),
                ("follower", follower.pid, shape.follower),
            ):
                name = f"group of three, {shape.name}, the {who}"
                if rows.wants(name):
                    with rows.attempt(name):
                        row = Traffic(name, shape.connections, shape.window, goals)
                        measured = leader._replace(pid=pid)
                        pages = partial(fetch_pages, folder)
                        rows.add(traffic(row, _frames(shape), measured, None, rows.options, pages))
        _lagging(rows, folder, leader, follower)


def _lagging(rows: Rows, folder: Path, leader: Server, follower: Server) -> None:
    """The same load as 16x8 while a follower, that was stopped for seconds, is sent what it lacks,
    from the log."""
    if not rows.wants(LAGGING):
        return

    def stop_it() -> None:
        os.kill(follower.pid, signal.SIGSTOP)
        try:
            with open_player(leader.port, 16, sends()) as player:
                player.play(8, _STOPPED_S)
        finally:
            os.kill(follower.pid, signal.SIGCONT)

    with rows.attempt(LAGGING):
        row = Traffic(LAGGING, 16, 8, {})
        few = rows.options._replace(rounds=min(rows.options.rounds, 2))
        rows.add(traffic(row, sends(), leader, None, few, stop_it))


_WHO: Final = ("leader", "follower")


def _frames(shape: Shape) -> Frames:
    return sends() if shape.batch == 1 else batches(shape.batch)


@contextmanager
def _group(folder: Path) -> Iterator[tuple[Server, Server]]:
    """Its leader, and one of the others."""
    ports = [free_port() for _ in range(3)]
    peers = ";".join(f"n{n}-127.0.0.1:{port}" for n, port in enumerate(ports))
    with ExitStack() as stack:
        members = [
            stack.enter_context(
                broker(
                    folder,
                    f"n{n}",
                    brokerName="bench",
                    enableDLegerCommitLog=True,
                    dLegerGroup="bench",
                    dLegerPeers=peers,
                    dLegerSelfId=f"n{n}",
                )
            )
            for n in range(3)
        ]
        leader = _leader(members)
        create_topic(leader)
        yield leader, next(each for each in members if each is not leader)


def _leader(members: list[Server]) -> Server:
    """Whoever takes a message of a topic that there is. Raises ``BenchmarkError``."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        for member in members:
            with Peer(member.port) as peer:
                peer.send(sends(queues=[("TBW102", 0)]).frames[0])
                if peer.receive()[0].code == 0:
                    return member
        time.sleep(0.05)
    raise BenchmarkError("nobody leads the group")
