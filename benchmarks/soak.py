"""SIGKILL under load, again and again: what was acknowledged is there, in order.

``python -m benchmarks.soak`` (``make soak``). A broker process takes single messages and batches
into small files, is killed at a random moment (now and then while it starts), and started again on
the same store; then every queue is read from where the last round left it. A round is ASYNC_FLUSH
or SYNC_FLUSH, and mostly syncs so often that recovery begins at the checkpoint. At the end all of
it is read once more, the broker is stopped, and ``mqstore verify`` holds log, queues and index
against each other.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

import click

from aiorocketmq.remoting.errors import RemotingError, RocketMQError
from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.pull import PullMessageRequest, PullSysFlag
from aiorocketmq.remoting.protocol.commands.send import SendMessageRequestV2
from aiorocketmq.remoting.protocol.commands.topic import CreateTopicRequest
from aiorocketmq.remoting.protocol.record import read_messages
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.remoting.transport.client import RemotingClient
from aiorocketmq.tools.mqstore.verify import verify
from examples.demo.daemons import data_folder
from examples.demo.errors import DemoError
from examples.demo.program import run_program

from .command_line import HELP, KEEP, SEED, load, rounds
from .soak_ledger import Ledger, SendStream

TOPIC: Final = "Soak"
QUEUES: Final = 4
BATCHES: Final = (1, 1, 1, 16)
"""Messages per request of the streams of a queue."""
SIZES: Final = (0, 100, 1000, 1000, 5000)
READY_WITHIN_S: Final = 60.0
_READY: Final = re.compile(r"broker ready .* port=(\d+) ")
_BAD_LINES: Final = re.compile(r"Traceback| CRITICAL | ERROR ")


class Options(NamedTuple):
    """What can be asked for on the command line."""

    rounds: int
    seed: int
    load_s: float
    keep: Path | None


class Broker:
    """One life of the broker process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "broker.log"
        self._process: asyncio.subprocess.Process | None = None
        self.address = ""

    async def start(self, flush: str, *, often: bool = False) -> None:
        """``often``: everything is synced many times a second, so that recovery begins at the
        checkpoint."""
        every_ms = 50 if often else 10_000
        settings = {
            "storePathRootDir": self._folder / "store", "brokerName": "soak",
            "bindAddress": "127.0.0.1", "listenPort": 0,
            "flushDiskType": flush, "mappedFileSizeCommitLog": 1 << 20,
            "mappedFileSizeConsumeQueue": 20 * 500,
            "maxHashSlotNum": 1000, "maxIndexNum": 4000, "flushIntervalCommitLog": every_ms,
            "flushIntervalConsumeQueue": every_ms, "flushConsumeQueueThoroughInterval": every_ms,
            # a machine that is busy with other work is no reason to refuse a message
            "waitTimeMillsInSendQueue": 10_000,
        }  # fmt: skip
        command = [
            sys.executable,
            "-m",
            "aiorocketmq.broker",
            *(f"--{name}={value}" for name, value in settings.items()),
        ]
        environment = {
            **os.environ,
            "ROCKETMQ_HOME": str(self._folder),
            "HOME": str(self._folder),
            "NAMESRV_ADDR": "",
        }
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    async def ready(self) -> None:
        """Return when it serves. Raises ``DemoError`` when it does not."""
        deadline = time.monotonic() + READY_WITHIN_S
        while (found := _READY.search(self._log.read_text(errors="replace"))) is None:
            assert self._process is not None
            if self._process.returncode is not None or time.monotonic() > deadline:
                raise DemoError(
                    "the broker does not start; its log:",
                    self._log.read_text(errors="replace")[-3000:],
                )
            await asyncio.sleep(0.005)
        self.address = f"127.0.0.1:{found[1]}"

    async def end(self, number: signal.Signals = signal.SIGKILL) -> list[str]:
        """End the process; the lines of its log that should not be there."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)
        code = await self._process.wait()
        lines = [
            f"log: {line}"
            for line in self._log.read_text(errors="replace").splitlines()
            if _BAD_LINES.search(line)
        ]
        return (
            lines
            if code in (-signal.SIGKILL, 0)
            else [*lines, f"the broker ended with exit code {code}"]
        )


class Soak:
    """All rounds on one store."""

    def __init__(self, folder: Path, options: Options) -> None:
        streams = [(queue, batch) for queue in range(QUEUES) for batch in BATCHES]
        self.ledger = Ledger(
            [SendStream(number, queue, batch) for number, (queue, batch) in enumerate(streams)]
        )
        self.problems: list[str] = []
        self.kills = 0
        self.recoveries_s: list[float] = []
        self._options = options
        self._rng = random.Random(options.seed)
        self._store = folder / "store"
        self._broker = Broker(folder)

    async def run(self) -> None:
        """All rounds, then the last check. Whatever happens, the process is ended."""
        self.ledger.begin()
        try:
            while (
                self.kills < self._options.rounds and not self.problems and not self.ledger.problems
            ):
                await self._round()
                if self.kills % 20 == 0:
                    print(
                        f"  {self.kills} kills, {self.ledger.acknowledged:,} messages acknowledged",
                        flush=True,
                    )
            await self._last_check()
        finally:
            self.problems += await self._broker.end()

    async def _round(self) -> None:
        rng = self._rng
        await self._broker.start(
            rng.choice(("ASYNC_FLUSH", "SYNC_FLUSH")), often=rng.random() < 0.8
        )
        began = time.monotonic()
        if rng.random() < 0.1:
            await asyncio.sleep(rng.random() * 0.7)  # not even started
        else:
            await self._broker.ready()
            self.recoveries_s.append(time.monotonic() - began)
            async with RemotingClient() as client:
                await self._make_topic(client)
                await self._read(client)
                load = [
                    asyncio.create_task(self._send(client, stream))
                    for stream in self.ledger.streams
                ]
                await asyncio.sleep(rng.uniform(0.3, 1.0) * self._options.load_s)
                self.problems += await self._broker.end()
                await asyncio.gather(*load)
        self.problems += await self._broker.end()
        self.kills += 1

    async def _last_check(self) -> None:
        """Everything again from the first message on, and then from outside."""
        await self._broker.start("ASYNC_FLUSH")
        await self._broker.ready()
        self.ledger.begin()
        async with RemotingClient() as client:
            await self._read(client)
        self.problems += await self._broker.end(signal.SIGTERM)
        printed: list[str] = []
        verdict = await asyncio.to_thread(verify, self._store, printed.append)
        print(verdict)
        self.problems += [
            f"mqstore verify: {line}" for line in printed if not line.startswith("note:")
        ]

    async def _make_topic(self, client: RemotingClient) -> None:
        request = CreateTopicRequest(
            topic=TOPIC, default_topic="TBW102", read_queue_nums=QUEUES, write_queue_nums=QUEUES,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )  # fmt: skip
        (
            await client.invoke(
                self._broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, request, timeout=30
            )
        ).check()

    async def _send(self, client: RemotingClient, stream: SendStream) -> None:
        """One request after the other until the broker is gone."""
        rng = random.Random(self._rng.random())
        while True:
            bodies = [
                stream.body(stream.next_number + step, rng.choice(SIZES) // stream.batch)
                for step in range(stream.batch)
            ]
            properties = (
                f"KEYS\x01k{stream.stream_id}-{stream.next_number}\x02"
                f"TAGS\x01t{stream.stream_id % 3}\x02"
            )
            header = SendMessageRequestV2(
                producer_group="soak", topic=TOPIC, default_topic="TBW102",
                default_topic_queue_nums=QUEUES,
                queue_id=stream.queue_id, sys_flag=0, born_timestamp=1, flag=0,
                properties=properties, batch=stream.batch > 1,
            )  # fmt: skip
            body = (
                encode_batch([BatchItem(0, each, b"") for each in bodies])
                if stream.batch > 1
                else bodies[0]
            )
            code = (
                RequestCode.SEND_BATCH_MESSAGE if stream.batch > 1 else RequestCode.SEND_MESSAGE_V2
            )
            try:
                answer = await client.invoke(self._broker.address, code, header, body, timeout=30)
                self.ledger.acknowledge(stream, answer.check().header.queue_offset)
            except RemotingError:
                return  # killed: whether it is stored nobody knows
            except RocketMQError as error:
                self.problems.append(f"refused: {error}")
                return

    async def _read(self, client: RemotingClient) -> None:
        """Every queue to its end."""
        for queue_id in range(QUEUES):
            while True:
                request = PullMessageRequest(
                    consumer_group="soak-reader", topic=TOPIC, queue_id=queue_id,
                    queue_offset=self.ledger.next_offset(queue_id), max_msg_nums=32,
                    sys_flag=PullSysFlag.SUBSCRIPTION,
                    commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0,
                    expression_type="TAG",
                )  # fmt: skip
                answer = await client.invoke(
                    self._broker.address, RequestCode.PULL_MESSAGE, request, timeout=30
                )
                if answer.code == ResponseCode.PULL_NOT_FOUND:
                    break
                for message in read_messages(answer.check().body, "")[0]:
                    self.ledger.take(message)
        self.ledger.read()


async def soak(options: Options) -> int:
    """Run it; returns the exit code."""
    with data_folder(options.keep, keep=options.keep is not None) as folder:
        run = Soak(folder, options)
        await run.run()
    ledger, problems = run.ledger, run.problems + run.ledger.problems
    slowest, usual = max(run.recoveries_s), sorted(run.recoveries_s)[len(run.recoveries_s) // 2]
    print(f"seed                {options.seed:>9}")
    print(
        f"rounds              {run.kills:>9,}   killed with SIGKILL, "
        f"{run.kills - len(run.recoveries_s)} while starting"
    )
    print(f"acknowledged        {ledger.acknowledged:>9,}   messages")
    print(f"lost                {ledger.lost:>9,}")
    print(f"duplicated          {ledger.duplicated:>9,}   sent again because their answer was lost")
    print(f"order violations    {ledger.order_violations:>9,}")
    print(
        f"longest recovery    {slowest:>9.2f} s from the start of the process until it serves, "
        f"usually {usual:.2f} s"
    )
    for problem in problems[:20]:
        print(f"NOT GOOD: {problem}")
    return 1 if problems else 0


@click.command(context_settings=HELP)
@rounds(200)
@SEED
@load(0.4)
@KEEP
def main(rounds: int, seed: int, load_s: float, keep: Path | None) -> None:
    """A broker that is killed under load, again and again."""
    sys.exit(run_program("soak", soak(Options(rounds, seed, load_s, keep))))


if __name__ == "__main__":
    main()
