"""What is just starting is waited for, so that ``mqnamesrv & mqbroker & mqadmin updateTopic ...``
works in one go: a name server or broker that was named and where nothing listens yet, and the first
broker to register.

Nothing has been asked for by then, so that nothing is done twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from ...client.admin import Admin
from ...remoting.errors import ConnectError, NothingListensError, RocketMQError

__all__ = ["WAIT_S", "Patience"]

WAIT_S: Final = 5.0
_PAUSE_S: Final = 0.1


class Patience:
    """That of one run of ``mqadmin``: ``seconds`` from now on, for all that it waits for."""

    def __init__(self, seconds: float, broker: str | None, tell: Callable[[str], None]) -> None:
        """``broker``: the address that was named. ``tell`` is given a line before the first
        pause."""
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._broker = broker
        self._tell: Callable[[str], None] | None = tell

    async def wait(self, admin: Admin, *, for_brokers: bool) -> None:
        """Until there is somebody to ask, or for as long as it lasts; whatever else is wrong the
        command finds out itself. ``for_brokers``: a name server without brokers will not do."""
        if self._seconds <= 0:
            return
        servers = admin.instance.name_servers
        if self._broker is not None:
            await self._until_one_listens(admin, [admin.instance.vip(self._broker)])
        elif await self._until_one_listens(admin, servers.addresses) and for_brokers:
            while await _knows_no_broker(admin):
                if not await self._pause(f"a broker to register at {servers.current}"):
                    return

    async def _until_one_listens(self, admin: Admin, addresses: list[str]) -> bool:
        remoting = admin.instance.remoting
        while True:
            for address in addresses:
                try:
                    await remoting.connection(address)
                except NothingListensError:
                    remoting.try_again(address)  # the command's own attempt says what is wrong
                except ConnectError:
                    return False
                else:
                    return True
            if not await self._pause(f"{' or '.join(addresses)}, where nothing listens yet"):
                return False

    async def _pause(self, what: str) -> bool:
        """False: waited long enough."""
        if time.monotonic() >= self._deadline:
            return False
        if self._tell is not None:
            self._tell(f"waiting for {what} (up to {self._seconds:g} s: --wait)")
            self._tell = None
        await asyncio.sleep(_PAUSE_S)
        return True


async def _knows_no_broker(admin: Admin) -> bool:
    try:
        return not (await admin.cluster_info()).broker_addr_table
    except RocketMQError:
        return False
