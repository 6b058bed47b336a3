"""Queues that a consumer has for itself, so that their order is kept (client.md §4.9; LOCK_BATCH_MQ
41, UNLOCK_BATCH_MQ 42).

A broker holds a lock for 60 seconds, a client believes in it for 30 and asks for it again every 20.
Brokers keep locks in memory only: one that was restarted has forgotten them, and one that becomes
master knows nothing of those that another gave. So a lock counts no longer than the connection that
it came over, and than whoever gave it is the master. A broker of ours that is it no more says so,
as of members that come and go (``doubt``).
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
from ...remoting.protocol.codes import RequestCode, ResponseCode
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.services import happens_within
from ...remoting.transport.connection import Connection
from ..cluster.answers import answer_body
from ..cluster.instance import ClientInstance

log: Final = logging.getLogger(__name__)

RENEW_INTERVAL = 20.0
LIFE = 30.0
BROKER_LIFE = 60.0
_TIMEOUT = 1.0


class _Lock(NamedTuple):
    """A lock that a broker gave us."""

    at: float
    at_ms: int
    address: str
    """Whose it is."""
    over: Connection | None


class QueueLocks:
    """The locks of one consumer. ``on_refused`` is told of queues that a broker keeps for somebody
    else, or may have kept since it last gave them to us."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._held: dict[MessageQueue, _Lock] = {}
        self._doubted = asyncio.Event()
        self._renewals: dict[str, asyncio.Event] = {}
        """Those under way, by broker, and when each has ended: it answers for queues that are ours,
        and would bring back what is let go meanwhile."""
        self.on_refused: Callable[[MessageQueue], None] = lambda _queue: None

    def holds(self, queue: MessageQueue) -> bool:
        """It is locked for us, as far as we know."""
        lock = self._held.get(queue)
        if lock is None or self._instance.clock.monotonic() - lock.at >= LIFE:
            return False
        if lock.over is None or lock.over.closed:
            return False
        master = self._instance.routes.master(queue.broker_name)
        return master is None or self._instance.vip(master) == lock.address

    def locked_at_ms(self, queue: MessageQueue) -> int:
        """When a broker last gave it to us, ms since 1970; 0: it is not ours."""
        lock = self._held.get(queue)
        return lock.at_ms if lock is not None else 0

    async def hold(self, queue: MessageQueue) -> bool:
        """The same of a queue that is ours, asking the broker where need be."""
        return self.holds(queue) or bool(await self.those_held([queue]))

    async def those_held(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Those of the queues that are ours alone, asking the brokers where need be."""
        wanted = list(queues)
        for queue in wanted:
            if not self.holds(queue):
                await self._settled(queue.broker_name)
        asked = await self.acquire([queue for queue in wanted if not self.holds(queue)])
        return [queue for queue in wanted if queue in asked or self.holds(queue)]

    async def take(self, queue: MessageQueue) -> bool:
        """Whether a queue that is to become ours is locked for us now."""
        return self.holds(queue) or queue in await self.acquire([queue])

    async def acquire(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues; those that we have now. A broker that does not answer changes nothing; the
        locks of one that is not the master any more end."""
        granted = await asyncio.gather(
            *(self._lock_at(name, ours) for name, ours in _by_broker(queues).items())
        )
        return set().union(*granted)

    async def _lock_at(
        self, broker_name: str, queues: list[MessageQueue], *, renewing: bool = False
    ) -> set[MessageQueue]:
        """Who is ``renewing`` waits a second for the next master where there is another one, and so
        mostly comes before those that want a queue of ours."""
        try:
            granted = await self._ask_master(broker_name, queues, renewing)
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
        for queue in queues:
            if queue not in granted:
                self._held.pop(queue, None)
                self.on_refused(queue)
        return granted.intersection(queues)

    async def _ask_master(
        self, broker_name: str, queues: list[MessageQueue], renewing: bool
    ) -> set[MessageQueue]:
        topic, clock, masters = queues[0].topic, self._instance.clock, self._instance.masters
        address = self._instance.vip(await self._instance.master_address(broker_name, topic))
        try:
            return await self._ask(address, queues)
        except BrokerError as error:
            if error.code != ResponseCode.SLAVE_NOT_AVAILABLE:
                raise
            self._held = {key: lock for key, lock in self._held.items() if lock.address != address}
            masters.doubt(topic)
            deadline = clock.monotonic() + _TIMEOUT
            while renewing and (left := deadline - clock.monotonic()) > 0:
                await masters.changed(topic, left)
                master = self._instance.routes.master(broker_name)
                if master is not None and self._instance.vip(master) != address:
                    return await self._ask(self._instance.vip(master), queues)
            raise

    async def _ask(self, address: str, queues: list[MessageQueue]) -> set[MessageQueue]:
        """Those that a broker says are ours, and that were nobody else's since they were last;
        which is noted."""
        body = LockBatchRequestBody(
            consumer_group=self._group,
            client_id=self._instance.client_id,
            mq_set=tuple(queues),
        )
        clock, remoting = self._instance.clock, self._instance.remoting
        asked_at, asked_at_ms = clock.monotonic(), clock.time_ms()
        answer = await remoting.invoke(
            address, RequestCode.LOCK_BATCH_MQ, None, encode_body(body), timeout=_TIMEOUT
        )
        granted = set(answer_body(answer, LockBatchResponseBody, address).lock_ok_mq_set)
        ran_out = clock.monotonic() - BROKER_LIFE
        granted -= {queue for queue, lock in self._held.items() if lock.at < ran_out}
        lock = _Lock(asked_at, asked_at_ms, address, remoting.connected_to(address))
        self._held.update(dict.fromkeys(granted.intersection(queues), lock))
        return granted

    async def release_all(self) -> None:
        """At the end."""
        await self.release(list(self._held))

    async def release(self, queues: Iterable[MessageQueue]) -> None:
        """Let the next member have them. A broker that cannot be told lets them go after 60
        seconds."""
        await asyncio.gather(
            *(self._release_at(name, ours) for name, ours in _by_broker(queues).items())
        )

    async def _release_at(self, name: str, queues: list[MessageQueue]) -> None:
        await self._settled(name)
        ours = tuple(queue for queue in queues if self._held.pop(queue, None) is not None)
        if not ours:
            return
        body = UnlockBatchRequestBody(
            consumer_group=self._group, client_id=self._instance.client_id, mq_set=ours
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
            await happens_within(self._doubted, RENEW_INTERVAL, self._instance.clock)
            self._doubted.clear()
            wanted = _by_broker(owned())
            self._renewals = {name: asyncio.Event() for name in wanted}
            try:
                await asyncio.gather(*map(self._renew_at, wanted.values(), self._renewals.values()))
            finally:
                for ended in self._renewals.values():
                    ended.set()

    async def _renew_at(self, queues: list[MessageQueue], ended: asyncio.Event) -> None:
        await self._lock_at(queues[0].broker_name, queues, renewing=True)
        ended.set()

    async def _settled(self, broker_name: str) -> None:
        """Return when no renewal is under way there. Another broker may take its second."""
        if (ended := self._renewals.get(broker_name)) is not None:
            await ended.wait()

    def doubt(self) -> None:
        """Have ``renew`` do so now."""
        self._doubted.set()


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    """In an order that is the same each time, whatever the order of a set."""
    found: dict[str, list[MessageQueue]] = {}
    for queue in sorted(queues):
        found.setdefault(queue.broker_name, []).append(queue)
    return found
