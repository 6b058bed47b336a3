"""Which brokers a command means: one by ``-b``, or those of a cluster by ``-c``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from ...client.admin import Admin
from ...remoting.errors import RocketMQError
from .shell import Shell, WrongUsage

NEEDED: Final = "a broker or a cluster is needed: add -b HOST:PORT or -c CLUSTER"


def check_target(broker_addr: str | None, cluster: str | None) -> None:
    """Raises ``WrongUsage`` when neither is given."""
    if broker_addr is None and cluster is None:
        raise WrongUsage(NEEDED)


async def masters(admin: Admin, broker_addr: str | None, cluster: str | None) -> list[str]:
    """Addresses. Raises ``WrongUsage`` when neither is given."""
    check_target(broker_addr, cluster)
    return [broker_addr] if broker_addr is not None else await admin.masters_of(cluster or "")


async def replicas(admin: Admin, broker_addr: str | None, cluster: str | None) -> list[str]:
    """The same, slaves included. Without broker and cluster: of all clusters."""
    if broker_addr is not None:
        return [broker_addr]
    return [member.address for member in await admin.members(cluster)]


async def each(
    shell: Shell, addresses: list[str], operation: Callable[[str], Awaitable[None]]
) -> AsyncIterator[str]:
    """Those where the operation succeeded, one by one; a failure is printed, and the others have
    their turn.

    A single address: its failure is raised.
    """
    for address in addresses:
        try:
            await operation(address)
        except RocketMQError as error:
            if len(addresses) == 1:
                raise
            shell.warn(error)
        else:
            yield address
