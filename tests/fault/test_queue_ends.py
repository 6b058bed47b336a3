"""``queueends``: what it knows, who else may have worked on the directory since, and what deleting
does."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store import message_store
from aiorocketmq.store.disk.checkpoint import Checkpoint
from aiorocketmq.store.disk.mapped_file_queue import MappedFileQueue
from aiorocketmq.store.disk.system_disk import PosixDisk
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.queues.consume_queue import ConsumeQueue
from aiorocketmq.store.queues.queue_ends import KnownEnds, QueueEnd, QueueEnds

from ..sim import ManualClock, told_of
from ..store.world import NOW, bodies_of, crash, open_store, put_ok

OWN_PART = 4056


def known_in(root: Path) -> KnownEnds | None:
    return QueueEnds(root, PosixDisk(), told_of()).load()


def fill(
    store: MessageStore, queue: tuple[str, int], count: int, name: str, *, at: int = 0
) -> list[bytes]:
    bodies = [f"{name}{number}".encode() for number in range(count)]
    for number, body in enumerate(bodies):
        put_ok(store, *queue, body=body, store_timestamp=NOW + at + number)
    return bodies


class TheOriginal:
    """Does something to a store, and leaves it as a broker of the original would: it knows nothing
    of ``queueends``, and of the checkpoint it writes three timestamps.
    """

    def __init__(self, root: Path) -> None:
        self._ends = root / "queueends"
        self._checkpoint = root / "checkpoint"
        self._before = self._ends.read_bytes(), self._checkpoint.read_bytes()
        self.store = open_store(root)

    def close(self, *, deleted: tuple[str, ...] = ()) -> None:
        """``deleted``: folders of topics; they stay, empty."""
        self.store.close()
        root = self._ends.parent
        for topic in deleted:
            (root / "consumequeue" / topic).mkdir(exist_ok=True)
        ends, checkpoint = self._before
        self._ends.write_bytes(ends)
        self._checkpoint.write_bytes(self._checkpoint.read_bytes()[:24] + checkpoint[24:])


def configure(root: Path, *topics: str) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(
        json.dumps({"topicConfigTable": {topic: {} for topic in topics}})
    )


@pytest.fixture
def stopped(tmp_path: Path) -> tuple[Path, dict[tuple[str, int], list[bytes]]]:
    """A store with two topics, stopped in order."""
    store = open_store(tmp_path)
    sent = {queue: fill(store, queue, 25, f"{queue}-") for queue in (("T", 0), ("T", 1), ("U", 0))}
    store.close()
    return tmp_path, sent


def test_what_it_says(stopped: tuple[Path, dict[tuple[str, int], list[bytes]]]) -> None:
    root, sent = stopped
    known = known_in(root)
    assert known is not None
    checkpoint = Checkpoint(root / "checkpoint", PosixDisk())
    checkpoint.load()
    assert known.belongs_to(checkpoint)
    assert known.queue_file_size == 200
    assert {
        key: (end.first_offset, end.next_offset) for key, end in known.queues.items()
    } == dict.fromkeys(sent, (0, 25))
    assert max(end.phy_end for end in known.queues.values()) == known.safe_phy_offset
    data = (root / "queueends").read_bytes()
    for at in range(len(data)):
        for changed in (data[:at], data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]):
            (root / "queueends").write_bytes(changed)
            assert known_in(root) is None
    (root / "queueends").unlink()
    assert known_in(root) is None


def test_a_sealed_file_whose_names_reach_over_its_end_says_nothing(
    stopped: tuple[Path, dict[tuple[str, int], list[bytes]]],
) -> None:
    root, _ = stopped
    data = bytearray((root / "queueends").read_bytes()[:-4])
    at = data.index(b"\x01T\0\0\0\0")
    for length in (0xFF, 0xF0, 0xB0):
        data[at] = length
        (root / "queueends").write_bytes(data + zlib.crc32(data).to_bytes(4, "big"))
        assert known_in(root) is None


def test_a_deletion_is_noted_behind_it_and_may_be_cut(
    stopped: tuple[Path, dict[tuple[str, int], list[bytes]]],
) -> None:
    root, _ = stopped
    ends = QueueEnds(root, PosixDisk(), told_of())
    length = (root / "queueends").stat().st_size
    ends.forget([("U", 0), ("T", 1)])
    data = (root / "queueends").read_bytes()
    every = {("T", 0), ("T", 1), ("U", 0)}
    for kept, gone in (
        (len(data), {("U", 0), ("T", 1)}),
        (len(data) - 1, {("U", 0)}),
        (length + 3, set()),
    ):
        (root / "queueends").write_bytes(data[:kept])
        known = known_in(root)
        assert known is not None
        assert set(known.queues) == every - gone


def test_a_queue_that_is_deleted_while_the_file_is_written_is_not_in_it(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for topic in "TUV":
        fill(store, (topic, 0), 3, topic)
    ends, checkpoint = store._ends, store._checkpoint
    asyncio.run(store.sync())
    snapshot = ends.snapshot(store._queues.all())
    for _ in snapshot.steps():
        at_once(store.delete_topic_in_slices("T"))
    at_once(store.delete_topic_in_slices("U"))
    ends.save(snapshot, checkpoint, 200)
    known = known_in(tmp_path)
    assert known is not None
    assert set(known.queues) == {("V", 0)}
    store.close()


def test_many_queues_are_looked_at_in_steps(tmp_path: Path) -> None:
    queues = [
        ConsumeQueue("T", number, MappedFileQueue(tmp_path, 200, PosixDisk()))
        for number in range(1000)
    ]
    snapshot = QueueEnds(tmp_path, PosixDisk(), told_of()).snapshot(queues)
    assert sum(1 for _ in snapshot.steps()) >= 5


# -- starts


def test_the_second_start_after_a_kill_reads_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    bodies = fill(store, ("T", 0), 50, "a")
    crash(store)
    for records in (50, 0, 0):
        store = open_store(tmp_path)
        assert store.recovery is not None
        assert store.recovery.records == records
        assert bodies_of(store) == bodies
        crash(store)


def test_a_start_that_finds_nothing_wrong_reads_no_record(
    stopped: tuple[Path, dict[tuple[str, int], list[bytes]]], caplog: pytest.LogCaptureFixture
) -> None:
    root, _ = stopped
    store = open_store(root)
    assert store.recovery is not None
    assert (store.recovery.records, store.recovery.repaired) == (0, {})
    store.close()
    assert "made again" not in caplog.text


def test_what_is_made_again_is_told_in_a_line_for_each_topic(
    stopped: tuple[Path, dict[tuple[str, int], list[bytes]]], caplog: pytest.LogCaptureFixture
) -> None:
    root, sent = stopped
    shutil.rmtree(root / "consumequeue/T")
    (root / "consumequeue/U/0" / f"{200:020d}").unlink()
    store = open_store(root)
    assert {queue: bodies_of(store, *queue) for queue in sent} == sent
    told = [
        record.getMessage()
        for record in caplog.records
        if record.getMessage().startswith("made again")
    ]
    assert told == [
        "made again 2 consume queues of T: queue 0: it is gone, it had 0..25; now 0..25; "
        "queue 1: it is gone, it had 0..25; now 0..25",
        "made again 1 consume queues of U: queue 0: it ends at 10, it had 0..25; now 0..25",
    ]
    store.close()


def test_files_behind_a_hole_that_is_newer_than_the_checkpoint_go(tmp_path: Path) -> None:
    """A power failure took the name of a file that was never synced, and not that of the next
    one."""
    store = open_store(tmp_path)
    fill(store, ("T", 0), 5, "a")
    asyncio.run(store.sync())
    fill(store, ("T", 0), 20, "b")
    end = store.max_phy_offset
    crash(store)
    (tmp_path / "consumequeue/T/0" / f"{200:020d}").unlink()
    log = tmp_path / "commitlog" / ("0" * 20)
    data = log.read_bytes()
    log.write_bytes(data[: end // 2].ljust(len(data), b"\0"))  # and most of the messages
    for _ in range(2):
        store = open_store(tmp_path)
        crash(store)
    folder = tmp_path / "consumequeue/T/0"
    starts = sorted(int(path.name) for path in folder.iterdir())
    assert starts == list(range(0, 200 * len(starts), 200))


def test_numbers_are_not_given_again_when_even_the_log_has_lost_them(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, ("T", 0), 25, "t")
    fill(store, ("U", 0), 1, "u")
    last = max(end.phy_end for key, end in _ends_of(store).items() if key == ("T", 0))
    store.close()
    log = tmp_path / "commitlog" / ("0" * 20)
    data = bytearray(log.read_bytes())
    data[last - 300 : last] = bytes(300)  # the last four messages of T, in front of the one of U
    log.write_bytes(data)
    shutil.rmtree(tmp_path / "consumequeue/T")
    for _ in range(2):
        store = open_store(tmp_path)
        assert len(bodies_of(store)) == 21
        assert store.max_offset("T", 0) == 25
        crash(store)
    store = open_store(tmp_path)
    assert put_ok(store).queue_offset == 25
    store.close()


def _ends_of(store: MessageStore) -> dict[tuple[str, int], QueueEnd]:
    return {
        (queue.topic, queue.queue_id): QueueEnd(
            queue.max_offset, queue.known_end(), queue.min_offset
        )
        for queue in store._queues.all()
    }


def test_a_queue_whose_messages_have_all_expired_goes_on_with_its_number(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, ("T", 0), 25, "t")
    fill(store, ("U", 0), 100, "u")
    store.close()
    (tmp_path / "commitlog" / ("0" * 20)).unlink()
    shutil.rmtree(tmp_path / "consumequeue/T")
    store = open_store(tmp_path)
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (25, 25)
    store.close()
    store = open_store(tmp_path)
    assert put_ok(store).queue_offset == 25
    store.close()


# -- topics that are deleted


@pytest.mark.parametrize("again", [0, 3])
def test_a_topic_that_was_deleted_does_not_come_back(tmp_path: Path, again: int) -> None:
    store = open_store(tmp_path)
    fill(store, ("T", 0), 25, "old")
    kept = fill(store, ("U", 0), 5, "u")
    asyncio.run(store.sync())
    at_once(store.delete_topic_in_slices("T"))
    bodies = fill(store, ("T", 0), again, "new")
    crash(store)
    store = open_store(tmp_path)
    assert (bodies_of(store), bodies_of(store, "U")) == (bodies, kept)
    assert put_ok(store).queue_offset == again
    store.close()


# -- after a broker of the original


def test_messages_that_the_original_took_are_no_damage(
    stopped: tuple[Path, dict[tuple[str, int], list[bytes]]], caplog: pytest.LogCaptureFixture
) -> None:
    root, sent = stopped
    original = TheOriginal(root)
    for queue in (("T", 0), ("V", 0)):
        sent[queue] = sent.get(queue, []) + fill(original.store, queue, 30, "theirs", at=1000)
    original.close()
    caplog.clear()
    store = open_store(root)
    assert {queue: bodies_of(store, *queue) for queue in sent} == sent
    assert store.recovery is not None
    assert (store.recovery.records, store.recovery.repaired) == (0, {})
    store.close()
    known = known_in(root)
    assert known is not None
    assert known.queues["T", 0].next_offset == 55


@pytest.mark.parametrize("damaged", [False, True], ids=["whole", "damaged"])
def test_a_topic_that_the_original_deleted_and_made_again_starts_at_0(
    stopped: tuple[Path, dict[tuple[str, int], list[bytes]]], damaged: bool
) -> None:
    root, sent = stopped
    original = TheOriginal(root)
    at_once(original.store.delete_topic_in_slices("T"))
    sent["T", 0], sent["T", 1] = fill(original.store, ("T", 0), 30, "again", at=1000), []
    original.close(deleted=("T",))
    configure(root, "T", "U")
    if damaged:
        (root / "consumequeue/T/0" / f"{400:020d}").unlink()
        shutil.rmtree(root / "consumequeue/U/0")
    for _ in range(2):
        store = open_store(root)
        assert {queue: bodies_of(store, *queue) for queue in sent} == sent
        crash(store)
    store = open_store(root)
    assert [put_ok(store, "T", queue_id).queue_offset for queue_id in (0, 1)] == [30, 0]
    store.close()


def test_a_topic_that_the_original_only_deleted_stays_deleted(
    stopped: tuple[Path, dict[tuple[str, int], list[bytes]]], caplog: pytest.LogCaptureFixture
) -> None:
    """The timestamps of the checkpoint do not tell."""
    root, sent = stopped
    configure(root, "U")
    shutil.rmtree(root / "consumequeue/T")
    (root / "consumequeue/T").mkdir()
    store = open_store(root)
    assert bodies_of(store, "T", 0) == []
    assert bodies_of(store, "U", 0) == sent["U", 0]
    assert "it was deleted" in caplog.text
    assert put_ok(store, "T").queue_offset == 0
    store.close()


# -- what a recovery has to sync


class CountingDisk(PosixDisk):
    """Remembers the folders whose names were synced."""

    def __init__(self) -> None:
        self.folders: set[str] = set()

    def sync_directory(self, path: Path) -> None:
        self.folders.add(path.name)
        super().sync_directory(path)


def test_names_that_the_checkpoint_knows_are_not_synced_again(tmp_path: Path) -> None:
    """With tens of thousands of queues that would take minutes."""
    store = open_store(tmp_path)
    fill(store, ("T", 0), 5, "t")
    fill(store, ("U", 0), 5, "u")
    asyncio.run(store.sync())
    fill(store, ("U", 0), 10, "u")  # makes another file
    crash(store)
    disk = CountingDisk()
    store = open_store(tmp_path, disk)
    assert "U" in disk.folders
    assert "T" not in disk.folders
    store.close()


def test_many_new_names_are_synced_behind_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    fill(store, ("T", 0), 5, "t")
    crash(store)
    monkeypatch.setattr(message_store, "_MOST_NAMES_AT_START", 0)
    store = open_store(tmp_path)
    assert not (tmp_path / "queueends").exists()

    async def run() -> None:
        services = asyncio.ensure_future(store.run())
        clock = store._clock
        assert isinstance(clock, ManualClock)
        while not (tmp_path / "queueends").exists():
            clock.advance(0.1)
            # the clock stands still while the disk works, however long that takes
            await asyncio.get_running_loop().run_in_executor(store.flush._threads, int)
        assert clock.monotonic() < 1000 + 10  # and not a minute
        services.cancel()
        await asyncio.wait([services])

    asyncio.run(asyncio.wait_for(run(), 20))
    store.close()


def test_a_topic_that_is_deleted_while_two_syncs_overlap_is_not_missed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store, "Gone")
    put_ok(store, "T")

    async def overlap() -> None:
        first = asyncio.create_task(store.sync())
        await asyncio.sleep(0)
        at_once(store.delete_topic_in_slices("Gone"))
        store._ends.snapshot(store._queues.all())  # as another sync begins
        await first

    asyncio.run(overlap())
    known = store._ends.load()
    assert known is not None
    assert list(known.queues) == [("T", 0)]
    store.close()


def test_files_behind_a_hole_that_nobody_needs_do_not_stay(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for _ in range(5):
        put_ok(store)
    store.close()
    folder = tmp_path / "consumequeue" / "T" / "0"
    (folder / f"{400:020d}").write_bytes(b"\x07" * 200)
    open_store(tmp_path).close()
    assert [path.name for path in folder.iterdir()] == [f"{0:020d}"]


# -- what lies behind the ends


LONG_QUEUES: dict[str, Any] = {"mapped_file_size_consume_queue": 20 * 2000}


@pytest.mark.parametrize("stop", ["clean stop", "kill"])
@pytest.mark.parametrize("at", [25 * 20, 30 * 20 + 7, 4095, 4096, 39_999])
def test_what_lies_behind_the_end_of_a_queue_is_cleared(tmp_path: Path, at: int, stop: str) -> None:
    store = open_store(tmp_path, **LONG_QUEUES)
    bodies = fill(store, ("T", 0), 20, "a")
    asyncio.run(store.sync())
    bodies += fill(store, ("T", 0), 5, "b")
    store.close() if stop == "clean stop" else crash(store)
    path = tmp_path / "consumequeue" / "T" / "0" / ("0" * 20)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\x07")
    store = open_store(tmp_path, **LONG_QUEUES)
    assert bodies_of(store) == bodies
    assert not path.read_bytes()[25 * 20 :].strip(b"\0")
    store.close()


class ReservingDisk(PosixDisk):
    """Remembers for which files space was reserved."""

    def __init__(self) -> None:
        self.paths: list[Path] = []

    def allocate(self, fd: int, offset: int, length: int) -> None:
        self.paths.append(Path(os.readlink(f"/proc/self/fd/{fd}")))
        super().allocate(fd, offset, length)


def test_entries_that_a_kill_has_left_are_not_written_again(tmp_path: Path) -> None:
    """With tens of thousands of queues that would take seconds."""
    store = open_store(tmp_path, **LONG_QUEUES)
    sent = {("T", number): fill(store, ("T", number), 3, "a") for number in range(20)}
    asyncio.run(store.sync())
    for queue, bodies in sent.items():
        bodies += fill(store, queue, 2, "b")
    crash(store)
    disk = ReservingDisk()
    store = open_store(tmp_path, disk, **LONG_QUEUES)
    assert store.recovery is not None
    assert store.recovery.records == 40
    assert {queue: bodies_of(store, *queue) for queue in sent} == sent
    assert not [path for path in disk.paths if "consumequeue" in path.parts]
    crash(store)
    store = open_store(tmp_path, **LONG_QUEUES)
    assert store.recovery is not None
    assert store.recovery.records == 0
    assert [put_ok(store, *queue).queue_offset for queue in sent] == [5] * 20
    store.close()
