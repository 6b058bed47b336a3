"""What is just starting is waited for, what is missing is not waited for longer than asked."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Iterator

import pytest

from aiorocketmq import Admin
from aiorocketmq.broker.config.addresses import free_port
from aiorocketmq.namesrv.config import NamesrvConfig
from aiorocketmq.namesrv.daemon import NameServer
from aiorocketmq.testing import LocalCluster
from aiorocketmq.tools.mqadmin.patience import Patience

from .conftest import MqAdmin

HOST = "127.0.0.1"
UP_TO = "(up to 0.2 s: --wait)\n"


@pytest.fixture
def dead_address() -> Iterator[str]:
    """Nothing listens there, and nobody else is given it meanwhile."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        yield f"{HOST}:{taken.getsockname()[1]}"


@pytest.mark.parametrize("named", ["name server", "broker"])
def test_a_cluster_that_starts_meanwhile_is_used(named: str) -> None:
    """It starts when the line is told that it is waited for."""
    ports = free_port(HOST), free_port(HOST)
    namesrv, broker = (f"{HOST}:{port}" for port in ports)
    told: list[str] = []

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack, asyncio.timeout(60):
            starting: list[asyncio.Task[LocalCluster]] = []

            def tell(line: str) -> None:
                told.append(line)
                cluster = LocalCluster(namesrv_port=ports[0], broker_port=ports[1])
                starting.append(asyncio.create_task(stack.enter_async_context(cluster)))

            patience = Patience(60, broker if named == "broker" else None, tell)
            async with Admin(namesrv=namesrv) as admin:
                await patience.wait(admin, for_brokers=True)
                if named == "broker":
                    assert await admin.broker_runtime_info(broker)
                else:
                    assert (await admin.cluster_info()).broker_addr_table
            await starting[0]

    asyncio.run(main())
    waited_for = broker if named == "broker" else namesrv
    assert told == [f"waiting for {waited_for}, where nothing listens yet (up to 60 s: --wait)"]


@pytest.mark.parametrize(
    "line",
    ["clusterList -n {dead}", "sendMessage -n {dead} -t T -p x", "topicStatus -n {dead} -t T"],
)
def test_what_does_not_come_is_told_in_its_own_words(
    mqadmin: MqAdmin, dead_address: str, line: str
) -> None:
    command, *words = line.format(dead=dead_address).split()
    printed = mqadmin(command, *words, "--wait", "0.2")
    waiting, problem = printed.err.splitlines(keepends=True)
    assert waiting == (
        f"mqadmin {command}: waiting for {dead_address}, where nothing listens yet {UP_TO}"
    )
    assert problem == mqadmin(command, *words, "--wait", "0").err
    assert printed.code == 1


def test_a_broker_that_was_named_and_does_not_come(admin: MqAdmin, dead_address: str) -> None:
    printed = admin("brokerStatus", "-b", dead_address, "--wait", "0.2")
    reason = "connection refused (nothing listens there)"
    assert printed.err == (
        f"mqadmin brokerStatus: waiting for {dead_address}, where nothing listens yet {UP_TO}"
        f"mqadmin brokerStatus: cannot connect to {dead_address}: {reason}\n"
    )


def test_one_name_server_of_two_is_enough(
    mqadmin: MqAdmin, cluster: LocalCluster, dead_address: str
) -> None:
    both = f"{dead_address};{cluster.namesrv_address}"
    printed = mqadmin("clusterList", "-n", both, "--wait", "60")
    assert (printed.code, printed.err) == (0, "")


def test_an_unknown_host_is_not_waited_for(mqadmin: MqAdmin) -> None:
    printed = mqadmin("clusterList", "-n", "no-such-host.invalid:9876", "--wait", "60")
    assert "waiting" not in printed.err
    assert printed.code == 1


def test_a_wrong_name_is_not_waited_for(admin: MqAdmin, cluster: LocalCluster) -> None:
    for words in ("topicStatus -t Nowhere", "updateTopic -c Nowhere -t T"):
        printed = admin(*words.split(), "--wait", "60")
        assert printed.err.count("\n") == 1
        assert "waiting" not in printed.err


@pytest.mark.parametrize(("command", "waits"), [("clusterList", True), ("getNamesrvConfig", False)])
def test_the_first_broker_is_waited_for_by_who_asks_brokers(
    mqadmin: MqAdmin, command: str, waits: bool
) -> None:
    async def main() -> str:
        server = NameServer(NamesrvConfig(listen_port=0, bind_address=HOST))
        await server.listen()
        running = asyncio.create_task(server.run())
        try:
            return await asyncio.to_thread(
                lambda: mqadmin(command, "-n", f"{HOST}:{server.port}", "--wait", "0.2").err
            )
        finally:
            running.cancel()
            await asyncio.wait([running])

    told = asyncio.run(main())
    expected = rf"mqadmin clusterList: waiting for a broker to register at {HOST}:\d+ "
    assert re.fullmatch(re.escape(UP_TO).join([expected, ""]), told) if waits else told == ""
