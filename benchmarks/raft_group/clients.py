"""Producers, a consumer, and readers that ask each member by itself: all write down what they
see."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Final

from aiorocketmq import Message, MessageExt, Producer, PushConsumer, SendStatus
from aiorocketmq.client.consumer.pulling import Pulled, PullStatus, read_pulled
from aiorocketmq.client.errors import NoRouteError
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.transport.client import RemotingClient
from examples.demo.errors import DemoError

from ..pauses import Pauses
from .members import GROUP
from .recorder import Recorder, body_of, content_of

TOPIC: Final = "RaftFaults"
QUEUES: Final = 4
_PRODUCERS: Final = 8
_PACE_S: Final = 0.03
_SEND_TIMEOUT_S: Final = 4.0
_READ_EVERY_S: Final = 0.3
_AT_ONCE: Final = 256
PUSH: Final = "push consumer"


class NodeReader:
    """Reads all queues of one broker, whatever its role."""

    def __init__(
        self,
        name: str,
        address: str,
        remoting: RemotingClient,
        topic: str = TOPIC,
        broker_name: str = GROUP,
    ) -> None:
        self.name = name
        self.broker_name = broker_name
        self._address = address
        self._remoting = remoting
        self._topic = topic

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
        return read_pulled(answer, self._address, self.broker_name)

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


class Clients:
    """All clients of a campaign. Use as ``async with``."""

    def __init__(self, namesrv: str, addresses: Mapping[str, str], recorder: Recorder) -> None:
        """``addresses``: of the members, by name."""
        self.recorder = recorder
        self.sends = Pauses()
        self.consumed: dict[int, set[int]] = {queue: set() for queue in range(QUEUES)}
        """Offsets, by queue."""
        self._namesrv = namesrv
        self._remoting = RemotingClient()
        self._readers = [
            NodeReader(name, address, self._remoting) for name, address in addresses.items()
        ]
        self._may_send = asyncio.Event()
        self._under_way = 0
        self._idle = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Clients:
        async with contextlib.AsyncExitStack() as undo:
            await undo.enter_async_context(self._remoting)
            producer = Producer("raft", namesrv=self._namesrv, send_timeout=_SEND_TIMEOUT_S)
            await undo.enter_async_context(producer)
            consumer = PushConsumer("raft", namesrv=self._namesrv, suspend=2.0, commit_interval=0.5)
            consumer.subscribe(TOPIC)
            consumer.on_message(self._take)
            await undo.enter_async_context(consumer)
            for number in range(_PRODUCERS):
                queue = MessageQueue(TOPIC, GROUP, number % QUEUES) if number % 2 else None
                self._begin(self._send(f"p{number}", producer, queue))
            for reader in self._readers:
                self._begin(self._read(reader))
            undo.push_async_callback(self._end)
            self._undo = undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._undo.aclose()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def failures(self) -> list[str]:
        """Of the clients themselves."""
        return [
            f"a client failed: {task.exception()!r}"
            for task in self._tasks
            if task.done() and not task.cancelled()
        ]

    # -- producers

    def send(self) -> None:
        """From now on."""
        self.sends.begin()
        self._may_send.set()

    async def pause(self) -> None:
        """Return when nothing is under way."""
        self._may_send.clear()
        self._idle.clear()
        if self._under_way:
            await self._idle.wait()

    async def until_acknowledged(self, patience_s: float) -> None:
        """Until a message is acknowledged that was sent from now on. Raises ``DemoError``."""
        deadline = asyncio.get_running_loop().time() + patience_s
        enough = self.recorder.acknowledged + 2 * _PRODUCERS  # some were under way
        while asyncio.get_running_loop().time() < deadline:
            if self.recorder.acknowledged >= enough:
                return
            await asyncio.sleep(0.01)
        raise DemoError(f"nothing is acknowledged within {patience_s:.0f} s")

    async def _send(self, name: str, producer: Producer, queue: MessageQueue | None) -> None:
        recorder = self.recorder
        while True:
            await self._may_send.wait()
            self._under_way += 1
            try:
                op, content = recorder.invoke(name, TOPIC, queue)
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
            finally:
                self._under_way -= 1
                if not self._under_way:
                    self._idle.set()
            await asyncio.sleep(_PACE_S)

    # -- readers

    def _take(self, message: MessageExt) -> None:
        self.consumed[message.queue_id].add(message.queue_offset)
        self.recorder.read(PUSH, message, message.queue_id)

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

    async def everything(self) -> dict[str, dict[str, list[tuple[int, str]]]]:
        """What each member has in each queue, by name of the member. Raises ``RocketMQError``."""
        return {reader.name: await self._everything(reader) for reader in self._readers}

    async def _everything(self, reader: NodeReader) -> dict[str, list[tuple[int, str]]]:
        return {
            f"{GROUP}/{queue_id}": [
                (message.queue_offset, content_of(message.body))
                async for message in reader.messages(queue_id, 0)
            ]
            for queue_id in range(QUEUES)
        }

    async def until_consumed(
        self, stored: Mapping[str, Sequence[tuple[int, str]]], patience_s: float
    ) -> int:
        """How many of the messages the push consumer has not been handed in that time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience_s
        while True:
            missing = sum(
                offset not in self.consumed[queue_id]
                for queue_id in range(QUEUES)
                for offset, _ in stored[f"{GROUP}/{queue_id}"]
            )
            if not missing or loop.time() > deadline:
                return missing
            await asyncio.sleep(0.1)
