"""A disk that is full, or broken: an answer instead of a SIGBUS, nothing lost, and on it goes when
there is space again."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.record.batch import BatchItem
from aiorocketmq.store.log.commit_log import CommitLog
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import OutOfSpaceError, SyncFailedError
from aiorocketmq.store.model.put import PutBatch
from aiorocketmq.store.model.status import PutStatus

from ..sim import ManualClock, turns
from ..store.world import (
    BORN_HOST,
    NOW,
    STORE_HOST,
    bodies_of,
    config_of,
    crash,
    open_store,
    put,
    put_ok,
)
from .disks import BrokenDisk, FullDisk
from .faults import FORBIDDEN, FULL, PASSING, SYNCING, Call, Faults


def fill(store: MessageStore, now: int = NOW) -> list[bytes]:
    """Put until the disk is full."""
    bodies: list[bytes] = []
    for number in range(10_000):
        body = b"%d:%d" % (now, number)
        result = put(store, body=body, store_timestamp=now)
        if result.status is PutStatus.SERVICE_NOT_AVAILABLE:
            assert "the disk is full" in result.remark
            return bodies
        assert result.status is PutStatus.PUT_OK
        bodies.append(body)
    raise AssertionError("the disk never was full")


def test_who_has_no_place_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By a line, and to who asks whether all is well: every sender is refused. With who tries again
    it is over, at the latest after a minute in which nobody did."""
    disk, clock = FullDisk(8192), ManualClock()
    store = MessageStore.open(config_of(tmp_path), clock, store_host=STORE_HOST, disk=disk)
    assert store.no_room is None
    fill(store)
    assert store.no_room is not None
    assert "messages are refused, they have no place" in caplog.text
    clock.advance(60.1)
    assert store.no_room is None
    put(store, store_timestamp=NOW + 200)
    assert store.no_room is not None
    disk.free = 1 << 20
    put_ok(store, store_timestamp=NOW + 400)
    assert store.no_room is None
    store.close()


@pytest.mark.parametrize("free", [0, 100, 8192, 8192 + 200, 3 * 8192 + 500, 50_000])
def test_a_full_disk_refuses_puts_and_keeps_everything(tmp_path: Path, free: int) -> None:
    disk = FullDisk(free)
    store = open_store(tmp_path, disk)
    bodies = fill(store)
    assert bodies_of(store) == bodies
    assert store.writeable
    disk.free = 20_000
    assert (
        put(store, store_timestamp=NOW + 99).status is PutStatus.SERVICE_NOT_AVAILABLE
    )  # not tried for every message
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
    times: dict[str, Any] = {"born_host": BORN_HOST, "born_timestamp": NOW}
    assert (
        store.put_batch(
            PutBatch(topic="T", queue_id=0, items=batch, store_timestamp=NOW, **times)
        ).status
        is PutStatus.SERVICE_NOT_AVAILABLE
    )
    assert bodies_of(store) == [b"body"]
    disk.free = 1 << 20
    assert (
        store.put_batch(
            PutBatch(topic="T", queue_id=0, items=batch, store_timestamp=NOW + 200, **times)
        ).queue_offset
        == 1
    )
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
    store.flush.when_flushed(store.max_phy_offset, answers.append)
    with caplog.at_level(logging.CRITICAL):
        asyncio.run(store.sync())
    disk.broken = False
    asyncio.run(store.sync())
    assert store.flushed_offset == flushed
    assert "the disk failed" in caplog.text
    assert "the disk failed" in put(store).remark
    assert len(bodies_of(store)) == 2
    store.flush.when_flushed(store.max_phy_offset, answers.append)
    store.flush.when_flushed(flushed, answers.append)
    assert answers == [False, True]
    store.close()
    assert answers == [False, True, False]
    assert (tmp_path / "abort").exists()  # the next start reads and checks what really is there
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert store.recovery.start == flushed
    assert len(bodies_of(store)) == 2
    store.close()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """By who syncs, with which urgency."""
    return [each.levelname for each in caplog.records if each.name.endswith("services.flush")]


@pytest.mark.parametrize("number", [*FULL, errno.EMFILE, *FORBIDDEN])
@pytest.mark.parametrize("name", ["open_new", "pwrite", "fdatasync"])
def test_a_checkpoint_that_cannot_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int, name: str
) -> None:
    """The first one has to be made, which takes space. It is written as a whole each time, so that
    it may be tried again."""
    with Faults(tmp_path) as faults:
        store = open_store(tmp_path)
        put_ok(store)
        faults.wanted = lambda call: number if (call.name, call.path) == (name, "checkpoint") else 0
        with caplog.at_level(logging.INFO):
            asyncio.run(store.sync())
            asyncio.run(store.sync())
            assert len(faults.injected) == 2
            assert store.flushed_offset == store.max_phy_offset, (
                "what was sent is on the disk all the same"
            )
            put_ok(store)
            faults.heal()
            asyncio.run(store.sync())
        assert told(caplog) == ["ERROR", "INFO"], "when it begins, and when it is over"
        assert "checkpoint" in caplog.records[0].getMessage()
        assert ("fsync", ".") in {(call.name, call.path) for call in faults.calls[-3:]}, (
            "its name is durable"
        )
        store.close()
    assert not (tmp_path / "abort").exists()
    store = open_store(tmp_path)
    assert len(bodies_of(store)) == 2
    store.close()


def failing(number: int, *names: str) -> Callable[[Call], int]:
    """Files of messages and their queues cannot be used so."""
    return lambda call: (
        number
        if call.name in names and call.path.split("/")[0] in ("commitlog", "consumequeue")
        else 0
    )


@pytest.mark.parametrize("number", PASSING)
def test_a_sync_for_which_the_system_is_short_of_something_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """No descriptor for it, no memory to open it: nothing was said about the data."""
    with Faults(tmp_path) as faults:
        store = open_store(tmp_path)
        put_ok(store)
        faults.wanted = failing(number, "open")
        with caplog.at_level(logging.INFO):
            asyncio.run(store.sync())
            assert faults.injected
            result = put(store)
            assert result.status is PutStatus.SERVICE_NOT_AVAILABLE
            assert "tried again" in result.remark
            asyncio.run(store.sync())
            faults.heal()
            asyncio.run(store.sync())
        assert put_ok(store).queue_offset == 1
        assert told(caplog) == ["ERROR", "INFO"], "when it begins, and when it is over"
        asyncio.run(store.sync())
        assert store.flushed_offset == store.max_phy_offset
        synced = {call.path for call in faults.calls if call.name in ("fsync", *SYNCING)}
        assert {"commitlog", "consumequeue", "consumequeue/T", "consumequeue/T/0", "."} <= synced
        store.close()
    assert not (tmp_path / "abort").exists()


@pytest.mark.parametrize("number", [errno.EIO, *FULL, errno.EROFS, *PASSING])
def test_a_sync_that_failed_is_not_tried_again(tmp_path: Path, number: int) -> None:
    """Whatever it says: what the system could not write it may have thrown away (delayed
    allocation, NFS), and why it could not is told once, whatever that was (no memory, say)."""
    with Faults(tmp_path) as faults:
        store = open_store(tmp_path)
        put_ok(store)
        faults.wanted = failing(number, *SYNCING)
        asyncio.run(store.sync())
        faults.heal()
        asyncio.run(store.sync())
        assert "the disk failed" in put(store).remark
        assert store.flushed_offset == 0
        store.close()
    assert (tmp_path / "abort").exists()


async def make_room(store: MessageStore) -> None:
    """Let the next file be made ahead."""
    running = asyncio.create_task(store._allocation.run())
    await turns()
    await asyncio.get_running_loop().run_in_executor(store._allocation._threads, lambda: None)
    await turns()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def expire(store: MessageStore) -> None:
    store.cleaning.clean_at_any_hour()
    await store.cleaning.clean()


@pytest.mark.parametrize(
    ("happens", "folder"),
    [(make_room, "commitlog"), (expire, "commitlog"), (expire, "consumequeue/T/0")],
)
def test_a_sync_of_a_folder_that_failed_is_not_believed_later(
    tmp_path: Path, happens: Callable[[MessageStore], Coroutine[Any, Any, None]], folder: str
) -> None:
    """The name of a file that somebody else has made there may be lost."""
    with Faults(tmp_path) as faults:
        store = open_store(
            tmp_path,
            mapped_file_size_consume_queue=20,
            delete_commit_log_files_interval=0,
            delete_consume_queue_files_interval=0,
        )
        for _ in range(3):
            put_ok(store, body=bytes(8000))
        asyncio.run(store.sync())
        os.utime(tmp_path / "commitlog" / f"{0:020d}", times=(0, 0))
        flushed = store.flushed_offset
        faults.wanted = lambda call: errno.EIO if (call.name, call.path) == ("fsync", folder) else 0
        asyncio.run(happens(store))
        assert faults.injected
        faults.heal()
        assert "the disk failed" in put(store).remark
        asyncio.run(store.sync())
        assert store.flushed_offset == flushed
        store.close()
    assert (tmp_path / "abort").exists()


@pytest.mark.parametrize("number", [errno.EIO, *FULL])
@pytest.mark.parametrize("cut", [CommitLog.take_back, CommitLog.begin_at])
def test_a_sync_that_failed_at_a_cut_of_the_log_is_not_believed_later(
    tmp_path: Path, cut: Callable[[CommitLog, int], None], number: int
) -> None:
    """It is made on the loop: nobody waits for it who could tell the others."""
    with Faults(tmp_path) as faults:
        store = open_store(tmp_path)
        ends = [put_ok(store, body=bytes(8000)).phy_offset for _ in range(3)]
        asyncio.run(store.sync())
        at = ends[1] if cut is CommitLog.take_back else store.config.mapped_file_size_commit_log
        faults.wanted = failing(number, *SYNCING)
        with pytest.raises(SyncFailedError):
            cut(store._log, at)
        faults.heal()
        flushed = store.flushed_offset
        assert "the disk failed" in put(store).remark
        asyncio.run(store.sync())
        assert store.flushed_offset == flushed
        store.close()
    assert (tmp_path / "abort").exists()


@pytest.mark.parametrize("number", [*FULL, *PASSING, *FORBIDDEN])
def test_a_put_for_which_there_is_no_file_is_refused_and_the_next_one_is_not(
    tmp_path: Path, number: int
) -> None:
    with Faults(tmp_path) as faults:
        store = open_store(tmp_path)
        faults.wanted = failing(number, "open", "open_new", "posix_fallocate", "mkdir", "mmap")
        assert put(store).status in (
            PutStatus.SERVICE_NOT_AVAILABLE,
            PutStatus.CREATE_MAPEDFILE_FAILED,
        )
        assert store.writeable
        faults.heal()
        put_ok(store, store_timestamp=NOW + 200)
        assert len(bodies_of(store)) == 1
        store.close()
