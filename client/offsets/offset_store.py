"""How far a group has got in its queues (client.md §4.10; class RemoteBrokerOffsetStore).

The truth lies with the broker; here is what was consumed since. ``persist`` sends everything that
is known of the queues that are ours, changed or not: a broker that was killed gets back what it
lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from ...remoting.errors import BrokerError, QueryNotFound, RemotingError
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.commands.offset import (
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from ...remoting.protocol.message.message_queue import MessageQueue
from ..cluster.instance import ClientInstance

log: Final = logging.getLogger(__name__)

OFFSET_TIMEOUT = 5.0


class OffsetStore(Protocol):
    """Where a consumer keeps how far it has got."""

    def get(self, queue: MessageQueue) -> int | None: ...
    def of_topic(self, topic: str) -> dict[MessageQueue, int]: ...
    def update(self, queue: MessageQueue, offset: int, *, only_forwards: bool = True) -> None: ...
    def forget(self, queue: MessageQueue) -> None: ...
    async def fetch(self, queue: MessageQueue) -> int | None: ...
    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None: ...
    async def persist(self, queues: Iterable[MessageQueue] | None = None) -> None: ...


class KnownOffsets:
    """What is known here, in memory."""

    def __init__(self) -> None:
        self.known: dict[MessageQueue, int] = {}

    def get(self, queue: MessageQueue) -> int | None:
        """What is known here, without asking anybody."""
        return self.known.get(queue)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """What is known here of its queues."""
        return {queue: offset for queue, offset in self.known.items() if queue.topic == topic}

    def update(self, queue: MessageQueue, offset: int, *, only_forwards: bool = True) -> None:
        """Remember how far the group has got."""
        if not only_forwards or offset > self.known.get(queue, -1):
            self.known[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        """The queue belongs to somebody else now."""
        self.known.pop(queue, None)


class BrokerOffsets(KnownOffsets):
    """Offsets of one group, kept by the brokers."""

    def __init__(self, instance: ClientInstance, group: str, *, of_masters: bool = False) -> None:
        """``of_masters``: where no master answers, no slave is asked. Of a queue that is locked the
        master that gave the lock knows how far its last owner came; a slave may know less, and the
        master would be told that."""
        super().__init__()
        self._ask = instance.ask_master if of_masters else instance.ask_owner
        self._instance = instance
        self._group = group

    async def fetch(self, queue: MessageQueue) -> int | None:
        """What the broker has; ``None`` when the group never consumed this queue.

        Only "not found" counts as none: the original takes any error of the broker for it and may
        jump to the end. Raises ``RemotingError``, ``BrokerError``.
        """
        header = QueryConsumerOffsetRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            bname=queue.broker_name,
        )
        try:
            answer = await self._ask(
                queue, RequestCode.QUERY_CONSUMER_OFFSET, header, timeout=OFFSET_TIMEOUT
            )
        except QueryNotFound:
            return None
        return int(answer.header.offset)

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Give these to the brokers and wait until all have answered. Raises the first error."""
        await asyncio.gather(*(self._send(queue, offset) for queue, offset in offsets.items()))

    async def persist(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Give what is known (of these queues) to the brokers. Failures are logged: the next time
        will do."""
        wanted = list(self.known) if queues is None else [q for q in queues if q in self.known]
        outcomes = await asyncio.gather(
            *(self._try_send(queue, self.known[queue]) for queue in wanted)
        )
        failures = [error for error in outcomes if error is not None]
        if failures:
            self._instance.outages.fails(
                log,
                ("offsets", self._group),
                "offsets not persisted group=%s queues=%d error=%s",
                self._group,
                len(failures),
                failures[0],
            )
        elif wanted:
            self._instance.outages.works(("offsets", self._group))

    async def _try_send(
        self, queue: MessageQueue, offset: int
    ) -> RemotingError | BrokerError | None:
        try:
            await self._send(queue, offset)
        except (RemotingError, BrokerError) as error:
            return error
        return None

    async def _send(self, queue: MessageQueue, offset: int) -> None:
        header = UpdateConsumerOffsetRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )
        await self._instance.ask_owner(
            queue, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout=OFFSET_TIMEOUT
        )
