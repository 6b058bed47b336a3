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

from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.kv import KVTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.wire import NoFields
from examples.demo.daemons import free_port

from .harness.cores import THIS_THREAD, cores, on_cores
from .harness.figures import BenchmarkError, Goal, Goals, Row, Sample, figures_of
from .harness.frames import batches, sends
from .harness.pages import fetch_pages
from .harness.peer import Peer
from .harness.play import Frames, measured, open_player
from .harness.rows import Rows, Traffic, in_turn, traffic
from .harness.servers import Server, broker, create_topic, work_folder

NOBODY_LAGS: Final = "group of three on cores apart, 16x8, the leader"
LAGGING: Final = f"{NOBODY_LAGS}, while a follower catches up"
_STOPPED_S: Final = 8.0
_STILL_LAGS: Final = 1000
"""Entries: less could be those that are on their way."""
_MEMORY: Final = Path("/dev/shm")
_FILE_BYTES: Final = 64 << 20
"""Of the commit log: what was missed lies in files that are not written to any more."""
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
    if rows.wants_any(names):
        _costs(rows)
    _catching_up(rows)


def _costs(rows: Rows) -> None:
    with work_folder(rows.options.directory) as folder, _group(folder) as (leader, follower, _):
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


def _catching_up(rows: Rows) -> None:
    """The load of 16x8, in turn with and without a follower that was stopped for seconds and is
    sent what it lacks, from the log.

    Members of a group have a machine each: here the leader and its senders have one half of the
    cores, its followers the other one, the slow one what is left of it; and all files are in
    memory, for a disk that is shared has its leader wait for what its followers write."""
    if not rows.wants_any([NOBODY_LAGS, LAGGING]):
        return
    memory = _MEMORY if _MEMORY.is_dir() else rows.options.directory
    with rows.attempt(LAGGING), work_folder(memory) as folder:
        with _group(folder, mappedFileSizeCommitLog=_FILE_BYTES) as (leader, slow, quick):
            if not (half := len(cores()) // 2):
                raise BenchmarkError("a leader and its followers need cores of their own: two")
            with (
                on_cores([slow.pid, quick.pid], cores()[half:]),
                on_cores([THIS_THREAD, leader.pid], cores()[:half]),
            ):
                _run_last(slow)
                once = partial(_beside_one_who_lags, leader, slow, rows.options.seconds)
                few = min(rows.options.rounds, 3)
                for name, samples in zip(
                    (NOBODY_LAGS, LAGGING),
                    in_turn(few, partial(once, stopped_s=0), partial(once, stopped_s=_STOPPED_S)),
                    strict=True,
                ):
                    figures = figures_of(samples, [], {})
                    rows.add(Row(benchmark="", name=name, figures=figures))


def _run_last(server: Server) -> None:
    """It runs where no other process of its cores wants to."""
    for thread in os.listdir(f"/proc/{server.pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(thread), 19)


def _beside_one_who_lags(leader: Server, slow: Server, seconds: float, stopped_s: float) -> Sample:
    """Raises ``BenchmarkError`` when it does no more before the end."""
    deadline = time.monotonic() + _PATIENCE_S
    while _lag(leader):
        if time.monotonic() > deadline:
            raise BenchmarkError(f"a follower does not have everything after {_PATIENCE_S:.0f} s")
        time.sleep(0.05)
    with open_player(leader.port, 16, sends()) as player:
        if stopped_s:
            os.kill(slow.pid, signal.SIGSTOP)
            try:
                player.play(8, stopped_s)
            finally:
                os.kill(slow.pid, signal.SIGCONT)
        sample = measured(partial(player.play, 8), leader.pid, seconds)
    if stopped_s and _lag(leader) < _STILL_LAGS:
        raise BenchmarkError("the follower had caught up before the end")
    return sample


def _lag(leader: Server) -> int:
    """How many entries the one who lags most does not have."""
    with Peer(leader.port) as peer:
        _, body = peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO, NoFields())
    table = decode_body(KVTable, body).table
    lags = [int(lag) for key, lag in table.items() if key.startswith("raftLag_")]
    if not lags:
        raise BenchmarkError("another member leads now")
    return max(lags)


_WHO: Final = ("leader", "follower")


def _frames(shape: Shape) -> Frames:
    return sends() if shape.batch == 1 else batches(shape.batch)


@contextmanager
def _group(folder: Path, **settings: object) -> Iterator[list[Server]]:
    """Its members, the leader first."""
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
                    **settings,
                )
            )
            for n in range(3)
        ]
        leader = _leader(members)
        create_topic(leader)
        yield [leader, *(each for each in members if each is not leader)]


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
