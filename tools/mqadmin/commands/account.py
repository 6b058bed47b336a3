"""Access control: updateAclConfig, deleteAclConfig, clusterAclConfigVersion, updateGlobalWhiteAddr
(``admin-cli.md`` §2).

Secrets are never printed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import click

from ..command import BOOLEAN, TEXT, broker_address_option, cluster_option, command, grouped
from ..java_text import boolean, seconds_text
from ..output import Layout
from ..shell import Shell
from ..targets import answers, each, masters, replicas

VERSIONS: Final = Layout(
    (
        "#Cluster Name",
        "#Broker Name",
        "#Broker Addr",
        "#AclFilePath",
        "#AclConfigVersionNum",
        "#AclLastUpdateTime",
    ),
    row="%-16s  %-22s  %-22s  %-20s  %-22s  %-22s",
)

access_key_option: Final = click.option(
    "-a", "--accessKey", "access_key", required=True, type=TEXT, help="Name of the account"
)


class _Account(NamedTuple):
    """What is asked for, lists as they were typed."""

    access_key: str
    secret_key: str
    white_address: str | None
    topic_perm: str | None
    group_perm: str | None
    topic_perms: str | None
    group_perms: str | None
    is_admin: bool

    def __str__(self) -> str:
        return (
            f"PlainAccessConfig [accessKey={self.access_key}, "
            f"whiteRemoteAddress={self.white_address or 'null'}, "
            f"admin={boolean(self.is_admin)}, defaultTopicPerm={self.topic_perm or 'null'}, "
            f"defaultGroupPerm={self.group_perm or 'null'}, "
            f"topicPerms=[{', '.join(_listed(self.topic_perms))}], "
            f"groupPerms=[{', '.join(_listed(self.group_perms))}]]"
        )


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in text.split(",") if entry.strip()) if text else ()


@command("updateAclConfig", one_of=("broker_addr", "cluster"))
@broker_address_option
@cluster_option
@access_key_option
@click.option("-s", "--secretKey", "secret_key", required=True, type=TEXT, help="Its secret")
@click.option(
    "-w",
    "--whiteRemoteAddress",
    "white_address",
    type=TEXT,
    help="From there it may do everything, unsigned",
)
@click.option("-i", "--defaultTopicPerm", "topic_perm", type=TEXT, help="DENY, PUB, SUB or PUB|SUB")
@click.option("-u", "--defaultGroupPerm", "group_perm", type=TEXT, help="DENY or SUB")
@click.option("-t", "--topicPerms", "topic_perms", type=TEXT, help="topicA=DENY,topicB=PUB|SUB")
@click.option("-g", "--groupPerms", "group_perms", type=TEXT, help="groupA=DENY,groupB=SUB")
@click.option(
    "-m", "--admin", "is_admin", type=BOOLEAN, default=False, help="true: it may administrate"
)
@grouped("account", _Account)
async def update_acl_config(
    shell: Shell, broker_addr: str | None, cluster: str | None, account: _Account
) -> None:
    made = 0
    async with shell.admin() as admin:

        async def create(address: str) -> None:
            await admin.create_account(
                address,
                account.access_key,
                account.secret_key,
                white_remote_address=account.white_address,
                admin=account.is_admin,
                default_topic_perm=account.topic_perm,
                default_group_perm=account.group_perm,
                topic_perms=_listed(account.topic_perms),
                group_perms=_listed(account.group_perms),
            )

        async for address in each(shell, await replicas(admin, broker_addr, cluster), create):
            shell.out.line(f"create or update plain access config to {address} success.")
            made += 1
    if made:
        shell.out.text(str(account))


@command("deleteAclConfig", one_of=("broker_addr", "cluster"))
@broker_address_option
@cluster_option
@access_key_option
async def delete_acl_config(
    shell: Shell, broker_addr: str | None, cluster: str | None, access_key: str
) -> None:
    async with shell.admin() as admin:
        addresses, deleted = await replicas(admin, broker_addr, cluster), 0
        async for address in each(
            shell, addresses, lambda address: admin.delete_account(address, access_key)
        ):
            shell.out.line(f"delete plain access config account from {address} success.")
            deleted += 1
    if deleted:
        shell.out.text(f"account's accesskey is:{access_key}")


@command("updateGlobalWhiteAddr", one_of=("broker_addr", "cluster"))
@broker_address_option
@cluster_option
@click.option(
    "-g",
    "--globalWhiteRemoteAddresses",
    "white",
    required=True,
    type=TEXT,
    help="They need no account; separated by commas",
)
@click.option(
    "-p",
    "--aclFileFullPath",
    "acl_file",
    type=TEXT,
    help="The broker's file to write; default: plain_acl.yml",
)
async def update_global_white_addr(
    shell: Shell, broker_addr: str | None, cluster: str | None, white: str, acl_file: str | None
) -> None:
    async with shell.admin() as admin:
        addresses, entries = await replicas(admin, broker_addr, cluster), _listed(white)
        async for address in each(
            shell,
            addresses,
            lambda address: admin.update_global_white_addresses(address, entries, acl_file),
        ):
            shell.out.line(f"update global white remote addresses to {address} success.")


@command("clusterAclConfigVersion", one_of=("broker_addr", "cluster"), json=True)
@broker_address_option
@cluster_option
async def cluster_acl_config_version(
    shell: Shell, broker_addr: str | None, cluster: str | None
) -> None:
    """The heading comes with ``-c`` only."""
    layout = VERSIONS if broker_addr is None or shell.out.terminal else VERSIONS._replace(header="")
    async with shell.admin() as admin:
        with shell.out.table(layout) as table:
            addresses = await masters(shell, admin, broker_addr, cluster)
            async for _, found in answers(shell, addresses, admin.acl_version):
                for path, version in found.files.items():
                    when = seconds_text(version.timestamp)
                    table.row(
                        found.cluster, found.broker_name, found.address, path, version.counter, when
                    )
    if not shell.failed:
        whose = "broker" if broker_addr is not None else "cluster"
        shell.out.line(f"get {whose}'s plain access config version success.")
