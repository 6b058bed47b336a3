"""The examples of docs/deploy: what systemd and Kubernetes would start, started as local processes.

Only what is a machine's own is changed: folders, hosts, ports.
"""

from __future__ import annotations

import re
import shutil
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
from aiorocketmq.broker.config.addresses import free_ports
from examples.demo.daemons import free_port

from .cluster import PATIENCE_S, asynchronous, create_topic, until
from .test_compose import SMALL_FILES, local_program, running, wait_until_healthy

DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "deploy"
BIN = Path(sys.executable).parent


def unit(name: str, root: Path, instance: str = "") -> str:
    """A unit as it is below another root, of this interpreter's programs."""
    text = (DEPLOY / name).read_text().replace("%i", instance)
    return text.replace("/opt/aiorocketmq/bin", str(BIN)).replace("/etc/rocketmq",
    f"{root}/etc").replace(
        "/var/lib/rocketmq", f"{root}/var"
    )  # fmt: skip


def setting(text: str, name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)
    return str(value)


@contextmanager
def started(text: str, root: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = dict(pair.split("=", 1) for pair in setting(text, "Environment").split())
    log = root / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            setting(text, "ExecStart").split(),
            env=environment,
            cwd="/",
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, log.read_text()


def wait_for(process: subprocess.Popen[bytes], log: Path, text: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while text not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


def test_what_systemd_starts_works(tmp_path: Path) -> None:
    for folder in ("etc", "var"):
        (tmp_path / folder).mkdir()
    namesrv_port, port = free_port(), free_port(-2, 1)
    (tmp_path / "etc" / "namesrv.conf").write_text(f"listenPort={namesrv_port}\n")
    (tmp_path / "etc" / "broker-a.conf").write_text(
        f"brokerName=broker-a\nlistenPort={port}\nbrokerIP1=127.0.0.1\nnamesrvAddr=127.0.0.1:{namesrv_port}{SMALL_FILES}"
    )
    units = {
        "namesrv": unit("rocketmq-namesrv.service", tmp_path),
        "broker": unit("rocketmq-broker@.service", tmp_path, "broker-a"),
    }
    with ExitStack() as stack:
        for name, text in units.items():
            process = stack.enter_context(started(text, tmp_path, name))
            wait_for(process, tmp_path / f"{name}.log", " ready ")
        asynchronous(lambda: one_message(f"127.0.0.1:{namesrv_port}"))()
    for name, text in units.items():
        writable = setting(text, "ReadWritePaths").split()
        assert f"{tmp_path}/var" in writable, name
    found = sorted(path.name for path in (tmp_path / "var").iterdir())
    assert "broker-a" in found, "its store"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "broker.log",
        "etc",
        "namesrv.log",
        "var",
    ]


def configured_masters(root: Path, ports: list[int], namesrv: int) -> list[str]:
    """What docs/scaling.md writes for several masters, below another root; their names."""
    blocks = re.findall(r"```sh\n(.*?)```", (DEPLOY.parent / "scaling.md").read_text(), re.DOTALL)
    (script,) = (block for block in blocks if "/etc/rocketmq" in block)
    for path in ("/etc/rocketmq", "/etc/systemd"):
        script = script.replace(path, f"{root}{path}")
    (root / "etc" / "rocketmq").mkdir(parents=True)
    subprocess.run(["sh", "-euc", script], check=True, timeout=PATIENCE_S)
    files = sorted((root / "etc" / "rocketmq").iterdir())
    for number, file in enumerate(files):
        text = file.read_text()
        assert f"brokerName={file.stem}\n" in text
        assert f"listenPort={10911 + 10 * number}\n" in text
        assert f"prometheusPort={5557 + number}\n" in text
        text = re.sub(r"(?m)^prometheusPort=.*\n", "", text).replace(
            "192.0.2.10:9876", f"127.0.0.1:{namesrv}"
        )
        text = text.replace("192.0.2.10", "127.0.0.1")
        if number < len(ports):
            text = re.sub(r"listenPort=\d+", f"listenPort={ports[number]}", text)
        file.write_text(text + SMALL_FILES)
        drop_in = (
            root / "etc/systemd/system" / f"rocketmq-broker@{file.stem}.service.d" / "cpu.conf"
        )
        assert drop_in.read_text() == f"[Service]\nCPUAffinity={number + 1}\n"
    return [file.stem for file in files]


def test_two_masters_of_systemd_share_a_topic(tmp_path: Path) -> None:
    namesrv, *ports = free_ports("127.0.0.1", 3)
    names = configured_masters(tmp_path, ports, namesrv)
    assert names == ["broker-0", "broker-1", "broker-2"]
    (tmp_path / "etc" / "namesrv.conf").write_text(f"listenPort={namesrv}\n")
    for name in names:
        shutil.copy(tmp_path / "etc/rocketmq" / f"{name}.conf", tmp_path / "etc")
    (tmp_path / "var").mkdir()
    units = {"namesrv": unit("rocketmq-namesrv.service", tmp_path)}
    units |= {name: unit("rocketmq-broker@.service", tmp_path, name) for name in names[:2]}
    with ExitStack() as stack:
        for name, text in units.items():
            process = stack.enter_context(started(text, tmp_path, name))
            wait_for(process, tmp_path / f"{name}.log", " ready ")
        asynchronous(lambda: shared(f"127.0.0.1:{namesrv}", names[:2]))()
    assert all((tmp_path / "var" / name / "commitlog").is_dir() for name in names[:2])


async def shared(namesrv: str, names: list[str]) -> None:
    async with Admin(namesrv=namesrv) as admin:

        async def known() -> bool:
            return set(names) <= (await admin.cluster_info()).broker_addr_table.keys()

        await until(known, "all masters are known")
    await create_topic(namesrv, "Orders", 2)
    async with Producer("p", namesrv=namesrv) as producer:
        results = [await producer.send(Message("Orders", b"x")) for _ in range(8)]
    assert {each.queue.broker_name for each in results} == set(names)


async def one_message(namesrv: str) -> None:
    async with Admin(namesrv=namesrv) as admin:
        await until(lambda: admin.masters_of("DefaultCluster"), "the broker is known")
    await create_topic(namesrv, "Orders", 1)
    async with Producer("p", namesrv=namesrv) as producer:

        async def stored() -> bool:
            return (await producer.send(Message("Orders", b"x"))).status is SendStatus.SEND_OK

        await until(stored, "a message is stored, and at the slave if there is one")


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    for name, instance in (
        ("rocketmq-namesrv.service", ""),
        ("rocketmq-broker@.service", "broker-a"),
    ):
        path = tmp_path / name.replace("@", f"@{instance}")
        path.write_text(unit(name, tmp_path, instance).replace("User=rocketmq", "User=daemon"))
        done = subprocess.run(
            ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
        )
        if "Failed to" in done.stderr and "bus" in done.stderr:
            pytest.skip(done.stderr.strip()[-200:])
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def pods() -> dict[str, Any]:
    """The container of each stateful set."""
    kinds = [
        each
        for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
        if each["kind"] == "StatefulSet"
    ]
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]
        for each in kinds
    }


def test_what_kubernetes_starts_works(tmp_path: Path) -> None:
    """Pod 0 of the brokers is a master that waits for its slave, pod 1 the slave; both find the
    name servers by name."""
    containers = pods()
    names = [free_port(), free_port()]
    ports = [free_port(-2, 1), free_port(-2, 1)]
    (tmp_path / "small.conf").write_text(SMALL_FILES)
    with ExitStack() as stack:
        for number, port in enumerate(names):
            command = [*containers["namesrv"]["command"], f"--listenPort={port}"]
            stack.enter_context(running(command, tmp_path / f"namesrv-{number}"))
        shell, option, script = containers["broker-a"]["command"]
        for number, port in enumerate(ports):
            pod = f"export POD_NAME=broker-a-{number} POD_NAMESPACE=default\n" + on_this_machine(
                script, names
            )
            pod = pod.replace(
                "exec mqbroker",
                f"exec {BIN}/mqbroker --listenPort={port} --configFile={tmp_path}/small.conf",
            ).replace("--prometheusPort=5557", "--prometheusPort=0")
            home = tmp_path / f"broker-a-{number}"
            process = stack.enter_context(
                running([shutil.which(shell) or shell, option, pod], home)
            )
            ready = containers["broker-a"]["readinessProbe"]["exec"]["command"]
            ready = [part.replace(":10911", f":{port}") for part in ready]
            wait_until_healthy(f"pod {number}", ["CMD", *ready], process, home / "daemon.log")
            assert (home / "store" / "commitlog").is_dir(), "data lies in the volume"
        asynchronous(lambda: pods_work(names))()


def on_this_machine(text: str, names: list[int]) -> str:
    """With the addresses of this machine in the place of names that only a cluster knows."""
    text = re.sub(
        r"namesrv-([01])\.namesrv[\w.$]*:9876",
        lambda found: f"127.0.0.1:{names[int(found[1])]}",
        text,
    )
    return text.replace("$POD_NAME.broker-a.$POD_NAMESPACE.svc.cluster.local", "127.0.0.1")


async def pods_work(names: list[int]) -> None:
    for port in names:
        async with Admin(namesrv=f"127.0.0.1:{port}") as admin:

            async def both(admin: Admin = admin) -> bool:
                broker = (await admin.cluster_info()).broker_addr_table.get("broker-a")
                return broker is not None and sorted(broker.broker_addrs) == [0, 1]

            await until(both, "master and slave are known")
    await one_message(f"127.0.0.1:{names[0]}")


def test_the_test_starts_what_the_files_say() -> None:
    """If a name in the files changes, what is replaced here has to change with it."""
    assert local_program(["x"])[0] == str(BIN / "x")
    script = pods()["broker-a"]["command"][2]
    assert on_this_machine(script, [1, 2]) != script
    assert "cluster.local" not in on_this_machine(script, [1, 2])
    assert "exec mqbroker" in script
    for name in ("rocketmq-namesrv.service", "rocketmq-broker@.service"):
        text = unit(name, Path("/r"), "i")
        assert not re.search(
            r"/opt/|/etc/rocketmq|/var/lib|%i", re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
        )
