"""Members whose ``dLegerPeers`` name others than ours does. With two lists in use two leaders may
each find a majority of its own, and whoever is in one only follows nobody: that is told."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ...remoting.protocol.bodies.dledger import DledgerBody, HeartbeatRequest, VoteRequest

log: Final = logging.getLogger(__name__)

_TEXT: Final = (
    "dLegerPeers of member %s is not that of this one, which names %s; it must be the same at all: "
    "stop all members, correct it, start them"
)


class MemberLists:
    """Compares ids: an address may be told in several ways."""

    def __init__(self, members: Collection[str], clock: Clock) -> None:
        self._members: Final = frozenset(members)
        self._outages: Final = Outages(clock)

    def told(self, peer: str, members: Collection[str] | None) -> None:
        """A member says who they are; None: it does not say."""
        if members is None or self._members == set(members):
            self._outages.works((peer,))
        else:
            self._differ(peer)

    def asked(self, request: DledgerBody) -> None:
        """By somebody who wants to lead, or does."""
        wants_to_lead = isinstance(request, VoteRequest | HeartbeatRequest)
        leader = request.leader_id if wants_to_lead else None
        if leader is not None and leader not in self._members:
            self._differ(leader)

    def _differ(self, peer: str) -> None:
        names = ", ".join(sorted(self._members))
        self._outages.fails(log, (peer,), _TEXT, peer[:100], names, level=logging.ERROR)
