"""Brokers: brokerStatus (``admin-cli.md`` §3.8)."""

from __future__ import annotations

from ...remoting.errors import RocketMQError
from .cluster import members_of
from .command import broker_address_option, cluster_option, command
from .shell import CommandFailed, Shell


@command("brokerStatus")
@broker_address_option
@cluster_option
async def broker_status(shell: Shell, broker_addr: str | None, cluster: str | None) -> None:
    async with shell.admin() as admin:
        if broker_addr is not None:
            for key, value in sorted((await admin.broker_runtime_info(broker_addr)).items()):
                shell.out.line(f"{key:<32}: {value}")
        elif cluster is not None:
            members = [member for member in members_of(await admin.cluster_info()) if member.cluster == cluster]
            for member in members:
                try:
                    figures = await admin.broker_runtime_info(member.address)
                except RocketMQError as error:
                    shell.warn(error)
                    continue
                for key, value in sorted(figures.items()):
                    shell.out.line(f"{member.address:<24} {key:<32}: {value}")
        else:
            raise CommandFailed("a broker or a cluster is needed: add -b HOST:PORT or -c CLUSTER")
