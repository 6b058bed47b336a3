"""Which brokers a command means: one by ``-b``, or those of a cluster by ``-c``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from ...client.admin import Admin, Member
from ...remoting.errors import BrokerError, RemotingError, RocketMQError
from .shell import CommandFailed, Shell, WrongUsage

T = TypeVar("T")

NEEDED: Final = "a broker or a cluster is needed: add -b HOST:PORT or -c CLUSTER"


def check_target(broker_addr: str | None, cluster: str | None) -> None:
    """Raises ``WrongUsage`` when neither is given."""
    if broker_addr is None and cluster is None:
        raise WrongUsage(NEEDED)


async def masters(
    shell: Shell, admin: Admin, broker_addr: str | None, cluster: str | None
) -> list[str]:
    """Addresses. Raises ``WrongUsage`` when neither is given."""
    check_target(broker_addr, cluster)
    if broker_addr is not None:
        return [broker_addr]
    return await masters_in(shell, admin, cluster or "")


async def masters_in(shell: Shell, admin: Admin, cluster: str) -> list[str]:
    """Their addresses. Raises ``ConfigError`` for an unknown cluster."""
    members = await admin.members(cluster)
    return [member.address for member in masters_among(shell, members)]


def masters_among(shell: Shell, members: Iterable[Member]) -> list[Member]:
    """A broker that has none just now is left out, and that is a failure: what is done is done
    without it."""
    by_name: dict[str, Member | None] = {}
    for member in members:
        if member.is_master:
            by_name[member.broker_name] = member
        else:
            by_name.setdefault(member.broker_name)
    for name, master in by_name.items():
        if master is None:
            shell.warn(f"the broker {name} has no master at present: it is left out")
    return [master for master in by_name.values() if master is not None]


async def replicas(admin: Admin, broker_addr: str | None, cluster: str | None) -> list[str]:
    """The same, slaves included. Without broker and cluster: of all clusters."""
    if broker_addr is not None:
        return [broker_addr]
    return [member.address for member in await admin.members(cluster)]


async def each(
    shell: Shell, addresses: list[str], operation: Callable[[str], Awaitable[None]]
) -> AsyncIterator[str]:
    """Those where the operation succeeded, one by one; else as ``answers``."""
    async for address, _ in answers(shell, addresses, operation):
        yield address


async def answers(
    shell: Shell, addresses: list[str], question: Callable[[str], Awaitable[T]]
) -> AsyncIterator[tuple[str, T]]:
    """Addresses with what they answer, one by one; a failure is printed, and the others have their
    turn.

    A single address: its failure is raised.
    """
    for address in addresses:
        try:
            answer = await question(address)
        except RocketMQError as error:
            if len(addresses) == 1:
                raise
            shell.warn(error)
        else:
            yield address, answer


@contextmanager
def every_name_server(admin: Admin) -> Iterator[None]:
    """For what is told to all of them, and fails with the errors of those that failed: those that
    took it have it."""
    try:
        yield
    except (BrokerError, RemotingError) as error:
        count = len(admin.name_server_addresses)
        if count == 1:
            raise
        raise CommandFailed(
            f"{error}; each of the {count} name servers was told: they may not say the same now, "
            "so run the command again when all answer"
        ) from error
