"""Everything that a broker is told before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ...remoting.transport.accepting import Seats
from ...remoting.transport.flow import Limits
from ...remoting.transport.tls import TlsConfig
from ...store.model.config import MessageStoreConfig
from .config import BrokerClientConfig, BrokerConfig, BrokerServerConfig, LaterStoreConfig

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class BrokerSettings:
    """Everything that a broker is told. ``config_file`` is where changes at run time are written
    to."""

    def __init__(
        self,
        broker: BrokerConfig,
        server: BrokerServerConfig | None = None,
        client: BrokerClientConfig | None = None,
        store: MessageStoreConfig | None = None,
        *,
        tls: TlsConfig | None = None,
        limits: Limits | None = None,
        later: LaterStoreConfig | None = None,
        seats: Seats | None = None,
        ha_secret: str = "",
        config_file: Path | None = None,
        unknown_properties: Mapping[str, str] = _NOTHING,
        kept_properties: Mapping[str, str] = _NOTHING,
    ) -> None:
        """``seats``: shared with others in this process. Of the file: what nobody knows, and what
        is kept but shown to nobody (TLS, limits)."""
        self.broker = broker
        self.server: BrokerServerConfig = server or BrokerServerConfig()
        self.client: BrokerClientConfig = client or BrokerClientConfig()
        self.store: MessageStoreConfig = store or MessageStoreConfig()
        self.tls: TlsConfig = tls or TlsConfig()
        self.limits: Limits = limits or Limits()
        self.later: LaterStoreConfig = later or LaterStoreConfig()
        self.seats: Seats = seats or Seats(self.limits.max_connections)
        self.ha_secret = ha_secret
        self.config_file: Path = config_file or self.store.root / "config" / "broker.properties"
        self.unknown_properties = unknown_properties
        self.kept_properties = kept_properties
