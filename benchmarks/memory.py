"""Memory of the daemons, as the system counts it: at the start, after traffic, and for each
connection, topic, queue.

Anonymous memory is what no file stands behind; pages of mapped files come and go as the system
likes.
"""

from __future__ import annotations

import re
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from examples.demo.daemons import free_port

from .harness.figures import BenchmarkError, Figure, Row, figure
from .harness.frames import batches, sends
from .harness.peer import Peer, until_listening
from .harness.play import open_player
from .harness.rows import Rows
from .harness.servers import Server, broker, create_topic, name_server, running, work_folder

FLOOR = "an interpreter that only listens"
_LISTEN = "import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(600)"
_SETTLED_S = 0.5
_ROUNDS = 2
"""It hardly scatters."""
_QUEUES_EACH = 4


def memory_kib(pid: int, name: str) -> float:
    """``RssAnon`` or ``VmRSS`` of a process."""
    found = re.search(
        rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    if found is None:
        raise BenchmarkError(f"this kernel does not tell {name}")
    return float(found[1])


def run(rows: Rows) -> None:
    """One broker for each round."""
    options = rows.options
    connections, topics = (50, 50) if options.small else (1_000, 500)
    found: dict[str, list[float]] = {}
    floor: dict[str, list[float]] = {}
    name = "memory"
    with work_folder(options.directory) as folder, rows.attempt(name):
        for number in range(min(options.rounds, _ROUNDS)):
            floor.setdefault("anonymous", []).append(_bare(folder, "RssAnon"))
            floor.setdefault("resident", []).append(_bare(folder, "VmRSS"))
            with name_server(folder, f"namesrv{number}") as server:
                time.sleep(_SETTLED_S)
                found.setdefault("name server", []).append(memory_kib(server.pid, "RssAnon") / 1024)
            with broker(folder, f"broker{number}") as server:
                for key, value in _one_broker(server, connections, topics).items():
                    found.setdefault(key, []).append(value)
        kib = "KiB each"
        for name, figures in (
            (
                "name server, at start",
                {"anonymous": figure("MiB", found["name server"], floor["anonymous"])},
            ),
            ("broker, at start", _at_start(found, floor)),
            ("broker, after sends and pulls", {"anonymous": figure("MiB", found["after traffic"])}),
            (
                f"broker, {connections:,} connections",
                {"anonymous": figure(kib, found["connection"])},
            ),
            (f"broker, {topics:,} topics", {"anonymous": figure(kib, found["topic"])}),
            (
                f"broker, {topics * _QUEUES_EACH:,} queues",
                {"anonymous": figure(kib, found["queue"])},
            ),
        ):
            rows.add(
                Row(
                    benchmark="",
                    name=name,
                    figures=figures,
                    floor_is=FLOOR if "at start" in name else "",
                )
            )


def _at_start(found: dict[str, list[float]], floor: dict[str, list[float]]) -> dict[str, Figure]:
    anonymous = figure("MiB", found["anonymous"], floor["anonymous"], mark=100.0, original=690.0)
    return {"anonymous": anonymous, "resident": figure("MiB", found["resident"], floor["resident"])}


def _one_broker(server: Server, connections: int, topics: int) -> dict[str, float]:
    anonymous = partial(memory_kib, server.pid, "RssAnon")
    time.sleep(_SETTLED_S)
    found = {"anonymous": anonymous() / 1024, "resident": memory_kib(server.pid, "VmRSS") / 1024}
    before = anonymous()
    names = [f"Topic-{number}" for number in range(topics)]
    create_topic(server)
    with ExitStack() as stack:
        for _ in range(connections):
            stack.enter_context(Peer(server.port)).max_offset(0)
        found["connection"] = (anonymous() - before) / connections
    before = anonymous()
    create_topic(server, *names, queues=_QUEUES_EACH)
    found["topic"] = (anonymous() - before) / topics
    before = anonymous()
    frames = sends(
        queues=[(name, queue_id) for name in names for queue_id in range(_QUEUES_EACH)]
    ).frames
    with Peer(server.port) as peer:
        for frame in frames[: topics * _QUEUES_EACH]:
            peer.send(frame)
            peer.receive()
    found["queue"] = (anonymous() - before) / topics / _QUEUES_EACH
    with open_player(server.port, 8, batches(32)) as player:
        player.play(4, 1.0)
    time.sleep(_SETTLED_S)
    found["after traffic"] = anonymous() / 1024
    return found


def _bare(folder: Path, name: str) -> float:
    port = free_port()
    with running(
        [sys.executable, "-c", _LISTEN.format(port=port)], folder / "bare.log", folder, leave_s=0
    ) as child:
        until_listening(port)
        return memory_kib(child.pid, name) / 1024
