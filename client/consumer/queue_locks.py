"""Queues that a consumer has for itself, so that their order is kept (client.md §4.9; LOCK_BATCH_MQ
41, UNLOCK_BATCH_MQ 42).

A broker holds a lock for 60 seconds, a client believes in it for 30 and asks for it again every 20.
Brokers keep locks in memory only: one that was restarted has forgotten them, so a lock counts no
longer than the connection that it came over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ...remoting.errors import BrokerError, RemotingError
from ...remoting.protocol.bodies.codec import encode_body
from ...remoting.protocol.bodies.lock import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.transport.connection import Connection
from ..cluster.answers import answer_body
from ..cluster.instance import ClientInstance

log: Final = logging.getLogger(__name__)

RENEW_INTERVAL = 20.0
LIFE = 30.0
_TIMEOUT = 1.0


class _Lock(NamedTuple):
    """A lock that a broker gave us."""

    at: float
    at_ms: int
    over: Connection | None


class QueueLocks:
    """The locks of one consumer. ``on_refused`` is told of queues that a broker keeps for somebody
    else."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._held: dict[MessageQueue, _Lock] = {}
        self.on_refused: Callable[[MessageQueue], None] = lambda _queue: None

    def holds(self, queue: MessageQueue) -> bool:
        """It is locked for us, as far as we know."""
        lock = self._held.get(queue)
        if lock is None or self._instance.clock.monotonic() - lock.at >= LIFE:
            return False
        return lock.over is not None and not lock.over.closed

    def locked_at_ms(self, queue: MessageQueue) -> int:
        """When a broker last gave it to us, ms since 1970; 0: it is not ours."""
        lock = self._held.get(queue)
        return lock.at_ms if lock is not None else 0

    async def hold(self, queue: MessageQueue) -> bool:
        """The same, asking the broker where need be."""
        return self.holds(queue) or queue in await self.acquire([queue])

    async def those_held(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Those of the queues that are ours alone, asking the brokers where need be."""
        wanted = list(queues)
        asked = await self.acquire([queue for queue in wanted if not self.holds(queue)])
        return [queue for queue in wanted if queue in asked or self.holds(queue)]

    async def acquire(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues; those that we have now. A broker that does not answer changes nothing."""
        granted = await asyncio.gather(
            *(self._lock_at(name, ours) for name, ours in _by_broker(queues).items())
        )
        return set().union(*granted)

    async def _lock_at(self, broker_name: str, queues: list[MessageQueue]) -> set[MessageQueue]:
        body = LockBatchRequestBody(
            consumer_group=self._group,
            client_id=self._instance.client_id,
            mq_set=tuple(queues),
        )
        clock = self._instance.clock
        asked_at, asked_at_ms = clock.monotonic(), clock.time_ms()
        try:
            address = self._instance.vip(
                await self._instance.master_address(broker_name, queues[0].topic)
            )
            answer = await self._instance.remoting.invoke(
                address, RequestCode.LOCK_BATCH_MQ, None, encode_body(body), timeout=_TIMEOUT
            )
            granted = set(answer_body(answer, LockBatchResponseBody, address).lock_ok_mq_set)
        except (RemotingError, BrokerError) as error:
            self._instance.outages.fails(
                log,
                ("lock", self._group, broker_name),
                "queues not locked group=%s broker=%s error=%s",
                self._group,
                broker_name,
                error,
            )
            return set()
        self._instance.outages.works(("lock", self._group, broker_name))
        lock = _Lock(asked_at, asked_at_ms, self._instance.remoting.connected_to(address))
        for queue in queues:
            if queue in granted:
                self._held[queue] = lock
            else:
                self._held.pop(queue, None)
                self.on_refused(queue)
        return granted.intersection(queues)

    async def release_all(self) -> None:
        """At the end."""
        await self.release(list(self._held))

    async def release(self, queues: Iterable[MessageQueue]) -> None:
        """Let the next member have them. A broker that cannot be told lets them go after 60
        seconds."""
        given = [queue for queue in queues if self._held.pop(queue, None) is not None]
        for name, ours in _by_broker(given).items():
            body = UnlockBatchRequestBody(
                consumer_group=self._group, client_id=self._instance.client_id, mq_set=tuple(ours)
            )
            try:
                address = await self._instance.master_address(name, ours[0].topic)
                await self._instance.remoting.invoke_oneway(
                    address, RequestCode.UNLOCK_BATCH_MQ, None, encode_body(body), timeout=_TIMEOUT
                )
            except (RemotingError, BrokerError) as error:
                cause, text = ("unlock", name), "queues not unlocked group=%s broker=%s error=%s"
                self._instance.outages.occurs(log, cause, text, self._group, name, error)

    async def renew(self, owned: Callable[[], Iterable[MessageQueue]]) -> None:
        """Service: keep the locks of the queues that are ours."""
        while True:
            await self._instance.clock.sleep(RENEW_INTERVAL)
            await self.acquire(owned())


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    """In an order that is the same each time, whatever the order of a set."""
    found: dict[str, list[MessageQueue]] = {}
    for queue in sorted(queues):
        found.setdefault(queue.broker_name, []).append(queue)
    return found
