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
import urllib.request
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


def published_ports(service: dict[str, Any], host: str = "") -> list[int]:
    """To everybody, or at this address only; under the same numbers."""
    found = [re.fullmatch(r"(?:([\d.]+):)?(\d+):\2", port) for port in service["ports"]]
    return [int(port[2]) for port in found if port is not None and (port[1] or "") == host]


def metrics_port(service: dict[str, Any]) -> int:
    """For this machine only: whoever asks is answered."""
    (port,) = published_ports(service, "127.0.0.1")
    assert {f"--prometheusPort={port}", "--prometheusAddress=0.0.0.0"} <= set(service["command"])
    return port


def assert_no_root(service: dict[str, Any]) -> None:
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["stop_grace_period"] == "30s"


def assert_metrics(port: int, broker: str) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    assert f'node_id="{broker}' in text
    assert "rocketmq_put_messages_total" in text


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
    skip_unless_free(
        [
            port
            for service in services.values()
            for port in published_ports(service) + published_ports(service, "127.0.0.1")
        ]
    )
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
        for name, service in services.items():
            if name.startswith("broker"):
                assert_metrics(metrics_port(service), name.removesuffix("-slave"))
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


def hardened_container(stateful_set: dict[str, Any]) -> dict[str, Any]:
    """The only one, which is asked whether it is alive and ready as ``mqhealth`` does it."""
    pod = stateful_set["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    assert pod["terminationGracePeriodSeconds"] >= 30
    (container,) = pod["containers"]
    assert isinstance(container, dict)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    ports = [each["containerPort"] for each in container["ports"]]
    address = f"localhost:{ports[0]}"
    assert container["readinessProbe"]["exec"]["command"] == ["mqhealth", address]
    alive = {"exec": {"command": ["mqhealth", "--alive", address]}}
    assert alive.items() <= container["livenessProbe"].items()
    for name in ("readinessProbe", "livenessProbe", "startupProbe"):
        if name in container:  # by itself mqhealth waits for 5 s
            assert container[name]["timeoutSeconds"] == 6
    if ports[0] == 10911:
        assert alive.items() <= container["startupProbe"].items()
        assert "--prometheusPort=5557 --prometheusAddress=0.0.0.0" in container["command"][2]
        assert 5557 in ports
        annotations = stateful_set["spec"]["template"]["metadata"]["annotations"]
        assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": "5557"}
    return container


def test_the_kubernetes_example_is_complete() -> None:
    """Two services, two sets of pods, each set with a disk for every pod."""
    kinds: dict[str, list[str]] = {}
    for each in yaml.safe_load_all(
        (REPOSITORY / "docs" / "deploy" / "kubernetes.yaml").read_text()
    ):
        kinds.setdefault(each["kind"], []).append(each["metadata"]["name"])
        if each["kind"] == "StatefulSet":
            container = hardened_container(each)
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
    metrics: set[int] = set()
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
        assert service["healthcheck"]["test"] == ["CMD", "mqhealth", f"localhost:{listens}"]
        assert_no_root(service)
        if name.startswith("broker"):
            assert f"--brokerIP1={name}" in service["command"]
            assert set(published_ports(service)) == {listens - 2, listens, listens + 1}
            metrics.add(metrics_port(service))
            assert "--namesrvAddr=namesrv-1:9876;namesrv-2:9877" in service["command"]
    assert metrics == {5557, 5558, 5559, 5560}
