"""``python -m benchmarks``: what a message costs the broker, next to a server that does nothing.

The broker is a process of its own on a fresh store; every shape is driven several times, in turn with an echo server over
the same framing (the part of the cost that no broker can avoid on this machine). CPU time is the operating system's figure
for the server process, divided by the messages of the measured window.

Then the client (``client_send``, ``client_accumulate``, ``client_sync``, ``client_push``, ``client_push_batch``,
``client_pull``): what a message costs whoever sends or reads it.

Then the store alone (``store_append``, ``store_pull``, ``store_recovery``, ``store_queues``, ``store_flush`` and
``store_roll``), each figure next to what the machine does at best in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from aiorocketmq.remoting.client import RemotingClient
from aiorocketmq.remoting.errors import RemotingError
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.topic import CreateTopicRequest
from examples.demo.daemons import free_port

from .client_all import CLIENT_SHAPES, ClientShape, client_table, load, run_client
from .cpu import cpu_ns
from .loadgen import QUEUES, TOPIC
from .store_all import STORE_BENCHMARKS, run_store, store_table

WARM_UP_S = 0.3


class Shape(NamedTuple):
    """One row of the table."""

    name: str
    kind: str
    connections: int
    in_flight: int


SHAPES = [
    Shape("send 1x1", "send", 1, 1),
    Shape("send 64x1", "send", 64, 1),
    Shape("send 8x16", "send", 8, 16),
    Shape("send 8x64", "send", 8, 64),
    Shape("batch of 32, 8x4", "batch", 8, 4),
    Shape("pull 32 messages, 8x4", "pull", 8, 4),
]


class Measured(NamedTuple):
    """One run: microseconds of the server's CPU per message, messages per second, answers that were not code 0."""

    cpu_us: float
    rate: float
    errors: int


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process that ends with the block."""
    child = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.terminate()
        child.wait(30)


async def create_topic(port: int) -> None:
    """Waits for the broker and makes the topic."""
    header = CreateTopicRequest(
        topic=TOPIC,
        default_topic="TBW102",
        read_queue_nums=QUEUES,
        write_queue_nums=QUEUES,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    async with RemotingClient() as client, asyncio.timeout(30):
        while True:
            try:
                response = await client.invoke(f"127.0.0.1:{port}", RequestCode.UPDATE_AND_CREATE_TOPIC, header)
                response.check()
                return
            except RemotingError:
                await asyncio.sleep(0.05)


def measure(port: int, pid: int, shape: Shape, seconds: float) -> Measured:
    """Drive one server with one shape."""
    arguments = [str(port), shape.kind, str(shape.connections), str(shape.in_flight), str(WARM_UP_S + seconds)]
    command = [sys.executable, "-m", "benchmarks.loadgen", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as generator:
        assert generator.stdout is not None
        generator.stdout.readline()
        before = cpu_ns(pid)
        result = json.loads(generator.stdout.readline())
        after = cpu_ns(pid)
    messages = max(1, result["messages"])
    return Measured((after - before) / 1000 / messages, messages / result["seconds"], result["errors"])


def run(shapes: list[Shape], rounds: int, seconds: float, console: Console) -> list[dict[str, Any]]:
    broker_port, echo_port = free_port(-2, 1), free_port()
    with tempfile.TemporaryDirectory(prefix="aiorocketmq-bench-") as folder:
        options = (f"--listenPort={broker_port}", f"--storePathRootDir={folder}", "--brokerIP1=127.0.0.1")
        home = f"--rocketmqHome={folder}"
        with (
            process("-m", "aiorocketmq.broker", *options, home) as broker,
            process("-m", "benchmarks.echo_server", str(echo_port)) as echo,
        ):
            asyncio.run(create_topic(broker_port))
            measure(broker_port, broker.pid, Shape("fill", "batch", 8, 4), 2.0)
            rows = []
            for shape in shapes:
                ours, floor = [], []
                for _ in range(rounds):
                    ours.append(measure(broker_port, broker.pid, shape, seconds))
                    floor.append(
                        measure(
                            echo_port, echo.pid, shape._replace(kind="send" if shape.kind == "pull" else shape.kind), seconds
                        )
                    )
                rows.append(row(shape, ours, floor))
                console.print(f"  {shape.name} done", style="dim")
            return rows


def run_clients(shapes: list[ClientShape], rounds: int, seconds: float, console: Console) -> list[dict[str, Any]]:
    namesrv_port, broker_port = free_port(), free_port(-2, 1)
    namesrv, broker = f"127.0.0.1:{namesrv_port}", f"127.0.0.1:{broker_port}"
    with tempfile.TemporaryDirectory(prefix="aiorocketmq-bench-") as folder:
        home = f"--rocketmqHome={folder}"
        options = (f"--listenPort={broker_port}", f"--storePathRootDir={folder}", "--brokerIP1=127.0.0.1", home)
        with (
            process("-m", "aiorocketmq.namesrv", f"--listenPort={namesrv_port}", home),
            process("-m", "aiorocketmq.broker", f"--namesrvAddr={namesrv}", *options),
        ):
            asyncio.run(create_topic(broker_port))
            for size in {shape.size for shape in shapes if shape.kind in ("push", "push_batch", "pull")}:
                load("fill", namesrv, 1, size, 0)
            rows = []
            for shape in shapes:
                rows.append(run_client(shape, namesrv, broker, rounds, seconds))
                console.print(f"  {shape.name} done", style="dim")
            return rows


def row(shape: Shape, ours: list[Measured], floor: list[Measured]) -> dict[str, Any]:
    per_request = 32 if shape.kind == "pull" else 1  # the echo answers a pull as one message
    floor_us = [m.cpu_us / per_request for m in floor]
    return {
        "shape": shape.name,
        "cpu_us_per_message": {"best": min(m.cpu_us for m in ours), "median": statistics.median(m.cpu_us for m in ours)},
        "echo_us_per_message": {"best": min(floor_us), "median": statistics.median(floor_us)},
        "messages_per_second": {"best": max(m.rate for m in ours), "median": statistics.median(m.rate for m in ours)},
        "errors": sum(m.errors for m in ours),
        "rounds": len(ours),
    }


def table(rows: list[dict[str, Any]]) -> Table:
    result = Table(title="CPU of the broker per message, 128-byte bodies (µs)")
    for heading in ("shape", "best", "median", "echo best", "echo median", "messages/s best", "errors"):
        result.add_column(heading, justify="left" if heading == "shape" else "right")
    for each in rows:
        ours, floor, rate = each["cpu_us_per_message"], each["echo_us_per_message"], each["messages_per_second"]
        cells = [f"{v:.2f}" for v in (ours["best"], ours["median"], floor["best"], floor["median"])]
        result.add_row(each["shape"], *cells, f"{rate['best']:,.0f}", str(each["errors"]))
    return result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="*", help="only shapes and benchmarks whose name contains one of these words")
    parser.add_argument(
        "--rounds", type=int, default=5, help="runs of each, in turn with the floor where that makes sense (5)"
    )
    parser.add_argument("--seconds", type=float, default=1.5, help="measured time of a run of the broker (1.5)")
    parser.add_argument("--directory", type=Path, help="where the store benchmarks put their files (temporary files)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    shapes = [s for s in SHAPES if not options.name or any(word in s.name for word in options.name)]
    names = [name for name in STORE_BENCHMARKS if not options.name or any(word in name for word in options.name)]
    client_shapes = [s for s in CLIENT_SHAPES if not options.name or any(word in s.name for word in options.name)]
    if not shapes and not names and not client_shapes:
        known = ", ".join([*(s.name for s in SHAPES), *(s.name for s in CLIENT_SHAPES), *STORE_BENCHMARKS])
        parser.error(f"nothing is called {' or '.join(options.name)}: {known}")
    console = Console(stderr=options.json)
    started = time.monotonic()
    rounds = max(1, options.rounds)
    rows = run(shapes, rounds, options.seconds, console) if shapes else []
    client_rows = run_clients(client_shapes, rounds, options.seconds, console) if client_shapes else []
    store_rows = []
    for name in names:
        store_rows += run_store(name, rounds, options.directory)
        console.print(f"  {name} done", style="dim")
    if options.json:
        print(json.dumps([*rows, *client_rows, *store_rows], indent=2))
    else:
        tables = ((table, rows), (client_table, client_rows), (store_table, store_rows))
        for each in (make(found) for make, found in tables if found):
            console.print(each)
        folder = options.directory or Path(tempfile.gettempdir())
        console.print(f"{rounds} rounds, {time.monotonic() - started:.0f} s; store on {folder}")
    return 1 if any(each["errors"] for each in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
