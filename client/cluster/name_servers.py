"""Which name server to ask (client.md §2.5; class NettyRemotingClient).

One server is kept as long as it answers; when it does not, the others are asked in turn, each at
most once per call. The original does not repeat the call that failed; here every request that only
reads is safe to repeat, so it is.
"""

from __future__ import annotations

import logging
import random
import ssl
from collections.abc import Sequence
from typing import Final

from ...remoting.errors import (
    BrokerError,
    ConnectError,
    ConnectionLostError,
    RemotingError,
    RocketMQError,
)
from ...remoting.outages import Outages
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.wire import Record
from ...remoting.responses import Response
from ...remoting.transport.client import RemotingClient

log: Final = logging.getLogger(__name__)

_ALWAYS_KNOWN: Final = (
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
)
"""Every name server answers these, and nobody else does."""
_NO_NAME_SERVER: Final = (
    "that is no name server (perhaps a broker): namesrv= takes the address of one, whose port is "
    "9876 unless it was told another"
)

_PERHAPS_TLS: Final = (
    "it has answered nothing so far: perhaps it speaks TLS and tls= is not given, or the other way "
    "round; mqdoctor says which"
)


class NameServers:
    """The name servers of one cluster and which of them is asked at present."""

    def __init__(
        self,
        addresses: Sequence[str],
        remoting: RemotingClient,
        shuffle: random.Random | None = None,
    ) -> None:
        self.addresses: list[str] = list(addresses)
        self._shuffle = shuffle or random.Random()
        self._shuffle.shuffle(self.addresses)
        self._remoting = remoting
        self._outages = Outages(remoting.clock)
        self._current = 0
        self._answered: set[str] = set()

    @property
    def current(self) -> str:
        """The server that is asked first; ``""`` while none is known."""
        return self.addresses[self._current] if self.addresses else ""

    def replace(self, addresses: Sequence[str]) -> None:
        """An address server told other addresses. The server that is asked at present is kept if it
        is among them."""
        if set(addresses) == set(self.addresses):
            return
        log.info("name servers %s", ";".join(addresses))
        current = self.current
        self.addresses = list(addresses)
        self._shuffle.shuffle(self.addresses)
        self._current = self.addresses.index(current) if current in self.addresses else 0

    async def ask(
        self,
        code: RequestCode,
        header: Record | None = None,
        body: bytes = b"",
        *,
        timeout: float,
        ext_fields: dict[str, str] | None = None,
    ) -> Response:
        """The answer of the current server or, where it fails, of the first one that answers; any
        code.

        ``timeout`` (seconds) is for all of them together, the last one left gets what remains.
        Raises the ``RemotingError`` of the last server, ``ConnectError`` when none could be
        reached.
        """
        clock = self._remoting.clock
        deadline = clock.monotonic() + timeout
        failures: list[str] = []
        addresses, first = self.addresses, self._current
        count = len(addresses)
        if not count:
            raise ConnectError("no name server is known yet: the address server has not told any")
        for position in range(count):
            index = (first + position) % count
            address = addresses[index]
            left = deadline - clock.monotonic()
            share = left / (
                count - position
            )  # a server that hangs must not eat the time of the others
            try:
                answer = await self._remoting.invoke(
                    address, code, header, body, timeout=max(share, 0.001), ext_fields=ext_fields
                )
                unknown = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                if unknown and code in _ALWAYS_KNOWN:
                    raise ConnectError(_NO_NAME_SERVER)
                self._outages.works((address,))
                self._answered.add(address)
                return answer
            except RemotingError as error:
                perhaps_tls = address not in self._answered and _was_cut(error)
                text = f"{error}; {_PERHAPS_TLS}" if perhaps_tls else str(error)
                failures.append(f"{address}: {text}")
                self._leave(address)
                if position + 1 == count and not isinstance(error, ConnectError):
                    if perhaps_tls:
                        raise ConnectionLostError(text) from error
                    raise
        raise ConnectError("no name server answers; " + "; ".join(failures))

    async def tell_all(
        self, code: RequestCode, header: Record | None = None, body: bytes = b"", *, timeout: float
    ) -> None:
        """Send a request that changes something to every server, each with its own ``timeout``.

        All are told before an error is raised: that of the one that failed (``RemotingError``,
        ``BrokerError``), or a ``RemotingError`` that names all that did.
        """
        failed: list[RocketMQError] = []
        for address in self.addresses:
            try:
                answer = await self._remoting.invoke(address, code, header, body, timeout=timeout)
                answer.check(address)
            except (RemotingError, BrokerError) as error:
                failed.append(error)
        if len(failed) > 1:
            raise RemotingError("; ".join(map(str, failed)))
        if failed:
            raise failed[0]

    def _leave(self, address: str) -> None:
        """The server failed. Concurrent calls that failed on the same one move on once."""
        if self.current == address and len(self.addresses) > 1:
            self._current = (self._current + 1) % len(self.addresses)
            self._outages.fails(
                log, (address,), "name server changed from=%s to=%s", address, self.current
            )


def _was_cut(error: RemotingError) -> bool:
    """The connection, or the handshake of TLS, was ended by the other side."""
    return isinstance(error, ConnectionLostError) or isinstance(
        error.__context__, (ssl.SSLEOFError, ConnectionResetError, ConnectionAbortedError)
    )
