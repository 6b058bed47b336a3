"""Name servers: KV config, their configuration, write permission of brokers (``admin-cli.md`` §3.28
to §3.30)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import click

from ....client.admin import Admin
from ....remoting.errors import RocketMQError
from ..command import TEXT, command
from ..java_text import hash_order
from ..shell import Shell
from ..targets import answers, each, every_name_server


@command("updateKvConfig")
@click.option("-s", "--namespace", required=True, type=TEXT, help="The namespace")
@click.option("-k", "--key", required=True, type=TEXT, help="The key in it")
@click.option("-v", "--value", required=True, type=TEXT, help="Its new value")
async def update_kv_config(shell: Shell, namespace: str, key: str, value: str) -> None:
    async with shell.admin(brokers=False) as admin:
        with every_name_server(admin):
            await admin.put_kv_config(namespace, key, value)
    shell.out.line("create or update kv config to namespace success.")


@command("deleteKvConfig")
@click.option("-s", "--namespace", required=True, type=TEXT, help="The namespace")
@click.option("-k", "--key", required=True, type=TEXT, help="The key in it")
async def delete_kv_config(shell: Shell, namespace: str, key: str) -> None:
    async with shell.admin(brokers=False) as admin:
        with every_name_server(admin):
            await admin.delete_kv_config(namespace, key)
    shell.out.line("delete kv config from namespace success.")


@command("wipeWritePerm")
@click.option(
    "-b", "--brokerName", "broker_name", required=True, type=TEXT, help="Name of the broker"
)
async def wipe_write_perm(shell: Shell, broker_name: str) -> None:
    async with shell.admin() as admin:
        await _change_perm(shell, admin, "wipe", broker_name, admin.wipe_write_perm)


@command("addWritePerm")
@click.option(
    "-b", "--brokerName", "broker_name", required=True, type=TEXT, help="Name of the broker"
)
async def add_write_perm(shell: Shell, broker_name: str) -> None:
    async with shell.admin() as admin:
        await _change_perm(shell, admin, "add", broker_name, admin.add_write_perm)


async def _change_perm(
    shell: Shell,
    admin: Admin,
    verb: str,
    broker_name: str,
    change: Callable[[str, str], Awaitable[int]],
) -> None:
    """Every name server, whatever the others say. One that has no such broker says 0; where all
    do, nothing was done."""
    topics: list[int] = []
    for address in admin.name_server_addresses:
        what = f"{verb} write perm of broker[{broker_name}] in name server[{address}]"
        try:
            count = await change(address, broker_name)
        except RocketMQError as error:
            shell.out.line(f"{what} Failed")
            shell.warn(error)
        else:
            shell.out.line(f"{what} OK, {count}")
            topics.append(count)
    if topics and not any(topics):
        shell.warn(f"no topic of a broker {broker_name} is known there: nothing has changed")


@command("getNamesrvConfig", json=True)
async def get_namesrv_config(shell: Shell) -> None:
    async with shell.admin(brokers=False) as admin:
        addresses = admin.name_server_addresses
        async for address, config in answers(shell, addresses, admin.name_server_config):
            shell.out.line(f"============{address}============")
            shell.out.pairs(
                {name: config[name] for name in hash_order(config)}, "%-50s=  %s", name=address
            )


@command("updateNamesrvConfig")
@click.option("-k", "--key", required=True, type=TEXT, help="The property")
@click.option("-v", "--value", required=True, type=TEXT, help="Its new value")
async def update_namesrv_config(shell: Shell, key: str, value: str) -> None:
    async with shell.admin(brokers=False) as admin:
        changed = [
            address
            async for address in each(
                shell,
                admin.name_server_addresses,
                lambda address: admin.update_name_server_config(address, {key: value}),
            )
        ]
    if shell.failed:
        shell.tell(f"it was changed at {', '.join(changed) or 'none of them'}")
        return
    given = f"[{', '.join(admin.name_server_addresses)}]" if shell.namesrv_by_option else ""
    shell.out.line(f"update name server config success!{given}")
    shell.out.line(f"{key} : {value}")
