"""What goes on inside the consumers of a group: consumerStatus (``admin-cli.md`` §3.17)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from ....client.admin import Admin
from ....client.errors import NoRouteError
from ....remoting.errors import RocketMQError
from ....remoting.protocol.bodies.running_info import (
    ConsumerRunningInfo,
    ProcessQueueInfo,
    RunningProperty,
)
from ....remoting.protocol.codes import version_name
from ....remoting.protocol.fastjson.writer import dumps
from ..command import TEXT, command
from ..java_text import boolean, compact_time_text, fixed, hash_order, queue_text
from ..output import Layout
from ..shell import CommandFailed, Shell
from .connection import unknown_group

CLIENTS: Final = Layout(
    ("#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile"),
    row="%-10d %-40s %-20s %s",
    header="%-10s %-40s %-20s %s",
)
OFFSETS: Final = Layout(
    ("#Topic", "#Broker Name", "#QID", "#Consumer Offset"),
    row="%-32s  %-32s  %-4d  %-20d",
    header="%-64s  %-32s  %-4s  %-20s",
)
DETAILS: Final = Layout(
    ("#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo"),
    row="%-64s  %-32s  %-4d  %s",
    header="%-64s  %-32s  %-4s  %-20s",
)
RATES: Final = Layout(
    (
        "#Topic",
        "#Pull RT",
        "#Pull TPS",
        "#Consume RT",
        "#ConsumeOK TPS",
        "#ConsumeFailed TPS",
        "#ConsumeFailedMsgsInHour",
    ),
    row="%-32s  %14s %14s %14s %14s %18s %25d",
    header="%-64s  %14s %14s %14s %14s %18s %25s",
)
_LOCK_MISSED_MS: Final = 30_000
_STUCK_MS: Final = 60_000


@command("consumerStatus", json=True)
@click.option("-g", "--consumerGroup", "group", required=True, type=TEXT, help="The consumer group")
@click.option(
    "-i", "--clientId", "client_id", type=TEXT, help="One client: everything on standard output"
)
@click.option(
    "-b",
    "--brokerAddr",
    "broker_addr",
    type=TEXT,
    help="Ask this broker; default: any of the group",
)
@click.option("-s", "--jstack", is_flag=True, help="Also what its threads (or tasks) are at")
async def consumer_status(
    shell: Shell, group: str, client_id: str | None, broker_addr: str | None, jstack: bool
) -> None:
    async with shell.admin() as admin:
        try:
            connection = await admin.consumer_connection(group, broker_addr)
        except NoRouteError:
            raise unknown_group(group) from None
        if client_id is not None:
            info = await admin.consumer_running_info(
                group, client_id, jstack=jstack, address=broker_addr
            )
            shell.out.fact("info", _plain(info), running_info_text(info))
            return
        versions = {
            each.client_id or "": version_name(each.version) for each in connection.connection_set
        }
        infos = await _ask_all(shell, admin, group, versions, jstack=jstack, address=broker_addr)
    _print_findings(shell, infos)


async def _ask_all(
    shell: Shell,
    admin: Admin,
    group: str,
    versions: Mapping[str, str],
    *,
    jstack: bool,
    address: str | None,
) -> dict[str, ConsumerRunningInfo]:
    """Each client's answer goes into a file in the current directory; in JSON it is part of the
    document."""
    folder = Path(str(time.time_ns() // 1_000_000))
    infos: dict[str, ConsumerRunningInfo] = {}
    with shell.out.table(CLIENTS) as table:
        for number, (client_id, version) in enumerate(versions.items(), start=1):
            try:
                infos[client_id] = info = await admin.consumer_running_info(
                    group, client_id, jstack=jstack, address=address
                )
            except RocketMQError as error:
                shell.warn(f"{client_id}: {error}")
                continue
            path = folder / _file_name(client_id)
            if not shell.out.as_json:
                await asyncio.to_thread(_write, path, running_info_text(info))
            table.row(number, client_id, version, "" if shell.out.as_json else path)
    shell.out.fact("infos", {client_id: _plain(info) for client_id, info in infos.items()})
    return infos


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _file_name(client_id: str) -> str:
    """A client chooses its id: it must not choose where we write."""
    return re.sub(r"[/\\\0]", "_", client_id).lstrip(".") or "_"


def _plain(info: ConsumerRunningInfo) -> object:
    """For JSON: tables whose keys are queues become lists."""
    return {
        "properties": info.properties,
        "subscriptions": {each.topic: each.sub_string for each in info.subscription_set},
        "queues": [
            {"topic": q.topic, "brokerName": q.broker_name, "queueId": q.queue_id,
            "commitOffset": each.commit_offset,
             "cachedMsgCount": each.cached_msg_count, "locked": each.locked,
             "dropped": each.dropped,
             "lastPullTimestamp": each.last_pull_timestamp,
             "lastConsumeTimestamp": each.last_consume_timestamp}
            for q, each in sorted(info.mq_table.items())
        ],
        "jstack": info.jstack,
    }  # fmt: skip


# --- findings
# --------------------------------------------------------------------------------------------------


def _print_findings(shell: Shell, infos: Mapping[str, ConsumerRunningInfo]) -> None:
    if not infos:
        raise CommandFailed("no client of the group told anything")
    same = len({dumps(sorted(_subscriptions(info).items())) for info in infos.values()}) == 1
    shell.out.fact("sameSubscription", same)
    if not same:
        shell.out.text("WARN: Different subscription in the same group of consumer!!!")
        return
    findings = [
        finding for client_id, info in infos.items() for finding in findings_about(client_id, info)
    ]
    shell.out.text("\n\nSame subscription in the same group of consumer")
    shell.out.text("\n\nRebalance OK\n")
    shell.out.fact("findings", findings, "".join(f"{finding}\n" for finding in findings))


def _subscriptions(info: ConsumerRunningInfo) -> dict[str, str | None]:
    return {each.topic or "": each.sub_string for each in info.subscription_set}


def findings_about(client_id: str, info: ConsumerRunningInfo) -> Iterator[str]:
    """Queues that a client has, but does not get on with."""
    ordered = info.properties.get(RunningProperty.CONSUME_ORDERLY) == "true"
    now = time.time_ns() // 1_000_000
    for queue, state in sorted(info.mq_table.items()):
        what = f"{client_id} {queue_text(queue)}"
        if ordered:
            if not state.locked and (late := now - state.last_lock_timestamp) > _LOCK_MISSED_MS:
                yield f"{what} can't lock for a while, {late}ms"
            elif state.dropped and state.try_unlock_times > 0:
                yield f"{what} unlock {state.try_unlock_times} times, still failed"
        elif (
            late := now - state.last_consume_timestamp
        ) > _STUCK_MS and state.cached_msg_count > 0:
            yield f"{what} can't consume for a while, maybe blocked, {late}ms"


# --- text
# --------------------------------------------------------------------------------------------------


def running_info_text(info: ConsumerRunningInfo) -> str:
    """Class ConsumerRunningInfo, formatString: headers and rows that do not line up included."""
    return "".join(_blocks(info))


def _blocks(info: ConsumerRunningInfo) -> Iterator[str]:
    yield "#Consumer Properties#\n"
    for name in hash_order(info.properties):
        yield f"{name:<40}: {info.properties[name]}\n"
    yield "\n\n#Consumer Subscription#\n"
    for number, each in enumerate(
        sorted(info.subscription_set, key=lambda each: each.topic or ""), start=1
    ):
        mode = boolean(each.class_filter_mode)
        yield (
            f"{number:03} Topic: {each.topic:<40} ClassFilter: {mode:<8} SubExpression: "
            f"{each.sub_string}\n"
        )
    yield "\n\n#Consumer Offset#\n"
    yield OFFSETS.header_line() + "\n"
    for queue, state in sorted(info.mq_table.items()):
        yield OFFSETS.row_line(*queue, state.commit_offset) + "\n"
    yield "\n\n#Consumer MQ Detail#\n"
    yield DETAILS.header_line() + "\n"
    for queue, state in sorted(info.mq_table.items()):
        yield DETAILS.row_line(*queue, process_queue_text(state)) + "\n"
    yield "\n\n#Consumer RT&TPS#\n"
    yield RATES.header_line() + "\n"
    for topic, status in sorted(info.status_table.items()):
        rates = [
            status.pull_rt,
            status.pull_tps,
            status.consume_rt,
            status.consume_ok_tps,
            status.consume_failed_tps,
        ]
        texts = [fixed(rate, 2) for rate in rates]
        yield RATES.row_line(topic, *texts, status.consume_failed_msgs) + "\n"
    if info.jstack is not None:
        yield f"\n\n#Consumer jstack#\n{info.jstack}"


def process_queue_text(state: ProcessQueueInfo) -> str:
    """Class ProcessQueueInfo."""
    return (
        f"ProcessQueueInfo [commitOffset={state.commit_offset}, "
        f"cachedMsgMinOffset={state.cached_msg_min_offset}, "
        f"cachedMsgMaxOffset={state.cached_msg_max_offset}, "
        f"cachedMsgCount={state.cached_msg_count}, "
        f"cachedMsgSizeInMiB={state.cached_msg_size_mib}, "
        f"transactionMsgMinOffset={state.transaction_msg_min_offset}, "
        f"transactionMsgMaxOffset={state.transaction_msg_max_offset}, "
        f"transactionMsgCount={state.transaction_msg_count}, locked={boolean(state.locked)}, "
        f"tryUnlockTimes={state.try_unlock_times}, "
        f"lastLockTimestamp={compact_time_text(state.last_lock_timestamp)}, "
        f"droped={boolean(state.dropped)}, "
        f"lastPullTimestamp={compact_time_text(state.last_pull_timestamp)}, "
        f"lastConsumeTimestamp={compact_time_text(state.last_consume_timestamp)}]"
    )
