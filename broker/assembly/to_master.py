"""The client with which a replica asks the broker of another one."""

from __future__ import annotations

import asyncio
from typing import Final

from ...remoting.clock import Clock
from ...remoting.transport.client import RemotingClient
from ..config.settings import BrokerSettings
from ..replication.door import link_security


class ToMaster:
    """Service: with this a slave or follower asks its master's broker, and a master its slaves'.
    Who takes nothing but TLS speaks nothing else to it, whatever the name servers are spoken to."""

    def __init__(
        self, settings: BrokerSettings, clock: Clock, to_name_servers: RemotingClient
    ) -> None:
        """Raises ``TlsError``."""
        outbound = link_security(settings.tls, settings.ha_secret).outbound
        self.remoting: RemotingClient = (
            to_name_servers
            if outbound is None or settings.tls.enable or settings.client.use_tls
            else RemotingClient(
                settings.connections, clock=clock, tls=outbound, name="broker-to-master"
            )
        )
        self._is_own: Final = self.remoting is not to_name_servers

    async def run(self) -> None:
        """Until cancelled."""
        if self._is_own:
            async with self.remoting:
                await asyncio.Event().wait()
        await asyncio.Event().wait()
