"""Queues that one consumer has for itself (``headers.md`` §B.5).

Classes of the original: LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody.
"""

from __future__ import annotations

from msgspec import field

from ..message.message_queue import MessageQueue
from ..wire import Record


class LockBatchRequestBody(Record, frozen=True, kw_only=True):
    """Lock these queues for this client (code 41)."""

    consumer_group: str
    client_id: str
    mq_set: tuple[MessageQueue, ...] = ()


class UnlockBatchRequestBody(LockBatchRequestBody, frozen=True, kw_only=True):
    """Give them back (code 42)."""


class LockBatchResponseBody(Record, frozen=True, kw_only=True):
    """Those of them that the client holds now."""

    lock_ok_mq_set: tuple[MessageQueue, ...] = field(name="lockOKMQSet", default=())
