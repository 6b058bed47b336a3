"""Any history of a store, on a disk that keeps no more than it has promised.

Hypothesis chooses what happens: messages, batches, half messages, full files, syncs, group commits,
expiry, deleted topics, clean stops, kills, power failures (also in the middle of a sync, a stop or
a recovery), bits that flip. After each opening:

* what was acknowledged under SYNC_FLUSH, or synced, is there under its number, and nothing that
  nobody sent;
* numbers are dense: only a message that was never safe may be missing in front of one that is
  there;
* consume queues and index say what the commit log says (``mqstore verify``);
* of a flipped bit ``mqstore verify`` names the file, and every other message is intact.

``TEST_SIZE=nightly`` runs twenty times as many examples (``make fuzz``).
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record import BLANK_SIZE, RecordError, decode_record
from aiorocketmq.remoting.protocol.record.batch import BatchItem
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.log.log_reader import Damage, LogReader
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.put import PutBatch
from aiorocketmq.store.model.status import GetMessageStatus
from aiorocketmq.tools.mqstore.verify import verify
from tests.stored import StoreDirectory

from ..sim import ManualClock
from ..store.world import BORN_HOST, STORE_HOST, config_of, crash, put_ok
from .disks import LossyDisk, PowerCut

QUEUES = [("T", 0), ("T", 1), ("U", 0)]
LOG_FILE = 8192
EXPIRED_H = 100
NAMED_FIELDS = ((0, 16), (20, 36), (84, 88))
NAMED_FIELDS_OF_HALF = ((0, 12), (28, 36), (84, 88))
"""Bytes of a record's head whose damage cannot go unnoticed: lengths, magic, CRC, queue, numbers;
not flags and times."""

a_queue = st.sampled_from(QUEUES)
a_seed = st.integers(0, 1 << 32)
after_syncs = st.integers(0, 12)


class Stored(NamedTuple):
    """A message that was put."""

    phy_offset: int
    end: int
    body: bytes


@contextmanager
def comes_to_its_end(seconds: int = 60) -> Iterator[None]:
    """What does not is an error like any other: hypothesis then looks for the shortest history that
    leads there."""

    def too_long(_number: int, _frame: object) -> None:
        raise AssertionError(f"the store was not open after {seconds} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class StoreMachine(RuleBasedStateMachine):
    """A store and what must be in it."""

    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="store-machine-"))
        self.disk = LossyDisk()
        self.clock = ManualClock()
        self.number = 0
        self.stored: dict[tuple[str, int], dict[int, Stored]] = {queue: {} for queue in QUEUES}
        self.ever: dict[tuple[str, int], set[tuple[int, bytes]]] = {
            queue: set() for queue in QUEUES
        }
        self.safe = 0
        """Everything below this place in the log was acknowledged as synced."""
        self.expired_below = 0
        self.damaged = False
        """There is a damaged place in the log for good ..."""
        self.flipped: set[bytes] = set()
        """Bodies of messages that may be lost, or say something else, from now on."""
        self.deleted: dict[tuple[str, int], int] = {}
        """Queues that were deleted with their topic: where the log ended then."""
        self.unreadable = 0
        """Records that a pull returned and that are none."""
        self.store = self.open()

    def teardown(self) -> None:
        if hasattr(self, "root"):
            crash(self.store)
            shutil.rmtree(self.root)

    def open(self) -> MessageStore:
        config = config_of(
            self.root, delete_when=";".join(map(str, range(24))), file_reserved_time=EXPIRED_H // 2,
            delete_commit_log_files_interval=0, delete_consume_queue_files_interval=0,
            disk_space_clean_forcibly_ratio=100,
            disk_space_warning_level_ratio=100, max_index_num=12,
        )  # fmt: skip
        with comes_to_its_end():
            store = MessageStore.open(config, self.clock, store_host=STORE_HOST, disk=self.disk)
        assert store.recovery is not None
        self.damaged |= bool(store.recovery.damaged)  # the next start does not read it again
        return store

    # -- what happens while it is open

    @rule(queue=a_queue, size=st.integers(0, 1200), keys=st.integers(0, 2))
    def put(self, queue: tuple[str, int], size: int, keys: int) -> None:
        body = self.body(size)
        properties = {"TAGS": f"t{self.number % 3}"} | (
            {"KEYS": " ".join(f"k{self.number}.{i}" for i in range(keys))} if keys else {}
        )
        result = put_ok(
            self.store,
            *queue,
            body=body,
            properties=properties,
            store_timestamp=self.clock.time_ms(),
        )
        self.note(
            queue, result.queue_offset, result.phy_offset, result.phy_offset + result.size, body
        )

    @rule(queue=a_queue, count=st.integers(1, 15))
    def batch(self, queue: tuple[str, int], count: int) -> None:
        bodies = [self.body(0) for _ in range(count)]
        properties = encode_properties({"KEYS": "b", "TAGS": "t"})
        result = self.store.put_batch(PutBatch(
            topic=queue[0], queue_id=queue[1],
            items=[BatchItem(0, body, properties) for body in bodies],
            born_host=BORN_HOST, born_timestamp=1, store_timestamp=self.clock.time_ms(),
        ))  # fmt: skip
        ends = [*result.phy_offsets[1:], result.phy_offset + result.size]
        for step, body in enumerate(bodies):
            self.note(queue, result.queue_offset + step, result.phy_offsets[step], ends[step], body)

    @rule(sys_flag=st.sampled_from([4, 8, 12]))
    def part_of_a_transaction(self, sys_flag: int) -> None:
        """Prepared and rolled back messages are in no queue, committed ones are."""
        body, queue = self.body(10), QUEUES[0]
        result = put_ok(
            self.store, *queue, body=body, sys_flag=sys_flag, store_timestamp=self.clock.time_ms()
        )
        if sys_flag == 8:
            self.note(
                queue, result.queue_offset, result.phy_offset, result.phy_offset + result.size, body
            )

    @rule(queue=a_queue, left=st.integers(0, 120))
    def fill_the_file(self, queue: tuple[str, int], left: int) -> None:
        """``left`` bytes stay free in the file: none, room for the blank only, or for a small
        record."""
        used = self.store.max_phy_offset % LOG_FILE
        size = LOG_FILE - used - BLANK_SIZE - 88 - 4 - left
        if used and 20 < size <= 7000:
            body = self.body(0).ljust(size, b".")
            result = put_ok(self.store, *queue, body=body, store_timestamp=self.clock.time_ms())
            self.note(
                queue, result.queue_offset, result.phy_offset, result.phy_offset + result.size, body
            )

    @rule()
    def group_commit(self) -> None:
        """SYNC_FLUSH: everything so far is acknowledged when it is on the disk."""
        answers: list[bool] = []
        end = self.store.max_phy_offset

        async def wait() -> None:
            self.store.flush.when_flushed(end, answers.append)
            service = asyncio.create_task(self.store.flush.run())
            while not answers:
                await asyncio.sleep(0)
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)

        asyncio.run(wait())
        assert answers == [True]
        self.safe = max(self.safe, end)

    @rule()
    def sync(self) -> None:
        asyncio.run(self.store.sync())
        self.safe = self.store.max_phy_offset

    @rule()
    def build_the_index(self) -> None:
        self.store._indexing.build_all()

    @rule(files=st.integers(1, 4))
    def expire(self, files: int) -> None:
        """The oldest files are too old, and are deleted."""
        paths = sorted((self.root / "commitlog").iterdir())
        now = self.clock.time_ms() / 1000
        for position, path in enumerate(paths):
            os.utime(path, times=(now - (EXPIRED_H * 3600 if position < files else 0),) * 2)
        if paths:
            oldest = int(paths[0].name)
            may_go = min(oldest + files * LOG_FILE, max(oldest, self.store.flushed_offset))
            self.expired_below = max(self.expired_below, may_go)
        asyncio.run(self.store.cleaning.clean())

    @rule(topic=st.sampled_from(["T", "U"]))
    def delete_topic(self, topic: str) -> None:
        """It begins at 0 again. What it had may come back in a recovery that reads the log; nobody
        counts on that."""
        at_once(self.store.delete_topic_in_slices(topic))
        self.disk.forget_folder(self.root / "consumequeue" / topic)
        for queue in QUEUES:
            if queue[0] == topic:
                self.stored[queue] = {}
                self.deleted[queue] = self.store.max_phy_offset

    @rule(minutes=st.integers(0, 100))
    def time_goes_by(self, minutes: int) -> None:
        self.clock.advance(minutes * 60)

    # -- how it ends

    @rule()
    def clean_restart(self) -> None:
        self.safe = self.store.max_phy_offset
        self.reopen(lambda: self.store.close())

    @rule()
    def kill(self) -> None:
        """SIGKILL: the page cache stays."""
        promised, self.safe = self.safe, self.store.max_phy_offset
        self.reopen(lambda: crash(self.store))
        self.safe = promised  # the power may still fail

    @rule(seed=a_seed)
    def power_failure(self, seed: int) -> None:
        self.reopen(lambda: self.fail(seed))

    @rule(seed=a_seed, syncs=after_syncs, what=st.sampled_from(["sync", "stop", "expire"]))
    def power_failure_while_something_is_synced(self, seed: int, syncs: int, what: str) -> None:
        self.disk.syncs_left = syncs
        try:
            match what:
                case "sync":
                    asyncio.run(self.store.sync())
                case "stop":
                    self.store.close()
                case "expire":
                    self.expire(2)
                case _:
                    raise AssertionError(what)
        except PowerCut:
            pass
        self.reopen(lambda: self.fail(seed))

    @rule(seed=a_seed, syncs=after_syncs)
    def power_failure_while_it_recovers(self, seed: int, syncs: int) -> None:
        self.fail(seed)
        self.disk.syncs_left = syncs
        try:
            self.store = self.open()
        except PowerCut:
            self.disk.fail(self.root, random.Random(seed + 1))
            self.damaged |= (
                self.has_gaps()
            )  # the start that was cut short may have seen and passed them: no other one tells
            self.store = self.open()
        else:
            crash(self.store)
        self.disk.syncs_left = -1
        self.reopen(lambda: crash(self.store))

    def fail(self, seed: int) -> None:
        crash(self.store)
        self.disk.fail(self.root, random.Random(seed))

    @precondition(lambda self: any(self.stored.values()) and not self.damaged)
    @rule(data=st.data(), how=st.sampled_from(["stop", "crash"]))
    def a_bit_flips(self, data: st.DataObject, how: str) -> None:
        """Somewhere in a record, while the store is closed."""
        self.store.close()
        self.safe = self.store.max_phy_offset or self.safe
        records = list(StoreDirectory(self.root).records())
        if not records:
            self.store = self.open()
            return
        victim = data.draw(st.sampled_from(records), label="record")
        at = data.draw(st.integers(0, victim.store_size - 1), label="byte")
        path = (
            self.root
            / "commitlog"
            / f"{victim.commit_log_offset - victim.commit_log_offset % LOG_FILE:020d}"
        )
        flip(
            path,
            victim.commit_log_offset % LOG_FILE + at,
            data.draw(st.integers(0, 7), label="bit"),
        )
        in_a_queue = not victim.sys_flag & 4
        fields = NAMED_FIELDS if in_a_queue else NAMED_FIELDS_OF_HALF
        body_end = 88 + len(victim.stored_body)
        topic_end = body_end + 1 + len(victim.topic) if in_a_queue else body_end
        covered = 88 <= at < topic_end or any(begin <= at < end for begin, end in fields)
        if covered and (victim.topic, victim.queue_id) not in self.deleted:
            told = self.findings()
            places = (
                f"commitlog/{path.name}",
                "consumequeue/",
                "checkpoint" if victim is records[-1] else "commitlog/",
            )
            assert any(line.startswith(places) for line in told), told
        if how == "crash":  # then it is read, and not only when somebody asks for it
            (self.root / "abort").touch()
            (self.root / "checkpoint").unlink()
        self.damaged = True
        self.flipped.add(victim.stored_body)
        self.store = self.open()
        self.check()
        if how == "crash":
            assert self.unreadable == 0, "a damaged record was taken for an intact one"

    # -- what must hold

    def body(self, size: int) -> bytes:
        self.number += 1
        return b"%d:" % self.number + bytes([self.number % 256]) * size

    def note(
        self, queue: tuple[str, int], offset: int, phy_offset: int, end: int, body: bytes
    ) -> None:
        following = max(self.stored[queue], default=offset - 1) + 1
        assert offset == following or (offset > following and (self.flipped or self.damaged))
        self.stored[queue][offset] = Stored(phy_offset, end, body)
        self.ever[queue].add((offset, body))

    def reopen(self, end: Any) -> None:
        end()
        self.store = self.open()
        self.check()

    def check(self) -> None:
        self.unreadable = 0
        min_phy_offset = self.store.min_phy_offset
        if (
            min_phy_offset > self.expired_below
        ):  # of a file that was never synced not even the name need be there
            assert self.safe <= self.expired_below, "the log has lost its oldest files"
            self.expired_below = min_phy_offset
        numbers = {}
        for queue, stored in self.stored.items():
            found = self.found(queue)
            unknown = {(offset, each.body) for offset, each in found.items()} - self.ever[queue]
            assert len(unknown) <= len(self.flipped)
            for offset, each in stored.items():
                if (
                    min_phy_offset <= each.phy_offset
                    and each.end <= self.safe
                    and each.body not in self.flipped
                ):
                    assert offset in found, f"{queue}: message {offset} is lost"
                    assert found[offset].body == each.body
            if found:  # what is damaged at its end keeps its number
                behind, last = self.store.max_offset(*queue), max(found)
                assert behind == last + 1 or (behind > last and (self.flipped or self.damaged))
            self.stored[queue] = {
                offset: each
                for offset, each in found.items()
                if (offset, each.body) in self.ever[queue]
                and each.phy_offset >= self.deleted.get(queue, 0)
            }
            numbers[queue] = sorted(found)
        self.safe = min(self.safe, self.store.max_phy_offset)
        if not self.damaged:
            for queue, found_numbers in numbers.items():
                first, behind = self.store.min_offset(*queue), self.store.max_offset(*queue)
                assert found_numbers == list(range(first, behind)), f"{queue} is not dense"

    def found(self, queue: tuple[str, int]) -> dict[int, Stored]:
        """What can be read, one by one: a damaged message must not hide the others."""
        found = {}
        for offset in range(self.store.min_offset(*queue), self.store.max_offset(*queue)):
            result = self.store.get(*queue, offset, 1)
            if result.status is not GetMessageStatus.FOUND:
                continue
            try:
                message = decode_record(result.body, check_crc=True)
            except RecordError:
                self.unreadable += 1
                continue
            if (message.queue_offset, message.topic, message.queue_id) == (offset, *queue):
                begin = message.commit_log_offset
                found[offset] = Stored(begin, begin + message.store_size, message.stored_body)
        return found

    def has_gaps(self) -> bool:
        """The disk has lost something of the log in front of what it has kept, as it may where
        nothing was acknowledged."""
        read = LogReader(StoreDirectory(self.root).log_files()).read()
        return any(
            isinstance(item, Damage) and not item.tail and item.begin >= self.safe for item in read
        )

    def findings(self) -> list[str]:
        told: list[str] = []
        verify(self.root, told.append, slots=10)
        # What was deleted cannot be told from what was lost.
        deleted = tuple(f"consumequeue/{topic}/{queue_id}" for topic, queue_id in self.deleted)
        return [line for line in told if not line.startswith(("note:", *deleted))]


class CheckedStoreMachine(StoreMachine):
    """Log, queues and index are held against each other after every stop."""

    def reopen(self, end: Any) -> None:
        super().reopen(end)
        if not self.damaged:
            self.store.close()
            assert self.findings() == []
            self.store = self.open()


def flip(path: Path, at: int, bit: int) -> None:
    """One bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


TestStore = CheckedStoreMachine.TestCase
TestStore.settings = settings(stateful_step_count=30, suppress_health_check=list(HealthCheck))


def test_a_start_that_was_cut_short_had_passed_a_lost_blank() -> None:
    """The blank at the end of a file and a record behind it were never acknowledged; the disk has
    lost only the blank. The first start says so, and is cut short when its checkpoint has claimed
    what it read: the next one has nothing to say.
    """
    machine = CheckedStoreMachine()
    machine.start()
    machine.batch(queue=("T", 1), count=5)
    machine.batch(queue=("U", 0), count=7)
    machine.fill_the_file(queue=("T", 0), left=0)
    machine.clean_restart()
    machine.batch(queue=("T", 0), count=1)
    machine.power_failure_while_it_recovers(seed=885920, syncs=7)
    assert machine.damaged
    machine.teardown()
