"""Consumer groups as brokers keep them: updateSubGroup, deleteSubGroup, getConsumerConfig
(``admin-cli.md`` §3.13)."""

from __future__ import annotations

import click

from ....remoting.protocol.bodies.subscription_group import SubscriptionGroupConfig
from ....remoting.protocol.message.retries import MAX_RECONSUME_TIMES
from ....remoting.protocol.message.topic_names import dlq_topic, retry_topic
from ..command import BOOLEAN, TEXT, Number, broker_address_option, cluster_option, command, grouped
from ..java_text import subscription_group_fields, subscription_group_text
from ..shell import CommandFailed, Shell
from ..targets import answers, check_target, each, masters, masters_among
from .topic import delete_everywhere


@command("updateSubGroup")
@broker_address_option
@cluster_option
@click.option(
    "-g", "--groupName", "group_name", required=True, type=TEXT, help="The consumer group"
)
@click.option(
    "-s",
    "--consumeEnable",
    "consume_enable",
    type=BOOLEAN,
    default=True,
    help="false: it may not consume",
)
@click.option(
    "-m",
    "--consumeFromMinEnable",
    "consume_from_min_enable",
    type=BOOLEAN,
    default=False,
    help="true: it may start at the oldest",
)
@click.option(
    "-d",
    "--consumeBroadcastEnable",
    "consume_broadcast_enable",
    type=BOOLEAN,
    default=False,
    help="true: it may broadcast",
)
@click.option(
    "-q",
    "--retryQueueNums",
    "retry_queue_nums",
    type=Number(0),
    default=1,
    help="Queues of its retry topic, 1",
)
@click.option(
    "-r",
    "--retryMaxTimes",
    "retry_max_times",
    type=Number(-1),
    default=MAX_RECONSUME_TIMES,
    help=f"Retries per message, {MAX_RECONSUME_TIMES}",
)
@click.option(
    "-i", "--brokerId", "broker_id", type=Number(0), default=0, help="Which broker it reads from, 0"
)
@click.option(
    "-w",
    "--whichBrokerWhenConsumeSlowly",
    "which_broker_when_consume_slowly",
    type=Number(0),
    default=1,
    help="... when it is slow, 1",
)
@click.option(
    "-a",
    "--notifyConsumerIdsChanged",
    "notify_consumer_ids_changed_enable",
    type=BOOLEAN,
    default=True,
    help="Tell members of changes, true",
)
@grouped("config", SubscriptionGroupConfig)
async def update_sub_group(
    shell: Shell, broker_addr: str | None, cluster: str | None, config: SubscriptionGroupConfig
) -> None:
    check_target(broker_addr, cluster)
    made = False
    async with shell.admin() as admin:
        async for address in each(
            shell,
            await masters(shell, admin, broker_addr, cluster),
            lambda address: admin.create_subscription_group(address, config),
        ):
            shell.out.line(f"create subscription group to {address} success.")
            made = True
    if made:
        shell.out.text(subscription_group_text(config))


@command("deleteSubGroup")
@broker_address_option
@cluster_option
@click.option("-g", "--groupName", "group", required=True, type=TEXT, help="The consumer group")
@click.option(
    "-r",
    "--removeOffset",
    "remove_offset",
    type=BOOLEAN,
    default=False,
    help="true: its offsets too",
)
async def delete_sub_group(
    shell: Shell, broker_addr: str | None, cluster: str | None, group: str, remove_offset: bool
) -> None:
    """On a cluster its retry topic and its dead letters go too; on a single broker they stay."""
    check_target(broker_addr, cluster)
    where = f" in cluster [{cluster}]" if broker_addr is None else ""
    async with shell.admin() as admin:
        addresses, deleted = await masters(shell, admin, broker_addr, cluster), set[str]()
        async for address in each(
            shell,
            addresses,
            lambda address: admin.delete_subscription_group(
                address, group, remove_offset=remove_offset
            ),
        ):
            deleted.add(address)
            shell.out.line(
                f"delete subscription group [{group}] from broker [{address}]{where} success."
            )
        if broker_addr is not None or cluster is None:
            return
        for topic in (retry_topic(group), dlq_topic(group)):
            masters_now = await admin.masters_of(cluster)
            gone_from = [each for each in masters_now if each in deleted]  # others have the group
            await delete_everywhere(shell, admin, topic, cluster, gone_from)


@command("getConsumerConfig", json=True)
@click.option("-g", "--groupName", "group", required=True, type=TEXT, help="The consumer group")
async def get_consumer_config(shell: Shell, group: str) -> None:
    """From every master that has it."""
    found = False
    async with shell.admin() as admin:
        names = {
            master.address: f"{master.cluster}:{master.broker_name}"
            for master in masters_among(shell, await admin.members())
        }
        async for address, table in answers(shell, list(names), admin.subscription_groups):
            config = table.subscription_group_table.get(group)
            if config is None:
                continue
            found = True
            line, name = "=" * 29, names[address]
            shell.out.line(f"{line}{name}{line}")
            shell.out.pairs(subscription_group_fields(config), "%-40s=  %s", name=name)
    if not found:
        asked = " that could be asked" if shell.failed else ""
        raise CommandFailed(f"no broker{asked} has the consumer group {group}")
