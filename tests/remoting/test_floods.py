"""What peers do wrong again and again is a line a minute in the log, however often they connect."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.protocol.codes import RequestCode

from ..sim import SimOwner, connect
from .test_dispatch import request

HOSTS = ("127.0.0.1", "127.0.0.2")


def fails(_request: Any, _body: Any, _ctx: Any) -> Any:
    raise RuntimeError("a bug")


def lost(_request: Any, _body: Any, _ctx: Any) -> Any:
    raise ValueError("no such number")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (request(7777), "request not supported code=7777"),
        (request(34), "handler failed code=HEART_BEAT"),
        (request(46), "bad request code=CHECK_CLIENT_CONFIG"),
        (b"GET / HTTP/1.1\r\n\r\n", "connection refused"),
    ],
)
def test_a_host_that_comes_again_and_again(
    caplog: pytest.LogCaptureFixture, data: bytes, text: str
) -> None:
    async def main() -> None:
        owner = SimOwner(
            Dispatcher({RequestCode.HEART_BEAT: fails, RequestCode.CHECK_CLIENT_CONFIG: lost})
        )
        for number in range(130):
            for host in HOSTS:
                connection, _ = connect(owner, (host, 50_000 + number))
                connection.data_received(data)
            owner.clock.advance(1)

    with caplog.at_level(logging.INFO, "aiorocketmq.remoting"):
        asyncio.run(main())
    told = [line for each in caplog.records if text in (line := each.getMessage())]
    for host in HOSTS:
        first, *others = (line for line in told if f"peer={host}:" in line)
        assert "times=" not in first
        assert [line.rpartition(" times=")[2] for line in others] == ["60", "60"]
