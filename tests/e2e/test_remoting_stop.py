"""How a server stops: what it has taken is answered first, and waited for no longer than it may
take."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import Any

import pytest

from aiorocketmq.remoting.dispatch import PENDING, Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.base import OffsetResponse
from aiorocketmq.remoting.protocol.commands.offset import QueryConsumerOffsetRequest
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.config import ServerSettings
from aiorocketmq.remoting.transport.flow import Limits
from aiorocketmq.remoting.transport.server import RemotingServer

from .remoting_service import HOST, QUERY, Service, address, query, run, serving, until


@pytest.mark.parametrize("in_its_turn", [True, False], ids=["at once", "with those of a turn"])
def test_a_stop_waits_for_answers_that_have_a_limit_of_their_own(in_its_turn: bool) -> None:
    """However short its grace is: what waits for the disk or a slave is stored, and would be sent
    once more."""

    async def main() -> None:
        service, held, asked = Service(), list[Context](), itertools.count(1)

        def hold(_request: QueryConsumerOffsetRequest, _body: Body, ctx: Context) -> object:
            held.append(ctx)
            return PENDING

        def waiting() -> int:
            """The answer comes when it has been waited for a little."""
            if held and next(asked) == 3:
                reply = partial(held.pop().reply, Reply(header=OffsetResponse(offset=7)))
                reply() if in_its_turn else asyncio.get_running_loop().call_soon(reply)
            return len(held)

        service.offset = hold  # type: ignore[assignment,method-assign]
        async with RemotingClient() as client:
            limits = Limits(shutdown_grace_s=0.0)
            shared = {"waiting": waiting, "longest_wait_s": lambda: 10.0}
            async with serving(service, limits=limits, shared=shared) as server:
                answer = asyncio.ensure_future(client.invoke(address(server), QUERY, query()))
                await until(lambda: held)
            assert (await answer).header.offset == 7

    run(main)


def test_a_stop_waits_for_such_answers_no_longer_than_their_limit() -> None:
    """What should end them may have died."""

    async def main() -> None:
        async with asyncio.timeout(10):
            async with RemotingClient() as client:
                limits = Limits(shutdown_grace_s=0.0)
                shared = {"waiting": lambda: 1, "longest_wait_s": lambda: 0.05}
                async with serving(limits=limits, shared=shared) as server:
                    await client.invoke(address(server), QUERY, query())

    run(main)


def test_requests_in_progress_are_answered_at_shutdown() -> None:
    async def slow(_request: Any, _body: Body, _ctx: Context) -> Reply:
        await asyncio.sleep(0.1)
        return Reply(remark="done")

    async def main() -> None:
        server = RemotingServer(
            Dispatcher({RequestCode.HEART_BEAT: slow}),
            ServerSettings(host=HOST, port=0),
            clock=SystemClock(),
        )
        await server.listen()
        task = asyncio.create_task(server.run())
        async with RemotingClient() as client:
            waiting = asyncio.ensure_future(client.invoke(address(server), RequestCode.HEART_BEAT))
            await until(lambda: any(c.in_flight for c in server.connections))
            task.cancel()
            assert (await waiting).remark == "done"
            await asyncio.wait([task])

    run(main)
