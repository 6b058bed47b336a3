"""What a name server that ends the connection is said to have done."""

from __future__ import annotations

import asyncio
import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from aiorocketmq.client.cluster.name_servers import NameServers
from aiorocketmq.remoting.errors import ConnectError, ConnectionLostError, RemotingError
from aiorocketmq.remoting.protocol.codes import RequestCode

from ...sim import ManualClock


def cut(context: Exception | None = None) -> RemotingError:
    """Over plain TCP, or where ``context`` ended the attempt to connect."""
    if context is None:
        return ConnectionLostError("connection to ns:1 lost: closed by peer")
    error = ConnectError("cannot connect to ns:1")
    error.__context__ = context
    return error


class Remoting:
    """Answers or fails, as told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.failure: RemotingError | None = None

    async def invoke(self, *_: object, **__: object) -> Any:
        if self.failure is not None:
            raise self.failure
        return SimpleNamespace(code=0)


async def failure_of(servers: NameServers) -> str:
    with pytest.raises(RemotingError) as raised:
        await servers.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, timeout=1.0)
    return str(raised.value)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (cut(), True),
        (cut(ConnectionResetError()), True),
        (cut(ssl.SSLEOFError()), True),
        (cut(ssl.SSLCertVerificationError()), False),
        (cut(OSError()), False),
    ],
)
def test_who_ends_the_connection_before_any_answer_perhaps_speaks_tls(
    failure: RemotingError, told: bool
) -> None:
    async def main() -> None:
        remoting: Any = Remoting()
        servers = NameServers(["ns:1"], remoting)
        remoting.failure = failure
        text = await failure_of(servers)
        assert str(failure) in text
        assert ("perhaps it speaks TLS and tls= is not given, or the other way" in text) == told
        remoting.failure = None
        await servers.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, timeout=1.0)
        remoting.failure = failure
        assert "TLS" not in await failure_of(servers)  # it is restarted, say

    asyncio.run(main())
