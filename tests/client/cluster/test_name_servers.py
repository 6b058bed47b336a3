"""What a name server that ends the connection is said to have done, and which of several failed."""

from __future__ import annotations

import asyncio
import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from aiorocketmq.client.cluster.name_servers import NameServers
from aiorocketmq.remoting.errors import (
    BrokerError,
    ConnectError,
    ConnectionLostError,
    NoPermission,
    RemotingError,
    RocketMQError,
)
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.responses import Response

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


class Several:
    """Each name server answers with a code of its own, or not at all."""

    def __init__(self, answers: dict[str, int | None]) -> None:
        self.clock = ManualClock()
        self.answers = answers
        self.told: list[str] = []

    async def invoke(self, address: str, *_: object, **__: object) -> Response:
        self.told.append(address)
        if (code := self.answers[address]) is None:
            raise ConnectError(f"cannot connect to {address}")
        return Response(code=code, remark="no")


@pytest.mark.parametrize(
    ("answers", "kind", "named"),
    [
        ({"ns:1": 0, "ns:2": ResponseCode.NO_PERMISSION, "ns:3": 0}, NoPermission, {"ns:2"}),
        ({"ns:1": None, "ns:2": 0, "ns:3": 0}, ConnectError, {"ns:1"}),
        ({"ns:1": None, "ns:2": 0, "ns:3": 1}, RemotingError, {"ns:1", "ns:3"}),
        ({"ns:1": 1, "ns:2": None, "ns:3": 16}, RemotingError, {"ns:1", "ns:2", "ns:3"}),
    ],
)
def test_all_that_could_not_be_told_are_named(
    answers: dict[str, int | None], kind: type[RocketMQError], named: set[str]
) -> None:
    async def main() -> None:
        remoting: Any = Several(answers)
        servers = NameServers(list(answers), remoting)
        with pytest.raises((RemotingError, BrokerError)) as raised:
            await servers.tell_all(RequestCode.PUT_KV_CONFIG, timeout=1.0)
        assert type(raised.value) is kind
        assert {each for each in answers if each in str(raised.value)} == named
        assert sorted(remoting.told) == sorted(answers), "the others are told all the same"

    asyncio.run(main())
