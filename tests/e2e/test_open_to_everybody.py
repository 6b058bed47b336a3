"""Who listens on all interfaces and asks nobody who he is says so, once; what is for one person
listens on loopback."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from aiorocketmq.broker.config.addresses import free_port

from .cluster import _BROKER_READY, _NAMESRV_READY, HOST, DaemonProcess

_CLUSTER_READY = re.compile(r"broker +\S+:(\d+) ")
SAID = "open to everybody: listening on all interfaces"


@pytest.mark.parametrize(
    ("properties", "lines"), [([], 1), ([f"--bindAddress={HOST}"], 0), (["--bindAddress=::"], 1)]
)
def test_a_name_server(tmp_path: Path, properties: list[str], lines: int) -> None:
    daemon = DaemonProcess(
        "aiorocketmq.namesrv", _NAMESRV_READY, tmp_path, "--listenPort=0", *properties
    )
    daemon.end()
    assert daemon.log_path.read_text().count(SAID) == lines


@pytest.mark.parametrize(
    ("properties", "lines"), [([], 1), ([f"--bindAddress={HOST}"], 0), (["--aclEnable=true"], 0)]
)
def test_a_broker(tmp_path: Path, properties: list[str], lines: int) -> None:
    settings = (
        f"--listenPort={free_port('')}",
        "--brokerIP1=127.0.0.1",
        f"--storePathRootDir={tmp_path}/store",
    )
    daemon = DaemonProcess("aiorocketmq.broker", _BROKER_READY, tmp_path, *settings, *properties)
    daemon.end()
    assert daemon.log_path.read_text().count(SAID) == lines


@pytest.mark.parametrize(("options", "everybody"), [([], False), (["--host=0.0.0.0"], True)])
def test_mqcluster(tmp_path: Path, options: list[str], everybody: bool) -> None:
    ports = ("--namesrvPort=0", "--brokerPort=0")
    daemon = DaemonProcess(
        "aiorocketmq.tools.mqcluster", _CLUSTER_READY, tmp_path, *ports, *options
    )
    try:
        for port in (daemon.port, daemon.port - 2, daemon.port + 1):
            with (
                socket.socket() as probe
            ):  # an address that is not the one it listens on, unless it listens on all
                assert (probe.connect_ex(("127.0.0.2", port)) == 0) is everybody
    finally:
        daemon.end()
    assert daemon.log_path.read_text().count(SAID) == everybody


@pytest.mark.parametrize(
    ("properties", "told"),
    [([], []), (["--brokerIP2=127.0.0.2"], ["brokerIP2=127.0.0.2, but bindAddress=127.0.0.1"])],
)
def test_a_broker_that_registers_where_it_does_not_listen(
    tmp_path: Path, properties: list[str], told: list[str]
) -> None:
    settings = (f"--listenPort={free_port(HOST)}", f"--bindAddress={HOST}", *properties)
    store = f"--storePathRootDir={tmp_path}/store"
    daemon = DaemonProcess("aiorocketmq.broker", _BROKER_READY, tmp_path, *settings, store)
    daemon.end()
    text = daemon.log_path.read_text()
    assert f" address={HOST}:{daemon.port} " in text
    found = re.findall(r"nothing listens at a registered address: (.*?);", text)
    assert found == told
