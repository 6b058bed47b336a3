"""Topics that the log says are deleted."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import StoreFileError
from aiorocketmq.store.queues.consume_queue import ConsumeQueue
from aiorocketmq.store.queues.consume_queues import ConsumeQueues
from tests.sim import ManualClock
from tests.store.world import bodies_of, crash, put_ok

from .world import commit_all, follower, leader, open_member, raft_of, replicate


def put_deletion(store: MessageStore, topic: str = "T") -> int:
    """As a leader does; where it lies."""
    place = put_ok(store, "Deletions").phy_offset
    raft_of(store).deletions.put(topic)
    return place


def put_many(store: MessageStore, count: int = 20) -> None:
    for number in range(count):
        put_ok(store, body=b"%d" % number)


def test_what_is_put_behind_a_deletion_begins_at_0(tmp_path: Path) -> None:
    """Also before it is committed; and what lies in front of it goes, whatever is behind it by
    then."""
    source, target = leader(tmp_path / "a"), follower(tmp_path / "b")
    told: list[tuple[str, tuple[int, ...]]] = []
    for store in (source, target):
        store.replica.on_begun_anew.append(lambda topic, ids: told.append((topic, tuple(ids))))
    put_many(source)
    put_ok(source, queue_id=1)
    commit_all(source)
    place = put_deletion(source)
    assert source.max_offset("T", 0) == 20
    assert [put_ok(source, body=body).queue_offset for body in (b"a", b"b")] == [0, 1]
    commit_all(source)
    replicate(source, target)
    commit_all(target)
    for store in (source, target):
        assert bodies_of(store) == [b"a", b"b"]
        assert store.queue_ids("T") == [0, 1]
        raft_of(store).deletions.committed("T", place)
        raft_of(store).deletions.finish()
        assert bodies_of(store) == [b"a", b"b"]
        assert store.queue_ids("T") == [0]
    assert told == [("T", (0,)), ("T", (0,)), ("T", (1,)), ("T", (1,))]
    assert put_ok(source).queue_offset == 2
    assert put_ok(source, queue_id=1).queue_offset == 0
    for store in (source, target):
        store.close()


def test_a_deletion_that_comes_to_nothing_leaves_the_numbers(tmp_path: Path) -> None:
    store = leader(tmp_path)
    raft = raft_of(store)
    put_many(store)
    commit_all(store)
    put_deletion(store)
    raft.follow()
    raft.log.truncate(19)
    raft.lead(2)
    assert put_ok(store).queue_offset == 20
    store.close()


def test_who_leads_next_counts_from_0_behind_a_deletion(tmp_path: Path) -> None:
    """That was not committed when it was elected."""
    store = leader(tmp_path)
    raft = raft_of(store)
    put_many(store)
    place = put_deletion(store)
    raft.follow()
    raft.lead(2)
    commit_all(store)
    raft.deletions.committed("T", place)
    assert at_once(store.delete_topic_in_slices("T"))
    assert put_ok(store).queue_offset == 0
    store.close()


@pytest.mark.parametrize("queues", ["kept", "lost"])
def test_a_start_has_them_done_again(tmp_path: Path, queues: str) -> None:
    """It makes queues of what lies in front of the deletion; what is behind it stays."""
    store = leader(tmp_path)
    put_many(store)
    put_ok(store, queue_id=1)
    commit_all(store)
    place = put_deletion(store)
    raft_of(store).deletions.committed("T", place)
    raft_of(store).deletions.finish()
    put_ok(store, body=b"new")
    commit_all(store)
    crash(store)
    if queues == "lost":
        shutil.rmtree(tmp_path / "consumequeue")
    store = open_member(tmp_path)
    raft = raft_of(store)
    raft.lead(2)
    commit_all(store)
    raft.deletions.committed("T", place)
    raft.deletions.finish()
    assert (store.queue_ids("T"), bodies_of(store)) == ([0], [b"new"])
    store.close()


def test_a_disk_that_refuses_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, clock = leader(tmp_path), ManualClock()
    deletions = raft_of(store).deletions
    monkeypatch.setattr(deletions, "_clock", clock)
    put_many(store)
    place = put_deletion(store)
    commit_all(store)

    def refuse(_queues: ConsumeQueues, _queue: ConsumeQueue) -> None:
        raise StoreFileError(tmp_path, "EIO")

    async def scene() -> None:
        running = asyncio.ensure_future(deletions.run())
        with monkeypatch.context() as disk:
            disk.setattr(ConsumeQueues, "delete", refuse)
            deletions.committed("T", place)
            assert not deletions.close()
            while not clock._sleepers:
                await asyncio.sleep(0)
        assert (deletions.are_due, raft_of(store).is_stuck) == (True, True)
        clock.advance(1)
        while store.queue_ids("T"):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (deletions.are_due, raft_of(store).is_stuck) == (False, False)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(scene())
    assert "queues of a deleted topic stay" in caplog.text
    store.close()
