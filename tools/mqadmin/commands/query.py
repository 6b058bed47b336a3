"""Finding messages: queryMsgById, queryMsgByKey, queryMsgByUniqueKey, queryMsgByOffset,
queryMsgTraceById (``admin-cli.md`` §3.19 to §3.22, §3.34)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import click

from ....client.admin import Admin, PullStatus, Traced
from ....client.admin.messages import place_of
from ....client.errors import NoRouteError
from ....client.producer.trace_records import Consumed, Published
from ....remoting.errors import RocketMQError
from ....remoting.protocol.message.message_queue import MessageQueue
from ....remoting.protocol.message.properties import PropertyName
from ....remoting.protocol.message.topic_names import TopicName
from ....remoting.protocol.record.decode import MessageExt
from ..command import BOOLEAN, TEXT, Checked, Number, command, topic_option
from ..java_text import boolean, map_text, millis_text, seconds_text, send_result_text
from ..output import Layout, camel_case
from ..shell import CommandFailed, Shell, WrongUsage

BODIES: Final = Path("/tmp/rocketmq/msgbodys")  # noqa: S108 - as the original
"""Where the original writes bodies; scripts read them there."""
BY_KEY: Final = Layout(("#Message ID", "#QID", "#Offset"), row="%-50s %4s %40s")
BY_KEY_WITH_BODY: Final = Layout(
    ("#Message ID", "#QID", "#Offset", "#Body"), row="%-50s %4s %40s  %s"
)
_TRACE: Final = "%-10s %-20s %-20s %-20s %-10s %-10s"
PUBLISHED: Final = Layout(
    ("#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status"), row=_TRACE
)
CONSUMED: Final = Layout(
    ("#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status"), row=_TRACE
)

group_option: Final = click.option(
    "-g",
    "--consumerGroup",
    "group",
    type=TEXT,
    help="Have a client of this group handle it (with -d)",
)
client_option: Final = click.option(
    "-d", "--clientId", "client_id", type=TEXT, help="This client of the group"
)


def _each_id(msg_ids: str) -> list[str]:
    return [msg_id.strip() for msg_id in msg_ids.split(",") if msg_id.strip()]


@command("queryMsgById", json=True)
@click.option(
    "-i",
    "--msgId",
    "msg_ids",
    required=True,
    type=Checked(lambda ids: [place_of(msg_id) for msg_id in _each_id(ids)]),
    help="The broker's ids of messages, separated by commas",
)
@group_option
@client_option
@click.option(
    "-s", "--sendMessage", "send", type=BOOLEAN, default=False, help="true: send them again"
)
@click.option("-u", "--unitName", "unit_name", type=TEXT, help="No effect: the unit of the client")
async def query_msg_by_id(
    shell: Shell,
    msg_ids: str,
    group: str | None,
    client_id: str | None,
    send: bool,
    unit_name: str | None,
) -> None:
    _check_directly(group, client_id)
    async with shell.admin() as admin:
        for msg_id in _each_id(msg_ids):
            message = await admin.view_message(msg_id)
            if group is not None and client_id is not None:
                await _consume_directly(shell, admin, message, group, client_id)
            elif send:
                await _send_again(shell, admin, message)
            else:
                await _print_message(shell, admin, message, offset_id=True)


@command("queryMsgByUniqueKey", json=True)
@click.option(
    "-i", "--msgId", "msg_id", required=True, type=TEXT, help="The id that its producer gave it"
)
@topic_option
@group_option
@client_option
@click.option(
    "-a", "--showAll", "show_all", is_flag=True, help="All of that id, not only the oldest"
)
async def query_msg_by_unique_key(
    shell: Shell, msg_id: str, topic: str, group: str | None, client_id: str | None, show_all: bool
) -> None:
    _check_directly(group, client_id)
    missing: dict[str, RocketMQError] = {}
    async with shell.admin() as admin:
        found = await admin.query_by_unique_key(topic, msg_id, missing=missing)
        _warn_of(shell, missing)
        if not found:
            raise CommandFailed(f"no broker has a message {msg_id} of the topic {topic}")
        if group is not None and client_id is not None:
            await _consume_directly(shell, admin, found[0], group, client_id)
            return
        for number, message in enumerate(found if show_all else found[:1]):
            await _print_message(shell, admin, message, suffix=f"_{number}" if number else "")


@command("queryMsgByOffset", json=True)
@topic_option
@click.option(
    "-b", "--brokerName", "broker_name", required=True, type=TEXT, help="Name of its broker"
)
@click.option("-i", "--queueId", "queue_id", required=True, type=Number(0), help="Its queue")
@click.option("-o", "--offset", required=True, type=Number(0), help="Its offset there")
async def query_msg_by_offset(
    shell: Shell, topic: str, broker_name: str, queue_id: int, offset: int
) -> None:
    async with shell.admin() as admin:
        pulled = await admin.pull(MessageQueue(topic, broker_name, queue_id), offset, 1)
        if pulled.status is not PullStatus.FOUND or not pulled.messages:
            where = (
                f"queue {queue_id} of {topic} on {broker_name} has offsets from {pulled.min_offset}"
            )
            raise CommandFailed(f"{where} to {pulled.max_offset - 1}, not {offset}")
        ends = {"MIN_OFFSET": str(pulled.min_offset), "MAX_OFFSET": str(pulled.max_offset)}
        await _print_message(shell, admin, pulled.messages[0], offset_id=True, added=ends)


@command("queryMsgByKey", json=True)
@topic_option
@click.option("-k", "--msgKey", "key", required=True, type=TEXT, help="The key")
@click.option("--body", "with_body", is_flag=True, help="Print the bodies too")
async def query_msg_by_key(shell: Shell, topic: str, key: str, with_body: bool) -> None:
    missing: dict[str, RocketMQError] = {}
    async with shell.admin() as admin:
        found = await admin.query_messages(topic, key, missing=missing)
    _warn_of(shell, missing)
    if not found:
        raise CommandFailed(f"no broker has a message with the key {key} of the topic {topic}")
    with shell.out.table(BY_KEY_WITH_BODY if with_body else BY_KEY) as table:
        for message in found:
            body = (
                (message.body.decode("utf-8", "replace").replace("\n", "\\n"),) if with_body else ()
            )
            table.row(message.msg_id, message.queue_id, message.queue_offset, *body)


def _warn_of(shell: Shell, missing: Mapping[str, RocketMQError]) -> None:
    """There may be more there."""
    for address, error in missing.items():
        shell.warn(f"{address} was not looked through: {error}")


# --- one message
# --------------------------------------------------------------------------------------------------


def _check_directly(group: str | None, client_id: str | None) -> None:
    if (group is None) != (client_id is None):
        raise WrongUsage("a group and one of its clients belong together: give both -g and -d")


async def _print_message(
    shell: Shell,
    admin: Admin,
    message: MessageExt,
    *,
    offset_id: bool = False,
    suffix: str = "",
    added: Mapping[str, str] | None = None,
) -> None:
    path = BODIES / f"{_file_name(message)}{suffix}"
    if not shell.out.as_json:
        try:
            await asyncio.to_thread(_write_body, path, message.body)
        except OSError as error:
            shell.warn(f"the body cannot be written to {path}: {error.strerror}")
    details = _details(message, path, offset_id=offset_id, added=added or {})
    if shell.out.as_json:
        body = message.body.decode("utf-8", "replace")
        shell.out.add_row(
            {**_json_details(details), "body": body, "tracks": await _track_objects(admin, message)}
        )
        return
    for name, value in details.items():
        shell.out.line(f"{name + ':':<20} {value}")
    await _print_tracks(shell, admin, message)


def _json_details(details: Mapping[str, object]) -> dict[str, object]:
    named = {
        camel_case(name): value for name, value in details.items() if name != "Message Body Path"
    }
    return {name: value if isinstance(value, int) else str(value) for name, value in named.items()}


def _details(
    message: MessageExt, path: Path, *, offset_id: bool, added: Mapping[str, str]
) -> dict[str, object]:
    keys = message.properties.get(PropertyName.KEYS)
    return {
        **({"OffsetID": message.offset_msg_id} if offset_id else {}),
        "Topic": message.topic,
        "Tags": f"[{message.tags if message.tags is not None else 'null'}]",
        "Keys": f"[{keys if keys is not None else 'null'}]",
        "Queue ID": message.queue_id,
        "Queue Offset": message.queue_offset,
        "CommitLog Offset": message.commit_log_offset,
        "Reconsume Times": message.reconsume_times,
        "Born Timestamp": millis_text(message.born_timestamp),
        "Store Timestamp": millis_text(message.store_timestamp),
        "Born Host": message.born_host,
        "Store Host": message.store_host,
        "System Flag": message.sys_flag,
        "Properties": map_text({**message.properties, **added}),
        "Message Body Path": path,
    }


def _file_name(message: MessageExt) -> str:
    """A producer chooses its message's id: it must not choose where we write."""
    return (
        message.msg_id
        if re.fullmatch(r"[0-9A-Za-z_-]{1,128}", message.msg_id)
        else message.offset_msg_id
    )


def _write_body(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # not through a link that somebody left there
    with path.open("xb") as file:
        file.write(body)


async def _print_tracks(shell: Shell, admin: Admin, message: MessageExt) -> None:
    try:
        tracks = await admin.message_tracks(message)
    except RocketMQError as error:
        shell.out.line()
        shell.warn(f"who has consumed it is not known: {error}")
        return
    shell.out.text("\n\n")
    if not tracks:
        shell.out.text("WARN: No Consumer")
    for each in tracks:
        problem = each.problem if each.problem is not None else "null"
        shell.out.text(
            f"MessageTrack [consumerGroup={each.group}, trackType={each.track.value}, "
            f"exceptionDesc={problem}]"
        )


async def _track_objects(admin: Admin, message: MessageExt) -> list[dict[str, str | None]]:
    tracks = await admin.message_tracks(message)
    return [
        {"consumerGroup": each.group, "trackType": each.track.value, "exceptionDesc": each.problem}
        for each in tracks
    ]


async def _consume_directly(
    shell: Shell, admin: Admin, message: MessageExt, group: str, client_id: str
) -> None:
    result = await admin.consume_directly(
        group, client_id, message.offset_msg_id, message.store_host
    )
    outcome = result.consume_result.value if result.consume_result is not None else "null"
    remark = result.remark if result.remark is not None else "null"
    shell.out.text(
        f"ConsumeMessageDirectlyResult [order={boolean(result.order)}, "
        f"autoCommit={boolean(result.auto_commit)}, "
        f"consumeResult={outcome}, remark={remark}, spentTimeMills={result.spent_time_mills}]"
    )


async def _send_again(shell: Shell, admin: Admin, message: MessageExt) -> None:
    """It keeps its UNIQ_KEY."""
    shell.out.text(f"prepare resend msg. originalMsgId={message.msg_id}")
    shell.out.text(send_result_text(await admin.send_again(message)))


# --- traces
# --------------------------------------------------------------------------------------------------


@command("queryMsgTraceById", json=True)
@click.option(
    "-i", "--msgId", "msg_id", required=True, type=TEXT, help="The id that its producer gave it"
)
@click.option(
    "-t", "--traceTopic", "trace_topic", type=TEXT, default=TopicName.TRACE, help="Where traces are"
)
async def query_msg_trace_by_id(shell: Shell, msg_id: str, trace_topic: str) -> None:
    missing: dict[str, RocketMQError] = {}
    async with shell.admin() as admin:
        try:
            records = await admin.message_trace(msg_id, trace_topic, missing=missing)
        except NoRouteError:
            raise CommandFailed(
                f"nothing was ever traced: there is no topic {trace_topic}"
            ) from None
    _warn_of(shell, missing)
    if not records:
        raise CommandFailed(f"no trace of the message {msg_id} in the topic {trace_topic}")
    for published, host in (
        (record, host) for record, host in records if isinstance(record, Published)
    ):
        with shell.out.table(PUBLISHED) as table:
            status = "success" if published.success else "failed"
            when, cost = seconds_text(published.time_ms), f"{published.cost_ms}ms"
            table.row("Pub", published.group, host, when, cost, status)
        shell.out.line()
    for group, consumed in _by_group(records).items():
        with shell.out.table(CONSUMED) as table:
            for each, host in consumed:
                status = "success" if each.success else "failed"
                table.row(
                    "Sub", group, host, seconds_text(each.time_ms), f"{each.cost_ms}ms", status
                )
        shell.out.line()


def _by_group(records: Iterable[Traced]) -> dict[str, list[tuple[Consumed, str]]]:
    groups: dict[str, list[tuple[Consumed, str]]] = {}
    for record, host in records:
        if isinstance(record, Consumed):
            groups.setdefault(record.group or "", []).append((record, host))
    return groups
