"""What a consumer group costs that comes up: ``python -m benchmarks.new_groups``.

A group's first heartbeat makes its retry topic, and its consumer asks a name server for the way
there 10 ms later. It counts how often that did not know, beside a topic that a message makes 10 ms
before each heartbeat; and the CPU time of the broker for one more group beside many, when ten come
up in a second.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.route import GetRouteInfoRequest
from aiorocketmq.remoting.protocol.message.topic_names import retry_topic
from aiorocketmq.remoting.protocol.wire import NoFields

from .cpu import cpu_ns
from .harness.frames import properties, request, send_header
from .harness.peer import Peer
from .harness.servers import broker, name_server, work_folder

TRIES = 30
AFTER_S = 0.01
PACE_S = 0.1
PER_HEARTBEAT = 500
MAX_UNKNOWN = 3
MAX_CPU_RATIO = 4.0
"""Of a group beside 5,000 to one beside 50; the whole tables written anew made it 25."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--groups",
        type=int,
        nargs="+",
        default=[50, 2_000, 5_000],
        help="how many there are already",
    )
    parser.add_argument("--directory", type=Path, help="where its files go")
    options = parser.parse_args(arguments)
    console, costs, problems = Console(highlight=False), list[float](), list[str]()
    for count in options.groups:
        cost, unknown = measure(count, options.directory)
        costs.append(cost)
        console.print(
            f"{count:6} groups: {cost:.1f} ms of CPU for one more, retry topic unknown {unknown} "
            f"of {TRIES} times"
        )
        if unknown > MAX_UNKNOWN:
            problems.append(
                f"beside {count} groups {unknown} of {TRIES} retry topics were not known after "
                f"{AFTER_S} s"
            )
    if costs[-1] > MAX_CPU_RATIO * costs[0]:
        problems.append(
            f"a group beside {options.groups[-1]} costs {costs[-1] / costs[0]:.1f} times what it "
            "costs beside few"
        )
    console.print("\n".join(problems) or "good")
    return 1 if problems else 0


def measure(count: int, directory: Path | None) -> tuple[float, int]:
    """CPU time in ms of one more group, and how many of ``TRIES`` retry topics the name server did
    not know."""
    with (
        work_folder(directory) as folder,
        name_server(folder) as names,
        broker(folder, namesrvAddr=names.address) as server,
        Peer(server.port) as peer,
        Peer(names.port) as asking,
    ):
        for first in range(0, count, PER_HEARTBEAT):
            come_up(peer, *(f"base_{n}" for n in range(first, min(count, first + PER_HEARTBEAT))))
        time.sleep(2)
        idle = cpu_over(server.pid, lambda: time.sleep(TRIES * PACE_S))
        used = cpu_over(server.pid, partial(one_after_the_other, peer))
        unknown = sum(not is_known(server.port, peer, asking, n) for n in range(TRIES))
        return max(0.1, used - idle) / TRIES, unknown


def come_up(peer: Peer, *groups: str, then_s: float = 0.0) -> None:
    """Their first heartbeat is answered when this returns, and so much time has gone by."""
    topic = (SubscriptionData(topic="T", sub_string="*", sub_version=1),)
    consumers = tuple(
        ConsumerData(group_name=group, subscription_data_set=topic) for group in groups
    )
    body = encode_body(HeartbeatData(client_id="c", consumer_data_set=consumers))
    peer.send(request(RequestCode.HEART_BEAT, NoFields(), body, 1))
    while not peer.receive()[0].is_response:  # before it the client is told who is in the group
        pass
    time.sleep(then_s)


def one_after_the_other(peer: Peer) -> None:
    for number in range(TRIES):
        come_up(peer, f"more_{number}", then_s=PACE_S)


def is_known(port: int, peer: Peer, names: Peer, number: int) -> bool:
    """Whether the retry topic of a new group has a route when its consumer asks for it."""
    group = f"late_{number}"
    with Peer(port) as producer:
        producer.send(
            request(
                RequestCode.SEND_MESSAGE_V2,
                send_header(f"other_{number}", 0, properties()),
                b"x",
                1,
            )
        )
        time.sleep(AFTER_S)
        come_up(peer, group, then_s=AFTER_S)
        names.send(
            request(
                RequestCode.GET_ROUTEINFO_BY_TOPIC,
                GetRouteInfoRequest(topic=retry_topic(group)),
                b"",
                1,
            )
        )
        answer, _ = names.receive()
        time.sleep(PACE_S)
    return answer.code == 0


def cpu_over(pid: int, work: Callable[[], object]) -> float:
    """CPU time in ms that the process took meanwhile."""
    before = cpu_ns(pid)
    work()
    return (cpu_ns(pid) - before) / 1e6


if __name__ == "__main__":
    sys.exit(main())
