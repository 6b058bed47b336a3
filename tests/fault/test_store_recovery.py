"""Crashes at any point: nothing acknowledged is lost, numbers are dense, queues and log agree."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.record.batch import BatchItem
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.put import PutBatch
from tests.stored import EntryKind, StoreDirectory

from ..store.world import NOW, bodies_of, crash, messages_of, open_store, put_ok
from .damage import (
    LOG_FILE,
    QUEUE_FILE,
    assert_consistent,
    filled,
    log_file_of,
    overwrite,
    units_of,
)
from .disks import LossyDisk

QUEUE_ID = range(12, 16)
"""Where a record has it."""
many = settings(
    max_examples=settings().max_examples * 2 // 5,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


# -- the last record


@pytest.mark.parametrize("leads", [False, True], ids=["queue behind", "queue ahead"])
def test_a_torn_last_record_is_cut_at_every_byte(tmp_path: Path, leads: bool) -> None:
    sent = filled(tmp_path / "whole", 31)
    last = list(StoreDirectory(tmp_path / "whole").records())[-1]
    unit_at = last.queue_offset * 20
    unit_path = f"consumequeue/T/0/{unit_at - unit_at % QUEUE_FILE:020d}"
    # The unit is written last: only a power failure can bring it to the disk before the properties,
    # which no CRC covers.
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


@pytest.mark.parametrize("synced", [0, 30])
def test_units_of_a_batch_of_which_the_first_bytes_did_not_come(
    tmp_path: Path, synced: int
) -> None:
    """A kill while they were copied: the C library stores up to 64 bytes at the beginning last."""
    store = open_store(tmp_path / "whole")
    for number in range(41):
        put_ok(store, body=b"%d" % number)
        if number == synced - 1:
            asyncio.run(store.sync())
    items = [BatchItem(0, b"%d" % number, b"") for number in range(41, 49)]
    store.put_batch(
        PutBatch(
            topic="T",
            queue_id=0,
            items=items,
            born_host=bytes(8),
            born_timestamp=NOW,
            store_timestamp=NOW,
        )
    )
    crash(store)
    for missing in (4, 8, 16, 20, 24, 41, 48, 60, 63):
        root = tmp_path / "torn"
        shutil.copytree(tmp_path / "whole", root)
        at = 41 * 20
        overwrite(
            root / f"consumequeue/T/0/{at - at % QUEUE_FILE:020d}", at % QUEUE_FILE, bytes(missing)
        )
        store = open_store(root)
        assert bodies_of(store, "T") == [b"%d" % number for number in range(49)]
        assert put_ok(store).queue_offset == 49
        store.close()
        assert_consistent(root)
        shutil.rmtree(root)


@pytest.mark.parametrize("before", [0, 1], ids=["nothing before", "one before"])
@pytest.mark.parametrize("behind", [0, 1], ids=["nothing behind", "one behind"])
def test_a_topic_that_a_power_failure_took_ends_the_log_or_is_damage(
    tmp_path: Path, before: int, behind: int
) -> None:
    """Sizes and CRC are right, and there are no properties: a scan that believed such a record here
    and not there would not come to its end."""
    store = open_store(tmp_path)
    for _ in range(before):
        put_ok(store, body=b"before")
    victim = put_ok(store, "T", 1, b"victim")
    for _ in range(behind):
        put_ok(store, body=b"behind")
    crash(store)
    shutil.rmtree(tmp_path / "consumequeue")
    overwrite(tmp_path / "commitlog" / ("0" * 20), victim.phy_offset + victim.size - 3, b"\0")
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert store.recovery.damaged == [(victim.phy_offset, victim.phy_offset + victim.size)] * behind
    assert bodies_of(store) == [b"before"] * before + [b"behind"] * behind
    assert bodies_of(store, "T", 1) == []
    store.close()


def test_a_last_record_whose_properties_end_with_zeros_is_kept_when_it_was_acknowledged(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    put_ok(store, properties=b"a\x01b\0")
    put_ok(store, properties=b"a\x01c\0\0")
    crash(store)
    store = open_store(tmp_path)
    assert [message.raw_properties for message in messages_of(store)] == [
        b"a\x01b\0",
        b"a\x01c\0\0",
    ]
    store.close()


@pytest.mark.parametrize("lost", [1, 6, 7])
def test_the_last_bytes_of_a_last_record_are_lost_with_their_sector(
    tmp_path: Path, lost: int
) -> None:
    """A power failure may keep its unit."""
    store = open_store(tmp_path)
    put_ok(store, body=b"before")
    properties = b"UNIQ_KEY\x01" + bytes(range(65, 91))
    size = put_ok(store, properties=properties).size
    begin = store.max_phy_offset
    filling = -(begin + size - lost) % 512
    victim = put_ok(store, body=b"body" + bytes(filling), properties=properties)
    assert (victim.phy_offset + victim.size) % 512 == lost
    crash(store)
    overwrite(
        tmp_path / "commitlog" / ("0" * 20), victim.phy_offset + victim.size - lost, bytes(lost)
    )
    store = open_store(tmp_path)
    assert store.max_phy_offset == victim.phy_offset
    assert bodies_of(store) == [b"before", b"body"]
    assert put_ok(store, body=b"again").queue_offset == victim.queue_offset
    store.close()
    assert_consistent(tmp_path)


def test_a_place_that_is_damaged_is_one_of_a_file(tmp_path: Path) -> None:
    """Nobody could mend what goes over the border of two: a power failure took the blank at the end
    of one, and the first record of the next."""
    store = open_store(tmp_path)
    before = put_ok(store, body=bytes(6000))
    victim = put_ok(store, body=bytes(4000))
    assert victim.phy_offset == LOG_FILE
    put_ok(store, body=b"behind")
    crash(store)
    blank = before.phy_offset + before.size
    overwrite(tmp_path / "commitlog" / f"{0:020d}", blank, bytes(8))
    overwrite(tmp_path / "commitlog" / f"{LOG_FILE:020d}", 0, bytes(victim.size))
    (tmp_path / "checkpoint").unlink(missing_ok=True)
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert store.recovery.damaged == [
        (blank, LOG_FILE),
        (LOG_FILE, LOG_FILE + victim.size),
    ]
    assert bodies_of(store) == [bytes(6000), b"behind"]
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
    # Somebody takes away units that the checkpoint vouches for: it is noticed, and the log is read
    # from there on.
    first = tmp_path / "consumequeue/T/0" / ("0" * 20)
    for path in sorted(first.parent.iterdir())[4:]:
        path.write_bytes(bytes(QUEUE_FILE))
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert (store.recovery.records, store.recovery.full) == (60 - 39, False)
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


def test_a_checkpoint_that_claims_too_much_is_corrected_before_the_log_gets_shorter(
    tmp_path: Path,
) -> None:
    """A disk that lied about its sync; then a second crash at once: there must be no gap in the
    log."""
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
        assert store.max_offset("T", 0) == 10  # the numbers of the others are not given again
        crash(store)


def test_after_a_crash_nothing_is_taken_for_durable(tmp_path: Path) -> None:
    filled(tmp_path)
    disk = LossyDisk()
    store = open_store(tmp_path, disk=disk)
    assert store.flushed_offset == store.max_phy_offset
    for folder in (
        "commitlog",
        "consumequeue/T/0",
        "consumequeue/T",
        "consumequeue/U/0",
        "consumequeue",
        ".",
    ):
        assert disk.named[(tmp_path / folder).resolve()] == {
            path.name for path in (tmp_path / folder).iterdir()
        }
    written = [
        path
        for folder in ("commitlog", "consumequeue")
        for path in (tmp_path / folder).rglob("0*")
        if path.is_file()
    ]
    assert len(written) > 5
    assert all(disk.synced[path] == path.read_bytes() for path in written)
    store.close()
    store = open_store(tmp_path)
    assert store.flushed_offset == store.max_phy_offset
    store.close()


# -- damage


@many
@example(58, 26, 0)
@example(58, 27, 5)
@example(58, 20, 7)
@example(58, 4, 0)
@example(58, 12, 1)
@given(st.integers(0, 58), st.integers(0, 500), st.integers(0, 7))
def test_a_flipped_bit_costs_one_message(tmp_path: Path, number: int, byte: int, bit: int) -> None:
    root = tmp_path / "store"
    shutil.rmtree(root, ignore_errors=True)
    filled(root)
    records = list(StoreDirectory(root).records())
    victim = records[number]
    path, position = log_file_of(root, victim.commit_log_offset)
    byte %= victim.store_size
    data = path.read_bytes()[position : position + victim.store_size]
    overwrite(path, position + byte, bytes([data[byte] ^ (1 << bit)]))
    of_another_queue = byte in QUEUE_ID or byte == data.rindex(b"\x01" + victim.topic.encode()) + 1
    for _ in range(3):
        store = open_store(root)
        for topic in "TU":
            numbers = [message.queue_offset for message in messages_of(store, topic)]
            expected = [record.queue_offset for record in records if record.topic == topic]
            intact = [
                record.queue_offset
                for record in records
                if record.topic == topic and record is not victim
            ]
            assert numbers in (
                expected,
                intact,
            )  # a bit of the header, say the flag, may go unnoticed
            lost_last = (
                numbers == intact
                and victim.topic == topic
                and victim.queue_offset == len(expected) - 1
            )
            lost_number = lost_last and of_another_queue  # else its entry tells which one it was
            assert store.max_offset(topic, 0) == len(expected) - lost_number
        crash(store)
        (root / "checkpoint").unlink()


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
    damaged = [
        entry for entry in StoreDirectory(tmp_path).entries() if entry.kind is EntryKind.DAMAGED
    ]
    assert [entry.phy_offset for entry in damaged] == [victims[0].commit_log_offset]


@pytest.mark.parametrize(
    "stop", [crash, MessageStore.close], ids=["after a kill", "after a clean stop"]
)
def test_what_a_start_cuts_from_the_end_of_the_log_is_told(
    tmp_path: Path, stop: Callable[[MessageStore], None], caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path)
    put_ok(store)
    last = put_ok(store)
    stop(store)
    line = f"the commit log ends at {last.phy_offset}, what lay behind"
    store = open_store(tmp_path)
    stop(store)
    assert line not in caplog.text
    overwrite(tmp_path / "commitlog" / ("0" * 20), last.phy_offset + 4, b"\0")
    store = open_store(tmp_path)
    assert store.max_phy_offset == last.phy_offset
    assert [each.levelname for each in caplog.records if line in each.getMessage()] == ["WARNING"]
    store.close()


def test_stale_bytes_behind_the_end_never_become_records(tmp_path: Path) -> None:
    """Three records are written over by two longer ones: the rest of the third must not follow
    them."""
    filled(tmp_path / "a", 12, topics="T")
    records = list(StoreDirectory(tmp_path / "a").records())
    path, position = log_file_of(tmp_path / "a", records[6].commit_log_offset)
    overwrite(
        path, position + 100, b"\xee"
    )  # damaged, and records behind it that are older than what comes now
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
    """The original does not clear what lies behind the end. Newer records end where an old one is
    still whole."""
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
    assert (
        path.read_bytes()[position + records[6].store_size :].count(0)
        == LOG_FILE - position - records[6].store_size
    )


def test_damage_without_crc_check_is_not_noticed(tmp_path: Path) -> None:
    filled(tmp_path)
    victim = list(StoreDirectory(tmp_path).records())[40]
    path, position = log_file_of(tmp_path, victim.commit_log_offset)
    overwrite(path, position + 88, b"\xee")
    store = open_store(tmp_path, check_crc_on_recover=False)
    assert store.recovery is not None
    assert not store.recovery.damaged
    crash(store)
    (tmp_path / "checkpoint").unlink()  # or nothing is read
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
        assert [message.queue_offset for message in messages_of(store)] == [
            record.queue_offset for record in left
        ]
        assert store.get("T", 0, 0).next_begin_offset == left[0].queue_offset
        assert store.max_offset("T", 0) == len(sent["T"])
        crash(store)
