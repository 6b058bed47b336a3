"""Who waits for what is not in the index yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.index import indexing
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.services import indexing_service

from ...fault.disks import FullDisk
from ...sim import ManualClock, turns
from ..world import crash, open_store, put_ok

MANY = 300
"""More than one step writes."""


def fill(store: MessageStore, count: int = MANY) -> None:
    for number in range(count):
        put_ok(store, body=b"%d" % number, properties={"KEYS": f"k{number}"})


def found(store: MessageStore, number: int) -> bool:
    return bool(at_once(store.query.steps("T", f"k{number}", 1, 0, 1 << 62)).records)


def clock_of(store: MessageStore) -> ManualClock:
    assert isinstance(store._clock, ManualClock)
    return store._clock


def run(store: MessageStore, script: Callable[[], Awaitable[None]]) -> None:
    """Beside the service."""

    async def whole() -> None:
        service = asyncio.ensure_future(store._index_service.run())
        await turns()
        await script()
        service.cancel()
        await asyncio.wait([service])

    asyncio.run(asyncio.wait_for(whole(), 20))
    assert not store._index_service._waiting


@pytest.mark.parametrize("slave", [False, True])
def test_all_that_waits_is_found_when_the_wait_ends(tmp_path: Path, slave: bool) -> None:
    master = open_store(tmp_path / "master", mapped_file_size_commit_log=1 << 20)
    store = master
    if slave:
        store = open_store(
            tmp_path / "slave", mapped_file_size_commit_log=1 << 20, broker_role=BrokerRole.SLAVE
        )

    async def script() -> None:
        fill(master)
        if slave:
            log = master.read(0, master.max_phy_offset)
            assert log is not None
            store.replica.append(0, log)
        waits = asyncio.ensure_future(store.indexed())
        await turns()
        assert not waits.done()
        clock_of(store).advance(0.02)
        assert await waits
        assert found(store, 0)
        assert found(store, MANY - 1)

    run(store, script)
    for each in {master, store}:
        each.close()


def test_where_nothing_waits_nobody_does(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store)
    store._indexing.build_all()
    with pytest.raises(StopIteration) as end:
        store.indexed().send(None)
    assert end.value.value is True
    store.close()


def test_a_message_that_was_stored_a_moment_ago_is_found_at_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 2)
    store._indexing.build_all()
    put_ok(store, properties={"KEYS": "k2"})
    with pytest.raises(StopIteration) as end:
        store.indexed().send(None)
    assert end.value.value is True
    assert found(store, 2)
    store.close()


def test_what_comes_later_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "_LARGEST_STEP", 128)
    store = open_store(tmp_path, mapped_file_size_commit_log=1 << 20, max_index_num=100_000)

    async def script() -> None:
        fill(store)
        waits = asyncio.ensure_future(store.indexed())
        await turns()
        for _ in range(20):
            fill(store)
        clock_of(store).advance(0.02)
        assert await waits
        assert store._indexing.waits

    run(store, script)
    store.close()


def test_nobody_waits_for_ever_for_room_on_a_full_disk(tmp_path: Path) -> None:
    disk = FullDisk(1 << 30)
    store = open_store(tmp_path, disk)

    async def script() -> None:
        put_ok(store, properties={"KEYS": "k0"})
        disk.free = 0
        waits = asyncio.ensure_future(store.indexed())
        await turns()
        clock_of(store).advance(1.9)
        await turns()
        assert not waits.done()
        clock_of(store).advance(0.1)
        assert await waits is False

    run(store, script)
    crash(store)


def test_no_more_wait_than_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing_service, "_MOST_WAITING", 3)
    store = open_store(tmp_path)

    async def script() -> None:
        fill(store)
        waits = [asyncio.ensure_future(store.indexed()) for _ in range(4)]
        await turns()
        assert [each.done() for each in waits] == [False, False, False, True]
        assert waits[3].result() is False
        waits[1].cancel()  # its connection is gone
        await turns()
        another = asyncio.ensure_future(store.indexed())
        await turns()
        assert not another.done()
        clock_of(store).advance(0.02)
        assert all(await asyncio.gather(waits[0], waits[2], another))

    run(store, script)
    store.close()
