"""A disk that is full, or broken: an answer instead of a SIGBUS, nothing lost, and on it goes when there is space again."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.message import BatchItem
from aiorocketmq.store.errors import OutOfSpaceError
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.status import PutStatus

from ..store.world import BORN_HOST, NOW, bodies_of, crash, open_store, put, put_ok
from .disks import BrokenDisk, FullDisk


def fill(store: MessageStore, now: int = NOW) -> list[bytes]:
    """Put until the disk is full."""
    bodies = []
    for number in range(10_000):
        body = b"%d:%d" % (now, number)
        result = put(store, body=body, store_timestamp=now)
        if result.status is PutStatus.SERVICE_NOT_AVAILABLE:
            assert "the disk is full" in result.remark
            return bodies
        assert result.status is PutStatus.PUT_OK
        bodies.append(body)
    raise AssertionError("the disk never was full")


@pytest.mark.parametrize("free", [0, 100, 8192, 8192 + 200, 3 * 8192 + 500, 50_000])
def test_a_full_disk_refuses_puts_and_keeps_everything(tmp_path: Path, free: int) -> None:
    disk = FullDisk(free)
    store = open_store(tmp_path, disk)
    bodies = fill(store)
    assert bodies_of(store) == bodies
    assert store.writeable
    disk.free = 20_000
    assert put(store, store_timestamp=NOW + 99).status is PutStatus.SERVICE_NOT_AVAILABLE  # not tried for every message
    bodies += fill(store, NOW + 200)
    assert bodies_of(store) == bodies
    assert len(bodies) > 100
    for end in (crash, MessageStore.close):
        end(store)
        disk.free = 1 << 20
        store = open_store(tmp_path, disk)
        assert bodies_of(store) == bodies
    assert put_ok(store).queue_offset == len(bodies)
    store.close()


def test_a_batch_is_refused_as_a_whole(tmp_path: Path) -> None:
    disk = FullDisk(8192 + 200)  # one file of the log, one of the queue: 10 units
    store = open_store(tmp_path, disk)
    put_ok(store)
    batch = [BatchItem(0, b"%d" % number, b"") for number in range(30)]
    times = {"born_host": BORN_HOST, "born_timestamp": NOW}
    assert store.put_batch("T", 0, batch, store_timestamp=NOW, **times).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert bodies_of(store) == [b"body"]
    disk.free = 1 << 20
    assert store.put_batch("T", 0, batch, store_timestamp=NOW + 200, **times).queue_offset == 1
    assert len(bodies_of(store)) == 31
    store.close()


def test_a_clock_that_steps_back_does_not_prolong_the_refusal(tmp_path: Path) -> None:
    disk = FullDisk(0)
    store = open_store(tmp_path, disk)
    fill(store)
    disk.free = 1 << 20
    put_ok(store, store_timestamp=NOW - 3_600_000)
    store.close()


def test_recovery_on_a_full_disk_says_so(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store)
    crash(store)
    for path in (tmp_path / "consumequeue").rglob("0*0"):
        path.unlink()
    with pytest.raises(OutOfSpaceError, match="No space left"):
        open_store(tmp_path, FullDisk(0))
    store = open_store(tmp_path)
    assert bodies_of(store) == [b"body"]
    store.close()


def test_a_disk_that_fails_to_sync_stops_the_store_and_is_not_believed_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = BrokenDisk()
    store = open_store(tmp_path, disk)
    put_ok(store)
    asyncio.run(store.sync())
    flushed = store.flushed_offset
    put_ok(store)
    disk.broken = True
    answers: list[bool] = []
    store.when_flushed(store.max_phy_offset, answers.append)
    with caplog.at_level(logging.CRITICAL):
        asyncio.run(store.sync())
    disk.broken = False
    asyncio.run(store.sync())
    assert store.flushed_offset == flushed
    assert "the disk failed" in caplog.text
    assert "the disk failed" in put(store).remark
    assert len(bodies_of(store)) == 2
    store.when_flushed(store.max_phy_offset, answers.append)
    store.when_flushed(flushed, answers.append)
    assert answers == [False, True]
    store.close()
    assert answers == [False, True, False]
    assert (tmp_path / "abort").exists()  # the next start reads and checks what really is there
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert store.recovery.start == flushed
    assert len(bodies_of(store)) == 2
    store.close()
