"""Producers, a consumer, and readers that ask each member by itself: all write down what they
see."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from aiorocketmq import Message, Producer, PushConsumer, SendStatus
from aiorocketmq.client.errors import NoRouteError
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.transport.client import RemotingClient

from ..pauses import Pauses
from .members import GROUP
from .node_reader import NodeReader, Stored
from .recorder import Recorder, body_of
from .traffic import PRODUCERS, Traffic

TOPIC: Final = "RaftFaults"
QUEUES: Final = 4
_PACE_S: Final = 0.03
_SEND_TIMEOUT_S: Final = 4.0
_READ_EVERY_S: Final = 0.3


class Clients(Traffic):
    """All clients of a campaign. Use as ``async with``."""

    def __init__(self, namesrv: str, addresses: Mapping[str, str], recorder: Recorder) -> None:
        """``addresses``: of the members, by name."""
        super().__init__(recorder)
        self.sends = Pauses()
        self._namesrv = namesrv
        self._remoting = RemotingClient()
        self._readers = [
            NodeReader(name, GROUP, address, TOPIC, QUEUES, self._remoting)
            for name, address in addresses.items()
        ]

    async def __aenter__(self) -> Clients:
        async with contextlib.AsyncExitStack() as undo:
            await undo.enter_async_context(self._remoting)
            producer = Producer("raft", namesrv=self._namesrv, send_timeout=_SEND_TIMEOUT_S)
            await undo.enter_async_context(producer)
            consumer = PushConsumer("raft", namesrv=self._namesrv, suspend=2.0, commit_interval=0.5)
            consumer.subscribe(TOPIC)
            consumer.on_message(self._take)
            await undo.enter_async_context(consumer)
            for number in range(PRODUCERS):
                queue = MessageQueue(TOPIC, GROUP, number % QUEUES) if number % 2 else None
                self._begin(self._send(f"p{number}", producer, queue))
            for reader in self._readers:
                self._begin(self._read(reader))
            undo.push_async_callback(self._end)
            self._undo = undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._undo.aclose()

    def send(self) -> None:
        """From now on."""
        self.sends.begin()
        super().send()

    async def _send(self, name: str, producer: Producer, queue: MessageQueue | None) -> None:
        while True:
            async with self._sending():
                await self._send_one(name, producer, queue)
            await asyncio.sleep(_PACE_S)

    async def _send_one(self, name: str, producer: Producer, queue: MessageQueue | None) -> None:
        recorder = self.recorder
        op, content = recorder.invoke(name, TOPIC, queue)
        try:
            result = await producer.send(Message(TOPIC, body_of(content)), queue=queue)
        except RocketMQError as error:
            self.sends.failed(type(error).__name__)
            if isinstance(error, NoRouteError):
                recorder.fail(op)
            else:
                recorder.unknown(op)
        else:
            if result.status is SendStatus.SEND_OK:
                recorder.ok(op, result)
                self.sends.event()
            else:
                recorder.unknown(op)

    async def _read(self, reader: NodeReader) -> None:
        """A member that is behind shows less for a while, never something else."""
        offsets = [0] * QUEUES
        while True:
            for queue_id in range(QUEUES):
                with contextlib.suppress(RocketMQError):
                    async for message in reader.messages(queue_id, offsets[queue_id]):
                        self.recorder.read(reader.name, message, queue_id)
                        offsets[queue_id] = message.queue_offset + 1
            await asyncio.sleep(_READ_EVERY_S)

    async def everything(self) -> dict[str, Stored]:
        """What each member has, by its name. Raises ``RocketMQError``."""
        return {reader.name: await reader.stored() for reader in self._readers}
