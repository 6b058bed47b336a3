"""Where the members are now: names of ``dLegerPeers`` are looked up at start, when somebody comes
from an address that is none of theirs (a member's machine was replaced), and once a minute, so that
an address that was given up does not stay that of a member.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable
from typing import Final

from ...remoting.clock import Clock
from ...remoting.outages import Outages
from ...remoting.services import happens_within
from ...remoting.transport.address import is_ip_address, split_address

log: Final = logging.getLogger(__name__)

AGAIN_S: Final = 60.0
AT_MOST_EVERY_S: Final = 1.0
LOOPBACK: Final = ("127.0.0.1", "::1")


class MemberAddresses:
    """Service: tells ``members_are`` the addresses, without ports, of all members."""

    def __init__(
        self, addresses: Iterable[str], members_are: Callable[[Iterable[str]], None], clock: Clock
    ) -> None:
        """``addresses``: ``host:port`` as configured."""
        hosts = {split_address(each)[0] for each in addresses}
        self._fixed: Final = {host for host in hosts if is_ip_address(host)}
        self._found: dict[str, set[str]] = {host: set() for host in hosts - self._fixed}
        self._members_are = members_are
        self._clock = clock
        self._outages = Outages(clock)
        self._wanted = asyncio.Event()
        self._tell()

    @property
    def others_may_be_there(self) -> bool:
        """Not all members are on this machine."""
        return bool(self._found) or not all(
            ipaddress.ip_address(each).is_loopback for each in self._fixed
        )

    def look_up(self) -> None:
        """Soon."""
        self._wanted.set()

    async def run(self) -> None:
        """Until cancelled. There is nothing to look up where all are addresses."""
        while self._found:
            self._wanted.clear()
            await asyncio.gather(*map(self._look_up, self._found))
            await self._clock.sleep(AT_MOST_EVERY_S)
            await happens_within(self._wanted, AGAIN_S, self._clock)

    async def _look_up(self, host: str) -> None:
        """What is known stays when nobody can tell, which may take long."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            self._outages.fails(
                log,
                (host,),
                "member has no address host=%s reason=%s",
                host,
                error.strerror or error,
            )
            return
        self._outages.works((host,))
        addresses = {str(each[4][0]).partition("%")[0] for each in found}
        if addresses != self._found[host]:
            log.info("member found host=%s addresses=%s", host, ", ".join(sorted(addresses)))
            self._found[host] = addresses
            self._tell()

    def _tell(self) -> None:
        every = self._fixed.union(*self._found.values())
        if any(ipaddress.ip_address(each).is_loopback for each in every):
            every.update(LOOPBACK)
        self._members_are(every)
