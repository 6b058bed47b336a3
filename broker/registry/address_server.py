"""Name servers whose addresses an HTTP server tells: ``fetchNamesrvAddrByAddressServer`` without
``namesrvAddr`` (class TopAddressing; ``client.md`` §2.5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ...client.cluster.address_server import address_server_url, first_line, http_get
from ...client.cluster.server_addresses import parse_addresses
from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ..config.config import BrokerConfig
from .name_servers import NameServers

log: Final = logging.getLogger(__name__)

PERIOD_S: Final = 120.0
AGAIN_S: Final = 10.0
"""After a failure."""


def wants_address_server(config: BrokerConfig) -> bool:
    """Name servers that are configured go before those that somebody tells."""
    return config.fetch_namesrv_addr_by_address_server and not config.namesrv_addr


def url_of(config: BrokerConfig) -> str | None:
    """What is asked. Raises ``ConfigError`` for a domain that is none."""
    environment = {"ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP": config.namesrv_domain_subgroup}
    return address_server_url(config.namesrv_domain, environment=environment)


class BrokerAddressServer:
    """Service: asks at start and every two minutes."""

    def __init__(
        self,
        config: BrokerConfig,
        name_servers: NameServers,
        clock: Clock,
        *,
        fetch: Callable[[str], str] = http_get,
    ) -> None:
        """``fetch`` is an HTTP GET, called in a thread. Raises ``ConfigError`` for a domain that is
        none."""
        self._url = url_of(config)
        self._config = config
        self._name_servers = name_servers
        self._clock = clock
        self._outages = Outages(clock)
        self._fetch = fetch

    async def run(self) -> None:
        while True:
            told = await self.look_up()
            await self._clock.sleep(PERIOD_S if told else AGAIN_S)

    async def look_up(self) -> bool:
        """Ask now; whether that worked. When it did not, the name servers stay as they are."""
        if self._url is None or not wants_address_server(self._config):
            return True
        try:
            text = first_line(await asyncio.to_thread(self._fetch, self._url))
            addresses = parse_addresses(text) if text else ()  # a proxy may say anything
        except (OSError, ValueError) as error:
            self._outages.fails(
                log,
                (self._url,),
                "address server does not tell the name servers url=%s error=%s",
                self._url,
                error,
            )
            return False
        if not addresses:
            self._outages.fails(
                log, (self._url,), "address server knows no name servers url=%s", self._url
            )
            return False
        self._outages.works((self._url,))
        self._name_servers.use(";".join(addresses))
        return True
