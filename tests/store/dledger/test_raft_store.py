"""A member's store: what is committed can be read, at a leader and a follower alike; roles; what a
stop of any kind leaves."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.record.batch import BatchItem
from aiorocketmq.store.disk.disk import Mode
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.model.errors import StoreError, SyncFailedError
from aiorocketmq.store.model.put import PutBatch
from aiorocketmq.store.model.status import GetMessageStatus, PutStatus
from aiorocketmq.store.put.queue_numbers import QueueNumbers
from aiorocketmq.store.raft.entry_log import CommittedConflict, EntryLogError
from tests.sim import ManualClock
from tests.store.dledger.world import (
    all_entries,
    commit_all,
    follower,
    leader,
    leader_with,
    open_member,
    raft_of,
    replicate,
)
from tests.store.world import BORN_HOST, NOW, bodies_of, crash, messages_of, put, put_ok


def put_batch(store: MessageStore, bodies: list[bytes], topic: str = "T") -> None:
    batch = PutBatch(
        topic=topic,
        queue_id=0,
        items=[BatchItem(0, body, b"") for body in bodies],
        born_host=BORN_HOST,
        born_timestamp=NOW - 5,
        store_timestamp=NOW,
    )
    assert store.put_batch(batch).status is PutStatus.PUT_OK


def queue_files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted((root / "consumequeue").rglob("*"))
        if path.is_file()
    }


def data_files(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(root.glob("dledger-*/data/*"))]


def test_nothing_is_taken_before_an_election_nor_by_a_follower(tmp_path: Path) -> None:
    store = open_member(tmp_path)
    assert put(store).status is PutStatus.OS_PAGECACHE_BUSY
    raft_of(store).follow()
    assert put(store).status is PutStatus.SERVICE_NOT_AVAILABLE
    raft_of(store).lead(1)
    assert put(store).status is PutStatus.PUT_OK
    store.close()


def test_what_is_not_committed_cannot_be_read(tmp_path: Path) -> None:
    store = leader(tmp_path)
    for number in range(5):
        assert put_ok(store, body=b"%d" % number).queue_offset == number
    put_batch(store, [b"5", b"6"])
    assert (store.max_offset("T", 0), store.max_phy_offset) == (0, 0)
    assert store.message_by_offset(48) is None
    raft_of(store).commit(2)
    assert bodies_of(store) == [b"0", b"1", b"2"]
    assert store.message_by_offset(48) is not None
    assert store.message_by_offset(store.max_phy_offset + 48) is None
    result = put_ok(store, body=b"7")
    assert result.queue_offset == 7
    commit_all(store)
    assert bodies_of(store) == [b"%d" % number for number in range(8)]
    assert store.max_phy_offset == result.phy_offset + result.size
    store.close()


def test_a_commit_whose_place_cannot_be_read_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = leader(tmp_path)
    raft = raft_of(store)
    put_ok(store, body=b"0")

    def unreadable(_index: int) -> int:
        raise EntryLogError("too many open files")

    with monkeypatch.context() as disk:
        disk.setattr(raft.log, "end_of", unreadable)
        raft.commit(0)
    assert (bodies_of(store), raft.committed_index) == ([], -1)
    assert not raft._dispatch_one()
    assert (bodies_of(store), raft.committed_index) == ([b"0"], 0)
    store.close()


def test_who_loses_what_it_writes_takes_nothing_of_a_leader(tmp_path: Path) -> None:
    """Its acknowledgement would make a majority that is none."""
    source, target = leader(tmp_path / "0"), follower(tmp_path / "1")
    put_ok(source, body=b"0")
    entries = all_entries(source)
    target.flush.broken = SyncFailedError(tmp_path, "cannot be synced")
    with pytest.raises(EntryLogError, match="the disk failed"):
        raft_of(target).log.append(entries)
    assert raft_of(target).log.end_index == -1
    for store in (source, target):
        store.close()


def test_no_term_begins_before_the_queues_have_nearly_all(tmp_path: Path) -> None:
    """To count what is left takes one turn of the loop."""
    store = leader(tmp_path)
    raft = raft_of(store)
    for _ in range(300):
        put_ok(store, body=bytes(6000))
    raft.commit(raft.log.end_index)
    raft.follow()
    with pytest.raises(StoreError, match="not in the queues yet"):
        raft.lead(2)
    assert put(store).status is PutStatus.SERVICE_NOT_AVAILABLE
    commit_all(store)
    raft.lead(2)
    assert put_ok(store).queue_offset == 300
    store.close()


def test_who_waits_is_told_of_committed_messages(tmp_path: Path) -> None:
    store = leader(tmp_path)
    seen: list[tuple[str, int, int]] = []
    store.arrivals.listeners.append(
        lambda topic, number, end, *_: seen.append((topic, number, end))
    )
    store.arrivals.watch("T", 0)
    put_ok(store)
    store.arrivals.notify()
    assert seen == []
    commit_all(store)
    store.arrivals.notify()
    assert seen == [("T", 0, 1)]
    store.close()


class NoFiles(PosixDisk):
    """No file is opened and no space is had while it is ``full``."""

    full = False

    def open(self, path: str | Path, mode: Mode) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().open(path, mode)


def test_what_cannot_be_dispatched_for_lack_of_space_is_taken_back_and_comes_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = leader(tmp_path)
    put_ok(store, "A")
    commit_all(store)
    store.close()
    disk = NoFiles()
    store = leader(tmp_path, disk=disk)  # the queue of A is not mapped
    put_ok(store, "B", body=b"0")
    commit_all(store)
    put_ok(store, "B", body=b"1")
    put_ok(store, "C")
    disk.full = True
    raft = raft_of(store)
    raft.commit(raft.log.end_index)
    raft._dispatch_one()
    assert raft.lag > 0
    assert (store.max_offset("B", 0), store.max_offset("C", 0)) == (1, 0)
    disk.full = False
    commit_all(store)
    assert (bodies_of(store, "B"), len(messages_of(store, "C"))) == ([b"0", b"1"], 1)
    assert "left out" not in caplog.text
    store.close()


def test_who_has_read_more_elsewhere_waits_until_the_queues_have_what_is_committed(
    tmp_path: Path,
) -> None:
    disk = NoFiles()
    store = leader(tmp_path, disk=disk)
    store.config.broker_role = BrokerRole.SYNC_MASTER
    store.read_role()
    put_ok(store, "B")
    commit_all(store)
    put_ok(store, "B")
    put_ok(store, "C")
    disk.full = True
    raft = raft_of(store)
    raft.commit(raft.log.end_index)
    for topic, high in (("B", 1), ("C", 0)):
        there = store.get(topic, 0, 2)  # a follower has handed out 0 and 1
        assert there.status is GetMessageStatus.OFFSET_OVERFLOW_ONE
        assert (there.next_begin_offset, there.max_offset) == (2, high)
    disk.full = False
    commit_all(store)
    moved = store.get("B", 0, 7)
    assert moved.status is GetMessageStatus.OFFSET_OVERFLOW_BADLY
    assert moved.next_begin_offset == 2
    store.close()


def test_what_is_committed_is_not_taken_back(tmp_path: Path) -> None:
    store = leader_with(tmp_path, 3)
    raft = raft_of(store)
    raft.commit(1)
    with pytest.raises(CommittedConflict, match="entry 1 cannot be taken back"):
        raft.log.truncate(0)
    with pytest.raises(CommittedConflict, match="entry 0 cannot be taken back"):
        raft.log.begin_with(all_entries(store)[0])
    assert (raft.log.end_index, bodies_of(store)) == (2, [b"0", b"1"])
    raft.log.truncate(1)
    assert raft.log.end_index == 1
    store.close()


def test_where_what_is_committed_ends_does_not_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = leader_with(tmp_path, 3)
    raft = raft_of(store)
    raft.commit(1)
    end = raft.committed_end
    with monkeypatch.context() as damaged:
        damaged.setattr(raft.log, "end_of", lambda _index: end - 1)
        raft.commit(2)
    assert (raft.committed_end, raft.committed_index) == (end, 1)
    assert f"ends at {end} and cannot end at {end - 1}" in caplog.text
    raft.commit(2)
    assert len(bodies_of(store)) == 3
    store.close()


def test_nothing_is_passed_over_on_the_way_into_the_queues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = leader_with(tmp_path, 3)
    raft = raft_of(store)
    raft.commit(0)
    at = raft.committed_end
    head = bytes(store._log.buffer[at : at + 4])
    store._log.buffer[at : at + 4] = b"\xff" * 4
    raft.commit(2)
    assert (store.max_offset("T", 0), raft.readable_end) == (1, at)
    assert f"no entry begins at {at}" in caplog.text
    assert raft.is_stuck
    store._log.buffer[at : at + 4] = head
    commit_all(store)
    raft._dispatch_one()
    assert not raft.is_stuck
    assert bodies_of(store) == [b"0", b"1", b"2"]
    store.close()


def test_a_number_that_was_given_is_not_given_again(caplog: pytest.LogCaptureFixture) -> None:
    numbers = QueueNumbers({})
    for number in (0, 1, 2, 1):
        numbers.count("T", 0, number)
    assert numbers.get_or_create("T", 0).max_offset == 3
    assert "has the number 1 though 2 was given before" in caplog.text
    numbers.count("T", 0, 0)  # the topic was deleted and made again
    assert numbers.get_or_create("T", 0).max_offset == 1


def test_a_leader_is_told_once_until_it_has_looked(tmp_path: Path) -> None:
    store = leader(tmp_path)
    told: list[int] = []
    raft_of(store).on_appended = lambda: told.append(1)
    put_ok(store)
    put_ok(store)
    assert told == [1]
    raft_of(store).take_appended()
    put_batch(store, [b"a", b"b"])
    assert told == [1, 1]
    store.close()


def test_numbers_go_on_behind_what_a_new_leader_finds_uncommitted(tmp_path: Path) -> None:
    store = leader(tmp_path)
    for number in range(4):
        put_ok(store, queue_id=number % 2)
    raft_of(store).commit(1)
    raft_of(store).follow()
    raft_of(store).log.truncate(2)
    raft_of(store).lead(2)
    assert put_ok(store, queue_id=0).queue_offset == 2
    assert put_ok(store, queue_id=1).queue_offset == 1
    commit_all(store)
    assert [entry.term for entry in all_entries(store)] == [1, 1, 1, 2, 2]
    assert len(bodies_of(store)) == 3
    store.close()


def test_a_follower_has_the_files_of_its_leader(tmp_path: Path) -> None:
    source, target = leader(tmp_path / "a"), follower(tmp_path / "b")
    for number in range(120):
        properties = {"KEYS": f"k{number}"}
        put_ok(source, queue_id=number % 3, body=bytes(number), properties=properties)
        if number % 7 == 0:
            put_batch(source, [b"x"] * 5, "U")
            replicate(source, target)
        if number % 20 == 0:
            commit_all(source)
    commit_all(source)
    replicate(source, target)
    assert bodies_of(target, "U") == bodies_of(source, "U") == [b"x"] * 5 * 18
    source.close()
    target.close()
    assert data_files(tmp_path / "a") == data_files(tmp_path / "b")
    assert len(data_files(tmp_path / "a")) > 3
    assert queue_files(tmp_path / "a") == queue_files(tmp_path / "b")


@pytest.mark.parametrize("clean", [True, False])
def test_a_stop_keeps_what_was_appended(tmp_path: Path, clean: bool) -> None:
    store = leader_with(tmp_path, 100)
    raft_of(store).commit(70)
    if clean:
        store.close()
    else:
        crash(store)
    store = open_member(tmp_path)
    raft = raft_of(store)
    assert raft.log.end_index == 99
    assert raft.committed_index == (70 if clean else -1)
    assert (raft.files.hard_state, raft.files.votes) == ((1, "n0"), True)
    raft.lead(2)
    assert put_ok(store, body=b"100").queue_offset == 100
    commit_all(store)
    assert bodies_of(store) == [b"%d" % number for number in range(101)]
    assert [message.queue_offset for message in messages_of(store)] == list(range(101))
    store.close()


def test_a_follower_that_runs_puts_into_queues_together_what_is_committed_in_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = leader(tmp_path / "a"), follower(tmp_path / "b")
    raft, clock, told = raft_of(target), ManualClock(), list[int]()
    monkeypatch.setattr(raft, "_clock", clock)
    raft.on_readable.append(lambda: told.append(raft.readable_end))

    def one_more(body: bytes) -> None:
        put_ok(source, body=body)
        commit_all(source)
        replicate(source, target)

    async def scene() -> None:
        async def asleep(sleepers: int) -> None:
            while sum(not future.done() for _, future in clock._sleepers) < sleepers:
                await asyncio.sleep(0)

        running = asyncio.create_task(raft.run())
        await asleep(1)
        one_more(b"1")
        await asleep(2)
        one_more(b"2")
        assert (told, raft.committed_index, bodies_of(target)) == ([], -1, [])
        with pytest.raises(CommittedConflict, match="entry 1 cannot be taken back"):
            raft.log.truncate(0)
        assert raft.lag, "it knows that it has more than can be read"
        clock.advance(0.01)
        while not told:
            await asyncio.sleep(0)
        assert not raft.lag
        assert (told, raft.committed_index) == ([raft.log.end_of(1)], 1)
        assert bodies_of(target) == [b"1", b"2"]
        one_more(b"3")
        await asleep(2)
        raft.lead(2)
        put_ok(target, body=b"4")
        raft.commit(3)
        assert bodies_of(target) == [b"1", b"2", b"3", b"4"], "senders wait for a leader"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scene())
    source.close()
    target.close()


def test_who_leads_at_once_looks_at_what_it_heard_last(tmp_path: Path) -> None:
    """What is committed counts, though nobody has put it into the queues."""
    source, store = leader(tmp_path / "0"), follower(tmp_path / "1")
    for _ in range(300):
        put_ok(source, body=bytes(6000))
    raft = raft_of(store)
    for entry in all_entries(source):
        raft.log.append([entry])

    async def scene() -> None:
        running = asyncio.create_task(raft.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        raft.commit(raft.log.end_index)
        assert raft.committed_index == -1
        with pytest.raises(StoreError, match="not in the queues yet"):
            raft.lead(2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scene())
    source.close()
    store.close()


def test_who_has_nothing_new_leaves_the_disk_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every three seconds it is noted how far everything is, with two syncs."""
    store = leader(tmp_path)
    raft = raft_of(store)
    clock = ManualClock()
    monkeypatch.setattr(raft, "_clock", clock)
    notes: list[tuple[int, int, int]] = []
    save_ends = raft.files.save_ends
    monkeypatch.setattr(
        raft.files, "save_ends", lambda *ends: (notes.append(ends), save_ends(*ends))[1]
    )

    async def scene() -> None:
        async def interval() -> None:
            while clock.next_due is None:
                await asyncio.sleep(0)
            clock.advance(3)
            while clock.next_due is None:
                await asyncio.sleep(0)

        running = asyncio.create_task(raft.run())
        for _ in range(3):
            await interval()
        assert len(notes) == 1
        put_ok(store, "T", 0)
        for _ in range(3):
            await interval()
        assert [end for _, end, _ in notes[1:]] == [raft.log.end_index], "what was put, once"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scene())
    store.close()
