"""Who may do what at the port of a member, without I/O.

In the original any host may vote, push and append there, and whoever votes with a higher term has a
healthy leader deposed (dledger.md §1, §3.4). Here votes, heartbeats, pushes and transfers are taken
from the addresses that ``dLegerPeers`` names, and those that ``dLegerAllowedAddresses`` adds to
them; with ``haSecret`` only on connections that have proved to know it. Anybody may ask who leads
(METADATA).

Strangers have few connections, and members their own: none keeps a member out.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from ...remoting.clock import Clock
from ...remoting.dispatch import Body, Context, Reply
from ...remoting.outages import Outages, without_figures
from ...remoting.peer import Peer
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.wire import NoFields
from ...store.replica.replication import ReplicationError
from ...store.replica.replication_secret import MasterHandshake

log: Final = logging.getLogger(__name__)

MAX_STRANGERS: Final = 32
MAX_PER_STRANGER: Final = 4
MAX_PER_MEMBER: Final = 64
"""Connections from one address of a member. Two are in use; one that the network has cut is made
anew long before the system finds out that the old one is dead."""
_FOR_ALL: Final = frozenset({RequestCode.DLEDGER_METADATA, RequestCode.DLEDGER_HANDSHAKE})
_MAX_FOR_ALL_BYTES: Final = 4096
_TOO_LONG: Final = f"such a request has {_MAX_FOR_ALL_BYTES} bytes at most"
_PROVED: Final = "raft-proved"
_HANDSHAKE: Final = "raft-handshake"
_MAX_STEP_BYTES: Final = 64
"""Of a handshake: a hello has 24 bytes, a proof 32."""


class Door:
    """``doorkeeper`` of the server, ``guard`` of its dispatcher, handler of DLEDGER_HANDSHAKE."""

    def __init__(
        self,
        secret: bytes,
        allowed: Callable[[str], bool],
        nonce: Callable[[], bytes],
        look_up: Callable[[], None],
        clock: Clock,
    ) -> None:
        """``allowed``: addresses that configuration adds. ``nonce`` makes ``NONCE_BYTES`` that were
        never there before. ``look_up``: somebody unknown has come, the addresses of members may
        have changed; ``members_are`` tells them."""
        self._secret: Final = secret
        self._allowed: Final = allowed
        self._nonce: Final = nonce
        self._look_up: Final = look_up
        self._members: frozenset[str] = frozenset()
        self._connections: Counter[str] = Counter()
        self._strangers = 0
        self._outages = Outages(clock)

    def members_are(self, addresses: Iterable[str]) -> None:
        """The addresses, without ports, that the members have now."""
        self._members = frozenset(addresses)

    def knows(self, host: str) -> bool:
        """A member may be there."""
        return host in self._members or self._allowed(host)

    # -- connections

    def enter(self, host: str) -> str | None:
        """See ``Doorkeeper``."""
        reason = self._refusal(host)
        if reason is None:
            self._connections[host] += 1
        else:
            self.log(host, reason)
        return reason

    def _refusal(self, host: str) -> str | None:
        if not host:
            return "it has left already"
        here = self._connections[host]
        if self.knows(host):
            return None if here < MAX_PER_MEMBER else f"{here} connections come from there already"
        self._look_up()
        if here >= MAX_PER_STRANGER:
            return f"{here} connections come from there already, and it is no member's address"
        strangers = sum(n for each, n in self._connections.items() if not self.knows(each))
        if strangers >= MAX_STRANGERS:
            return f"{strangers} connections come from addresses that are no member's"
        return None

    def leave(self, host: str) -> None:
        """See ``Doorkeeper``."""
        self._connections[host] -= 1
        if self._connections[host] <= 0:
            del self._connections[host]

    # -- requests

    def guard(self, ctx: Context, body: Body) -> Reply | None:
        """A refusal has no body: for a member of the original it is no answer at all."""
        if ctx.code in _FOR_ALL:
            too_long = len(body) > _MAX_FOR_ALL_BYTES
            return Reply(ResponseCode.SYSTEM_ERROR, remark=_TOO_LONG) if too_long else None
        host = host_of(ctx.connection)
        if not self.knows(host):
            self._look_up()
            return self._refuse(
                host,
                "dLegerPeers names no member with this address; if one comes from there, set "
                "dLegerAllowedAddresses",
            )
        if self._secret and _PROVED not in ctx.connection.attributes:
            return self._refuse(
                host, "it has not proved that it knows the secret: set the same haSecret at all"
            )
        return None

    def is_member(self, connection: Peer) -> bool:
        """A request that came over it is to be taken seriously."""
        proved = not self._secret or _PROVED in connection.attributes
        return proved and self.knows(host_of(connection))

    def handshake(self, _request: NoFields, body: Body, ctx: Context) -> Reply:
        """One of the two steps in which a member proves that it knows the secret."""
        if not self._secret:
            return self._refuse(
                host_of(ctx.connection),
                "it proves a secret, and this member has none: set the same haSecret at all",
            )
        attributes = ctx.connection.attributes
        handshake = attributes.pop(_HANDSHAKE, None) or MasterHandshake(self._secret, self._nonce())
        try:
            answer = handshake.receive(bytes(body[:_MAX_STEP_BYTES]))
        except ReplicationError as error:
            return self._refuse(host_of(ctx.connection), str(error))
        attributes[_PROVED if handshake.done else _HANDSHAKE] = handshake
        return Reply(OK, body=answer)

    def _refuse(self, host: str, reason: str) -> Reply:
        self.log(host, reason)
        return Reply(ResponseCode.NO_PERMISSION, remark=reason)

    def log(self, host: str, reason: str) -> None:
        """Strangers come again and again."""
        cause = host, without_figures(reason)
        text = "member refused address=%s reason=%s"
        self._outages.occurs(log, cause, text, host, reason, level=logging.ERROR)


OK: Final = 200
"""The header code of every answer between members (dledger.md §2.1)."""


def host_of(connection: Peer) -> str:
    """Its address without port and brackets."""
    return _host_in(connection.peer)


@functools.lru_cache(1024)
def _host_in(peer: str) -> str:
    return peer.rpartition(":")[0].removeprefix("[").removesuffix("]")
