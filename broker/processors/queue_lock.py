"""Locks of queues for orderly consumption: 41, 42 (class AdminBrokerProcessor; ``headers.md``
B.5)."""

from __future__ import annotations

from ...remoting.clock import Clock, steady_ms
from ...remoting.dispatch import Body, Context, ProcessorTable, Reply
from ...remoting.protocol.bodies.codec import decode_request_body, encode_body
from ...remoting.protocol.bodies.lock import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from ...remoting.protocol.codes import RequestCode
from ...remoting.protocol.message.message_queue import MessageQueue
from ...remoting.protocol.wire import NoFields
from ...store.message_store import MessageStore
from ..state.queue_locks import QueueLocks
from ..state.topics import Topics


class QueueLockProcessor:
    def __init__(
        self,
        locks: QueueLocks,
        topics: Topics,
        store: MessageStore,
        broker_name: str,
        clock: Clock,
    ) -> None:
        self._locks = locks
        self._topics = topics
        self._store = store
        self._broker_name = broker_name
        self._clock = clock

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
        }

    def lock(self, _request: NoFields, body: Body, _ctx: Context) -> Reply:
        """Never an error: the answer names the queues that the client holds now. Nobody holds one
        that is not here, which the original gives, too: the table is everybody's."""
        wanted = decode_request_body(LockBatchRequestBody, body)
        queues = [queue for queue in wanted.mq_set if self._is_here(queue)]
        held = self._locks.lock(
            wanted.consumer_group, wanted.client_id, queues, steady_ms(self._clock)
        )
        return Reply(body=encode_body(LockBatchResponseBody(lock_ok_mq_set=tuple(held))))

    def _is_here(self, queue: MessageQueue) -> bool:
        return queue.broker_name == self._broker_name and self._topics.has_queue(
            queue.topic, queue.queue_id, self._store.max_offset
        )

    def unlock(self, _request: NoFields, body: Body, _ctx: Context) -> Reply:
        freed = decode_request_body(UnlockBatchRequestBody, body)
        self._locks.unlock(freed.consumer_group, freed.client_id, freed.mq_set)
        return Reply()
