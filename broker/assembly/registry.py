"""How the broker is known, and to whom."""

from __future__ import annotations

from ...remoting.clock import Clock
from ...remoting.services import Service
from ...remoting.transport.client import RemotingClient
from ...remoting.transport.tls import client_context
from ..config.settings import BrokerSettings
from ..registry.address_server import BrokerAddressServer, wants_address_server
from ..registry.name_servers import NameServers
from ..registry.registration import Identity
from ..replication.roles import ha_port
from .tables import Tables


class Registry:
    """The name servers, and the client through which the broker asks them and its master."""

    def __init__(self, settings: BrokerSettings, tables: Tables, clock: Clock) -> None:
        """Raises ``TlsError``, ``ConfigError``."""
        self._settings = settings
        self.remoting: RemotingClient = RemotingClient(
            settings.connections,
            clock=clock,
            tls=client_context(settings.tls)
            if settings.tls.enable or settings.client.use_tls
            else None,
            name="broker-to-name-servers",
        )
        self.name_servers: NameServers = NameServers(
            settings.broker,
            tables.state.topics,
            self.remoting,
            clock,
            self.identity,
            tables.topics_file,
        )
        self.services: tuple[Service, ...] = ()
        """Besides ``name_servers``."""
        if wants_address_server(settings.broker):
            self.services = (BrokerAddressServer(settings.broker, self.name_servers, clock),)

    def identity(self) -> Identity:
        """How this broker is known to name servers."""
        settings, config = self._settings, self._settings.broker
        port = settings.server.listen_port
        return Identity(
            broker_name=config.broker_name,
            broker_addr=f"{config.broker_ip1}:{port}",
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
            ha_server_addr=f"{config.broker_ip2}:{ha_port(settings.later, port)}",
        )
