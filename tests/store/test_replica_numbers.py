"""The numbers of messages at a slave: records that come again, that come mended, of queues that
begin anew.

With light queues, too: there the number is one of the record's properties.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.properties import encode_properties, tags_code
from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.status import GetMessageStatus
from aiorocketmq.store.queues.consume_queue import CQ_UNIT
from tests.stored import decode_messages

from .replica.replica_world import RECORD_FIELDS, open_both, open_slave, replicate
from .world import bodies_of, crash, messages_of, put_ok

LIGHT = "%LMQ%a"
ON: dict[str, Any] = {"enable_multi_dispatch": True, "enable_lmq": True}
QUEUES = [("T", 0), (LIGHT, 0)]


def put_in_both(master: MessageStore, *bodies: bytes) -> list[int]:
    """Where they lie."""
    return [
        put_ok(master, body=body, properties={"INNER_MULTI_DISPATCH": LIGHT}).phy_offset
        for body in bodies
    ]


def contents(store: MessageStore) -> list[list[bytes]]:
    return [bodies_of(store, *queue) for queue in QUEUES]


def bare_record(number: int, phy_offset: int, light: int | None = None) -> bytes:
    """``light``: its number in the light queue."""
    pairs = (
        {}
        if light is None
        else {"INNER_MULTI_DISPATCH": LIGHT, "INNER_MULTI_QUEUE_OFFSET": str(light)}
    )
    return encode_record(
        NewRecord(
            "T",
            0,
            b"body",
            encode_properties(pairs),
            **RECORD_FIELDS,
            queue_offset=number,
            phy_offset=phy_offset,
        )
    )


def tagged_record(number: int, phy_offset: int, tag: str) -> bytes:
    properties = encode_properties({"TAGS": tag})
    return encode_record(
        NewRecord(
            "T", 0, b"body", properties, **RECORD_FIELDS, queue_offset=number, phy_offset=phy_offset
        )
    )


def append_whole(slave: MessageStore, *records: bytes) -> None:
    for record in records:
        slave.replica.append(slave.max_phy_offset, record)


def append(slave: MessageStore, *numbers: int) -> None:
    for number in numbers:
        append_whole(slave, bare_record(number, slave.max_phy_offset))


@pytest.mark.parametrize("lost", [1, 3, 10])
def test_the_end_of_the_log_that_was_damaged_while_stopped_comes_again_into_its_queues(
    tmp_path: Path, lost: int
) -> None:
    master, slave = open_both(tmp_path, **ON)
    places = put_in_both(master, *(b"%d" % number for number in range(10)))
    replicate(master, slave)
    slave.close()
    file = tmp_path / "slave" / "commitlog" / MappedFile.name_of(0)
    data = bytearray(file.read_bytes())
    for place in places[-lost:]:
        data[place + 4] ^= 4
    file.write_bytes(data)
    slave = open_slave(tmp_path / "slave", **ON)
    assert slave.max_phy_offset == places[-lost], "nothing intact lies behind that"
    replicate(master, slave)
    assert contents(slave) == contents(master)
    put_in_both(master, b"new")
    replicate(master, slave)
    assert contents(slave) == contents(master)
    slave.close()
    slave = open_slave(tmp_path / "slave", **ON)
    assert slave.recovery is not None
    assert not slave.recovery.repaired
    assert contents(slave) == contents(master)
    for store in (master, slave):
        store.close()


def test_queues_that_begin_anew_at_the_master_do_so_at_the_slave(tmp_path: Path) -> None:
    master, slave = open_both(tmp_path, **ON)
    put_in_both(master, *(b"old %d" % number for number in range(5)))
    replicate(master, slave)
    for topic, _ in QUEUES:
        at_once(master.delete_topic_in_slices(topic))
    put_in_both(master, b"new")
    replicate(master, slave)
    assert contents(slave) == contents(master) == [[b"new"], [b"new"]]
    crash(slave)
    slave = open_slave(tmp_path / "slave", **ON)
    assert contents(slave) == [[b"new"], [b"new"]]
    for store in (master, slave):
        store.close()


def test_a_queue_that_is_named_twice_has_the_message_once(tmp_path: Path) -> None:
    master, slave = open_both(tmp_path, **ON)
    for number in range(3):
        put_ok(
            master,
            body=b"%d" % number,
            properties={"INNER_MULTI_DISPATCH": f"{LIGHT},T,B,{LIGHT},B"},
        )
    replicate(master, slave)
    crash(slave)
    slave = open_slave(tmp_path / "slave", **ON)
    assert contents(slave) == [[b"0", b"1", b"2"]] * 2
    assert bodies_of(slave, "B") == [b"0", b"1", b"2"]
    for store in (master, slave):
        store.close()


def test_a_queue_that_begins_anew_below_what_had_expired_keeps_its_new_numbers_after_a_kill(
    tmp_path: Path,
) -> None:
    slave = open_slave(tmp_path)
    append(slave, 50)
    queue = slave._queues.get("T", 0)
    assert queue is not None
    queue.min_offset = queue.max_offset  # as cleaning leaves it when all has expired
    slave.flush.save()
    append(slave, *range(6))
    crash(slave)
    slave = open_slave(tmp_path)
    append(slave, 6)
    assert [message.queue_offset for message in messages_of(slave)] == list(range(7))
    slave.close()


@pytest.mark.parametrize("number", [-1, -(2**63), 1 << 62, 2**63 - 1])
def test_what_is_no_number_of_a_message_makes_no_file(tmp_path: Path, number: int) -> None:
    slave = open_slave(tmp_path)
    append(slave, number, 1)
    assert slave.max_offset("T", 0) == 2
    slave.close()
    slave = open_slave(tmp_path)
    assert [message.queue_offset for message in messages_of(slave)] == [1]
    slave.close()


def append_damaged(slave: MessageStore, *records: bytes) -> None:
    for record in records:
        slave.replica.append(slave.max_phy_offset, b"\0" * 8 + record[8:])


def mend(slave: MessageStore, place: int, record: bytes) -> None:
    file = slave._log.file_of(place, len(record))
    assert file is not None
    file.put_back(place, record)
    slave.mended(place, len(record))


def test_a_mended_record_that_is_the_newest_of_its_queue_gets_there(tmp_path: Path) -> None:
    slave = open_slave(tmp_path)
    append(slave, 0)
    place = slave.max_phy_offset
    intact = bare_record(1, place)
    append_damaged(slave, intact)
    assert list(slave.damage.places) == [place]
    mend(slave, place, intact)
    append(slave, 2)
    assert [message.queue_offset for message in messages_of(slave)] == [0, 1, 2]
    slave.close()


@pytest.mark.parametrize("between", ["nothing", "queues made anew"])
@pytest.mark.parametrize("tags", [None, frozenset({0})])
def test_a_slave_hands_out_nothing_behind_what_its_master_has_to_send_again(
    tmp_path: Path, between: str, tags: frozenset[int] | None
) -> None:
    """Who is away from a master for a moment would pass over it for good."""
    little: dict[str, Any] = {"access_message_in_memory_max_ratio": 0}
    slave = open_slave(tmp_path, **little)
    append(slave, 0)
    place = slave.max_phy_offset
    intact = bare_record(1, place)
    append_damaged(slave, intact)
    append(slave, 2)
    if between == "queues made anew":
        slave.close()
        shutil.rmtree(tmp_path / "consumequeue")
        slave = open_slave(tmp_path, **little)
    first = slave.get("T", 0, 0, 32, tags=tags)
    assert (first.count, first.next_begin_offset, first.damaged) == (1, 1, 0)
    waits = slave.get("T", 0, 1, 32, tags=tags)
    assert waits.status is GetMessageStatus.OFFSET_OVERFLOW_ONE
    assert (waits.count, waits.next_begin_offset, waits.max_offset) == (0, 1, 3)
    assert not waits.suggest_pulling_from_slave, "the master has it"
    mend(slave, place, intact)
    rest = slave.get("T", 0, 1, 32, tags=tags)
    assert (rest.count, rest.next_begin_offset) == (2, 3)
    slave.close()


@pytest.mark.parametrize("between", ["nothing", "a restart", "a kill"])
@pytest.mark.parametrize("later", [0, 2])
@pytest.mark.parametrize("order", [(0,), (1, 0), (0, 1), (1, 2, 0), (0, 2, 1)])
def test_mended_records_that_are_the_first_of_their_queues_get_there(
    tmp_path: Path, order: tuple[int, ...], later: int, between: str
) -> None:
    """They came damaged, and perhaps others behind them intact."""
    slave = open_slave(tmp_path, **ON)
    size = len(bare_record(0, 0, 0))
    records = [bare_record(number, number * size, number) for number in range(len(order) + later)]
    append_damaged(slave, *records[: len(order)])
    append_whole(slave, *records[len(order) :])
    if between != "nothing":
        slave.close() if between == "a restart" else crash(slave)
        slave = open_slave(tmp_path, **ON)
    if slave.max_phy_offset < len(order) * size:
        return  # damage at the end of the log comes again as it is
    for number in order:
        mend(slave, number * size, records[number])
    for queue in QUEUES:
        found = [message.commit_log_offset for message in messages_of(slave, *queue)]
        assert found == [number * size for number in range(len(records))], queue
        assert (slave.min_offset(*queue), slave.max_offset(*queue)) == (0, len(records))
    assert_found_again(tmp_path, slave, len(records))


def assert_found_again(root: Path, slave: MessageStore, count: int) -> None:
    """All messages, after a kill and after a clean stop, and nothing is made again."""
    crash(slave)
    for _ in range(2):
        slave = open_slave(root, **ON)
        assert slave.recovery is not None
        assert not slave.recovery.repaired
        for queue in QUEUES:
            assert len(messages_of(slave, *queue)) == count
            assert (slave.min_offset(*queue), slave.max_offset(*queue)) == (0, count)
        slave.close()


@settings(
    max_examples=settings().max_examples // 5,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_whatever_came_damaged_gets_there_in_any_order(tmp_path: Path, data: st.DataObject) -> None:
    """Several files of the queues; the first messages of the first one may be among them."""
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    intact = data.draw(st.sets(st.integers(0, 24))) | {data.draw(st.integers(0, 9)), 24}
    order = data.draw(st.permutations(sorted(set(range(25)) - intact)))
    kills = data.draw(st.sets(st.integers(0, 24), max_size=2))
    slave, records = open_slave(root, **ON), list[bytes]()
    for number in range(25):
        records.append(bare_record(number, slave.max_phy_offset, number))
        write = append_whole if number in intact else append_damaged
        write(slave, records[-1])
    for step, number in enumerate(order):
        if step in kills:
            crash(slave)
            slave = open_slave(root, **ON)
        mend(slave, sum(map(len, records[:number])), records[number])
        present = sorted({*intact, *order[: step + 1]})
        for queue in QUEUES:
            assert [m.queue_offset for m in messages_of(slave, *queue)] == present
            units = slave._table[queue].read_units(slave.min_offset(*queue), 25)
            places = [phy_offset for phy_offset, _, _ in CQ_UNIT.iter_unpack(units)]
            assert places == sorted(places), "searches rely on it"
    assert_found_again(root, slave, 25)


@pytest.mark.parametrize("between", ["a restart", "a kill"])
def test_a_mended_record_does_not_get_the_tags_of_a_later_one(tmp_path: Path, between: str) -> None:
    """With extensions: that of the mended one would lie behind that of the last one, and a start
    clears what lies there for the next."""
    on: dict[str, Any] = {"enable_consume_queue_ext": True}
    slave = open_slave(tmp_path, **on)
    records: list[bytes] = []
    for number, tag in enumerate("abc"):
        records.append(tagged_record(number, slave.max_phy_offset, tag))
        (append_damaged if tag == "b" else append_whole)(slave, records[-1])
    mend(slave, len(records[0]), records[1])
    slave.close() if between == "a restart" else crash(slave)
    slave = open_slave(tmp_path, **on)
    append_whole(slave, tagged_record(3, slave.max_phy_offset, "d"))
    for number, tag in enumerate("abcd"):
        found = slave.get("T", 0, 0, tags=frozenset({tags_code(tag)}))
        assert [each.queue_offset for each in decode_messages(found.body)] == [number], tag
    slave.close()


def test_what_is_mended_of_a_topic_that_was_deleted_stays_out_of_the_new_one(
    tmp_path: Path,
) -> None:
    slave = open_slave(tmp_path, **ON)
    old = [bare_record(number, number * len(bare_record(0, 0, 0)), number) for number in range(3)]
    append_damaged(slave, *old)
    for number in (1, 4):  # and the new one has lost some as well
        slave.replica.append(
            slave.max_phy_offset, bare_record(number, slave.max_phy_offset, number)
        )
    mend(slave, 0, old[0])
    mend(slave, len(old[0]) * 2, old[2])
    for queue in QUEUES:
        found = [message.commit_log_offset // len(old[0]) for message in messages_of(slave, *queue)]
        assert found[-2:] == [3, 4]
        assert 2 not in found
    slave.close()
