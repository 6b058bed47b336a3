"""A master and a slave that was told of it, in one process, for tests of what one takes over from
the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from aiorocketmq.broker.replication.slave_sync import SlaveSync
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.offset import UpdateConsumerOffsetRequest
from aiorocketmq.remoting.protocol.commands.pull import ViewMessageRequest
from aiorocketmq.remoting.protocol.commands.route import RegisterBrokerResponse
from aiorocketmq.remoting.protocol.wire import Record
from aiorocketmq.remoting.responses import Response
from aiorocketmq.store.model.config import BrokerRole

from ...sim import turns
from ..sim_broker import SimBroker, SimClient, sim_broker, store_config

MASTER = "10.0.0.1:10911"
NOT_SERVED = RequestCode.DLEDGER_HANDSHAKE
TABLES = 4
"""Requests with which all tables are taken over."""


class Network:
    """Asks the master's broker, or nobody when it is away."""

    def __init__(self, client: SimClient) -> None:
        self.client: SimClient | None = client
        self.asked: list[tuple[str, RequestCode]] = []
        self.told: dict[RequestCode, bytes] = {}
        """The last answer."""
        self.original = False
        """A master of the original, which reads over what a slave of ours tells."""
        self.vip = True
        self.backs_off = False
        """As a client does whose last attempt was in vain a moment ago."""
        self.next: SimClient | None = None
        """Behind the same address, once the last record was asked for."""

    def connected_to(self, _address: str) -> SimClient | None:
        return self.client

    async def connection(self, address: str, *, timeout: float) -> SimClient:
        if self.client is None or self.backs_off:
            raise ConnectError(f"cannot connect to {address}")
        return self.client

    def try_again(self, _address: str) -> None:
        self.backs_off = False

    async def invoke(
        self, address: str, code: RequestCode, header: Record | None = None, *, timeout: float
    ) -> Response:
        if code not in (RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.GET_QUEUE_ENDS):
            self.asked.append((address, code))
        if self.client is None or self.backs_off or (not self.vip and address.endswith(":10909")):
            raise ConnectError(f"cannot connect to {address}")
        tables = code in (
            RequestCode.GET_ALL_TOPIC_CONFIG,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            RequestCode.GET_ALL_CONSUMER_OFFSET,
        )
        if self.original and isinstance(header, ViewMessageRequest):
            header = ViewMessageRequest(offset=header.offset)
        if self.original and code is RequestCode.GET_QUEUE_ENDS:
            return await self.client.ask(NOT_SERVED)
        response = await self.client.ask(code, None if self.original and tables else header)
        self.told[code] = response.body
        if self.next is not None and code is RequestCode.VIEW_MESSAGE_BY_ID:
            self.client, self.next = self.next, None
        return response


class Pair:
    """A master, a slave that was told of it, and a client of each."""

    def __init__(self, master: SimBroker, slave: SimBroker) -> None:
        self.master, self.slave = master, slave
        self.at_master, self.at_slave = master.connect(), slave.connect()
        self.network = Network(master.connect())
        assert slave.broker.replication.slave is not None
        self.sync: SlaveSync = slave.broker.replication.slave.sync
        self.sync._remoting = self.network  # type: ignore[assignment]
        slave.broker.replication.slave.registered(
            RegisterBrokerResponse(ha_server_addr="10.0.0.1:10912", master_addr=MASTER)
        )

    async def once(self) -> None:
        await self.sync.sync(MASTER)

    def replicate(self, end: int | None = None) -> None:
        source, target = self.master.broker.store, self.slave.broker.store
        data = source.read(
            target.max_phy_offset, (end or source.max_phy_offset) - target.max_phy_offset
        )
        assert data is not None
        target.replica.append(target.max_phy_offset, data)

    async def passes(self, seconds: float) -> None:
        self.slave.clock.advance(seconds)
        await turns()

    async def synced(self) -> None:
        await self.slave.broker.store.sync()
        await turns()

    def offset(self) -> int:
        return self.slave.broker.state.offsets.get("g", "T", 0)


def a_master(folder: Path, **config: Any) -> AbstractAsyncContextManager[SimBroker]:
    store = store_config(folder, broker_role=BrokerRole.ASYNC_MASTER)
    return sim_broker(folder, store=store, **config)


def a_slave(folder: Path, **config: Any) -> AbstractAsyncContextManager[SimBroker]:
    store = store_config(folder, broker_role=BrokerRole.SLAVE)
    return sim_broker(folder, store=store, broker_id=1, **config)


def play(folder: Path, scene: Callable[[Pair], Awaitable[None]], **config: Any) -> None:
    async def run() -> None:
        async with (
            a_master(folder / "m", **config) as master,
            a_slave(folder / "s", **config) as slave,
        ):
            await scene(Pair(master, slave))

    asyncio.run(run())


def commit(offset: int) -> UpdateConsumerOffsetRequest:
    return UpdateConsumerOffsetRequest(
        consumer_group="g", topic="T", queue_id=0, commit_offset=offset
    )
