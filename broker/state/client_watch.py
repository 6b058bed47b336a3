"""What follows from clients coming and going: the other members of their groups are told, silent
ones are closed (classes ClientHousekeepingService, DefaultConsumerIdsChangeListener;
``broker-services.md`` §8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...remoting.clock import Clock
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.base import ConsumerGroupRequest
from ..config.config import BrokerConfig
from .clients import Consumers, Producers
from .queue_locks import QueueLocks

if TYPE_CHECKING:
    from ...remoting.peer import Peer

SCAN_INTERVAL_S: Final = 10.0


class ClientWatch:
    """Service: looks for silent clients every 10 s. ``on_disconnect`` belongs to the servers."""

    def __init__(
        self,
        config: BrokerConfig,
        producers: Producers,
        consumers: Consumers,
        locks: QueueLocks,
        clock: Clock,
    ) -> None:
        self._config = config
        self._producers = producers
        self._consumers = consumers
        self._locks = locks
        self._clock = clock

    async def run(self) -> None:
        while True:
            await self._clock.sleep(SCAN_INTERVAL_S)
            self.scan(self._clock.time_ms())

    def scan(self, now_ms: int) -> None:
        """Close clients without a heartbeat for 120 s and tell their groups; forget expired queue
        locks.

        The original mostly fails to tell them (quirk): the member is gone from the table when its
        close is seen.
        """
        producers = self._producers.expire(now_ms)
        consumers = self._consumers.expire(now_ms)
        for connection in {*producers.connections, *consumers.connections}:
            connection.close("no heartbeat of its client")
        for group in consumers.changed_groups:
            self.notify(group)
        self._locks.purge(now_ms)

    def on_disconnect(self, connection: Peer) -> None:
        """A connection has ended: its client is no member of any group any more."""
        self._producers.remove_connection(connection)
        for group in self._consumers.remove_connection(connection):
            self.notify(group)

    def notify(self, group: str) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED to every member, oneway; they rebalance at once."""
        if not self._config.notify_consumer_ids_changed_enable:
            return
        header = ConsumerGroupRequest(consumer_group=group)
        for connection in self._consumers.connections(group):
            if not connection.closed:
                connection.invoke_oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)
