"""Where the broker listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from ...remoting.clock import Clock
from ...remoting.dispatch import Dispatcher, Guard, Handler
from ...remoting.peer import Peer
from ...remoting.protocol.codes import RequestCode
from ...remoting.services import Service
from ...remoting.transport.buffers import Buffers
from ...remoting.transport.config import server_limits, server_settings
from ...remoting.transport.server import RemotingServer
from ..config.config import VIP_PORT_DISTANCE
from ..config.settings import BrokerSettings

NOT_ON_VIP: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
"""The second port is there so that nothing waits behind pulls."""


class Listening(Protocol):
    """Somebody with a port."""

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""

    def close(self) -> None:
        """Stop listening."""


class Ports:
    """The port, the VIP port two below it, and ``others``."""

    def __init__(
        self,
        settings: BrokerSettings,
        table: Mapping[RequestCode, Handler],
        guard: Guard | None,
        on_disconnect: Callable[[Peer], None],
        waiting: Callable[[], int],
        others: Sequence[Listening],
        clock: Clock,
    ) -> None:
        """``waiting``: how many answers wait for the disk or slaves. Raises ``TlsError``."""
        buffers = Buffers(server_limits(settings.server, settings.limits), clock)

        def server(name: str, port: int, table: Mapping[RequestCode, Handler]) -> RemotingServer:
            return RemotingServer(
                Dispatcher(table, guard=guard),
                server_settings(
                    settings.server, settings.limits, settings.tls, name=name, port=port
                ),
                clock=clock,
                seats=settings.seats,
                buffers=buffers,
                on_disconnect=on_disconnect,
                waiting=waiting,
                longest_wait_s=lambda: (
                    max(settings.store.sync_flush_timeout, settings.later.slave_timeout) / 1000
                ),
            )

        port = settings.server.listen_port
        vip_table = {code: handler for code, handler in table.items() if code not in NOT_ON_VIP}
        self._server = server("broker", port, table)
        self._vip_server = server("broker-vip", port - VIP_PORT_DISTANCE, vip_table)
        self._all: tuple[Listening, ...] = (self._server, self._vip_server, *others)

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def services(self) -> tuple[Service, ...]:
        """Besides those of ``others``."""
        return (self._server, self._vip_server)

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""
        for each in self._all:
            await each.listen()

    def close(self) -> None:
        for each in self._all:
            each.close()
