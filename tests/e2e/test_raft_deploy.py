"""A group as docker-compose.raft.yml and docs/deploy/kubernetes-raft.yaml start it, as processes of
this machine. Only hosts, paths and, of the pods, ports are changed."""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from aiorocketmq import Admin, Message, Producer, SendStatus
from aiorocketmq.broker.config.addresses import free_ports

from .cluster import HOST, asynchronous, create_topic, until
from .test_compose import (
    LOCAL,
    REPOSITORY,
    SMALL_FILES,
    assert_metrics,
    assert_no_root,
    compose_file,
    hardened_container,
    metrics_port,
    published_ports,
    running,
    skip_unless_free,
    starting_order,
    wait_until_healthy,
)
from .test_deploy import BIN, DEPLOY

COMPOSE = "docker-compose.raft.yml"
MEMBERS = ("broker-n0", "broker-n1", "broker-n2")
PEERS = "n0-broker-n0:40911;n1-broker-n1:41911;n2-broker-n2:42911"
HERE = {**LOCAL, **dict.fromkeys(("MEMBER_0_HOST", "MEMBER_1_HOST", "MEMBER_2_HOST"), HOST)}


def option(service: dict[str, Any], name: str) -> str:
    (value,) = (
        part.partition("=")[2] for part in service["command"] if part.startswith(f"--{name}=")
    )
    return str(value)


def test_what_the_compose_file_of_a_group_has_to_have() -> None:
    content = compose_file({}, COMPOSE)
    services = content["services"]
    assert sorted(services) == [*MEMBERS, "namesrv-1", "namesrv-2"]
    ports = [port for service in services.values() for port in published_ports(service)]
    assert len(set(ports)) == len(ports), "each service has ports of its own"
    for number, name in enumerate(MEMBERS):
        service = services[name]
        listens = int(option(service, "listenPort"))
        assert published_ports(service) == [listens - 2, listens], "members' ports are for members"
        assert option(service, "dLegerPeers") == PEERS
        assert option(service, "dLegerSelfId") == f"n{number}"
        assert option(service, "brokerIP1") == name
        assert service["healthcheck"]["test"] == ["CMD", "mqhealth", f"localhost:{listens}"]
        assert_no_root(service)
        assert metrics_port(service) == 5557 + number
        assert service["volumes"] == [f"{name}:/home/rocketmq/store"]
        assert name in content["volumes"]
        assert f"{name}:{listens + 30000}" in PEERS


def test_the_group_of_the_compose_file_works(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    example = (REPOSITORY / "conf" / "broker-raft.conf").read_text()
    (conf / "broker-raft.conf").write_text(example + SMALL_FILES)
    services = compose_file({**HERE, "ROCKETMQ_CONF": str(conf)}, COMPOSE)["services"]
    ports = [
        port
        for service in services.values()
        for port in published_ports(service) + published_ports(service, HOST)
    ]
    skip_unless_free([*ports, *(int(port) for port in re.findall(r":(\d+)", PEERS))])
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(running(services[name]["command"], tmp_path / name))
            for name in starting_order(services)
        }
        for name, service in services.items():
            check, log = service["healthcheck"]["test"], tmp_path / name / "daemon.log"
            wait_until_healthy(name, check, processes[name], log)
        for name in MEMBERS:
            assert_metrics(metrics_port(services[name]), "raft-a")
        for namesrv in (f"{HOST}:9876", f"{HOST}:9877"):
            asynchronous(lambda namesrv=namesrv: group_works(namesrv, "raft-a"))()
    for number, name in enumerate(MEMBERS):
        store = tmp_path / name / "store"
        assert (store / f"dledger-n{number}" / "data").is_dir(), "data lies in the volume"


async def group_works(namesrv: str, name: str) -> None:
    """A leader, two followers, and a message."""
    async with Admin(namesrv=namesrv) as admin:

        async def complete() -> bool:
            broker = (await admin.cluster_info()).broker_addr_table.get(name)
            addresses = {} if broker is None else broker.broker_addrs
            return len(addresses) == 3 and 0 in addresses

        await until(complete, f"{namesrv} knows a master and two followers")
    await create_topic(namesrv, "Orders", 1)
    async with Producer("p", namesrv=namesrv) as producer:
        result = await producer.send(Message("Orders", b"x"))
    assert result.status is SendStatus.SEND_OK


def kubernetes() -> dict[tuple[str, str], dict[str, Any]]:
    objects = yaml.safe_load_all((DEPLOY / "kubernetes-raft.yaml").read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def member_container() -> dict[str, Any]:
    return hardened_container(kubernetes()["StatefulSet", "broker-a"])


def on_this_machine(script: str, peer_ports: list[int], namesrv: int) -> str:
    """With addresses of this machine in the place of names that only a cluster knows."""
    port = '$(eval echo "\\$port_$n")'
    script = script.replace("$group-$n.$group.$domain:40911", f"{HOST}:{port}")
    script = script.replace("$POD_NAME.$group.$domain", HOST)
    script = re.sub(r"namesrv-\d\.namesrv(\.\$domain)?:9876", f"{HOST}:{namesrv}", script)
    return "".join(f"port_{n}={port}\n" for n, port in enumerate(peer_ports)) + script


def test_the_kubernetes_example_of_a_group_is_complete() -> None:
    objects = kubernetes()
    members = objects["StatefulSet", "broker-a"]["spec"]
    script = member_container()["command"][2]
    (loop,) = re.findall(r"for n in ([\d ]+);", script)
    assert members["replicas"] == len(loop.split()) == 3
    assert members["podManagementPolicy"] == "Parallel", "none is ready before two run"
    assert members["serviceName"] == "broker-a"
    assert objects["Service", "broker-a"]["spec"]["publishNotReadyAddresses"]
    assert objects["PodDisruptionBudget", "broker-a"]["spec"]["maxUnavailable"] == 1
    mounts = [mount["name"] for mount in member_container()["volumeMounts"]]
    assert mounts == [claim["metadata"]["name"] for claim in members["volumeClaimTemplates"]]
    services = {port["port"] for port in objects["Service", "broker-a"]["spec"]["ports"]}
    assert services == {each["containerPort"] for each in member_container()["ports"]}
    for ingress in objects["NetworkPolicy", "broker-a"]["spec"]["ingress"]:
        if 40911 in {each["port"] for each in ingress["ports"]}:
            assert ingress["from"] == [{"podSelector": {"matchLabels": {"app": "broker-a"}}}]


def test_the_group_that_kubernetes_starts_works(tmp_path: Path) -> None:
    container = member_container()
    namesrv, *taken = free_ports(HOST, 7)
    ports, peer_ports = taken[:3], taken[3:]
    (tmp_path / "small.conf").write_text(SMALL_FILES)
    shell, flag, script = container["command"]
    with ExitStack() as stack:
        stack.enter_context(running(["mqnamesrv", f"--listenPort={namesrv}"], tmp_path / "namesrv"))
        pods = []
        for number, port in enumerate(ports):
            pod = (
                on_this_machine(script, peer_ports, namesrv)
                .replace(
                    "exec mqbroker",
                    f"exec {BIN}/mqbroker --listenPort={port} --configFile={tmp_path}/small.conf",
                )
                .replace("--prometheusPort=5557", "--prometheusPort=0")
            )
            names = f"export POD_NAME=broker-a-{number} POD_NAMESPACE=default\n"
            command = [shutil.which(shell) or shell, flag, names + pod]
            pods.append(stack.enter_context(running(command, tmp_path / f"pod-{number}")))
        for number, (process, port) in enumerate(zip(pods, ports, strict=True)):
            ready = container["readinessProbe"]["exec"]["command"]
            probe = ["CMD", *(part.replace(":10911", f":{port}") for part in ready)]
            wait_until_healthy(
                f"pod {number}", probe, process, tmp_path / f"pod-{number}" / "daemon.log"
            )
        asynchronous(lambda: group_works(f"{HOST}:{namesrv}", "broker-a"))()
    for number in range(3):
        store = tmp_path / f"pod-{number}" / "store"
        assert (store / f"dledger-n{number}" / "data").is_dir(), "data lies in the volume"
