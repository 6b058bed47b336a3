"""Server and client on real sockets of the loopback interface, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme

from aiorocketmq.daemon.event_loop import new_event_loop
from aiorocketmq.remoting.dispatch import PENDING, Body, Context, Dispatcher, Reply
from aiorocketmq.remoting.errors import (
    AddressInUseError,
    ConnectError,
    ConnectionLostError,
    NothingListensError,
    RequestNotSupported,
    RequestTimeout,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.base import OffsetResponse
from aiorocketmq.remoting.protocol.commands.offset import QueryConsumerOffsetRequest
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import (
    ONEWAY_FLAG,
    RemotingCommand,
    SerializeType,
    encode_header,
)
from aiorocketmq.remoting.protocol.wire import to_fields
from aiorocketmq.remoting.signature import Credentials, signature
from aiorocketmq.remoting.system_clock import SystemClock
from aiorocketmq.remoting.transport.accepting import Seats, accept_all, listening_socket
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.remoting.transport.config import ClientSettings, ServerSettings
from aiorocketmq.remoting.transport.connection import Connection
from aiorocketmq.remoting.transport.flow import Limits
from aiorocketmq.remoting.transport.server import RemotingServer
from aiorocketmq.remoting.transport.tls import (
    ServerTls,
    TlsConfig,
    TlsMode,
    client_context,
    server_tls,
)

HOST = "127.0.0.1"
QUERY = RequestCode.QUERY_CONSUMER_OFFSET


def query(queue_id: int = 3) -> QueryConsumerOffsetRequest:
    return QueryConsumerOffsetRequest(consumer_group="g", topic="T", queue_id=queue_id)


class Service:
    """A small server: offsets, an echo, a request that is never answered."""

    def __init__(self) -> None:
        self.oneway: list[tuple[int, str | None]] = []
        self.signed: list[str | None] = []

    def offset(self, request: QueryConsumerOffsetRequest, _body: Body, ctx: Context) -> Reply:
        self.signed.append(ctx.ext_fields.get("Signature"))
        if ctx.oneway:
            self.oneway.append((request.queue_id, ctx.remark))
        return Reply(header=OffsetResponse(offset=request.queue_id * 10))

    def echo(self, _request: Any, body: Body, _ctx: Context) -> Reply:
        return Reply(body=bytes(body), remark="echo")

    @property
    def dispatcher(self) -> Dispatcher:
        return Dispatcher(
            {
                QUERY: self.offset,
                RequestCode.HEART_BEAT: self.echo,
                RequestCode.GET_BROKER_CONFIG: lambda r, b, c: PENDING,
            }
        )


@contextlib.asynccontextmanager
async def serving(
    service: Service | None = None, *, shared: Any = None, **options: Any
) -> AsyncIterator[RemotingServer]:
    """``options``: of ``ServerSettings``; ``shared``: of the server itself."""
    limits = Limits(shutdown_grace_s=0.2)
    settings = ServerSettings(**{"host": HOST, "port": 0, "limits": limits, **options})
    dispatcher = (service or Service()).dispatcher
    server = RemotingServer(dispatcher, settings, clock=SystemClock(), **(shared or {}))
    await server.listen()
    task = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.wait([task])
        server.close()


def address(server: RemotingServer) -> str:
    return f"{HOST}:{server.port}"


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


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


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


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


# --- TLS
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("tls")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    for name in ("server", "client"):
        issued = ca.issue_cert("127.0.0.1", common_name=name)
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    return {path.name: str(path) for path in folder.iterdir()}


def certificate(files: dict[str, str], **more: Any) -> ServerTls | None:
    return server_tls(
        TlsConfig(server_cert_path=files["server.pem"], server_key_path=files["server.key"], **more)
    )


def test_permissive_serves_both_on_one_port(certificates: dict[str, str]) -> None:
    async def main() -> None:
        trusting = client_context(
            TlsConfig(client_auth_server=True, client_trust_cert_path=certificates["ca.pem"])
        )
        async with serving(tls=certificate(certificates)) as server, RemotingClient() as plain:
            async with RemotingClient(tls=trusting) as secure:
                for client in (plain, secure):
                    assert (
                        await client.invoke(address(server), QUERY, query())
                    ).header.offset == 30

    run(main)


@pytest.mark.parametrize(
    ("mode", "secure", "served"),
    [
        (TlsMode.ENFORCING, True, True),
        (TlsMode.ENFORCING, False, False),
        (TlsMode.DISABLED, True, False),
        (TlsMode.DISABLED, False, True),
    ],
)
def test_modes(certificates: dict[str, str], mode: TlsMode, secure: bool, served: bool) -> None:
    async def main() -> None:
        context = client_context(TlsConfig()) if secure else None
        async with (
            serving(tls=certificate(certificates), tls_mode=mode) as server,
            RemotingClient(tls=context) as client,
        ):
            if served:
                assert (await client.invoke(address(server), QUERY, query())).header.offset == 30
            else:
                with pytest.raises((ConnectError, ConnectionLostError)):
                    await client.invoke(address(server), QUERY, query())

    run(main)


def test_without_certificate_a_tls_connection_is_closed_with_one_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    async def main() -> None:
        async with (
            serving() as server,
            RemotingClient(tls=client_context(TlsConfig())) as secure,
            RemotingClient() as plain,
        ):
            with pytest.raises((ConnectError, ConnectionLostError)):
                await secure.invoke(address(server), QUERY, query())
            assert (await plain.invoke(address(server), QUERY, query())).header.offset == 30

    run(main)
    assert [
        r.levelname for r in caplog.records if "no certificate is configured" in r.getMessage()
    ] == ["INFO"]


def test_client_certificates_are_required_when_asked_for(certificates: dict[str, str]) -> None:
    tls = certificate(
        certificates, server_auth_client=True, server_trust_cert_path=certificates["ca.pem"]
    )
    known = TlsConfig(
        client_cert_path=certificates["client.pem"], client_key_path=certificates["client.key"]
    )

    async def main() -> None:
        async with serving(tls=tls) as server:
            async with RemotingClient(tls=client_context(known)) as client:
                assert (await client.invoke(address(server), QUERY, query())).header.offset == 30
            async with RemotingClient(tls=client_context(TlsConfig())) as stranger:
                with pytest.raises((ConnectError, ConnectionLostError)):
                    await stranger.invoke(address(server), QUERY, query())

    run(main)


def test_a_changed_certificate_is_used_for_new_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    old, new = trustme.CA(), trustme.CA()
    paths = {"server.pem": str(tmp_path / "server.pem"), "server.key": str(tmp_path / "server.key")}

    def issue(ca: trustme.CA, name: str) -> ssl.SSLContext:
        issued = ca.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(paths["server.key"])
        issued.cert_chain_pems[0].write_to_path(paths["server.pem"])
        ca.cert_pem.write_to_path(tmp_path / name)
        return client_context(
            TlsConfig(client_auth_server=True, client_trust_cert_path=str(tmp_path / name))
        )

    async def main() -> None:
        trusts_old = issue(old, "old-ca.pem")
        tls = certificate(paths)
        assert tls is not None
        async with serving(tls=tls) as server:
            async with RemotingClient(tls=trusts_old) as client:
                await client.invoke(address(server), QUERY, query())
            trusts_new = issue(new, "new-ca.pem")
            await until(lambda: "certificate reloaded" in caplog.text)
            async with RemotingClient(tls=trusts_new) as client:
                await client.invoke(address(server), QUERY, query())
            (tmp_path / "server.pem").write_text("broken")
            await until(lambda: "the old one stays" in caplog.text)
            async with RemotingClient(tls=trusts_new) as client:
                await client.invoke(address(server), QUERY, query())

    run(main)
