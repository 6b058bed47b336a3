"""Producers with one attempt for each call, a push consumer, and a reader at each broker: all write
down what they see, and when they asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from aiorocketmq import (
    BrokerError,
    ConnectError,
    Message,
    Producer,
    PushConsumer,
    SendContext,
    SendFailed,
    SendHook,
    SendStatus,
    StartFrom,
)
from aiorocketmq.client.errors import NoRouteError
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.transport.client import RemotingClient

from ..raft_group.node_reader import NodeReader, Stored
from ..raft_group.recorder import Recorder, body_of
from ..raft_group.traffic import PRODUCERS, Traffic

QUEUES: Final = 4
"""Of each master."""
_PACE_S: Final = 0.02
_SEND_TIMEOUT_S: Final = 2.0
_READ_EVERY_S: Final = 0.25


class Asked(NamedTuple):
    """A broker that a reader asks."""

    name: str
    broker_name: str
    address: str
    is_master: bool = False


class _Attempts(SendHook):
    """Tells of attempts that a client makes within one call: where a group elects, it asks the next
    master by itself."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._last = ""

    def before_send(self, context: SendContext) -> None:
        content = context.messages[0].keys[0]
        if content == self._last:
            self._recorder.again(int(content.rpartition("-")[2]))
        self._last = content

    def after_send(self, context: SendContext) -> None: ...


class Clients(Traffic):
    """All clients of a campaign. Use as ``async with``."""

    def __init__(
        self,
        namesrv: str,
        topic: str,
        brokers: Sequence[Asked],
        recorder: Recorder,
        *,
        elects: bool,
    ) -> None:
        """``elects``: brokers are a group, whose masters follow each other within a send."""
        super().__init__(recorder)
        self.why: Counter[str] = Counter()
        """What sends that were not acknowledged ended with."""
        self._elects = elects
        self._namesrv = namesrv
        self._topic = topic
        self._remoting = RemotingClient()
        self._readers = {
            each.name: NodeReader(
                each.name, each.broker_name, each.address, topic, QUEUES, self._remoting
            )
            for each in brokers
        }
        names = sorted({each.broker_name for each in brokers})
        self._queues = [MessageQueue(topic, name, n) for n in range(QUEUES) for name in names]

    async def __aenter__(self) -> Clients:
        async with contextlib.AsyncExitStack() as undo:
            await undo.enter_async_context(self._remoting)
            consumer = PushConsumer(
                f"{self._topic}-group",
                namesrv=self._namesrv,
                suspend=2.0,
                commit_interval=0.5,
                start_from=StartFrom.FIRST,
            )
            consumer.subscribe(self._topic)
            consumer.on_message(self._take)
            await undo.enter_async_context(consumer)
            for number in range(PRODUCERS):
                producer = Producer(
                    f"{self._topic}-{number}",
                    namesrv=self._namesrv,
                    send_timeout=_SEND_TIMEOUT_S,
                    retries=0,
                    hooks=[_Attempts(self.recorder)] if number % 2 else [],
                )
                await undo.enter_async_context(producer)
                queue = self._queues[number % len(self._queues)]
                once = bool(number % 2) or not self._elects
                self._begin(self._send(f"p{number}", producer, queue, once=once))
            for reader in self._readers.values():
                self._begin(self._read(reader))
            undo.push_async_callback(self._end)
            self._undo = undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._undo.aclose()

    async def _send(
        self, name: str, producer: Producer, queue: MessageQueue, *, once: bool
    ) -> None:
        while True:
            async with self._sending():
                await self._send_one(name, producer, queue, once=once)
            await asyncio.sleep(_PACE_S)

    async def _send_one(
        self, name: str, producer: Producer, queue: MessageQueue, *, once: bool
    ) -> None:
        op, content = self.recorder.invoke(name, self._topic, queue, once=once)
        try:
            message = Message(self._topic, body_of(content), keys=[content])
            result = await producer.send(message, queue=queue)
        except RocketMQError as error:
            self.why[_reason(error)] += 1
            (self.recorder.fail if _was_not_sent(error) else self.recorder.unknown)(op)
        else:
            if result.status is SendStatus.SEND_OK:
                self.recorder.ok(op, result)
            else:
                self.why[result.status.name] += 1
                self.recorder.unknown(op)

    async def _read(self, reader: NodeReader) -> None:
        """All queues of a broker, from where it was on."""
        offsets = [0] * QUEUES
        while True:
            for queue_id in range(QUEUES):
                with contextlib.suppress(RocketMQError):
                    offsets[queue_id] = await self._read_on(reader, queue_id, offsets[queue_id])
            await asyncio.sleep(_READ_EVERY_S)

    async def _read_on(self, reader: NodeReader, queue_id: int, offset: int) -> int:
        began = self.recorder.now
        pulled = await reader.pull(queue_id, offset)
        queue = f"{reader.broker_name}/{queue_id}"
        self.recorder.ends(reader.name, queue, pulled.max_offset, began=began)
        for message in pulled.messages:
            self.recorder.read(reader.name, message, queue_id)
        return max(offset, pulled.next_offset) if pulled.messages else offset

    async def stored(self, name: str) -> Stored:
        """What that broker has in each queue. Raises ``RocketMQError``."""
        return await self._readers[name].stored()


def _reason(error: RocketMQError) -> str:
    """In a word: of the last attempt, where there was one."""
    if isinstance(error, SendFailed) and error.attempts:
        error = error.attempts[-1].error
    if isinstance(error, BrokerError) and error.code in ResponseCode._value2member_map_:
        return ResponseCode(error.code).name
    return type(error).__name__


def _was_not_sent(error: RocketMQError) -> bool:
    """There was no queue, or no connection."""
    if isinstance(error, SendFailed):
        return all(isinstance(each.error, ConnectError) for each in error.attempts)
    return isinstance(error, NoRouteError | ConnectError)
