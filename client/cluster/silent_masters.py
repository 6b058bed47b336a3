"""Sends that wait at a master which says nothing.

A process that stands still, or a host behind a network that is cut, leaves its connections open:
what was sent there would wait for its whole time, though the group has elected another master
meanwhile. So where a send has waited for a second, and the broker has replicas, the name servers
are asked; once they name another master the connection to the old one is ended. Its sends fail
then, and go on as after any lost connection.
"""

from __future__ import annotations

import logging
from typing import Final

from ...remoting.clock import Clock
from ...remoting.transport.client import RemotingClient
from ..options import vip_address
from .master_watch import MasterWatch
from .route_cache import RouteCache

log: Final = logging.getLogger(__name__)

PATIENCE_S: Final = 1.0
LOOK_EVERY_S: Final = 0.25


class SilentMasters:
    """Looks after the connections of one client."""

    def __init__(
        self, remoting: RemotingClient, routes: RouteCache, masters: MasterWatch, clock: Clock
    ) -> None:
        self._remoting = remoting
        self._routes = routes
        self._masters = masters
        self._clock = clock
        self._suspects: set[str] = set()
        """Masters that had said nothing when they were looked at last."""
        routes.on_change.append(self._route_changed)

    async def run(self) -> None:
        """Look four times a second while a send waits, else no sooner than one can have waited for
        too long."""
        while True:
            await self._clock.sleep(max(LOOK_EVERY_S, PATIENCE_S - self._longest_wait_s()))
            self.look()

    def _longest_wait_s(self) -> float:
        """Of the sends that wait now; of one that is asked after again it is long enough."""
        if self._suspects:
            return PATIENCE_S
        connections = map(self._remoting.connected_to, self._remoting.addresses())
        return max((each.oldest_send_s() for each in connections if each is not None), default=0.0)

    def look(self) -> None:
        """Now. Nothing is done where no broker has replicas."""
        routes = self._routes
        names = [name for name in routes.brokers if routes.has_replicas(name)]
        suspects, self._suspects = self._suspects, set()
        if not names and not suspects:
            return
        masters = {routes.master(name): name for name in names}
        for address in self._remoting.addresses():
            connection = self._remoting.connected_to(address)
            if connection is None or connection.oldest_send_s() < PATIENCE_S:
                continue
            name = masters.get(address) or self._vip(masters, address)
            if name is not None and (topic := routes.topic_of(name)) is not None:
                self._suspects.add(address)
                self._masters.doubt(topic)
            elif name is None and address in suspects:
                connection.cut("it has said nothing, and is not the master any more")

    def _vip(self, masters: dict[str | None, str], address: str) -> str | None:
        """The address of a master may be that of its VIP channel."""
        return next((n for a, n in masters.items() if a and vip_address(a) == address), None)

    def _route_changed(self, _topic: str) -> None:
        self.look()
