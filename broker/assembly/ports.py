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
        longest_wait_ms: Callable[[], int],
        others: Sequence[Listening],
        clock: Clock,
    ) -> None:
        """``waiting``: how many answers wait for the disk or copies of the log;
        ``longest_wait_ms``: how long for the latter. Raises ``TlsError``."""
        self.buffers: Buffers = Buffers(server_limits(settings.server, settings.limits), clock)

        def server(name: str, port: int, dispatcher: Dispatcher) -> RemotingServer:
            return RemotingServer(
                dispatcher,
                server_settings(
                    settings.server, settings.limits, settings.tls, name=name, port=port
                ),
                clock=clock,
                seats=settings.seats,
                buffers=self.buffers,
                on_disconnect=on_disconnect,
                waiting=waiting,
                longest_wait_s=lambda: (
                    max(settings.store.sync_flush_timeout, longest_wait_ms()) / 1000
                ),
            )

        port = settings.server.listen_port
        self._dispatcher: Final = Dispatcher(table, guard=guard)
        self._vip_dispatcher: Final = Dispatcher(_on_vip(table), guard=guard)
        self._server = server("broker", port, self._dispatcher)
        self._vip_server = server("broker-vip", port - VIP_PORT_DISTANCE, self._vip_dispatcher)
        self._all: tuple[Listening, ...] = (self._server, self._vip_server, *others)

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def services(self) -> tuple[Service, ...]:
        """Besides those of ``others``."""
        return (self._server, self._vip_server)

    def use(self, table: Mapping[RequestCode, Handler]) -> None:
        """Other handlers of the same requests, from now on."""
        self._dispatcher.use(table)
        self._vip_dispatcher.use(_on_vip(table))

    async def listen(self) -> None:
        """Raises ``AddressInUseError``."""
        for each in self._all:
            await each.listen()

    def close(self) -> None:
        for each in self._all:
            each.close()


def _on_vip(table: Mapping[RequestCode, Handler]) -> dict[RequestCode, Handler]:
    return {code: handler for code, handler in table.items() if code not in NOT_ON_VIP}
