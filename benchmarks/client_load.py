"""What a message costs the client: ``python -m benchmarks.client_load SHAPE NAMESRV IN_FLIGHT SIZE
SECONDS``.

Prints a line of JSON with the messages, the wall time and the CPU time of this process. Shapes:
``send`` (awaited sends, IN_FLIGHT at a time), ``accumulate`` (the same through an accumulator),
``sync`` (the blocking client in one thread), ``push``, ``push_batch``, ``pull`` (a new group reads
the topic of SIZE from its beginning), ``fill`` (makes that topic), ``floor`` (frames made before,
answers are counted and not decoded, on the same event loop; takes the address of a broker),
``floor-pull`` (the same for pulls of 32 messages of the topic of SIZE), ``floor-sync`` (the same
over a blocking socket).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from typing import Any, cast

from aiorocketmq import (
    Accumulate,
    Message,
    MessageExt,
    Producer,
    PullConsumer,
    PushConsumer,
    StartFrom,
    split,
)
from aiorocketmq import sync as blocking
from aiorocketmq.daemon.event_loop import new_event_loop
from aiorocketmq.remoting.protocol.frames.frame import FrameDecoder

from .harness.frames import QUEUES, TOPIC, pulls, sends

WARM_UP_S = 0.3
FILL = 500_000
"""Messages in a topic to be read."""
_CHECK_EVERY = 64
_PULL = 32
_READ_BYTES = 8 << 10


class Meter:
    """Counts messages, and CPU time from the end of the warm-up on."""

    def __init__(self, seconds: float) -> None:
        self.count = 0
        self._start = time.monotonic() + WARM_UP_S
        self.end = self._start + seconds
        self._base = (0, 0.0, 0.0)
        self._measuring = False

    def running(self) -> bool:
        """Asked now and then; begins the measurement when the warm-up is over."""
        now = time.monotonic()
        if not self._measuring and now >= self._start:
            self._measuring = True
            self._base = (self.count, now, time.process_time())
        return now < self.end

    def result(self) -> dict[str, Any]:
        count, started, cpu = self._base
        messages = max(1, self.count - count)
        return {
            "messages": messages,
            "seconds": time.monotonic() - started,
            "cpu": time.process_time() - cpu,
        }


async def send(
    namesrv: str, in_flight: int, size: int, seconds: float, accumulate: Accumulate | None
) -> dict[str, Any]:
    body = b"x" * size
    async with Producer("Benchmark", namesrv=namesrv, accumulate=accumulate) as producer:
        await producer.send(Message(TOPIC, body))
        meter = Meter(seconds)

        async def worker() -> None:
            while meter.running():
                for _ in range(_CHECK_EVERY if in_flight < _CHECK_EVERY else 8):
                    await producer.send(Message(TOPIC, body))
                    meter.count += 1

        await asyncio.gather(*(worker() for _ in range(in_flight)))
        return meter.result()


def send_blocking(namesrv: str, size: int, seconds: float) -> dict[str, Any]:
    body = b"x" * size
    with blocking.Producer("Benchmark", namesrv=namesrv) as producer:
        producer.send(Message(TOPIC, body))
        meter = Meter(seconds)
        while meter.running():
            for _ in range(_CHECK_EVERY):
                producer.send(Message(TOPIC, body))
                meter.count += 1
        return meter.result()


def floor_blocking(address: str, seconds: float) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        meter, frames = Meter(seconds), sends().frames[:_CHECK_EVERY]
        while meter.running():
            for frame in frames:
                connection.sendall(frame)
                _wait_awake(connection)
                meter.count += 1
        return meter.result()


def _wait_awake(connection: socket.socket) -> None:
    """On an idle machine the quickest way, see ``remoting/transport/spin_wait.py``."""
    while True:
        try:
            os.sched_yield()
            connection.recv(_READ_BYTES, socket.MSG_DONTWAIT)
            return
        except BlockingIOError:
            pass


async def fill(namesrv: str, size: int) -> dict[str, Any]:
    body, topic = b"x" * size, f"{TOPIC}-{size}"
    async with Producer("Benchmark", namesrv=namesrv, topic_queue_nums=4) as producer:
        for part in split((Message(topic, body) for _ in range(FILL)), 256 << 10):
            await producer.send(part)
    return {"messages": FILL, "seconds": 0.0, "cpu": 0.0}


async def consume(shape: str, namesrv: str, size: int, seconds: float) -> dict[str, Any]:
    """Up to the end of the topic or of the time; what comes first."""
    topic, group = f"{TOPIC}-{size}", f"{shape}-{time.monotonic_ns()}"
    meter, done = Meter(seconds), asyncio.Event()

    def count(messages: int) -> None:
        meter.count += messages
        if not meter.running() or meter.count >= FILL:
            done.set()

    if shape.startswith("push"):
        consumer = PushConsumer(group, namesrv=namesrv, start_from=StartFrom.FIRST)
        consumer.subscribe(topic)

        async def handle_batch(messages: list[MessageExt]) -> None:
            count(len(messages))

        async def handle(_message: MessageExt) -> None:
            meter.count += 1
            if meter.count % 512 == 0 or meter.count >= FILL:
                count(0)

        if shape == "push_batch":
            consumer.on_batch(handle_batch)
        else:
            consumer.on_message(handle)
        async with consumer:
            await done.wait()
            return meter.result()
    async with PullConsumer(group, topic, namesrv=namesrv, start_from=StartFrom.FIRST) as puller:
        while not done.is_set():
            count(len(await puller.poll(max_messages=512)))
        return meter.result()


class Floor(asyncio.Protocol):
    """Frames out, frames in; nothing is made and nothing is read. ``each``: messages per frame."""

    def __init__(self, frames: list[bytes], in_flight: int, seconds: float, each: int = 1) -> None:
        self._frames = frames
        self._each = each
        self._in_flight = in_flight
        self._next = 0
        self._decoder = FrameDecoder()
        self.meter = Meter(seconds)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ask(self._in_flight)

    def data_received(self, data: bytes) -> None:
        answers = len(self._decoder.feed(data))
        self.meter.count += answers * self._each
        if not self.meter.running():
            if not self.done.done():
                self.done.set_result(None)
            return
        if answers:
            self._ask(answers)

    def _ask(self, count: int) -> None:
        frames, at = self._frames, self._next
        self._next = (at + count) % len(frames)
        self._transport.write(b"".join([frames[(at + i) % len(frames)] for i in range(count)]))


async def floor(
    address: str, in_flight: int, seconds: float, *, pull_size: int | None = None
) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    places = [(n % QUEUES, n // QUEUES * _PULL) for n in range(1024)]
    frames = (
        sends() if pull_size is None else pulls(places, _PULL, topic=f"{TOPIC}-{pull_size}")
    ).frames
    each = 1 if pull_size is None else _PULL
    _, protocol = await asyncio.get_running_loop().create_connection(
        lambda: Floor(frames, in_flight, seconds, each), host, int(port)
    )
    await protocol.done
    protocol._transport.abort()
    return protocol.meter.result()


def main() -> None:
    shape, address, in_flight, size, seconds = (
        sys.argv[1],
        sys.argv[2],
        *map(int, sys.argv[3:5]),
        float(sys.argv[5]),
    )
    if shape == "sync":
        result = send_blocking(address, size, seconds)
    elif shape == "floor-sync":
        result = floor_blocking(address, seconds)
    else:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            if shape == "floor":
                result = runner.run(floor(address, in_flight, seconds))
            elif shape == "floor-pull":
                result = runner.run(floor(address, in_flight, seconds, pull_size=size))
            elif shape == "fill":
                result = runner.run(fill(address, size))
            elif shape in ("push", "push_batch", "pull"):
                result = runner.run(consume(shape, address, size, seconds))
            else:
                gather = Accumulate(linger=0.001) if shape == "accumulate" else None
                result = runner.run(send(address, in_flight, size, seconds, gather))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
