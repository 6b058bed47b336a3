"""docker-compose.yml without containers: each service's own command line as a process of this
machine.

Only what the file takes from the environment is changed: hosts and paths. Ports are those of the
file.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from aiorocketmq import Admin, Message, Producer, SendStatus

from .cluster import PATIENCE_S, asynchronous, create_topic, until

REPOSITORY = Path(__file__).resolve().parents[2]
LOCAL = dict.fromkeys(("BROKER_HOST", "NAMESRV_1_HOST", "NAMESRV_2_HOST"), "127.0.0.1")
SMALL_FILES = (
    "\nmappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=20000\n"
    "maxHashSlotNum=1000\nmaxIndexNum=4000\n"
)
NAMESRV = "127.0.0.1:9876;127.0.0.1:9877"
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


def compose_file(environment: dict[str, str], name: str = "docker-compose.yml") -> dict[str, Any]:
    """The file with its variables filled in as the container engine does it."""
    text = (REPOSITORY / name).read_text()
    content = yaml.safe_load(_VARIABLE.sub(lambda found: environment.get(found[1], found[2]), text))
    assert isinstance(content, dict)
    return content


def published_ports(service: dict[str, Any]) -> list[int]:
    """Published under the same numbers."""
    pairs = [port.split(":") for port in service["ports"]]
    assert all(outside == inside for outside, inside in pairs)
    return [int(inside) for _, inside in pairs]


def starting_order(services: dict[str, Any]) -> list[str]:
    ordered: list[str] = []
    while len(ordered) < len(services):
        ready = [
            name
            for name in services
            if name not in ordered and set(services[name].get("depends_on", ())) <= set(ordered)
        ]
        assert ready, "services wait for each other"
        ordered += ready
    return ordered


def local_program(command: list[str]) -> list[str]:
    """The scripts lie beside the interpreter."""
    return [str(Path(sys.executable).parent / command[0]), *command[1:]]


@contextmanager
def running(command: list[str], home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A service with a home of its own, which its volume would be."""
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "ROCKETMQ_HOME": str(home)}
    environment.pop("NAMESRV_ADDR", None)
    with (home / "daemon.log").open("wb") as log:
        process = subprocess.Popen(local_program(command), env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        code = process.wait(PATIENCE_S)
    assert code == 0, (home / "daemon.log").read_text()


def wait_until_healthy(
    name: str, check: list[str], process: subprocess.Popen[bytes], log: Path
) -> None:
    assert check[0] == "CMD"
    deadline = time.monotonic() + PATIENCE_S
    while subprocess.run(local_program(check[1:]), capture_output=True, check=False).returncode:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"{name} does not get healthy:\n{log.read_text()}"
        time.sleep(0.1)


def skip_unless_free(ports: list[int]) -> None:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                pytest.skip(f"port {port} of docker-compose.yml is in use on this machine")


def test_the_cluster_of_the_compose_file_works(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "broker.conf").write_text(
        (REPOSITORY / "conf" / "broker.conf").read_text() + SMALL_FILES
    )
    services = compose_file({**LOCAL, "ROCKETMQ_CONF": str(conf)})["services"]
    skip_unless_free([port for service in services.values() for port in published_ports(service)])
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(running(services[name]["command"], tmp_path / name))
            for name in starting_order(services)
        }
        for name, service in services.items():
            wait_until_healthy(
                name,
                service["healthcheck"]["test"],
                processes[name],
                tmp_path / name / "daemon.log",
            )
        asynchronous(cluster_works)()
    assert (tmp_path / "broker-a-slave" / "store" / "commitlog").is_dir(), "data lies in the volume"


async def cluster_works() -> None:
    """Every broker is known to both name servers, and both masters wait for their slaves."""
    for namesrv in NAMESRV.split(";"):
        async with Admin(namesrv=namesrv) as admin:

            async def complete(admin: Admin = admin) -> bool:
                table = (await admin.cluster_info()).broker_addr_table
                return {name: sorted(broker.broker_addrs) for name, broker in table.items()} == {
                    "broker-a": [0, 1],
                    "broker-b": [0, 1],
                }

            await until(complete, f"{namesrv} knows all brokers")
    await create_topic(NAMESRV, "Orders", 2)
    async with Producer("p", namesrv=NAMESRV) as producer:

        async def both_replicate() -> bool:
            results = [await producer.send(Message("Orders", b"x")) for _ in range(8)]
            good = {
                result.queue.broker_name
                for result in results
                if result.status is SendStatus.SEND_OK
            }
            return good == {"broker-a", "broker-b"}

        await until(both_replicate, "both masters have a slave that follows")


def test_the_kubernetes_example_is_complete() -> None:
    """Two services, two sets of pods, each set with a disk for every pod."""
    kinds: dict[str, list[str]] = {}
    for each in yaml.safe_load_all(
        (REPOSITORY / "docs" / "deploy" / "kubernetes.yaml").read_text()
    ):
        kinds.setdefault(each["kind"], []).append(each["metadata"]["name"])
        if each["kind"] == "StatefulSet":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            volumes = [claim["metadata"]["name"] for claim in each["spec"]["volumeClaimTemplates"]]
            assert [mount["name"] for mount in container["volumeMounts"]] == volumes
            assert each["spec"]["serviceName"] == each["metadata"]["name"]
    assert kinds == {"Service": ["namesrv", "broker-a"], "StatefulSet": ["namesrv", "broker-a"]}


def test_what_a_compose_file_has_to_have() -> None:
    content = compose_file({})
    services = content["services"]
    assert sorted(services) == [
        "broker-a",
        "broker-a-slave",
        "broker-b",
        "broker-b-slave",
        "namesrv-1",
        "namesrv-2",
    ]
    ports = [port for service in services.values() for port in published_ports(service)]
    assert len(set(ports)) == len(ports), "each service has ports of its own"
    for name, service in services.items():
        (volume,) = service["volumes"]
        assert volume.partition(":")[0] == name
        assert name in content["volumes"]
        listens = next(
            int(part.partition("=")[2])
            for part in service["command"]
            if part.startswith("--listenPort=")
        )
        assert listens in published_ports(service)
        assert f"localhost:{listens}" in service["healthcheck"]["test"]
        if name.startswith("broker"):
            assert f"--brokerIP1={name}" in service["command"]
            assert set(published_ports(service)) == {listens - 2, listens, listens + 1}
            assert "--namesrvAddr=namesrv-1:9876;namesrv-2:9877" in service["command"]
