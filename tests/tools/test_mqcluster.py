"""mqcluster as a process: says where things are, serves, stops on a signal, keeps its data."""

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiorocketmq.broker.config.addresses import free_ports
from aiorocketmq.testing import LocalCluster

from .. import forked
from .conftest import MqAdmin

Start = Callable[..., subprocess.Popen[str]]
MQCLUSTER = "aiorocketmq.tools.mqcluster"
ANY_PORTS = ("--namesrvPort", "0", "--brokerPort", "0")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "ROCKETMQ_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    processes = []

    def call(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", MQCLUSTER, *ANY_PORTS, *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        processes.append(process)
        return process

    yield call
    for process in processes:
        process.kill()
        process.communicate()


def announced(process: subprocess.Popen[str]) -> dict[str, str]:
    """The first lines: what is where."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    return {line[:13].strip(): line[13:].strip() for line in lines}


def stopped(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    """Exit code and standard error."""
    process.send_signal(number)
    errors = process.communicate(timeout=60)[1]
    return process.returncode, errors


def test_commands_to_try_are_found(start: Start, environment: dict[str, str]) -> None:
    """By who started it with the path of an environment that is not active."""
    environment["PATH"] = "/usr/bin:/bin"
    process = start()
    assert process.stdout is not None
    lines = [process.stdout.readline().strip() for _ in range(6)]
    programs = Path(sys.executable).parent
    assert lines[-1] == f"export PATH={programs}:$PATH"
    assert (programs / "mqadmin").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_and_stops(
    start: Start, mqadmin: MqAdmin, tmp_path: Path, number: signal.Signals
) -> None:
    process = start()
    found = announced(process)
    assert found["data"].endswith("(removed at the end; keep it with --dataDir)")
    assert (
        mqadmin("clusterList", "-n", found["name server"]).out.splitlines()[1].split()[3]
        == found["broker"].split()[0]
    )
    assert stopped(process, number) == (0, "")
    assert not list(tmp_path.glob("aiorocketmq-*"))


def test_where_metrics_are_is_told(start: Start) -> None:
    pytest.importorskip("prometheus_client")
    (port,) = free_ports("127.0.0.1", 1)
    found = announced(start(f"--property=prometheusPort={port}"))
    assert found["broker"].endswith(f", metrics {port})")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert b"rocketmq_put_messages_total" in answer.read()


def test_it_can_be_looked_at_in_a_browser(start: Start, tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    process = start("--console", "--consolePort", "0")
    announced(process)
    assert process.stdout is not None
    line = next(line for line in process.stdout if line.startswith("console "))
    with urllib.request.urlopen(line.split()[1], timeout=60) as answer:
        assert b"What is wrong now" in answer.read()
    assert stopped(process, signal.SIGTERM) == (0, "")
    assert not list(tmp_path.glob("aiorocketmq-*"))


def test_the_data_directory_stays(start: Start, mqadmin: MqAdmin, tmp_path: Path) -> None:
    for expected in ([], ["first"]):
        process = start("--dataDir", str(tmp_path / "data"))
        found = announced(process)
        assert found["data"] == str(tmp_path / "data")
        printed = mqadmin("consumeMessage", "-t", "Kept", "-n", found["name server"]).out
        assert [
            line.partition("BODY: ")[2] for line in printed.splitlines() if "BODY" in line
        ] == expected
        mqadmin("sendMessage", "-t", "Kept", "-p", "first", "-n", found["name server"])
        assert stopped(process, signal.SIGTERM) == (0, "")


def test_properties_reach_the_broker(start: Start, mqadmin: MqAdmin) -> None:
    process = start("--property", "autoCreateTopicEnable=false", "--property", "brokerName=mine")
    namesrv = announced(process)["name server"]
    assert " mine " in mqadmin("clusterList", "-n", namesrv).out
    assert mqadmin("sendMessage", "-t", "Unknown", "-p", "x", "-n", namesrv).code == 1


def test_a_group_is_said_and_its_leader_can_be_killed(
    start: Start, mqadmin: MqAdmin, tmp_path: Path
) -> None:
    process = start("--raft", "3", "--dataDir", str(tmp_path / "data"))
    assert process.stdout is not None
    lines = [process.stdout.readline().rstrip()]
    while "mqbroker -c" not in lines[-1]:
        lines.append(process.stdout.readline().rstrip())
    namesrv = lines[0].split()[2]
    assert [line.split()[:2] for line in lines[1:4]] == [["broker", f"n{n}"] for n in range(3)]
    (leader,) = (line for line in lines[1:4] if line.endswith(", leader"))
    assert lines[4].split() == ["data", str(tmp_path / "data")]
    (kill,) = (line for line in lines if "kill -9" in line)
    number = int(kill.split()[2])
    assert f"process {number}, leader" in leader
    (again,) = (line for line in lines if "mqbroker -c" in line)
    assert (tmp_path / "data" / leader.split()[1] / "broker.conf").as_posix() in again
    os.kill(number, signal.SIGKILL)
    masters: list[str] = []
    while not masters or masters == [leader.split()[2]]:
        rows = [line.split() for line in mqadmin("clusterList", "-n", namesrv).out.splitlines()]
        masters = [row[3] for row in rows if row[2:3] == ["0"]]
    assert mqadmin("sendMessage", "-t", "Kept", "-p", "x", "-n", namesrv).code == 0
    code, errors = stopped(process, signal.SIGTERM)
    assert (code, errors.count("\n")) == (0, errors.count("broker removed"))


def test_masters_are_said_with_their_ports_and_share_a_topic(
    start: Start, mqadmin: MqAdmin, tmp_path: Path
) -> None:
    process = start(
        *("--masters", "2", "--dataDir", str(tmp_path / "data")),
        *("--property", "brokerClusterName=mine", "--property", "fileReservedTime=1"),
    )
    assert process.stdout is not None
    lines = [process.stdout.readline().rstrip() for _ in range(11)]
    namesrv = lines[0].split()[2]
    brokers = [
        re.fullmatch(
            r"broker (broker-\d) 127\.0\.0\.1:(\d+) \(VIP (\d+), slaves (\d+)\), process (\d+)",
            line,
        )
        for line in lines[1:3]
    ]
    for number, broker in enumerate(brokers):
        assert broker is not None, lines
        name, port, vip, slaves, pid = broker.groups()
        assert (name, int(vip), int(slaves)) == (f"broker-{number}", int(port) - 2, int(port) + 1)
        os.kill(int(pid), 0)  # it is there
        assert (tmp_path / "data" / name / "store" / "commitlog").is_dir()
    assert lines[3].split() == ["data", str(tmp_path / "data")]
    (create,) = (line for line in lines if "updateTopic" in line)
    command = shlex.split(create, comments=True)
    assert command[:3] == ["mqadmin", "updateTopic", "-c"]
    assert mqadmin(*command[1:], "-n", namesrv).code == 0
    listed = mqadmin("clusterList", "-n", namesrv).out
    assert [line.split()[:3] for line in listed.splitlines()[1:]] == [
        ["mine", "broker-0", "0"],
        ["mine", "broker-1", "0"],
    ]
    route = mqadmin("topicRoute", "-t", "Hello", "-n", namesrv).out
    assert '"broker-0"' in route
    assert '"broker-1"' in route
    assert stopped(process, signal.SIGINT) == (0, "")
    for broker in brokers:
        assert broker is not None
        with pytest.raises(ProcessLookupError):
            os.kill(int(broker[5]), 0)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--property", "brokerNam=x"), "a broker has no property brokerNam"),
        (("--property", "brokerId=x"), "brokerId must be a whole number"),
        (("--property", "tls.server.certPath=/nowhere/server.pem"), "/nowhere/server.pem"),
        (
            ("--property", "nonsense"),
            "'nonsense' does not look like NAME=VALUE (mqcluster -h shows the options)",
        ),
        (
            ("--xyzzy",),
            "mqcluster: No such option '--xyzzy'. (mqcluster -h shows the options)",
        ),
        (("--dataDir", "/dev/null/x"), "/dev/null"),
        (("--host", "203.0.113.1"), "cannot listen"),
        (("--raft", "10"), "10 is not in the range 0<=x<=9"),
        (
            ("--raft", "3", "--brokerPort", "34000"),
            "the last member's port for the others would be 66000, and there are 65535",
        ),
        (("--raft", "3", "--property", "dLegerSelfId=n1"), "dLegerSelfId: raft=3 says it already"),
        (("--raft", "3", "--masters", "2"), "--raft and --masters: one of the two"),
        (("--masters", "65"), "65 is not in the range 0<=x<=64"),
        (("--masters", "2", "--property", "brokerName=x"), "brokerName: masters=2 says it already"),
    ],
)
def test_what_keeps_it_from_running(
    environment: dict[str, str], arguments: tuple[str, ...], problem: str
) -> None:
    done = forked.run(MQCLUSTER, *ANY_PORTS, *arguments, env=environment)
    assert done.returncode != 0
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)


def test_port_in_use(environment: dict[str, str], cluster: LocalCluster) -> None:
    port = cluster.namesrv_address.rpartition(":")[2]
    done = forked.run(MQCLUSTER, *ANY_PORTS, "--namesrvPort", port, env=environment)
    assert done.returncode == 1
    assert done.stderr.endswith(
        " is in use; stop the other process or set --namesrvPort or --brokerPort (0: any)\n"
    )
    assert done.stderr.count("\n") == 1


def test_data_in_use(environment: dict[str, str], tmp_path: Path) -> None:
    with LocalCluster(data_dir=tmp_path / "data"):
        done = forked.run(
            MQCLUSTER, *ANY_PORTS, "--dataDir", str(tmp_path / "data"), env=environment
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.endswith(
        "is in use by another process; stop it, or choose another --dataDir\n"
    )
