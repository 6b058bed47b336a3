"""Who belongs to a group: what ``dLegerPeers`` says (dledger.md §5.1). Pure."""

from __future__ import annotations

import re
from typing import Final

from ...remoting.transport.address import is_host, port_of
from ...store.model.config import MessageStoreConfig
from ...store.model.errors import StoreConfigError
from ...store.raft.settings import RaftSettings

MAX_MEMBERS: Final = 64
_SELF_ID: Final = re.compile(r"[A-Za-z](\d{1,9})")
_EXAMPLE: Final = "n0-10.0.0.1:40911;n1-10.0.0.2:40911;n2-10.0.0.3:40911"


def raft_settings(config: MessageStoreConfig, broker_name: str) -> RaftSettings:
    """What the properties say, with the times of groups of ours. Raises StoreConfigError."""
    self_id = config.dledger_self_id or ""
    preferred = (config.preferred_leader_id or "").split(";")
    settings = RaftSettings(
        config.dledger_group or broker_name,
        self_id,
        read_peers(config.dledger_peers),
        tuple(peer for each in preferred if (peer := each.strip())),
    )
    settings.check()
    if not _SELF_ID.fullmatch(self_id):
        raise StoreConfigError(
            f"dLegerSelfId={self_id} must be a letter and a number, as n0: the number and one is "
            "the broker's id while it follows"
        )
    return settings


def own_port(settings: RaftSettings) -> int:
    """Where this member listens; nothing else of its own entry is used."""
    return int(settings.peers[settings.self_id].rpartition(":")[2])


def follower_broker_id(self_id: str) -> int:
    """The broker id of a member while it follows: its number and one (dledger.md §5.4)."""
    return int(self_id[1:]) + 1


def read_peers(text: str | None) -> dict[str, str]:
    """Addresses (``host:port``) by id, in the order of the text. Raises StoreConfigError."""
    found: dict[str, str] = {}
    for entry in (text or "").split(";"):
        if not (entry := entry.strip()):
            continue
        peer, dash, address = entry.partition("-")
        host, colon, port = address.rpartition(":")
        if not peer or not dash or not host or not colon or not port.isdecimal():
            raise StoreConfigError(
                f"dLegerPeers: {entry!r} is no member, it must look like id-host:port ({_EXAMPLE})"
            )
        if port_of(port) is None:
            raise StoreConfigError(f"dLegerPeers: {entry!r} has no port from 1 to 65535")
        if not is_host(host):
            raise StoreConfigError(f"dLegerPeers: {entry!r} has neither an address nor a name")
        if peer in found:
            raise StoreConfigError(f"dLegerPeers names {peer} twice")
        found[peer] = address
    if not found:
        raise StoreConfigError(f"dLegerPeers names no member; it looks like {_EXAMPLE}")
    if len(found) > MAX_MEMBERS:
        raise StoreConfigError(f"dLegerPeers names {len(found)} members, {MAX_MEMBERS} may be")
    return found
