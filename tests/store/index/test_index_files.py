"""The index of a store: built behind the writer, searched, rolled, synced, expired."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record.batch import BatchItem
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.put import PutBatch
from tests.stored import decode_messages

from ...sim import ManualClock
from ..world import BORN_HOST, NOW, STORE_HOST, config_of, open_store
from .index_world import ITEMS, bodies, build, files_of, items_of, not_found, send

FOREVER = (0, 1 << 62)


# --- what is found
# --------------------------------------------------------------------------------------------------
def test_messages_are_found_by_key_and_unique_key(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = [send(store, number, f"k{number % 3} all") for number in range(9)]
    send(store, 100, "all", topic="U")
    build(store)
    assert bodies(store, "u4") == ["4"]
    assert bodies(store, "k1") == ["1", "4", "7"]
    assert bodies(store, "all") == [str(number) for number in range(9)]
    assert bodies(store, "all", count=2) == ["7", "8"]  # the newest
    assert bodies(store, "all", topic="U") == ["100"]
    assert (
        bodies(store, "k") == bodies(store, "u4", topic="U") == bodies(store, "all", count=0) == []
    )
    result = at_once(store.query.steps("T", "u1", 1, *FOREVER))
    assert result.index_last_update_timestamp == NOW
    assert result.index_last_update_phyoffset > offsets[-1]


def test_the_range_of_time_is_exact(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(5):
        send(store, number, "k", store_timestamp=NOW + number * 400)
    build(store)
    assert bodies(store, "k", begin=NOW + 400, end=NOW + 1200) == ["1", "2", "3"]
    assert bodies(store, "k", begin=NOW + 401, end=NOW + 1199) == ["2"]
    assert bodies(store, "k", begin=NOW + 1601) == bodies(store, "k", end=NOW - 1) == []


def test_a_hash_that_collides_is_not_found(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, 1, "Aa")
    send(store, 2, "BB")  # the same hash
    build(store)
    assert bodies(store, "Aa") == ["1"]
    assert bodies(store, "BB") == ["2"]


def test_prepared_messages_are_indexed_and_rolled_back_ones_are_not(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, 1, sys_flag=0x4)
    send(store, 2, sys_flag=0x8)
    send(store, 3, sys_flag=0xC)
    build(store)
    assert [bodies(store, key) for key in ("u1", "u2", "u3")] == [["1"], ["2"], []]


def test_every_message_of_a_batch(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    items = [BatchItem(0, b"%d" % n, encode_properties({"UNIQ_KEY": f"u{n}"})) for n in range(3)]
    shared = encode_properties({"KEYS": "shared"})
    store.put_batch(
        PutBatch(
            topic="T",
            queue_id=0,
            items=items,
            properties=shared,
            born_host=BORN_HOST,
            born_timestamp=NOW,
            store_timestamp=NOW,
        )
    )
    build(store)
    assert bodies(store, "u1") == ["1"]
    assert bodies(store, "shared") == ["0", "1", "2"]


def test_without_an_index_nothing_is_kept_and_nothing_made(tmp_path: Path) -> None:
    store = open_store(tmp_path, message_index_enable=False)
    send(store, 1)
    assert not store._indexing.waits
    assert bodies(store, "u1") == []
    store.close()
    assert not files_of(tmp_path)
    open_store(tmp_path).close()  # nor later: what was stored without index stays without
    assert not files_of(tmp_path)


def test_one_message_with_more_keys_than_a_file_has_items(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, 1, " ".join(f"k{number}" for number in range(100)))
    build(store)
    assert len(files_of(tmp_path)) == 3
    assert bodies(store, "k0") == bodies(store, "k99") == ["1"]


# --- files
# --------------------------------------------------------------------------------------------------
def test_files_are_named_by_local_time_in_order_even_when_the_clock_is_set_back(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    store = MessageStore.open(config_of(tmp_path), clock, store_host=STORE_HOST)
    for number in range(100):
        send(store, number)
        if number == 50:
            build(store)
            clock.advance(-7200)
    store.close()
    names = [path.name for path in files_of(tmp_path)]
    assert len(names) == 3
    assert all(re.fullmatch(r"2023111[3-6]\d{9}", name) for name in names)
    assert [offset for _, offset in items_of(tmp_path)] == sorted(
        offset for _, offset in items_of(tmp_path)
    )
    store = open_store(tmp_path)
    assert not_found(store, 100) == []


def test_what_was_put_or_cut_is_synced_and_files_without_items_go(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = [send(store, number) for number in range(ITEMS + 5)]
    build(store)
    index = store._indexing._files
    first, second = index.paths

    def synced() -> list[Path]:
        work = index.sync_work()
        index.sync(work)
        assert index.synced
        return [file.path for file in work.files]

    assert synced() == [first, second]
    assert synced() == []
    index.cut(offsets[3], lambda _hashed, _phy_offset: True)
    assert files_of(tmp_path) == index.paths == [first]
    assert len(items_of(tmp_path)) == 3
    assert synced() == [first]
    index.cut(0, lambda _hashed, _phy_offset: True)
    assert files_of(tmp_path) == index.paths == []
    assert index.sync_work().directory


def test_files_expire_with_the_log_but_never_the_last_one(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = [send(store, number) for number in range(100)]
    build(store)
    paths = files_of(tmp_path)
    assert store._index.drop_expired(offsets[ITEMS - 1]) == []
    expired = store._index.drop_expired(offsets[ITEMS])
    assert [file.path for file in expired] == paths[:1]
    assert bodies(store, "u0") == []
    assert bodies(store, f"u{ITEMS}") == [str(ITEMS)]
    assert [file.path for file in store._index.drop_expired(1 << 60)] == paths[1:2]


def test_a_file_that_expires_during_a_query_ends_no_query(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(3 * ITEMS):
        send(store, number % 2)
    build(store)
    query = store.query.steps("T", "u1", 64, *FOREVER)
    next(query)
    for file in store._index.drop_expired(store.max_phy_offset):
        file.delete()
    found = at_once(query)
    assert 8 <= len(decode_messages(found.records)) < 64
    assert len(files_of(tmp_path)) == 1
    store.close()


def test_room_in_a_file_that_is_gone_meanwhile_is_of_no_use(tmp_path: Path) -> None:
    """A thread has made it while the log of a member began anew: that was the end of the broker."""
    store = open_store(tmp_path)
    send(store, 1)
    build(store)
    room = store._index.make()
    store._index.cut(0, lambda _hash, _phy_offset: True)
    assert files_of(tmp_path) == []
    store._index.use(room)
    send(store, 2)
    build(store)
    assert bodies(store, "u2") == ["2"]
    assert len(files_of(tmp_path)) == 1
    store.close()


def test_foreign_files_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(tmp_path)
    send(store, 1)
    store.close()
    (tmp_path / "index" / "notes.txt").write_text("mine")
    (tmp_path / "index" / "20200101000000000").write_bytes(bytes(99))
    (tmp_path / "index" / "20200101000000001").touch()
    with caplog.at_level(logging.WARNING):
        store = open_store(tmp_path)
    assert "notes.txt" in caplog.text
    assert "is 99 bytes long" in caplog.text
    assert bodies(store, "u1") == ["1"]
    store.close()
    assert (tmp_path / "index" / "20200101000000000").read_bytes() == bytes(99)
    assert not (tmp_path / "index" / "20200101000000001").exists()


def test_messages_with_many_keys_wait_for_their_turn(tmp_path: Path) -> None:
    """A call makes entries of as many as fill a step, and writes what one after the other would
    have become."""
    one_by_one, together = open_store(tmp_path / "a"), open_store(tmp_path / "b")
    for number in range(20):
        keys = " ".join(f"{number}k{at}" for at in range(60)) if number % 4 else ""
        for store in (one_by_one, together):
            send(store, number, keys, sys_flag=0xC if number % 5 == 0 else 0)
        build(one_by_one)
    indexing, steps = together._indexing, list[int]()
    while indexing.waits:
        before = len(items_of(tmp_path / "b"))
        if not indexing.step():
            indexing._files.use(indexing._files.make())
        steps.append(len(items_of(tmp_path / "b")) - before)
    assert max(steps) <= 128 < sum(steps), "a step has 128 keys"
    assert items_of(tmp_path / "a") == items_of(tmp_path / "b") != []


# --- the service
# --------------------------------------------------------------------------------------------------
def test_the_service_builds_a_moment_after_the_put(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        store = MessageStore.open(config_of(tmp_path), clock, store_host=STORE_HOST)
        services = asyncio.ensure_future(store.run())
        await asyncio.sleep(0)
        for number in range(1000):
            send(store, number)
        while store._indexing.waits:
            clock.advance(0.005)
            await asyncio.sleep(0)
        assert len(files_of(tmp_path)) == -(-1000 // ITEMS)
        assert bodies(store, "u999") == ["999"]
        services.cancel()
        await asyncio.wait([services])
        store.close()

    asyncio.run(asyncio.wait_for(main(), 60))
