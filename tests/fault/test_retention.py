"""Any history of puts, time, cleaning and ends: what is retained can be read, what is not was old
enough to go."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.record.batch import BatchItem
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.put import PutBatch, PutMessage
from aiorocketmq.store.model.status import PutStatus

from ..sim import ManualClock
from ..store.world import BORN_HOST, STORE_HOST, config_of, crash, messages_of, put_ok
from .disks import FullDisk

LOG_FILE = 8192
RESERVED_H = 6
TOPICS = ("T", "U", "V")
ANY_HOUR = ";".join(map(str, range(24)))

operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(TOPICS), st.sampled_from([0, 100, 2500, 7000])),
        st.tuples(st.just("batch"), st.sampled_from(TOPICS), st.integers(1, 30)),
        st.tuples(st.just("fill"), st.sampled_from(TOPICS), st.integers(1, 12)),
        st.tuples(st.just("hours"), st.just(""), st.integers(1, 5)),
        st.tuples(
            st.sampled_from(["sync", "clean", "clean", "clean", "stop", "crash", "306"]),
            st.just(""),
            st.just(0),
        ),
    ),
    min_size=5,
    max_size=40,
)


class Stored(NamedTuple):
    offset: int
    phy_offset: int
    body: bytes


class History:
    """A store and what it must hold."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.stored: dict[str, list[Stored]] = {topic: [] for topic in TOPICS}
        self.written_at: dict[int, int] = {}
        self.min_phy_offset = 0
        self.store = self.open()

    def open(self) -> MessageStore:
        config = config_of(
            self.root, delete_when=ANY_HOUR, file_reserved_time=RESERVED_H,
            delete_commit_log_files_interval=0, delete_consume_queue_files_interval=0,
            disk_space_clean_forcibly_ratio=100,
            disk_space_warning_level_ratio=100,
        )  # fmt: skip
        return MessageStore.open(config, self.clock, store_host=STORE_HOST)

    def put(self, topic: str, size: int) -> None:
        body = b"%d:" % self.store.max_phy_offset + bytes(size)
        result = put_ok(self.store, topic, body=body, store_timestamp=self.clock.time_ms())
        self._note(topic, result.queue_offset, result.phy_offset, body)

    def batch(self, topic: str, count: int) -> None:
        bodies = [b"%d-%d" % (self.store.max_phy_offset, number) for number in range(count)]
        result = self.store.put_batch(PutBatch(
            topic=topic, queue_id=0, items=[BatchItem(0, body, b"") for body in bodies],
            born_host=BORN_HOST, born_timestamp=1, store_timestamp=self.clock.time_ms(),
        ))  # fmt: skip
        assert result.status is PutStatus.PUT_OK
        for number, body in enumerate(bodies):
            self._note(topic, result.queue_offset + number, result.phy_offsets[number], body)

    def _note(self, topic: str, offset: int, phy_offset: int, body: bytes) -> None:
        self.stored[topic].append(Stored(offset, phy_offset, body))
        self.written_at[phy_offset - phy_offset % LOG_FILE] = self.clock.time_ms()

    def clean(self) -> None:
        files = sorted(self.written_at)
        for start in files:
            os.utime(
                self.root / f"commitlog/{start:020d}", times=(self.written_at[start] / 1000,) * 2
            )
        expected = self.min_phy_offset
        for start in files[:-1][:10]:
            age_ms = self.clock.time_ms() - self.written_at[start]
            if age_ms < RESERVED_H * 3_600_000 or start + LOG_FILE > self.store.flushed_offset:
                break
            expected = start + LOG_FILE
        asyncio.run(self.store.cleaning.clean())
        assert self.store.min_phy_offset == expected
        assert sorted(int(path.name) for path in (self.root / "commitlog").iterdir()) == [
            f for f in files if f >= expected
        ]
        self.min_phy_offset = expected
        for start in files:
            if start < expected:
                del self.written_at[start]
        self._check_queue_files()

    def _check_queue_files(self) -> None:
        """Every queue begins with a message that is there, or has none; files without one are gone,
        but the last."""
        for topic in TOPICS:
            kept = [each for each in self.stored[topic] if each.phy_offset >= self.min_phy_offset]
            if self.store.max_offset(topic, 0):
                first = kept[0].offset if kept else self.store.max_offset(topic, 0)
                assert self.store.min_offset(topic, 0) == first
                paths = sorted((self.root / "consumequeue" / topic / "0").iterdir())
                assert all(int(path.name) + 200 > first * 20 for path in paths[:-1])

    def delete_expired_queues(self) -> None:
        deleted = asyncio.run(self.store.cleaning.delete_expired_queues())
        for topic in TOPICS:
            stored = self.stored[topic]
            expired = bool(stored) and stored[-1].phy_offset < self.min_phy_offset
            assert (f"{topic}-0" in deleted) is expired
            if expired:
                self.stored[topic] = []

    def reopen(self, how: str) -> None:
        crash(self.store) if how == "crash" else self.store.close()
        self.store = self.open()
        assert self.store.recovery is not None
        assert not self.store.recovery.damaged

    def check(self) -> None:
        for topic in TOPICS:
            kept = [each for each in self.stored[topic] if each.phy_offset >= self.min_phy_offset]
            found = messages_of(self.store, topic)
            assert [(m.queue_offset, m.commit_log_offset, m.body) for m in found] == kept
            if self.stored[topic]:
                assert self.store.max_offset(topic, 0) == self.stored[topic][-1].offset + 1


@given(steps=operations)
@settings(
    max_examples=settings().max_examples * 3 // 5,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_history(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, Any]]
) -> None:
    history = History(tmp_path_factory.mktemp("store"))
    for kind, topic, number in steps:
        if kind == "put":
            history.put(topic, number)
        elif kind == "batch":
            history.batch(topic, number)
        elif kind == "fill":
            for _ in range(number):
                history.put(topic, 7000)
        elif kind == "hours":
            history.clock.advance(number * 3600)
        elif kind == "sync":
            asyncio.run(history.store.sync())
        elif kind == "clean":
            history.clean()
        elif kind == "306":
            history.delete_expired_queues()
        else:
            history.reopen(kind)
        history.check()
    history.store.close()


def test_cleaning_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    """The disk cannot give a file more: sends are refused, cleaning by force frees files, sends go
    on."""

    class SmallDisk(FullDisk):
        def used_ratio(self, path: Path) -> float:
            return len(list((tmp_path / "commitlog").iterdir())) / 10

    disk = SmallDisk(10 * LOG_FILE + 10_000)
    clock = ManualClock()
    config = config_of(
        tmp_path, delete_commit_log_files_interval=0, delete_consume_queue_files_interval=0
    )
    store = MessageStore.open(config, clock, store_host=STORE_HOST, disk=disk)
    stored = 0
    while True:
        result = store.put_message(
            PutMessage("T", 0, bytes(2500), b"", BORN_HOST, 1, clock.time_ms())
        )
        if result.status is not PutStatus.PUT_OK:
            break
        stored += 1
    assert result.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "the disk is full" in result.remark

    async def look_and_clean() -> None:
        await store.sync()
        await store.cleaning.look()
        assert not store.writeable
        await store.cleaning.clean()

    asyncio.run(look_and_clean())
    gone = store.min_phy_offset // LOG_FILE
    assert gone > 0
    assert store.writeable
    disk.free += gone * LOG_FILE
    clock.advance(1)
    assert put_ok(store, store_timestamp=clock.time_ms()).queue_offset == stored
    assert len(messages_of(store)) == stored - 3 * gone + 1
    store.close()
