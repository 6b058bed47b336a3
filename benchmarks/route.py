"""What asking for a route costs a name server that knows 5,000 topics of two brokers."""

from __future__ import annotations

from aiorocketmq.remoting.protocol.bodies.codec import encode_body
from aiorocketmq.remoting.protocol.bodies.registration import RegisterBrokerBody
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig, TopicConfigTable
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.route import GetRouteInfoRequest, RegisterBrokerRequest

from .harness.figures import NO_GOALS, Goal, Goals
from .harness.frames import routes
from .harness.peer import Peer
from .harness.rows import Rows, Traffic, traffic
from .harness.servers import Server, floor, has_floor, name_server, work_folder

TOPICS = 5_000
GOALS: Goals = {"cpu": Goal(15)}


def run(rows: Rows) -> None:
    """Registered over connections that stay open, asked by 64 clients that wait for each answer and
    by 8x16."""
    options = rows.options
    topics = [f"Topic-{number:05d}" for number in range(200 if options.small else TOPICS)]
    with work_folder(options.directory) as folder, name_server(folder) as server:
        with Peer(server.port) as first, Peer(server.port) as second:
            for number, peer in enumerate((first, second)):
                register(peer, f"broker-{number}", topics)
            body = len(
                first.ask(
                    RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=topics[-1])
                )[1]
            )
            with floor(folder, "body", str(body)) as least:
                for name, connections, window, goals in (
                    (f"route queries, {len(topics):,} topics, 64x1", 64, 1, GOALS),
                    (f"route queries, {len(topics):,} topics, 8x16", 8, 16, NO_GOALS),
                ):
                    if rows.wants(name):
                        with rows.attempt(name):
                            row = Traffic(name, connections, window, goals)
                            floors: Server | None = least if has_floor() else None
                            rows.add(traffic(row, routes(topics), server, floors, options))


def register(peer: Peer, name: str, topics: list[str]) -> None:
    """As a broker does."""
    table = {
        topic: TopicConfig(topic_name=topic, read_queue_nums=8, write_queue_nums=8, perm=6)
        for topic in topics
    }
    body = RegisterBrokerBody(topic_config_table=TopicConfigTable(topic_config_table=table))
    header = RegisterBrokerRequest(
        broker_name=name, broker_addr=f"10.0.0.{len(name)}:{10_000 + int(name[-1])}",
        cluster_name="DefaultCluster",
        ha_server_addr="10.0.0.1:10912", broker_id=0, compressed=False, body_crc32=0,
    )  # fmt: skip
    peer.ask(RequestCode.REGISTER_BROKER, header, encode_body(body))
