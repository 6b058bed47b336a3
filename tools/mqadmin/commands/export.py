"""Writing what a cluster is into files: exportMetadata, exportConfigs, exportMetrics
(``admin-cli.md`` §3.39)."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click
import msgspec

from ....client.admin import Admin, Member
from ....remoting.errors import RocketMQError
from ....remoting.protocol.bodies.subscription_group import (
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from ....remoting.protocol.bodies.topic_config import TopicConfig, TopicConfigTable
from ....remoting.protocol.codes import version_name
from ....remoting.protocol.fastjson.writer import dumps_pretty
from ....remoting.protocol.message.topic_names import (
    TopicName,
    is_dlq_topic,
    is_lmq_topic,
    is_retry_topic,
    is_system_group,
)
from ..command import TEXT, command
from ..java_text import hash_order
from ..shell import CommandFailed, Shell, WrongUsage
from ..targets import NEEDED, answers, masters_among
from .cluster import number_of
from .figures import counted, sum_of_24_hours

T = TypeVar("T")

FOLDER: Final = "/tmp/rocketmq/export"  # noqa: S108 - as the original
CONFIG_KEYS: Final = (
    "autoCreateSubscriptionGroup",
    "autoCreateTopicEnable",
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
)

path_option: Final = click.option(
    "-f", "--filePath", "folder", type=TEXT, default=FOLDER, help=f"Folder to write to, {FOLDER}"
)


# --- metadata
# --------------------------------------------------------------------------------------------------


@command("exportMetadata")
@click.option(
    "-c", "--clusterName", "cluster", type=TEXT, help="All masters of this cluster together"
)
@click.option(
    "-b", "--brokerAddr", "broker_addr", type=TEXT, help="host:port of one broker, with -t or -g"
)
@path_option
@click.option("-t", "--topic", "topics", is_flag=True, help="Only topics")
@click.option("-g", "--subscriptionGroup", "groups", is_flag=True, help="Only consumer groups")
@click.option(
    "-s", "--specialTopic", "special", is_flag=True, help="Retry topics and dead letters too"
)
async def export_metadata(
    shell: Shell,
    cluster: str | None,
    broker_addr: str | None,
    folder: str,
    topics: bool,
    groups: bool,
    special: bool,
) -> None:
    if broker_addr is None and cluster is None:
        raise WrongUsage(NEEDED)
    if broker_addr is not None and not (topics or groups):
        raise WrongUsage(
            "of one broker either topics or groups are exported: add -t or -g, or use -c"
        )
    async with shell.admin() as admin:
        if broker_addr is not None:
            if topics:
                path = await _write(
                    folder, "topic.json", await user_topics(admin, broker_addr, special=special)
                )
            else:
                path = await _write(
                    folder, "subscriptionGroup.json", await user_groups(admin, broker_addr)
                )
            shell.out.text(f"export {path} success")
            return
        found = await _metadata(shell, admin, cluster or "", special=special)
    name = "topic.json" if topics else "subscriptionGroup.json" if groups else "metadata.json"
    if topics:
        found.pop("subscriptionGroupTable")
    elif groups:
        found.pop("topicConfigTable")
    shell.out.line(f"export {await _write(folder, name, found)} success")


async def _metadata(shell: Shell, admin: Admin, cluster: str, *, special: bool) -> dict[str, Any]:
    """Queues of a topic on several masters are added up."""
    topics: dict[str, TopicConfig] = {}
    groups: dict[str, SubscriptionGroupConfig] = {}

    async def ask(address: str) -> tuple[TopicConfigTable, SubscriptionGroupTable]:
        found = await user_topics(admin, address, special=special)
        return found, await user_groups(admin, address)

    masters = masters_among(shell, await admin.members(cluster))
    for of_topics, of_groups in (await _told_by(shell, masters, ask)).values():
        for name, topic in of_topics.topic_config_table.items():
            topics[name] = _added(topics[name], topic) if name in topics else topic
        for name, group in of_groups.subscription_group_table.items():
            if (before := groups.get(name)) is not None:
                queues = before.retry_queue_nums + group.retry_queue_nums
                group = msgspec.structs.replace(before, retry_queue_nums=queues)
            groups[name] = group
    return {"exportTime": _now_ms(), "topicConfigTable": topics, "subscriptionGroupTable": groups}


def _added(one: TopicConfig, other: TopicConfig) -> TopicConfig:
    return msgspec.structs.replace(
        one,
        read_queue_nums=one.read_queue_nums + other.read_queue_nums,
        write_queue_nums=one.write_queue_nums + other.write_queue_nums,
    )


async def user_topics(admin: Admin, address: str, *, special: bool = False) -> TopicConfigTable:
    """Topics of one broker without the system's; ``special``: with retry topics and dead
    letters."""
    table = await admin.topic_configs(address)
    system = set(await admin.system_topics_of_broker(address))
    kept = {
        name: config
        for name, config in table.topic_config_table.items()
        if name not in system
        and not is_lmq_topic(name)
        and (special or not (is_retry_topic(name) or is_dlq_topic(name)))
    }
    return msgspec.structs.replace(table, topic_config_table=kept)


async def user_groups(admin: Admin, address: str) -> SubscriptionGroupTable:
    """Groups of one broker without the system's."""
    table = await admin.subscription_groups(address)
    kept = {
        name: config
        for name, config in table.subscription_group_table.items()
        if not is_system_group(name)
    }
    return msgspec.structs.replace(table, subscription_group_table=kept)


# --- configs
# --------------------------------------------------------------------------------------------------


@command("exportConfigs")
@click.option("-c", "--clusterName", "cluster", required=True, type=TEXT, help="The cluster")
@path_option
async def export_configs(shell: Shell, cluster: str, folder: str) -> None:
    async with shell.admin() as admin:
        members = await admin.members(cluster)
        masters = masters_among(shell, members)
        configs = {
            name: {key: found[key] for key in CONFIG_KEYS if key in found}
            for name, found in (await _told_by(shell, masters, admin.broker_config)).items()
        }
        scale = {
            "masterBrokerSize": len(masters),
            "namesrvSize": len(admin.name_server_addresses),
            "slaveBrokerSize": len(members) - len(masters),
        }
    path = await _write(folder, "configs.json", {"brokerConfigs": configs, "clusterScale": scale})
    shell.out.text(f"export {path} success")


# --- metrics
# --------------------------------------------------------------------------------------------------


class Load(NamedTuple):
    """Messages of one broker, in and out; of transactions and delayed ones in."""

    normal_in: float
    normal_out: float
    trans_in: float
    schedule_in: float

    def __add__(self, other: object) -> Load:
        assert isinstance(other, Load)
        return Load(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@command("exportMetrics")
@click.option("-c", "--clusterName", "cluster", required=True, type=TEXT, help="The cluster")
@path_option
async def export_metrics(shell: Shell, cluster: str, folder: str) -> None:
    reports: dict[str, Any] = {}
    total_tps = total_day = Load(0, 0, 0, 0)
    async with shell.admin() as admin:
        masters = masters_among(shell, await admin.members(cluster))
        told = await _told_by(shell, masters, partial(_report, admin))
        for name, (report, tps, day) in told.items():
            reports[name] = report
            total_tps, total_day = total_tps + tps, total_day + day
    total = {"totalOneDayNum": _day_table(total_day), "totalTps": _tps_table(total_tps, "total")}
    path = await _write(folder, "metrics.json", {"evaluateReport": reports, "totalData": total})
    shell.out.text(f"export {path} success")


async def _report(admin: Admin, address: str) -> tuple[dict[str, Any], Load, Load]:
    info, config = await admin.broker_runtime_info(address), await admin.broker_config(address)
    groups, topics = await user_groups(admin, address), await user_topics(admin, address)
    trans = await counted(admin, address, "TOPIC_PUT_NUMS", TopicName.TRANS_HALF)
    schedule = await counted(admin, address, "TOPIC_PUT_NUMS", TopicName.SCHEDULE)
    tps = Load(
        _first(info, "putTps"),
        _first(info, "getTransferedTps"),
        trans.stats_minute.tps,
        schedule.stats_minute.tps,
    )
    day = Load(
        _yesterday(info, "Put"),
        _yesterday(info, "Get"),
        sum_of_24_hours(trans),
        sum_of_24_hours(schedule),
    )
    disk = {name: info.get(name, "") for name in ("commitLogDiskRatio", "consumeQueueDiskRatio")}
    report = {
        "runtimeEnv": {
            "cpuNum": config.get("clientCallbackExecutorThreads", ""),
            **({"totalMemKBytes": info["totalMemKBytes"]} if "totalMemKBytes" in info else {}),
        },
        "runtimeQuota": {
            "diskRatio": disk,
            "groupSize": len(groups.subscription_group_table),
            "messageAverageSize": info.get("putMessageAverageSize", ""),
            "oneDayNum": _day_table(day),
            "topicSize": len(topics.topic_config_table),
            "tps": _tps_table(tps),
        },
        "runtimeVersion": {
            "clientInfo": await _clients(admin, groups),
            "rocketmqVersion": info.get("brokerVersionDesc", ""),
        },
    }
    return report, tps, day


async def _clients(admin: Admin, groups: SubscriptionGroupTable) -> list[str]:
    """``JAVA%V4_9_8`` of every kind of client that is online."""
    found: set[str] = set()
    for group in groups.subscription_group_table:
        try:
            for client in (await admin.consumer_connection(group)).connection_set:
                language = client.language.name if client.language is not None else "OTHER"
                found.add(f"{language}%{version_name(client.version)}")
        except RocketMQError:  # nobody is online
            continue
    return sorted(found)


def _tps_table(load: Load, prefix: str = "") -> dict[str, float]:
    names = ("normalInTps", "normalOutTps", "transInTps", "scheduleInTps")
    return {_prefixed(prefix, name): value for name, value in sorted(zip(names, load, strict=True))}


def _day_table(load: Load) -> dict[str, int]:
    names = ("normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum")
    return {name: int(value) for name, value in sorted(zip(names, load, strict=True))}


def _prefixed(prefix: str, name: str) -> str:
    return prefix + name[0].upper() + name[1:] if prefix else name


def _first(info: Mapping[str, str], name: str) -> float:
    """The average of the last 10 seconds."""
    return number_of(info.get(name, "").partition(" ")[0])


def _yesterday(info: Mapping[str, str], kind: str) -> int:
    """Messages from midnight to midnight."""
    end, start = (
        int(number_of(info.get(f"msg{kind}Total{day}Morning", "")))
        for day in ("Today", "Yesterday")
    )
    return end - start


# --- all masters
# --------------------------------------------------------------------------------------------------


async def _told_by(
    shell: Shell, masters: Iterable[Member], question: Callable[[str], Awaitable[T]]
) -> dict[str, T]:
    """Answers by broker name, without those that fail. Raises ``CommandFailed`` when all do: what
    was exported before is better than nothing."""
    names = {master.address: master.broker_name for master in masters}
    told: dict[str, T] = {}
    shell.out.progress(f"0 of {len(names)} brokers")
    async for address, answer in answers(shell, list(names), question):
        told[names[address]] = answer
        shell.out.progress(f"{len(told)} of {len(names)} brokers")
    if names and not told:
        raise CommandFailed("no broker could be asked: nothing was exported")
    return told


# --- files
# --------------------------------------------------------------------------------------------------


async def _write(folder: str, name: str, value: object) -> str:
    path = Path(folder, name)
    await asyncio.to_thread(_write_file, path, dumps_pretty(_in_hash_order(value)))
    return str(path)


def _in_hash_order(value: object) -> object:
    """Tables as the original's files have them."""
    if isinstance(value, dict):
        return {name: _in_hash_order(value[name]) for name in hash_order(value)}
    return value


def _write_file(path: Path, text: str) -> None:
    """Into a new file that takes its name: not through a link that somebody left there, and whole
    or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with fresh.open("x", encoding="utf-8") as file:
            file.write(text)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
