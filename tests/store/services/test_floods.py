"""What lasts because of the disk is some lines in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiorocketmq.remoting.outages import Outages
from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.disk.mapped_file_queue import MappedFileQueue
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.index.index_files import IndexFiles
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.model.errors import OutOfSpaceError, StoreFileError
from aiorocketmq.store.queues.consume_queue_ext import ConsumeQueueExt, ExtUnit
from aiorocketmq.store.queues.fillers import MOST_LOST
from aiorocketmq.store.services.allocation import AllocationService
from aiorocketmq.store.services.flush import FlushService

from ...fault.disks import BrokenDisk
from ...floods import TWO_MINUTES, told
from ...sim import ManualClock
from ..cleaning_world import ANY_HOUR, World
from ..dledger.world import leader_with, raft_of
from ..world import BORN_HOST, STORE_HOST, config_of, put_ok


@pytest.fixture(autouse=True)
def from_info_on(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, "aiorocketmq"):
        yield


def running(root: Path, clock: ManualClock, until: Callable[[MessageStore], bool]) -> None:
    """A store whose services run until something is so; a step of a second of its clock for each
    look."""

    async def main() -> None:
        store = MessageStore.open(config_of(root), clock, store_host=STORE_HOST)
        services = asyncio.ensure_future(store.run())
        put_ok(store, properties={"KEYS": "k"})
        while not until(store):
            clock.advance(1)
            await asyncio.sleep(0.001)
        services.cancel()
        await asyncio.wait([services])
        store.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_log_that_cannot_be_synced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    store = MessageStore.open(config_of(tmp_path), clock, store_host=STORE_HOST)
    flush: FlushService = store.flush

    def sync(works: bool) -> None:
        if not works:
            raise StoreFileError(tmp_path, f"too many open files at {clock.monotonic():.0f}")

    for _ in range(130):
        assert not flush._guarded("the commit log", sync, False)
        clock.advance(1)
    assert flush._guarded("the commit log", sync, True)
    assert told(caplog, "not synced") == TWO_MINUTES
    store.close()


@pytest.mark.parametrize(
    ("owner", "step", "text"),
    [
        (AllocationService, "_make_file", "no room for the commit log"),
        (IndexFiles, "make", "no room for the index"),
    ],
)
def test_a_full_disk(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    step: str,
    text: str,
) -> None:
    clock = ManualClock()
    make = getattr(owner, step)

    def fails(service: object, *values: object) -> object:
        if clock.monotonic() < 1130:
            raise OutOfSpaceError(tmp_path, "No space left on device")
        return make(service, *values)

    monkeypatch.setattr(owner, step, fails)
    running(tmp_path, clock, lambda _: f"over: {text}" in caplog.text)
    lines = told(caplog, text)
    assert lines[:3] == TWO_MINUTES[:3]
    assert lines[-1] == "over"
    assert len(lines) <= 5


def test_a_file_that_cannot_be_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)

    def refuse(file: MappedFile) -> None:
        raise StoreFileError(file.path, "cannot be deleted: Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "delete", refuse)
        for _ in range(13):
            world.clean()
            world.clock.advance(10)
    world.clean()
    assert told(caplog, "not deleted, tried again") == TWO_MINUTES
    world.store.close()


def test_entries_that_cannot_go_into_their_queues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = leader_with(tmp_path, 3)
    raft = raft_of(store)
    clock = ManualClock()
    raft._outages._clock = clock
    raft.commit(0)
    at = raft.committed_end
    head = bytes(store._log.buffer[at : at + 4])
    store._log.buffer[at : at + 4] = b"\xff" * 4
    raft.commit(2)
    for _ in range(130):
        raft._dispatch_one()
        clock.advance(1)
    store._log.buffer[at : at + 4] = head
    while raft.lag:
        raft._dispatch_one()
    assert told(caplog, "committed messages cannot be read yet") == TWO_MINUTES
    store.close()


def test_ends_of_queues_and_places_of_damage_that_cannot_be_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, disk = ManualClock(), BrokenDisk()
    store = MessageStore.open(config_of(tmp_path), clock, store_host=STORE_HOST, disk=disk)
    put_ok(store)
    asyncio.run(store.sync())
    disk.broken = True
    for number in range(131):
        disk.broken = number < 130
        store._files.damage_file.save({100 + number: 90})
        store._ends.save(store._ends.snapshot([]), store._checkpoint, 200)
        clock.advance(1)
    assert told(caplog, "damaged cannot be written") == TWO_MINUTES
    assert told(caplog, "queueends cannot be written") == TWO_MINUTES
    store.close()


def test_filter_bitmaps_without_space(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    ext = ConsumeQueueExt(MappedFileQueue(tmp_path / "T" / "0", 200, PosixDisk()), Outages(clock))
    ext.load()

    def full(_self: object, _size: int) -> None:
        raise OutOfSpaceError(tmp_path, "No space left on device")

    with monkeypatch.context() as without:
        without.setattr(ConsumeQueueExt, "_make_room", full)
        for _ in range(130):
            assert ext.put(ExtUnit(1, 2)) is None
            clock.advance(1)
    assert ext.put(ExtUnit(1, 2)) is not None
    assert told(caplog, "filter bitmaps are not kept") == TWO_MINUTES


def test_an_entry_that_a_follower_needs_and_that_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Several followers ask for several of them, in turn."""
    store = leader_with(tmp_path, 3)
    entries = raft_of(store).log
    clock = ManualClock()
    entries._outages = Outages(clock)  # type: ignore[misc]
    store._log.buffer[0:400] = b"\xff" * 400
    for number in range(130):
        assert not entries.entries(number % 2, 1000)
        clock.advance(1)
    assert len(told(caplog, "cannot be read, a member that lacks it")) == 3
    store.close()


def test_messages_that_cannot_follow_at_a_slave(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where one cannot, those behind it cannot either."""
    clock = ManualClock()
    store = MessageStore.open(
        config_of(tmp_path, broker_role=BrokerRole.SLAVE, mapped_file_size_commit_log=64 << 10),
        clock,
        store_host=STORE_HOST,
    )
    size = len(record_of(0, 0))
    for place in range(131):
        number = place + (MOST_LOST + 1000 if place else 0)
        store.replica.append(place * size, record_of(number, place * size))
        clock.advance(1)
    assert len(told(caplog, "cannot follow")) == 3
    store.close()


def record_of(number: int, phy_offset: int) -> bytes:
    return encode_record(
        NewRecord(
            "T", 0, b"body", b"", sys_flag=0, born_timestamp=1, born_host=BORN_HOST,
            store_timestamp=5, store_host=STORE_HOST, queue_offset=number, phy_offset=phy_offset,
        )
    )  # fmt: skip
