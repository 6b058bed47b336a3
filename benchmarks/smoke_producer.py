"""One producer process of ``benchmarks.smoke``: sends its share and prints a line of JSON about
it."""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
from collections.abc import Iterable
from typing import TypedDict

from aiorocketmq import Message, Producer, RocketMQError
from examples.demo.program import run_program

HEAD = struct.Struct(">II")
"""Start of each body: number of the producer, number of the message."""


def body_of(producer: int, number: int, size_bytes: int) -> bytes:
    """What a message carries: who it is from and which one it is, filled up to its size."""
    return HEAD.pack(producer, number).ljust(size_bytes, b".")


class Report(TypedDict):
    """What a producer process says at its end."""

    sent: int
    errors: list[str]
    """The first few."""
    seconds: float
    cpu_s: float


async def send_share(
    namesrv: str, topic: str, number: int, messages: int, size_bytes: int, in_flight: int
) -> int:
    """Send, with so many messages in flight, those of a queue in the order of their numbers; print
    the report."""
    errors: list[str] = []
    numbers = iter(range(messages))
    async with Producer(f"smoke-producer-{number}", namesrv=namesrv, send_timeout=30.0) as producer:

        async def send(numbers: Iterable[int]) -> None:
            for each in numbers:
                try:
                    await producer.send(Message(topic, body_of(number, each, size_bytes)))
                except RocketMQError as error:
                    errors.append(str(error))

        await send([next(numbers)])  # finds the route and connects
        started = time.monotonic()
        async with asyncio.TaskGroup() as senders:
            for _ in range(in_flight):
                senders.create_task(send(numbers))
        seconds = time.monotonic() - started
    report = Report(
        sent=messages - len(errors), errors=errors[:3], seconds=seconds, cpu_s=time.process_time()
    )
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    namesrv, topic, *counts = sys.argv[1:]
    number, messages, size_bytes, in_flight = map(int, counts)
    sys.exit(
        run_program("producer", send_share(namesrv, topic, number, messages, size_bytes, in_flight))
    )
