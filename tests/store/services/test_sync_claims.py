"""What a sync claims: no more than is on the disk, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.disk import Mode
from tests.stored import StoreDirectory

from ..dledger.world import leader_with, raft_of
from ..world import NOW, open_store, put_ok
from .flush_world import Running, WatchedDisk


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


def test_a_topic_that_is_deleted_during_a_sync_is_no_error(tmp_path: Path) -> None:
    running = Running(tmp_path)

    async def script() -> None:
        for topic in "TUV":
            put_ok(running.store, topic)
        running.disk.go_on.clear()
        syncing = asyncio.ensure_future(running.store.sync())
        await running.until(lambda: running.disk.synced == ["commitlog"])
        for topic in "TV":
            at_once(running.store.delete_topic_in_slices(topic))
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


def test_what_is_taken_back_meanwhile_is_not_claimed(tmp_path: Path) -> None:
    """A follower's entries are replaced while the log is synced: of the new ones nobody knows."""

    async def replaced_while_it_syncs() -> None:
        store = leader_with(tmp_path, 5)
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

        def open(self, path: str | Path, mode: Mode) -> int:
            syncs = threading.current_thread().name.startswith("store-flush")
            if syncs and "/commitlog/" in str(path) and self.left:
                self.left -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().open(path, mode)

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
