"""Bad input against the real daemons: they live, others do not notice, nothing that was
acknowledged is lost.

``python -m benchmarks.fuzz`` (``make fuzz``). A name server and a broker in processes of their own
get mutated frames over many connections, garbage, half frames that never end and pipelines whose
answers nobody reads, while a well-behaved client sends and asks for routes. At the end the broker
is restarted, everything acknowledged is read back, the store is checked.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import socket
import struct
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from aiorocketmq import Admin, Message, Producer, PullConsumer
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import encode_frame
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header
from aiorocketmq.store.inspect import StoreDirectory
from aiorocketmq.store.log.log_reader import Damage, LogReader, LogRecord
from aiorocketmq.store.queues.consume_queue import CQ_UNIT
from examples.demo.daemons import Daemons, data_folder
from examples.demo.program import run_program

from .command_line import HELP, KEEP, SEED
from .hostile_frames import Hostile, Seed, captured_seeds, garbage, seeds

PROBE = "Probe"
FRAMES_PER_CONNECTION = 40
ANSWER_WITHIN_S = 30.0
_BAD_LINES = re.compile(
    r"Traceback|handler failed|Fatal error|never retrieved|task failed| CRITICAL | ERROR "
)
_MARK = 0x0B5E55ED


class Options(NamedTuple):
    """What can be asked for on the command line."""

    seconds: int
    seed: int
    captures: tuple[Path, ...]
    keep: Path | None


class Tally:
    """What was done, and what the well-behaved client saw."""

    def __init__(self) -> None:
        self.connections = 0
        self.frames = 0
        self.answered = 0
        self.closed_by_server = 0
        self.problems: list[str] = []
        self.latencies_ms: list[float] = []
        self.acknowledged: set[bytes] = set()


class SmallDaemons(Daemons):
    """With small files, so that many of them are rolled."""

    def _broker_config(self) -> list[str]:
        return [
            *super()._broker_config(),
            f"mappedFileSizeCommitLog={4 << 20}",
            f"mappedFileSizeConsumeQueue={20 * 1000}",
        ]


class Attack:
    """Hostile peers of one daemon."""

    def __init__(
        self, address: str, rng: random.Random, seeds: Sequence[Seed], tally: Tally
    ) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._rng = rng
        self._tally = tally
        self._hostile = Hostile(rng, seeds)

    async def frames(self) -> None:
        """Mutated frames, then one good request: its answer, or the end of the connection, has to
        come."""
        rng, tally = self._rng, self._tally
        reader, writer = await self._connect()
        sent = [self._hostile.frame() for _ in range(rng.randrange(1, FRAMES_PER_CONNECTION))]
        tally.frames += len(sent)
        try:
            reading = asyncio.create_task(_until_marked(reader))
            try:
                for frame in sent:
                    writer.write(frame)
                    if rng.random() < 0.3:
                        await writer.drain()
                writer.write(marker())
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    if await reading:
                        tally.answered += 1
                    else:
                        tally.closed_by_server += 1
            except TimeoutError:
                tally.problems.append(
                    f"no answer within {ANSWER_WITHIN_S:.0f} s after {[f[:200] for f in sent]!r}"
                )
            except OSError:
                tally.closed_by_server += 1
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        finally:
            await _close(writer)

    async def garbage(self) -> None:
        """No frame at all; the server has to close soon, or to wait for the rest."""
        reader, writer = await self._connect()
        try:
            writer.write(garbage(self._rng))
            async with asyncio.timeout(0.3):
                while await reader.read(65536):
                    pass
            self._tally.closed_by_server += 1
        except TimeoutError:
            pass
        except OSError:
            self._tally.closed_by_server += 1
        finally:
            await _close(writer)

    async def slow_loris(self) -> None:
        """A good frame, byte by byte, never to its end."""
        _, writer = await self._connect()
        try:
            for byte in self._hostile.frame()[:-1][:60]:
                writer.write(bytes((byte,)))
                await asyncio.sleep(0.02)
        except OSError:
            pass
        finally:
            await _close(writer)

    async def deaf(self) -> None:
        """Thousands of requests in a row, not one answer is read."""
        _, writer = await self._connect()
        request = frame_of(RequestCode.GET_ALL_TOPIC_CONFIG) + frame_of(
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        )
        try:
            writer.write(request * 3000)
            self._tally.frames += 6000
            await asyncio.sleep(self._rng.random())
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def come_and_go(self) -> None:
        """Connections that say nothing."""
        writers = [(await self._connect())[1] for _ in range(50)]
        for writer in writers:
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Most connections end with a reset, which is rude, and keeps ports from running out."""
        self._tally.connections += 1
        reader, writer = await asyncio.open_connection(self._host, self._port)
        if self._rng.random() < 0.9:
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        return reader, writer


def frame_of(code: RequestCode, fields: dict[str, str] | None = None, opaque: int = 1) -> bytes:
    """A well made request."""
    return encode_frame(
        0, encode_header(RemotingCommand(code=code, opaque=opaque, ext_fields=fields))
    )


def marker() -> bytes:
    """A request that every daemon answers, and that can be told from all others."""
    return frame_of(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"}, _MARK)


async def _until_marked(reader: asyncio.StreamReader) -> bool:
    """Read answers until that to ``marker`` comes; False when the connection ends before."""
    mark = f'"opaque":{_MARK}'.encode()
    try:
        while True:
            length = int.from_bytes(await reader.readexactly(4), "big")
            frame = await reader.readexactly(length)
            if mark in frame:
                return True
    except (asyncio.IncompleteReadError, OSError):
        return False


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:
        pass


class Probe:
    """The client that must not notice anything."""

    def __init__(self, daemons: Daemons, tally: Tally) -> None:
        self._daemons = daemons
        self._tally = tally

    async def run(self, until: float) -> None:
        tally = self._tally
        async with Producer("probe", namesrv=self._daemons.namesrv_address) as producer:
            number = 0
            while time.monotonic() < until:
                number += 1
                body = b"probe %d" % number
                began = time.perf_counter()
                try:
                    await producer.send(Message(PROBE, body), timeout=10.0)
                    tally.acknowledged.add(body)
                    await producer.instance.routes.refresh(PROBE)
                except RocketMQError as error:
                    tally.problems.append(
                        f"the well-behaved client noticed: {type(error).__name__}: {error}"
                    )
                tally.latencies_ms.append((time.perf_counter() - began) * 1000)
                await asyncio.sleep(0.02)


async def campaign(daemons: Daemons, options: Options, tally: Tally) -> None:
    """All attacks at once on both daemons."""
    rng = random.Random(options.seed)
    until = time.monotonic() + options.seconds
    known = seeds() + [seed for path in options.captures for seed in captured_seeds(path)]
    attacks = [
        Attack(address, rng, known, tally)
        for address in (daemons.namesrv_address, daemons.broker_address)
    ]

    async def keep_on(choices: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        while time.monotonic() < until:
            try:
                await rng.choice(choices)()
            except OSError as error:
                tally.problems.append(f"cannot connect: {error}")
                await asyncio.sleep(0.5)

    async with asyncio.TaskGroup() as group:
        group.create_task(Probe(daemons, tally).run(until))
        for attack in attacks:
            mostly = [attack.frames] * 12 + [attack.garbage, attack.come_and_go]
            for _ in range(4):
                group.create_task(keep_on(mostly))
            group.create_task(keep_on([attack.slow_loris]))
            group.create_task(keep_on([attack.deaf] + [attack.frames] * 10))


async def fuzz(options: Options) -> int:
    """Run it; returns the exit code."""
    tally = Tally()
    with data_folder(options.keep, keep=options.keep is not None) as folder:
        async with SmallDaemons.started(folder) as daemons:
            async with Admin(namesrv=daemons.namesrv_address) as admin:
                config = TopicConfig(topic_name=PROBE, read_queue_nums=2, write_queue_nums=2)
                await admin.create_topic_on(daemons.broker_address, config)
            before = _memory(daemons)
            await daemons.watch(campaign(daemons, options, tally))
            after = _memory(daemons)
            await daemons.broker.stop()
        logs = [
            log.rename(log.with_suffix(".fuzzed.log"))
            for log in (daemons.namesrv.log, daemons.broker.log)
        ]
        tally.problems += [f"{log.name}: {line}" for log in logs for line in _bad_lines(log)]
        sizes = [f"{log.name} {log.stat().st_size >> 10} KiB" for log in logs]
        tally.problems += _store_problems(folder / "store")
        async with SmallDaemons.started(folder, *_ports(daemons)) as daemons:
            tally.problems += await daemons.watch(_lost(daemons, tally))
    _report(options, tally, before, after, sizes)
    return 1 if tally.problems else 0


async def _lost(daemons: Daemons, tally: Tally) -> list[str]:
    """Everything acknowledged is still there after a restart."""
    found: set[bytes] = set()
    async with PullConsumer("probe-reader", namesrv=daemons.namesrv_address) as consumer:
        await consumer.assign(await consumer.queues(PROBE))
        await consumer.seek_to_begin()
        while tally.acknowledged - found:
            messages = await consumer.poll(timeout=5.0)
            if not messages:
                break
            found |= {message.body for message in messages}
    lost = tally.acknowledged - found
    return [f"{len(lost)} acknowledged messages are lost: {sorted(lost)[:3]}"] if lost else []


def _store_problems(store: Path) -> list[str]:
    directory = StoreDirectory(store)
    entries = list(LogReader(directory.log_files()).read())
    problems = [
        f"store: {each.problem}" for each in entries if isinstance(each, Damage) and not each.empty
    ]
    records = {each.phy_offset: each.size for each in entries if isinstance(each, LogRecord)}
    for queue in directory.queue_readers():
        units = [CQ_UNIT.unpack(queue.unit(number)) for number in range(queue.first, queue.end)]
        wrong = [phy_offset for phy_offset, size, _ in units if records.get(phy_offset) != size]
        if wrong:
            problems.append(
                f"store: {queue.topic}/{queue.queue_id} has {len(wrong)} units that lead to no "
                "record"
            )
    return problems


def _ports(daemons: Daemons) -> tuple[int, ...]:
    """The same ones again: after so many connections there may be no others."""
    return tuple(
        int(address.rpartition(":")[2])
        for address in (daemons.namesrv_address, daemons.broker_address)
    )


def _bad_lines(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line[:500] for line in lines if _BAD_LINES.search(line)]


def _memory(daemons: Daemons) -> tuple[int, int]:
    return _rss_mib(daemons.namesrv.pid), _rss_mib(daemons.broker.pid)


def _rss_mib(pid: int) -> int:
    """Private memory: the store's files are shared with the page cache and do not count."""
    found = (
        re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        if os.path.exists("/proc")
        else None
    )
    return int(found[1]) >> 10 if found else 0


def _report(
    options: Options, tally: Tally, before: tuple[int, int], after: tuple[int, int], logs: list[str]
) -> None:
    latencies = sorted(tally.latencies_ms) or [0.0]
    print(f"seed {options.seed}, {options.seconds} s")
    print(f"connections      {tally.connections:>9,}")
    print(f"frames           {tally.frames:>9,}")
    print(
        f"served to the end{tally.answered:>9,} connections, closed by the server "
        f"{tally.closed_by_server:,}"
    )
    print(f"acknowledged     {len(tally.acknowledged):>9,} messages of the well-behaved client")
    print(
        f"its round trips  {latencies[len(latencies) // 2]:9.1f} ms median, {latencies[-1]:.1f} "
        "ms at worst, that of"
    )
    print("                   the attackers included, which run in the same process")
    print(
        f"memory           name server {before[0]} -> {after[0]} MiB, broker {before[1]} -> "
        f"{after[1]} MiB"
    )
    print(f"logs             {', '.join(logs)}")
    kinds: dict[str, list[str]] = {}
    for problem in tally.problems:
        kinds.setdefault(re.sub(r"\d+", "0", problem)[:100], []).append(problem)
    for problems in kinds.values():
        print(
            "NOT GOOD: "
            f"{problems[0]}{f' (and {len(problems) - 1} like it)' if len(problems) > 1 else ''}"
        )


@click.command(context_settings=HELP)
@click.option("--seconds", type=click.IntRange(1), default=60, help="How long.")
@SEED
@click.option(
    "--capture",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="Mutate the frames of this file too.",
)
@KEEP
def main(seconds: int, seed: int, capture: tuple[Path, ...], keep: Path | None) -> None:
    """Bad input against a name server and a broker in processes of their own."""
    logging.basicConfig(level=logging.ERROR)
    sys.exit(run_program("fuzz", fuzz(Options(seconds, seed, capture, keep))))


if __name__ == "__main__":
    main()
