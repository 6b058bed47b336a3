"""Locks of queues that are consumed in order."""

from __future__ import annotations

from aiorocketmq.remoting.protocol.bodies.codec import decode_body, encode_body
from aiorocketmq.remoting.protocol.bodies.lock import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue

from ..language import step
from .broker import BrokerDriver, queue_of


class LockDriver(BrokerDriver):
    @step("{name} of {group} locks {queues}")
    async def lock(self, name: str, group: str, queues: list[str]) -> str:
        """What it holds of them now."""
        body = LockBatchRequestBody(
            consumer_group=group, client_id=name, mq_set=tuple(map(_queue, queues))
        )
        answer = await self.client(name).ask(RequestCode.LOCK_BATCH_MQ, None, encode_body(body))
        held = decode_body(LockBatchResponseBody, answer.check().body).lock_ok_mq_set
        return "has " + (" ".join(f"{q.topic}/{q.queue_id}" for q in sorted(held)) or "none")

    @step("{name} of {group} unlocks {queues}")
    async def unlock(self, name: str, group: str, queues: list[str]) -> None:
        body = UnlockBatchRequestBody(
            consumer_group=group, client_id=name, mq_set=tuple(map(_queue, queues))
        )
        answer = await self.client(name).ask(RequestCode.UNLOCK_BATCH_MQ, None, encode_body(body))
        answer.check()


def _queue(text: str) -> MessageQueue:
    topic, queue_id = queue_of(text)
    return MessageQueue(topic, "b", queue_id)
