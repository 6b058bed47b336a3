"""A small server on a real socket of the loopback interface, for tests of server and client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from aiorocketmq.remoting.dispatch import PENDING, Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.base import OffsetResponse
from aiorocketmq.remoting.protocol.commands.offset import QueryConsumerOffsetRequest
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.config import ServerSettings
from aiorocketmq.remoting.transport.flow import Limits
from aiorocketmq.remoting.transport.server import RemotingServer

HOST = "127.0.0.1"
QUERY = RequestCode.QUERY_CONSUMER_OFFSET


def query(queue_id: int = 3) -> QueryConsumerOffsetRequest:
    return QueryConsumerOffsetRequest(consumer_group="g", topic="T", queue_id=queue_id)


class Service:
    """A small server: offsets, an echo, a request that is never answered."""

    def __init__(self) -> None:
        self.oneway: list[tuple[int, str | None]] = []
        self.signed: list[str | None] = []

    def offset(self, request: QueryConsumerOffsetRequest, _body: Body, ctx: Context) -> Reply:
        self.signed.append(ctx.ext_fields.get("Signature"))
        if ctx.oneway:
            self.oneway.append((request.queue_id, ctx.remark))
        return Reply(header=OffsetResponse(offset=request.queue_id * 10))

    def echo(self, _request: Any, body: Body, _ctx: Context) -> Reply:
        return Reply(body=bytes(body), remark="echo")

    @property
    def dispatcher(self) -> Dispatcher:
        return Dispatcher(
            {
                QUERY: self.offset,
                RequestCode.HEART_BEAT: self.echo,
                RequestCode.GET_BROKER_CONFIG: lambda r, b, c: PENDING,
            }
        )


@contextlib.asynccontextmanager
async def serving(
    service: Service | None = None, *, shared: Any = None, **options: Any
) -> AsyncIterator[RemotingServer]:
    """``options``: of ``ServerSettings``; ``shared``: of the server itself."""
    limits = Limits(shutdown_grace_s=0.2)
    settings = ServerSettings(**{"host": HOST, "port": 0, "limits": limits, **options})
    dispatcher = (service or Service()).dispatcher
    server = RemotingServer(dispatcher, settings, clock=SystemClock(), **(shared or {}))
    await server.listen()
    task = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.wait([task])
        server.close()


def address(server: RemotingServer) -> str:
    return f"{HOST}:{server.port}"


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
