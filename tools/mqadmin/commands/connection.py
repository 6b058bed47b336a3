"""Who is connected: producerConnection, consumerConnection, producer (``admin-cli.md`` §3.16,
§3.18)."""

from __future__ import annotations

from typing import Final

import click

from ....client.errors import NoRouteError
from ....remoting.protocol.codes import version_name
from ..command import TEXT, command
from ..output import Layout
from ..shell import CommandFailed, Shell

CLIENTS: Final = Layout(
    ("#ClientId", "#ClientAddr", "#Language", "#Version"), row="%-36s %-22s %-10s %s"
)
SUBSCRIPTIONS: Final = Layout(("#Topic", "#SubExpression"), row="%-20s %s")
PRODUCERS: Final = Layout(
    ("#Index", "#ClientId", "#ClientAddr", "#Language", "#Version"),
    row="%04d  %-32s %-22s %-8s %s",
    header="",
)
INSTANCES: Final = Layout(
    ("#Group", "#ClientId", "#RemoteIP", "#Language", "#Version", "#LastUpdateTimestamp"),
    row="producer group (%s) instance : clientId=%s,remoteIP=%s, language=%s, version=%s, "
    "lastUpdateTimestamp=%s",
    header="",
)


@command("producerConnection", json=True)
@click.option("-g", "--producerGroup", "group", required=True, type=TEXT, help="The producer group")
@click.option(
    "-t", "--topic", required=True, type=TEXT, help="A topic: one of its brokers is asked"
)
async def producer_connection(shell: Shell, group: str, topic: str) -> None:
    async with shell.admin() as admin:
        found = await admin.producer_connection(group, topic)
    with shell.out.table(PRODUCERS) as table:
        for number, client in enumerate(found.connection_set, start=1):
            language = client.language.name if client.language is not None else ""
            table.row(
                number, client.client_id, client.client_addr, language, version_name(client.version)
            )


@command("consumerConnection", json=True)
@click.option("-g", "--consumerGroup", "group", required=True, type=TEXT, help="The consumer group")
@click.option(
    "-b",
    "--brokerAddr",
    "broker_addr",
    type=TEXT,
    help="Ask this broker; default: any of the group",
)
async def consumer_connection(shell: Shell, group: str, broker_addr: str | None) -> None:
    async with shell.admin() as admin:
        try:
            found = await admin.consumer_connection(group, broker_addr)
        except NoRouteError:
            raise unknown_group(group) from None
    with shell.out.table(CLIENTS) as table:
        for client in found.connection_set:
            language = client.language.name if client.language is not None else ""
            table.row(client.client_id, client.client_addr, language, version_name(client.version))
    expressions = {topic: each.sub_string for topic, each in found.subscription_table.items()}
    shell.out.text("\nBelow is subscription:\n")
    if not shell.out.as_json:
        with shell.out.table(SUBSCRIPTIONS) as table:
            for pair in expressions.items():
                table.row(*pair)
    shell.out.fact("subscription", expressions)
    kind, model = found.consume_type, found.message_model
    start = found.consume_from_where
    shell.out.fact("consumeType", kind, f"\nConsumeType: {kind}\n")
    shell.out.fact("messageModel", model, f"MessageModel: {model}\n")
    shell.out.fact("consumeFromWhere", start, f"ConsumeFromWhere: {start}\n")


def unknown_group(group: str) -> CommandFailed:
    return CommandFailed(
        f"no broker knows the consumer group {group}: nobody of it has ever been online"
    )


@command("producer", json=True)
@click.option(
    "-b", "--broker", "broker_addr", required=True, type=TEXT, help="host:port of the broker"
)
async def producer(shell: Shell, broker_addr: str) -> None:
    async with shell.admin() as admin:
        groups = (await admin.producers_of_broker(broker_addr)).data
    with shell.out.table(INSTANCES) as table:
        for group, instances in groups.items():
            if not instances:
                shell.out.line(f"producer group ({group}) instances are empty")
            for client in instances:
                language = client.language.name if client.language is not None else "null"
                remote = client.remote_ip, language, client.version, client.last_update_timestamp
                table.row(group, client.client_id, *remote)
