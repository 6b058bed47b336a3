"""Entries of a consume queue: queryCq (``admin-cli.md`` §3.37)."""

from __future__ import annotations

from typing import Final

import click

from ....remoting.protocol.bodies.stats import ConsumeQueueData
from ....remoting.protocol.fastjson import writer as fastjson_writer
from ..command import TEXT, Number, command, topic_option
from ..java_text import boolean
from ..output import Layout
from ..shell import Shell

RULE: Final = "======================================"
ENTRIES: Final = Layout(
    ("#Index", "#PhysicOffset", "#PhysicSize", "#TagsCode", "#Eval"), row="%s %s %s %s %s"
)


@command("queryCq", json=True)
@topic_option
@click.option(
    "-q", "--queue", "queue_id", required=True, type=Number(0), help="Number of the queue"
)
@click.option("-i", "--index", required=True, type=Number(0), help="The first entry")
@click.option("-c", "--count", type=Number(1), default=10, help="How many, 10")
@click.option(
    "-b",
    "--broker",
    "broker_addr",
    type=TEXT,
    help="host:port of the broker; default: the first one of the topic",
)
@click.option(
    "-g",
    "--consumer",
    "group",
    type=TEXT,
    help="Also whether the subscription of this group takes them",
)
async def query_cq(
    shell: Shell,
    topic: str,
    queue_id: int,
    index: int,
    count: int,
    broker_addr: str | None,
    group: str | None,
) -> None:
    async with shell.admin() as admin:
        address = broker_addr or await admin.first_address_of_topic(topic)
        found = await admin.query_consume_queue(address, topic, queue_id, index, count, group)
    if found.subscription_data is not None:
        shell.out.line("Subscription data: ")
        shell.out.line(fastjson_writer.dumps_pretty(found.subscription_data))
        shell.out.line(RULE)
    if found.filter_data:
        shell.out.line("Filter data: ")
        shell.out.line(found.filter_data)
        shell.out.line(RULE)
    shell.out.line("Queue data: ")
    shell.out.line(f"max: {found.max_queue_index}, min: {found.min_queue_index}")
    shell.out.fact("max", found.max_queue_index)
    shell.out.fact("min", found.min_queue_index)
    shell.out.line(RULE)
    for number, entry in enumerate(found.queue_data, start=index):
        shell.out.line(f"idx: {number}")
        shell.out.line(_entry_text(entry))
        shell.out.line(RULE)
    if shell.out.as_json:
        with shell.out.table(ENTRIES) as table:
            for number, entry in enumerate(found.queue_data, start=index):
                table.row(
                    number, entry.physic_offset, entry.physic_size, entry.tags_code, entry.eval
                )


def _entry_text(entry: ConsumeQueueData) -> str:
    extension, bits = entry.extend_data_json or "null", entry.bit_map or "null"
    return (
        f"ConsumeQueueData{{physicOffset={entry.physic_offset}, physicSize={entry.physic_size}, "
        f"tagsCode={entry.tags_code}, extendDataJson='{extension}', bitMap='{bits}', "
        f"eval={boolean(entry.eval)}, "
        f"msg='{entry.msg or 'null'}'}}"
    )
