"""Syncing: when, in which order, and who is told."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.queues.consume_queue import ConsumeQueue
from aiorocketmq.store.services.sync_rounds import SyncRounds
from tests.stored import StoreDirectory

from ...sim import ManualClock
from ..world import crash, put_ok
from .flush_world import Running, WatchedDisk


def test_many_bytes_are_synced_after_the_interval_few_after_the_long_one(tmp_path: Path) -> None:
    running = Running(tmp_path, mapped_file_size_commit_log=1 << 20)

    async def script() -> None:
        put_ok(running.store, body=bytes(4 * 4096))
        await running.settle()
        assert not running.flushed
        running.clock.advance(0.5)
        await running.until(lambda: running.flushed)
        assert running.disk.synced[:2] == ["commitlog", "commitlog/"]
        put_ok(running.store)
        running.clock.advance(0.5)
        await running.settle()
        assert not running.flushed
        while not running.flushed:
            running.clock.advance(0.5)
            await running.settle()

    running.run(script)
    assert 9 <= running.clock.monotonic() - 1000 <= 12
    running.store.close()


@pytest.mark.parametrize("name", ["flush_interval_commit_log", "flush_interval_consume_queue"])
def test_a_shorter_interval_counts_before_the_old_one_is_over(tmp_path: Path, name: str) -> None:
    running = Running(
        tmp_path,
        flush_commit_log_least_pages=0,
        flush_consume_queue_least_pages=0,
        flush_interval_commit_log=3_600_000,
        flush_interval_consume_queue=3_600_000,
    )
    what = "commitlog/" if name == "flush_interval_commit_log" else "consumequeue/"

    async def script() -> None:
        put_ok(running.store)
        running.clock.advance(1.0)
        await running.settle()
        setattr(running.store.config, name, 1000)
        assert what not in running.disk.synced
        running.clock.advance(5.0)
        await running.until(lambda: what in running.disk.synced)

    running.run(script)
    running.store.close()


def test_the_first_sync_of_many_new_queues_looks_at_few_of_them_in_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = 0
    really = ConsumeQueue.known_end

    def known_end(queue: ConsumeQueue) -> int:
        nonlocal looked_at
        looked_at += 1
        return really(queue)

    monkeypatch.setattr(ConsumeQueue, "known_end", known_end)
    running, most = Running(tmp_path), 0

    async def script() -> None:
        nonlocal most
        for number in range(700):
            put_ok(running.store, f"T{number // 4}", number % 4)
        syncing, before = asyncio.ensure_future(running.store.sync()), looked_at
        while not syncing.done():
            await asyncio.sleep(0)
            most, before = max(most, looked_at - before), looked_at

    running.run(script)
    assert looked_at == 700
    assert most <= 128
    running.store.close()


def test_queues_are_synced_by_pages_and_everything_every_minute(tmp_path: Path) -> None:
    running = Running(
        tmp_path, mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000
    )

    async def script() -> None:
        for _ in range(2 * 4096 // 20 + 1):
            put_ok(running.store)
        running.clock.advance(1)
        await running.until(lambda: "consumequeue/" in running.disk.synced)
        put_ok(running.store, "Few")
        for _ in range(5):
            running.clock.advance(1)
            await running.settle()
        assert "Few/" not in running.disk.synced
        assert tmp_path.name not in running.disk.synced
        await running.until(lambda: tmp_path.name in running.disk.synced, step=1)
        assert "Few/" in running.disk.synced

    running.run(script)
    crash(running.store)
    assert StoreDirectory(tmp_path).checkpoint().safe_phy_offset == running.store.flushed_offset


def test_who_comes_during_a_sync_shares_the_next_one(tmp_path: Path) -> None:
    running = Running(tmp_path)
    answers: dict[int, bool] = {}

    def wait_for_flush(number: int) -> None:
        result = put_ok(running.store)
        running.store.flush.when_flushed(
            result.phy_offset + result.size, lambda flushed: answers.update({number: flushed})
        )

    async def script() -> None:
        running.disk.go_on.clear()
        wait_for_flush(0)
        await running.until(lambda: running.disk.synced == ["commitlog"])
        for number in range(1, 10):
            wait_for_flush(number)
        assert answers == {}
        running.disk.go_on.set()
        await running.until(lambda: len(answers) == 10)
        assert answers == dict.fromkeys(range(10), True)
        assert running.disk.synced.count("commitlog") == 2
        flushed = running.store.flushed_offset
        running.store.flush.when_flushed(flushed, lambda done: answers.update({99: done}))
        assert answers[99]  # at once

    running.run(script)
    running.store.close()


class Watched(SyncRounds):
    """What ``FlushService`` tells its rounds."""

    def __init__(self) -> None:
        super().__init__(lambda: 0, ManualClock())
        self.told: list[int] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def end(self, completed: int, seconds: float) -> None:
        assert seconds >= 0
        self.told.append(completed)
        await self.go_on.wait()


def test_a_round_ends_with_those_who_were_told_before_the_next_one_begins(tmp_path: Path) -> None:
    running = Running(tmp_path)
    answers: list[bool] = []

    def put(messages: int) -> None:
        for _ in range(messages):
            result = put_ok(running.store)
            running.store.flush.when_flushed(result.phy_offset + result.size, answers.append)

    async def script() -> None:
        running.store.flush._rounds = rounds = Watched()
        running.disk.go_on.clear()
        put(5)
        put(2)
        await running.until(lambda: running.disk.synced == ["commitlog"])
        put(3)
        rounds.go_on.clear()
        running.disk.go_on.set()
        await running.until(lambda: rounds.told == [7])
        assert (answers, running.store.flush.waiting) == ([True] * 7, 3)
        await running.settle()
        assert running.disk.synced.count("commitlog") == 1, "the next one waits"
        rounds.go_on.set()
        await running.until(lambda: rounds.told == [7, 3])

    running.run(script)
    running.store.close()


def test_an_idle_store_leaves_its_thread_alone(tmp_path: Path) -> None:
    running = Running(tmp_path, flush_consume_queue_thorough_interval=60_000)
    threads = running.store.flush._threads
    submit, works = threads.submit, 0

    def counted(*work: Any, **more: Any) -> Any:
        nonlocal works
        works += work[0] == running.store.flush._guarded
        return submit(*work, **more)

    threads.submit = counted  # type: ignore[method-assign]

    async def script() -> None:
        put_ok(running.store)
        await running.until(lambda: works > 0 and running.flushed, step=1.0)
        running.clock.advance(1.0)
        await running.settle()
        before = works
        for _ in range(20):
            running.clock.advance(1.0)
            await running.settle()
        assert works == before
        put_ok(running.store)
        await running.until(lambda: works > before, step=1.0)

    running.run(script)
    running.store.close()


def test_a_round_that_is_interrupted_ends(tmp_path: Path) -> None:
    running = Running(tmp_path)
    rounds = Watched()

    async def script() -> None:
        running.store.flush._rounds = rounds
        running.disk.go_on.clear()
        result = put_ok(running.store)
        running.store.flush.when_flushed(result.phy_offset + result.size, lambda _: None)
        await running.until(lambda: running.disk.synced == ["commitlog"])

    running.run(script)
    assert rounds.told == [0]
    running.disk.go_on.set()
    running.store.close()


def test_a_sync_that_hangs_is_a_timeout_and_the_message_stays(tmp_path: Path) -> None:
    running = Running(tmp_path, sync_flush_timeout=3000)
    answers: list[bool] = []

    async def script() -> None:
        running.disk.go_on.clear()
        result = put_ok(running.store)
        running.store.flush.when_flushed(result.phy_offset + result.size, answers.append)
        await running.until(lambda: running.disk.synced == ["commitlog"])
        running.clock.advance(2.9)
        for _ in range(10):
            await asyncio.sleep(0)
        assert answers == []
        await running.until(lambda: answers == [False], step=0.1)
        running.disk.go_on.set()
        await running.until(lambda: running.flushed)
        assert answers == [False]
        assert running.store.get("T", 0, 0).count == 1

    running.run(script)
    running.store.close()


class TimedDisk(WatchedDisk):
    """Knows which thread syncs; a sync takes as long as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []
        self.sync_seconds = 0.0
        self.clock = ManualClock()

    def sync(self, fd: int) -> None:
        self.threads.append(threading.get_ident())
        self.clock.advance(self.sync_seconds)
        super().sync(fd)


def test_one_waiter_is_served_on_the_loop_while_the_disk_is_fast(tmp_path: Path) -> None:
    running = Running(tmp_path, TimedDisk())
    disk = running.disk
    assert isinstance(disk, TimedDisk)
    disk.clock = running.clock

    async def flushed(waiters: int = 1) -> bool:
        """True when the sync was done on the loop."""
        answers: list[bool] = []
        for _ in range(waiters):
            result = put_ok(running.store)
            running.store.flush.when_flushed(result.phy_offset + result.size, answers.append)
        await running.until(lambda: len(answers) == waiters)
        assert answers == [True] * waiters
        return disk.threads[-1] == threading.get_ident()

    async def script() -> None:
        assert not await flushed()  # nobody knows the disk yet
        assert not await flushed()
        assert not await flushed()
        assert await flushed()
        assert not await flushed(waiters=2)
        assert await flushed()
        disk.sync_seconds = 0.001
        assert await flushed()  # a surprise
        assert not await flushed()
        disk.sync_seconds = 0.0
        for _ in range(3):
            assert not await flushed()
        assert await flushed()

    running.run(script)
    running.store.close()


class PartsDisk(WatchedDisk):
    """Remembers which parts were synced."""

    syncs_parts = True


def test_of_the_log_only_what_was_written_since_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[tuple[int, int, int]] = []

    def note(file: MappedFile, start: int, stop: int) -> bool:
        parts.append((file.start, start, stop))
        return True

    monkeypatch.setattr(MappedFile, "_sync_mapping", note)
    running = Running(tmp_path, PartsDisk())
    store = running.store

    async def script() -> None:
        first = put_ok(store)
        await store.flush.sync_log()
        await running.until(lambda: store._log.spare is not None)
        second = put_ok(store, body=bytes(8000))
        await store.flush.sync_log()
        assert second.phy_offset == 8192
        assert parts == [(0, 0, first.size), (0, first.size, 8192), (8192, 0, second.size)]

    running.run(script)
    store.close()
