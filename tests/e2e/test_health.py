"""mqhealth beside real daemons, as containers run it: with accounts and nothing but TLS, with a
daemon that hangs, with one that no name server knows."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

from .cluster import HOST, PATIENCE_S, Cluster, until
from .test_client_tls import SecureCluster

PROGRAM = Path(sys.executable).parent / "mqhealth"


def health(*arguments: str) -> tuple[int, str]:
    """Exit code and standard error; nothing is ever printed else."""
    done = subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_with_accounts_and_nothing_but_tls(tmp_path: Path) -> None:
    accounts = tmp_path / "broker-a" / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text("accounts: []\n")
    with SecureCluster(tmp_path) as cluster:
        broker = cluster.start_broker(aclEnable="true", **cluster.tls)
        for address in (cluster.namesrv, broker.address):
            assert health("--tls", address) == (0, "")
            assert health("--tls", "--alive", address) == (0, "")
            code, problem = health(address)
            assert code == 1
            assert "--tls, if it demands TLS" in problem


def test_a_daemon_that_hangs_is_not_healthy(tmp_path: Path) -> None:
    """To connect is still possible: the system does that."""
    with Cluster(tmp_path) as cluster:
        broker = cluster.start_broker()
        broker.process.send_signal(signal.SIGSTOP)
        try:
            socket.create_connection((HOST, broker.port), PATIENCE_S).close()
            for options in ((), ("--alive",)):
                assert health("--timeout", "0.3", *options, broker.address) == (
                    1, f"mqhealth: {broker.address} does not answer within 0.3 s\n",
                )  # fmt: skip
        finally:
            broker.process.send_signal(signal.SIGCONT)
        assert health(broker.address) == (0, "")


def test_a_broker_that_no_name_server_knows_is_alive(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        broker = cluster.start_broker()
        cluster.name_server.end()

        async def unhealthy() -> bool:
            code, problem = await asyncio.to_thread(health, broker.address)
            return code == 1 and "no name server knows this broker" in problem

        asyncio.run(until(unhealthy, "the broker has noticed"))
        assert health("--alive", broker.address) == (0, "")
