"""What brokers of a ``LocalCluster`` are told, whether they run in this process or in others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from .broker.config.config import (
    BrokerClientConfig,
    BrokerConfig,
    BrokerServerConfig,
    LaterStoreConfig,
)
from .broker.config.group_config import GroupConfig
from .broker.start_checks import check
from .daemon.launch import LaunchError, Settings
from .remoting.protocol.java_properties import Property
from .remoting.transport.tls import TlsConfig
from .store.model.config import MessageStoreConfig

RECORDS: Final = (
    BrokerConfig,
    BrokerServerConfig,
    BrokerClientConfig,
    MessageStoreConfig,
    LaterStoreConfig,
    GroupConfig,
    TlsConfig,
)

DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "brokerName": "local-broker",
        "enablePropertyFilter": "true",  # SQL expressions work here
        "diskSpaceWarningLevelRatio": "100",  # people's disks are nearly full all the time
        # that a test or the machine is busy is no reason to refuse a message
        "waitTimeMillsInSendQueue": "10000",
        # Small files, so that a cluster for one test takes next to no space.
        "mappedFileSizeCommitLog": str(64 << 20),
        "mappedFileSizeConsumeQueue": str(20_000 * 20),
        "maxHashSlotNum": "50000",
        "maxIndexNum": "200000",
    }
)
"""Broker properties that differ from the original's defaults."""


def checked(table: Mapping[str, str]) -> Settings:
    """Raises ``LaunchError`` (also for a property that does not exist), ``PropertyError`` (for a
    value that it cannot take)."""
    for name, value in table.items():
        if not isinstance(value, str):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            raise LaunchError(f"the value of a property is text: {name}={text!r}, not {value!r}")
    settings = Settings(
        RECORDS, [Property(name, value, "LocalCluster") for name, value in table.items()]
    )
    unknown = [found.name for found in settings.unknown if found.name not in DEFAULTS]
    if unknown:
        raise LaunchError(f"a broker has no property {', '.join(unknown)}")
    check(settings)
    return settings
