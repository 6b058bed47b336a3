"""Brokers: status, configuration, upkeep, how far behind their groups are (``admin-cli.md`` §3.8 to
§3.12)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import click

from ....client.admin import Admin
from ....remoting.errors import RocketMQError
from ....remoting.protocol.commands.admin import TAKES_EFFECT_LATER
from ..command import BOOLEAN, TEXT, Number, broker_address_option, cluster_option, command
from ..java_text import hash_order, seconds_text
from ..output import Layout, Output
from ..shell import Shell
from ..targets import answers, check_target, each, masters, masters_among, replicas

CONSUME_STATS: Final = Layout(
    (
        "#Topic",
        "#Group",
        "#Broker Name",
        "#QID",
        "#Broker Offset",
        "#Consumer Offset",
        "#Diff",
        "#LastTime",
    ),
    row="%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s",
)

cluster_upkeep_option: Final = click.option(
    "-c", "--cluster", "cluster", type=TEXT, help="All brokers of this cluster"
)


@command("brokerStatus", json=True, watch=True)
@broker_address_option
@cluster_option
async def broker_status(shell: Shell, broker_addr: str | None, cluster: str | None) -> None:
    check_target(broker_addr, cluster)
    async with shell.admin() as admin:
        if broker_addr is not None:
            shell.out.pairs(
                dict(sorted((await admin.broker_runtime_info(broker_addr)).items())), "%-32s: %s"
            )
            return
        for member in await admin.members(cluster):
            try:
                figures = dict(sorted((await admin.broker_runtime_info(member.address)).items()))
            except RocketMQError as error:
                shell.warn(error)
            else:
                prefix = f"{member.address:<24} ".replace("%", "%%")
                shell.out.pairs(figures, prefix + "%-32s: %s", name=member.address)


@command("updateBrokerConfig")
@broker_address_option
@cluster_option
@click.option("-k", "--key", required=True, type=TEXT, help="The property")
@click.option("-v", "--value", required=True, type=TEXT, help="Its new value")
async def update_broker_config(
    shell: Shell, broker_addr: str | None, cluster: str | None, key: str, value: str
) -> None:
    check_target(broker_addr, cluster)
    async with shell.admin() as admin:
        addresses = await masters(shell, admin, broker_addr, cluster)
        said: dict[str, str | None] = {}

        async def update(address: str) -> None:
            said[address] = await admin.update_broker_config(address, {key: value})

        async for address in each(shell, addresses, update):
            remark = said[address]
            is_done = remark is None or remark.startswith(TAKES_EFFECT_LATER)
            if is_done:
                shell.out.line(f"update broker config success, {address}")
            if remark is not None:
                (shell.tell if is_done else shell.warn)(f"{address}: {remark}")


@command("getBrokerConfig", json=True, one_of=("broker_addr", "cluster"))
@broker_address_option
@cluster_option
async def get_broker_config(shell: Shell, broker_addr: str | None, cluster: str | None) -> None:
    async with shell.admin() as admin:
        if broker_addr is not None:
            config = await admin.broker_config(broker_addr)
            _print_config(shell.out, broker_addr, config, broker_addr)
            return
        members = await admin.members(cluster)
        titles: dict[str, str] = {}
        for master in masters_among(shell, members):
            titles[master.address] = f"Master: {master.address}"
            for slave in members:
                if slave.broker_name == master.broker_name and not slave.is_master:
                    title = f"My Master: {master.address}=====Slave: {slave.address}"
                    titles[slave.address] = title
        async for address, config in answers(shell, list(titles), admin.broker_config):
            _print_config(shell.out, address, config, titles[address])


def _print_config(out: Output, address: str, config: Mapping[str, str], title: str) -> None:
    out.line(f"============{title}============")
    out.pairs({name: config[name] for name in hash_order(config)}, "%-50s=  %s", name=address)
    out.line()


# --- upkeep
# --------------------------------------------------------------------------------------------------


@command("cleanExpiredCQ")
@broker_address_option
@cluster_upkeep_option
async def clean_expired_cq(shell: Shell, broker_addr: str | None, cluster: str | None) -> None:
    async with shell.admin() as admin:
        await _tidy_up(shell, admin, broker_addr, cluster, admin.clean_expired_consume_queues)


@command("deleteExpiredCommitLog")
@broker_address_option
@cluster_upkeep_option
async def delete_expired_commit_log(
    shell: Shell, broker_addr: str | None, cluster: str | None
) -> None:
    async with shell.admin() as admin:
        await _tidy_up(shell, admin, broker_addr, cluster, admin.delete_expired_commit_logs)


@command("cleanUnusedTopic")
@broker_address_option
@cluster_upkeep_option
async def clean_unused_topic(shell: Shell, broker_addr: str | None, cluster: str | None) -> None:
    async with shell.admin() as admin:
        await _tidy_up(shell, admin, broker_addr, cluster, admin.clean_unused_topics)


async def _tidy_up(
    shell: Shell,
    admin: Admin,
    broker_addr: str | None,
    cluster: str | None,
    operation: Callable[[str], Awaitable[None]],
) -> None:
    """Every broker; ``false`` when it failed on any of them, and why on standard error."""
    for address in await replicas(admin, broker_addr, cluster):
        try:
            await operation(address)
        except RocketMQError as error:
            shell.warn(error)
    shell.out.text("false" if shell.failed else "success")


# --- groups
# --------------------------------------------------------------------------------------------------


@command("brokerConsumeStats", json=True)
@click.option(
    "-b", "--brokerAddr", "broker_addr", required=True, type=TEXT, help="host:port of the broker"
)
@click.option(
    "-t",
    "--timeoutMillis",
    "timeout_ms",
    type=Number(1),
    default=50_000,
    help="Wait so long (ms), 50000",
)
@click.option(
    "-l",
    "--level",
    type=Number(0),
    default=0,
    help="Only queues that are behind by so many messages, 0",
)
@click.option(
    "-o",
    "--order",
    "ordered",
    type=BOOLEAN,
    default=False,
    help="true: only topics consumed in order",
)
async def broker_consume_stats(
    shell: Shell, broker_addr: str, timeout_ms: int, level: int, ordered: bool
) -> None:
    async with shell.admin() as admin:
        stats = await admin.broker_consume_stats(
            broker_addr, ordered=ordered, timeout=timeout_ms / 1000
        )
    with shell.out.table(CONSUME_STATS) as table:
        for group, per_topic in (
            (group, found) for entry in stats.consume_stats_list for group, found in entry.items()
        ):
            for offsets in (found.offset_table for found in per_topic):
                for queue in sorted(offsets):
                    at = offsets[queue]
                    diff = at.broker_offset - at.consumer_offset
                    if diff >= level and at.last_timestamp > 0:
                        names = queue.topic, group, queue.broker_name, queue.queue_id
                        when = seconds_text(at.last_timestamp)
                        table.row(*names, at.broker_offset, at.consumer_offset, diff, when)
    shell.out.line()
    shell.out.fact("diffTotal", stats.total_diff, f"Diff Total: {stats.total_diff}\n")
