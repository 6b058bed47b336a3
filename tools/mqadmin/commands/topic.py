"""Topics: making, changing, deleting, where they are, what is in them (``admin-cli.md`` §3.1 to
§3.6, §3.31)."""

from __future__ import annotations

from typing import Final, NamedTuple

import click
import msgspec

from ....client.admin import Admin
from ....client.admin.topics import check_order_config
from ....remoting.errors import RocketMQError
from ....remoting.protocol.bodies.route import ClusterInfo, TopicRouteData
from ....remoting.protocol.bodies.topic_config import TopicConfig
from ....remoting.protocol.fastjson.writer import dumps_pretty
from ....remoting.protocol.message.sys_flag import TopicSysFlag
from ....remoting.protocol.message.topic_names import is_dlq_topic, is_retry_topic
from ..command import (
    BOOLEAN,
    TEXT,
    Checked,
    Number,
    broker_address_option,
    cluster_option,
    command,
    grouped,
    topic_option,
)
from ..java_text import cut, hash_order, millis_text, topic_config_text
from ..output import Layout, Output
from ..shell import CommandFailed, Shell, WrongUsage
from ..targets import each, every_name_server, masters_in

QUEUE_NUMS: Final = 8
DASHES: Final = 158

NAMES: Final = Layout(("#Topic",), row="%s", header="")
CLUSTERS: Final = Layout(("#Cluster Name",), row="%s", header="")
WITH_STATS: Final = Layout(
    ("#Topic", "#Queues", "#Messages", "#Last Updated"), row="%-64s  %-6s  %-20s  %s"
)
BY_CLUSTER: Final = Layout(
    ("#Cluster Name", "#Topic", "#Consumer Group"),
    row="%-20s  %-64s  %-64s",
    header="%-20s  %-48s  %-48s",
)
ROUTE: Final = Layout(
    ("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm"),
    row="%-45s %-32s %-50s %-10s %-11s %-5s",
)
STATUS: Final = Layout(
    ("#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated"),
    row="%-32s  %-4s  %-20s  %-20s    %s",
)


class _Shape(NamedTuple):
    """What ``updateTopic`` says about a topic."""

    read_queues: int
    write_queues: int
    perm: int
    order: bool
    unit: bool
    unit_sub: bool

    def of(self, topic: str) -> TopicConfig:
        return TopicConfig(
            topic_name=topic,
            read_queue_nums=self.read_queues,
            write_queue_nums=self.write_queues,
            perm=self.perm,
            topic_sys_flag=TopicSysFlag.UNIT * self.unit | TopicSysFlag.UNIT_SUB * self.unit_sub,
            order=self.order,
        )


@command("updateTopic", one_of=("broker_addr", "cluster"), log_level="WARNING")
@broker_address_option
@cluster_option
@topic_option
@click.option(
    "-r",
    "--readQueueNums",
    "read_queues",
    type=Number(1),
    default=QUEUE_NUMS,
    help="Queues to read, 8",
)
@click.option(
    "-w",
    "--writeQueueNums",
    "write_queues",
    type=Number(1),
    default=QUEUE_NUMS,
    help="Queues to write, 8",
)
@click.option(
    "-p", "--perm", type=Number(0, 7), default=6, help="2 write, 4 read, 6 both (default)"
)
@click.option(
    "-o",
    "--order",
    type=BOOLEAN,
    default=False,
    help="true: queues keep their number for ordered messages",
)
@click.option("-u", "--unit", type=BOOLEAN, default=False, help="true: a unit topic")
@click.option(
    "-s",
    "--hasUnitSub",
    "unit_sub",
    type=BOOLEAN,
    default=False,
    help="true: units subscribe to it",
)
@grouped("shape", _Shape)
async def update_topic(
    shell: Shell, broker_addr: str | None, cluster: str | None, topic: str, shape: _Shape
) -> None:
    config, made = shape.of(topic), True
    async with shell.admin() as admin:
        if broker_addr is not None:
            await _update_on_broker(shell.out, admin, broker_addr, config)
        elif cluster is not None:
            made = await _update_on_cluster(shell, admin, cluster, config)
    if made:
        shell.out.text(topic_config_text(config))


async def _update_on_broker(out: Output, admin: Admin, address: str, config: TopicConfig) -> None:
    await admin.create_topic_on(address, config)
    if config.order:
        conf = await admin.set_order_on_broker(config.topic_name, address, config.write_queue_nums)
        out.text(f"set broker orderConf. isOrder=true, orderConf=[{conf}]")
    out.line(f"create topic to {address} success.")


async def _update_on_cluster(shell: Shell, admin: Admin, cluster: str, config: TopicConfig) -> bool:
    """Whether there is a broker that has it now. It is ordered once all have it."""
    made, out = False, shell.out
    async for address in each(
        shell,
        await masters_in(shell, admin, cluster),
        lambda address: admin.create_topic_on(address, config),
    ):
        out.line(f"create topic to {address} success.")
        made = True
    if config.order and not shell.failed:
        conf = await admin.set_order_on_cluster(config.topic_name, cluster, config.write_queue_nums)
        out.text(f"set cluster orderConf. isOrder=true, orderConf=[{conf}]")
    return made


@command("deleteTopic")
@topic_option
@click.option(
    "-c",
    "--clusterName",
    "cluster",
    required=True,
    type=TEXT,
    help="Delete it from the masters of this cluster",
)
async def delete_topic(shell: Shell, topic: str, cluster: str) -> None:
    async with shell.admin() as admin:
        await delete_everywhere(
            shell, admin, topic, cluster, await masters_in(shell, admin, cluster)
        )


async def delete_everywhere(
    shell: Shell, admin: Admin, topic: str, cluster: str, addresses: list[str]
) -> None:
    """Name servers hear of it where only some brokers have deleted it, too: nobody else tells them
    that these have it no more."""
    deleted = [
        address
        async for address in each(
            shell, addresses, lambda address: admin.delete_topic_in_broker(address, topic)
        )
    ]
    if not shell.failed:
        shell.out.line(f"delete topic [{topic}] from cluster [{cluster}] success.")
    if deleted:
        with every_name_server(admin):
            await admin.delete_topic_in_name_servers(topic, cluster)
        shell.out.line(f"delete topic [{topic}] from NameServer success.")


@command("updateTopicPerm", one_of=("broker_addr", "cluster"))
@broker_address_option
@cluster_option
@topic_option
@click.option("-p", "--perm", required=True, type=Number(0, 7), help="2 write, 4 read, 6 both")
async def update_topic_perm(
    shell: Shell, broker_addr: str | None, cluster: str | None, topic: str, perm: int
) -> None:
    async with shell.admin() as admin:
        found = await admin.topic_config_on(topic, broker_addr)
        if cluster is not None:
            masters = await masters_in(shell, admin, cluster)
            found = {address: config for address, config in found.items() if address in masters}
            if not found:
                raise CommandFailed(f"no master of the cluster {cluster} has the topic {topic}")

        async def update(address: str) -> None:
            """The route says less than the broker has while that takes no messages
            (``brokerPermission``), and after ``wipeWritePerm``."""
            if found[address].perm == perm:
                own = await admin.topic_config(address, topic)
                found[address] = own or found[address]
            if found[address].perm != perm:
                changed = msgspec.structs.replace(found[address], perm=perm)
                await admin.create_topic_on(address, changed)

        async for address in each(shell, list(found), update):
            old = found[address]
            if old.perm == perm:
                shell.out.line("new perm equals to the old one!")
                continue
            shell.out.line(f"update topic perm from {old.perm} to {perm} in {address} success.")
            if broker_addr is not None:
                shell.out.line(f"{topic_config_text(msgspec.structs.replace(old, perm=perm))}.")


@command("topicClusterList", json=True)
@topic_option
async def topic_cluster_list(shell: Shell, topic: str) -> None:
    async with shell.admin() as admin:
        clusters = await admin.clusters_of_topic(topic)
    with shell.out.table(CLUSTERS) as table:
        for cluster in clusters:
            table.row(cluster)


@command("updateOrderConf")
@topic_option
@click.option(
    "-m", "--method", required=True, type=click.Choice(("get", "put", "delete")), help="What to do"
)
@click.option(
    "-v",
    "--orderConf",
    "order_conf",
    type=Checked(check_order_config),
    help="With put: broker:queues;broker:queues",
)
async def update_order_conf(shell: Shell, topic: str, method: str, order_conf: str | None) -> None:
    if method == "put" and order_conf is None:
        raise WrongUsage(
            "what the topic is to look like is missing: add -v BROKER:QUEUES;BROKER:QUEUES"
        )
    async with shell.admin() as admin:
        if method == "get":
            found = await admin.order_config(topic)
            if found is None:
                raise CommandFailed(f"the topic {topic} has no order configuration")
            shell.out.text(f"get orderConf success. topic=[{topic}], orderConf=[{found}] ")
        elif method == "put":
            with every_name_server(admin):
                await admin.set_order_config(topic, order_conf or "")
            shell.out.text(f"update orderConf success. topic=[{topic}], orderConf=[{order_conf}]")
        else:
            with every_name_server(admin):
                await admin.delete_order_config(topic)
            shell.out.text(f"delete orderConf success. topic=[{topic}]")


# --- lists
# --------------------------------------------------------------------------------------------------


@command("topicList", json=True)
@click.option(
    "-c",
    "--clusterModel",
    "by_cluster",
    is_flag=True,
    help="With the cluster and the groups of each topic",
)
@click.option(
    "--stats",
    is_flag=True,
    help="With the number of queues and messages of each topic, and when it was last written",
)
async def topic_list(shell: Shell, by_cluster: bool, stats: bool) -> None:
    if by_cluster and stats:
        raise WrongUsage("-c and --stats are two different lists: leave one out")
    async with shell.admin() as admin:
        if by_cluster:
            await _list_by_cluster(shell.out, admin)
        elif stats:
            await _list_with_stats(shell, admin)
        else:
            with shell.out.table(NAMES) as table:
                for topic in hash_order(await admin.topic_list()):
                    table.row(topic)


async def _list_with_stats(shell: Shell, admin: Admin) -> None:
    """A topic that nobody can tell anything of, such as the name of a cluster, has blank
    figures."""
    topics = sorted(await admin.topic_list())
    with shell.out.table(WITH_STATS) as table:
        for number, topic in enumerate(topics, start=1):
            shell.out.progress(f"{number} of {len(topics)} topics")
            try:
                offsets = (await admin.topic_stats(topic)).offset_table.values()
            except RocketMQError:
                table.row(topic, "", "", "")
                continue
            count = sum(found.max_offset - found.min_offset for found in offsets)
            last = max((found.last_update_timestamp for found in offsets), default=0)
            table.row(topic, len(offsets), count, millis_text(last) if last > 0 else "")


async def _list_by_cluster(out: Output, admin: Admin) -> None:
    cluster_info = await admin.cluster_info()
    with out.table(BY_CLUSTER) as table:
        for topic in hash_order(await admin.topic_list()):
            if is_retry_topic(topic) or is_dlq_topic(topic):
                continue
            cluster, groups = await _cluster_and_groups(admin, cluster_info, topic)
            for group in groups or [""]:
                table.row(cut(cluster, 20), cut(topic, 64), cut(group, 64))


async def _cluster_and_groups(admin: Admin, info: ClusterInfo, topic: str) -> tuple[str, list[str]]:
    """Empty where nobody can say: a topic without a live broker is listed all the same."""
    cluster = ""
    try:
        route = await admin.topic_route(topic)
        first = route.broker_datas[0].broker_name if route.broker_datas else ""
        cluster = next(
            (name for name, brokers in info.cluster_addr_table.items() if first in brokers), ""
        )
        return cluster, hash_order(await admin.query_topic_consume_by_who(topic))
    except RocketMQError:
        return cluster, []


@command("topicRoute", json=True)
@topic_option
@click.option("-l", "--list", "as_list", is_flag=True, help="As a table")
async def topic_route(shell: Shell, topic: str, as_list: bool) -> None:
    async with shell.admin() as admin:
        route = await admin.topic_route(topic)
    if as_list or shell.out.as_json:
        _print_route(shell.out, route)
    else:
        shell.out.line(dumps_pretty(route))


def _print_route(out: Output, route: TopicRouteData) -> None:
    queues = {data.broker_name: data for data in route.queue_datas}
    with out.table(ROUTE) as table:
        for broker in sorted(route.broker_datas, key=lambda data: data.broker_name):
            addresses = ", ".join(
                f"{number}={address}" for number, address in sorted(broker.broker_addrs.items())
            )
            data = queues.get(broker.broker_name)
            figures = (
                (data.read_queue_nums, data.write_queue_nums, data.perm) if data else (0, 0, "")
            )
            table.row(broker.cluster or "", broker.broker_name, f"{{{addresses}}}", *figures)
        read, write = (
            sum(q.read_queue_nums for q in queues.values()),
            sum(q.write_queue_nums for q in queues.values()),
        )
        table.rule("-" * DASHES)
        table.row("Total:", len(queues), "", read, write, "")


@command("topicStatus", json=True, watch=True)
@topic_option
async def topic_status(shell: Shell, topic: str) -> None:
    async with shell.admin() as admin:
        offsets = (await admin.topic_stats(topic)).offset_table
    if not offsets:
        raise CommandFailed(f"no broker has a queue of the topic {topic}")
    with shell.out.table(STATUS) as table:
        for queue in sorted(offsets):
            found = offsets[queue]
            when = (
                millis_text(found.last_update_timestamp) if found.last_update_timestamp > 0 else ""
            )
            table.row(
                cut(queue.broker_name, 32), queue.queue_id, found.min_offset, found.max_offset, when
            )
