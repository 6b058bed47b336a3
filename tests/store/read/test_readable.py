"""With SYNC_FLUSH nothing leaves the store before it is on the disk."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store import message_store
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole, FlushDiskType
from aiorocketmq.store.model.status import GetMessageStatus

from ..memory_disk import MemoryDisk
from ..world import NOW, Filter, bodies_of, crash, open_store, put_ok

SYNC = FlushDiskType.SYNC_FLUSH
ROOT = Path("/store")


class Disk(MemoryDisk):
    """Its syncs can be made to fail; what they do is counted."""

    def __init__(self) -> None:
        super().__init__()
        self.error = 0
        self.syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        if self.error:
            raise OSError(self.error, "made up")
        super().sync(fd)


def opened(disk: Disk | None = None, flush: FlushDiskType = SYNC) -> MessageStore:
    return open_store(ROOT, disk or Disk(), flush_disk_type=flush)


def sync(store: MessageStore) -> None:
    asyncio.run(store.flush.sync_log())


def running(store: MessageStore, scene: Callable[[], Awaitable[None]]) -> None:
    """With the service that syncs; its clock stands still, so nothing is due by itself."""

    async def main() -> None:
        service = asyncio.ensure_future(store.flush.run())
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(20):
                await scene()
        finally:
            service.cancel()
            await asyncio.wait([service])

    asyncio.run(main())


def test_a_pull_ends_where_the_disk_does() -> None:
    store = opened()
    for _ in range(3):
        put_ok(store, properties={"TAGS": "A", "KEYS": "k"})
    nothing = store.get("T", 0, 0)
    assert (nothing.status, nothing.max_offset) == (GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0)
    sync(store)
    for _ in range(2):
        put_ok(store, properties={"TAGS": "A", "KEYS": "k"})
    tags = frozenset([ord("A")])
    for found in (
        store.get("T", 0, 1),
        store.get("T", 0, 1, 1000),
        store.get("T", 0, 1, tags=tags),
        store.get("T", 0, 1, record_filter=Filter()),
    ):
        assert (found.count, found.next_begin_offset, found.max_offset) == (2, 3, 3)
    other = store.get("T", 0, 0, tags=frozenset([1]))
    assert (other.count, other.next_begin_offset, other.max_offset) == (0, 3, 3)
    assert store.get("T", 0, 3).status is GetMessageStatus.OFFSET_OVERFLOW_ONE
    badly = store.get("T", 0, 5)
    assert (badly.status, badly.next_begin_offset) == (
        GetMessageStatus.OFFSET_OVERFLOW_BADLY,
        3,
    )
    sync(store)
    assert (store.get("T", 0, 1).count, store.max_offset("T", 0)) == (4, 5)
    store.close()


def test_nor_does_anything_else_tell_of_what_is_behind() -> None:
    store = opened()
    there = put_ok(store, properties={"KEYS": "k"}, store_timestamp=NOW)
    sync(store)
    end = store.max_phy_offset
    later = put_ok(store, properties={"KEYS": "k"}, store_timestamp=NOW + 1000)
    put_ok(store, "New")
    assert (store.max_offset("T", 0), store.max_offset("New", 0)) == (1, 0)
    assert store.entries.offset_by_time("T", 0, NOW + 1000) == 1
    assert store.entries.offset_by_time("New", 0, NOW) == 0
    assert store.readable_end == end < store.max_phy_offset
    assert store.readable_record(there.phy_offset) is not None
    assert store.readable_record(later.phy_offset) is None
    assert store.message_by_offset(later.phy_offset) is not None
    record = store.message_by_offset(there.phy_offset)
    store._indexing.build_all()
    assert at_once(store.query.steps("T", "k", 9, 0, 1 << 62)).records == record
    sync(store)
    assert len(at_once(store.query.steps("T", "k", 9, 0, 1 << 62)).records) > len(record or b"")
    store.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"flush_disk_type": FlushDiskType.ASYNC_FLUSH},
        {"flush_disk_type": SYNC, "broker_role": BrokerRole.SLAVE},
    ],
    ids=["ASYNC_FLUSH", "slave"],
)
def test_others_hand_out_what_is_written(settings: dict[str, Any]) -> None:
    store = open_store(ROOT, Disk(), **settings)
    assert not store.config.hands_out_only_synced
    told: list[int] = []
    store.when_readable(lambda: told.append(1))
    assert told == [1]
    assert store.readable_end == store.max_phy_offset
    store.close()


@pytest.mark.parametrize("count", [*range(1, 40, 3), 64, 65, 66, 150])
def test_the_last_unit_in_front_of_an_offset_is_found_from_the_end(count: int) -> None:
    """In queues of several files, ten units each."""
    store = opened(flush=FlushDiskType.ASYNC_FLUSH)
    ends = []
    for _ in range(count):
        result = put_ok(store)
        ends.append(result.phy_offset + result.size)
    queue = store._table["T", 0]
    for number, end in enumerate(ends, 1):
        assert queue.count_until(end) == number
        assert queue.count_until(end - 1) == number - 1
    assert queue.count_until(0) == 0
    store.close()


def test_who_asks_has_it_synced_although_nobody_waits_for_it() -> None:
    store = opened()

    async def scene() -> None:
        for ask in (lambda: store.get("T", 0, 0), lambda: store.max_offset("T", 0)):
            put_ok(store)
            ask()
            while store.readable_end < store.max_phy_offset:
                await asyncio.sleep(0)

    running(store, scene)
    store.close()


def test_who_wants_all_that_is_written_is_told_when_it_is_on_the_disk() -> None:
    disk = Disk()
    store = opened(disk)

    async def scene() -> None:
        told: list[int] = []
        store.when_readable(lambda: told.append(0))
        assert told == [0], "nothing is missing"
        for number in (1, 2):
            put_ok(store)
            store.when_readable(partial(told.append, number))
        assert told == [0]
        while len(told) < 3:
            await asyncio.sleep(0)
        assert told == [0, 1, 2]
        assert store.readable_end == store.max_phy_offset
        syncs = disk.syncs
        for _ in range(50):
            await asyncio.sleep(0)
        assert disk.syncs == syncs, "nobody wants anything more"

    running(store, scene)
    store.close()


def test_an_arrival_is_told_when_it_may_be_read() -> None:
    store = opened()
    told: list[tuple[str, int, int]] = []
    store.arrivals.listeners.append(lambda topic, queue, end, *_: told.append((topic, queue, end)))

    async def scene() -> None:
        loop = asyncio.get_running_loop()

        def notify_soon() -> None:
            loop.call_soon(store.arrivals.notify)

        store.arrivals.pending = notify_soon
        store.arrivals.watch("T", 0)
        put_ok(store)
        store.arrivals.notify()
        assert not told
        while not told:
            await asyncio.sleep(0)
        assert told == [("T", 0, 1)]
        assert store.max_offset("T", 0) == 1
        told.clear()
        put_ok(store, "Late")
        store.arrivals.watch("Late", 0)  # it was put before anybody waited
        while not told:
            await asyncio.sleep(0)
        assert told == [("Late", 0, 1)]

    running(store, scene)
    store.close()


def test_what_could_not_be_synced_stays_unread() -> None:
    disk = Disk()
    store = opened(disk)
    put_ok(store, body=b"there")
    sync(store)

    async def scene() -> None:
        told: list[int] = []
        put_ok(store, body=b"lost")
        disk.error = errno.EIO
        store.when_readable(lambda: told.append(1))
        while store.flush.broken is None:
            await asyncio.sleep(0)
        disk.error = 0
        for _ in range(50):
            store.when_readable(lambda: told.append(2))
            assert bodies_of(store) == [b"there"]
            await asyncio.sleep(0)
        assert not told

    running(store, scene)
    crash(store)


@pytest.mark.parametrize("most_names", [0, 500], ids=["many new queues", "few"])
def test_what_a_start_finds_is_on_the_disk_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, most_names: int
) -> None:
    monkeypatch.setattr(message_store, "_MOST_NAMES_AT_START", most_names)
    disk = Disk()
    store = opened(disk)
    put_ok(store, body=b"written")
    crash(store)
    copy = disk.copy()
    assert isinstance(copy, Disk)
    copy.error = copy.syncs = 0
    again = opened(copy)
    assert copy.syncs > 0
    assert bodies_of(again) == [b"written"]
    assert again.flushed_offset == again.max_phy_offset
    again.close()
