"""Printing whole topics: printMsg, printMsgByQueue (``admin-cli.md`` §3.23)."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import click

from ....client.admin import TOOLS_GROUP, Admin, Pulled, PullStatus
from ....remoting.protocol.message.message_queue import MessageQueue
from ..command import BOOLEAN, TEXT, TIME, Number, command, grouped, topic_option
from ..java_text import message_text, queue_text
from ..shell import CommandFailed, Shell, WrongUsage

RULE: Final = "-" * 56
BATCH: Final = 32

charset_option: Final = click.option(
    "-c", "--charsetName", "charset", default="UTF-8", help="Of the bodies, UTF-8"
)
expression_option: Final = click.option(
    "-s", "--subExpression", "expression", type=TEXT, default="*", help="TagA || TagB"
)
begin_option: Final = click.option(
    "-b", "--beginTimestamp", "begin", type=TIME, help="From then on: ms or yyyy-MM-dd#HH:mm:ss:SSS"
)
end_option: Final = click.option(
    "-e", "--endTimestamp", "end", type=TIME, help="Until then: ms or yyyy-MM-dd#HH:mm:ss:SSS"
)


class _Period(NamedTuple):
    """Which messages of a queue, by the time at which they were stored (ms)."""

    begin: int | None
    end: int | None


@command("printMsg")
@topic_option
@charset_option
@expression_option
@begin_option
@end_option
@click.option(
    "-d", "--printBody", "with_body", type=BOOLEAN, default=True, help="false: without the bodies"
)
@grouped("period", _Period)
async def print_msg(
    shell: Shell, topic: str, charset: str, expression: str, period: _Period, with_body: bool
) -> None:
    _check_charset(charset)
    printed = 0
    async with shell.admin() as admin:
        for queue in await admin.read_queues(topic):
            first, last = await _range(admin, queue, period)
            shell.out.line(f"minOffset={first}, maxOffset={last}, {queue_text(queue)}")
            async for pulled in _pulls(admin, queue, first, last, expression):
                if pulled.status is PullStatus.FOUND:
                    _print_found(shell, pulled, charset, with_body=with_body)
                    printed += len(pulled.messages)
                    shell.out.progress(
                        f"{printed} messages, queue {queue.queue_id} at {pulled.next_offset} of "
                        f"{last}"
                    )
                elif pulled.status is PullStatus.NO_MATCHED_MSG:
                    status = pulled.status.name
                    shell.out.line(
                        f"{queue_text(queue)} no matched msg. status={status}, "
                        f"offset={pulled.next_offset}"
                    )
                else:
                    status = pulled.status.name
                    shell.out.line(
                        f"{queue_text(queue)} print msg finished. status={status}, "
                        f"offset={pulled.next_offset}"
                    )
            shell.out.line(RULE)


@command("printMsgByQueue")
@topic_option
@click.option(
    "-a", "--brokerName", "broker_name", required=True, type=TEXT, help="Name of the broker"
)
@click.option("-i", "--queueId", "queue_id", required=True, type=Number(0), help="The queue")
@charset_option
@expression_option
@begin_option
@end_option
@click.option(
    "-p",
    "--printMsg",
    "with_messages",
    type=BOOLEAN,
    default=False,
    help="true: print the messages",
)
@click.option(
    "-d", "--printBody", "with_body", type=BOOLEAN, default=False, help="true: with their bodies"
)
@click.option(
    "-f",
    "--calculate",
    "count_tags",
    type=BOOLEAN,
    default=False,
    help="true: count messages by tag",
)
@grouped("queue", MessageQueue)
@grouped("period", _Period)
async def print_msg_by_queue(
    shell: Shell,
    queue: MessageQueue,
    charset: str,
    expression: str,
    period: _Period,
    with_messages: bool,
    with_body: bool,
    count_tags: bool,
) -> None:
    """Stops at the first pull that brings nothing."""
    _check_charset(charset)
    tags = Counter[str]()
    async with shell.admin() as admin:
        if queue not in await admin.read_queues(queue.topic):
            raise CommandFailed(
                f"the broker {queue.broker_name} has no queue {queue.queue_id} of the topic "
                f"{queue.topic} that can be read"
            )
        first, last = await _range(admin, queue, period)
        async for pulled in _pulls(admin, queue, first, last, expression):
            if pulled.status is not PullStatus.FOUND:
                break
            tags.update(message.tags for message in pulled.messages if message.tags)
            if with_messages:
                _print_found(shell, pulled, charset, with_body=with_body)
            shell.out.progress(f"{queue_text(queue)} at {pulled.next_offset} of {last}")
    for tag, count in tags.most_common() if count_tags else ():
        shell.out.line(f"Tag: {tag:<30} Count: {count}")


def _check_charset(charset: str) -> None:
    try:
        codecs.lookup(charset)
    except LookupError:
        raise WrongUsage(f"there is no charset {charset}") from None


async def _range(admin: Admin, queue: MessageQueue, period: _Period) -> tuple[int, int]:
    """The first offset and the one after the last."""
    first, last = await admin.min_offset(queue), await admin.max_offset(queue)
    if period.begin is not None and period.begin > 0:
        first = await admin.search_offset(queue, period.begin)
    if period.end is not None and period.end > 0:
        last = await admin.search_offset(queue, period.end)
    return first, last


async def _pulls(
    admin: Admin, queue: MessageQueue, offset: int, end: int, expression: str
) -> AsyncIterator[Pulled]:
    """Until ``end``, or until the queue has no more."""
    while offset < end:
        pulled = await admin.pull(queue, offset, BATCH, expression=expression, group=TOOLS_GROUP)
        yield pulled
        if pulled.status not in (PullStatus.FOUND, PullStatus.NO_MATCHED_MSG):
            return
        if pulled.next_offset <= offset:
            raise CommandFailed(
                f"the broker does not get past offset {offset} of {queue_text(queue)}"
            )
        offset = pulled.next_offset


def _print_found(shell: Shell, pulled: Pulled, charset: str, *, with_body: bool) -> None:
    ends = {"MIN_OFFSET": str(pulled.min_offset), "MAX_OFFSET": str(pulled.max_offset)}
    for message in pulled.messages:
        body = message.body.decode(charset, "replace") if with_body else "NOT PRINT BODY"
        text = message_text(message, {**message.properties, **ends})
        shell.out.line(f"MSGID: {message.msg_id} {text} BODY: {body}")
    shell.out.flush()
