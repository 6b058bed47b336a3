"""Watching consumer groups: startMonitoring (``admin-cli.md`` §3.36). Findings are lines of the
log, each begins with ``[MONITOR]``."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

import click

from ....client.admin import Admin, PullStatus
from ....client.consumer.push_consumer import PushConsumer
from ....remoting.errors import RocketMQError
from ....remoting.protocol.bodies.running_info import ConsumerRunningInfo
from ....remoting.protocol.bodies.stats import ConsumeStats
from ....remoting.protocol.message.topic_names import TopicName, group_of_retry_topic
from ....remoting.protocol.record.decode import MessageExt
from ..command import Number, command
from ..shell import Shell
from .consumer_status import findings_about

log: Final = logging.getLogger(__name__)

GROUP: Final = "__MONITOR_CONSUMER"
_UNTIL_FIRST_S: Final = 20.0


@command("startMonitoring", log_level="WARNING")
@click.option(
    "--interval",
    type=click.FloatRange(0.1),
    default=60,
    help="Seconds between two rounds, 60 (the first after 20)",
)
@click.option("--rounds", type=Number(1), help="So many rounds; default: until interrupted")
async def start_monitoring(shell: Shell, interval: float, rounds: int | None) -> None:
    log.setLevel(logging.INFO)
    moved = PushConsumer(GROUP, **shell.client_options())
    moved.subscribe(TopicName.OFFSET_MOVED_EVENT)
    moved.on_message(_offset_moved)
    async with shell.admin() as admin, moved:
        await asyncio.sleep(min(_UNTIL_FIRST_S, interval))
        done = 0
        while True:
            await _round(shell, admin)
            done += 1
            if done == rounds:
                return
            await asyncio.sleep(interval)


async def _offset_moved(message: MessageExt) -> None:
    log.warning("[MONITOR] offset moved event=%s", message.body.decode("utf-8", "replace"))


async def _round(shell: Shell, admin: Admin) -> None:
    began = time.perf_counter()
    groups = [
        group
        for topic in await admin.topic_list()
        if (group := group_of_retry_topic(topic)) is not None
    ]
    for number, group in enumerate(sorted(groups), start=1):
        shell.out.progress(f"{number} of {len(groups)} groups")
        try:
            await _look_at(admin, group)
        except RocketMQError as error:
            log.warning("[MONITOR] group not looked at group=%s error=%s", group, error)
    log.info(
        "[MONITOR] round done groups=%d ms=%d",
        len(groups),
        round((time.perf_counter() - began) * 1000),
    )


async def _look_at(admin: Admin, group: str) -> None:
    """How far it is behind, per topic; then what is wrong inside its clients."""
    stats = await admin.consume_stats(group)
    for topic in sorted({queue.topic for queue in stats.offset_table}):
        try:
            await _report_undone(admin, group, topic, stats)
        except RocketMQError as error:
            log.warning(
                "[MONITOR] topic not looked at group=%s topic=%s error=%s", group, topic, error
            )
    infos: dict[str, ConsumerRunningInfo] = {}
    for client in (await admin.consumer_connection(group)).connection_set:
        client_id = client.client_id or ""
        try:
            infos[client_id] = info = await admin.consumer_running_info(group, client_id)
        except RocketMQError as error:
            log.warning(
                "[MONITOR] member does not answer group=%s client=%s error=%s",
                group, client_id, error,
            )  # fmt: skip
            continue
        for finding in findings_about(client_id, info):
            log.warning("[MONITOR] group=%s finding=%s", group, finding)
    expressions = {
        tuple(sorted((s.topic or "", s.sub_string or "") for s in i.subscription_set))
        for i in infos.values()
    }
    if len(expressions) > 1:
        log.warning("[MONITOR] clients with different subscriptions group=%s", group)


async def _report_undone(admin: Admin, group: str, topic: str, stats: ConsumeStats) -> None:
    queues = {queue: at for queue, at in stats.offset_table.items() if queue.topic == topic}
    lags = {queue: max(0, at.broker_offset - at.consumer_offset) for queue, at in queues.items()}
    worst = max(lags, key=lags.__getitem__)
    delay_ms = 0
    if lags[worst]:
        pulled = await admin.pull(worst, queues[worst].consumer_offset, 1)
        if pulled.status is PullStatus.FOUND and pulled.messages:
            delay_ms = max(0, time.time_ns() // 1_000_000 - pulled.messages[0].store_timestamp)
    log.info(
        "[MONITOR] undone messages group=%s topic=%s total=%d single_queue=%d delay_ms=%d",
        group, topic, sum(lags.values()), lags[worst], delay_ms,
    )  # fmt: skip
