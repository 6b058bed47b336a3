"""The broker as a process: it starts, serves two ports, is stopped or killed, and still has what it
acknowledged."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiorocketmq.broker.config.addresses import free_port
from aiorocketmq.remoting.protocol.codes import RequestCode

from .test_namesrv import NameServerProcess, Peer

READY = re.compile(
    r"broker ready name=(\S+) cluster=(\S+) address=(\S+) port=(\d+) vip_port=(\d+) store=(\S+)"
)
REGISTERED = re.compile(r"registered name_server=(\S+)")


class BrokerProcess:
    """``python -m aiorocketmq.broker`` on a store of its own; the port stays the same over
    restarts."""

    def __init__(self, folder: Path, port: int = 0, *arguments: str) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.port = port or free_port("127.0.0.1")
        self.process = start(
            folder,
            f"--listenPort={self.port}",
            f"--storePathRootDir={self.store}",
            "--mappedFileSizeCommitLog=1048576",
            "--brokerIP1=127.0.0.1",
            "--brokerName=b",
            *arguments,
        )
        self.log: list[str] = []
        self.wait_for(READY)

    def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if match := pattern.search(line):
                return match
        raise AssertionError("the broker ended:\n" + "".join(self.log))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=30)
        self.log.append(rest)
        return self.process.returncode


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "HOME": str(folder), "ROCKETMQ_HOME": str(folder / "rocketmq")}
    environment.pop("NAMESRV_ADDR", None)
    command = [sys.executable, "-m", "aiorocketmq.broker", *arguments]
    return subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


def send(peer: Peer, topic: str, body: bytes) -> dict[str, str]:
    fields = {
        "a": "p",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "j": "0",
        "k": "false",
        "m": "false",
    }
    answer, _ = peer.ask(RequestCode.SEND_MESSAGE_V2, body, **fields)
    assert answer["code"] == 0, answer
    found = answer["extFields"]
    assert isinstance(found, dict)
    return found


def pull(peer: Peer, topic: str) -> tuple[int, bytes]:
    fields = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }
    answer, body = peer.ask(RequestCode.PULL_MESSAGE, b"", **fields)
    code = answer["code"]
    assert isinstance(code, int)
    return code, body


def max_offset(peer: Peer, topic: str) -> str:
    answer, _ = peer.ask(RequestCode.GET_MAX_OFFSET, topic=topic, queueId="0")
    return str(answer["extFields"]["offset"])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path)
    yield process
    if process.process.poll() is None:
        assert process.stop() == 0


def test_the_second_port_serves_everything_but_pulls(broker: BrokerProcess) -> None:
    main, vip = Peer(broker.port), Peer(broker.port - 2)
    send(vip, "T", b"one")
    assert pull(vip, "T")[0] == 3
    code, body = pull(main, "T")
    assert code == 0
    assert b"one" in body
    main.close()
    vip.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_loses_nothing_that_was_acknowledged(
    tmp_path: Path, number: signal.Signals
) -> None:
    first = BrokerProcess(tmp_path)
    peer = Peer(first.port)
    create = {
        "topic": "T",
        "defaultTopic": "TBW102",
        "readQueueNums": "3",
        "writeQueueNums": "3",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
    }
    assert peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, b"", **create)[0]["code"] == 0
    for count in range(100):
        send(peer, "T", b"x" * count)
    peer.ask(
        RequestCode.UPDATE_CONSUMER_OFFSET,
        consumerGroup="g",
        topic="T",
        queueId="0",
        commitOffset="42",
    )
    peer.close()
    first.stop(number)
    second = BrokerProcess(tmp_path, first.port)
    peer = Peer(second.port)
    assert max_offset(peer, "T") == "100"
    _, body = peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    assert b'"T":{"order":false,"perm":6,"readQueueNums":3' in body
    if number is signal.SIGTERM:
        _, body = peer.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert b'"T@g":{0:42}' in body
    assert int(send(peer, "T", b"after")["queueOffset"]) == 100
    peer.close()
    assert second.stop() == 0


def test_a_name_server_that_comes_later_is_found(tmp_path: Path) -> None:
    port = free_port("127.0.0.1")
    broker = BrokerProcess(tmp_path, 0, "-n", f"127.0.0.1:{port}")
    broker.wait_for(re.compile("not registered, tried again until it works"))
    name_server = NameServerProcess(tmp_path, f"listenPort={port}\n")
    assert broker.wait_for(re.compile(r" registered name_server=(\S+)"))[1] == f"127.0.0.1:{port}"
    peer = Peer(port)
    assert peer.route_code("TBW102") == 0
    assert broker.stop() == 0
    assert peer.route_code("TBW102") == 17
    peer.close()
    assert name_server.stop() == 0


def fails(folder: Path, *arguments: str, code: int = 1) -> str:
    process = start(folder, *arguments)
    _, log = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in log
    return log.splitlines()[-1]


def test_a_port_in_use_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        last = fails(
            tmp_path,
            f"--listenPort={port}",
            "--bindAddress=127.0.0.1",
            f"--storePathRootDir={tmp_path / 's'}",
        )
    assert (
        last
        == f"mqbroker: port {port} of 127.0.0.1 is in use; stop the other process or set listenPort"
    )


def test_a_store_in_use_is_one_line_and_exit_code_1(broker: BrokerProcess) -> None:
    last = fails(broker.folder, "--listenPort=0", f"--storePathRootDir={broker.store}")
    assert last.startswith("mqbroker: ")
    assert str(broker.store) in last


def test_settings_that_cannot_work_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    assert "needs a brokerId above 0" in fails(tmp_path, "--brokerRole=SLAVE", code=2)
    assert "is a slave's" in fails(tmp_path, "--brokerId=1", code=2)
    assert "hours of the day" in fails(tmp_path, "--deleteWhen=99", code=2)
    enforcing = ("--listenPort=0", "--tls.server.mode=enforcing")
    assert "needs tls.server.certPath" in fails(tmp_path, *enforcing, code=2)


def test_tables_that_cannot_be_read_stop_the_start(tmp_path: Path) -> None:
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    (config / "topics.json").write_text("nonsense")
    last = fails(tmp_path, "--listenPort=0", f"--storePathRootDir={tmp_path / 'store'}")
    assert "topics.json" in last
    assert "repair or remove" in last
