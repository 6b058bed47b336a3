"""Consumer groups: consumerProgress, updateSubGroup (``admin-cli.md`` §3.13, §3.15)."""

from __future__ import annotations

from typing import Final

import click

from ...client.admin import Admin
from ...client.errors import NoRouteError
from ...remoting.errors import RocketMQError
from ...remoting.protocol.bodies.connection import ConsumerConnection
from ...remoting.protocol.bodies.heartbeat import ConsumeType
from ...remoting.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from ...remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from ...remoting.protocol.codes import version_name
from ...remoting.protocol.message import MessageQueue
from ...remoting.protocol.topic_names import TopicName, is_retry_topic
from .command import BOOLEAN, TEXT, Number, broker_address_option, cluster_option, command
from .java_text import cut, fixed, hash_order, seconds_text, subscription_group_text
from .output import Layout
from .shell import CommandFailed, Shell

PROGRESS: Final = Layout(
    ("#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime"),
    row="%-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s",
)
PROGRESS_WITH_CLIENT: Final = Layout(
    ("#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Client IP", "#Diff", "#LastTime"),
    row="%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s  %s",
)
GROUPS: Final = Layout(
    ("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total"),
    row="%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s",
)


@command("consumerProgress")
@click.option("-g", "--groupName", "group", type=TEXT, help="One group, queue by queue")
@click.option("-s", "--showClientIP", "show_client", type=BOOLEAN, default=False, help="true: who has which queue (with -g)")
async def consumer_progress(shell: Shell, group: str | None, show_client: bool) -> None:
    async with shell.admin() as admin:
        if group is None:
            await _print_groups(shell, admin)
        else:
            await _print_group(shell, admin, group, show_client)


async def _print_group(shell: Shell, admin: Admin, group: str, show_client: bool) -> None:
    try:
        stats = await admin.consume_stats(group)
    except NoRouteError:
        raise CommandFailed(f"no broker knows the consumer group {group}: nobody of it has ever been online") from None
    if not stats.offset_table:
        raise CommandFailed(f"the group {group} has consumed nothing yet")
    owners = await _queue_owners(shell, admin, group) if show_client else {}
    with shell.out.table(PROGRESS_WITH_CLIENT if show_client else PROGRESS) as table:
        for queue in sorted(stats.offset_table):
            offsets = stats.offset_table[queue]
            client = (owners.get(queue, "N/A"),) if show_client else ()
            table.row(*_queue_cells(queue, offsets), *client, *_diff_cells(offsets))
    shell.out.line()
    shell.out.line(f"Consume TPS: {fixed(stats.consume_tps, 2)}")
    shell.out.line(f"Diff Total: {stats.total_diff}")


def _queue_cells(queue: MessageQueue, offsets: OffsetWrapper) -> tuple[object, ...]:
    names = cut(queue.topic, 64), cut(queue.broker_name, 32), queue.queue_id
    return *names, offsets.broker_offset, offsets.consumer_offset


def _diff_cells(offsets: OffsetWrapper) -> tuple[object, ...]:
    when = seconds_text(offsets.last_timestamp) if offsets.last_timestamp > 0 else "N/A"
    return offsets.broker_offset - offsets.consumer_offset, when


async def _queue_owners(shell: Shell, admin: Admin, group: str) -> dict[MessageQueue, str]:
    """The address part of the client id that has each queue; nothing of a client that does not answer."""
    owners = {}
    try:
        for connection in (await admin.consumer_connection(group)).connection_set:
            client_id = connection.client_id or ""
            info = await admin.consumer_running_info(group, client_id)
            owners.update(dict.fromkeys(info.mq_table, client_id.partition("@")[0]))
    except RocketMQError as error:
        shell.warn(error)
    return owners


async def _print_groups(shell: Shell, admin: Admin) -> None:
    retry_topics = [topic for topic in hash_order(await admin.topic_list()) if is_retry_topic(topic)]
    with shell.out.table(GROUPS) as table:
        for group in (topic.removeprefix(TopicName.RETRY_PREFIX) for topic in retry_topics):
            stats, connection = await _stats_or_none(admin, group), await _connection_or_none(admin, group)
            tps, diff = (int(stats.consume_tps), stats.total_diff) if stats else (0, 0)
            table.row(cut(group, 64), *connection_cells(connection), tps, diff)


async def _stats_or_none(admin: Admin, group: str) -> ConsumeStats | None:
    try:
        return await admin.consume_stats(group)
    except RocketMQError:  # a group that never consumed has none; its row says 0
        return None


async def _connection_or_none(admin: Admin, group: str) -> ConsumerConnection | None:
    try:
        return await admin.consumer_connection(group)
    except RocketMQError:  # nobody is online; its row says so
        return None


def connection_cells(connection: ConsumerConnection | None) -> tuple[object, ...]:
    """Number of clients, lowest version, PUSH or PULL, message model (of push consumers)."""
    if connection is None or not connection.connection_set:
        return 0, "OFFLINE", "", ""
    version = version_name(min(client.version for client in connection.connection_set))
    push = connection.consume_type is not ConsumeType.CONSUME_ACTIVELY
    model = connection.message_model.name if push and connection.message_model else ""
    return len(connection.connection_set), version, "PUSH" if push else "PULL", model


@command("updateSubGroup")
@broker_address_option
@cluster_option
@click.option("-g", "--groupName", "group", required=True, type=TEXT, help="The consumer group")
@click.option("-s", "--consumeEnable", "consume", type=BOOLEAN, default=True, help="false: it may not consume")
@click.option(
    "-m", "--consumeFromMinEnable", "from_min", type=BOOLEAN, default=False, help="true: it may start at the oldest"
)
@click.option("-d", "--consumeBroadcastEnable", "broadcast", type=BOOLEAN, default=False, help="true: it may broadcast")
@click.option("-q", "--retryQueueNums", "retry_queues", type=Number(0), default=1, help="Queues of its retry topic, 1")
@click.option("-r", "--retryMaxTimes", "retries", type=Number(-1), default=16, help="Retries per message, 16")
@click.option("-i", "--brokerId", "broker_id", type=Number(0), default=0, help="Which broker it reads from, 0")
@click.option(
    "-w", "--whichBrokerWhenConsumeSlowly", "slow_broker", type=Number(0), default=1, help="... when it is slow, 1"
)
@click.option("-a", "--notifyConsumerIdsChanged", "notify", type=BOOLEAN, default=True, help="Tell members of changes, true")
async def update_sub_group(
    shell: Shell,
    broker_addr: str | None,
    cluster: str | None,
    group: str,
    consume: bool,
    from_min: bool,
    broadcast: bool,
    retry_queues: int,
    retries: int,
    broker_id: int,
    slow_broker: int,
    notify: bool,
) -> None:
    if broker_addr is None and cluster is None:
        raise CommandFailed("a broker or a cluster is needed: add -b HOST:PORT or -c CLUSTER")
    config = SubscriptionGroupConfig(
        group_name=group,
        consume_enable=consume,
        consume_from_min_enable=from_min,
        consume_broadcast_enable=broadcast,
        retry_queue_nums=retry_queues,
        retry_max_times=retries,
        broker_id=broker_id,
        which_broker_when_consume_slowly=slow_broker,
        notify_consumer_ids_changed_enable=notify,
    )
    async with shell.admin() as admin:
        addresses = [broker_addr] if broker_addr is not None else await admin.masters_of(cluster or "")
        for address in addresses:
            await admin.create_subscription_group(address, config)
            shell.out.line(f"create subscription group to {address} success.")
    shell.out.text(subscription_group_text(config))
