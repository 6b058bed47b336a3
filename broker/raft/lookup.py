"""Where a member is whose name stands in ``dLegerPeers``, looked up each time a connection is made:
it may have moved.

One lookup of a name at a time, whoever has given it up meanwhile. The system has few threads for
that (uvloop two), and a name that nobody answers for keeps one of them for up to half a minute:
asked for again each second, all others would wait behind it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ...remoting.errors import ConnectError
from ...remoting.transport.address import format_address, is_ip_address, split_address

Spawn = Callable[[Coroutine[Any, Any, None]], object]


class Lookup:
    """Of one address, ``host:port``."""

    def __init__(self, address: str, spawn: Spawn) -> None:
        self._address: Final = address
        self._spawn: Final = spawn
        self._under_way: asyncio.Future[list[str] | None] | None = None

    async def addresses(self) -> list[str]:
        """Where it is now, without names. Raises ``ConnectError``."""
        host, port = split_address(self._address)
        if is_ip_address(host):
            return [self._address]
        if (under_way := self._under_way) is None:
            under_way = self._under_way = asyncio.get_running_loop().create_future()
            self._spawn(self._look_up(host, under_way))
        if (found := await asyncio.shield(under_way)) is None:
            raise ConnectError(f"cannot connect to {self._address}: the name has no address")
        return [format_address(each, port) for each in found]

    async def _look_up(self, host: str, told: asyncio.Future[list[str] | None]) -> None:
        found: dict[str, None] | None = None
        try:
            loop = asyncio.get_running_loop()
            infos = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            found = {str(each[4][0]): None for each in infos}
        except OSError:
            pass
        finally:
            self._under_way = None
            if not told.done():
                told.set_result(list(found) if found else None)
