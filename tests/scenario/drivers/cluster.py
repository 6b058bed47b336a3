"""A whole cluster in this process: a name server, brokers that register and replicate, clients as
users write them. A broker process is named by its host (``10.0.0.1``)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from aiorocketmq import Message, Producer, PushConsumer, RetryLater
from aiorocketmq.broker.replication.master import SlaveLink
from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.client.consumer.rebalance import averagely, by_circle, consistent_hash
from aiorocketmq.client.offsets.start_offset import StartFrom
from aiorocketmq.client.producer.sending import SendStatus
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import ResetOffsetRequest
from aiorocketmq.remoting.protocol.commands.route import BrokerNameRequest
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.remoting.services import Service
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.store.model.config import BrokerRole

from ...broker.sim_broker import SimBroker, sim_broker, store_config
from ..language import Driver, step
from .namesrv import RunningNameServer
from .simulated import keep_running, pass_time, settle, simulated_loop

NAME_SERVER = "10.0.1.1:9876"
STRATEGIES = {"AVG": averagely, "AVG_BY_CIRCLE": by_circle, "CONSISTENT_HASH": consistent_hash}
PORT, HA_PORT = 10911, 10912


@dataclass
class Process:
    """A broker, and how it is started again."""

    name: str
    broker_id: int
    role: str
    sim: SimBroker
    life: AsyncExitStack


@dataclass
class Client:
    instance: ClientInstance
    consumer: PushConsumer
    group: str
    handled: list[str] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)
    slow: dict[str, asyncio.Event] = field(default_factory=dict)
    """Messages whose handlers wait, and what for."""


class ClusterDriver(Driver):
    async def start(self) -> None:
        self.network = simulated_loop().network
        self.began_ms = self.clock.time_ms()
        self.processes: dict[str, Process] = {}
        self.clients: dict[str, Client] = {}
        RunningNameServer(self, NAME_SERVER)
        self.stack.push_async_callback(self._end)

    async def _end(self) -> None:
        self.network.refuses = True
        for host in list(self.processes):
            await self._kill(host)
        for client in self.clients.values():
            await client.instance.remoting.close()

    # -- brokers

    @step("broker {name} at {host}[ id {broker_id}][ as {role}]")
    async def broker(self, name: str, host: str, broker_id: int = 0, role: str = "") -> None:
        """Id 0 is the master (``as SYNC_MASTER``: who waits for slaves), others are slaves."""
        life, folder = AsyncExitStack(), self._folder(name, broker_id)
        role = role or ("SLAVE" if broker_id else "ASYNC_MASTER")
        store = store_config(folder, broker_role=BrokerRole(role))
        sim = await life.enter_async_context(
            sim_broker(
                folder,
                store=store,
                clock=self.clock,
                address=(host, PORT),
                broker_name=name,
                broker_id=broker_id,
                broker_ip2=host,
                namesrv_addr=NAME_SERVER,
            )
        )
        self.processes[host] = Process(name, broker_id, role, sim, life)
        broker = sim.broker
        self.network.listen(f"{host}:{PORT}", lambda: Connection(sim.owner))
        self.network.listen(
            f"{host}:{HA_PORT}", lambda: SlaveLink(broker.replication.master.server)
        )
        replication = broker.replication
        services: list[Service] = [
            broker.name_servers,
            broker.clients.watch,
            broker.storage.schedule,
            broker.tables._offset_persistence,
        ]
        services += replication.slave.services if replication.slave is not None else ()
        keep_running(life, *(service.run() for service in services))
        keep_running(life, replication.master.server._watch())
        await settle()

    @step("topic {topic} on {host} queues {queues}")
    async def topic(self, topic: str, host: str, queues: int) -> None:
        """Or another number of them; name servers are told at once."""
        broker = self.processes[host].sim.broker
        broker.state.topics.update(
            TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        )
        await broker.tables.topics_file.saved()
        await settle()

    @step("{who} dies")
    async def dies(self, who: str) -> None:
        """A broker or a client: its connections end, it says good-bye to nobody."""
        if who in self.processes:
            await self._kill(who)
            return
        client = self.clients.pop(who)
        await client.consumer._tasks.close()
        await client.consumer._workers.close()
        await client.instance._tasks.close()
        await client.instance.remoting.close()
        await settle()

    @step("{host} starts again[ with {nothing}]")
    async def starts_again(self, host: str, nothing: str = "") -> None:
        """``with nothing``: its disk was lost."""
        process = self.processes[host]
        if nothing:
            shutil.rmtree(self._folder(process.name, process.broker_id))
        await self.broker(process.name, host, process.broker_id, process.role)

    def _folder(self, name: str, broker_id: int) -> Path:
        return self.folder / f"{name}-{broker_id}"

    async def _kill(self, host: str) -> None:
        process = self.processes[host]
        self.network.down(f"{host}:{PORT}")
        self.network.down(f"{host}:{HA_PORT}")
        before, self.network.refuses = self.network.refuses, True
        await process.sim.broker.registry.remoting.close()
        await process.life.aclose()
        self.network.refuses = before
        await settle()

    # -- clients

    @step("consumer {name} of {group} on {topic}[ by {strategy}][ in {manner}][ tags {tags}]")
    async def consumer(
        self,
        name: str,
        group: str,
        topic: str,
        strategy: str = "AVG",
        manner: str = "",
        tags: list[str] | None = None,
    ) -> None:
        """A push consumer that notes what it gets; ``in order``: a queue's messages one after the
        other."""
        instance, ordered = self._instance(name), manner == "order"
        consumer = PushConsumer(
            group,
            instance=instance,
            start_from=StartFrom.FIRST,
            allocate=STRATEGIES[strategy],
            ordered=ordered,
            max_reconsume_times=2 if ordered else -1,
        )
        client = self.clients[name] = Client(instance, consumer, group)
        consumer.subscribe(topic, " ".join(tags or ["*"]))
        consumer.on_message(self._handler(client))
        await instance.start()
        await consumer.start()
        await settle()

    def _instance(self, name: str) -> ClientInstance:
        return ClientInstance(
            namesrv=NAME_SERVER, instance_name=name, client_ip="10.0.2.1", clock=self.clock
        )

    @staticmethod
    def _handler(client: Client) -> Callable[[MessageExt], object]:
        async def handle(message: MessageExt) -> None:
            body = message.body.decode()
            again = f" (attempt {message.reconsume_times})" if message.reconsume_times else ""
            if body in client.slow:
                client.handled.append(f"{body} begins")
                await client.slow[body].wait()
            if body in client.failing:
                client.handled.append(f"{body} fails{again}")
                raise RetryLater
            client.handled.append(body + again)

        return handle

    @step("{name} leaves")
    async def leaves(self, name: str) -> None:
        """In order: its offsets are told, its queues given up."""
        client = self.clients.pop(name)
        stopping = asyncio.ensure_future(client.consumer.stop())
        while not stopping.done():
            await pass_time(self.clock, 0.1)
        await client.instance.stop()
        await settle()

    @step("{name} loses its connections")
    async def loses(self, name: str) -> None:
        """It connects again by itself."""
        remoting = self.clients[name].instance.remoting
        for address in remoting.addresses():
            connection = remoting.connected_to(address)
            assert connection is not None
            connection.close("lost")
        await settle()

    @step("{name} fails on {bodies}")
    def fails_on(self, name: str, bodies: list[str]) -> None:
        self.clients[name].failing = set(bodies)

    @step("{name} manages all")
    def manages(self, name: str) -> None:
        self.clients[name].failing = set()

    @step("{name} is slow on {bodies}")
    def slow_on(self, name: str, bodies: list[str]) -> None:
        self.clients[name].slow = {body: asyncio.Event() for body in bodies}

    @step("{name} finishes {body}")
    async def finishes(self, name: str, body: str) -> None:
        self.clients[name].slow[body].set()
        await settle()

    @step("{name} pauses")
    def pauses(self, name: str) -> None:
        self.clients[name].consumer.suspend()

    @step("{name} goes on")
    async def goes_on(self, name: str) -> None:
        self.clients[name].consumer.resume()
        await settle()

    @step("send {bodies} to {topic}[ on {broker}][ tag {tag}]")
    async def send(
        self, bodies: list[str], topic: str, broker: str | None = None, tag: str | None = None
    ) -> list[str]:
        """All to queue 0 of a broker, or to another one (``broker-a/1``), else where the producer
        likes; one after the other, in the time that answers take."""
        said = []
        name, _, queue_id = (broker or "").partition("/")
        queue = MessageQueue(topic, name, int(queue_id or 0)) if broker else None
        instance = self._instance("producer")
        await instance.start()
        async with Producer("p", instance=instance) as producer:
            for body in bodies:
                message = Message(topic, body.encode(), tags=tag)
                sending = asyncio.ensure_future(producer.send(message, queue=queue))
                await settle()
                while not sending.done():
                    await pass_time(self.clock, 0.01)
                try:
                    result = sending.result()
                    status = "ok" if result.status is SendStatus.SEND_OK else result.status.name
                    where = f"{result.queue.broker_name}/{result.queue.queue_id} "
                    at = f"{'' if queue else where}offset {result.queue_offset}"
                    said.append(f"{body}: {status}, {at}")
                except RocketMQError as error:
                    said.append(f"{body}: {type(error).__name__}")
        await instance.stop()
        await settle()
        return said

    # -- administration

    @step("wipe {broker}")
    async def wipe(self, broker: str) -> None:
        """Nobody shall write there: the name server is told."""
        request = BrokerNameRequest(broker_name=broker)
        await self._ask(NAME_SERVER, RequestCode.WIPE_WRITE_PERM_OF_BROKER, request)

    @step("reset {group} on {topic} at {host} to {seconds} s")
    async def reset(self, group: str, topic: str, host: str, seconds: float) -> None:
        """Back or forth to what was stored so long after the beginning."""
        await self._reset(group, topic, host, self.began_ms + round(seconds * 1000))

    @step("reset {group} on {topic} at {host} to the end")
    async def reset_to_end(self, group: str, topic: str, host: str) -> None:
        await self._reset(group, topic, host, -1)

    async def _reset(self, group: str, topic: str, host: str, at_ms: int) -> None:
        request = ResetOffsetRequest(topic=topic, group=group, timestamp=at_ms, is_force=True)
        await self._ask(f"{host}:{PORT}", RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, request)

    async def _ask(self, address: str, code: RequestCode, request: Record) -> None:
        instance = self._instance("admin")
        (await instance.remoting.invoke(address, code, request)).check()
        await instance.remoting.close()
        await settle()

    # -- time

    @step("advance {seconds} s")
    async def advance(self, seconds: float) -> None:
        await pass_time(self.clock, seconds)

    # -- what is to be seen

    @step("owners of {topic}")
    def owners(self, topic: str) -> list[str]:
        """Which queues each consumer has."""
        said = []
        for name, client in sorted(self.clients.items()):
            owned = sorted(q for q in client.consumer._member.owned if q.topic == topic)
            queues = " ".join(f"{q.broker_name}/{q.queue_id}" for q in owned)
            said.append(f"{name}: {queues or 'none'}")
        return said

    @step("consumed")
    def consumed(self) -> list[str]:
        """By each consumer, since this was asked for the last time."""
        said = [f"{name}: {', '.join(c.handled)}" for name, c in self.clients.items() if c.handled]
        for client in self.clients.values():
            client.handled.clear()
        return said or ["nothing"]

    @step("messages of {topic} on {host}")
    def messages(self, topic: str, host: str) -> str:
        """How many there are in all queues."""
        store = self.processes[host].sim.broker.store
        return f"{sum(store.max_offset(topic, queue_id) for queue_id in range(16))}"

    @step("offset of {group} on {topic} at {host}[ queue {queue_id}]")
    def offset(self, group: str, topic: str, host: str, queue_id: int = 0) -> str:
        return f"{self.processes[host].sim.broker.state.offsets.get(group, topic, queue_id)}"

    @step("brokers of {topic}")
    async def brokers(self, topic: str) -> list[str]:
        """As a client that is new is told."""
        instance = self._instance("asks")
        await instance.start()
        route = await instance.routes.refresh(topic)
        await instance.stop()
        if route is None:
            return ["none"]
        return [
            f"{broker.broker_name}: "
            + " ".join(
                f"{number}={address}" for number, address in sorted(broker.broker_addrs.items())
            )
            for broker in route.data.broker_datas
        ]
