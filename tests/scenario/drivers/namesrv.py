"""Name servers n1 and n2, and brokers that register with both over connections of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.daemon import NameServer
from aiorocketmq.namesrv.kv_config import KvConfig
from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.lists import TopicList
from aiorocketmq.remoting.protocol.bodies.registration import RegisterBrokerBody
from aiorocketmq.remoting.protocol.bodies.route import ClusterInfo, TopicRouteData
from aiorocketmq.remoting.protocol.bodies.topic_config import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.kv import PutKVConfigRequest
from aiorocketmq.remoting.protocol.commands.route import (
    BrokerNameRequest,
    BrokerRequest,
    DeleteTopicFromNamesrvRequest,
    GetRouteInfoRequest,
    RegisterBrokerRequest,
)
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.remoting.responses import Response
from aiorocketmq.remoting.transport.connection import Connection

from ...sim import SimOwner
from ..language import Driver, step
from .simulated import code_of, keep_running, pass_time, settle, simulated_loop

SERVERS = {"n1": "10.0.1.1:9876", "n2": "10.0.1.2:9876"}
PERMISSIONS = {6: "rw", 4: "r", 2: "w", 0: "-"}


class RunningNameServer:
    """The real one, whose connections come from the simulated network."""

    def __init__(self, driver: Driver, address: str) -> None:
        config = NamesrvConfig(
            kv_config_path=str(driver.folder / "kv.json"), order_message_enable=True
        )
        server = NameServer(config, kv_config=KvConfig(), clock=driver.clock)
        owner = SimOwner(Dispatcher(server.table), clock=driver.clock)
        owner.disconnected = server.brokers.connection_closed  # type: ignore[method-assign]
        simulated_loop().network.listen(address, lambda: Connection(owner))
        keep_running(driver.stack, *(service.run() for service in server._services))


@dataclass
class Process:
    """A broker process: one replica of a broker name."""

    name: str
    address: str
    broker_id: int
    cluster: str
    topics: dict[str, TopicConfig]
    version: int = 1
    connections: dict[str, Connection] = field(default_factory=dict)


class NamesrvDriver(Driver):
    async def start(self) -> None:
        for address in SERVERS.values():
            RunningNameServer(self, address)
        self.processes: dict[str, Process] = {}

    # -- brokers

    @step("register {name} at {address} [id {broker_id} ][in {cluster} ]topics {topics}")
    async def register(
        self,
        name: str,
        address: str,
        topics: list[str],
        broker_id: int = 0,
        cluster: str = "C",
    ) -> list[str]:
        """A process starts: topics are written ``Orders(8)``, with 8 queues for reading and
        writing, ``Orders(8,r)`` with this permission."""
        configs = {config.topic_name: config for config in map(_topic, topics)}
        self.processes[address] = Process(name, address, broker_id, cluster, configs)
        return await self._register(self.processes[address])

    @step("heartbeat {address}")
    async def heartbeat(self, address: str) -> list[str]:
        """What a broker does every 30 s: it registers again."""
        return await self._register(self.processes[address])

    @step("change {address} topics {topics}")
    async def change(self, address: str, topics: list[str]) -> list[str]:
        """These topics instead; the data version grows."""
        process = self.processes[address]
        process.topics = {config.topic_name: config for config in map(_topic, topics)}
        process.version += 1
        return await self._register(process)

    @step("ask version of {address}")
    async def ask_version(self, address: str) -> list[str]:
        """What a broker asks first (322): a version that is known counts as a sign of life."""
        process, said = self.processes[address], []
        version = encode_body(DataVersion(counter=process.version))
        for server in SERVERS:
            answer = await self._from(process, server).invoke(
                RequestCode.QUERY_DATA_VERSION, self._broker(process), version, timeout=5
            )
            said.append(f"{server}: {'changed' if answer.header.changed else 'known'}")
        return _alike(said)

    @step("unregister {address}")
    async def unregister(self, address: str) -> list[str]:
        process, said = self.processes[address], []
        for server in SERVERS:
            answer = await self._from(process, server).invoke(
                RequestCode.UNREGISTER_BROKER, self._broker(process), timeout=5
            )
            said.append(f"{server}: {code_of(answer)}")
        return _alike(said)

    @step("{address} dies")
    async def dies(self, address: str) -> None:
        """Its connections end."""
        for connection in self.processes[address].connections.values():
            connection.close("died")
        await settle()

    @step("advance {seconds} s")
    async def advance(self, seconds: float) -> None:
        await pass_time(self.clock, seconds)

    # -- name servers

    @step("restart {server}")
    async def restart(self, server: str) -> None:
        """Nothing of what it knew is kept; brokers connect again."""
        simulated_loop().network.down(SERVERS[server])
        RunningNameServer(self, SERVERS[server])
        await settle()

    @step("wipe {broker}")
    async def wipe(self, broker: str) -> list[str]:
        """Nobody shall write there (205)."""
        request = BrokerNameRequest(broker_name=broker)
        answers = await self._all(RequestCode.WIPE_WRITE_PERM_OF_BROKER, request)
        return _alike([f"{s}: {a.header.wipe_topic_count} topics" for s, a in answers])

    @step("allow {broker}")
    async def allow(self, broker: str) -> list[str]:
        """Writing again (327)."""
        request = BrokerNameRequest(broker_name=broker)
        answers = await self._all(RequestCode.ADD_WRITE_PERM_OF_BROKER, request)
        return _alike([f"{s}: {a.header.add_topic_count} topics" for s, a in answers])

    @step("delete topic {topic}")
    async def delete_topic(self, topic: str) -> list[str]:
        request = DeleteTopicFromNamesrvRequest(topic=topic)
        answers = await self._all(RequestCode.DELETE_TOPIC_IN_NAMESRV, request)
        return _alike([f"{s}: {code_of(a)}" for s, a in answers])

    @step("order {topic} {value}")
    async def order(self, topic: str, value: str) -> list[str]:
        """Which queues an ordered topic has, for all brokers together."""
        request = PutKVConfigRequest(namespace="ORDER_TOPIC_CONFIG", key=topic, value=value)
        answers = await self._all(RequestCode.PUT_KV_CONFIG, request)
        return _alike([f"{s}: {code_of(a)}" for s, a in answers])

    # -- what they say

    @step("route {topic}[ at {server}]")
    async def route(self, topic: str, server: str = "n1") -> list[str]:
        request = GetRouteInfoRequest(topic=topic, accept_standard_json_only=True)
        answer = await self._ask(server, RequestCode.GET_ROUTEINFO_BY_TOPIC, request)
        return [code_of(answer)] if answer.code else list(_route_lines(answer))

    @step("topics[ at {server}]")
    async def topics(self, server: str = "n1") -> str:
        answer = await self._ask(server, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return " ".join(sorted(decode_body(TopicList, answer.check().body).topic_list)) or "none"

    @step("clusters[ at {server}]")
    async def clusters(self, server: str = "n1") -> list[str]:
        answer = await self._ask(server, RequestCode.GET_BROKER_CLUSTER_INFO)
        table = decode_body(ClusterInfo, answer.check().body).cluster_addr_table
        return [f"{name}: {' '.join(brokers)}" for name, brokers in sorted(table.items())] or [
            "none"
        ]

    # -- how

    async def _register(self, process: Process) -> list[str]:
        wrapper = TopicConfigTable(
            topic_config_table=process.topics, data_version=DataVersion(counter=process.version)
        )
        body = encode_body(RegisterBrokerBody(topic_config_table=wrapper))
        header = RegisterBrokerRequest(
            broker_name=process.name,
            broker_addr=process.address,
            cluster_name=process.cluster,
            ha_server_addr=process.address.replace("10911", "10912"),
            broker_id=process.broker_id,
        )
        said = []
        for server in SERVERS:
            answer = await self._from(process, server).invoke(
                RequestCode.REGISTER_BROKER, header, body, timeout=5
            )
            master = answer.header.master_addr if answer.code == 0 else None
            where = f", master {master}" if master else ""
            said.append(f"{server}: {code_of(answer)}, version {process.version}{where}")
        return _alike(said)

    def _broker(self, process: Process) -> BrokerRequest:
        return BrokerRequest(
            broker_name=process.name,
            broker_addr=process.address,
            cluster_name=process.cluster,
            broker_id=process.broker_id,
        )

    def _from(self, process: Process, server: str) -> Connection:
        connection = process.connections.get(server)
        if connection is None or connection.closed:
            connection = process.connections[server] = self._connect(server)
        return connection

    @staticmethod
    def _connect(server: str) -> Connection:
        _, connection = simulated_loop().network.connect(
            lambda: Connection(SimOwner(Dispatcher({}))), SERVERS[server]
        )
        assert isinstance(connection, Connection)
        return connection

    async def _ask(self, server: str, code: RequestCode, header: Record | None = None) -> Response:
        return await self._connect(server).invoke(code, header, timeout=5)

    async def _all(self, code: RequestCode, header: Record) -> list[tuple[str, Response]]:
        return [(server, await self._ask(server, code, header)) for server in SERVERS]


def _topic(text: str) -> TopicConfig:
    name, _, more = text.rstrip(")").partition("(")
    queues, _, permission = more.partition(",")
    perm = {value: key for key, value in PERMISSIONS.items()}[permission or "rw"]
    return TopicConfig(
        topic_name=name, read_queue_nums=int(queues), write_queue_nums=int(queues), perm=perm
    )


def _alike(said: list[str]) -> list[str]:
    """One line where both name servers say the same."""
    words = {line.partition(": ")[2] for line in said}
    return list(words) if len(words) == 1 else said


def _route_lines(answer: Response) -> Iterator[str]:
    data = decode_body(TopicRouteData, answer.body)
    addresses = {broker.broker_name: broker.broker_addrs for broker in data.broker_datas}
    for queues in sorted(data.queue_datas, key=lambda queues: queues.broker_name):
        replicas = sorted(addresses[queues.broker_name].items())
        where = " ".join(a if i == 0 else f"slave {i} {a}" for i, a in replicas)
        right = PERMISSIONS[queues.perm]
        yield f"{queues.broker_name} {where} queues {queues.write_queue_nums} {right}"
    if data.order_topic_conf is not None:
        yield f"order {data.order_topic_conf}"
