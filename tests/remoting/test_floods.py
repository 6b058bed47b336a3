"""What peers do wrong again and again is a line a minute in the log, however often they connect."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import trustme

from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.transport.accepting import Seats, accept_all
from aiorocketmq.remoting.transport.config import ServerSettings
from aiorocketmq.remoting.transport.server import RemotingServer
from aiorocketmq.remoting.transport.tls import ServerTls, TlsConfig

from ..floods import TWO_MINUTES, told
from ..sim import ManualClock, SimOwner, connect
from .dispatch_world import request

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


def test_who_makes_up_codes_keeps_nothing_else_out_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        connection, _ = connect(SimOwner(Dispatcher({RequestCode.HEART_BEAT: fails})))
        for code in range(100_000, 103_000):
            connection.data_received(request(code))
        for _ in range(2):
            connection.data_received(request(34))

    with caplog.at_level(logging.INFO, "aiorocketmq.remoting"):
        asyncio.run(main())
    assert [each.getMessage().split(" peer")[0] for each in caplog.records] == [
        "request not supported code=100000",
        "handler failed code=HEART_BEAT",
    ]


def test_a_port_whose_seats_are_all_taken(caplog: pytest.LogCaptureFixture) -> None:
    """Also where they were free for a moment, a moment ago."""

    async def main() -> None:
        clock, seats = ManualClock(), Seats(1)
        ours, theirs = socket.socketpair()
        waiting = [ours, theirs]
        loop = asyncio.get_running_loop()

        async def accept(_listening: socket.socket) -> tuple[socket.socket, None]:
            if not waiting:
                await asyncio.Event().wait()
            return waiting.pop(), None

        with mock.patch.object(loop, "sock_accept", accept):
            seats.take()
            accepting = asyncio.create_task(
                accept_all(ours, lambda _: None, clock, server="test", seats=seats)
            )
            await asleep(clock)
            seats.give_back()  # the first one has it, the second waits
            await asleep(clock)
            for _ in range(12):
                clock.advance(10)
                await asleep(clock)
            seats.give_back()
            while waiting or seats.taken < 1:
                await asyncio.sleep(0)
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
        ours.close()
        theirs.close()

    async def asleep(clock: ManualClock) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        assert clock.next_due is not None

    with caplog.at_level(logging.INFO, "aiorocketmq.remoting"):
        asyncio.run(main())
    assert told(caplog, "accepting pauses") == ["", "over", "", "still", "over"]


def test_a_certificate_that_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {name: tmp_path / name for name in ("key", "certificate")}

    def issue() -> None:
        issued = trustme.CA().issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(files["key"])
        issued.cert_chain_pems[0].write_to_path(files["certificate"])

    async def main() -> None:
        issue()
        clock = ManualClock()
        tls = ServerTls(
            TlsConfig(server_cert_path=str(files["certificate"]), server_key_path=str(files["key"]))
        )
        server = RemotingServer(
            Dispatcher({}),
            ServerSettings(port=0, tls=tls),
            clock=clock,
        )
        keeping = asyncio.create_task(server._house_keeping())
        files["certificate"].write_text("nonsense")
        for second in range(132):
            if second == 131:
                issue()
            while clock.next_due is None or clock.next_due <= clock.monotonic():
                await asyncio.sleep(0.0005)  # a thread reads
            clock.advance(1)
        while "over: certificate" not in caplog.text:
            await asyncio.sleep(0.0005)
        keeping.cancel()

    with caplog.at_level(logging.INFO, "aiorocketmq.remoting"):
        asyncio.run(asyncio.wait_for(main(), 60))
    assert told(caplog, "certificate not reloaded") == TWO_MINUTES


def test_certificates_that_could_not_be_read_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their owner is set a moment after they are there, or no descriptor is left: nothing that can
    be seen of them changes afterwards."""
    path = tmp_path / "all.pem"

    def issue() -> None:
        path.write_bytes(
            trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes()
        )

    issue()
    config = TlsConfig(
        server_cert_path=str(path), server_auth_client=True, server_trust_cert_path=str(path)
    )
    tls = ServerTls(config)
    before = tls.context
    issue()
    with monkeypatch.context() as forbidden:
        exists = Path.exists

        def denied(self: Path) -> bool:
            if self == path:
                raise PermissionError(errno.EACCES, "Permission denied", str(self))
            return exists(self)

        forbidden.setattr(Path, "exists", denied)
        tls.refresh(0.0)
    assert "the trusted certificates" in str(tls.problem)
    assert "Permission denied" in str(tls.problem)
    tls.refresh(59.0)
    assert tls.problem is not None
    assert tls.context is before
    tls.refresh(60.0)
    assert tls.problem is None
    assert tls.context is not before
