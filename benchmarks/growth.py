"""What growing costs daemons: ``python -m benchmarks.growth`` (``make fuzz`` runs it, too).

A name server gets to know 50,000 topics of each of five brokers, tells routes and lists of all of
them and loses one of the brokers; a broker gets 20,000 queues with a message in each, a topic of
1,000 more goes, and 100,000 groups commit to it. Files are written and synced meanwhile. What
counts is the CPU time of the longest callback of the event loop, collections of garbage included,
as in ``cost.py``: 50 ms, a registration 150 ms.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click

from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.registration import RegisterBrokerBody
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.base import TopicRequest
from aiorocketmq.remoting.protocol.commands.offset import UpdateConsumerOffsetRequest
from aiorocketmq.remoting.protocol.commands.route import (
    BrokerRequest,
    GetTopicsByClusterRequest,
    RegisterBrokerRequest,
)
from aiorocketmq.remoting.protocol.commands.topic import CreateTopicRequest
from aiorocketmq.remoting.protocol.wire import NoFields
from aiorocketmq.remoting.slices import slices

from .command_line import HELP
from .cost import HOLD_S, REGISTRATION_HOLD_S
from .cost_world import Size, World, timed_handles
from .harness.frames import request, routes, sends
from .harness.peer import Peer

EACH: Final = 4
WIDE: Final = 1_000
AT_ONCE: Final = 64
SERVICES_S: Final = 7.0
"""In so much time every table that changed was written to its file, and all queues were synced."""
BROKERS: Final = ("grown-0", "grown-1", "grown-2", "grown-3", "grown-4")
CLUSTER: Final = "grown"
IN_CLUSTER: Final = GetTopicsByClusterRequest(cluster=CLUSTER)
LISTS: Final = (
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_UNIT_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
)
EMPTY: Final = Size(0, 0, 0, 1, 0)


class Growth(NamedTuple):
    """What is sent to a daemon."""

    daemon: str
    what: str
    frames: list[bytes]
    hold_s: float = HOLD_S


def growth(topics: int, queues: int, groups: int) -> Iterator[Growth]:
    """One after the other."""
    names = [f"topic-{number}" for number in range(topics)]
    every = [[f"{name}-of-{broker}" for name in names] for broker in BROKERS]
    registrations = [_registration(*each) for each in zip(BROKERS, every, strict=True)]
    yield Growth(
        "namesrv",
        f"{topics:,} topics of {len(BROKERS)} brokers",
        registrations,
        REGISTRATION_HOLD_S,
    )
    yield Growth("namesrv", f"{topics:,} routes", routes(every[0]).frames)
    lists = [request(code, NoFields()) for code in LISTS] + [
        request(RequestCode.GET_TOPICS_BY_CLUSTER, IN_CLUSTER)
    ]
    yield Growth("namesrv", f"lists of {topics * len(BROKERS):,} topics", lists)
    yield Growth(
        "namesrv", "a broker goes", [request(RequestCode.UNREGISTER_BROKER, _broker(BROKERS[0]))]
    )
    names = names[: queues // EACH]
    yield Growth("broker", f"{len(names):,} topics are made", [_topic(name) for name in names])
    places = [(name, queue_id) for name in names for queue_id in range(EACH)]
    yield Growth(
        "broker",
        f"{len(places):,} queues get a message",
        sends(queues=places).frames[: len(places)],
    )
    wide = sends(queues=[("wide", queue_id) for queue_id in range(WIDE)]).frames[:WIDE]
    yield Growth(
        "broker", f"{WIDE:,} queues of a topic get a message", [_topic("wide", WIDE), *wide]
    )
    yield Growth("broker", f"a topic of {WIDE:,} queues goes", [_deletion("wide")])
    yield Growth(
        "broker",
        f"{groups:,} groups commit",
        [_commit(f"group-{number}") for number in range(groups)],
    )


def _broker(name: str) -> BrokerRequest:
    return BrokerRequest(broker_name=name, broker_addr=name, cluster_name=CLUSTER, broker_id=0)


def _registration(name: str, topics: list[str]) -> bytes:
    table = TopicConfigTable(
        topic_config_table={topic: TopicConfig(topic_name=topic) for topic in topics},
        data_version=DataVersion(counter=1),
    )
    header = RegisterBrokerRequest(
        broker_name=name, broker_addr=name, cluster_name=CLUSTER, ha_server_addr="h:2", broker_id=0
    )
    return request(
        RequestCode.REGISTER_BROKER,
        header,
        encode_body(RegisterBrokerBody(topic_config_table=table)),
    )


def _topic(name: str, queues: int = EACH) -> bytes:
    header = CreateTopicRequest(
        topic=name, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=6,
        topic_filter_type="SINGLE_TAG",
    )  # fmt: skip
    return request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)


def _deletion(name: str) -> bytes:
    return request(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic=name))


def _commit(group: str) -> bytes:
    header = UpdateConsumerOffsetRequest(
        consumer_group=group, topic="topic-0", queue_id=0, commit_offset=1
    )
    return request(RequestCode.UPDATE_CONSUMER_OFFSET, header)


@contextmanager
def connected(world: World) -> Iterator[dict[str, Peer]]:
    """To each daemon: brokers go with the connection that they registered over."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(Peer(port)) for name, port in world.ports.items()}


def grow(world: World, peer: Peer, step: Growth, *, services_s: float = SERVICES_S) -> float:
    """Send it; the longest hold in seconds of CPU, also by what the services did in ``services_s``
    afterwards."""
    world.loop.begin()
    for some in slices(step.frames, AT_ONCE):
        peer.send(b"".join(some))
        for _ in some:
            peer.receive()
    time.sleep(services_s)
    return world.loop.longest_s


@click.command(context_settings=HELP)
@click.option("--topics", default=50_000)
@click.option("--queues", default=20_000)
@click.option("--groups", default=100_000)
def main(topics: int, queues: int, groups: int) -> None:
    """The longest hold of the event loop while a daemon grows."""
    bad = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        timed_handles(),
        World(Path(folder), EMPTY) as world,
        connected(world) as peers,
    ):
        for step in growth(topics, queues, groups):
            held_s = grow(world, peers[step.daemon], step)
            bad += held_s > step.hold_s
            mark = "NOT GOOD: " if held_s > step.hold_s else ""
            print(f"{mark}{held_s * 1000:7.1f} ms  {step.what} in {world.loop.longest}", flush=True)
    print(f"{bad} steps held the event loop for longer than {HOLD_S * 1000:.0f} ms")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
