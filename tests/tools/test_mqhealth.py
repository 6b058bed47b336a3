"""mqhealth: what it says of daemons and of what is none, and how little it takes for that."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from aiorocketmq.testing import LocalCluster
from aiorocketmq.tools import mqhealth
from aiorocketmq.tools.mqhealth import HEALTH, UnhealthyError, check

Answer = Callable[[int], bytes]
"""Of the number of the request."""
NOT_FOR_THIS = {"asyncio", "click", "json", "logging", "msgspec", "re", "ssl", "typing"}


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def ask(port: int, *, alive: bool = False, tls: bool = False, timeout_s: float = 30) -> None:
    check("localhost", port, timeout_s=timeout_s, alive=alive, tls=tls)


def test_a_name_server_and_a_broker_are_healthy(cluster: LocalCluster) -> None:
    for address in (cluster.namesrv_address, cluster.broker_address):
        ask(port_of(address))
        ask(port_of(address), alive=True)


def frame(header: bytes) -> bytes:
    size = len(header)
    return (4 + size).to_bytes(4, "big") + size.to_bytes(4, "big") + header


def coded(code: int, remark: str = "") -> Answer:
    def answer(opaque: int) -> bytes:
        table = {"code": code, "flag": 1, "language": "JAVA", "opaque": opaque}
        text = json.dumps({**table, "remark": remark} if remark else table, separators=(",", ":"))
        return frame(text.encode())

    return answer


@contextmanager
def daemon(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """One that answers one request so; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with (
                connection
                if context is None
                else context.wrap_socket(connection, server_side=True) as peer
            ):
                data = peer.recv(4096)
                request = json.loads(data[8:])
                assert int.from_bytes(data[:4], "big") == len(data) - 4
                assert (request["code"], request["flag"]) == (HEALTH, 0)
                peer.sendall(answer(request["opaque"]))
                with contextlib.suppress(ConnectionResetError):
                    peer.recv(1)  # until it is gone

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (coded(0), None),
        (coded(3, " request type 9000 not supported"), None),
        (coded(14, 'the "disk" is full'), 'the "disk" is full'),
        (coded(1), "code 1"),
        (lambda opaque: frame(b'{"opaque":%d}' % opaque), "neither a broker nor a name server"),
        (lambda opaque: frame(b'["opaque":%d' % opaque), "neither a broker nor a name server"),
        (lambda opaque: coded(0)(opaque + 1), "neither a broker nor a name server"),
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "neither a broker nor a name server"),
        (lambda _: b"\0\0\0\x01", "neither a broker nor a name server"),
        (lambda _: b"\0\0\0", "does not answer within"),
    ],
)
def test_what_is_made_of_an_answer(answer: Answer, problem: str | None) -> None:
    with daemon(answer) as port:
        patience_s = 30.0 if problem is None or "within" not in problem else 0.2
        if problem is None:
            ask(port, timeout_s=patience_s)
        else:
            with pytest.raises(UnhealthyError, match=problem):
                ask(port, timeout_s=patience_s)


def test_any_answer_is_a_sign_of_life() -> None:
    with daemon(coded(14, "the disk is full")) as port:
        ask(port, alive=True)


def test_who_only_accepts_connections_is_not_alive() -> None:
    """The system does that for a daemon that hangs."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(UnhealthyError, match=r"does not answer within 0\.2 s"),
    ):
        ask(server.getsockname()[1], alive=True, timeout_s=0.2)


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UnhealthyError, match="connection refused: nothing listens there"):
        ask(port)


def test_over_tls_with_a_certificate_for_who_asks_for_one(tmp_path: Path) -> None:
    ca = trustme.CA()
    server, client = ca.issue_cert("somebody.else"), ca.issue_cert("client.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.configure_cert(context)
    with daemon(coded(0), context) as port:
        ask(port, tls=True)
    context.verify_mode = ssl.CERT_REQUIRED
    ca.configure_trust(context)
    client.private_key_pem.write_to_path(tmp_path / "client.key")
    client.cert_chain_pems[0].write_to_path(tmp_path / "client.pem")
    config = tmp_path / "tls.properties"
    config.write_text(
        f"tls.enable=true\ntls.client.certPath={tmp_path}/client.pem\n"
        f"tls.client.keyPath = {tmp_path}/client.key\n"
    )
    with daemon(coded(0), context) as port:
        check("localhost", port, timeout_s=30, alive=False, tls=False, tls_config=str(config))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "'' is not HOST:PORT"),
        (["localhost"], "'localhost' is not HOST:PORT"),
        (["localhost:0"], "'localhost:0' is not HOST:PORT"),
        (["a:1", "b:2"], "one address is enough, there is also 'b:2'"),
        (["--timeout", "x", "a:1"], "--timeout 'x' is no number of seconds"),
        (["a:1", "--timeout"], "--timeout '' is no number of seconds"),
    ],
)
def test_wrong_command_lines(
    arguments: list[str],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["mqhealth", *arguments])
    with pytest.raises(SystemExit) as ended:
        mqhealth.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"mqhealth: {problem} (mqhealth -h shows the options)\n"


def test_it_imports_next_to_nothing(cluster: LocalCluster) -> None:
    """It runs every few seconds: what it imports is what it costs."""
    program = (
        "import sys; before = set(sys.modules)\n"
        "from aiorocketmq.tools.mqhealth import main\n"
        f"sys.argv = ['mqhealth', '{cluster.broker_address}']\n"
        "try: main()\n"
        "finally: print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    found = set(done.stdout.split())
    assert {name for name in found if name.startswith("aiorocketmq")} == {
        "aiorocketmq", "aiorocketmq.tools", "aiorocketmq.tools.mqhealth",
    }  # fmt: skip
    assert not found & NOT_FOR_THIS
    assert len(found) <= 20, found
