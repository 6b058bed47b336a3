"""A real broker whose system calls fail for a while: stores, reads, delayed messages, tables (see
``shim.c``).

Whatever the errno, the broker lives, says in its log what is wrong without a traceback, and goes on
by itself when it is over; only a sync that fails needs a restart. Nothing acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.codes import ResponseCode
from aiorocketmq.remoting.transport.client import RemotingClient

from ..e2e.cluster import HOST, PATIENCE_S, asynchronous, until
from ..store.world import bodies_of, open_store
from .faulty_broker import STATES, STORE, SYNC, FaultyBroker, Traffic


@pytest.fixture
def broker(tmp_path: Path, shim: Path) -> Iterator[FaultyBroker]:
    broker = FaultyBroker(tmp_path, shim)
    yield broker
    broker.end()


async def restarted(broker: FaultyBroker) -> None:
    """A clean stop, and a start."""
    assert "Traceback" not in broker.log
    assert "the disk failed" not in broker.log
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(PATIENCE_S) == 0, broker.log
    broker.process = broker.start()
    await until(broker.is_ready, "the broker is ready again")


@asynchronous
async def test_a_broker_whose_system_calls_fail_goes_on_when_they_do_not(
    broker: FaultyBroker, tmp_path: Path
) -> None:
    await until(broker.is_ready, "the broker is ready")
    async with RemotingClient() as client:
        traffic = Traffic(client, f"{HOST}:{broker.port}")
        for number, calls in STATES.items():
            name = errno.errorcode[number]
            await traffic.some(0.1)
            before = traffic.doubtful
            broker.fail(number, calls)
            await traffic.some(0.3)
            end = time.monotonic() + 5
            while traffic.doubtful == before and number != errno.EINTR and time.monotonic() < end:
                await traffic.some(0.05)
            assert broker.heal(), f"{name} is felt"
            assert traffic.doubtful > before or number == errno.EINTR, f"{name} is told"
            assert broker.process.poll() is None, broker.log
            await until(traffic.of_everything, f"sends go on after {name}", 10)
        for topic, bodies in traffic.stored.items():

            async def all_there(topic: str = topic, bodies: list[bytes] = bodies) -> bool:
                return len(await traffic.all_of(topic)) >= len(bodies)

            await until(all_there, f"everything in {topic} can be read")
            assert sorted(await traffic.all_of(topic)) == sorted(bodies), topic
        await restarted(broker)
        for number in (
            errno.EMFILE,
            errno.ENOMEM,
            errno.EIO,
        ):  # nothing is mapped yet, delayed messages are read as well
            broker.fail(number, STATES[number])
            answer = await traffic.pull("TBW102")
            assert answer.code == ResponseCode.SYSTEM_ERROR, answer
            assert os.strerror(number) in str(answer.remark)
            await asyncio.sleep(0.3)
            broker.heal()
        for topic, bodies in traffic.stored.items():
            assert sorted(await traffic.all_of(topic)) == sorted(bodies), topic
        assert "Traceback" not in broker.log
        assert "the disk failed" not in broker.log
        assert await traffic.send("New"), "a topic can be made"

        broker.fail(errno.EIO, SYNC)
        assert not await traffic.send("TBW102")
        broker.heal()
        assert not await traffic.send("TBW102")
        assert "the disk failed" in broker.log
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(PATIENCE_S) == 0, broker.log
    store = open_store(broker.store, **STORE)
    for topic, bodies in traffic.stored.items():
        assert sorted(bodies_of(store, topic)) == sorted(bodies), topic
    store.close()
