"""How far consumer groups are behind: consumerProgress (``admin-cli.md`` §3.15)."""

from __future__ import annotations

from typing import Final

import click

from ....client.admin import Admin
from ....client.errors import NoRouteError
from ....remoting.errors import ConsumerNotOnline, RocketMQError
from ....remoting.protocol.bodies.connection import ConsumerConnection
from ....remoting.protocol.bodies.heartbeat import ConsumeType
from ....remoting.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from ....remoting.protocol.codes import version_name
from ....remoting.protocol.message.message_queue import MessageQueue
from ....remoting.protocol.message.topic_names import (
    group_of_retry_topic,
    is_system_group,
    retry_topic,
)
from ..command import BOOLEAN, TEXT, command
from ..java_text import cut, fixed, hash_order, seconds_text
from ..output import Layout
from ..shell import CommandFailed, Shell, WrongUsage
from ..targets import told_of_the_lost

PROGRESS: Final = Layout(
    ("#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime"),
    row="%-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s",
)
PROGRESS_WITH_CLIENT: Final = Layout(
    (
        "#Topic",
        "#Broker Name",
        "#QID",
        "#Broker Offset",
        "#Consumer Offset",
        "#Client IP",
        "#Diff",
        "#LastTime",
    ),
    row="%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s  %s",
)
GROUPS: Final = Layout(
    ("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total"),
    row="%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s",
)

_UNKNOWN: Final = ""


@command("consumerProgress", json=True, watch=True)
@click.option("-g", "--groupName", "group", type=TEXT, help="One group, queue by queue")
@click.option(
    "-s",
    "--showClientIP",
    "show_client",
    type=BOOLEAN,
    default=False,
    help="true: who has which queue (with -g)",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Every group of every broker, also one that never had a retry topic",
)
@click.option(
    "--sort",
    type=click.Choice(("lag", "tps", "name")),
    help="lag: those that are behind most come first",
)
async def consumer_progress(
    shell: Shell, group: str | None, show_client: bool, every: bool, sort: str | None
) -> None:
    if group is not None and (every or sort):
        raise WrongUsage("--all and --sort are for the list of groups: leave out -g")
    async with shell.admin() as admin:
        if group is None:
            async with told_of_the_lost(shell, admin, None, "everything of it is"):
                await _print_groups(shell, admin, every=every, sort=sort)
            return
        whose = f"its queues of the group {group} are"
        async with told_of_the_lost(shell, admin, retry_topic(group), whose):
            await _print_group(shell, admin, group, show_client)


async def _print_group(shell: Shell, admin: Admin, group: str, show_client: bool) -> None:
    try:
        stats = await admin.consume_stats(group)
    except NoRouteError:
        raise CommandFailed(
            f"no broker knows the consumer group {group}: nobody of it has ever been online"
        ) from None
    if not stats.offset_table:
        raise CommandFailed(f"the group {group} has consumed nothing yet")
    owners = await _queue_owners(shell, admin, group) if show_client else {}
    with shell.out.table(PROGRESS_WITH_CLIENT if show_client else PROGRESS) as table:
        for queue in sorted(stats.offset_table):
            offsets = stats.offset_table[queue]
            client = (owners.get(queue, "N/A"),) if show_client else ()
            table.row(*_queue_cells(queue, offsets), *client, *_diff_cells(offsets))
    shell.out.line()
    shell.out.fact("consumeTps", stats.consume_tps, f"Consume TPS: {fixed(stats.consume_tps, 2)}\n")
    shell.out.fact("diffTotal", stats.total_diff, f"Diff Total: {stats.total_diff}\n")


def _queue_cells(queue: MessageQueue, offsets: OffsetWrapper) -> tuple[object, ...]:
    names = cut(queue.topic, 64), cut(queue.broker_name, 32), queue.queue_id
    return *names, offsets.broker_offset, offsets.consumer_offset


def _diff_cells(offsets: OffsetWrapper) -> tuple[object, ...]:
    when = seconds_text(offsets.last_timestamp) if offsets.last_timestamp > 0 else "N/A"
    return offsets.broker_offset - offsets.consumer_offset, when


async def _queue_owners(shell: Shell, admin: Admin, group: str) -> dict[MessageQueue, str]:
    """The address part of the client id that has each queue; nothing of a client that does not
    answer."""
    owners: dict[MessageQueue, str] = {}
    try:
        connections = (await admin.consumer_connection(group)).connection_set
    except RocketMQError as error:
        shell.warn(error)
        return owners
    for connection in connections:
        client_id = connection.client_id or ""
        try:
            info = await admin.consumer_running_info(group, client_id)
        except RocketMQError as error:
            shell.warn(f"{client_id}: {error}")
        else:
            owners.update(dict.fromkeys(info.mq_table, client_id.partition("@")[0]))
    return owners


async def _print_groups(shell: Shell, admin: Admin, *, every: bool, sort: str | None) -> None:
    groups = await (_groups_of_brokers(admin) if every else _groups_with_retry_topic(admin))
    with shell.out.table(GROUPS) as table:
        if sort is None:
            for group in groups:
                table.row(*await _group_row(shell, admin, group))
            return
        rows = []
        for number, group in enumerate(groups, start=1):
            shell.out.progress(f"{number} of {len(groups)} groups")
            rows.append(await _group_row(shell, admin, group))
        column = GROUPS.headings.index(
            {"lag": "#Diff Total", "tps": "#TPS", "name": "#Group"}[sort]
        )

        def place(row: tuple[object, ...]) -> tuple[bool, object]:
            return row[column] != _UNKNOWN, row[column]

        for row in sorted(rows, key=place, reverse=sort != "name"):
            table.row(*row)


async def _groups_with_retry_topic(admin: Admin) -> list[str]:
    return [
        group
        for topic in hash_order(await admin.topic_list())
        if (group := group_of_retry_topic(topic)) is not None
    ]


async def _groups_of_brokers(admin: Admin) -> list[str]:
    """Of all masters, without those that the system uses itself."""
    found: set[str] = set()
    for member in await admin.members():
        if member.is_master:
            found |= (
                await admin.subscription_groups(member.address)
            ).subscription_group_table.keys()
    return sorted(group for group in found if not is_system_group(group))


async def _group_row(shell: Shell, admin: Admin, group: str) -> tuple[object, ...]:
    """Blank is what could not be asked for: that is no 0, and nobody offline."""
    clients: tuple[object, ...] = (_UNKNOWN,) * 4
    figures: tuple[object, ...] = (_UNKNOWN,) * 2
    try:
        stats = await _stats(admin, group)
        figures = int(stats.consume_tps), stats.total_diff
        clients = connection_cells(await _connection(admin, group))
    except RocketMQError as error:
        shell.warn(f"{group}: {error}")
    return cut(group, 64), *clients, *figures


async def _stats(admin: Admin, group: str) -> ConsumeStats:
    try:
        return await admin.consume_stats(group)
    except NoRouteError:  # it never consumed
        return ConsumeStats()


async def _connection(admin: Admin, group: str) -> ConsumerConnection | None:
    try:
        return await admin.consumer_connection(group)
    except (ConsumerNotOnline, NoRouteError):
        return None


def connection_cells(connection: ConsumerConnection | None) -> tuple[object, ...]:
    """Number of clients, lowest version, PUSH or PULL, message model (of push consumers)."""
    if connection is None or not connection.connection_set:
        return 0, "OFFLINE", "", ""
    version = version_name(min(client.version for client in connection.connection_set))
    push = connection.consume_type is not ConsumeType.CONSUME_ACTIVELY
    model = connection.message_model.name if push and connection.message_model else ""
    return len(connection.connection_set), version, "PUSH" if push else "PULL", model
