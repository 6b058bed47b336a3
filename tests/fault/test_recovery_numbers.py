"""Records and units that contradict each other, and damage that the body's CRC does not cover."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from aiorocketmq.remoting.protocol.record import decode_record
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.queues.consume_queue import CQ_UNIT
from aiorocketmq.store.services.flush import FlushService
from tests.stored import StoreDirectory

from ..store.world import NOW, bodies_of, crash, messages_of, open_store, put_ok
from .damage import assert_consistent, filled, log_file_of, overwrite
from .disks import LossyDisk, PowerCut

many = settings(
    max_examples=settings().max_examples * 2 // 5,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


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
    assert (
        decode_record(path.parents[3].joinpath("commitlog", "0" * 20).read_bytes()).body
        == record.body
    )


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
        if number != victim
        and not (rebuilt and number == 0)  # with nothing but the log: a topic that was made again
    ],
)
def test_a_wrong_number_costs_only_its_own_message(
    tmp_path: Path, number: int, victim: int, rebuilt: bool
) -> None:
    sent = filled(tmp_path, 20, topics="T")["T"]
    rewrite_number(tmp_path, list(StoreDirectory(tmp_path).records())[victim], number)
    if rebuilt:
        shutil.rmtree(tmp_path / "consumequeue")
    store = open_store(tmp_path)
    assert [message.body for message in messages_of(store)] == sent[:victim] + sent[victim + 1 :]
    assert store.max_offset("T", 0) == 20
    store.close()


@pytest.mark.parametrize("lost", [(5, 7), (5, 7, 8, 9), (1, 3, 5, 6, 8)])
def test_a_message_between_two_losses_is_kept(tmp_path: Path, lost: tuple[int, ...]) -> None:
    sent = filled(tmp_path, 20, topics="T")["T"]
    records = list(StoreDirectory(tmp_path).records())
    for victim in lost:
        overwrite(*log_file_of(tmp_path, records[victim].commit_log_offset), bytes(8))
    shutil.rmtree(tmp_path / "consumequeue")
    store = open_store(tmp_path)
    kept = {message.queue_offset: message.body for message in messages_of(store)}
    assert kept == {number: body for number, body in enumerate(sent) if number not in lost}
    assert store.max_offset("T", 0) == 20
    store.close()


@pytest.mark.parametrize("known", [True, False], ids=["with fillers", "damaged at the same time"])
@pytest.mark.parametrize("lost_files", [1, 2])
@pytest.mark.parametrize(
    "lost",
    [
        (),
        (0,),
        (8,),
        (9,),
        (9, 19),
        (8, 9),
        range(9),
        range(9, 15),
        range(9, 20),
        (10,),
        (10, 20),
        (20,),
        (21,),
    ],
    ids=str,
)
def test_the_first_files_of_a_queue_are_lost_and_messages_too(
    tmp_path: Path, lost: Collection[int], lost_files: int, known: bool
) -> None:
    """The message in front of the first file that is left, or the first one in it, cannot tell any
    more."""
    sent = filled(tmp_path, 35, topics="T")["T"]
    records = list(StoreDirectory(tmp_path).records())
    for victim in lost:
        overwrite(*log_file_of(tmp_path, records[victim].commit_log_offset), bytes(8))
    if known:
        crash(open_store(tmp_path))
    for path in sorted((tmp_path / "consumequeue/T/0").iterdir())[:lost_files]:
        path.unlink()
    store = open_store(tmp_path)
    kept = {message.queue_offset: message.body for message in messages_of(store)}
    assert kept == {number: body for number, body in enumerate(sent) if number not in lost}
    assert store.max_offset("T", 0) == 35
    store.close()


def made_again(root: Path, before: int, after: int) -> None:
    """A crashed store with messages ``old0``, ... of a topic that was deleted, and ``new0``, ... of
    the same."""
    store = open_store(root)
    for number in range(before):
        put_ok(store, body=b"old%d" % number)
    at_once(store.delete_topic_in_slices("T"))
    for number in range(after):
        put_ok(store, body=b"new%d" % number)
    crash(store)


@pytest.mark.parametrize("lost", [(25,), (34,), (35,), range(34, 40)], ids=str)
def test_the_first_file_of_a_topic_made_again_is_lost_and_messages_too(
    tmp_path: Path, lost: Collection[int]
) -> None:
    made_again(tmp_path, 25, 25)
    records = list(StoreDirectory(tmp_path).records())
    for victim in lost:
        overwrite(*log_file_of(tmp_path, records[victim].commit_log_offset), bytes(8))
    (tmp_path / "consumequeue/T/0" / ("0" * 20)).unlink()
    store = open_store(tmp_path)
    kept = {message.queue_offset: message.body for message in messages_of(store)}
    assert {b"new%d" % number for number in range(25) if number + 25 not in lost} <= set(
        kept.values()
    )
    assert all(body == b"new%d" % number for number, body in kept.items())
    store.close()


@pytest.mark.parametrize("number", [-1, 0, 18, 25, 1 << 40])
def test_the_last_number_is_not_believed_against_its_entry(tmp_path: Path, number: int) -> None:
    """The next message gets the next number: none is skipped, and none is given a second time."""
    sent = filled(tmp_path, 20, topics="T")["T"]
    rewrite_number(tmp_path, list(StoreDirectory(tmp_path).records())[-1], number)
    for _ in range(2):
        store = open_store(tmp_path)
        assert bodies_of(store) == sent[:-1]
        assert store.max_offset("T", 0) == 20
        crash(store)
        (tmp_path / "checkpoint").unlink()  # everything is read once more
    store = open_store(tmp_path)
    put_ok(store, body=b"next")
    store.close()
    (tmp_path / "checkpoint").unlink()
    store = open_store(tmp_path)
    assert [(message.queue_offset, message.body) for message in messages_of(store)][-1] == (
        20,
        b"next",
    )
    assert store.max_offset("T", 0) == 21
    store.close()


def test_the_last_number_is_believed_unless_it_is_far_off_where_nothing_else_tells(
    tmp_path: Path,
) -> None:
    for number, expected in ((25, 26), (1 << 40, 19)):
        root = tmp_path / str(number)
        filled(root, 20, topics="T")
        rewrite_number(root, list(StoreDirectory(root).records())[-1], number)
        shutil.rmtree(root / "consumequeue")
        store = open_store(root)
        assert store.max_offset("T", 0) == expected
        store.close()


def test_a_topic_made_again_is_told_from_its_predecessor_by_the_log_alone(tmp_path: Path) -> None:
    made_again(tmp_path, 25, 5)
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
    assert [message.queue_offset for message in messages_of(store)] == [
        n for n in range(20) if n != 4
    ]
    assert store.topics() == {"T"}
    store.close()


# -- what no CRC covers: the properties


def long_properties(number: int) -> dict[str, str]:
    return {"KEYS": f"key{number}", "a": "x" * 1500, "TAGS": f"tag{number}"}


@pytest.mark.parametrize("sector", [1, 2])
def test_a_sector_lost_in_the_properties_is_damage(tmp_path: Path, sector: int) -> None:
    """In the middle of the log, in front of records that are intact: a power failure may do that to
    what was not synced."""
    store = open_store(tmp_path)
    for number in range(12):
        put_ok(
            store,
            body=b"%d" % number,
            properties=long_properties(number),
            store_timestamp=NOW + number,
        )
    crash(store)
    victim = list(StoreDirectory(tmp_path).records())[5]
    path, position = log_file_of(tmp_path, victim.commit_log_offset)
    begin = position - position % 512 + 512 * sector
    assert position + 100 < begin < begin + 512 < position + victim.store_size
    overwrite(path, begin, bytes(512))
    store = open_store(tmp_path)
    assert store.recovery is not None
    assert store.recovery.damaged == [
        (victim.commit_log_offset, victim.commit_log_offset + victim.store_size)
    ]
    assert [message.queue_offset for message in messages_of(store)] == [
        n for n in range(12) if n != 5
    ]
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


def test_a_rebuild_is_not_claimed_before_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything was synced, then the queues had to be made anew; the power fails before that is
    synced as well."""

    def fails(*_: object) -> None:
        raise PowerCut

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
    with monkeypatch.context() as patch:
        patch.setattr(FlushService, "save", fails)
        with pytest.raises(PowerCut):
            open_store(tmp_path)
    assert middle.read_bytes() != before
    middle.write_bytes(before)
    store = open_store(tmp_path)
    assert bodies_of(store, "T") == [b"%d" % number for number in range(0, 60, 2)]
    store.close()


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
    """Otherwise a clean stop and a power failure later it is there again, and belongs to other
    messages."""
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


@pytest.mark.parametrize("lost", [1, 3])
def test_the_number_of_a_last_message_whose_body_is_damaged_is_not_given_again(
    tmp_path: Path, lost: int
) -> None:
    """Another queue's messages lie behind it. What its queue's file has was a message once, and
    other replicas hand it out."""
    store = open_store(tmp_path)
    stored = [put_ok(store, topic="T", body=b"of T").phy_offset for _ in range(10)]
    for _ in range(5):
        put_ok(store, topic="U", body=b"of U")
    crash(store)
    for phy_offset in stored[10 - lost :]:
        path, position = log_file_of(tmp_path, phy_offset)
        overwrite(path, path.read_bytes().index(b"of T", position), b"on T")
    store = open_store(tmp_path)
    assert store.max_offset("T", 0) == 10
    assert len(bodies_of(store)) == 10 - lost
    assert put_ok(store, topic="T", body=b"the next").queue_offset == 10
    store.close()


@pytest.mark.parametrize("first", [True, False])
def test_the_number_of_a_damaged_message_that_had_no_unit_yet_is_not_given_again(
    tmp_path: Path, *, first: bool
) -> None:
    """It says itself which it was. Not of a queue that has something behind it: its topic was
    deleted, and made again."""
    store = open_store(tmp_path)
    if not first:
        put_ok(store, topic="T", body=b"the first")
    lost = [put_ok(store, topic="T", body=b"of T").phy_offset for _ in range(2)]
    put_ok(store, topic="U", body=b"the old U's")
    lost.append(put_ok(store, topic="U", body=b"of T").phy_offset)
    at_once(store.delete_topic_in_slices("U"))
    put_ok(store, topic="W", body=b"of W")
    put_ok(store, topic="U", body=b"the new U's")
    crash(store)
    for phy_offset in lost:
        path, position = log_file_of(tmp_path, phy_offset)
        overwrite(path, path.read_bytes().index(b"of T", position), b"on T")
    shutil.rmtree(tmp_path / "consumequeue" / "T")
    store = open_store(tmp_path)
    end = 2 if first else 3
    assert (store.max_offset("T", 0), store.max_offset("U", 0)) == (end, 1)
    assert put_ok(store, topic="T", body=b"the next").queue_offset == end
    store.close()
