"""Brokers: brokerStatus (``admin-cli.md`` §3.8)."""

from __future__ import annotations

from ...remoting.errors import RocketMQError
from .cluster import members_of
from .command import broker_address_option, cluster_option, command
from .output import Output
from .shell import CommandFailed, Shell


@command("brokerStatus")
@broker_address_option
@cluster_option
async def broker_status(shell: Shell, broker_addr: str | None, cluster: str | None) -> None:
    if broker_addr is None and cluster is None:
        raise CommandFailed("a broker or a cluster is needed: add -b HOST:PORT or -c CLUSTER")
    async with shell.admin() as admin:
        if broker_addr is not None:
            _print_figures(shell.out, await admin.broker_runtime_info(broker_addr))
            return
        members = [member for member in members_of(await admin.cluster_info()) if member.cluster == cluster]
        if not members:
            raise CommandFailed(f"there is no cluster {cluster}, as far as the name server knows")
        for member in members:
            try:
                _print_figures(shell.out, await admin.broker_runtime_info(member.address), f"{member.address:<24} ")
            except RocketMQError as error:
                shell.warn(error)


def _print_figures(out: Output, figures: dict[str, str], prefix: str = "") -> None:
    for key, value in sorted(figures.items()):
        out.line(f"{prefix}{key:<32}: {value}")
