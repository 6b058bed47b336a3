"""Rates and shares: statsAll, allocateMQ (``admin-cli.md`` §3.32, §3.35)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import click

from ....client.admin import Admin
from ....client.consumer.rebalance import averagely, sorted_client_ids, sorted_queues
from ....client.errors import NoRouteError
from ....remoting.errors import BrokerError, RocketMQError
from ....remoting.protocol.bodies.stats import BrokerStatsData
from ....remoting.protocol.codes import ResponseCode
from ....remoting.protocol.fastjson.writer import dumps
from ....remoting.protocol.message.topic_names import is_dlq_topic, is_retry_topic
from ..command import TEXT, command, topic_option
from ..java_text import cut, fixed, hash_order
from ..output import Layout, Table
from ..shell import CommandFailed, Shell, WrongUsage

STATS: Final = Layout(
    (
        "#Topic",
        "#Consumer Group",
        "#Accumulation",
        "#InTPS",
        "#OutTPS",
        "#InMsg24Hour",
        "#OutMsg24Hour",
    ),
    row="%-64s  %-64s %12s %11s %11s %14s %14s",
)
SHARES: Final = Layout(("#Client", "#Broker Name", "#QID"), row="%s %s %s")


class Traffic(NamedTuple):
    """Of all brokers of a topic together."""

    per_second: float = 0.0
    in_24_hours: int = 0


@command("statsAll", json=True)
@click.option(
    "-a",
    "--activeTopic",
    "active",
    is_flag=True,
    help="Only topics with messages in the last 24 hours",
)
@click.option("-t", "--topic", type=TEXT, help="Only this topic")
async def stats_all(shell: Shell, active: bool, topic: str | None) -> None:
    async with shell.admin() as admin:
        topics = [
            name
            for name in hash_order(await admin.topic_list())
            if not (is_retry_topic(name) or is_dlq_topic(name))
        ]
        if topic is not None and topic not in topics:
            raise CommandFailed(f"no broker has the topic {topic}, as far as the name server knows")
        with shell.out.table(STATS) as table:
            for name in [topic] if topic is not None else topics:
                try:
                    await _print_topic(admin, table, name, active=active)
                except RocketMQError as error:
                    shell.warn(f"{name}: {error}")
                    table.row(cut(name, 64), *[""] * 6)  # unknown, and no 0


async def _print_topic(admin: Admin, table: Table, topic: str, *, active: bool) -> None:
    masters = [
        b.master_addr
        for b in (await admin.topic_route(topic)).broker_datas
        if b.master_addr is not None
    ]
    groups = await admin.query_topic_consume_by_who(topic)
    put = await _traffic(admin, masters, "TOPIC_PUT_NUMS", topic)
    if not groups:
        if not active or put.in_24_hours > 0:
            table.row(
                cut(topic, 64), "", 0, fixed(put.per_second, 2), "", put.in_24_hours, "NO_CONSUMER"
            )
        return
    for group in groups:
        got = await _traffic(admin, masters, "GROUP_GET_NUMS", f"{topic}@{group}")
        behind = await _behind(admin, group, topic)
        if not active or put.in_24_hours > 0 or got.in_24_hours > 0:
            rates = fixed(put.per_second, 2), fixed(got.per_second, 2)
            table.row(
                cut(topic, 64), cut(group, 64), behind, *rates, put.in_24_hours, got.in_24_hours
            )


async def _traffic(admin: Admin, addresses: Iterable[str], name: str, key: str) -> Traffic:
    """A broker that counted nothing of it answers with an error: that is 0. Raises what any of
    them says besides."""
    per_second, in_24_hours = 0.0, 0
    for address in addresses:
        stats = await counted(admin, address, name, key)
        per_second += stats.stats_minute.tps
        in_24_hours += sum_of_24_hours(stats)
    return Traffic(per_second, in_24_hours)


async def counted(admin: Admin, address: str, name: str, key: str) -> BrokerStatsData:
    """Zeros where a broker counted nothing of it."""
    try:
        return await admin.broker_stats(address, name, key)
    except BrokerError as error:
        if error.code != ResponseCode.SYSTEM_ERROR:
            raise
        return BrokerStatsData()


def sum_of_24_hours(stats: BrokerStatsData) -> int:
    """Of the longest window that has anything in it: a broker that was just started has no day
    yet."""
    return stats.stats_day.sum or stats.stats_hour.sum or stats.stats_minute.sum


async def _behind(admin: Admin, group: str, topic: str) -> int:
    try:
        offsets = (await admin.consume_stats(group, topic)).offset_table
    except NoRouteError:  # it never consumed
        return 0
    return sum(
        found.broker_offset - found.consumer_offset
        for queue, found in offsets.items()
        if queue.topic == topic
    )


@command("allocateMQ", json=True)
@topic_option
@click.option(
    "-i",
    "--ipList",
    "clients",
    required=True,
    type=TEXT,
    help="Who shares the queues, separated by commas",
)
async def allocate_mq(shell: Shell, topic: str, clients: str) -> None:
    """As consumers share queues by default: clients and queues sorted."""
    members = sorted_client_ids({name.strip() for name in clients.split(",") if name.strip()})
    if not members:
        raise WrongUsage("nobody is there to share the queues: add -i CLIENT,CLIENT")
    async with shell.admin() as admin:
        queues = sorted_queues(await admin.read_queues(topic))
    shares = {name: averagely(name, queues, members) for name in hash_order(members)}
    if not shell.out.as_json:
        shell.out.line(dumps({"result": shares}).decode())
        return
    with shell.out.table(SHARES) as table:
        for name in members:
            for queue in shares[name]:
                table.row(name, queue.broker_name, queue.queue_id)
