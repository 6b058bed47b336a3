"""A broker's part that registers, and real name servers, in one process: time is the test's, the
network is loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiorocketmq.broker.config.config import BrokerConfig
from aiorocketmq.broker.registry.name_servers import NameServers
from aiorocketmq.broker.registry.registration import Identity
from aiorocketmq.broker.state.topics import Topic, TopicChange, Topics
from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.daemon import NameServer
from aiorocketmq.namesrv.kv_config import KvConfig
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.registration import RegisterBrokerBody
from aiorocketmq.remoting.protocol.bodies.route import TopicRouteData
from aiorocketmq.remoting.protocol.bodies.topic_config import DataVersion
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.route import GetRouteInfoRequest
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.flow import Limits

from ..sim import ManualClock, turns

PATIENCE_S = 30.0
"""How long a condition may take on a machine that is busy."""
WHO = Identity("b", "127.0.0.1:10911", "C", 0, "127.0.0.1:10912")


class World:
    """A broker's part that registers, a client that asks for routes, and a clock that runs when
    somebody waits."""

    def __init__(self, clock: ManualClock, **config: Any) -> None:
        self.clock = clock
        self.config = BrokerConfig(broker_name="b", broker_cluster_name="C", **config)
        self.topics = Topics(self.config, self.clock)
        self.client = RemotingClient(clock=self.clock)
        self.name_servers = NameServers(
            self.config, self.topics, self.client, self.clock, lambda: WHO
        )
        self.topics.listeners.append(self._changed)

    def _changed(self, topic: Topic, change: TopicChange) -> None:
        if change.is_for_name_servers:
            self.name_servers.register_topic(topic, self.topics.data_version)

    def registrations(self) -> list[tuple[set[str], DataVersion]]:
        """The topics and the version of every registration from now on."""
        sent: list[tuple[set[str], DataVersion]] = []
        invoke = self.client.invoke

        async def seen(
            address: str, code: RequestCode, header: Any = None, body: Any = b"", **more: Any
        ) -> Any:
            if code is RequestCode.REGISTER_BROKER:
                table = decode_body(RegisterBrokerBody, body).topic_config_table
                sent.append((set(table.topic_config_table), table.data_version))
            return await invoke(address, code, header, body, **more)

        self.client.invoke = seen  # type: ignore[method-assign]
        return sent

    async def until(
        self,
        condition: Callable[[], bool | Awaitable[bool]],
        *,
        step: float = 0.5,
        limit: float = 120.0,
    ) -> None:
        """Let time pass until the condition holds, ``limit`` seconds of the clock at the most. What
        is on its way by then is waited for: how long this machine takes decides nothing. Raises
        ``TimeoutError``."""
        end = self.clock.monotonic() + limit
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for _ in range(5):  # what is on its way arrives before more time passes
                    result = condition()
                    if result if isinstance(result, bool) else await result:
                        return
                    await asyncio.sleep(0.001)
                if self.clock.monotonic() < end:
                    self.clock.advance(step)

    async def perms(self, address: str, topic: str) -> set[int]:
        request = GetRouteInfoRequest(topic=topic)
        response = await self.client.invoke(
            address, RequestCode.GET_ROUTEINFO_BY_TOPIC, request, timeout=5
        )
        return {
            queue.perm for queue in decode_body(TopicRouteData, response.check().body).queue_datas
        }

    async def knows(self, address: str, topic: str) -> bool:
        try:
            response = await self.client.invoke(
                address,
                RequestCode.GET_ROUTEINFO_BY_TOPIC,
                GetRouteInfoRequest(topic=topic),
                timeout=5,
            )
        except RocketMQError:
            return False
        return response.code == 0 and bool(decode_body(TopicRouteData, response.body).queue_datas)


class RunningNameServer:
    """Started and stopped at will, always on its port."""

    def __init__(self, folder: Path, clock: ManualClock, limits: Limits | None = None) -> None:
        self.folder = folder
        self.clock = clock
        self.limits = limits
        self.port = 0
        self.task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        config = NamesrvConfig(
            listen_port=self.port,
            bind_address="127.0.0.1",
            kv_config_path=str(self.folder / f"{id(self)}.json"),
        )
        server = NameServer(config, kv_config=KvConfig(), clock=self.clock, limits=self.limits)
        await server.listen()
        self.port = server.port
        self.task = asyncio.create_task(server.run())
        await turns()  # it serves before it can be stopped

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            while not self.task.done():  # closing is graceful: its grace is time of the clock
                self.clock.advance(0.5)
                await asyncio.sleep(0.001)
            self.task = None


@asynccontextmanager
async def running(world: World) -> AsyncIterator[asyncio.Task[None]]:
    async with world.client:
        service = asyncio.create_task(world.name_servers.run())
        try:
            yield service
        finally:
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)


def play(
    tmp_path: Path,
    count: int,
    scenario: Callable[[World, list[RunningNameServer]], Awaitable[None]],
    *,
    limits: Limits | None = None,
    **config: Any,
) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            clock = ManualClock()
            servers = [RunningNameServer(tmp_path, clock, limits) for _ in range(count)]
            for server in servers:
                await server.start()
            world = World(
                clock, namesrv_addr=";".join(server.address for server in servers), **config
            )
            try:
                await scenario(world, servers)
            finally:
                for server in servers:
                    await server.stop()

    asyncio.run(main())
