"""Messages and batches into a log of entries: each message is placed for itself, as every member
would place it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.remoting.protocol.record.batch import BatchItem
from aiorocketmq.remoting.protocol.record.entry import MAX_ENTRY_SIZE, position_of_next
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.put import PutBatch
from aiorocketmq.store.model.status import PutResult, PutStatus
from aiorocketmq.store.queues.consume_queue import CQ_UNIT

from ..dledger.world import all_entries, commit_all, follower, leader, raft_of, replicate
from ..memory_disk import MemoryDisk
from ..world import BORN_HOST, NOW, bodies_of, put

FILE_SIZE = 8192


def put_batch(store: MessageStore, bodies: list[bytes], properties: bytes = b"") -> PutResult:
    items = [BatchItem(0, body, b"") for body in bodies]
    return store.put_batch(
        PutBatch(
            topic="T", queue_id=0, items=items, born_host=BORN_HOST, born_timestamp=NOW - 5,
            store_timestamp=NOW, properties=properties,
        )
    )  # fmt: skip


def check_places(store: MessageStore) -> None:
    """By the rule of the blank, with numbers without gaps."""
    end = 0
    for number, entry in enumerate(all_entries(store)):
        record = decode_record(entry.body)
        assert entry.pos == position_of_next(end, entry.size, FILE_SIZE)
        assert (record.commit_log_offset, record.queue_offset) == (entry.pos + 48, number)
        end = entry.pos + entry.size
    assert raft_of(store).log.log.max_phy_offset == end


def test_a_batch_goes_on_in_the_next_file(tmp_path: Path) -> None:
    """In the original each of its messages is an entry of its own."""
    store = leader(tmp_path)
    bodies = [bytes([number]) * 700 for number in range(9)]
    put(store, body=b"x" * 5000)
    result = put_batch(store, bodies)
    assert (result.status, result.queue_offset, result.count) == (PutStatus.PUT_OK, 1, 9)
    check_places(store)
    assert {entry.pos // FILE_SIZE for entry in all_entries(store)} == {0, 1}
    units = [*CQ_UNIT.iter_unpack(result.units)]
    assert [unit[0] for unit in units] == [entry.pos + 48 for entry in all_entries(store)[1:]]
    assert result.phy_offset == units[0][0]
    assert result.phy_offset + result.size == raft_of(store).log.end_of(9)
    commit_all(store)
    assert bodies_of(store) == [b"x" * 5000, *bodies]
    other = follower(tmp_path / "other")
    replicate(store, other)
    assert all_entries(other) == all_entries(store)
    assert bodies_of(other) == bodies_of(store)
    other.close()
    store.close()


def test_what_no_member_could_encode(tmp_path: Path) -> None:
    """48 + record, 4 MiB: a body of that size fails, as with the original."""
    store = leader(tmp_path, mapped_file_size_commit_log=16 << 20)
    fits = MAX_ENTRY_SIZE - 48 - 92
    assert put(store, body=bytes(MAX_ENTRY_SIZE)).status is PutStatus.MESSAGE_ILLEGAL
    assert put(store, body=bytes(fits + 1)).status is PutStatus.MESSAGE_ILLEGAL
    assert put_batch(store, [b"first", bytes(fits + 1)]).status is PutStatus.MESSAGE_ILLEGAL
    assert raft_of(store).log.end_index == -1
    assert put(store, body=bytes(fits)).status is PutStatus.PUT_OK
    assert put_batch(store, [bytes(fits)]).status is PutStatus.PUT_OK
    assert [entry.size for entry in all_entries(store)] == [MAX_ENTRY_SIZE] * 2
    store.close()


class FullDisk(MemoryDisk):
    """No further file can be made."""

    full = False

    def allocate(self, fd: int, offset: int, length: int) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().allocate(fd, offset, length)


def test_no_room_in_the_middle_of_a_batch() -> None:
    """What is in front of it stays, its sender is refused, and the log goes on behind it."""
    disk = FullDisk()
    store = leader(Path("/store"), disk=disk)
    put(store, body=b"x" * 5000)
    disk.full = True
    result = put_batch(store, [bytes([number]) * 700 for number in range(9)])
    assert result.status is PutStatus.OS_PAGECACHE_BUSY
    there = len(all_entries(store))
    assert 1 < there < 10
    disk.full = False
    assert put_batch(store, [b"y" * 900]).status is PutStatus.OS_PAGECACHE_BUSY
    result = store.put_batch(
        PutBatch(
            topic="T", queue_id=0, items=[BatchItem(0, b"y" * 900, b"")], born_host=BORN_HOST,
            born_timestamp=NOW, store_timestamp=NOW + 200, properties=b"",
        )
    )  # fmt: skip
    assert (result.status, result.queue_offset) == (PutStatus.PUT_OK, there)
    check_places(store)
    store.close()


@settings(max_examples=settings().max_examples // 4)
@given(st.lists(st.lists(st.integers(0, 4000), min_size=1, max_size=8), max_size=6))
def test_places_of_whatever_is_put(sizes: list[list[int]]) -> None:
    store = leader(Path("/store"), disk=MemoryDisk())
    for batch in sizes:
        bodies = [bytes(size) for size in batch]
        if sum(batch) > 6000:
            bodies = bodies[:1]
        result = put_batch(store, bodies) if len(batch) > 1 else put(store, body=bodies[0])
        assert result.status is PutStatus.PUT_OK
    check_places(store)
    store.close()
