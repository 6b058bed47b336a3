"""Sends that are answered when a slave has them (SYNC_MASTER), from 64 clients that wait for each:
the master's CPU time."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

from examples.demo.daemons import free_port

from .harness.figures import BenchmarkError, Goal
from .harness.frames import batches, sends
from .harness.pages import fetch_pages
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

GOALS = {"cpu": Goal(11, None, 32, 22), "rate": Goal(None, None, 27_000)}
MASTER = {"brokerName": "bench", "brokerRole": "SYNC_MASTER"}
SLAVE = {"brokerName": "bench", "brokerRole": "SLAVE", "brokerId": 1}
_PATIENCE_S = 60.0


def run(rows: Rows) -> None:
    """Master and slave are processes; the floor has a receiver that does nothing but report."""
    name = "sync replication, 64x1, the master"
    if not rows.wants(name):
        return
    with work_folder(rows.options.directory) as folder, rows.attempt(name), ExitStack() as stack:
        master = stack.enter_context(broker(folder, "master", **MASTER))
        pure = stack.enter_context(pure_broker(folder, "pure", **MASTER))
        for each in (master, pure) if pure else (master,):
            where = {"haMasterAddress": f"127.0.0.1:{each.port + 1}"}
            stack.enter_context(broker(folder, f"slave-{each.port}", **SLAVE, **where))
            create_topic(each)
            until_followed(each)
        least = None
        if has_floor():
            receiver = free_port()
            stack.enter_context(floor(folder, "receiver", port=receiver))
            least = stack.enter_context(floor(folder, "slave", str(receiver)))
        pages = partial(fetch_pages, folder)
        rows.add(
            traffic(Traffic(name, 64, 1, GOALS), sends(), master, least, rows.options, pages, pure)
        )


def until_followed(master: Server) -> None:
    """Until the slave takes part: a send is not answered with SLAVE_NOT_AVAILABLE (11) or a timeout
    any more."""
    deadline = time.monotonic() + _PATIENCE_S
    with Peer(master.port) as peer:
        while time.monotonic() < deadline:
            peer.send(batches(1).frames[0])
            answer, _ = peer.receive()
            if answer.code == 0:
                return
            time.sleep(0.05)
    raise BenchmarkError("no slave follows the master")
