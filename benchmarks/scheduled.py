"""Delayed messages under load: none early, none late, none lost, and what restarts and kills do to
them.

``python -m benchmarks.scheduled``. One after the other: a run without disturbance; one in whose
middle the broker is stopped and started again; one in whose middle it is killed. Senders and
consumer are this process, the broker is one of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import sys
import time
from typing import Final, NamedTuple

import click

from aiorocketmq.remoting.errors import RemotingError
from aiorocketmq.remoting.protocol.bodies.codec import decode_body
from aiorocketmq.remoting.protocol.bodies.consumer_offsets import DelayOffsetTable
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2
from aiorocketmq.remoting.protocol.record import read_messages
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.store.model.delay_levels import parse_delay_levels
from examples.demo.daemons import data_folder
from examples.demo.program import run_program

from .broker_process import BrokerProcess, make_topic
from .command_line import HELP
from .scheduled_ledger import BODY, Received, Verdict, judge, read_store, received

TOPIC: Final = "Scheduled"
QUEUES: Final = 4
LEVELS: Final = "1s 1s 2s 2s 3s 3s 4s 4s 5s 5s 6s 6s 7s 7s 8s 8s 9s 10s"
SENDERS: Final = 64
PERSIST_MS: Final = 2_000
"""flushDelayOffsetInterval, shortened: some of it has to happen before the kill."""
_NOT_JUST_PERSISTED_S: Final = 1.7
MAX_LATE_MS: Final = 200
ENOUGH: Final = 0.95
"""Of the rate that was asked for."""


class Options(NamedTuple):
    """What can be asked for on the command line."""

    messages: int
    rate: int


class Run:
    """One run: messages of random levels at a steady rate, a consumer, and perhaps a restart
    half-way."""

    def __init__(
        self, options: Options, broker: BrokerProcess, disturbance: signal.Signals | None
    ) -> None:
        self.acknowledged: set[int] = set()
        self.got: list[Received] = []
        self.refused = 0
        self.allowed_repeats = 0
        self.sent_in_s = 0.0
        self.cpu_s = 0.0
        self.rate = options.rate
        self._options = options
        self._broker = broker
        self.disturbance = disturbance
        self._numbers = itertools.count()
        self._levels = random.Random(1)
        self._serving = asyncio.Event()
        self._started = 0.0
        self._delays_ms = parse_delay_levels(LEVELS)

    async def run(self) -> Verdict:
        """Everything, to the end of the broker."""
        broker = self._broker
        await broker.start()
        async with RemotingClient() as client:
            await make_topic(client, broker.address, TOPIC, QUEUES)
            self._serving.set()
            pulls = [
                asyncio.create_task(self._pull(client, queue_id)) for queue_id in range(QUEUES)
            ]
            before, self._started = broker.cpu_s, time.monotonic()
            async with asyncio.TaskGroup() as senders:
                for _ in range(SENDERS):
                    senders.create_task(self._send(client))
                if self.disturbance is not None:
                    senders.create_task(self._disturb(self.disturbance))
            self.sent_in_s = time.monotonic() - self._started
            await self._until_all_came()
            self.cpu_s = broker.cpu_s - before
            for pull in pulls:
                pull.cancel()
            await asyncio.gather(*pulls, return_exceptions=True)
        await broker.end(signal.SIGTERM)
        stored = await asyncio.to_thread(read_store, broker.store, TOPIC)
        return judge(self.acknowledged, stored, self.got, self._delays_ms)

    async def _disturb(self, number: signal.Signals) -> None:
        """End the broker in the middle, and find out how many messages may come twice."""
        await asyncio.sleep(self._options.messages / self._options.rate / 2 + _NOT_JUST_PERSISTED_S)
        self._serving.clear()
        await self._broker.end(number)
        if number is signal.SIGKILL:
            stored = await asyncio.to_thread(read_store, self._broker.store, TOPIC)
            text = await asyncio.to_thread(
                (self._broker.store / "config/delayOffset.json").read_bytes
            )
            self.allowed_repeats = len(stored.delivered) - sum(
                decode_body(DelayOffsetTable, text).offset_table.values()
            )
        await self._broker.start()
        self._serving.set()

    async def _send(self, client: RemotingClient) -> None:
        """One of the senders: the next number, when its time has come."""
        while (number := next(self._numbers)) < self._options.messages:
            wait_s = self._started + number / self._options.rate - time.monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            level = self._levels.randint(1, len(self._delays_ms))
            try:
                while not await self._send_one(client, number, level):
                    self.refused += 1
                    await asyncio.sleep(0.05)
            except RemotingError:
                await asyncio.sleep(
                    0.05
                )  # the broker is gone: whether it has the message nobody knows

    async def _send_one(self, client: RemotingClient, number: int, level: int) -> bool:
        """False when the broker is too busy to take it. Raises ``RemotingError``."""
        await self._serving.wait()
        now_ms = time.time_ns() // 1_000_000
        header = SendMessageRequestV2(
            producer_group="scheduled", topic=TOPIC, default_topic="TBW102",
            default_topic_queue_nums=QUEUES,
            queue_id=number % QUEUES, sys_flag=0, born_timestamp=now_ms, flag=0,
            properties=f"UNIQ_KEY\x01{number:032X}\x02WAIT\x01true\x02DELAY\x01{level}\x02TAGS\x01TagA",
        )  # fmt: skip
        body = BODY.pack(number, level, now_ms)
        answer = await client.invoke(
            self._broker.address, RequestCode.SEND_MESSAGE_V2, header, body, timeout=30
        )
        if answer.code == ResponseCode.SYSTEM_BUSY:
            return False
        answer.check()
        self.acknowledged.add(number)
        return True

    async def _pull(self, client: RemotingClient, queue_id: int) -> None:
        offset = 0
        while True:
            request = PullMessageRequest(
                consumer_group="scheduled-reader", topic=TOPIC, queue_id=queue_id,
                queue_offset=offset, max_msg_nums=32,
                sys_flag=PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND, commit_offset=0,
                suspend_timeout_millis=5_000,
                subscription="*", sub_version=0, expression_type="TAG",
            )  # fmt: skip
            await self._serving.wait()
            try:
                answer = await client.invoke(
                    self._broker.address, RequestCode.PULL_MESSAGE, request, timeout=30
                )
            except RemotingError:
                await asyncio.sleep(0.05)
                continue
            if answer.code == ResponseCode.SUCCESS:
                messages = read_messages(answer.body, "")[0]
                self.got += received(messages, time.time_ns() // 1_000_000)
                offset += len(messages)

    async def _until_all_came(self) -> None:
        """Until the longest delay is over and nothing has come for a while."""
        count, last = -1, time.monotonic()
        while time.monotonic() - last < max(self._delays_ms) / 1000 + 2:
            if len(self.got) != count:
                count, last = len(self.got), time.monotonic()
            if len({each.number for each in self.got} & self.acknowledged) == len(
                self.acknowledged
            ):
                await asyncio.sleep(0.5)
                return
            await asyncio.sleep(0.2)


DISTURBANCES: Final[dict[str, signal.Signals | None]] = {
    "undisturbed": None,
    "stopped and started": signal.SIGTERM,
    "killed": signal.SIGKILL,
}


async def scheduled(options: Options) -> int:
    """All runs; returns the exit code."""
    good = True
    for name, disturbance in DISTURBANCES.items():
        with data_folder(None) as folder:
            broker = BrokerProcess(
                folder, messageDelayLevel=LEVELS, flushDelayOffsetInterval=PERSIST_MS
            )
            run = Run(options, broker, disturbance)
            try:
                verdict = await run.run()
            finally:
                await broker.end(signal.SIGKILL)
            good &= _report(name, run, verdict, broker.problems)
    return 0 if good else 1


def _report(name: str, run: Run, verdict: Verdict, problems: list[str]) -> bool:
    """Print one run; whether it was good."""
    median, p99, worst = (verdict.lateness(share) for share in (0.5, 0.99, 1.0))
    print(
        f"{name}: {verdict.acknowledged:,} acknowledged in {run.sent_in_s:.1f} s, levels {LEVELS}"
    )
    if run.refused:
        print(
            f"  {run.refused:,} times refused because the broker or the machine is too busy, and "
            "sent again"
        )
    print(
        f"  delivered {verdict.delivered:,}  lost {verdict.lost}  not received "
        f"{verdict.not_received}"
    )
    print(f"  early {verdict.early}  out of order in their level {verdict.out_of_order}")
    print(
        f"  repeated {verdict.repeated}, delivered since offsets were persisted "
        f"{run.allowed_repeats}"
    )
    print(f"  late in the broker: median {median[0]} ms, p99 {p99[0]} ms, worst {worst[0]} ms")
    print(
        f"  sent to received, less the delay: median {median[1]} ms, p99 {p99[1]} ms, worst "
        f"{worst[1]} ms"
    )
    print(
        f"  CPU of the broker {run.cpu_s:.1f} s, "
        f"{run.cpu_s / max(1, verdict.delivered) * 1e6:.1f} µs per message",
        flush=True,
    )
    rate = run.rate if run.disturbance is None else None
    problems += what_is_wrong(
        verdict, allowed_repeats=run.allowed_repeats, took_s=run.sent_in_s, rate=rate
    )
    for problem in problems[:20]:
        print(f"NOT GOOD: {problem}")
    if not problems:
        print(
            "GOOD: every message at its time, in the order of its level, and as often as it may "
            "come",
            flush=True,
        )
    return not problems


def what_is_wrong(
    verdict: Verdict, *, allowed_repeats: int, took_s: float = 0.0, rate: int | None = None
) -> list[str]:
    """``rate``: of a run that was not disturbed, and has to be in time."""
    problems = []
    if verdict.lost or verdict.not_received or verdict.early or verdict.out_of_order:
        problems.append("messages are lost, early or out of order")
    if verdict.repeated > allowed_repeats:
        problems.append("more messages came twice than may")
    if rate is not None:
        if (late := verdict.lateness(0.99)[1]) >= MAX_LATE_MS:
            problems.append(f"p99 of the lateness is {late} ms, {MAX_LATE_MS} ms is too much")
        if (sent := verdict.acknowledged / took_s) < ENOUGH * rate:
            problems.append(
                f"this machine sent {sent:,.0f} a second, not {rate:,}: a run that says nothing"
            )
    return problems


@click.command(context_settings=HELP)
@click.option("--messages", type=click.IntRange(1), default=100_000, help="How many per run.")
@click.option("--rate", type=click.IntRange(1), default=5_000, help="Messages per second.")
def main(messages: int, rate: int) -> None:
    """Delayed messages under load, and through restarts and kills of the broker."""
    sys.exit(run_program("scheduled", scheduled(Options(messages, rate))))


if __name__ == "__main__":
    main()
