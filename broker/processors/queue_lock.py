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
from ...remoting.protocol.wire import NoFields
from ..state.queue_locks import QueueLocks


class QueueLockProcessor:
    def __init__(self, locks: QueueLocks, clock: Clock) -> None:
        self._locks = locks
        self._clock = clock

    @property
    def table(self) -> ProcessorTable:
        return {
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
        }

    def lock(self, _request: NoFields, body: Body, _ctx: Context) -> Reply:
        """Never an error: the answer names the queues that the client holds now."""
        wanted = decode_request_body(LockBatchRequestBody, body)
        held = self._locks.lock(
            wanted.consumer_group, wanted.client_id, wanted.mq_set, steady_ms(self._clock)
        )
        return Reply(body=encode_body(LockBatchResponseBody(lock_ok_mq_set=tuple(held))))

    def unlock(self, _request: NoFields, body: Body, _ctx: Context) -> Reply:
        freed = decode_request_body(UnlockBatchRequestBody, body)
        self._locks.unlock(freed.consumer_group, freed.client_id, freed.mq_set)
        return Reply()
