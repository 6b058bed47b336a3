"""What a peer that does not answer costs its callers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiorocketmq.remoting.errors import ConnectError, ConnectionLostError, RequestTimeout
from aiorocketmq.remoting.protocol.codes import LanguageCode, RequestCode
from aiorocketmq.remoting.protocol.commands.base import TopicRequest
from aiorocketmq.remoting.transport.client import RemotingClient, _connect_reason, _Peer
from aiorocketmq.remoting.transport.config import ClientSettings
from aiorocketmq.remoting.transport.connection import Connection

from ...sim import ManualClock, SimTransport

ADDRESS = "10.0.0.1:10911"
IMPATIENT = ClientSettings(connect_timeout=0.3)


class Loop(asyncio.SelectorEventLoop):
    """Nobody answers the knocking."""

    async def create_connection(self, *_args: Any, **_options: Any) -> Any:
        await self.create_future()


def run(main: Any) -> None:
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(asyncio.wait_for(main(), 30))


def test_the_second_attempt_is_shorter() -> None:
    async def main() -> None:
        clock = ManualClock()
        async with RemotingClient(IMPATIENT, clock=clock) as client:
            with pytest.raises(ConnectError, match=r"no answer within 0\.3 s"):
                await client.connection(ADDRESS)
            with pytest.raises(ConnectError, match=r"the next attempt is made in 0\.05 s"):
                await client.connection(ADDRESS)
            clock.advance(0.05)
            with pytest.raises(ConnectError, match=r"no answer within 0\.1 s"):
                await client.connection(ADDRESS, timeout=3.0)
            with pytest.raises(ConnectError, match=r"the next attempt is made in 0\.10 s"):
                await client.connection(ADDRESS)

    run(main)


def test_who_is_in_a_hurry_is_no_witness_against_a_peer() -> None:
    """Others, who have time, go on."""

    async def main() -> None:
        async with RemotingClient(IMPATIENT, clock=ManualClock()) as client:
            hasty = asyncio.create_task(client.connection(ADDRESS, timeout=0.01))
            patient = asyncio.create_task(client.connection(ADDRESS))
            with pytest.raises(ConnectError, match=r"no answer within 0\.01 s"):
                await hasty
            await asyncio.sleep(0)
            assert not patient.done()
            with pytest.raises(ConnectError, match=r"no answer within 0\.3 s"):
                await patient

    run(main)


def test_those_who_wait_for_one_attempt_tell_of_one_failure() -> None:
    async def main() -> None:
        async with RemotingClient(IMPATIENT, clock=ManualClock()) as client:
            calls = (client.connection(ADDRESS) for _ in range(10))
            for failure in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(failure, ConnectError)
            assert client.back_off(ADDRESS) == pytest.approx(0.05)

    run(main)


def test_who_has_a_back_off_of_its_own_is_not_refused() -> None:
    async def main() -> None:
        async with RemotingClient(IMPATIENT, clock=ManualClock()) as client:
            client.try_again(ADDRESS)
            for _ in range(2):
                client.try_again(ADDRESS)
                with pytest.raises(ConnectError, match="no answer within"):
                    await client.connection(ADDRESS)
            with pytest.raises(ConnectError, match="the next attempt is made in"):
                await client.connection(ADDRESS)

    run(main)


def test_so_it_is_after_a_connection_that_fell_silent() -> None:
    async def main() -> None:
        clock = ManualClock()
        async with RemotingClient(IMPATIENT, clock=clock) as client:
            client._peers[ADDRESS] = peer = _Peer()
            transport = SimTransport()
            connection = peer.connection = Connection(client, pause_reading=False, silence_s=0.01)
            transport.protocol = connection
            connection.connection_made(transport)
            connection.check(0.0)
            with pytest.raises(RequestTimeout):
                await client.invoke(ADDRESS, RequestCode.HEART_BEAT, timeout=0.02)
            with pytest.raises(ConnectError, match="the next attempt is made"):
                await client.connection(ADDRESS)
            clock.advance(0.05)
            with pytest.raises(ConnectError, match=r"no answer within 0\.1 s"):
                await client.connection(ADDRESS)

    run(main)


def test_a_connection_that_ends_before_its_first_request_fails_it_at_once() -> None:
    async def main() -> None:
        async with RemotingClient(clock=ManualClock()) as client:

            async def connect(*_args: object) -> Connection:
                connection, transport = Connection(client, pause_reading=False), SimTransport()
                transport.protocol = connection
                connection.connection_made(transport)
                connection.connection_lost(None)
                return connection

            client._open = connect  # type: ignore[method-assign,assignment]
            header = TopicRequest(topic="T")
            with pytest.raises(ConnectionLostError, match="closed by peer"):
                await client.invoke(
                    ADDRESS, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout=0.02
                )
            with pytest.raises(ConnectionLostError, match="closed by peer"):
                await client.invoke_as(
                    LanguageCode.CPP,
                    ADDRESS,
                    RequestCode.GET_ROUTEINFO_BY_TOPIC,
                    header,
                    timeout=0.02,
                )

    run(main)


def test_an_error_without_words_is_told_by_its_name() -> None:
    """As of a peer that leaves while TLS is agreed upon."""
    assert _connect_reason(ConnectionAbortedError()) == "ConnectionAbortedError"
