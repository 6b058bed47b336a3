"""Server and client on real sockets of the loopback interface, in one process: requests, answers,
and connections that are lost or cannot be made."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import pytest

from aiorocketmq.remoting.dispatch import Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.errors import (
    AddressInUseError,
    ConnectError,
    ConnectionLostError,
    NothingListensError,
    RequestNotSupported,
    RequestTimeout,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import SerializeType
from aiorocketmq.remoting.protocol.wire import to_fields
from aiorocketmq.remoting.signature import Credentials, signature
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.config import ClientSettings, ServerSettings
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.server import RemotingServer

from .remoting_service import HOST, QUERY, Service, address, query, run, serving, until


@pytest.mark.parametrize("form", list(SerializeType))
def test_requests_and_answers_in_every_form(form: int) -> None:
    async def main() -> None:
        async with (
            serving() as server,
            RemotingClient(ClientSettings(serialize_type=form)) as client,
        ):
            responses = await asyncio.gather(
                *(client.invoke(address(server), QUERY, query(n)) for n in range(200))
            )
            assert [r.check().header.offset for r in responses] == [n * 10 for n in range(200)]
            assert len(server.connections) == 1
            big = bytes(range(256)) * 20000
            echo = await client.invoke(address(server), RequestCode.HEART_BEAT, body=big)
            assert (echo.body, echo.remark) == (big, "echo")

    run(main)


def test_oneway_requests_arrive_and_are_not_answered() -> None:
    async def main() -> None:
        service = Service()
        async with serving(service) as server, RemotingClient() as client:
            await client.invoke_oneway(address(server), QUERY, query(1))
            await client.invoke_oneway(address(server), QUERY, query(3), remark='why: "x"')
            assert (await client.invoke(address(server), QUERY, query(2))).header.offset == 20
            assert service.oneway == [(1, None), (3, 'why: "x"')]

    run(main)


def test_an_unanswered_request_times_out_and_the_connection_lives() -> None:
    async def main() -> None:
        async with serving() as server, RemotingClient() as client:
            with pytest.raises(RequestTimeout, match="GET_BROKER_CONFIG"):
                await client.invoke(address(server), RequestCode.GET_BROKER_CONFIG, timeout=0.05)
            assert (await client.invoke(address(server), QUERY, query())).header.offset == 30

    run(main)


def test_a_lost_connection_fails_what_is_in_flight_and_is_made_again() -> None:
    async def main() -> None:
        async with serving() as server, RemotingClient() as client:
            waiting = asyncio.ensure_future(
                client.invoke(address(server), RequestCode.GET_BROKER_CONFIG, timeout=30)
            )
            await until(lambda: server.connections)
            next(iter(server.connections)).close("test")
            with pytest.raises(ConnectionLostError):
                await waiting
            assert (await client.invoke(address(server), QUERY, query())).header.offset == 30

    run(main)


def test_a_restarted_server_is_found_again_after_the_back_off() -> None:
    async def main() -> None:
        async with serving() as server:
            port = server.port
        async with RemotingClient() as client:
            target = f"{HOST}:{port}"
            with pytest.raises(ConnectError, match="nothing listens there"):
                await client.invoke(target, QUERY, query())
            with pytest.raises(ConnectError, match="next attempt is made in"):
                await client.invoke(target, QUERY, query())
            async with serving(port=port):
                offset = None
                async with asyncio.timeout(10):
                    while offset is None:
                        with contextlib.suppress(ConnectError):
                            offset = (await client.invoke(target, QUERY, query())).header.offset
                        await asyncio.sleep(0.01)
                assert offset == 30

    run(main)


class TwoAddresses(asyncio.SelectorEventLoop):
    """Every name has two, as ``localhost`` often has."""

    async def getaddrinfo(self, host: Any, port: Any, **_options: Any) -> Any:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))
            for address in ("127.0.0.1", "127.0.0.2")
        ]


def test_a_name_with_two_addresses_where_nothing_listens() -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("", 0))
            async with RemotingClient() as client:
                with pytest.raises(
                    NothingListensError, match=r"refused \(nothing listens there\)$"
                ):
                    await client.connection(f"localhost:{taken.getsockname()[1]}")

    with asyncio.Runner(loop_factory=TwoAddresses) as runner:
        runner.run(main())


@pytest.mark.parametrize("bad", ["", "localhost", "host:port", ":80", "h:0", "h:70000"])
def test_what_is_no_address_is_said_clearly(bad: str) -> None:
    async def main() -> None:
        async with RemotingClient() as client:
            with pytest.raises(ConnectError, match="host:port"):
                await client.invoke(bad, QUERY, query())

    run(main)


def test_a_port_in_use_is_said_clearly() -> None:
    async def main() -> None:
        async with serving() as server:
            other = RemotingServer(
                Service().dispatcher,
                ServerSettings(host=HOST, port=server.port),
                clock=SystemClock(),
            )
            with pytest.raises(
                AddressInUseError, match=f"port {server.port} of 127.0.0.1 is in use"
            ):
                await other.listen()

    run(main)


def test_an_unknown_code_is_an_error_for_the_caller() -> None:
    async def main() -> None:
        async with serving() as server, RemotingClient() as client:
            response = await client.invoke(
                address(server), RequestCode.GET_ROUTEINFO_BY_TOPIC, None
            )
            with pytest.raises(RequestNotSupported, match="request type 105 not supported"):
                response.check(address(server))

    run(main)


def test_requests_are_signed() -> None:
    async def main() -> None:
        service = Service()
        async with (
            serving(service) as server,
            RemotingClient(credentials=Credentials("RocketMQ", "12345678")) as client,
        ):
            await client.invoke(address(server), QUERY, query())
        fields = {**to_fields(query()), "AccessKey": "RocketMQ"}
        assert service.signed == [signature("12345678", fields, b"")]

    run(main)


BAD = {
    "garbage": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "over the cap": b"\x01\x00\x00\x01\x00\x00\x00\x02{}",
    "negative length": b"\xff\xff\xff\xfe\x00\x00\x00\x02{}",
    "unknown serialize type": encode_frame(9, b"{}"),
    "header longer than the frame": b"\x00\x00\x00\x06\x00\x00\x00\x30{}",
    "header that is no JSON": encode_frame(0, b"not json at all"),
    "binary header that ends early": encode_frame(1, b"\x00\x69\x00"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_bad_bytes_close_their_connection_and_no_other(
    bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving() as server, RemotingClient() as client:
            await client.invoke(address(server), QUERY, query())
            reader, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(bad)
            async with asyncio.timeout(10):
                assert await reader.read() == b""
            writer.close()
            assert (await client.invoke(address(server), QUERY, query(4))).header.offset == 40
            assert len(server.connections) == 1

    run(main)
    lines = [r for r in caplog.records if r.levelname == "WARNING"]
    assert len(lines) == 1, [r.getMessage() for r in lines]


def test_a_client_that_is_closed_while_it_connects_leaves_no_connection() -> None:
    async def main() -> None:
        async with serving() as server:
            client = RemotingClient()
            await client.start()
            connecting = asyncio.create_task(client.connection(address(server)))
            await asyncio.sleep(0)  # the attempt is under way
            await client.close()
            with pytest.raises(ConnectError, match="closed"):
                await connecting
            await until(lambda: not server.connections)

    run(main)


def test_a_server_calls_its_clients() -> None:
    pushed: list[tuple[str, bytes]] = []

    def notified(request: Any, body: Body, _ctx: Context) -> Reply:
        pushed.append((request.consumer_group, bytes(body)))
        return Reply(remark="seen")

    async def main() -> None:
        from aiorocketmq.remoting.protocol.commands import COMMANDS

        table = {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: notified}
        async with serving() as server, RemotingClient(dispatcher=Dispatcher(table)) as client:
            await client.invoke(address(server), QUERY, query())
            connection: Connection = next(iter(server.connections))
            header = COMMANDS[RequestCode.NOTIFY_CONSUMER_IDS_CHANGED].request(consumer_group="g")
            answer = await connection.invoke(
                RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, b"x", timeout=5
            )
            assert answer.remark == "seen"
            assert pushed == [("g", b"x")]

    run(main)
