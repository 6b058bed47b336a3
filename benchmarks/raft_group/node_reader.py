"""Asks one broker for what it has, by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from aiorocketmq import MessageExt
from aiorocketmq.client.consumer.pulling import Pulled, PullStatus, read_pulled
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.transport.client import RemotingClient

from .recorder import content_of

_AT_ONCE: Final = 256

Stored = dict[str, list[tuple[int, str]]]
"""By queue: offset and content of each message."""


class NodeReader:
    """Reads all queues of a topic at one broker, whatever its role."""

    def __init__(
        self,
        name: str,
        broker_name: str,
        address: str,
        topic: str,
        queues: int,
        remoting: RemotingClient,
    ) -> None:
        self.name = name
        self.broker_name = broker_name
        self._address = address
        self._topic = topic
        self._queues = queues
        self._remoting = remoting

    async def pull(self, queue_id: int, offset: int) -> Pulled:
        """Raises ``RocketMQError``."""
        request = PullMessageRequest(
            consumer_group=f"reader-{self.name}",
            topic=self._topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=_AT_ONCE,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        answer = await self._remoting.invoke(
            self._address, RequestCode.PULL_MESSAGE, request, timeout=2.0
        )
        queue = MessageQueue(self._topic, self.broker_name, queue_id)
        return read_pulled(answer, self._address, queue)

    async def messages(self, queue_id: int, first: int) -> AsyncIterator[MessageExt]:
        """From an offset on to the end. Raises ``RocketMQError``."""
        offset = first
        while True:
            pulled = await self.pull(queue_id, offset)
            for message in pulled.messages:
                yield message
            moved = pulled.status is PullStatus.OFFSET_ILLEGAL and pulled.next_offset > offset
            if pulled.status is not PullStatus.FOUND and not moved:
                return
            offset = pulled.next_offset

    async def stored(self) -> Stored:
        """All that it has. Raises ``RocketMQError``."""
        return {
            f"{self.broker_name}/{queue_id}": [
                (message.queue_offset, content_of(message.body))
                async for message in self.messages(queue_id, 0)
            ]
            for queue_id in range(self._queues)
        }
