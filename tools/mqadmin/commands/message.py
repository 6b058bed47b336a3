"""Messages: sendMessage, consumeMessage (``admin-cli.md`` §3.24, §3.38)."""

from __future__ import annotations

import random
import time
from typing import Final, NamedTuple

import click

from ....client.admin import TOOLS_GROUP, Admin, Pulled, PullStatus
from ....client.producer.producer import Producer
from ....remoting.protocol.message.message import Message
from ....remoting.protocol.message.message_queue import MessageQueue
from ....remoting.protocol.record.decode import MessageExt
from ..command import BOOLEAN, TEXT, TIME, Number, command, grouped, topic_option
from ..java_text import message_text, queue_text
from ..output import Layout, Output
from ..shell import CommandFailed, Shell, WrongUsage

SENT: Final = Layout(
    ("#Broker Name", "#QID", "#Send Result", "#MsgId"), row="%-32s  %-4s  %-20s    %s"
)


@command("sendMessage", json=True)
@topic_option
@click.option("-p", "--body", required=True, help="The message, UTF-8")
@click.option("-k", "--key", "keys", type=TEXT, help="Keys, separated by blanks")
@click.option("-c", "--tags", type=TEXT, help="The tag")
@click.option("-b", "--broker", "broker_name", type=TEXT, help="Name of the broker to send to")
@click.option("-i", "--qid", "queue_id", type=Number(0), help="Queue to send to, with -b")
@click.option(
    "-m", "--msgTraceEnable", "trace", type=BOOLEAN, default=False, help="true: write a trace"
)
async def send_message(
    shell: Shell,
    topic: str,
    body: str,
    keys: str | None,
    tags: str | None,
    broker_name: str | None,
    queue_id: int | None,
    trace: bool,
) -> None:
    if queue_id is not None and broker_name is None:
        raise WrongUsage("a queue is chosen by -i and -b: add -b with the name of the broker")
    message = Message(
        topic, body.encode("utf-8", "surrogateescape"), tags=tags, keys=keys.split() if keys else ()
    )
    async with shell.producer(trace=trace) as producer:
        queue = (
            await _chosen_queue(producer, topic, broker_name, queue_id)
            if broker_name is not None
            else None
        )
        result = await producer.send(message, queue=queue)
    with shell.out.table(SENT) as table:
        table.row(
            result.queue.broker_name, result.queue.queue_id, result.status.name, result.msg_id
        )


async def _chosen_queue(
    producer: Producer, topic: str, broker_name: str, queue_id: int | None
) -> MessageQueue:
    """The original forgets ``-b`` without ``-i``; here it means any queue of that broker."""
    if queue_id is not None:
        return MessageQueue(topic, broker_name, queue_id)
    queues = [queue for queue in await producer.queues(topic) if queue.broker_name == broker_name]
    if not queues:
        raise CommandFailed(
            f"the broker {broker_name} has no queue of the topic {topic} that can be written"
        )
    return random.choice(queues)


class _Period(NamedTuple):
    """Which messages, by the time at which they were stored (ms); both ends belong to it."""

    begin: int | None
    end: int | None

    def check(self) -> None:
        now = time.time_ns() // 1_000_000
        for name, moment in (("-s", self.begin), ("-e", self.end)):
            if moment is not None and moment > now:
                raise WrongUsage(f"the time given with {name} is in the future")
        if self.begin is not None and self.end is not None and self.begin > self.end:
            raise WrongUsage("the time given with -s is later than the one given with -e")

    def has(self, message: MessageExt) -> bool:
        at = message.store_timestamp
        return (self.begin or 0) <= at and (self.end is None or at <= self.end)


@command("consumeMessage")
@topic_option
@click.option("-b", "--brokerName", "broker_name", type=TEXT, help="Only queues of this broker")
@click.option("-i", "--queueId", "queue_id", type=Number(0), help="Only this queue, with -b")
@click.option("-o", "--offset", type=Number(0), help="Start at this offset, with -i")
@click.option(
    "-g",
    "--consumerGroup",
    "group",
    type=TEXT,
    default=TOOLS_GROUP,
    help="Read in the name of this group",
)
@click.option(
    "-s",
    "--beginTimestamp",
    "begin",
    type=TIME,
    help="Stored from then on: ms or yyyy-MM-dd#HH:mm:ss:SSS",
)
@click.option(
    "-e",
    "--endTimestamp",
    "end",
    type=TIME,
    help="Stored until then: ms or yyyy-MM-dd#HH:mm:ss:SSS",
)
@click.option(
    "-c", "--MessageNumber", "count", type=Number(1), default=128, help="At most so many, 128"
)
@grouped("period", _Period)
async def consume_message(
    shell: Shell,
    topic: str,
    broker_name: str | None,
    queue_id: int | None,
    offset: int | None,
    group: str,
    period: _Period,
    count: int,
) -> None:
    if queue_id is not None and broker_name is None:
        raise WrongUsage("a queue is chosen by -i and -b: add -b with the name of the broker")
    if offset is not None and queue_id is None:
        raise WrongUsage(
            "an offset belongs to a queue: add -i with its number and -b with the name of the "
            "broker"
        )
    period.check()
    async with shell.admin() as admin:
        reader = _Reader(shell.out, admin, group, period)
        if queue_id is not None and broker_name is not None:
            await reader.read_queue(MessageQueue(topic, broker_name, queue_id), offset or 0, count)
        else:
            await reader.read_topic(topic, broker_name, count)


class _Reader:
    """Prints the messages of queues between two offsets. Nothing is committed."""

    def __init__(self, out: Output, admin: Admin, group: str, period: _Period) -> None:
        self._out = out
        self._admin = admin
        self._group = group
        self._period = period

    async def read_topic(self, topic: str, broker_name: str | None, count: int) -> None:
        """All queues (of one broker), at most ``count`` messages of all of them together."""
        for queue in await self._admin.read_queues(topic):
            if count <= 0:
                return
            if broker_name is not None and queue.broker_name != broker_name:
                continue
            first, end = await self._range(queue)
            available = max(0, end - first)
            if available > count:
                self._out.line(
                    f"The older {count} message of the {queue.queue_id} queue will be provided"
                )
            await self._print(queue, first, min(end, first + count), whole=available <= count)
            count -= available

    async def read_queue(self, queue: MessageQueue, offset: int, count: int) -> None:
        first, end = await self._range(queue)
        if offset > end:
            self._out.line(f"{queue_text(queue)} no matched msg, offset={offset}")
            return
        first = max(first, offset)
        if end - first > count:
            self._out.line(f"The oldler {count} message will be provided")  # sic
        await self._print(queue, first, min(end, first + count), whole=end - first <= count)

    async def _range(self, queue: MessageQueue) -> tuple[int, int]:
        """The first offset and the one after the last; by time, one message too many at each end is
        possible."""
        begin, end = self._period
        first = await (
            self._admin.min_offset(queue)
            if begin is None
            else self._admin.search_offset(queue, begin)
        )
        if end is None:
            return first, await self._admin.max_offset(queue)
        return first, await self._admin.search_offset(queue, end) + 1

    async def _print(self, queue: MessageQueue, offset: int, end: int, *, whole: bool) -> None:
        """Up to ``end``. When that is the end of the queue, one more pull says so."""
        last = end if whole and self._period.end is None else end - 1
        while offset <= last:
            pulled = await self._admin.pull(queue, offset, last - offset + 1, group=self._group)
            self._out.progress(f"{queue_text(queue)} at {pulled.next_offset} of {end}")
            if pulled.status is PullStatus.FOUND:
                self._print_messages(pulled)
            elif pulled.status is PullStatus.NO_MATCHED_MSG:
                self._out.line(
                    f"{queue_text(queue)} no matched msg. status=NO_MATCHED_MSG, "
                    f"offset={pulled.next_offset}"
                )
            else:
                status = pulled.status.name
                self._out.line(
                    f"{queue_text(queue)} print msg finished. status={status}, "
                    f"offset={pulled.next_offset}"
                )
                break
            if pulled.next_offset <= offset:
                raise CommandFailed(
                    f"the broker does not get past offset {offset} of {queue_text(queue)}"
                )
            offset = pulled.next_offset
        self._out.flush()

    def _print_messages(self, pulled: Pulled) -> None:
        wanted = [message for message in pulled.messages if self._period.has(message)]
        if wanted:
            self._out.line("Consume ok")
        for message in wanted:
            self._out.line(_message_line(message, pulled))


def _message_line(message: MessageExt, pulled: Pulled) -> str:
    """The original's client adds the ends of the queue to the properties of what it pulled."""
    ends = {"MIN_OFFSET": str(pulled.min_offset), "MAX_OFFSET": str(pulled.max_offset)}
    text = message_text(message, {**message.properties, **ends})
    return f"MSGID: {message.msg_id} {text} BODY: {message.body.decode('utf-8', 'replace')}"
