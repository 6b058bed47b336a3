"""Name servers whose addresses an HTTP server tells (client.md §2.5; class TopAddressing).

A GET of ``http://<host>:8080/rocketmq/nsaddr`` is answered with a line ``host:port;host:port``. The
original asks ``jmenv.tbsite.net`` when nothing is configured; here nobody is asked who was not
named.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ..errors import ConfigError
from .name_servers import NameServers
from .server_addresses import parse_addresses

__all__ = ["AddressServer", "address_server_url", "first_line", "http_get"]

log: Final = logging.getLogger(__name__)

DOMAIN_VARIABLE: Final = "ROCKETMQ_NAMESRV_DOMAIN"
SUBGROUP_VARIABLE: Final = "ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP"
ASK_TIMEOUT_S: Final = 3.0
LOOK_UP_PERIOD_S, LOOK_UP_AGAIN_S = 120.0, 10.0
"""How often the address server is asked, and how soon again while it has not told anything."""
MAX_ADDRESS_BYTES: Final = 64 * 1024


class AddressServer:
    """Keeps the name servers of a client fresh. A service."""

    def __init__(
        self,
        url: str,
        name_servers: NameServers,
        clock: Clock,
        *,
        fetch: Callable[[str], str] | None = None,
    ) -> None:
        """``fetch`` is an HTTP GET, called in a thread."""
        self.url = url
        self._name_servers = name_servers
        self._clock = clock
        self._fetch = fetch or http_get
        self._outages = Outages(clock)

    async def look_up(self) -> None:
        """Ask now. When that fails, the addresses stay as they are and the log says why."""
        try:
            addresses = parse_addresses(first_line(await asyncio.to_thread(self._fetch, self.url)))
        except (OSError, ValueError) as error:
            self._outages.fails(
                log,
                (self.url,),
                "address server does not tell the name servers url=%s error=%s",
                self.url,
                error,
            )
        else:
            self._outages.works((self.url,))
            self._name_servers.replace(addresses)

    async def run(self) -> None:
        """Ask every two minutes, every ten seconds while no name server is known."""
        while True:
            await self._clock.sleep(
                LOOK_UP_PERIOD_S if self._name_servers.addresses else LOOK_UP_AGAIN_S
            )
            await self.look_up()


def address_server_url(
    given: str | None, unit_name: str | None = None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """The URL for ``host``, ``host:port`` or a whole URL; without it that of
    ROCKETMQ_NAMESRV_DOMAIN, or ``None``.

    >>> address_server_url("here", "unit", {})
    'http://here:8080/rocketmq/nsaddr-unit?nofix=1'
    """
    domain = given or environment.get(DOMAIN_VARIABLE)
    if not domain:
        return None
    if "://" in domain:
        if not domain.startswith(("http://", "https://")):
            raise ConfigError(
                f"the address server {domain!r} must be a host, host:port, or an http:// URL"
            )
        return domain
    if "/" in domain or any(character.isspace() for character in domain):
        raise ConfigError(
            f"the address server {domain!r} must be a host, host:port, or an http:// URL"
        )
    host = domain if ":" in domain else f"{domain}:8080"
    path = environment.get(SUBGROUP_VARIABLE) or "nsaddr"
    return f"http://{host}/rocketmq/{path}" + (f"-{unit_name}?nofix=1" if unit_name else "")


def first_line(text: str) -> str:
    """What counts of the answer."""
    return text.strip().partition("\n")[0].partition("\r")[0]


def http_get(url: str) -> str:
    """The beginning of a document; blocks for up to 3 s. Raises ``OSError``, ``ValueError``."""
    # here: few ask one, and these bring the package email along (20 ms for everybody who imports
    # them)
    import http.client
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=ASK_TIMEOUT_S) as answer:  # noqa: S310 - always http
            content: bytes = answer.read(MAX_ADDRESS_BYTES)
    except http.client.HTTPException as error:
        raise OSError(f"no answer in HTTP: {error!r}") from error
    return content.decode()
