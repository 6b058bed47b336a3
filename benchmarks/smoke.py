"""A million messages through the real daemons over loopback: all of them arrive, every queue in
order, no error.

``python -m benchmarks.smoke`` (``make smoke``). Producers are processes, the consumer is this one;
on a machine with few cores they all take time from the broker, so the rates say little. The
broker's CPU time per message does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sys
import time
from pathlib import Path
from typing import NamedTuple

import click

from aiorocketmq import Admin, MessageExt, PushConsumer, StartFrom
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from examples.demo.daemons import Daemons, data_folder
from examples.demo.errors import DemoError
from examples.demo.program import run_program
from examples.demo.waiting import until

from .command_line import HELP
from .cpu import cpu_ns
from .smoke_producer import HEAD, Report

TOPIC = "Smoke"
GROUP = "smoke-consumer"
NOTHING_NEW_FOR = 30.0
_SHOW_EVERY_S = 5.0


class Options(NamedTuple):
    """What can be asked for on the command line."""

    messages: int
    producers: int
    size: int
    in_flight: int
    queues: int


class Arrivals:
    """Which messages came, and whether those of a producer came in order in each queue."""

    def __init__(self, producers: int, messages: int) -> None:
        self.count = 0
        self.duplicated = 0
        self.out_of_order = 0
        self._seen = [bytearray(messages) for _ in range(producers)]
        self._last: dict[tuple[int, int], int] = {}

    async def take(self, messages: list[MessageExt]) -> None:
        """Handler of the consumer."""
        for message in messages:
            producer, number = HEAD.unpack_from(message.body)
            self.add(producer, number, message.queue_id)

    def add(self, producer: int, number: int, queue_id: int) -> None:
        """A message came."""
        if self._seen[producer][number]:
            self.duplicated += 1
            return
        self._seen[producer][number] = 1
        self.count += 1
        if number <= self._last.get((queue_id, producer), -1):
            self.out_of_order += 1
        self._last[queue_id, producer] = number


@click.command(context_settings=HELP)
@click.option("--messages", type=click.IntRange(1), default=1_000_000, help="How many in all.")
@click.option("--producers", type=click.IntRange(1, 64), default=2, help="Processes that send.")
@click.option(
    "--size", type=click.IntRange(HEAD.size, 4 << 20), default=128, help="Bytes of a body."
)
@click.option(
    "--in-flight", type=click.IntRange(1, 4096), default=64, help="Messages in flight per producer."
)
@click.option("--queues", type=click.IntRange(1, 1024), default=8, help="Queues of the topic.")
def main(**options: int) -> None:
    """A million messages through a name server and a broker in processes of their own."""
    logging.basicConfig(level=logging.WARNING)
    sys.exit(run_program("smoke", smoke(Options(**options))))


async def smoke(options: Options) -> int:
    """Run it; returns the exit code. Raises ``DemoError``."""
    with data_folder(None) as folder:
        async with Daemons.started(folder) as daemons:
            problems = await daemons.watch(_send_and_receive(daemons, options))
        problems += _log_problems(daemons.namesrv.log) + _log_problems(daemons.broker.log)
    for problem in problems:
        print(f"NOT GOOD: {problem}")
    if not problems:
        print("all received, every queue in order, no error")
    return 1 if problems else 0


async def _send_and_receive(daemons: Daemons, options: Options) -> list[str]:
    share = -(-options.messages // options.producers)
    total = share * options.producers
    arrivals = Arrivals(options.producers, share)
    await _make_topic(daemons, options.queues)
    consumer = PushConsumer(
        GROUP,
        namesrv=daemons.namesrv_address,
        start_from=StartFrom.FIRST,
        concurrency=1,
        batch_size=32,
    )
    consumer.subscribe(TOPIC)
    consumer.on_batch(arrivals.take)
    async with consumer:
        await until(
            lambda: _queues_of(consumer) == options.queues,
            30.0,
            "the consumer did not get its queues",
        )
        broker_cpu, own_cpu, started = (
            _cpu_s(daemons.broker.pid),
            time.process_time(),
            time.monotonic(),
        )
        reports, last_arrival = await asyncio.gather(
            asyncio.gather(
                *(_producer(daemons, options, number, share) for number in range(options.producers))
            ),
            _until_all_came(arrivals, total),
        )
        broker_cpu, own_cpu = _cpu_s(daemons.broker.pid) - broker_cpu, time.process_time() - own_cpu
    sent = sum(report["sent"] for report in reports)
    send_s, receive_s = max(report["seconds"] for report in reports), last_arrival - started
    print(
        f"{total:,} messages of {options.size} bytes, {options.producers} producers with "
        f"{options.in_flight} in flight"
    )
    print(f"sent      {sent:>11,} in {send_s:7.2f} s  {sent / send_s:>9,.0f}/s")
    print(
        f"received  {arrivals.count:>11,} in {receive_s:7.2f} s  "
        f"{arrivals.count / receive_s:>9,.0f}/s"
    )
    print(
        f"CPU of the broker     {broker_cpu:7.2f} s  {broker_cpu / total * 1e6:5.2f} µs per "
        "message sent and pulled"
    )
    print(f"CPU of the producers  {sum(report['cpu_s'] for report in reports):7.2f} s")
    print(f"CPU of the consumer   {own_cpu:7.2f} s")
    return _problems(reports, arrivals, total)


def _problems(reports: list[Report], arrivals: Arrivals, total: int) -> list[str]:
    found = [f"sending failed: {error}" for report in reports for error in report["errors"]]
    for count, what in (
        (total - arrivals.count, "lost"),
        (arrivals.duplicated, "duplicated"),
        (arrivals.out_of_order, "out of order"),
    ):
        found += [f"{count:,} messages {what}"] if count else []
    return found


async def _make_topic(daemons: Daemons, queues: int) -> None:
    config = TopicConfig(topic_name=TOPIC, read_queue_nums=queues, write_queue_nums=queues)
    async with Admin(namesrv=daemons.namesrv_address) as admin:
        await admin.create_topic_on(daemons.broker_address, config)


def _queues_of(consumer: PushConsumer) -> int:
    return sum(1 for queue in consumer.assignment() if queue.topic == TOPIC)


async def _producer(daemons: Daemons, options: Options, number: int, messages: int) -> Report:
    counts = (number, messages, options.size, options.in_flight)
    command = ["-m", "benchmarks.smoke_producer", daemons.namesrv_address, TOPIC, *map(str, counts)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise DemoError(f"producer {number} failed with exit code {process.returncode}")
    report: Report = json.loads(output)
    return report


async def _until_all_came(arrivals: Arrivals, total: int) -> float:
    """When the last one came."""
    shown_at = last_arrival = time.monotonic()
    last_count = 0
    while arrivals.count < total:
        await asyncio.sleep(0.05)
        now = time.monotonic()
        if arrivals.count != last_count:
            last_count, last_arrival = arrivals.count, now
        elif now - last_arrival > NOTHING_NEW_FOR:
            break
        if now - shown_at > _SHOW_EVERY_S:
            shown_at = now
            print(f"  received {arrivals.count:,}", flush=True)
    return last_arrival


def _cpu_s(pid: int) -> float:
    try:
        return cpu_ns(pid) / 1e9
    except ProcessLookupError:
        return math.nan  # not an operating system that tells


def _log_problems(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [
        line for line in lines if " WARNING " in line or " ERROR " in line or " CRITICAL " in line
    ]


if __name__ == "__main__":
    main()
