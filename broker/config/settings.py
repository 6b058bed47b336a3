"""Everything that a broker is told before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ...remoting.transport.accepting import Seats
from ...remoting.transport.config import ClientSettings
from ...remoting.transport.flow import Limits
from ...remoting.transport.socket_buffers import SocketBuffers
from ...remoting.transport.tls import TlsConfig
from ...store.model.config import MessageStoreConfig
from .config import BrokerClientConfig, BrokerConfig, BrokerServerConfig, LaterStoreConfig
from .group_config import GroupConfig

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class BrokerSettings(Struct):
    """Everything that a broker is told."""

    broker: BrokerConfig
    server: BrokerServerConfig = field(default_factory=BrokerServerConfig)
    client: BrokerClientConfig = field(default_factory=BrokerClientConfig)
    store: MessageStoreConfig = field(default_factory=MessageStoreConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)
    limits: Limits = field(default_factory=Limits)
    later: LaterStoreConfig = field(default_factory=LaterStoreConfig)
    group: GroupConfig = field(default_factory=GroupConfig)
    seats: Seats = field(default_factory=lambda: Seats(Limits().max_connections))
    """Shared with others in this process. Who sets ``max_connections`` gives seats as well."""
    ha_secret: str = ""
    config_file: Path | None = None
    """What ``-c`` names."""
    unknown_properties: Mapping[str, str] = _NOTHING
    """Of the file: what nobody knows."""
    kept_properties: Mapping[str, str] = _NOTHING
    """Of the file: what is kept but shown to nobody (TLS, limits)."""

    of_this_machine: frozenset[str] = frozenset()
    """Of the properties that follow the machine those that nobody has set: not written."""

    @property
    def changes_file(self) -> Path:
        """Where changes at run time are written to."""
        return self.config_file or self.store.root / "config" / "broker.properties"

    @property
    def connections(self) -> ClientSettings:
        """Of the broker's own ones, to name servers and to its master."""
        client = self.client
        return ClientSettings(
            connect_timeout=client.connect_timeout_millis / 1000,
            limits=replace(self.limits, idle_s=float(client.client_channel_max_idle_time_seconds)),
            socket_buffers=SocketBuffers(
                client.client_socket_snd_buf_size, client.client_socket_rcv_buf_size
            ),
        )
