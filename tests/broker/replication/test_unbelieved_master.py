"""From whom a slave takes over nothing: a master whose log is not its own, as one that came back
empty."""

from __future__ import annotations

import asyncio
import errno
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from aiorocketmq.store.disk.system_disk import SystemDisk

from ..sim_broker import SimBroker
from .slave_scenes import Pair, a_master, a_slave, play


def test_a_master_that_came_back_empty_is_not_believed(tmp_path: Path) -> None:
    """Its disk is lost; the tables of its slave may be the only ones."""

    async def scene(pair: Pair) -> None:
        await pair.master.make_topic("T")
        await pair.at_master.send("T", b"hello")
        pair.replicate()
        await pair.once()
        before = pair.slave.broker.state.topics.record()
        assert "T" in pair.slave.broker.state.topics
        async with a_master(tmp_path / "n") as empty:
            pair.network.client = empty.connect()
            asked = len(pair.network.asked)
            await pair.once()
            assert len(pair.network.asked) == asked, "it is not even asked"
            assert pair.slave.broker.state.topics.record() == before

    play(tmp_path, scene)


def tables_of(sim: SimBroker) -> tuple[object, ...]:
    state = sim.broker.state
    return state.topics.record(), state.groups.record(), state.offsets.record()


def test_nor_is_one_that_comes_while_it_is_asked(tmp_path: Path) -> None:
    """What was asked first is another process."""

    async def scene(pair: Pair) -> None:
        await pair.master.make_topic("T")
        await pair.at_master.send("T", b"hello")
        pair.replicate()
        await pair.once()
        before = tables_of(pair.slave)
        await pair.master.make_topic("U")
        async with a_master(tmp_path / "n") as empty:
            master, pair.network.next = pair.network.client, empty.connect()
            asked = len(pair.network.asked)
            await pair.once()
            assert len(pair.network.asked) > asked
            assert tables_of(pair.slave) == before
            pair.network.client = master
            await pair.once()
            assert "U" in pair.slave.broker.state.topics

    play(tmp_path, scene)


class UnreadableDisk(SystemDisk):
    """While it is ``broken``."""

    broken = False

    def read(self, fd: int, length: int, offset: int) -> bytes:
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(fd, length, offset)


def test_who_cannot_read_its_own_log_just_now_asks_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That ends nobody."""

    async def scene() -> None:
        at_m, at_s, disk = tmp_path / "m", tmp_path / "s", UnreadableDisk()

        def slave_of() -> AbstractAsyncContextManager[SimBroker]:
            return a_slave(at_s, disk=disk)

        async with a_master(at_m) as master:
            await master.make_topic("T")
            await master.connect().send("T", b"hello")
            async with slave_of() as slave:
                Pair(master, slave).replicate()
            async with slave_of() as slave:  # it looks for its last message in its queues
                pair, disk.broken = Pair(master, slave), True
                await pair.once()
                assert "T" not in slave.broker.state.topics
                assert "no tables are taken over from the master" in caplog.text
                disk.broken = False
                await pair.once()
                assert "T" in slave.broker.state.topics

    asyncio.run(scene())
