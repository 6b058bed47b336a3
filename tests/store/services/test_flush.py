"""Syncing: when, in which order, and what is claimed."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.queues.consume_queue import ConsumeQueue
from aiorocketmq.store.services.sync_rounds import SyncRounds
from tests.stored import StoreDirectory

from ...sim import ManualClock
from ..dledger.world import leader, raft_of
from ..world import NOW, STORE_HOST, config_of, crash, open_store, put_ok


class WatchedDisk(PosixDisk):
    """Remembers what was synced; can be made to hang."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def sync(self, fd: int) -> None:
        self.synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).parent.name)
        self.go_on.wait()
        super().sync(fd)

    def sync_directory(self, path: Path) -> None:
        if not threading.current_thread().name.startswith(
            "store-allocation"
        ):  # that one names the next file, at any time
            self.synced.append(f"{path.name}/")
        super().sync_directory(path)


class Running:
    """A store whose services run, a clock that is moved by hand, a disk that is watched."""

    def __init__(self, root: Path, disk: WatchedDisk | None = None, **settings: Any) -> None:
        self.clock = ManualClock()
        self.disk = disk or WatchedDisk()
        self.root = root
        self.store = MessageStore.open(
            config_of(root, **settings), self.clock, store_host=STORE_HOST, disk=self.disk
        )
        self.disk.synced.clear()

    def run(self, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            services = asyncio.ensure_future(self.store.run())
            await self.until(
                lambda: len(self.clock._sleepers) == 5
            )  # log, queues, cleaning, disk, scrub
            try:
                await script()
            finally:
                self.disk.go_on.set()
                services.cancel()
                await asyncio.wait([services])
            assert services.cancelled()

        asyncio.run(asyncio.wait_for(whole(), 60))

    async def until(self, condition: Callable[[], bool], step: float = 0.0) -> None:
        """``step``: the clock goes on meanwhile, but not while the disk works: how long that takes
        must not decide what is due next."""
        while not condition():
            if step:
                self.clock.advance(step)
                if self.disk.go_on.is_set():
                    await self.settle()
            await asyncio.sleep(0.001)

    async def settle(self) -> None:
        """Let everything happen that is due: the threads are idle and the loop has nothing left to
        do."""
        for _ in range(20):
            await asyncio.get_running_loop().run_in_executor(
                self.store.flush._threads, lambda: None
            )
            await asyncio.sleep(0)

    @property
    def flushed(self) -> bool:
        return self.store.flushed_offset == self.store.max_phy_offset


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


def test_the_checkpoint_comes_last_and_claims_no_more_than_was_there(tmp_path: Path) -> None:
    running = Running(tmp_path)

    async def script() -> None:
        put_ok(running.store, store_timestamp=NOW + 1)
        claimed = running.store.max_phy_offset
        running.disk.go_on.clear()
        syncing = asyncio.ensure_future(running.store.sync())
        await running.until(lambda: running.disk.synced == ["commitlog"])
        put_ok(running.store, store_timestamp=NOW + 2)  # while the sync hangs
        running.disk.go_on.set()
        await syncing
        names = running.disk.synced
        assert names == [
            "commitlog",
            "commitlog/",
            "0",
            "0/",
            "T/",
            "consumequeue/",
            f"{tmp_path.name}/",
            tmp_path.name,  # checkpoint
            f"{tmp_path.name}/",
            tmp_path.name,  # queueends
            f"{tmp_path.name}/",
        ]
        checkpoint = StoreDirectory(tmp_path).checkpoint()
        assert checkpoint.safe_phy_offset == claimed
        assert (checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp) == (
            NOW + 1,
            NOW + 1,
        )
        assert running.store.flushed_offset == claimed

    running.run(script)
    running.store.close()
    assert StoreDirectory(tmp_path).checkpoint().physic_msg_timestamp == NOW + 2


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


def test_a_topic_that_is_deleted_during_a_sync_is_no_error(tmp_path: Path) -> None:
    running = Running(tmp_path)

    async def script() -> None:
        for topic in "TUV":
            put_ok(running.store, topic)
        running.disk.go_on.clear()
        syncing = asyncio.ensure_future(running.store.sync())
        await running.until(lambda: running.disk.synced == ["commitlog"])
        await running.store.clean_unused_topics({"U"}.__contains__)
        running.disk.go_on.set()
        await syncing
        assert running.store.writeable
        put_ok(running.store, "U")
        await running.store.sync()
        running.disk.synced.clear()
        at_once(running.store.delete_topic_in_slices("U"))
        await running.store.sync()
        assert "consumequeue/" in running.disk.synced  # or it could come back after a power failure

    running.run(script)
    running.store.close()
    assert not (tmp_path / "abort").exists()


def test_the_next_file_is_made_ahead_and_an_unused_one_is_deleted_on_closing(
    tmp_path: Path,
) -> None:
    running = Running(tmp_path)
    folder = tmp_path / "commitlog"

    def files() -> list[int]:
        return sorted(int(path.name) for path in folder.iterdir())

    def last_is(start: int) -> bool:
        return files()[-1] == start

    async def script() -> None:
        await running.until(lambda: files() == [0])
        for number in range(1, 5):
            await running.until(lambda: running.store._log.spare is not None)
            assert put_ok(running.store, body=bytes(8000)).phy_offset == (number - 1) * 8192
            await running.until(functools.partial(last_is, number * 8192))
        await running.until(lambda: running.store._log.spare is not None)

    running.run(script)
    assert files() == [0, 8192, 16384, 24576, 32768]
    running.store.close()
    assert files() == [0, 8192, 16384, 24576]


def test_a_kill_with_a_file_made_ahead(tmp_path: Path) -> None:
    running = Running(tmp_path)

    async def script() -> None:
        put_ok(running.store, body=bytes(8000))
        await running.until(lambda: running.store._log.spare is not None)

    running.run(script)
    running.store._log.spare = None  # a kill deletes nothing
    crash(running.store)
    assert len(list((tmp_path / "commitlog").iterdir())) == 2
    running = Running(tmp_path)
    assert len(list((tmp_path / "commitlog").iterdir())) == 1
    assert put_ok(running.store).phy_offset == 8192
    running.store.close()


def test_space_is_reserved_ahead_of_the_writer(tmp_path: Path) -> None:
    running = Running(tmp_path, mapped_file_size_commit_log=64 << 20)
    log = running.store._log
    step = 16 << 20

    async def script() -> None:
        await running.until(lambda: log.spare is not None)
        put_ok(running.store, body=bytes(4 << 20))
        assert log.current is not None
        assert log.current.reserved == step
        assert log.limit == step // 2 - 8
        put_ok(running.store, body=bytes(4 << 20))  # more than half of the reserve is used now
        assert log.limit == step - 8
        await running.until(lambda: log.limit == log.position + step // 2 - 8)
        assert log.current.reserved == log.position + step

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


def test_what_is_taken_back_meanwhile_is_not_claimed(tmp_path: Path) -> None:
    """A follower's entries are replaced while the log is synced: of the new ones nobody knows."""

    async def replaced_while_it_syncs() -> None:
        store = leader(tmp_path)
        for number in range(5):
            put_ok(store, body=b"%d" % number)
        syncing = asyncio.create_task(store.flush.sync_log())
        await asyncio.sleep(0)
        log = raft_of(store).log
        log.truncate(0)
        assert await syncing
        assert store.flushed_offset <= log.end_of(0)
        assert await store.flush.sync_log()
        assert store.flushed_offset == log.end_of(0)
        store.close()

    asyncio.run(replaced_while_it_syncs())


def test_a_checkpoint_claims_nothing_that_is_not_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log was taken back while it was synced, say."""

    async def nothing_is_synced() -> bool:
        return True

    async def main() -> None:
        store = open_store(tmp_path)
        put_ok(store)
        before = StoreDirectory(tmp_path).checkpoint().safe_phy_offset
        with monkeypatch.context() as believed:
            believed.setattr(store.flush, "sync_log", nothing_is_synced)
            await store.flush.sync_everything()
        assert StoreDirectory(tmp_path).checkpoint().safe_phy_offset == before
        assert "cannot claim what lies below" in caplog.text
        await store.flush.sync_everything()
        assert StoreDirectory(tmp_path).checkpoint().safe_phy_offset == store.max_phy_offset
        store.close()

    asyncio.run(main())


def test_whoever_closes_syncs_what_a_cancelled_sync_has_left(tmp_path: Path) -> None:
    """Or the checkpoint would claim an index that is not on the disk."""
    running = Running(tmp_path)
    store, disk = running.store, running.disk

    async def script() -> None:
        put_ok(store, properties={"KEYS": "k"})
        await running.until(lambda: not store._indexing.waits, step=0.02)
        disk.synced.clear()
        disk.go_on.clear()
        syncing = asyncio.create_task(store.flush.sync_everything())
        await running.until(lambda: "commitlog" in disk.synced)
        syncing.cancel()
        await asyncio.wait([syncing])

    running.run(script)
    disk.synced.clear()
    store.close()
    assert "index" in disk.synced


def test_a_round_does_not_claim_what_another_one_has_taken_and_not_synced(tmp_path: Path) -> None:
    """Transactions have everything synced besides the interval; the first of the two fails."""

    class Refuses(WatchedDisk):
        left = 1

        def sync(self, fd: int) -> None:
            super().sync(fd)
            if self.synced[-1] == "commitlog" and self.left:
                self.left -= 1
                raise OSError(errno.EINTR, "Interrupted system call")

    disk = Refuses()
    running = Running(tmp_path, disk)
    store = running.store

    async def script() -> None:
        put_ok(store, properties={"KEYS": "k"})
        await running.until(lambda: not store._indexing.waits, step=0.02)
        disk.synced.clear()
        await asyncio.gather(store.sync(), store.sync())
        assert StoreDirectory(tmp_path).checkpoint().safe_phy_offset == store.max_phy_offset
        assert "index" in disk.synced

    running.run(script)
    store.close()
