"""What follows from clients coming and going: the other members of their groups are told, silent
ones are closed (classes ClientHousekeepingService, DefaultConsumerIdsChangeListener;
``broker-services.md`` §8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ...remoting.clock import Clock, steady_ms
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.base import ConsumerGroupRequest
from ...remoting.sliced_requests import in_slices
from ...remoting.slices import Steps, slices
from ..config.config import BrokerConfig
from .clients import Consumers, Producers
from .queue_locks import QueueLocks

if TYPE_CHECKING:
    from ...remoting.peer import Peer

SCAN_INTERVAL_S: Final = 10.0
TOLD_AT_ONCE: Final = 64
"""Members of groups that are told in one turn of the loop, at 10 µs each."""


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
        self._untold: dict[str, list[Peer]] = {}
        """Of large groups: members that have not been told yet of what has changed."""
        self._told = 0
        """In this turn of the loop."""
        self._changed_again: set[str] = set()
        """Of those the groups of which all members have to be told once more."""

    async def run(self) -> None:
        while True:
            await self._clock.sleep(SCAN_INTERVAL_S)
            await in_slices(self.scan())

    def scan(self) -> Steps[None]:
        """Close clients without a heartbeat for 120 s and tell their groups; forget expired queue
        locks.

        The original mostly fails to tell them (quirk): the member is gone from the table when its
        close is seen.
        """
        now_ms = steady_ms(self._clock)
        producers = yield from self._producers.expire(now_ms)
        consumers = yield from self._consumers.expire(now_ms)
        silent = dict.fromkeys((*producers.connections, *consumers.connections))
        for some in slices(silent, TOLD_AT_ONCE):
            for connection in some:
                connection.close("no heartbeat of its client")
            yield
        for some_groups in slices(consumers.changed_groups, TOLD_AT_ONCE):
            for group in some_groups:
                self.notify(group)
            yield
        yield from self._locks.purge(now_ms)

    def on_disconnect(self, connection: Peer) -> None:
        """A connection has ended: its client is no member of any group any more."""
        self._producers.remove_connection(connection)
        for group in self._consumers.remove_connection(connection):
            self.notify(group)

    def end_locks(self) -> None:
        """This broker leads no more, and who leads next knows nothing of the locks that it gave:
        they end, and their groups are told, as of members that come and go. (Clients of ours ask
        for their locks again then; those of the original believe in them for up to 30 s.) There
        may be thousands of groups, and an election is under way: each has its turn."""
        for group in self._locks.forget_all():
            self.notify(group, at_once=0)

    def notify(self, group: str, *, at_once: int = TOLD_AT_ONCE) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED to every member, oneway; they rebalance at once.

        Where there are many, members of a large group or groups that lose a member together, some
        are told in a turn of the loop, and once for all changes that come before they are: a
        thousand members that join one after the other would be a million requests.
        """
        if not self._config.notify_consumer_ids_changed_enable:
            return
        if group in self._untold:
            self._changed_again.add(group)
            return
        members = self._consumers.connections(group)
        told = self._tell(group, members[:at_once])
        if len(members) > told:
            if not self._untold:
                asyncio.get_running_loop().call_soon(self._tell_more)
            self._untold[group] = members[told:]

    def _tell_more(self) -> None:
        """The next members of a group; the next time it is another group's turn."""
        group = next(iter(self._untold))
        members = self._untold.pop(group)
        told = self._tell(group, members)
        if len(members) > told:
            self._untold[group] = members[told:]
        if self._untold:
            asyncio.get_running_loop().call_soon(self._tell_more)
        if group in self._changed_again and group not in self._untold:
            self._changed_again.remove(group)
            self.notify(group)

    def _tell(self, group: str, members: list[Peer]) -> int:
        """As many of them as this turn has left."""
        some = members[: TOLD_AT_ONCE - self._told]
        if some and not self._told:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._told += len(some)
        header = ConsumerGroupRequest(consumer_group=group)
        for connection in some:
            if not connection.closed:
                connection.invoke_oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)
        return len(some)

    def _next_turn(self) -> None:
        self._told = 0
