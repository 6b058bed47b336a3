"""A real slave whose system calls fail for a while, as it follows a real master (``shim.c`` in the
slave alone).

Whatever the errno, the slave lives and says in its log what is wrong, without a traceback. The
master answers with success what the slave has on its disk, and nothing else; pulls from the slave
bring messages, or an error in words. When it is over the slave comes after by itself; only a sync
that fails needs a restart. By default some states of a machine are tried, with all that they
forbid; TEST_SIZE=nightly: every kind of call with every errno, alone, too. ``-s`` shows a line for
each.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.codes import RequestCode, ResponseCode
from aiorocketmq.remoting.protocol.commands.offset import QueueRequest
from aiorocketmq.remoting.transport.client import RemotingClient

from ..e2e.cluster import HOST, Cluster, asynchronous, until
from ..store.world import bodies_of, open_store
from . import faulty_broker
from .faulty_broker import DELAYS, FILES, LIST, STATES, STORE, SYNC, FaultyBroker, Traffic

KINDS = {
    bit: name
    for name, bit in vars(faulty_broker).items()
    if isinstance(bit, int) and name.isupper() and bit.bit_count() == 1
}
SAMPLE = [
    (number, STATES[number])
    for number in (errno.EMFILE, errno.ENOSPC, errno.EACCES, errno.EIO, errno.EINTR)
]
ALL = [
    *STATES.items(),
    *((number, kind) for number, calls in STATES.items() for kind in KINDS if calls & kind),
]
NIGHTLY = os.environ.get("TEST_SIZE") == "nightly"
ROUNDS = [(number, calls) for number, calls in ALL if calls != LIST] if NIGHTLY else SAMPLE
"""(Folders are only listed when a broker starts.)"""
STARTS = ALL if NIGHTLY else SAMPLE[:1]


pytestmark = pytest.mark.hypothesis  # ``make fuzz`` does all of it


class Pair:
    """A master, its slave, and who talks to both."""

    def __init__(self, slave: FaultyBroker, to_master: Traffic, to_slave: Traffic) -> None:
        self.slave = slave
        self.master = to_master
        self.reader = to_slave

    async def caught_up(self) -> bool:
        """The slave has all queues as the master has, and the next messages are acknowledged."""
        for topic in (*self.master.stored, "SCHEDULE_TOPIC_XXXX"):
            header = QueueRequest(topic=topic, queue_id=0)
            ends = [
                await traffic.ask(RequestCode.GET_MAX_OFFSET, header, b"")
                for traffic in (self.master, self.reader)
            ]
            if ends[0].header != ends[1].header:
                return False
        return await self.master.of_everything()

    async def trouble(self, number: int, calls: int) -> str:
        """The slave's calls fail for a while. What came of it, in a line."""
        name, answers, pulls = errno.errorcode[number], Counter(self.master.answers), Counter[str]()
        self.slave.fail(number, calls)
        end = time.monotonic() + 0.4
        while time.monotonic() < end or (not self.slave.failed and time.monotonic() < end + 10):
            await self.master.of_everything()
            for topic in ("TBW102", "Small"):
                answer = await self.reader.pull(topic)
                pulls[ResponseCode(answer.code).name] += 1
                if answer.code != ResponseCode.SUCCESS:
                    assert answer.code == ResponseCode.SYSTEM_ERROR
                    assert os.strerror(number) in str(answer.remark)
            await asyncio.sleep(0.005)
        self.holds_what_was_acknowledged()
        failed = self.slave.heal()
        assert failed
        assert self.slave.process.poll() is None, self.slave.log
        began = time.monotonic()
        kinds = named(calls)
        await until(
            self.caught_up, f"the slave is as far as the master after {name} of {kinds}", 20
        )
        codes = {
            ResponseCode(code).name: count
            for code, count in (self.master.answers - answers).items()
        }
        after = f"{time.monotonic() - began:.1f} s"
        return (
            f"{name:7} {failed:5} of {kinds}: sends {codes}, pulls {dict(pulls)}, caught up "
            f"after {after}"
        )

    async def start_in_trouble(self, number: int, calls: int) -> str:
        """A start that fails says why, and the next one works."""
        await self.stop()
        self.slave.fail(number, calls)
        self.slave.process = self.slave.start()
        await until(
            lambda: self.slave.process.poll() is not None or self.slave.is_ready(),
            "it starts, or does not",
        )
        self.slave.heal()
        outcome = "starts"
        if (code := self.slave.process.poll()) is not None:
            outcome = self.slave.log.splitlines()[-1]
            assert code > 0, outcome
            assert os.strerror(number) in outcome
            assert "Traceback" not in self.slave.log
            self.slave.process = self.slave.start()
        await until(self.slave.is_ready, "the slave is ready")
        await until(self.caught_up, "it has come after")
        return f"{errno.errorcode[number]:7} of {named(calls)} at a start: {outcome}"

    async def stop(self) -> None:
        """In good order."""
        assert "Traceback" not in self.slave.log
        self.slave.process.send_signal(signal.SIGTERM)
        await until(lambda: self.slave.process.poll() is not None, "the slave stops")
        assert self.slave.process.returncode == 0, self.slave.log

    def holds_what_was_acknowledged(self) -> None:
        """In its files, which would be all that is left of it."""
        self.slave.process.send_signal(signal.SIGSTOP)
        try:
            held = {
                mark
                for path in (self.slave.store / "commitlog").iterdir()
                for mark in marks_in(path.read_bytes())
            }
        finally:
            self.slave.process.send_signal(signal.SIGCONT)
        assert held.issuperset(marks_in(b"".join(self.master.acknowledged)))


def named(calls: int) -> str:
    return " ".join(kind for bit, kind in KINDS.items() if calls & bit)


def marks_in(data: bytes) -> list[bytes]:
    """What bodies begin with."""
    return re.findall(rb"<[0-9]+>", data)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as started:
        yield started


@pytest.fixture
def slave(cluster: Cluster, tmp_path: Path, shim: Path) -> Iterator[FaultyBroker]:
    master = cluster.start_broker(
        brokerRole="SYNC_MASTER", slaveTimeout=200, messageDelayLevel=DELAYS, **FILES
    )
    slave = FaultyBroker(
        tmp_path / "slave", shim, brokerRole="SLAVE", brokerId=1, brokerName="broker-a",
        namesrvAddr=cluster.namesrv,
        brokerIP1=HOST, brokerIP2=HOST, haMasterAddress=f"{HOST}:{master.port + 1}",
        haAckAfterFlush="true",
    )  # fmt: skip
    yield slave
    slave.end()


@asynchronous
async def test_a_slave_whose_system_calls_fail_comes_after_when_they_do_not(
    cluster: Cluster, slave: FaultyBroker
) -> None:
    await until(slave.is_ready, "the slave is ready")
    async with RemotingClient() as client:
        traffic = Traffic(client, cluster.brokers["broker-a"].address)
        pair = Pair(slave, traffic, Traffic(client, f"{HOST}:{slave.port}"))
        await until(traffic.of_everything, "the slave follows")
        outcomes = [await pair.trouble(number, calls) for number, calls in ROUNDS]
        assert "the disk failed" not in slave.log
        outcomes += [await pair.start_in_trouble(number, calls) for number, calls in STARTS]
        print("", *outcomes, sep="\n")

        slave.fail(errno.EIO, SYNC)
        await until(lambda: "the disk failed" in slave.log, "the slave tells it")
        pair.holds_what_was_acknowledged()
        slave.heal()
        assert not await traffic.send("TBW102")
        await pair.stop()
        slave.process = slave.start()
        await until(slave.is_ready, "the slave is ready again")
        await until(pair.caught_up, "it has come after")
        for topic, bodies in traffic.stored.items():

            async def all_there(topic: str = topic, bodies: list[bytes] = bodies) -> bool:
                return len(await pair.reader.all_of(topic)) >= len(bodies)

            await until(all_there, f"all of {topic} can be read from the slave")
    slave.process.kill()
    slave.process.wait()
    store = open_store(slave.store, **STORE)
    for topic, bodies in traffic.stored.items():
        assert sorted(bodies_of(store, topic)) == sorted(bodies), topic
    store.close()
