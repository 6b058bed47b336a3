"""Moving groups: resetOffsetByTime, skipAccumulatedMessage, cloneGroupOffset (``admin-cli.md``
§3.25 to §3.27)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Final

import click

from ....client.admin import Admin
from ....client.admin.offset_reset import TO_THE_END, OffsetMove
from ....remoting.errors import BrokerError, ConsumerNotOnline, RemotingError
from ....remoting.protocol.codes import ResponseCode
from ....remoting.protocol.message.message_queue import MessageQueue
from ..command import BOOLEAN, TEXT, Time, command, topic_option
from ..java_text import boolean, cut, queue_hash_order
from ..output import Layout
from ..shell import CommandFailed, Shell
from ..targets import told_of_the_lost

RESET: Final = Layout(("#brokerName", "#queueId", "#offset"), row="%-40s  %-40s  %-40s")
MOVED: Final = Layout(
    (
        "#brokerName",
        "#queueId",
        "#brokerOffset",
        "#consumerOffset",
        "#timestampOffset",
        "#rollbackOffset",
    ),
    row="%-20s  %-20s  %-20s  %-20s  %-20s  %-20s",
)


class _When(Time):
    """A time, or ``now``, which is the end of the queue whatever the clocks say."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        return (
            TO_THE_END
            if str(value).strip().lower() == "now"
            else super().convert(value, param, ctx)
        )


WHEN: Final = _When()


def _checked_when(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """As it was written, for it is printed; what is no time is refused."""
    WHEN.convert(value, param, ctx)
    return value


group_option: Final = click.option(
    "-g", "--group", required=True, type=TEXT, help="The consumer group"
)
force_option: Final = click.option(
    "-f",
    "--force",
    type=BOOLEAN,
    default=True,
    help="true (default): also forwards; false: only back",
)


@command("resetOffsetByTime", json=True)
@group_option
@topic_option
@click.option(
    "-s",
    "--timestamp",
    "timestamp",
    required=True,
    type=TEXT,
    callback=_checked_when,
    help="ms, yyyy-MM-dd#HH:mm:ss:SSS, now: the end of the queues",
)
@force_option
@click.option("-c", "--cplus", is_flag=True, help="The consumers are C++ clients")
@click.option(
    "--dry-run", is_flag=True, help="Change nothing, print old and new offset of every queue"
)
async def reset_offset_by_time(
    shell: Shell, group: str, topic: str, timestamp: str, force: bool, cplus: bool, dry_run: bool
) -> None:
    when = WHEN.convert(timestamp, None, None)
    async with shell.admin() as admin, _told_of_the_lost(shell, admin, topic):
        if dry_run:
            await _move(shell, admin, group, topic, timestamp, when, force=force, dry_run=True)
            return
        try:
            moved = await _reset(admin, group, topic, when, force=force, cpp=cplus)
        except ConsumerNotOnline:
            await _move(shell, admin, group, topic, timestamp, when, force=force)
            return
        shell.out.line(
            f"rollback consumer offset by specified group[{group}], topic[{topic}], "
            f"force[{boolean(force)}], "
            f"timestamp(string)[{timestamp}], timestamp(long)[{when}]"
        )
        _print_moved(shell, moved)


@command("skipAccumulatedMessage", json=True)
@group_option
@topic_option
@force_option
async def skip_accumulated_message(shell: Shell, group: str, topic: str, force: bool) -> None:
    async with shell.admin() as admin, _told_of_the_lost(shell, admin, topic):
        try:
            moved = await _reset(admin, group, topic, TO_THE_END, force=force)
        except ConsumerNotOnline:
            _print_moves(shell, await _moved(admin, group, topic, TO_THE_END, force=force))
            return
        _print_moved(shell, moved)


def _told_of_the_lost(shell: Shell, admin: Admin, topic: str) -> AbstractAsyncContextManager[None]:
    return told_of_the_lost(shell, admin, topic, f"its queues of {topic} are")


async def _reset(
    admin: Admin, group: str, topic: str, when: int, *, force: bool, cpp: bool = False
) -> dict[MessageQueue, int]:
    try:
        return await admin.reset_offsets(group, topic, when, force=force, cpp=cpp)
    except ConsumerNotOnline:
        raise
    except BrokerError as error:
        if error.code == ResponseCode.SYSTEM_ERROR and (error.remark or "").startswith(
            "THe consumer group"
        ):
            raise CommandFailed(
                f"{error.address}: the group {group} has no offset yet in some queue of {topic}; "
                "start its consumers, "
                "they begin where consume-from-where says"
            ) from None
        raise


def _print_moved(shell: Shell, moved: dict[MessageQueue, int]) -> None:
    with shell.out.table(RESET) as table:
        for queue in queue_hash_order(moved, copied=True):
            table.row(cut(queue.broker_name, 32), queue.queue_id, moved[queue])


async def _move(
    shell: Shell,
    admin: Admin,
    group: str,
    topic: str,
    text: str,
    when: int,
    *,
    force: bool,
    dry_run: bool = False,
) -> None:
    if dry_run:
        moves = await admin.move_offsets(group, topic, when, force=force, dry_run=True)
    else:
        moves = await _moved(admin, group, topic, when, force=force)
    shell.out.line(
        f"rollback consumer offset by specified consumerGroup[{group}], topic[{topic}], "
        f"force[{boolean(force)}], "
        f"timestamp(string)[{text}], "
        f"timestamp(long)[{when}]{' (dry run: nothing is changed)' if dry_run else ''}"
    )
    _print_moves(shell, moves)


async def _moved(
    admin: Admin, group: str, topic: str, when: int, *, force: bool
) -> list[OffsetMove]:
    """Queue by queue: who fails in the middle leaves the group half moved."""
    try:
        return await admin.move_offsets(group, topic, when, force=force)
    except (BrokerError, RemotingError) as error:
        raise CommandFailed(
            f"{error}; some queues of {topic} may have been moved before: resetOffsetByTime "
            f"--dry-run shows where {group} stands, the same command once more moves all of them"
        ) from error


def _print_moves(shell: Shell, moves: Iterable[OffsetMove]) -> None:
    with shell.out.table(MOVED) as table:
        by_queue = {move.queue: move for move in moves}
        for move in (by_queue[queue] for queue in queue_hash_order(by_queue)):
            offsets = (
                move.broker_offset,
                move.consumer_offset,
                move.timestamp_offset,
                move.rollback_offset,
            )
            table.row(cut(move.queue.broker_name, 32), move.queue.queue_id, *offsets)


@command("cloneGroupOffset")
@click.option("-s", "--srcGroup", "source", required=True, type=TEXT, help="Its offsets are copied")
@click.option("-d", "--destGroup", "destination", required=True, type=TEXT, help="To this group")
@topic_option
@click.option("-o", "--offline", type=TEXT, help="No effect, as in the original")
async def clone_group_offset(
    shell: Shell, source: str, destination: str, topic: str, offline: str | None
) -> None:
    async with shell.admin() as admin:
        if not await admin.clone_group_offsets(source, destination, topic):
            raise CommandFailed(
                f"the group {source} has no offsets, so {destination} has got none: it has "
                "consumed nothing, or it broadcasts"
            )
    shell.out.text(
        f"clone group offset success. srcGroup[{source}], destGroup=[{destination}], topic[{topic}]"
    )
