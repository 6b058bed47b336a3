"""Deleting what has expired: real files, a clock that is moved by hand, a disk that says how full
it is."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.checkpoint import Checkpoint
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.errors import StoreConfigError, StoreFileError
from aiorocketmq.store.model.status import GetMessageStatus, PutStatus
from aiorocketmq.store.queues.consume_queue import ConsumeQueue

from ...floods import told
from ...sim import ManualClock, turns
from ..cleaning_world import ANY_HOUR, HOUR_S, LOG_FILE, FillingDisk, World
from ..world import STORE_HOST, bodies_of, config_of, crash, put, put_ok


def _logged(caplog: pytest.LogCaptureFixture, line: str) -> bool:
    return line in caplog.text


def test_old_files_go_in_the_hour_of_delete_when(tmp_path: Path) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    world.clean()
    world.check(5)  # 5 hours old and younger
    world.clean()
    world.check(5)
    world.clock.advance(2 * HOUR_S)
    world.clean()
    world.check(3)
    world.store.close()


def test_a_shorter_time_between_two_files_counts_before_the_old_one_is_over(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR, delete_commit_log_files_interval=3_600_000)

    async def run() -> None:
        cleaning = asyncio.create_task(world.store.cleaning.clean())
        while len(world.log_files()) == 12 or not world.clock._sleepers:
            await asyncio.sleep(0.001)
        world.config.delete_commit_log_files_interval = 0
        assert len(world.log_files()) == 11
        world.clock.advance(5.0)
        await asyncio.wait_for(cleaning, 30)

    asyncio.run(run())
    world.check(5)
    world.store.close()


def test_at_another_hour_nothing_goes(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.clean()
    world.check(12)
    world.clock.advance(12 * HOUR_S)
    world.clean()
    world.check(2)  # ten in a round
    world.store.close()


def test_the_hour_is_the_local_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, delete_when="3")  # the clock says 22:13 UTC
    try:
        for zone, files in (("UTC", 12), ("UTC-5", 5)):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            world.clean()
            world.check(files)
    finally:
        monkeypatch.undo()
        time.tzset()
    world.store.close()


def test_a_file_stays_until_the_checkpoint_claims_its_queues(tmp_path: Path) -> None:
    """A start believes units below the checkpoint; with the file the numbers behind it were gone,
    and were given again."""
    world = World(tmp_path, disk=FillingDisk(0.87))
    for body in world.bodies[:9]:
        put_ok(world.store, "U", body=body)
    for body in world.bodies[:6]:
        put_ok(world.store, "T", body=body)
    world.store._log.flushed_offset = world.store._log.max_phy_offset  # its queues are not
    world.clean(3)
    crash(world.store)
    world.store = world.open()
    assert put_ok(world.store, "U").queue_offset == 9
    assert bodies_of(world.store, "U")[:9] == world.bodies[:9]
    asyncio.run(world.store.sync())
    world.clean(3)
    world.store.close()
    assert len(world.log_files()) == 1


def test_what_the_checkpoint_claims_counts_once_that_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, disk=FillingDisk(0.87))
    for topic in ("T", "U"):
        for body in world.bodies[:9]:
            put_ok(world.store, topic, body=body)

    def cannot_be_written(checkpoint: Checkpoint) -> None:
        raise StoreFileError(checkpoint.path, "cannot be written")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", cannot_be_written)
        asyncio.run(world.store.sync())
        world.clean(3)
        crash(world.store)
    world.store = world.open()
    assert put_ok(world.store, "T").queue_offset == 45
    asyncio.run(world.store.sync())
    world.clean(3)
    world.store.close()
    assert len(world.log_files()) == 1


def test_the_last_file_stays_whatever_its_age(tmp_path: Path) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    world.clock.advance(1000 * HOUR_S)
    world.clean(3)
    world.check(1)
    assert put_ok(world.store).queue_offset == 36
    world.store.close()


def test_the_last_file_stays_also_when_it_is_full(tmp_path: Path) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR, file_reserved_time=0)
    put_ok(world.store, body=bytes(2500))
    crash(world.store)
    world.log_files()[-1].unlink()  # a kill after the blank, before the next record
    world.store = world.open()
    assert world.store.max_phy_offset == 12 * LOG_FILE
    asyncio.run(world.store.sync())
    world.clock.advance(1000 * HOUR_S)
    os.utime(world.log_files()[-1], times=(0, 0))
    world.clean(2)
    world.check(1)
    world.store.close()


def test_the_first_file_that_has_not_expired_keeps_those_behind_it(tmp_path: Path) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    os.utime(world.log_files()[1])
    world.clean()
    world.check(11)
    world.store.close()


@pytest.mark.parametrize("permitted", [True, False])
def test_a_file_in_which_a_message_is_mended_expires_when_it_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, permitted: bool
) -> None:
    """Unless the system does not let its time be set. One that is written to is as young as that
    makes it."""
    world = World(tmp_path, delete_when=ANY_HOUR)
    log = world.store._log
    if not permitted:

        def refuse(_disk: PosixDisk, _fd: int, _times: tuple[int, int]) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(PosixDisk, "set_times", refuse)
    mended, written = log.files.files[1], log.files.files[11]
    before = written.modified_ms()
    for file in (mended, written):
        record = log.record(file.start)
        assert record is not None
        log.put_back(file, file.start, record)
    assert written.modified_ms() > before
    world.clean()
    world.check(5 if permitted else 11)
    world.store.close()


@pytest.mark.parametrize("ratio", [0.76, 0.85, None])
def test_a_disk_that_is_scarce_lets_old_files_go_at_any_hour(
    tmp_path: Path, ratio: float | None
) -> None:
    disk = FillingDisk()
    world = World(tmp_path, disk)
    disk.ratio = ratio
    world.clean()
    world.check(5)
    assert world.store.writeable
    world.store.close()


def test_a_disk_that_is_nearly_full_lets_young_files_go_ten_in_a_round(tmp_path: Path) -> None:
    world = World(tmp_path, FillingDisk(0.86))
    world.clean()
    world.check(2)
    world.clean()
    world.check(1)
    world.clean()
    world.check(1)
    world.store.close()


def test_no_more_young_files_go_than_necessary(tmp_path: Path) -> None:
    disk = FillingDisk(0.87)
    world = World(tmp_path, disk, file_reserved_time=100)
    disk.step = 0.01
    world.clean()
    world.check(10)  # 87 %, 86 %, 85 %
    world.store.close()


def test_young_files_stay_when_cleaning_by_force_is_switched_off(tmp_path: Path) -> None:
    world = World(tmp_path, FillingDisk(0.99), clean_file_forcibly_enable=False)
    world.clean()
    world.check(5)
    world.store.close()


def test_request_329_is_good_for_twenty_rounds(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.store.cleaning.clean_at_any_hour()
    world.clean()
    world.check(5)
    world.clean(18)
    world.clock.advance(HOUR_S)
    world.clean()
    world.check(4)
    world.clock.advance(HOUR_S)
    world.clean()
    world.check(4)
    world.store.close()


def test_what_is_not_on_the_disk_yet_stays(tmp_path: Path) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR, file_reserved_time=0)
    world.store._log.flushed_offset = 4 * LOG_FILE - 1
    world.clean()
    world.check(9)
    world.store.close()


def test_one_file_is_gone_for_good_before_the_next_one_goes(tmp_path: Path) -> None:
    """A power failure must not bring back some of them and leave a hole."""

    class ListingDisk(FillingDisk):
        def __init__(self) -> None:
            super().__init__()
            self.lengths: dict[str, list[int]] = {"commitlog": [], "0": []}

        def sync_directory(self, path: Path) -> None:
            self.lengths.setdefault(path.name, []).append(len(list(path.iterdir())))

    disk = ListingDisk()
    world = World(tmp_path, disk, delete_when=ANY_HOUR)
    for lengths in disk.lengths.values():
        lengths.clear()
    world.clock.advance(12 * HOUR_S)
    world.clean()
    world.check(2)
    assert disk.lengths["commitlog"] == [*range(11, 1, -1)]
    assert disk.lengths["0"] == [3, 2, 1]
    world.store.close()


def test_a_file_that_somebody_reads_is_deleted_when_they_let_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    file = world.store._log.files.files[1]
    view = memoryview(file.map)
    record = bytes(view[:100])
    world.clean(3)
    assert len(world.log_files()) == 11
    assert bytes(view[:100]) == record
    assert world.store.min_phy_offset == 2 * LOG_FILE  # nobody else finds it
    assert bodies_of(world.store) == world.bodies[6:]
    assert caplog.text.count("somebody still reads it") == 1
    view.release()
    world.clean()
    world.check(5)
    world.store.close()


def test_a_file_that_cannot_be_deleted_does_not_leave_a_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.name == f"{LOG_FILE:020d}":
            raise PermissionError(13, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    world.clean(2)
    assert len(world.log_files()) == 11
    monkeypatch.undo()
    leaving = world.store._log.leaving
    assert leaving is not None
    assert leaving.read(0, 4) != b""
    world.store.close()
    assert leaving._reading is None, "its file is closed as well"
    world.store = world.open()  # as if it had not been tried
    assert world.store.min_phy_offset == LOG_FILE
    assert bodies_of(world.store) == world.bodies[3:]
    world.clean()
    world.check(5)
    world.store.close()


def test_a_file_that_somebody_has_deleted_keeps_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    world.log_files()[0].unlink()
    world.clean(2)
    assert "is gone, the commit log can begin behind it" in caplog.text
    world.check(5)
    world.store.close()


def test_a_folder_that_is_elsewhere_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    folder = tmp_path / "commitlog"
    folder.rename(tmp_path / "elsewhere")
    world.clean(2)
    assert caplog.text.count("cannot be looked at") == 1
    assert world.store.min_phy_offset == 0
    (tmp_path / "elsewhere").rename(folder)
    world.clean()
    world.check(5)
    world.store.close()


def test_pulls_of_what_is_gone(tmp_path: Path) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    world.clean()
    result = world.store.get("T", 0, 20)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, 21)
    assert (result.min_offset, result.max_offset) == (21, 36)
    assert world.store.message_by_offset(0) is None
    assert world.store.entries.offset_by_time("T", 0, 0) == 21
    assert world.store.entries.log_begins_at() > 0
    world.store.close()


def test_between_log_and_queue_a_pull_passes_over_what_is_gone(tmp_path: Path) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    for _ in range(7):
        world.store._log.drop_first()
    result = world.store.get("T", 0, 2, max_count=32)
    assert result.status is GetMessageStatus.MESSAGE_WAS_REMOVING
    assert result.next_begin_offset > 2
    world.store.close()


def test_a_queue_never_says_that_it_keeps_what_is_gone(tmp_path: Path) -> None:
    """Who pulls would take it for messages that were never there."""
    world = World(tmp_path, delete_when=ANY_HOUR, delete_commit_log_files_interval=1000)
    seen = set()

    async def play() -> None:
        cleaning = asyncio.create_task(world.store.cleaning.clean())
        while not cleaning.done():
            await asyncio.sleep(0)
            low = world.store.min_offset("T", 0)
            first = world.store.get("T", 0, low).status
            assert first is GetMessageStatus.FOUND, (low, world.store.min_phy_offset)
            seen.add((low, world.store.min_phy_offset // LOG_FILE))
            world.clock.advance(0.01)
        await cleaning

    asyncio.run(play())
    world.check(5)
    assert {low for low, _ in seen} >= {0, 3, 6, 18, 21}
    assert all(low >= 3 * files for low, files in seen)
    world.store.close()


def test_many_queues_forget_in_one_turn_of_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one the way there takes ten times as long as the look."""
    world, count = World(tmp_path, delete_when=ANY_HOUR), 40
    for number in range(count - 1):
        put_ok(world.store, f"T{number}")
    monkeypatch.setattr("aiorocketmq.store.services.cleaning._QUEUES_AT_ONCE", 16)
    in_thread, turns_there = world.store.cleaning._in_thread, 0

    async def counted(function: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal turns_there
        turns_there += 1
        return await in_thread(function, *arguments)

    monkeypatch.setattr(world.store.cleaning, "_in_thread", counted)
    world.clean()
    assert len(world.log_files()) == 5 + 1, "the last one has the others' messages"
    assert (world.store.min_offset("T", 0), world.store.min_offset("T0", 0)) == (21, 0)
    per_file, at_the_end = 3 + 3, 3 + 6  # of 40 queues three times; files are looked at and go
    assert turns_there <= 7 * per_file + at_the_end
    world.store.close()


@pytest.mark.parametrize("end", [MessageStore.close, crash])
def test_a_log_that_does_not_start_at_0_opens_again(
    tmp_path: Path, end: Callable[[MessageStore], None]
) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    world.clean()
    end(world.store)
    world.store = world.open()
    world.check(5)
    world.bodies.append(b"after")
    assert put_ok(world.store, "T", body=b"after").queue_offset == 36
    assert bodies_of(world.store) == world.bodies[21:]
    world.store.close()


def test_the_checkpoint_may_be_about_what_is_gone(tmp_path: Path) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    world.clean()
    end = world.store.max_phy_offset
    crash(world.store)
    checkpoint = Checkpoint(tmp_path / "checkpoint", PosixDisk())
    checkpoint.load()
    assert checkpoint.safe_phy_offset == end
    checkpoint.safe_phy_offset = LOG_FILE
    checkpoint.save()
    world.store = world.open()
    assert world.store.recovery is not None
    assert world.store.recovery.start == 7 * LOG_FILE
    world.check(5)
    world.store.close()


@pytest.mark.parametrize(("count", "last_file"), [(13, 200), (10, 0), (1, 0)])
def test_a_queue_without_messages_keeps_its_number(
    tmp_path: Path, count: int, last_file: int
) -> None:
    store = MessageStore.open(config_of(tmp_path), ManualClock(), store_host=STORE_HOST)
    for _ in range(count):
        put_ok(store, "Idle")
    store.close()
    world = World(tmp_path, delete_when=ANY_HOUR)
    world.clock.advance(1000 * HOUR_S)
    world.clean(2)
    for _ in range(2):
        assert (world.store.min_offset("Idle", 0), world.store.max_offset("Idle", 0)) == (
            count,
            count,
        )
        assert world.queue_files("Idle") == [last_file]
        assert world.store.get("Idle", 0, count).status is GetMessageStatus.OFFSET_OVERFLOW_ONE
        assert world.store.get("Idle", 0, 0).next_begin_offset == count
        crash(world.store)
        world.store = world.open()
    assert put_ok(world.store, "Idle", body=b"next").queue_offset == count
    assert bodies_of(world.store, "Idle") == [b"next"]
    world.store.close()


def test_request_306_deletes_queues_without_messages(tmp_path: Path) -> None:
    store = MessageStore.open(config_of(tmp_path), ManualClock(), store_host=STORE_HOST)
    for topic in ("Idle", "Waited", "SCHEDULE_TOPIC_XXXX"):
        put_ok(store, topic)
    store.close()
    world = World(tmp_path, delete_when=ANY_HOUR)
    world.store.arrivals.watch("Waited", 0)
    world.store.arrivals.watch("New", 0)
    assert asyncio.run(world.store.cleaning.delete_expired_queues()) == []
    world.clean()
    assert asyncio.run(world.store.cleaning.delete_expired_queues()) == ["Idle-0"]
    assert not (tmp_path / "consumequeue/Idle").exists()
    assert world.store.topics() == {"T", "Waited", "SCHEDULE_TOPIC_XXXX"}
    assert put_ok(world.store, "Idle", body=b"again").queue_offset == 0
    assert put_ok(world.store, "Waited").queue_offset == 1
    for end in (crash, MessageStore.close):
        end(world.store)
        world.store = world.open()
        assert bodies_of(world.store, "Idle") == [b"again"]
    world.store.close()


def test_a_topic_that_is_deleted_and_made_again_meanwhile_keeps_its_new_files(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    queue = world.store._queues.get("T", 0)
    assert queue is not None
    files = list(queue.files.files)
    at_once(world.store.delete_topic_in_slices("T"))
    put_ok(world.store, "T", body=b"new")
    for file in files:
        file.delete()
    assert world.queue_files() == [0]
    assert bodies_of(world.store) == [b"new"]
    world.clean()
    assert bodies_of(world.store) == [b"new"]
    world.store.close()


def test_a_log_that_begins_anew_while_its_oldest_file_is_looked_at_keeps_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    modified_ms = MappedFile.modified_ms

    def meanwhile(file: MappedFile) -> int:
        found = modified_ms(file)
        world.store._log.begin_at(100 * LOG_FILE)
        return found

    monkeypatch.setattr(MappedFile, "modified_ms", meanwhile)
    world.clean()
    assert world.log_files() == []
    assert world.store._log.max_phy_offset == 100 * LOG_FILE
    world.store.close()


def test_a_queue_that_begins_anew_while_it_is_looked_at_begins_at_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member of a group whose log begins anew empties its queues."""
    world = World(tmp_path, delete_when=ANY_HOUR)
    find_min_offset = ConsumeQueue.find_min_offset

    def meanwhile(queue: ConsumeQueue, min_phy_offset: int) -> int:
        found = find_min_offset(queue, min_phy_offset)
        queue.clear()
        return found

    monkeypatch.setattr(ConsumeQueue, "find_min_offset", meanwhile)
    world.clean()
    assert (world.store.min_offset("T", 0), world.store.max_offset("T", 0)) == (0, 0)
    world.store.close()


def test_a_file_that_is_deleted_during_a_sync_is_no_error(tmp_path: Path) -> None:
    file = MappedFile.create(tmp_path, 0, LOG_FILE, PosixDisk())
    file.delete()
    file.sync()
    file.delete()
    assert file.deleted


def test_a_full_disk_refuses_messages_until_it_has_space(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    disk = FillingDisk()
    world = World(tmp_path, disk)
    for ratio, taken in [
        (0.90, True),
        (0.91, False),
        (0.95, False),
        (0.90, True),
        (1.0, False),
        (None, True),
    ]:
        disk.ratio = ratio
        world.clock.advance(60)
        asyncio.run(world.store.cleaning.look())
        result = put(world.store)
        assert (result.status is PutStatus.PUT_OK) is taken
        assert world.store.writeable is taken
        if not taken:
            assert result.status is PutStatus.SERVICE_NOT_AVAILABLE
            assert f"CL: {ratio:5.2f} CQ:  0.10 INDEX:  0.10" in result.remark
            assert world.store.get("T", 0, 0).status is GetMessageStatus.FOUND
    assert told(caplog, "messages are refused") == ["", "still", "over", "", "over"]
    world.store.close()


def test_space_does_not_open_a_store_that_is_refused_for_another_reason(tmp_path: Path) -> None:
    disk = FillingDisk(0.99)
    store = MessageStore.open(
        config_of(tmp_path, broker_role="SLAVE"), ManualClock(), store_host=STORE_HOST, disk=disk
    )
    disk.ratio = 0.5
    asyncio.run(store.cleaning.look())
    store.close()
    asyncio.run(asyncio.sleep(0))
    assert not store.writeable


def test_hours_that_are_none_refuse_to_open_and_leave_everything(tmp_path: Path) -> None:
    with pytest.raises(StoreConfigError, match="deleteWhen=25"):
        MessageStore.open(
            config_of(tmp_path / "store", delete_when="25"), ManualClock(), store_host=STORE_HOST
        )
    assert not (tmp_path / "store").exists()


def test_what_was_damaged_in_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    """A slave would hand out nothing behind what is lost anywhere else."""
    world = World(tmp_path, delete_when=ANY_HOUR)
    damage, last = world.store.damage, 11 * LOG_FILE
    for at in (0, last):
        damage.note(at, 100, "it is", "here")
    damage.is_nowhere_intact(0)
    world.clean()
    world.check(5)
    assert damage.places == damage.awaited == {last: 100}
    world.store.close()


def test_index_files_follow(tmp_path: Path) -> None:
    world = World(tmp_path, delete_when=ANY_HOUR)
    asked: list[int] = []
    expired = MappedFile.create(tmp_path / "index", 20_231_114_221_320_000, 100, PosixDisk())

    def drop(min_phy_offset: int) -> list[MappedFile]:
        asked.append(min_phy_offset)
        return [expired]

    world.store.cleaning.drop_expired_index = drop
    world.clean(2)
    assert asked == [7 * LOG_FILE]
    assert not expired.path.exists()
    world.store.close()


def test_the_service_cleans_after_a_minute_and_then_every_ten_seconds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FillingDisk()
    world = World(tmp_path, disk, delete_commit_log_files_interval=100)
    clock = world.clock

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.001)

    async def script() -> None:
        await until(lambda: len(clock._sleepers) == 5)
        disk.ratio = 0.95
        clock.advance(1.1)
        await until(lambda: not world.store.writeable)
        disk.ratio = 0.8
        clock.advance(10)
        await until(lambda: world.store.writeable)
        assert world.store.min_phy_offset == 0
        clock.advance(50)
        await until(lambda: "begins at 8192" in caplog.text)
        assert world.store.min_phy_offset == LOG_FILE
        for number in range(2, 8):  # an interval between two files
            clock.advance(0.2)
            await until(partial(_logged, caplog, f"begins at {number * LOG_FILE}"))
        clock.advance(0.2)
        clock._time_ms += 3_600_000
        await until(lambda: len(clock._sleepers) == 5)
        clock.advance(10.1)
        await until(lambda: f"begins at {8 * LOG_FILE}" in caplog.text)

    async def whole() -> None:
        services = asyncio.ensure_future(world.store.run())
        work: Coroutine[Any, Any, None] = script()
        try:
            await asyncio.wait_for(work, 30)
        finally:
            services.cancel()
            await asyncio.wait([services])

    with caplog.at_level(logging.INFO):
        asyncio.run(whole())
    world.store.close()


def test_a_shorter_interval_counts_before_the_old_one_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, clean_resource_interval=3_600_000)
    rounds: list[float] = []

    async def clean() -> None:
        rounds.append(world.clock.monotonic())

    monkeypatch.setattr(world.store.cleaning, "clean", clean)

    async def run() -> None:
        service = asyncio.create_task(world.store.cleaning._clean_by_interval())
        await turns(3)
        world.clock.advance(60.0)
        await turns(3)
        world.config.clean_resource_interval = 10_000
        for _ in range(2):
            assert len(rounds) == 1
            world.clock.advance(5.0)
            await turns(3)
        assert len(rounds) == 2
        service.cancel()
        await asyncio.gather(service, return_exceptions=True)

    asyncio.run(run())
    world.store.close()
