"""Members that are known by name: one moves to another machine, and nobody is started anew.

Each process sees a file of names of its own test in the place of ``/etc/hosts``: that needs a mount
namespace (root)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from aiorocketmq import Admin, Message, Producer
from aiorocketmq.broker.config.addresses import free_ports

from .cluster import HOST, PATIENCE_S, asynchronous, until
from .raft_group import GROUP

NAMED = 'mount --bind "$0" /etc/hosts && exec "$@"'
NEW_HOST = "127.0.0.14"


def may_mount() -> bool:
    tool = shutil.which("unshare")
    return tool is not None and not subprocess.run([tool, "-m", "true"], check=False).returncode


class Machines:
    """Loopback addresses with names, members on them, and one name server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = folder / "hosts"
        self._names.write_text("")
        self.hosts: dict[str, str] = {}
        self.ports: dict[str, int] = {}
        self._peer_port, self._namesrv_port, *ports = free_ports(HOST, 5)
        self.namesrv: str = f"{HOST}:{self._namesrv_port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for number in range(3):
            self.is_at(f"n{number}", f"127.0.0.{11 + number}")
            self.ports[f"n{number}"] = ports[number]

    def is_at(self, member: str, host: str) -> None:
        """Its name leads there from now on."""
        self.hosts[member] = host
        lines = [f"{HOST} localhost", *(f"{at} mq-{name}" for name, at in self.hosts.items())]
        with self._names.open("r+") as file:  # in place: the mount is of this file
            file.truncate()
            file.write("\n".join(lines) + "\n")

    def address(self, member: str) -> str:
        return f"{self.hosts[member]}:{self.ports[member]}"

    def start_name_server(self) -> None:
        self._start("namesrv", listenPort=self._namesrv_port, bindAddress=HOST)

    def start(self, member: str) -> None:
        self._start(
            member,
            brokerName=GROUP,
            namesrvAddr=self.namesrv,
            listenPort=self.ports[member],
            bindAddress=self.hosts[member],
            brokerIP1=self.hosts[member],
            storePathRootDir=self._folder / member,
            mappedFileSizeCommitLog=1 << 20,
            enableDLegerCommitLog="true",
            dLegerSelfId=member,
            dLegerPeers=";".join(f"{each}-mq-{each}:{self._peer_port}" for each in self.hosts),
        )

    def _start(self, name: str, **properties: object) -> None:
        module = "aiorocketmq.namesrv" if name == "namesrv" else "aiorocketmq.broker"
        options = [f"--{key}={value}" for key, value in properties.items()]
        program = [sys.executable, "-m", module, *options]
        environment = {**os.environ, "HOME": str(self._folder), "ROCKETMQ_HOME": str(self._folder)}
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                ["unshare", "-m", "sh", "-c", NAMED, str(self._names), *program],
                stdout=log,
                stderr=log,
                env=environment,
            )

    def lose(self, member: str) -> None:
        """Its machine and its disk are gone."""
        process = self._processes.pop(member)
        process.kill()
        process.wait(PATIENCE_S)
        shutil.rmtree(self._folder / member)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(PATIENCE_S)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    if not may_mount():
        pytest.skip("processes with names of their own need root and unshare")
    with ExitStack() as stack:
        machines = Machines(tmp_path)
        stack.callback(machines.close)
        yield machines


def test_a_name_leads_to_another_machine(machines: Machines) -> None:
    machines.start_name_server()
    for name in machines.hosts:
        machines.start(name)

    @asynchronous
    async def scenario() -> None:
        async with Admin(namesrv=machines.namesrv) as admin:
            leader = await leader_of_all(admin)
            async with Producer("p", namesrv=machines.namesrv) as producer:
                for number in range(20):
                    await producer.send(Message("T", b"%d" % number))
                moving = next(n for n in machines.hosts if machines.address(n) != leader)
                machines.lose(moving)
                machines.is_at(moving, NEW_HOST)
                machines.start(moving)
                for number in range(20, 40):
                    await producer.send(Message("T", b"%d" % number))

            async def complete() -> bool:
                members = [await admin.raft_member(machines.address(n)) for n in machines.hosts]
                ends = {each.committed_index for each in members}
                return len(ends) == 1 and all(each.votes for each in members)

            await until(complete, f"{moving} is a full member at {NEW_HOST}")

    scenario()


async def leader_of_all(admin: Admin) -> str:
    """Its address, when all three are known."""
    found: list[str] = []

    async def known() -> bool:
        broker = (await admin.cluster_info()).broker_addr_table.get(GROUP)
        addresses = {} if broker is None else broker.broker_addrs
        found[:] = [addresses[0]] if len(addresses) == 3 and 0 in addresses else []
        return bool(found)

    await until(known, "a master and two followers are known")
    return found[0]
