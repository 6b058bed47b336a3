"""How long sending takes: sendMsgStatus, checkMsgSendRT, clusterRT (``admin-cli.md`` §2, §3.33)."""

from __future__ import annotations

import asyncio
import datetime
import time
from typing import Final

import click

from ....client.producer.producer import Producer
from ....remoting.errors import RocketMQError
from ....remoting.protocol.message.message import Message
from ..command import BOOLEAN, TEXT, Number, command, topic_option
from ..java_text import boolean, fixed, send_result_text
from ..output import Layout
from ..shell import CommandFailed, Shell

RT: Final = Layout(("#Broker Name", "#QID", "#Send Result", "#RT"), row="%-32s  %-4s  %-20s    %s")
CLUSTER_RT: Final = Layout(
    ("#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount"),
    row="%-24s  %-24s  %-8s  %-16s  %-16s",
    header="%-24s  %-24s  %-4s  %-8s  %-8s",
)
_LOG_ZONE: Final = datetime.timezone(datetime.timedelta(hours=8))
_WARM_UP_BYTES: Final = 16


@command("sendMsgStatus")
@click.option(
    "-b",
    "--brokerName",
    "broker_name",
    required=True,
    type=TEXT,
    help="Name of the broker, which has a topic of it",
)
@click.option(
    "-s", "--messageSize", "size", type=Number(1), default=128, help="Bytes of each message, 128"
)
@click.option("-c", "--count", type=Number(0), default=50, help="How many messages, 50")
async def send_msg_status(shell: Shell, broker_name: str, size: int, count: int) -> None:
    async with shell.producer("PID_SMSC") as producer:
        await producer.send(_message(broker_name, _WARM_UP_BYTES))
        for number in range(count):
            shell.out.progress(f"{number} of {count} messages")
            began = time.perf_counter()
            result = await producer.send(_message(broker_name, size))
            shell.out.line(f"rt={_millis_since(began)}ms, SendResult={send_result_text(result)}")


@command("checkMsgSendRT", json=True)
@topic_option
@click.option("-a", "--amount", type=Number(1), default=100, help="How many messages, 100")
@click.option("-s", "--size", type=Number(1), default=128, help="Bytes of each message, 128")
async def check_msg_send_rt(shell: Shell, topic: str, amount: int, size: int) -> None:
    """The queues take turns. The first message pays for the connection and is left out of the
    average."""
    total_ms = 0
    async with shell.producer() as producer:
        queues = await producer.queues(topic)
        if not queues:
            raise CommandFailed(f"the topic {topic} has no queue that can be written")
        with shell.out.table(RT) as table:
            for number in range(amount):
                shell.out.progress(f"{number} of {amount} messages")
                queue, began, sent = queues[number % len(queues)], time.perf_counter(), True
                try:
                    await producer.send(_message(topic, size), queue=queue)
                except RocketMQError as error:
                    sent = False
                    shell.warn(error)
                took = _millis_since(began)
                total_ms += took if number else 0
                table.row(queue.broker_name, queue.queue_id, boolean(sent), took)
    average = total_ms / (amount - 1) if amount > 1 else float("nan")
    shell.out.fact("avgRt", None if amount == 1 else average, f"Avg RT: {fixed(average, 2)}\n")


@command("clusterRT", json=True)
@click.option(
    "-a", "--amount", type=Number(1), default=100, help="How many messages to each broker, 100"
)
@click.option("-s", "--size", type=Number(1), default=128, help="Bytes of each message, 128")
@click.option("-c", "--cluster", type=TEXT, help="Only this cluster")
@click.option(
    "-p",
    "--printLog",
    "as_log",
    type=BOOLEAN,
    default=False,
    help="true: lines with bars instead of a table",
)
@click.option(
    "-m",
    "--machineRoom",
    "room",
    default="noname",
    help="What to call this place in such lines, noname",
)
@click.option(
    "-i", "--interval", type=click.FloatRange(0), default=10, help="Seconds between two rounds, 10"
)
@click.option("--rounds", type=Number(1), help="So many rounds; default: until interrupted")
async def cluster_rt(
    shell: Shell,
    amount: int,
    size: int,
    cluster: str | None,
    as_log: bool,
    room: str,
    interval: float,
    rounds: int | None,
) -> None:
    async with shell.admin() as admin, shell.producer() as producer:
        done = 0
        while True:
            brokers = [member for member in await admin.members(cluster) if member.is_master]
            if as_log and not shell.out.as_json:
                for member in brokers:
                    rt, _, _ = await _measure(shell, producer, member.broker_name, amount, size)
                    when = datetime.datetime.now(_LOG_ZONE).strftime("%Y-%m-%d %H:%M:%S")
                    shell.out.line(
                        f"{when}|{room}|{member.cluster}|{member.broker_name}|{fixed(rt, 0)}"
                    )
            else:
                with shell.out.table(
                    CLUSTER_RT if not done or shell.out.terminal else CLUSTER_RT._replace(header="")
                ) as table:
                    for member in brokers:
                        rt, sent, failed = await _measure(
                            shell, producer, member.broker_name, amount, size
                        )
                        table.row(member.cluster, member.broker_name, fixed(rt, 2), sent, failed)
            shell.out.flush()
            done += 1
            if done == rounds:
                return
            await asyncio.sleep(interval)


async def _measure(
    shell: Shell, producer: Producer, topic: str, amount: int, size: int
) -> tuple[float, int, int]:
    """Milliseconds per message without the first one, and how many were sent and not. A broker's
    topic has its name."""
    total_ms = sent = 0
    for number in range(amount):
        shell.out.progress(f"{topic}: {number} of {amount} messages")
        began = time.perf_counter()
        try:
            await producer.send(_message(topic, size))
            sent += 1
        except RocketMQError as error:
            shell.warn(error)
        total_ms += _millis_since(began) if number else 0
    return total_ms / (amount - 1) if amount > 1 else float("nan"), sent, amount - sent


def _message(topic: str, size: int) -> Message:
    return Message(topic, b"0" * size)


def _millis_since(began: float) -> int:
    return round((time.perf_counter() - began) * 1000)
