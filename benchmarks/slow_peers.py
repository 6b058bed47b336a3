"""Slow and deaf peers next to a well-behaved client: ``python -m benchmarks.slow_peers``.

2,000 peers send a frame of 16 MiB little by little and never finish it, 300 ask for all topics
again and again and read no answer; all of them come back when they are cut. A producer sends one
message after the other meanwhile: 99 of 100 have to be answered within 50 ms, what the broker holds
has to stay near ``maxBufferedBytes``, and the memory has to come back.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import resource
import socket
import sys
import time
from pathlib import Path
from typing import NamedTuple

import click

from aiorocketmq import Admin, Message, Producer
from aiorocketmq.daemon.event_loop import new_event_loop
from aiorocketmq.remoting.errors import RocketMQError
from aiorocketmq.remoting.protocol.bodies.topic_config import TopicConfig
from aiorocketmq.remoting.protocol.codes import RequestCode
from aiorocketmq.remoting.protocol.frames.frame import encode_frame, pack_prefix
from aiorocketmq.remoting.protocol.frames.serialization import RemotingCommand, encode_header
from examples.demo.daemons import Daemons, data_folder
from examples.demo.program import run_program

from .command_line import HELP

LIMIT = 256 << 20
P99_MS = 50.0
_TOPIC = "Good"
_EAGER = 8
"""One peer in so many sends 128 KiB a second, the others 4."""
_FRAME = pack_prefix((16 << 20) - 4, 200)


class Options(NamedTuple):
    seconds: int
    slow: int
    deaf: int


class BudgetedDaemons(Daemons):
    """With a small budget."""

    def _broker_config(self) -> list[str]:
        return [*super()._broker_config(), f"maxBufferedBytes={LIMIT}"]


# --- the peers, in a process of their own
# ---------------------------------------------------------------------------------


async def _slow(host: str, port: int, number: int) -> None:
    piece = bytes((128 if number % _EAGER == 0 else 4) << 10)
    while True:
        try:
            _, writer = await asyncio.open_connection(host, port)
            writer.write(_FRAME)
            while not writer.transport.is_closing():
                if not writer.transport.get_write_buffer_size():
                    writer.write(piece)
                await asyncio.sleep(1.0)
        except OSError:
            pass
        await asyncio.sleep(1.0)


async def _deaf(host: str, port: int) -> None:
    request = encode_frame(
        0, encode_header(RemotingCommand(code=RequestCode.GET_ALL_TOPIC_CONFIG, opaque=1))
    )
    while True:
        try:
            sock = socket.socket()
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, 4096
            )  # so that it is the broker which has to hold answers
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
            reader, writer = await asyncio.open_connection(sock=sock)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            while not writer.transport.is_closing():
                if not writer.transport.get_write_buffer_size():
                    writer.write(request * 10)
                await asyncio.sleep(1.0)
            del reader
        except OSError:
            pass
        await asyncio.sleep(1.0)


def attack(host: str, port: int, slow: int, deaf: int) -> None:
    """Until the process is ended."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(max(slow, deaf)):
                if number < slow:
                    group.create_task(_slow(host, port, number))
                if number < deaf:
                    group.create_task(_deaf(host, port))
                await asyncio.sleep(0.002)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(all_of_them())


# --- the good client
# --------------------------------------------------------------------------------------------------


async def _send(producer: Producer, seconds: float) -> list[float]:
    """One after the other; how long each took, in ms, in order."""
    latencies: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        try:
            await producer.send(Message(_TOPIC, b"x" * 128), timeout=15.0)
        except RocketMQError as error:
            print(f"the good client noticed: {error}", flush=True)
        latencies.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.003)
    return sorted(latencies)


def _told(what: str, latencies: list[float]) -> str:
    p99, median = latencies[len(latencies) * 99 // 100], latencies[len(latencies) // 2]
    return (
        f"{what:16} {len(latencies):6} sends, median {median:.1f} ms, p99 {p99:.1f}, worst "
        f"{latencies[-1]:.1f}"
    )


def _private_mib(pid: int) -> int:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) >> 10 if found else 0


async def _campaign(daemons: Daemons, options: Options) -> list[str]:
    host, _, port = daemons.broker_address.rpartition(":")
    async with Admin(namesrv=daemons.namesrv_address) as admin:
        for name in (_TOPIC, *(f"Topic-{number}" for number in range(500))):
            await admin.create_topic_on(daemons.broker_address, TopicConfig(topic_name=name))
    async with Producer("good", namesrv=daemons.namesrv_address) as producer:
        before = _private_mib(daemons.broker.pid)
        print(_told("alone", await _send(producer, 5.0)), flush=True)
        peers = multiprocessing.get_context("spawn").Process(
            target=attack, args=(host, int(port), options.slow, options.deaf), daemon=True
        )
        peers.start()
        try:
            await _send(producer, 10.0)  # until all of them are there
            latencies = await _send(producer, options.seconds)
            during = _private_mib(daemons.broker.pid)
        finally:
            peers.terminate()
            peers.join()
        print(_told("beside them", latencies), flush=True)
        await _send(producer, 12.0)
        after = _private_mib(daemons.broker.pid)
    lines = daemons.broker.log.read_text(encoding="utf-8", errors="replace").splitlines()
    counts = {
        text: sum(text in line for line in lines)
        for text in ("connection cut", "not read for now", "given back")
    }
    print(
        f"memory           {before} MiB before, {during} beside them, {after} afterwards; the "
        f"limit is {LIMIT >> 20}"
    )
    print("log lines        " + ", ".join(f"{text}: {count}" for text, count in counts.items()))
    problems = []
    if latencies[len(latencies) * 99 // 100] > P99_MS:
        problems.append(f"the good client waited: more than {P99_MS:.0f} ms in one of 100 cases")
    if during - before > 2 * LIMIT >> 20:
        problems.append("more memory than twice the limit")
    if after - before > LIMIT >> 22:
        problems.append("the memory did not come back")
    return problems


async def slow_peers(options: Options) -> int:
    """Run it; returns the exit code."""
    with data_folder(None, keep=False) as folder:
        async with BudgetedDaemons.started(folder) as daemons:
            problems = await daemons.watch(_campaign(daemons, options))
    for problem in problems:
        print(f"NOT GOOD: {problem}")
    return 1 if problems else 0


@click.command(context_settings=HELP)
@click.option("--seconds", type=click.IntRange(1), default=60, help="How long.")
@click.option("--slow", type=int, default=2000, help="Peers that never finish their frame.")
@click.option("--deaf", type=int, default=300, help="Peers that read no answer.")
def main(seconds: int, slow: int, deaf: int) -> None:
    """A well-behaved client beside peers that are slow, and peers that never read."""
    sys.exit(run_program("slow_peers", slow_peers(Options(seconds, slow, deaf))))


if __name__ == "__main__":
    main()
