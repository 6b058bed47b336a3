"""The load of every step, and what it saw: sends one after the other from 16 senders, what was
acknowledged, and what is there in the end."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Final, NamedTuple, Self

from aiorocketmq import Message, Producer, PullConsumer
from aiorocketmq.remoting.errors import RocketMQError

TOPIC: Final = "Steady"
SENDERS: Final = 16
QUEUES: Final = 8
_BODY: Final = b"x" * 100
_TIMEOUT_S: Final = 15.0
_READ_WITHIN_S: Final = 5.0
_PAUSE_S: Final = 0.05


class Phase(NamedTuple):
    """What was seen in some seconds."""

    per_second: float
    """Acknowledged messages."""
    p99_ms: float
    worst_ms: float
    refused: int
    """Sends that ended with an error."""
    memory_mib: int
    """Of the broker at the end, without pages of files."""


class Load:
    """Use as ``async with``."""

    def __init__(self, namesrv: str, broker_pid: int) -> None:
        self._namesrv = namesrv
        self._pid = broker_pid
        self.producer: Producer = Producer("steady", namesrv=namesrv)
        self.acknowledged: set[int] = set()
        self.went_back_s: float = 0.0
        """The largest step back of the store times of a queue, as ``lost`` has read them."""
        self._number = 0
        self._refused = 0
        self._latencies: list[float] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.producer.start()
        self._tasks = [asyncio.create_task(self._send()) for _ in range(SENDERS)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.producer.stop()

    async def phase(self, seconds: float) -> Phase:
        """Watch it for so long."""
        self._latencies, self._refused = [], 0
        began = time.perf_counter()
        await asyncio.sleep(seconds)
        took, latencies = time.perf_counter() - began, sorted(self._latencies) or [0.0]
        return Phase(
            len(self._latencies) / took,
            latencies[len(latencies) * 99 // 100],
            latencies[-1],
            self._refused,
            private_mib(self._pid),
        )

    async def _send(self) -> None:
        while True:
            self._number += 1
            number, began = self._number, time.perf_counter()
            message = Message(TOPIC, b"%d:%b" % (number, _BODY))
            try:
                await self.producer.send(message, timeout=_TIMEOUT_S)
            except RocketMQError:
                self._refused += 1
                await asyncio.sleep(_PAUSE_S)
            else:
                self.acknowledged.add(number)
                self._latencies.append((time.perf_counter() - began) * 1000)

    async def lost(self) -> int:
        """Acknowledged messages that are not there, once nobody sends any more."""
        missing, latest = set(self.acknowledged), dict[int, int]()
        async with PullConsumer("reader", namesrv=self._namesrv) as consumer:
            await consumer.assign(await consumer.queues(TOPIC))
            await consumer.seek_to_begin()
            while missing:
                messages = await consumer.poll(timeout=_READ_WITHIN_S)
                if not messages:
                    break
                for message in messages:
                    missing.discard(number_of(message.body))
                    stored, queue = message.store_timestamp, message.queue_id
                    back = latest.get(queue, stored) - stored
                    self.went_back_s = max(self.went_back_s, back / 1000)
                    latest[queue] = stored
        return len(missing)


def number_of(body: bytes) -> int:
    """Of a message of the load; -1 for others."""
    number = body.partition(b":")[0]
    return int(number) if number.isdigit() else -1


def private_mib(pid: int) -> int:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) >> 10 if found else 0
