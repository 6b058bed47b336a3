"""Crashes at any point: nothing acknowledged is lost, numbers are dense, queues and log agree."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message import BatchItem, MessageExt
from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.store.consume_queue import CQ_UNIT, FILLER_SIZE
from aiorocketmq.store.inspect import EntryKind, StoreDirectory

from ..store.world import BORN_HOST, NOW, bodies_of, crash, messages_of, open_store, put_ok
from .disks import LossyDisk

many = settings(max_examples=settings().max_examples * 2 // 5, suppress_health_check=[HealthCheck.function_scoped_fixture])
LOG_FILE = 8192
QUEUE_FILE = 200


def filled(root: Path, count: int = 60, *, topics: str = "TU") -> dict[str, list[bytes]]:
    """A store that is killed after some puts to three queues; several files of both kinds."""
    store = open_store(root)
    sent: dict[str, list[bytes]] = {topic: [] for topic in topics}
    for number in range(count):
        topic = topics[number % len(topics)]
        body = b"%d-" % number + bytes(number * 7 % 300)
        put_ok(store, topic, body=body, store_timestamp=NOW + number, properties={"TAGS": f"tag{number % 5}"})
        sent[topic].append(body)
    crash(store)
    return sent


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def log_file_of(root: Path, phy_offset: int) -> tuple[Path, int]:
    position = phy_offset % LOG_FILE
    return root / "commitlog" / f"{phy_offset - position:020d}", position


def units_of(root: Path) -> dict[tuple[str, int], list[tuple[int, int, int, int]]]:
    units: dict[tuple[str, int], list[tuple[int, int, int, int]]] = {}
    for file in StoreDirectory(root).queue_files():
        units.setdefault((file.topic, file.queue_id), []).extend(file.units)
    return units


def assert_consistent(root: Path) -> None:
    """Every unit points to a record that says the same, numbers are dense, every record has its unit."""
    directory = StoreDirectory(root)
    records = {record.commit_log_offset: record for record in directory.records()}
    units = units_of(root)
    pointed = set()
    for (topic, queue_id), numbered in units.items():
        assert [number for number, *_ in numbered] == list(range(numbered[0][0], numbered[0][0] + len(numbered)))
        for number, phy_offset, size, _code in numbered:
            if size != FILLER_SIZE:
                record = records[phy_offset]
                assert (record.topic, record.queue_id, record.queue_offset, record.store_size) == (
                    topic,
                    queue_id,
                    number,
                    size,
                )
                pointed.add(phy_offset)
    assert pointed == records.keys()


# -- the last record


@pytest.mark.parametrize("leads", [False, True], ids=["queue behind", "queue ahead"])
def test_a_torn_last_record_is_cut_at_every_byte(tmp_path: Path, leads: bool) -> None:
    sent = filled(tmp_path / "whole", 31)
    last = list(StoreDirectory(tmp_path / "whole").records())[-1]
    unit_at = last.queue_offset * 20
    unit_path = f"consumequeue/T/0/{unit_at - unit_at % QUEUE_FILE:020d}"
    # The unit is written last: only a power failure can bring it to the disk before the properties, which no CRC covers.
    lengths = range(92) if leads else [*range(92), *range(last.store_size - 15, last.store_size)]
    for kept in lengths:
        root = tmp_path / "torn"
        shutil.copytree(tmp_path / "whole", root)
        path, position = log_file_of(root, last.commit_log_offset)
        overwrite(path, position + kept, bytes(last.store_size - kept))
        if not leads:
            overwrite(root / unit_path, unit_at % QUEUE_FILE, bytes(20))
        store = open_store(root)
        assert store.max_phy_offset == last.commit_log_offset
        assert bodies_of(store, "T") == sent["T"][:-1]
        assert bodies_of(store, "U") == sent["U"]
        assert put_ok(store, body=b"after").queue_offset == len(sent["T"]) - 1
        store.close()
        assert_consistent(root)
        shutil.rmtree(root)


def test_a_last_record_whose_properties_end_with_zeros_is_kept_when_it_was_acknowledged(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store, properties=b"a\x01b\0")
    put_ok(store, properties=b"a\x01c\0\0")
    crash(store)
    store = open_store(tmp_path)
    assert [message.raw_properties for message in messages_of(store)] == [b"a\x01b\0", b"a\x01c\0\0"]
    store.close()


def test_a_kill_between_blank_and_next_record(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put_ok(store, body=bytes(8000))
    put_ok(store, body=b"next")
    crash(store)
    overwrite(tmp_path / "commitlog" / f"{LOG_FILE:020d}", 0, bytes(200))
    overwrite(tmp_path / "consumequeue/T/0" / ("0" * 20), 20, bytes(20))
    store = open_store(tmp_path)
    assert store.max_phy_offset == LOG_FILE
    assert put_ok(store, body=b"again").queue_offset == 1
    assert bodies_of(store)[1:] == [b"again"]
    crash(store)
    (tmp_path / "commitlog" / f"{LOG_FILE:020d}").unlink()
    store = open_store(tmp_path)
    assert store.max_phy_offset == LOG_FILE
    assert put_ok(store).queue_offset == 1
    store.close()
    assert_consistent(tmp_path)


def test_a_kill_while_a_file_is_made(tmp_path: Path) -> None:
    sent = filled(tmp_path)
    for folder in ("commitlog", "consumequeue/T/0"):
        last = sorted((tmp_path / folder).iterdir())[-1]
        size = last.stat().st_size
        last.with_name(f"{int(last.name) + size:020d}").write_bytes(b"")
    store = open_store(tmp_path)
    assert bodies_of(store, "T") == sent["T"]
    store.close()


# -- queues that lag, lead, or are gone


@many
@given(st.data())
def test_queues_are_completed_from_the_log(tmp_path: Path, data: st.DataObject) -> None:
    root = tmp_path / "store"
    shutil.rmtree(root, ignore_errors=True)
    sent = filled(root, data.draw(st.integers(1, 60)))
    for (topic, queue_id), units in units_of(root).items():
        kept = data.draw(st.integers(0, len(units)))
        folder = root / "consumequeue" / topic / str(queue_id)
        for path in sorted(folder.iterdir()):
            begin = max(0, min(QUEUE_FILE, kept * 20 - int(path.name)))
            overwrite(path, begin, bytes(QUEUE_FILE - begin))
        if kept == 0 and data.draw(st.booleans()):
            shutil.rmtree(folder)
    store = open_store(root)
    for topic, bodies in sent.items():
        assert bodies_of(store, topic) == bodies
        assert put_ok(store, topic).queue_offset == len(bodies)
    store.close()
    assert_consistent(root)


def test_units_of_records_that_are_gone_are_removed(tmp_path: Path) -> None:
    """Queues that are ahead of the log: the log lost its tail, the numbers are given again."""
    sent = filled(tmp_path)
    records = list(StoreDirectory(tmp_path).records())
    first_lost = records[35]
    for path in (tmp_path / "commitlog").iterdir():
        begin = max(0, first_lost.commit_log_offset - int(path.name))
        if begin < LOG_FILE:
            overwrite(path, begin, bytes(LOG_FILE - begin))
    store = open_store(tmp_path)
    assert store.max_phy_offset == first_lost.commit_log_offset
    assert bodies_of(store, "T") == sent["T"][:18]
    assert bodies_of(store, "U") == sent["U"][:17]
    assert put_ok(store, "T").queue_offset == 18
    store.close()
    assert_consistent(tmp_path)


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "crash"])
@pytest.mark.parametrize("lost", ["consumequeue", "consumequeue/T", "checkpoint"])
def test_what_can_be_made_again_may_be_deleted(tmp_path: Path, lost: str, clean: bool) -> None:
    sent = filled(tmp_path)
    if clean:
        open_store(tmp_path).close()
    path = tmp_path / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if lost == "consumequeue/T" and clean:
        (tmp_path / "abort").touch()  # a single queue is only missed after a crash
        (tmp_path / "checkpoint").unlink()
    store = open_store(tmp_path)
    assert {topic: bodies_of(store, topic) for topic in sent} == sent
    store.close()
    assert_consistent(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\xff" * 4096, bytes(100), bytes(8192)])
def test_any_checkpoint_will_do(tmp_path: Path, content: bytes) -> None:
    sent = filled(tmp_path)
    (tmp_path / "checkpoint").write_bytes(content)
    store = open_store(tmp_path)
    assert {topic: bodies_of(store, topic) for topic in sent} == sent
    store.close()


def test_the_checkpoint_saves_reading_and_is_not_believed_blindly(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(50):
        put_ok(store, body=b"%d" % number)
    asyncio.run(store.sync())
    safe = store.max_phy_offset
    for number in range(50, 60):
        put_ok(store, body=b"%d" % number)
    crash(store)
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert (store.recovery.start, store.recovery.records, store.recovery.full) == (safe, 10, False)
    crash(store)
    # Somebody takes away units that the checkpoint vouches for: it is noticed.
    first = tmp_path / "consumequeue/T/0" / ("0" * 20)
    for path in sorted(first.parent.iterdir())[4:]:
        path.write_bytes(bytes(QUEUE_FILE))
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert (store.recovery.start, store.recovery.full) == (0, True)
    assert bodies_of(store) == [b"%d" % number for number in range(60)]
    store.close()


def test_queues_that_belong_to_other_messages_are_noticed(tmp_path: Path) -> None:
    """Somebody mixed up folders; there are no new messages that would contradict."""
    store = open_store(tmp_path)
    for number in range(20):
        put_ok(store, "TU"[number % 2], body=b"%d" % number)
    asyncio.run(store.sync())
    crash(store)
    queues = tmp_path / "consumequeue"
    (queues / "T").rename(queues / "x")
    (queues / "U").rename(queues / "T")
    (queues / "x").rename(queues / "U")
    store = open_store(tmp_path)
    assert bodies_of(store, "T") == [b"%d" % number for number in range(0, 20, 2)]
    assert bodies_of(store, "U") == [b"%d" % number for number in range(1, 20, 2)]
    store.close()


def test_a_checkpoint_that_claims_too_much_is_corrected_before_the_log_gets_shorter(tmp_path: Path) -> None:
    """A disk that lied about its sync; then a second crash at once: there must be no gap in the log."""
    store = open_store(tmp_path)
    for number in range(10):
        put_ok(store, body=b"%d" % number)
    asyncio.run(store.sync())
    crash(store)
    first_lost = list(StoreDirectory(tmp_path).records())[7]
    path, position = log_file_of(tmp_path, first_lost.commit_log_offset)
    overwrite(path, position, bytes(LOG_FILE - position))
    for _ in range(2):
        store = open_store(tmp_path)
        assert store.max_phy_offset == first_lost.commit_log_offset
        assert len(messages_of(store)) == 7
        crash(store)


def test_after_a_crash_nothing_is_taken_for_durable(tmp_path: Path) -> None:
    filled(tmp_path)
    disk = LossyDisk()
    store = open_store(tmp_path, disk=disk)
    assert store.flushed_offset == 0
    asyncio.run(store.sync())
    assert store.flushed_offset == store.max_phy_offset
    for folder in ("commitlog", "consumequeue/T/0", "consumequeue/T", "consumequeue/U/0", "consumequeue", "."):
        assert disk.named[(tmp_path / folder).resolve()] == {path.name for path in (tmp_path / folder).iterdir()}
    written = [
        path for folder in ("commitlog", "consumequeue") for path in (tmp_path / folder).rglob("0*") if path.is_file()
    ]
    assert len(written) > 5
    assert all(disk.synced[path] == path.read_bytes() for path in written)
    store.close()
    store = open_store(tmp_path)
    assert store.flushed_offset == store.max_phy_offset
    store.close()


# -- damage


@many
@given(st.data())
def test_a_flipped_bit_costs_one_message(tmp_path: Path, data: st.DataObject) -> None:
    root = tmp_path / "store"
    shutil.rmtree(root, ignore_errors=True)
    filled(root)
    records = list(StoreDirectory(root).records())
    victim = data.draw(st.sampled_from(records[:-1]))
    path, position = log_file_of(root, victim.commit_log_offset)
    at = position + data.draw(st.integers(0, victim.store_size - 1))
    old = path.read_bytes()[at]
    overwrite(path, at, bytes([old ^ (1 << data.draw(st.integers(0, 7)))]))
    store = open_store(root)
    for topic in "TU":
        numbers = [message.queue_offset for message in messages_of(store, topic)]
        expected = [record.queue_offset for record in records if record.topic == topic]
        intact = [record.queue_offset for record in records if record.topic == topic and record is not victim]
        assert numbers in (expected, intact)  # a bit of the header, say the flag, may go unnoticed
        lost_last = numbers == intact and victim.topic == topic and victim.queue_offset == len(expected) - 1
        assert store.max_offset(topic, 0) == len(expected) - lost_last
    store.close()


def test_damage_in_the_middle_is_skipped_named_and_not_destroyed(tmp_path: Path) -> None:
    sent = filled(tmp_path)
    records = list(StoreDirectory(tmp_path).records())
    victims = records[20:23]
    path, position = log_file_of(tmp_path, victims[0].commit_log_offset)
    overwrite(path, position, b"\xee" * 8)
    overwrite(path, position + victims[0].store_size + 4, b"\xee" * 8)
    overwrite(path, position + victims[0].store_size + victims[1].store_size + 100, b"\xee" * 8)
    before = path.read_bytes()
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert store.recovery.damaged == [(victims[0].commit_log_offset, records[23].commit_log_offset)]
    gone = {victim.body for victim in victims}
    assert bodies_of(store, "T") == [body for body in sent["T"] if body not in gone]
    assert bodies_of(store, "U") == [body for body in sent["U"] if body not in gone]
    assert store.max_offset("T", 0) == len(sent["T"])
    assert path.read_bytes() == before
    store.close()
    damaged = [entry for entry in StoreDirectory(tmp_path).entries() if entry.kind is EntryKind.DAMAGED]
    assert [entry.phy_offset for entry in damaged] == [victims[0].commit_log_offset]


def test_stale_bytes_behind_the_end_never_become_records(tmp_path: Path) -> None:
    """Three records are written over by two longer ones: the rest of the third must not follow them."""
    filled(tmp_path / "a", 12, topics="T")
    records = list(StoreDirectory(tmp_path / "a").records())
    path, position = log_file_of(tmp_path / "a", records[6].commit_log_offset)
    overwrite(path, position + 100, b"\xee")  # damaged, and records behind it that are older than what comes now
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    overwrite(path, position, bytes(LOG_FILE - position))
    for root in (tmp_path / "a", tmp_path / "b"):
        open_store(root).close()
    path, position = log_file_of(tmp_path / "a", records[6].commit_log_offset)
    assert path.read_bytes()[position:].count(0) == LOG_FILE - position
    store = open_store(tmp_path / "b")
    assert store.max_offset("T", 0) == 12
    store.close()


def test_leftovers_of_a_log_that_was_cut_are_not_taken_for_records(tmp_path: Path) -> None:
    """The original does not clear what lies behind the end. Newer records end where an old one is still whole."""
    filled(tmp_path, 12, topics="T")
    records = list(StoreDirectory(tmp_path).records())
    path, position = log_file_of(tmp_path, records[6].commit_log_offset)
    newer = bytearray(path.read_bytes()[position : position + records[6].store_size])
    newer[56:64] = (NOW + 10_000).to_bytes(8, "big")
    overwrite(path, position, bytes(newer))
    overwrite(path, position + records[6].store_size, b"\xee" * 50)
    store = open_store(tmp_path)
    assert store.max_phy_offset == records[7].commit_log_offset
    assert store.max_offset("T", 0) == 7
    store.close()
    assert path.read_bytes()[position + records[6].store_size :].count(0) == LOG_FILE - position - records[6].store_size


def test_damage_without_crc_check_is_not_noticed(tmp_path: Path) -> None:
    filled(tmp_path)
    victim = list(StoreDirectory(tmp_path).records())[40]
    path, position = log_file_of(tmp_path, victim.commit_log_offset)
    overwrite(path, position + 88, b"\xee")
    store = open_store(tmp_path, check_crc_on_recover=False)
    assert store.recovery is not None
    assert not store.recovery.damaged
    crash(store)
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert len(store.recovery.damaged) == 1
    store.close()


def test_a_log_whose_oldest_files_are_gone(tmp_path: Path) -> None:
    """Retention took them: queues begin later, with filler units when they have to be made anew."""
    sent = filled(tmp_path)
    (tmp_path / "commitlog" / ("0" * 20)).unlink()
    left = [record for record in StoreDirectory(tmp_path).records() if record.topic == "T"]
    for rebuild in (False, True):
        if rebuild:
            shutil.rmtree(tmp_path / "consumequeue")
        store = open_store(tmp_path)
        assert store.min_phy_offset == LOG_FILE
        assert store.min_offset("T", 0) == left[0].queue_offset
        assert [message.queue_offset for message in messages_of(store)] == [record.queue_offset for record in left]
        assert store.get("T", 0, 0).next_begin_offset == left[0].queue_offset
        assert store.max_offset("T", 0) == len(sent["T"])
        crash(store)


# -- any history


operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("TUV"), st.integers(0, 1500)),
        st.tuples(st.just("batch"), st.sampled_from("TUV"), st.integers(1, 20)),
        st.tuples(st.just("half"), st.just("T"), st.integers(0, 100)),
        st.tuples(st.just("delete"), st.sampled_from("TUV"), st.just(0)),
        st.tuples(st.sampled_from(["crash", "stop", "sync"]), st.just(""), st.just(0)),
    ),
    max_size=40,
)


class History:
    """A store and what must be in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = open_store(root)
        self.expected: dict[str, list[bytes]] = {topic: [] for topic in "TUV"}
        self.number = 0

    def apply(self, action: str, topic: str, size: int) -> None:
        self.number += 1
        body = b"%d:" % self.number + bytes(size)
        now = NOW + self.number
        match action:
            case "put":
                put_ok(self.store, topic, body=body, store_timestamp=now)
                self.expected[topic].append(body)
            case "batch":
                items = [BatchItem(0, b"%d.%d" % (self.number, part), b"") for part in range(size)]
                fields = {"born_host": BORN_HOST, "born_timestamp": now, "store_timestamp": now}
                self.store.put_batch(topic, 0, items, **fields)  # type: ignore[arg-type]
                self.expected[topic] += [bytes(item.body) for item in items]
            case "half":
                put_ok(self.store, topic, body=body, sys_flag=4, store_timestamp=now)
            case "delete":
                self.store.delete_topic(topic)
                self.expected[topic] = []
            case "sync":
                asyncio.run(self.store.sync())
            case "crash":
                crash(self.store)
                self.store = open_store(self.root)
            case "stop":
                self.store.close()
                self.store = open_store(self.root)

    def check(self) -> None:
        for topic, bodies in self.expected.items():
            messages = messages_of(self.store, topic)
            assert [message.body for message in messages] == bodies
            assert [message.queue_offset for message in messages] == list(range(len(bodies)))


@many
@given(operations)
def test_any_history_of_puts_and_crashes(tmp_path: Path, operations: list[tuple[str, str, int]]) -> None:
    shutil.rmtree(tmp_path / "store", ignore_errors=True)
    history = History(tmp_path / "store")
    for operation in operations:
        history.apply(*operation)
        if operation[0] in ("crash", "stop"):
            # A topic that was deleted and not made again comes back after a crash until the broker cleans up.
            history.store.clean_unused_topics({topic for topic, bodies in history.expected.items() if bodies})
            history.check()
    history.check()
    history.store.close()


@many
@given(operations, st.integers(0, 2**32))
def test_power_failures_take_only_what_was_not_synced(
    tmp_path: Path, operations: list[tuple[str, str, int]], seed: int
) -> None:
    shutil.rmtree(tmp_path / "store", ignore_errors=True)
    disk = LossyDisk()
    store = open_store(tmp_path / "store", disk=disk)
    synced: dict[str, list[MessageExt]] = {topic: [] for topic in "TUV"}
    for number, (action, topic, size) in enumerate(operations):
        if action in ("put", "batch"):
            put_ok(store, topic, body=b"%d:" % number + bytes(size), store_timestamp=NOW + number)
        elif action == "half":
            put_ok(store, topic, body=bytes(size), sys_flag=4, store_timestamp=NOW + number)
        elif action == "sync":
            asyncio.run(store.sync())
            synced = {topic: messages_of(store, topic) for topic in "TUV"}
        elif action == "stop":
            store.close()
            store = open_store(tmp_path / "store", disk=disk)
            synced = {topic: messages_of(store, topic) for topic in "TUV"}
        elif action == "crash":
            crash(store)
            disk.fail(tmp_path / "store", random.Random(seed + number))
            store = open_store(tmp_path / "store", disk=disk)
            for topic, messages in synced.items():
                found = {message.queue_offset: message.body for message in messages_of(store, topic)}
                assert {message.queue_offset: message.body for message in messages}.items() <= found.items()
                if found:
                    assert store.max_offset(topic, 0) == max(found) + 1
    store.close()
    for path in (tmp_path / "store/commitlog").glob("*"):
        assert path.stat().st_size == LOG_FILE


def test_units_are_what_the_records_say(tmp_path: Path) -> None:
    """Helper of this file, checked: assert_consistent can fail."""
    filled(tmp_path)
    assert_consistent(tmp_path)
    path = tmp_path / "consumequeue/T/0" / ("0" * 20)
    phy_offset, size, code = CQ_UNIT.unpack(path.read_bytes()[:20])
    overwrite(path, 0, CQ_UNIT.pack(phy_offset, size + 1, code))
    with pytest.raises(AssertionError):
        assert_consistent(tmp_path)
    overwrite(path, 0, CQ_UNIT.pack(phy_offset + 1, size, code))
    with pytest.raises(KeyError):
        assert_consistent(tmp_path)
    record = next(StoreDirectory(tmp_path).records())
    assert decode_record(path.parents[3].joinpath("commitlog", "0" * 20).read_bytes()).body == record.body


# -- numbers that are wrong, or begin again


def rewrite_number(root: Path, record: MessageExt, number: int) -> None:
    path, position = log_file_of(root, record.commit_log_offset)
    overwrite(path, position + 20, number.to_bytes(8, "big", signed=True))


@pytest.mark.parametrize(
    ("number", "victim", "rebuilt"),
    [
        (number, victim, rebuilt)
        for number in (-1, 0, 3, 7, 1 << 40)
        for victim in (0, 1, 5, 18)
        for rebuilt in (False, True)
        if number != victim and not (rebuilt and number == 0)  # with nothing but the log: a topic that was made again
    ],
)
def test_a_wrong_number_costs_only_its_own_message(tmp_path: Path, number: int, victim: int, rebuilt: bool) -> None:
    sent = filled(tmp_path, 20, topics="T")["T"]
    rewrite_number(tmp_path, list(StoreDirectory(tmp_path).records())[victim], number)
    if rebuilt:
        shutil.rmtree(tmp_path / "consumequeue")
    store = open_store(tmp_path)
    assert [message.body for message in messages_of(store)] == sent[:victim] + sent[victim + 1 :]
    assert store.max_offset("T", 0) == 20
    store.close()


def test_the_last_number_is_believed_unless_it_is_far_off(tmp_path: Path) -> None:
    for number, expected in ((25, 26), (1 << 40, 19)):
        root = tmp_path / str(number)
        filled(root, 20, topics="T")
        rewrite_number(root, list(StoreDirectory(root).records())[-1], number)
        store = open_store(root)
        assert store.max_offset("T", 0) == expected
        store.close()


def test_a_topic_made_again_is_told_from_its_predecessor_by_the_log_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(25):
        put_ok(store, body=b"old%d" % number)
    store.delete_topic("T")
    for number in range(5):
        put_ok(store, body=b"new%d" % number)
    crash(store)
    shutil.rmtree(tmp_path / "consumequeue")
    store = open_store(tmp_path)
    assert bodies_of(store) == [b"new%d" % number for number in range(5)]
    store.close()


def test_a_record_whose_topic_became_a_path_is_left_out(tmp_path: Path) -> None:
    filled(tmp_path, 20, topics="T")
    records = list(StoreDirectory(tmp_path).records())
    path, position = log_file_of(tmp_path, records[4].commit_log_offset)
    overwrite(path, position + 88 + len(records[4].stored_body) + 1, b"/")
    store = open_store(tmp_path)
    assert [message.queue_offset for message in messages_of(store)] == [n for n in range(20) if n != 4]
    assert store.topics() == {"T"}
    store.close()


# -- what no CRC covers: the properties


def long_properties(number: int) -> dict[str, str]:
    return {"KEYS": f"key{number}", "a": "x" * 1500, "TAGS": f"tag{number}"}


@pytest.mark.parametrize("sector", [1, 2])
def test_a_sector_lost_in_the_properties_is_damage(tmp_path: Path, sector: int) -> None:
    """In the middle of the log, in front of records that are intact: a power failure may do that to what was not synced."""
    store = open_store(tmp_path)
    for number in range(12):
        put_ok(store, body=b"%d" % number, properties=long_properties(number), store_timestamp=NOW + number)
    crash(store)
    victim = list(StoreDirectory(tmp_path).records())[5]
    path, position = log_file_of(tmp_path, victim.commit_log_offset)
    begin = position - position % 512 + 512 * sector
    assert position + 100 < begin < begin + 512 < position + victim.store_size
    overwrite(path, begin, bytes(512))
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert store.recovery.damaged == [(victim.commit_log_offset, victim.commit_log_offset + victim.store_size)]
    assert [message.queue_offset for message in messages_of(store)] == [n for n in range(12) if n != 5]
    store.close()


def test_zeros_that_a_user_put_into_properties_are_no_damage(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(60):
        put_ok(
            store,
            body=bytes(number * 7),
            properties=b"a\x01" + bytes(number * 5) + b"\x02b\x01c",
            store_timestamp=NOW + number,
        )
    crash(store)
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert not store.recovery.damaged
    assert len(messages_of(store)) == 60
    store.close()


def test_a_rebuild_is_not_claimed_before_it_is_on_the_disk(tmp_path: Path) -> None:
    """Everything was synced, then the queues had to be made anew; the power fails before that is synced as well."""
    store = open_store(tmp_path)
    for number in range(60):
        put_ok(store, "TU"[number % 2], body=b"%d" % number)
    asyncio.run(store.sync())
    crash(store)
    queues = tmp_path / "consumequeue"
    for name, new in (("T", "x"), ("U", "T"), ("x", "U")):
        (queues / name).rename(queues / new)
    middle = sorted((queues / "T/0").iterdir())[1]
    before = middle.read_bytes()
    for _ in range(2):
        store = open_store(tmp_path)
        assert bodies_of(store, "T") == [b"%d" % number for number in range(0, 60, 2)]
        crash(store)
        middle.write_bytes(before)


def test_the_name_of_a_queue_file_that_a_half_message_made_is_synced(tmp_path: Path) -> None:
    disk = LossyDisk()
    store = open_store(tmp_path, disk=disk)
    put_ok(store, sys_flag=4)
    store.close()
    store = open_store(tmp_path, disk=disk)
    put_ok(store)
    asyncio.run(store.sync())
    folder = tmp_path / "consumequeue/T/0"
    assert disk.named[folder.resolve()] == {path.name for path in folder.iterdir()} != set()
    store.close()


def test_what_recovery_clears_is_durable(tmp_path: Path) -> None:
    """Otherwise a clean stop and a power failure later it is there again, and belongs to other messages."""
    store = open_store(tmp_path)
    put_ok(store, "T", body=b"lost")
    crash(store)
    path, _ = log_file_of(tmp_path, 0)
    overwrite(path, 4, b"\xee" * 4)
    disk = LossyDisk()
    store = open_store(tmp_path, disk=disk)
    for cleared in (path, tmp_path / "consumequeue/T/0" / ("0" * 20)):
        assert cleared.read_bytes().count(0) == len(cleared.read_bytes())
        assert disk.synced[cleared.resolve()] == cleared.read_bytes()
    store.close()
