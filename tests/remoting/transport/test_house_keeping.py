"""A port looks after its connections once a second, and after nobody while there are none."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
import trustme

from aiorocketmq.remoting.dispatch import Dispatcher
from aiorocketmq.remoting.transport import tls
from aiorocketmq.remoting.transport.config import ServerSettings
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.server import RemotingServer
from aiorocketmq.remoting.transport.tls import ServerTls, TlsConfig

from ...sim import ManualClock, SimTransport, turns


def test_a_port_without_connections_wakes_nobody() -> None:
    async def main() -> None:
        clock = ManualClock()
        server = RemotingServer(Dispatcher({}), ServerSettings(port=0), clock=clock)
        keeping = asyncio.create_task(server._house_keeping())
        await turns()
        assert clock.next_due is None
        for _ in range(2):
            transport, connection = SimTransport(), Connection(server)
            transport.protocol = connection
            connection.connection_made(transport)
            await turns()
            assert clock.next_due == clock.monotonic() + 1
            seconds = 0
            while server.connections and seconds < 1000:
                clock.advance(1)
                await turns()
                seconds += 1
            assert connection.close_reason == "idle"
            clock.advance(1)
            await turns()
            assert clock.next_due is None
        keeping.cancel()

    asyncio.run(main())


def test_certificates_on_a_file_system_that_hangs_keep_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "PATIENCE_S", 0.1)
    path = tmp_path / "all.pem"
    path.write_bytes(trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes())
    certificate = ServerTls(TlsConfig(server_cert_path=str(path)))
    answers, others = threading.Event(), set(threading.enumerate())
    stamp = tls._stamp

    def looking() -> list[threading.Thread]:
        return [
            each
            for each in threading.enumerate()
            if each.name == "certificates" and each not in others
        ]

    def hangs(path: str) -> tuple[int, int]:
        answers.wait()
        return stamp(path)

    async def seconds(clock: ManualClock, count: int) -> None:
        for _ in range(count):
            while clock.next_due is None or clock.next_due <= clock.monotonic():
                await asyncio.sleep(0.001)  # a thread looks
            clock.advance(1)

    async def main() -> None:
        clock = ManualClock()
        server = RemotingServer(
            Dispatcher({}), ServerSettings(port=0, tls=certificate), clock=clock
        )
        running = asyncio.create_task(server.run())
        await seconds(clock, 1)
        monkeypatch.setattr(tls, "_stamp", hangs)
        transport, connection = SimTransport(), Connection(server)
        transport.protocol = connection
        connection.connection_made(transport)
        try:
            await asyncio.wait_for(seconds(clock, 130), 20)
            assert connection.close_reason == "idle"
            assert "nothing could be read within 0.1 s" in str(certificate.problem)
            assert len(looking()) == 1
            running.cancel()
            await asyncio.wait([running], timeout=10)
            assert running.done()
        finally:
            answers.set()

    asyncio.run(main())
    for each in looking():
        each.join()
    certificate.refresh(0.0)
    assert certificate.problem is None
