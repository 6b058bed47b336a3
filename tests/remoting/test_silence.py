"""A connection over which nothing comes any more while requests wait for their answers is given
up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.errors import ConnectionLostError, RequestTimeout
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header
from aiorocketmq.remoting.transport.connection import Connection

from ..sim import SimOwner, SimTransport

SOON = 0.02
HEARTBEAT = RequestCode.HEART_BEAT
FRAME = encode_frame(0, encode_header(RemotingCommand(code=0, flag=1, opaque=0x7FFFFFFF)))


def connected(silence_s: float | None) -> Connection:
    transport = SimTransport()
    connection = Connection(SimOwner(Dispatcher({})), pause_reading=False, silence_s=silence_s)
    transport.protocol = connection
    connection.connection_made(transport)
    connection.check(0.0)  # house-keeping has seen that it is new
    return connection


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(main())


def test_the_others_that_wait_need_not_wait_longer() -> None:
    async def main() -> None:
        connection = connected(silence_s=SOON / 2)
        other = connection.invoke(HEARTBEAT, timeout=3600)
        with pytest.raises(RequestTimeout):
            await connection.invoke(HEARTBEAT, timeout=SOON)
        assert connection.closed
        with pytest.raises(ConnectionLostError, match="nothing has come for"):
            await other

    run(main)


@pytest.mark.parametrize("silence_s", [None, 3600.0])
def test_it_stays_where_nobody_wants_it_or_the_time_was_short(silence_s: float | None) -> None:
    async def main() -> None:
        connection = connected(silence_s)
        with pytest.raises(RequestTimeout):
            await connection.invoke(HEARTBEAT, timeout=SOON)
        assert not connection.closed
        connection.close()

    run(main)


@pytest.mark.parametrize("whole", [True, False])
def test_a_peer_that_says_something_is_there(whole: bool) -> None:
    async def main() -> None:
        connection = connected(silence_s=0.0)
        asking = asyncio.ensure_future(connection.invoke(HEARTBEAT, timeout=SOON))
        await asyncio.sleep(0)
        connection.data_received(FRAME if whole else FRAME[:5])
        with pytest.raises(RequestTimeout):
            await asking
        assert not connection.closed
        connection.check(1.0)  # what was heard before counts no more
        with pytest.raises(RequestTimeout):
            await connection.invoke(HEARTBEAT, timeout=SOON)
        assert connection.closed

    run(main)


class FastLoop(asyncio.SelectorEventLoop):
    """Its time can be put forward."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def test_short_requests_one_after_the_other_count_together() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FastLoop)
        connection = connected(silence_s=1000.0)
        for closed in (False, True):
            asking = asyncio.ensure_future(connection.invoke(HEARTBEAT, timeout=600))
            await asyncio.sleep(0)
            loop.ahead += 600
            with pytest.raises(RequestTimeout):
                await asking
            assert connection.closed is closed

    with asyncio.Runner(loop_factory=FastLoop) as runner:
        runner.run(main())
