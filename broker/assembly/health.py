"""What a broker has to be to be called healthy."""

from __future__ import annotations

from functools import partial

from ...store.message_store import MessageStore
from ...store.raft.ready import Role
from ..monitoring.health import HealthProcessor
from ..raft.node import RaftNode
from ..registry.name_servers import NameServers


def health(
    store: MessageStore, name_servers: NameServers, node: RaftNode | None
) -> HealthProcessor:
    """``node``: of a member of a group. A slave that cannot reach its master is healthy: it serves
    what it has."""
    of_member = () if node is None else (partial(_as_member, node),)
    return HealthProcessor(
        (
            lambda: store.trouble or store.no_room,
            partial(_registered, name_servers),
            *of_member,
        )
    )


def _registered(name_servers: NameServers) -> str | None:
    links = name_servers.links
    if not links or any(link.registered for link in links):
        return None
    return "no name server knows this broker, so that no client finds it"


def _as_member(node: RaftNode) -> str | None:
    if node.role is Role.CANDIDATE:
        return "this member of the group has no leader"
    return None if node.votes else "this member of the group has lost entries and is catching up"
