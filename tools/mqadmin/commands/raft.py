"""Groups that elect their master: who leads and how far everybody is, and who is to lead. Ours: the
original has no such commands; its brokers are asked at their DLedger ports (``client/admin/raft``).
"""

from __future__ import annotations

from typing import Final

import click

from ....client.admin import Admin, LeadershipError, RaftMember
from ....client.errors import ConfigError
from ....remoting.errors import RocketMQError
from ..command import TEXT, broker_address_option, cluster_option, command
from ..output import Layout
from ..shell import Shell

STATUS: Final = Layout(
    (
        "#Group",
        "#Member",
        "#Addr",
        "#Role",
        "#Term",
        "#Leader",
        "#Begin",
        "#End",
        "#Committed",
        "#Lag",
        "#Votes",
        "#OldLog",
    ),
    row="%-22s  %-7s  %-22s  %-9s  %8s  %-7s  %12s  %12s  %12s  %9s  %-6s  %s",
)


@command("raftStatus", json=True, watch=True)
@broker_address_option
@cluster_option
async def raft_status(shell: Shell, broker_addr: str | None, cluster: str | None) -> None:
    """A line for each member; the lag in entries is as the leader knows it. The old log is the
    commit log from before the group: where it ends."""
    async with shell.admin() as admin:
        if broker_addr is not None:
            found = [await admin.raft_member(broker_addr)]
        else:
            found = await _members(shell, admin, cluster)
    lags = {(leader.group, member): lag for leader in found for member, lag in leader.lags.items()}
    with shell.out.table(STATUS) as table:
        for each in found:
            lag = 0 if each.role == "leader" else lags.get((each.group, each.member))
            table.row(
                *each[:5],
                *(
                    "-" if cell is None else cell
                    for cell in (
                        each.leader,
                        each.begin_index,
                        each.end_index,
                        each.committed_index,
                        lag,
                        None if each.votes is None else str(each.votes).lower(),
                        _old_log(each),
                    )
                ),
            )


def _old_log(member: RaftMember) -> str | int | None:
    if member.old_log_differs:
        return f"{member.old_log_end} differs"
    return member.old_log_end or None


async def _members(shell: Shell, admin: Admin, cluster: str | None) -> list[RaftMember]:
    """Brokers that belong to no group are left out."""
    found = []
    for broker in await admin.members(cluster):
        try:
            found.append(await admin.raft_member(broker.address))
        except ConfigError:
            continue
        except RocketMQError as error:
            shell.warn(error)
    return found


@command("transferLeader")
@click.option(
    "-b",
    "--brokerAddr",
    "broker_addr",
    required=True,
    type=TEXT,
    help="host:port of a broker of the group",
)
@click.option(
    "-t",
    "--to",
    "to",
    type=TEXT,
    help="The member that is to lead, as n1; default: the one that is furthest",
)
async def transfer_leader(shell: Shell, broker_addr: str, to: str | None) -> None:
    async with shell.admin() as admin:
        asked = await admin.raft_member(broker_addr)
        address = broker_addr
        if asked.role != "leader" and asked.votes is not None:
            address = await _broker_of_leader(admin, asked)
        leads = await admin.transfer_leader(address, to)
        shell.out.line(f"leadership of {asked.group} goes to {leads}")


async def _broker_of_leader(admin: Admin, asked: RaftMember) -> str:
    """The name servers know. Raises ``LeadershipError``."""
    brokers = await admin.members()
    name = next((each.broker_name for each in brokers if each.address == asked.address), None)
    for each in brokers:
        if each.is_master and each.broker_name == name:
            return each.address
    raise LeadershipError(
        f"{asked.member} does not lead the group {asked.group}, and the name servers know no "
        f"master of it; as it knows {asked.leader or 'nobody'} leads"
    )
