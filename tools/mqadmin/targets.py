"""Which brokers a command means: one by ``-b``, or those of a cluster by ``-c``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

from ...client.admin import Admin, Member
from ...client.cluster.lost_brokers import how_to_forget, when_lost
from ...client.errors import NoRouteError
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


@asynccontextmanager
async def told_of_the_lost(
    shell: Shell, admin: Admin, topic: str | None, whose: str
) -> AsyncIterator[None]:
    """At the end of the block, also where it fails: which brokers died that had this topic (any, if
    there is none), so that the answer lacks what is theirs. On standard error: the output stays
    that of the original, whose name servers remember none."""
    try:
        yield
    except RocketMQError:
        await _tell_of_the_lost(shell, admin, topic, whose)
        raise
    await _tell_of_the_lost(shell, admin, topic, whose)


async def _tell_of_the_lost(shell: Shell, admin: Admin, topic: str | None, whose: str) -> None:
    lost = await lost_brokers(admin, topic)
    for name, since in lost.items():
        shell.warn(f"the broker {name} is lost, {whose} missing here: {since}")


async def lost_brokers(admin: Admin, topic: str | None = None) -> dict[str, str]:
    """Those that are not there (for this topic), each with since when, who says so, and what to do
    where it is gone for good; by name."""
    lost: dict[str, tuple[str, list[str]]] = {}
    for server, brokers in (await admin.lost_brokers(topic)).items():
        for name, since_ms in brokers.items():
            lost.setdefault(name, (since_ms, []))[1].append(server)
    here = await _brokers_of(admin, topic) if lost else ()
    return {
        name: f"it gave its last sign of life{when_lost(since_ms)}, as {', '.join(servers)} "
        f"remembers ({how_to_forget(name)})"
        for name, (since_ms, servers) in sorted(lost.items())
        if name not in here
    }


async def _brokers_of(admin: Admin, topic: str | None) -> set[str]:
    """Their names."""
    if topic is None:
        return {member.broker_name for member in await admin.members()}
    try:
        return {each.broker_name for each in (await admin.topic_route(topic)).broker_datas}
    except NoRouteError:
        return set()


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
