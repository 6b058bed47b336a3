"""The name server as a process, spoken to over raw sockets."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.codes import LanguageCode, RequestCode
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder, encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import SerializeType
from tests.golden_files import golden_lines

READY = re.compile(r"name server ready port=(\d+) home=(\S+) kv_config=(\S+)")


class NameServerProcess:
    """``python -m aiorocketmq.namesrv`` on a free port, with a home of its own."""

    def __init__(self, folder: Path, config: str = "listenPort=0\n") -> None:
        self.home = folder / "rocketmq"
        self.config = folder / "namesrv.conf"
        if not self.config.exists():
            self.config.write_text(f"{config}kvConfigPath={folder / 'kvConfig.json'}\n")
        self.process = start(folder, "-c", str(self.config))
        self.log: list[str] = []
        self.port = int(self.wait_for(READY)[1])

    def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if match := pattern.search(line):
                return match
        raise AssertionError("the name server ended:\n" + "".join(self.log))

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        _, rest = self.process.communicate(timeout=20)
        self.log.append(rest)
        return self.process.returncode


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "HOME": str(folder), "ROCKETMQ_HOME": str(folder / "rocketmq")}
    command = [sys.executable, "-m", "aiorocketmq.namesrv", *arguments]
    return subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


class Peer:
    """One connection to the name server."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._decoder = FrameDecoder()
        self._opaque = 1000

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """The next frame. Raises ``ConnectionError`` when the name server has closed the
        connection."""
        while True:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("closed")
            for _, header, body in self._decoder.feed(data):
                return json.loads(header), bytes(body)

    def receive_bytes(self) -> bytes:
        """The next frame as it came."""
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
            received = self._socket.recv(65536)
            if not received:
                raise ConnectionError("closed")
            data += received
        return data

    def ask(self, code: int, body: bytes = b"", **ext_fields: str) -> tuple[dict[str, Any], bytes]:
        self._opaque += 1
        header = {
            "code": code,
            "extFields": ext_fields,
            "flag": 0,
            "opaque": self._opaque,
            "version": 409,
        }
        self.send(encode_frame(0, json.dumps(header).encode(), body))
        answer, reply_body = self.receive()
        assert answer["opaque"] == self._opaque
        return answer, reply_body

    def register(self, topic: str, *, name: str = "a", address: str = "10.0.0.1:10911") -> None:
        config = {"topicName": topic, "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}
        table = {"dataVersion": {"counter": 1, "timestamp": 2}, "topicConfigTable": {topic: config}}
        body = json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": table}).encode()
        fields = {
            "brokerName": name,
            "brokerAddr": address,
            "clusterName": "C",
            "haServerAddr": "h:1",
            "brokerId": "0",
        }
        assert self.ask(RequestCode.REGISTER_BROKER, body, **fields)[0]["code"] == 0

    def route_code(self, topic: str) -> int:
        code = self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)[0]["code"]
        assert isinstance(code, int)
        return code

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameServerProcess]:
    process = NameServerProcess(tmp_path_factory.mktemp("namesrv"))
    yield process
    assert process.stop() == 0


@pytest.fixture
def connect(server: NameServerProcess) -> Iterator[Callable[[], Peer]]:
    peers: list[Peer] = []

    def connected() -> Peer:
        peers.append(Peer(server.port))
        return peers[-1]

    yield connected
    for peer in peers:
        peer.close()


def eventually(holds: Callable[[], bool], attempts: int = 2000) -> None:
    """Asks again and again; each question is a round trip, so this neither sleeps nor spins for
    long."""
    assert any(holds() for _ in range(attempts))


OVERTAKEN = {("rocketmq-wire", 698), ("rocketmq-wire", 889)}
"""Route queries (by opaque) that the original's threads answered before a registration that had
come a little earlier."""


@pytest.mark.parametrize("capture", ["json-wire", "rocketmq-wire"])
def test_the_answers_to_captured_frames_are_the_captured_answers(
    capture: str, tmp_path: Path
) -> None:
    """Brokers, clients and mqadmin of the original, frame by frame and byte by byte; only the
    language differs.

    Left out are answers in the order of a Java hash table, and the configuration, which names
    paths.
    """
    conversation = [line for line in golden_lines(capture) if line["peer"] == "namesrv"]
    (tmp_path / "kvConfig.json").write_text(
        '{"configTable":{"ORDER_TOPIC_CONFIG":{"GoldOrder":"broker-g:4"}}}'
    )
    server = NameServerProcess(tmp_path)
    peers: dict[int, Peer] = {}
    answers: dict[tuple[int, int], bytes] = {}
    compared = 0
    for line in conversation:
        frame = bytes.fromhex(line["hex"])
        exchange = line["conn"], line["opaque"]
        if line["kind"] == "resp":
            if line["reqCode"] in (206, 319) or (capture, line["opaque"]) in OVERTAKEN:
                continue
            assert answers[exchange] == in_our_language(frame), (
                f"{line['reqCode']} in step {line['step']}"
            )
            compared += 1
            continue
        if line["conn"] not in peers:
            peers[line["conn"]] = Peer(server.port)
        peers[line["conn"]].send(frame)
        if line["kind"] == "req":
            answers[exchange] = peers[line["conn"]].receive_bytes()
        else:
            peers[line["conn"]].route_code(
                "T"
            )  # the oneway request has been read when the next connection asks
    assert compared > 200
    for peer in peers.values():
        peer.close()
    assert server.stop() == 0


def in_our_language(frame: bytes) -> bytes:
    """A frame of the original as if Python had sent it."""
    if frame[4] == SerializeType.ROCKETMQ:
        return frame[:10] + bytes([LanguageCode.PYTHON]) + frame[11:]
    ((_, header, body),) = FrameDecoder().feed(frame)
    return encode_frame(
        SerializeType.JSON, header.replace(b'"language":"JAVA"', b'"language":"PYTHON"'), body
    )


def test_bad_input_harms_nobody_else(
    server: NameServerProcess, connect: Callable[[], Peer]
) -> None:
    good = connect()
    for garbage in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x05\x07\x00\x00\x01x",
        b"\x16\x03\x01",
    ):
        bad = connect()
        bad.send(garbage)
        with pytest.raises(ConnectionError):
            bad.receive()
    answer, _ = good.ask(4711)
    assert (answer["code"], answer["remark"]) == (3, " request type 4711 not supported")
    answer, _ = good.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    assert answer["code"] == 1
    assert "topic" in answer["remark"]
    answer, _ = good.ask(
        RequestCode.UNREGISTER_BROKER,
        brokerName="a",
        brokerAddr="x",
        clusterName="C",
        brokerId="one",
    )
    assert answer["code"] == 1
    assert "brokerId" in answer["remark"]
    answer, _ = good.ask(
        RequestCode.QUERY_DATA_VERSION,
        b"{",
        brokerName="a",
        brokerAddr="x",
        clusterName="C",
        brokerId="0",
    )
    assert answer["code"] == 1
    assert good.route_code("nowhere") == 17
    assert server.process.poll() is None


def test_a_broker_is_gone_as_soon_as_its_connection_is(connect: Callable[[], Peer]) -> None:
    client, first, second = connect(), connect(), connect()
    first.register("Gone")
    assert client.route_code("Gone") == 0
    second.register("Gone")
    first.close()
    third = connect()
    third.register("Other", name="b", address="10.0.0.2:10911")
    third.close()
    eventually(lambda: client.route_code("Other") == 17)
    assert client.route_code("Gone") == 0
    second.close()
    eventually(lambda: client.route_code("Gone") == 17)


def test_what_was_configured_outlives_a_restart(tmp_path: Path) -> None:
    server = NameServerProcess(tmp_path)
    peer = Peer(server.port)
    assert peer.ask(RequestCode.PUT_KV_CONFIG, namespace="N", key="k", value="v")[0]["code"] == 0
    assert peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, b"productEnvName=here\n")[0]["code"] == 0
    assert peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, b"kvConfigPath=/else\n")[0]["code"] == 16
    (pid_file,) = (server.home / "run").iterdir()
    assert pid_file.name == f"namesrv-{server.port}.pid"
    assert int(pid_file.read_text().splitlines()[0]) == server.process.pid
    peer.close()
    assert server.stop() == 0
    assert not pid_file.exists()

    again = NameServerProcess(tmp_path)
    peer = Peer(again.port)
    assert peer.ask(RequestCode.GET_KV_CONFIG, namespace="N", key="k")[0]["extFields"] == {
        "value": "v"
    }
    _, body = peer.ask(RequestCode.GET_NAMESRV_CONFIG)
    assert b"productEnvName=here\n" in body
    assert f"configStorePath={tmp_path / 'namesrv.conf'}\n".encode() in body
    peer.close()
    assert again.stop() == 0


def test_a_start_that_cannot_be_is_one_line_and_code_1_or_2(
    server: NameServerProcess, tmp_path: Path
) -> None:
    (tmp_path / "bad.conf").write_text("listenPort=1\norderMessageEnable=yes\n")
    processes = {
        f"port {server.port} is in use": start(tmp_path, f"--listenPort={server.port}"),
        "bad.conf:2: orderMessageEnable must be true or false, not 'yes'": start(
            tmp_path, "-c", str(tmp_path / "bad.conf")
        ),
        "there is no configuration file": start(tmp_path, "-c", "nowhere.conf"),
    }
    codes = []
    for problem, process in processes.items():
        _, log = process.communicate(timeout=20)
        codes.append(process.returncode)
        last = log.splitlines()[-1]
        assert last.startswith("mqnamesrv: ")
        assert problem in last
        assert "Traceback" not in log
    assert codes == [1, 2, 2]
