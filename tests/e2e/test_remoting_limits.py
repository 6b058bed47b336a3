"""What a server bounds: how many connect, how long they may be silent, how much they may send and
leave unread."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Any

import pytest

from aiorocketmq.daemon.event_loop import new_event_loop
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    ONEWAY_FLAG,
    RemotingCommand,
    SerializeType,
    encode_header,
)
from aiorocketmq.remoting.protocol.wire import to_fields
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.accepting import Seats, accept_all, listening_socket
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.flow import Limits

from .remoting_service import HOST, QUERY, Service, address, query, run, serving, until, warnings_of


def test_who_is_not_admitted_and_why(caplog: pytest.LogCaptureFixture) -> None:
    """Who only connects and leaves, as probes of a port do, is nobody's business."""

    async def main() -> None:
        async with serving(limits=Limits(first_byte_s=0.05, shutdown_grace_s=0.0)) as server:
            left = socket.create_connection((HOST, server.port))
            left_from = left.getsockname()[1]
            left.close()
            await until(
                lambda: (
                    f"127.0.0.1:{left_from} reason=it left before it said anything" in caplog.text
                )
            )
            with socket.create_connection((HOST, server.port)) as silent:
                silent_from = silent.getsockname()[1]
                await until(
                    lambda: (
                        f"127.0.0.1:{silent_from} reason=it said nothing within 0.05 s"
                        in caplog.text
                    )
                )
        lines = {
            record.levelname for record in caplog.records if f":{left_from} " in record.getMessage()
        }
        assert lines == {"DEBUG"}
        assert {
            record.levelname
            for record in caplog.records
            if f":{silent_from} " in record.getMessage()
        } == {"INFO"}

    with caplog.at_level("DEBUG", "aiorocketmq"):
        run(main)


def test_a_connection_over_the_limit_waits_until_another_one_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        limits = Limits(max_connections=1, shutdown_grace_s=0.2)
        async with serving(limits=limits) as server, RemotingClient() as second:
            async with RemotingClient() as first:
                await first.invoke(address(server), QUERY, query())
                waiting = asyncio.ensure_future(second.invoke(address(server), QUERY, query(4)))
                await until(lambda: "accepting pauses" in caplog.text)
                assert (await first.invoke(address(server), QUERY, query())).header.offset == 30
                assert not waiting.done()
                assert len(server.connections) == 1
            assert (await waiting).header.offset == 40

    run(main)
    assert warnings_of(caplog) == [
        "accepting pauses server=server reason=there are 1 connections, and may not be more "
        "(maxConnections, ulimit -n)",
    ]


def test_connections_that_say_nothing_count_too_and_those_of_all_ports_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        seats = Seats(3)
        shared = {"seats": seats}
        async with serving(shared=shared) as server, serving(shared=shared) as other:
            ports = [server.port, other.port, server.port, other.port, server.port]
            pairs = [await asyncio.open_connection(HOST, port) for port in ports]
            await until(lambda: "accepting pauses" in caplog.text)
            assert seats.taken == 3
            for _, writer in pairs:
                writer.close()
            await until(lambda: seats.taken == 0)

    run(main)
    assert len(warnings_of(caplog)) == 2, "one of each port, however many wait"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_no_descriptor_for_a_connection_is_told_once_and_waited_for(
    number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        accept, pauses, admitted = loop.sock_accept, list[float](), list[socket.socket]()

        class Impatient(SystemClock):
            async def sleep(self, seconds: float) -> None:
                pauses.append(seconds)
                await asyncio.sleep(0)

        async def failing(listening: socket.socket) -> tuple[socket.socket, Any]:
            if len(pauses) < 5:
                raise OSError(number, os.strerror(number))
            return await accept(listening)

        monkeypatch.setattr(loop, "sock_accept", failing)
        with listening_socket(HOST, 0, 8, port_property="listenPort") as listening:
            accepting = asyncio.create_task(
                accept_all(listening, admitted.append, Impatient(), server="test", seats=Seats(1))
            )
            with socket.create_connection(listening.getsockname()):
                await until(lambda: admitted)
            accepting.cancel()
            await asyncio.wait([accepting])
        admitted[0].close()
        assert pauses == [0.5] * 5

    run(main)
    assert warnings_of(caplog) == [
        f"accepting pauses server=test reason={os.strerror(number)}",
    ]


def test_a_peer_that_does_not_read_is_held_back_and_then_cut() -> None:
    limits = Limits(write_pause_bytes=100_000, write_stall_s=1.0, shutdown_grace_s=0.2)

    async def main() -> None:
        async with serving(limits=limits) as server:
            frame = encode_frame(0, encode_header(RemotingCommand(code=34)), bytes(50_000))
            _, writer = await asyncio.open_connection(HOST, server.port, limit=1024)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.writelines([frame] * 600)
            await until(lambda: server.connections)
            await until(lambda: not server.connections)
            writer.close()

    run(main)


def test_what_one_connection_brings_in_a_turn_of_the_loop_is_bounded() -> None:
    """A producer with 60,000 sends in flight fills the system's buffers; libuv would read up to 8
    MB of them in one turn."""
    header = encode_header(
        RemotingCommand(code=QUERY, flag=ONEWAY_FLAG, ext_fields=to_fields(query()))
    )
    frame = encode_frame(SerializeType.JSON, header)

    async def main() -> None:
        service = Service()
        async with serving(service) as server:
            with socket.create_connection((HOST, server.port)) as peer:
                peer.sendall(frame)
                await until(lambda: service.oneway)
                peer.setblocking(False)
                sent = len(frame) + peer.send(
                    frame * (4_000_000 // len(frame))
                )  # the loop does not run meanwhile
                assert sent > 1_000_000, "the buffers of this system are too small for this test"
                most, served = 0, 1
                while served < sent // len(frame):
                    await asyncio.sleep(0)
                    most, served = max(most, len(service.oneway) - served), len(service.oneway)
                assert most * len(frame) <= 300_000

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())
