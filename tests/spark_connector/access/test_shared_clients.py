"""Clients go when nobody needs them, and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from aiorocketmq.client.cluster.instance import ClientInstance
from aiorocketmq.remoting.errors import ConnectError
from aiorocketmq.spark_connector.access.connection_options import ConnectionOptions
from aiorocketmq.spark_connector.access.shared_clients import IDLE_S, SharedClients

from ...sim import ManualClock

ONE, OTHER = ConnectionOptions(("ns:1",)), ConnectionOptions(("ns:2",))


class Made:
    """Clients that are started, one after the other; nobody answers them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.all: list[ClientInstance] = []
        self.fails = False
        self.clients = SharedClients(self._start)

    async def _start(self, connection: ConnectionOptions) -> ClientInstance:
        await asyncio.sleep(0)
        if self.fails:
            raise ConnectError("no")
        instance = ClientInstance(namesrv=connection.namesrv, clock=self.clock)
        await instance.start()
        self.all.append(instance)
        return instance

    @property
    def running(self) -> list[bool]:
        return [instance.running for instance in self.all]

    async def passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for _ in range(20):
            await asyncio.sleep(0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_one_for_each_cluster() -> None:
    async def main(made: Made) -> None:
        one, same, other = await asyncio.gather(*map(made.clients.take, (ONE, ONE, OTHER)))
        assert one.instance is same.instance is not other.instance
        assert made.running == [True, True]
        await made.clients.close_all()
        assert made.running == [False, False]

    run(main(Made()))


def test_what_nobody_uses_is_closed_and_comes_back() -> None:
    async def main(made: Made) -> None:
        client = await made.clients.take(ONE)
        await made.passes(3 * IDLE_S)
        assert made.running == [True], "in use"
        made.clients.give_back(client)
        await made.passes(IDLE_S / 2)
        assert made.running == [True], "not for long"
        for _ in range(2):
            await made.passes(IDLE_S)
        assert made.running == [False]
        assert (await made.clients.take(ONE)).instance.running
        assert made.running == [False, True]
        await made.clients.close_all()

    run(main(Made()))


def test_it_stays_for_those_who_use_it_now_and_then() -> None:
    async def main(made: Made) -> None:
        for _ in range(10):
            made.clients.give_back(await made.clients.take(ONE))
            await made.passes(IDLE_S * 0.7)
        assert made.running == [True]
        await made.clients.close_all()

    run(main(Made()))


def test_it_can_be_closed_at_once_where_nobody_uses_it() -> None:
    async def main(made: Made) -> None:
        first, second = await made.clients.take(ONE), await made.clients.take(ONE)
        made.clients.give_back(first)
        await made.clients.close(ONE)
        assert made.running == [True]
        made.clients.give_back(second)
        await made.clients.close(ONE)
        await made.clients.close(ONE)
        assert made.running == [False]
        again = await made.clients.take(ONE)
        await made.passes(2 * IDLE_S)
        assert made.running == [False, True], "who waited for the first one leaves it alone"
        made.clients.give_back(again)
        await made.clients.close_all()

    run(main(Made()))


def test_one_that_could_not_be_started_is_tried_again() -> None:
    async def main(made: Made) -> None:
        made.fails = True
        with pytest.raises(ConnectError):
            await made.clients.take(ONE)
        made.fails = False
        assert (await made.clients.take(ONE)).instance.running
        await made.clients.close_all()

    run(main(Made()))
