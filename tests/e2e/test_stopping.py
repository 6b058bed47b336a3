"""Programs that are told to stop by SIGTERM or Ctrl-C: they finish what they have in hand, and say
nothing.

Every program is a process of its own that prints what it does; what it has left behind is counted
at the broker.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aiorocketmq import Admin, ConsumerNotOnline, Message, Producer

from ..forked import Forked
from .cluster import HOST, PATIENCE_S, Cluster, asynchronous, create_topic

COUNT = 20
"""Messages that wait for a consumer."""

BEGIN = """
import asyncio, signal, sys, time
import aiorocketmq
from aiorocketmq import *
from aiorocketmq import sync

NAMESRV, TOPIC, GROUP = sys.argv[1:]
"""
PUSH = """
consumer = PushConsumer(GROUP, namesrv=NAMESRV, start_from=StartFrom.FIRST, concurrency=1)
consumer.subscribe(TOPIC)

@consumer.on_message
async def handle(message):
    print("begin", flush=True)
    await asyncio.sleep(0.3)
    print("end", flush=True)

"""
SYNC_PUSH = (
    PUSH.replace("PushConsumer", "sync.PushConsumer")
    .replace("async def", "def")
    .replace("await asyncio", "time")
)
PULL = """
async def main():
    async with PullConsumer(GROUP, TOPIC, namesrv=NAMESRV, start_from=StartFrom.FIRST) as consumer:
        async for message in consumer:
            print("begin", flush=True)
            await asyncio.sleep(0.3)
            print("end", flush=True)

aiorocketmq.run(main())
"""
POLL = PULL.replace("async for message in consumer", "while await consumer.poll(max_messages=1)")
SEVERAL = """
async def work(consumer):
    async for message in consumer:
        print("begin", flush=True)
        await asyncio.sleep(0.3)
        print("end", flush=True)

async def main():
    async with PullConsumer(GROUP, TOPIC, namesrv=NAMESRV, start_from=StartFrom.FIRST) as consumer:
        async with asyncio.TaskGroup() as group:
            group.create_task(work(consumer))
            group.create_task(asyncio.Event().wait())

aiorocketmq.run(main())
"""
SYNC_PULL = """
def main():
    with sync.PullConsumer(GROUP, TOPIC, namesrv=NAMESRV, start_from=StartFrom.FIRST) as consumer:
        for message in consumer:
            print("begin", flush=True)
            time.sleep(0.3)
            print("end", flush=True)

sync.run(main)
"""
SYNC_POLL = SYNC_PULL.replace("for message in consumer", "while consumer.poll(max_messages=1)")
CONSUMERS = {
    "asyncio.run": PUSH + "asyncio.run(consumer.run())",
    "ordered": PUSH.replace("concurrency=1", "ordered=True") + "asyncio.run(consumer.run())",
    "uvloop.run": PUSH + "import uvloop\nuvloop.run(consumer.run())",
    "aiorocketmq.run": PUSH + "aiorocketmq.run(consumer.run())",
    "sync": SYNC_PUSH + "consumer.run()",
    "sync.run": SYNC_PUSH + "sync.run(consumer.run)",
    "async for": PULL,
    "poll": POLL,
    "async for in a task": SEVERAL,
    "sync for": SYNC_PULL,
    "sync poll": SYNC_POLL,
}
PRODUCERS = {
    "aiorocketmq.run": """
async def main():
    async with Producer(GROUP, namesrv=NAMESRV) as producer:
        while True:
            producer.send_soon(Message(TOPIC, b"x"))
            print("sent", flush=True)
            await asyncio.sleep(0)

aiorocketmq.run(main())
""",
    "sync.run": """
def main():
    with sync.Producer(GROUP, namesrv=NAMESRV) as producer:
        while True:
            producer.send_soon(Message(TOPIC, b"x"))
            print("sent", flush=True)

sync.run(main)
""",
}
SIGNALS = [signal.SIGTERM, signal.SIGINT]


class Program:
    """One that runs."""

    def __init__(self, process: Forked, folder: Path) -> None:
        self.process = process
        self._folder = folder

    @property
    def printed(self) -> list[str]:
        return (self._folder / "out").read_text().splitlines()

    @property
    def complained(self) -> str:
        return (self._folder / "errors").read_text()

    def wait_for(self, condition: Callable[[list[str]], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition(self.printed):
            assert time.monotonic() < deadline, (self.printed, self.complained)
            assert self.process.poll() is None, (self.printed, self.complained)
            time.sleep(0.01)


@contextmanager
def program(text: str, folder: Path, *arguments: str) -> Iterator[Program]:
    path = folder / "program.py"
    path.write_text(BEGIN + text)
    with (folder / "out").open("w") as out, (folder / "errors").open("w") as errors:
        process = Forked(path, *arguments, stdout=out, stderr=errors)
    try:
        yield Program(process, folder)
    finally:
        process.kill()
        process.wait()


async def send_some(namesrv: str, topic: str) -> None:
    await create_topic(namesrv, topic, 1)
    async with Producer("p", namesrv=namesrv) as producer:
        for number in range(COUNT):
            await producer.send(Message(topic, b"%d" % number))


async def check_group(namesrv: str, topic: str, group: str, consumed: int) -> None:
    """It has told how far it got, and has left."""
    async with Admin(namesrv=namesrv) as admin:
        stats = await admin.consume_stats(group)
        backlog = [
            wrapper.broker_offset - wrapper.consumer_offset
            for queue, wrapper in stats.offset_table.items()
            if queue.topic == topic
        ]
        assert backlog == [COUNT - consumed]
        with pytest.raises(ConsumerNotOnline):
            await admin.consumer_connection(group)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("kind", CONSUMERS)
def test_a_consumer_finishes_what_it_has_in_hand(
    kind: str, number: signal.Signals, shared: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    asyncio.run(send_some(shared.namesrv, topic))
    with program(CONSUMERS[kind], tmp_path, shared.namesrv, topic, group) as running:
        running.wait_for(lambda lines: lines.count("begin") == 2)
        running.process.send_signal(number)
        assert running.process.wait(PATIENCE_S) == 0, running.complained
        consumed = running.printed.count("end")
        assert 2 <= consumed < COUNT
        assert running.printed == ["begin", "end"] * consumed
        assert running.complained == ""
    asyncio.run(check_group(shared.namesrv, topic, group, consumed))


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("kind", ["asyncio.run", "sync", "async for", "sync for"])
def test_a_second_signal_ends_it_at_once(
    kind: str, number: signal.Signals, shared: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    asyncio.run(send_some(shared.namesrv, topic))
    for_ever = CONSUMERS[kind].replace("sleep(0.3)", "sleep(1000)")
    with program(for_ever, tmp_path, shared.namesrv, topic, group) as running:
        running.wait_for(lambda lines: lines == ["begin"])
        running.process.send_signal(number)
        deadline = time.monotonic() + PATIENCE_S
        while (
            running.process.poll() is None
        ):  # what comes before the first one is heard counts as one with it
            assert time.monotonic() < deadline
            time.sleep(0.2)
            running.process.send_signal(number)
        assert running.process.wait() == -number
        assert (running.printed, running.complained) == (["begin"], "")


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("kind", ["asyncio.run", "sync", "async for", "sync for"])
def test_who_never_finishes_is_waited_for_only_so_long(
    kind: str, number: signal.Signals, shared: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    asyncio.run(send_some(shared.namesrv, topic))
    takes_it = {"async for": "run(main()", "sync for": "run(main"}.get(kind, "concurrency=1")
    text = (
        CONSUMERS[kind]
        .replace("sleep(0.3)", "sleep(1000)")
        .replace(f"{takes_it})", f"{takes_it}, stop_timeout=0.5)")
    )
    with program(text, tmp_path, shared.namesrv, topic, group) as running:
        running.wait_for(lambda lines: lines == ["begin"])
        running.process.send_signal(number)
        assert running.process.wait(PATIENCE_S) == 0, running.complained
        assert running.printed == ["begin"]
        assert (
            "Traceback" not in running.complained
        )  # a line of the log says what was not waited for
    asyncio.run(check_group(shared.namesrv, topic, group, 0))


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("kind", ["asyncio.run", "sync", "async for", "sync for"])
def test_a_consumer_that_has_not_begun_ends(
    kind: str, number: signal.Signals, topic: str, group: str, tmp_path: Path
) -> None:
    """Its name server takes the connection and says nothing."""
    patient = CONSUMERS[kind].replace("namesrv=NAMESRV", "namesrv=NAMESRV, request_timeout=1000")
    with (
        socket.create_server((HOST, 0)) as silent,
        program(patient, tmp_path, f"{HOST}:{silent.getsockname()[1]}", topic, group) as running,
    ):
        silent.settimeout(PATIENCE_S)
        with silent.accept()[0]:
            running.process.send_signal(number)
            assert running.process.wait(PATIENCE_S) == 0, running.complained
    assert running.printed == []
    assert "Traceback" not in running.complained  # a slow one may say that nothing answers


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("kind", PRODUCERS)
def test_a_producer_sends_what_it_was_given(
    kind: str, number: signal.Signals, shared: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    asyncio.run(create_topic(shared.namesrv, topic, 1))
    with program(PRODUCERS[kind], tmp_path, shared.namesrv, topic, group) as running:
        running.wait_for(lambda lines: len(lines) > 100)
        running.process.send_signal(number)
        assert running.process.wait(PATIENCE_S) == 0, running.complained
        assert running.complained == ""
        given = len(running.printed)

    @asynchronous
    async def check() -> None:
        async with Admin(namesrv=shared.namesrv) as admin:
            (queue,) = await admin.read_queues(topic)
            assert await admin.max_offset(queue) in (
                given,
                given + 1,
            )  # the signal may come before the line

    check()
