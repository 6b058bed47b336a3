"""What else a store may be told to do, in a member's: several queues per message, filter bitmaps, a
disk that is full, the service beside."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.status import PutStatus
from aiorocketmq.store.services.retention import Rules
from tests.fault.disks import FullDisk
from tests.sim import ManualClock
from tests.store.dledger.world import (
    commit_all,
    follower,
    leader,
    open_member,
    raft_of,
    replicate,
)
from tests.store.world import (
    STORE_HOST,
    bodies_of,
    config_of,
    crash,
    messages_of,
    put,
    put_ok,
)


def test_a_message_in_several_queues(tmp_path: Path) -> None:
    more: dict[str, Any] = {"enable_multi_dispatch": True, "enable_lmq": True}
    source, target = leader(tmp_path / "a", **more), follower(tmp_path / "b", "n1", **more)
    both = {"INNER_MULTI_DISPATCH": "%LMQ%a,B"}
    put_ok(source, "B", 1, b"alone")
    put_ok(source, "T", 1, b"one", properties=both)
    assert (bodies_of(source, "%LMQ%a"), bodies_of(source, "B", 1)) == ([], [])
    raft_of(source).commit(0)
    put_ok(source, "T", 1, b"two", properties=both)
    raft_of(source).follow()
    raft_of(source).lead(2)  # counts what is not committed
    put_ok(source, "T", 1, b"three", properties=both)
    commit_all(source)
    replicate(source, target)
    for store in (source, target):
        assert bodies_of(store, "%LMQ%a") == [b"one", b"two", b"three"]
        assert bodies_of(store, "B", 1) == [b"alone", b"one", b"two", b"three"]
        numbers = [m.properties["INNER_MULTI_QUEUE_OFFSET"] for m in messages_of(store, "%LMQ%a")]
        assert numbers == ["0,1", "1,2", "2,3"]
        store.close()


def test_light_queues_have_a_limit(tmp_path: Path) -> None:
    store = leader(
        tmp_path, enable_multi_dispatch=True, enable_lmq=True, max_lmq_consume_queue_num=1
    )
    put_ok(store, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    commit_all(store)
    result = put(store, properties={"INNER_MULTI_DISPATCH": "%LMQ%b"})
    assert result.status is PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    store.close()


def test_others_count_once_for_the_limit_before_they_are_committed(tmp_path: Path) -> None:
    store = leader(tmp_path, enable_multi_dispatch=True, max_lmq_consume_queue_num=3)
    for name in "BBBBBCD":
        put_ok(store, properties={"INNER_MULTI_DISPATCH": name})
    result = put(store, properties={"INNER_MULTI_DISPATCH": "E"})
    assert result.status is PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    assert "send to the queue itself first" in result.remark
    commit_all(store)
    put_ok(store, properties={"INNER_MULTI_DISPATCH": "B,C,D"})
    store.close()


def test_bitmaps_are_kept_of_what_is_committed(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        enable_dledger_commit_log=True,
        dledger_self_id="n0",
        enable_consume_queue_ext=True,
    )
    asked: list[str] = []

    def bitmap_of(topic: str, _properties: bytes, *_: int) -> bytes:
        asked.append(topic)
        return b"\x05"

    store = MessageStore.open(config, ManualClock(), store_host=STORE_HOST, bitmap_of=bitmap_of)
    raft_of(store).lead(1)
    put_ok(store, properties=encode_properties({"TAGS": "a"}))
    assert asked == []
    commit_all(store)
    unit = store.entries.ext_unit("T", 0, 0)
    assert unit is not None
    assert (unit.bitmap, asked) == (b"\x05", ["T"])
    store.close()


def test_messages_without_room_for_their_units_come_when_there_is_some(tmp_path: Path) -> None:
    disk = FullDisk(1 << 30)
    store = leader(tmp_path, disk=disk)
    clock = store._clock
    assert isinstance(clock, ManualClock)
    for number in range(30):
        put_ok(store, body=b"%d" % number)
    disk.free = 0
    raft_of(store).commit(29)
    assert (bodies_of(store), raft_of(store).committed_index) == ([], 29)
    assert raft_of(store).lag
    assert raft_of(store).dispatched()[0] == 0, "no checkpoint claims them"
    disk.free = 1 << 30

    async def run() -> None:
        service = asyncio.create_task(raft_of(store).run())
        while raft_of(store).lag:
            clock.advance(1)
            await asyncio.sleep(0)
        service.cancel()

    asyncio.run(run())
    assert bodies_of(store) == [b"%d" % number for number in range(30)]
    store.close()


def test_much_is_taken_in_slices(tmp_path: Path) -> None:
    store = leader(tmp_path, mapped_file_size_commit_log=1 << 20)
    for number in range(3000):
        put_ok(store, body=b"%d" % number)

    async def run() -> None:
        service = asyncio.create_task(raft_of(store).run())
        await asyncio.sleep(0)
        raft_of(store).commit(2999)
        first = store.max_offset("T", 0)
        assert 0 < first < 3000
        while raft_of(store).lag:
            await asyncio.sleep(0)
        service.cancel()

    asyncio.run(run())
    assert store.max_offset("T", 0) == 3000
    store.close()


def test_how_far_it_is_is_noted_now_and_then(tmp_path: Path) -> None:
    store = leader(tmp_path)
    clock = store._clock
    assert isinstance(clock, ManualClock)
    put_ok(store, body=b"1")
    put_ok(store, body=b"2")
    raft_of(store).commit(0)

    async def run() -> None:
        service = asyncio.create_task(raft_of(store).run())
        while raft_of(store).files.committed_index < 0:
            clock.advance(1)
            await asyncio.sleep(0)
        await store.sync()
        marker = raft_of(store).files._marker
        while marker.now is None or marker.now.synced_index < 0:
            clock.advance(1)
            await asyncio.sleep(0)
        service.cancel()

    asyncio.run(run())
    crash(store)
    store = open_member(tmp_path)
    assert raft_of(store).committed_index == 0
    assert bodies_of(store) == [b"1"]
    store.close()


def test_files_stay_an_hour_longer(tmp_path: Path) -> None:
    hour = 3_600_000
    member = Rules.of(config_of(tmp_path, enable_dledger_commit_log=True, file_reserved_time=2))
    assert member.reserved_ms == 3 * hour
    assert Rules.of(config_of(tmp_path, file_reserved_time=2)).reserved_ms == 2 * hour
