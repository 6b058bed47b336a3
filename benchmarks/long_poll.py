"""What waiting costs: ``python -m benchmarks.long_poll``.

A broker process holds pulls (10,000 of them, over 100 connections, half of them with an SQL92
filter). What they cost in anonymous memory and in CPU time while nothing happens is the operating
system's figure for that process. Then messages come one at a time for one more pull that waits: how
long it takes from the send until its answer is there, by tag and by SQL92, with the others waiting
beside it.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import QueueRequest
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag

from .cpu import cpu_ns
from .harness.frames import QUEUES, TOPIC, request, send_header
from .harness.servers import broker, create_topic, work_folder

CONNECTIONS = 100
IDLE_S = 5.0
WAITING_QUEUE = 0
"""The others wait for the rest of the queues: they are not to be woken."""
FILTERS = {"tag": ("TAG", "TagA"), "sql": ("SQL92", "a BETWEEN 0 AND 3")}
MAX_WAKE_UP_MS = 5.0
"""p99."""
MAX_BYTES_PER_PULL = 10_000
MAX_IDLE_CPU_PERCENT = 0.5
"""More than without held pulls: what is less the clock of the system does not measure."""
PROPERTIES = "UNIQ_KEY\x017F000001000000000000000000000001\x02TAGS\x01TagA\x02a\x012"


def pull_frame(group: str, queue_id: int, offset: int, kind: str, opaque: int) -> bytes:
    expression_type, expression = FILTERS[kind]
    header = PullMessageRequest(
        consumer_group=group, topic=TOPIC, queue_id=queue_id, queue_offset=offset, max_msg_nums=32,
        sys_flag=PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND, commit_offset=0,
        suspend_timeout_millis=3_600_000,
        subscription=expression, sub_version=0, expression_type=expression_type,
    )  # fmt: skip
    return request(RequestCode.PULL_MESSAGE, header, b"", opaque)


class Peer:
    """A connection with frames in and out, blocking."""

    def __init__(self, port: int) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._sock.makefile("rb")

    def send(self, *frames: bytes) -> None:
        self._sock.sendall(b"".join(frames))

    def receive(self) -> bytes:
        """The next frame, without its length."""
        return self._file.read(int.from_bytes(self._file.read(4), "big"))

    def max_offset(self, queue_id: int) -> int:
        """A request that is answered at once: what was sent before it has been looked at then."""
        header = QueueRequest(topic=TOPIC, queue_id=queue_id)
        self.send(request(RequestCode.GET_MAX_OFFSET, header, b"", 1))
        found = re.search(rb'"offset":"?(\d+)', self.receive())
        assert found is not None
        return int(found[1])

    def close(self) -> None:
        self._file.close()
        self._sock.close()


def anonymous_kib(pid: int) -> int:
    """Memory of a process that no file stands behind."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


def idle_cpu_percent(pid: int) -> float:
    """Of one core, while nobody asks for anything."""
    before = cpu_ns(pid)
    time.sleep(IDLE_S)
    return (cpu_ns(pid) - before) / IDLE_S / 1e7


def wait_many(port: int, pulls: int) -> list[Peer]:
    """Connections with that many pulls held behind them."""
    peers = [Peer(port) for _ in range(CONNECTIONS)]
    for number, peer in enumerate(peers):
        each = range(number, pulls, CONNECTIONS)
        peer.send(
            *(
                pull_frame(f"g{n % 50}", 1 + n % (QUEUES - 1), 0, ("tag", "sql")[n % 2], n)
                for n in each
            )
        )
        peer.max_offset(WAITING_QUEUE)
    return peers


def wake_ups(port: int, kind: str, count: int) -> list[float]:
    """Milliseconds from a send to the answer of the pull that waits for it."""
    waiting, sending = Peer(port), Peer(port)
    offset = waiting.max_offset(WAITING_QUEUE)
    found = []
    send = request(
        RequestCode.SEND_MESSAGE_V2, send_header(TOPIC, WAITING_QUEUE, PROPERTIES), bytes(128), 3
    )
    for _ in range(count):
        waiting.send(pull_frame("woken", WAITING_QUEUE, offset, kind, 2))
        waiting.max_offset(WAITING_QUEUE)
        begin = time.perf_counter()
        sending.send(send)
        answer = waiting.receive()
        found.append((time.perf_counter() - begin) * 1000)
        assert b'{"code":0,' in answer, answer[:200]
        sending.receive()
        offset += 1
    waiting.close()
    sending.close()
    return found


def quantiles(values: list[float]) -> dict[str, float]:
    hundredths = statistics.quantiles(values, n=1000)
    return {"p50": hundredths[499], "p99": hundredths[989], "max": max(values)}


def run(pulls: int, count: int) -> dict[str, Any]:
    with work_folder(None) as folder, broker(folder, enablePropertyFilter="true") as server:
        create_topic(server)
        port, pid = server.port, server.pid
        alone = {kind: quantiles(wake_ups(port, kind, count)) for kind in FILTERS}
        idle, memory = idle_cpu_percent(pid), anonymous_kib(pid)
        peers = wait_many(port, pulls)
        held_memory, held_idle = anonymous_kib(pid), idle_cpu_percent(pid)
        beside = {kind: quantiles(wake_ups(port, kind, count)) for kind in FILTERS}
        for peer in peers:
            peer.close()
    return {
        "pulls": pulls,
        "wake_up_ms": {"alone": alone, f"beside {pulls} others": beside},
        "anonymous_mib": {
            "before": memory / 1024,
            "held": held_memory / 1024,
            "more": (held_memory - memory) / 1024,
        },
        "idle_cpu_percent": {"before": idle, "held": held_idle},
    }


def problems_of(result: dict[str, Any]) -> list[str]:
    """What is worse than it should be."""
    problems = [
        f"p99 of the wake-ups by {kind}, {where}, is {each['p99']:.2f} ms; {MAX_WAKE_UP_MS} ms is "
        "too much"
        for where, kinds in result["wake_up_ms"].items()
        for kind, each in kinds.items()
        if each["p99"] >= MAX_WAKE_UP_MS
    ]
    bytes_per_pull = result["anonymous_mib"]["more"] * 2**20 / result["pulls"]
    if bytes_per_pull >= MAX_BYTES_PER_PULL:
        problems.append(
            f"a held pull costs {bytes_per_pull:,.0f} bytes; {MAX_BYTES_PER_PULL:,} is too much"
        )
    idle = result["idle_cpu_percent"]
    if (more := idle["held"] - idle["before"]) >= MAX_IDLE_CPU_PERCENT:
        problems.append(
            f"held pulls cost {more:.2f} % of a core; {MAX_IDLE_CPU_PERCENT} % is too much"
        )
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.long_poll", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--pulls", type=int, default=10_000, help="pulls that are held (10000)")
    parser.add_argument(
        "--wake-ups", type=int, default=2000, help="messages that wake a pull, of each kind (2000)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    result = run(max(1, options.pulls), max(100, options.wake_ups))
    problems = problems_of(result)
    if options.json:
        print(json.dumps(result | {"problems": problems}, indent=2))
    else:
        show(result, problems)
    return 1 if problems else 0


def show(result: dict[str, Any], problems: list[str]) -> None:
    console = Console()
    for where, kinds in result["wake_up_ms"].items():
        for kind, each in kinds.items():
            console.print(
                f"wake-up by {kind}, {where}: "
                + "  ".join(f"{k} {v:.2f} ms" for k, v in each.items())
            )
    memory, idle = result["anonymous_mib"], result["idle_cpu_percent"]
    console.print(
        f"{result['pulls']} held pulls: {memory['more']:.1f} MiB of anonymous memory "
        f"({memory['before']:.1f} before)"
    )
    console.print(
        f"CPU while nothing happens: {idle['held']:.2f} % of a core with them, "
        f"{idle['before']:.2f} % without"
    )
    for problem in problems:
        console.print(f"NOT GOOD: {problem}")
    if not problems:
        console.print("GOOD: fast, small, and quiet")


if __name__ == "__main__":
    sys.exit(main())
