"""A slave's store: fed with the log of a master it has the same queues, and answers the same."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record import NewRecord, Scan, encode_record, scan
from aiorocketmq.remoting.protocol.record.salvage import read_salvaged
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.disk.mapped_file import MappedFile
from aiorocketmq.store.index.index_file import IndexFile
from aiorocketmq.store.message_store import MessageStore
from aiorocketmq.store.model.config import BrokerRole
from aiorocketmq.store.model.errors import BrokenPromiseError, OutOfSpaceError, StoreFileError
from aiorocketmq.store.model.put import PutMessage
from aiorocketmq.store.model.status import GetMessageStatus, PutStatus
from aiorocketmq.store.queues.consume_queue import CQ_UNIT, ConsumeQueue
from aiorocketmq.store.replica import replica_log
from aiorocketmq.store.replica.replica_log import ReplicaQueues
from aiorocketmq.store.replica.replica_stream import SlaveSide
from aiorocketmq.store.replica.replication import LogRange, MasterSide, ReplicationSettings
from tests.stored import decode_messages, received

from ...fault.disks import FullDisk
from ..world import (
    BORN_HOST,
    bodies_of,
    crash,
    folder_contents,
    messages_of,
    open_store,
    put,
    put_ok,
)

V6_HOST = pack_host("::1", 10911)
DELAYED = encode_properties({"DELAY": "3"})
"""Level 3: the queue has the time of delivery, 10 s later."""


LARGE: dict[str, Any] = {"mapped_file_size_commit_log": 64 << 10}
RECORD_FIELDS: dict[str, Any] = {
    "sys_flag": 0, "born_timestamp": 1, "born_host": BORN_HOST, "store_timestamp": 5,
    "store_host": BORN_HOST,
}  # fmt: skip


def open_slave(root: Path, **changes: Any) -> MessageStore:
    return open_store(root, broker_role=BrokerRole.SLAVE, **changes)


def replicate(master: MessageStore, slave: MessageStore, step: int = 3000) -> None:
    """Everything that the slave does not have."""
    settings = ReplicationSettings()
    file_size = master.config.mapped_file_size_commit_log
    sending = MasterSide(settings, 0.0)
    receiving = SlaveSide(slave.max_phy_offset, file_size, settings, 0.0)
    report = receiving.report(0.0)
    assert report is not None
    ends = LogRange(master.min_phy_offset, master.max_phy_offset, file_size)
    sending.receive(report, ends, 0.0)
    while (wanted := sending.wanted(ends, step)) is not None:
        data = master.read(*wanted)
        assert data is not None
        for piece in received(receiving, b"".join(sending.batches(data, 0.0)), 0.0):
            slave.replica.append(*piece)
    assert slave.max_phy_offset == master.max_phy_offset


def follow(slave: MessageStore, data: bytes) -> None:
    """A master's log, from its begin on."""
    settings, file_size = ReplicationSettings(), slave.config.mapped_file_size_commit_log
    sending, receiving = MasterSide(settings, 0.0), SlaveSide(0, file_size, settings, 0.0)
    report = receiving.report(0.0)
    assert report is not None
    sending.receive(report, LogRange(0, len(data), file_size), 0.0)
    while (wanted := sending.wanted(LogRange(0, len(data), file_size), 3000)) is not None:
        begin, size = wanted
        batches = b"".join(sending.batches(data[begin : begin + size], 0.0))
        for piece in received(receiving, batches, 0.0):
            slave.replica.append(*piece)


def queues_of(root: Path) -> dict[str, bytes]:
    return folder_contents(root / "consumequeue")


def whole_record(topic: str, number: int) -> bytes:
    """Of a log with as long ones only, as a master could send it."""
    properties = b"UNIQ_KEY\x01%032d\x02TAGS\x01a\x02" % number
    size = len(
        encode_record(
            NewRecord(topic, 0, b"body", properties, **RECORD_FIELDS, queue_offset=0, phy_offset=0)
        )
    )
    return encode_record(
        NewRecord(
            topic,
            0,
            b"body",
            properties,
            **RECORD_FIELDS,
            queue_offset=number,
            phy_offset=number * size,
        )
    )


def fill(master: MessageStore, count: int = 120) -> None:
    """Messages of all kinds."""
    for number in range(count):
        properties = {"UNIQ_KEY": f"U{number:031d}", "TAGS": "ab"[number % 2], "KEYS": f"k{number}"}
        put_ok(
            master,
            "T",
            number % 4,
            b"body %d" % number,
            properties=properties,
            store_timestamp=1000 + number,
        )
        if number % 10 == 0:
            put_ok(master, "Plain", 0, bytes(number * 20))
            stored_at = 1000 + number
            put_later = master.put_message(
                PutMessage(
                    "SCHEDULE_TOPIC_XXXX",
                    2,
                    b"later",
                    DELAYED,
                    BORN_HOST,
                    1,
                    stored_at,
                    stored_at + 10_000,
                )
            )
            assert put_later.status is PutStatus.PUT_OK


def index_of(folder: Path) -> list[bytes]:
    """The index files of a store, in order."""
    return [data for path, data in folder_contents(folder).items() if path.startswith("index")]


@pytest.mark.parametrize("step", [700, 100_000])
@pytest.mark.parametrize("host", [None, V6_HOST])
def test_a_slave_has_the_queues_and_the_index_of_its_master(
    tmp_path: Path, step: int, host: bytes | None
) -> None:
    master = (
        open_store(tmp_path / "master")
        if host is None
        else open_store(tmp_path / "master", store_host=host)
    )
    slave = open_slave(tmp_path / "slave")
    for _ in range(3):
        fill(master, 60)
        replicate(master, slave, step)
        assert [message.body for message in messages_of(slave, "T", 1)] == bodies_of(master, "T", 1)
    last = slave.replica.last_record()
    assert last is not None
    assert last[0] + len(last[1]) == master.max_phy_offset
    assert slave.recovery is not None
    for store in (master, slave):
        store.close()
    assert queues_of(tmp_path / "slave") == queues_of(tmp_path / "master")
    assert folder_contents(tmp_path / "slave" / "commitlog") == folder_contents(
        tmp_path / "master" / "commitlog"
    )
    slave = open_slave(tmp_path / "slave")
    assert [
        len(at_once(slave.query.steps("T", f"k{number}", 10, 0, 10**15)).records) > 0
        for number in (0, 59)
    ] == [
        True,
        True,
    ]
    assert not at_once(slave.query.steps("T", "nobody", 10, 0, 10**15)).records
    slave.close()


def test_messages_of_all_kinds_get_into_the_index_that_the_master_has(tmp_path: Path) -> None:
    large: dict[str, Any] = {"mapped_file_size_commit_log": 64 << 10}
    master, slave = (
        open_store(tmp_path / "master", **large),
        open_slave(tmp_path / "slave", **large),
    )
    for number in range(900):
        key = (
            f"{number:030d}ü"
            if 700 <= number < 720
            else f"{number:032d}"
            if number < 800
            else f"{number:07d}"
        )
        properties = {"UNIQ_KEY": key, "TAGS": "ab"[number % 2]}
        put_ok(
            master,
            "TU"[number % 3 // 2],
            number % 4,
            b"%d" % number,
            properties=properties,
            store_timestamp=1000 + number,
        )
        if number in {299, 309, 599, 605, 899}:  # few of them come one by one
            replicate(master, slave, 100_000)
    assert slave.replica.waiting > 800
    for store in (master, slave):
        store.close()
    assert index_of(tmp_path / "master") == index_of(tmp_path / "slave") != []


def test_what_came_in_pieces_gets_into_the_index_in_large_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 20, "max_index_num": 5000}
    master, slave = (
        open_store(tmp_path / "master", **large),
        open_slave(tmp_path / "slave", **large),
    )
    for number in range(2000):
        properties = {"UNIQ_KEY": f"{number:032d}", "TAGS": "a"}
        put_ok(master, "T", number % 4, b"%d" % number, properties=properties, store_timestamp=1000)
    replicate(master, slave, 20_000)
    steps: list[int] = []
    put_items = IndexFile.put
    with monkeypatch.context() as patch:
        patch.setattr(
            IndexFile,
            "put",
            lambda self, *rows: steps.append(len(rows[0])) or put_items(self, *rows),
        )
        slave._indexing.build_all()
    assert sum(steps) == 2000
    assert len(steps) <= 6, steps
    assert not slave.replica.waiting
    for store in (master, slave):
        store.close()
    assert index_of(tmp_path / "master") == index_of(tmp_path / "slave") != []


def test_the_first_step_after_a_sync_is_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its items is a page fault."""
    store = open_store(tmp_path, max_index_num=5000)
    steps: list[int] = []
    put_items = IndexFile.put
    monkeypatch.setattr(
        IndexFile, "put", lambda self, *rows: steps.append(len(rows[0])) or put_items(self, *rows)
    )
    for _ in range(2):
        for number in range(800):
            put_ok(store, "T", 0, b"", properties={"UNIQ_KEY": f"{number:032d}"})
        store._indexing.build_all()
        store._index.sync(store._index.sync_work())
    assert sum(steps) == 1600
    assert steps[: len(steps) // 2] == steps[len(steps) // 2 :]
    assert steps[0] <= 128 < max(steps)
    store.close()


def test_usual_messages_get_their_units_many_at_once_from_the_first_one_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one: list[object] = []
    monkeypatch.setattr(
        ReplicaQueues, "dispatch", lambda _self, request: one_by_one.append(request)
    )
    large: dict[str, Any] = {"mapped_file_size_commit_log": 64 << 10}
    master, slave = (
        open_store(tmp_path / "master", **large),
        open_slave(tmp_path / "slave", **large),
    )
    for number in range(300):
        put_ok(
            master,
            "T",
            number % 4,
            b"%03d" % number,
            properties={"UNIQ_KEY": f"{number:032d}", "TAGS": "a"},
        )
    replicate(master, slave, 100_000)
    assert not one_by_one
    assert bodies_of(slave, "T", 3) == bodies_of(master, "T", 3)
    for store in (master, slave):
        store.close()


def test_when_the_log_cannot_be_written_the_queues_do_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, slave = open_store(tmp_path / "master"), open_slave(tmp_path / "slave")
    fill(master, 30)
    replicate(master, slave)
    known, end = bodies_of(slave, "T", 1), slave.max_phy_offset
    fill(master, 30)

    def fail(file: MappedFile, _position: int, _data: object) -> None:
        raise StoreFileError(file.path, "cannot be written")

    with monkeypatch.context() as patch:
        patch.setattr(MappedFile, "write", fail)
        with pytest.raises(StoreFileError, match="cannot be written"):
            replicate(master, slave, 100_000)
    assert slave.max_phy_offset == end
    assert bodies_of(slave, "T", 1) == known
    replicate(master, slave)
    assert bodies_of(slave, "T", 1) == bodies_of(master, "T", 1) != known
    for store in (master, slave):
        store.close()
    assert queues_of(tmp_path / "slave") == queues_of(tmp_path / "master")


def test_a_slave_takes_no_messages(tmp_path: Path) -> None:
    slave = open_slave(tmp_path)
    assert put(slave).status is PutStatus.SERVICE_NOT_AVAILABLE
    slave.close()


def test_a_slave_that_crashes_goes_on_and_can_become_a_master(tmp_path: Path) -> None:
    master, slave = open_store(tmp_path / "master"), open_slave(tmp_path / "slave")
    for _ in range(4):
        fill(master, 30)
        replicate(master, slave)
        crash(slave)
        slave = open_slave(tmp_path / "slave")
    assert bodies_of(slave, "T", 2) == bodies_of(master, "T", 2)
    slave.close()
    promoted = open_store(tmp_path / "slave")
    put_ok(promoted, "T", 2, b"new")
    assert bodies_of(promoted, "T", 2) == [*bodies_of(master, "T", 2), b"new"]
    promoted.close()
    master.close()


def test_a_slave_whose_log_ends_with_a_whole_file_goes_on_with_the_next(tmp_path: Path) -> None:
    master, slave = open_store(tmp_path / "master"), open_slave(tmp_path / "slave")
    fill(master, 60)
    file_size = master.config.mapped_file_size_commit_log
    data = master.read(0, file_size)
    assert data is not None
    slave.replica.append(0, data)
    assert slave.max_phy_offset == file_size
    slave.close()
    slave = open_slave(tmp_path / "slave")
    assert slave.max_phy_offset == file_size
    last = slave.replica.last_record()
    assert last is not None, "it lies in front of the blank"
    assert slave.message_by_offset(last[0]) == last[1]
    replicate(master, slave)
    assert bodies_of(slave, "T", 3) == bodies_of(master, "T", 3)
    for store in (master, slave):
        store.close()


def test_the_last_record_is_known_without_a_look_at_every_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slave asks for it with every look at its master's tables, a member every second."""
    looks: list[object] = []
    unit = ConsumeQueue.unit

    def counted(queue: ConsumeQueue, offset: int) -> tuple[int, int, int] | None:
        looks.append(queue)
        return unit(queue, offset)

    master, slave = open_store(tmp_path / "master"), open_slave(tmp_path / "slave")
    fill(master, 60)
    replicate(master, slave)
    monkeypatch.setattr(ConsumeQueue, "unit", counted)
    last = slave.replica.last_record()
    assert last is not None
    assert last[0] + len(last[1]) == master.max_phy_offset
    assert looks == []
    slave.close()
    slave = open_slave(tmp_path / "slave")
    looks.clear()
    assert slave.replica.last_record() == last
    assert looks, "a start knows nothing yet"
    looks.clear()
    assert slave.replica.last_record() == last
    assert looks == []
    for store in (master, slave):
        store.close()


def test_a_topic_that_is_deleted_and_made_again_begins_anew_at_the_slave_too(
    tmp_path: Path,
) -> None:
    master, slave = open_store(tmp_path / "master"), open_slave(tmp_path / "slave")
    for number in range(5):
        put_ok(master, body=b"old %d" % number)
    replicate(master, slave)
    at_once(master.delete_topic_in_slices("T"))
    put_ok(master, body=b"new")
    replicate(master, slave)
    assert bodies_of(slave) == [b"new"]
    for store in (master, slave):
        store.close()


def test_messages_of_a_queue_whose_first_ones_expired_keep_their_numbers(tmp_path: Path) -> None:
    master, slave = open_store(tmp_path / "master"), open_slave(tmp_path / "slave")
    fill(master, 120)
    file_size = master.config.mapped_file_size_commit_log
    start = master.max_phy_offset - master.max_phy_offset % file_size
    data = master.read(start, master.max_phy_offset - start)
    assert data is not None
    told: list[str] = []
    slave.replica.on_new_queue.append(told.append)
    for topic, queue_id in {(message.topic, message.queue_id) for message in decode_messages(data)}:
        slave.arrivals.watch(topic, queue_id)  # which makes it
    slave.replica.append(start, data)
    assert set(told) == {message.topic for message in decode_messages(data)}
    assert (slave.min_phy_offset, slave.max_phy_offset) == (start, master.max_phy_offset)
    assert 0 < slave.min_offset("T", 0) < slave.max_offset("T", 0) == master.max_offset("T", 0)
    assert bodies_of(slave, "T", 0) == bodies_of(master, "T", 0)[slave.min_offset("T", 0) :]
    for store in (master, slave):
        store.close()


def test_multi_dispatch_and_extensions_are_there_too(tmp_path: Path) -> None:
    on: dict[str, Any] = {
        "enable_multi_dispatch": True,
        "enable_lmq": True,
        "enable_consume_queue_ext": True,
    }
    master, slave = open_store(tmp_path / "master", **on), open_slave(tmp_path / "slave", **on)
    for number in range(40):
        put_ok(
            master,
            "T",
            1,
            b"%d" % number,
            properties={"INNER_MULTI_DISPATCH": "%LMQ%a,B", "TAGS": "red"},
        )
    replicate(master, slave)
    for queue in (("T", 1), ("%LMQ%a", 0), ("B", 1)):
        assert len(bodies_of(slave, *queue)) == 40
    assert slave.entries.ext_unit("T", 1, 39) == master.entries.ext_unit("T", 1, 39) is not None
    for store in (master, slave):
        store.close()
    assert queues_of(tmp_path / "slave") == queues_of(tmp_path / "master")


@pytest.mark.parametrize("unwritten", [60, 150, 199])
def test_a_topic_that_was_never_written_is_left_out_alone(tmp_path: Path, unwritten: int) -> None:
    """The master has its record, so the slave keeps it, and the ones around it are in queues and
    index."""
    records = [
        whole_record("T\0pic" if number == unwritten else "Topic", number) for number in range(200)
    ]
    slave = open_slave(tmp_path, **LARGE)
    slave.replica.append(0, b"".join(records))
    assert slave.max_phy_offset == sum(map(len, records))
    slave.close()
    slave = open_slave(tmp_path, **LARGE)
    found = [
        len(at_once(slave.query.steps("Topic", f"{number:032d}", 1, 0, 10**15)).records)
        for number in range(200)
    ]
    slave.close()
    assert [number for number, count in enumerate(found) if not count] == [unwritten]


def test_many_unusual_records_are_not_looked_at_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[tuple[int, int]] = []
    whole: set[int] = set()

    def watched(data: bytes, *place: int, at: int) -> Scan:
        found = scan(data, *place, at=at)
        looked.append((at, found.end))
        whole.add(id(data))
        return found

    monkeypatch.setattr(replica_log, "scan", watched)
    records = [whole_record("T\0pic" if number % 2 else "Topic", number) for number in range(200)]
    slave = open_slave(tmp_path, **LARGE)
    slave.replica.append(0, b"".join(records))
    assert slave.max_phy_offset == sum(map(len, records))
    assert looked == sorted(looked)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(looked))
    assert len(whole) == 1  # what is left is not copied each time
    slave.close()


def test_who_waits_for_messages_is_told(tmp_path: Path) -> None:
    master, slave = open_store(tmp_path / "master"), open_slave(tmp_path / "slave")
    arrived: list[tuple[str, int, int]] = []
    slave.arrivals.listeners.append(
        lambda topic, queue_id, offset, _code, _time: arrived.append((topic, queue_id, offset))
    )
    slave.arrivals.watch("T", 1)
    fill(master, 40)
    replicate(master, slave, 100_000)
    slave.arrivals.notify()
    assert arrived == [("T", 1, 10)]
    for store in (master, slave):
        store.close()


@pytest.mark.parametrize("shift", [-1, 1, 8192])
def test_a_byte_goes_where_its_master_has_it_or_nowhere(tmp_path: Path, shift: int) -> None:
    master, slave = open_store(tmp_path / "master"), open_slave(tmp_path / "slave")
    put_ok(master)
    replicate(master, slave)
    end = slave.max_phy_offset
    put_ok(master)
    record = master.read(end, master.max_phy_offset - end)
    assert record is not None
    with pytest.raises(BrokenPromiseError, match=f"bytes of {end + shift} cannot go to {end}"):
        slave.replica.append(end + shift, record)
    assert (slave.max_phy_offset, slave.max_offset("T", 0)) == (end, 1)
    slave.replica.append(end, record)
    for store in (master, slave):
        store.close()


def test_on_a_full_disk_nothing_has_happened_and_it_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    """Whatever of log and queues does not fit: the queues never know more than the log has."""
    master = open_store(tmp_path / "master")
    fill(master, 60)
    failures = 0
    for free in range(8192, 8192 * 3, 797):
        root = tmp_path / str(free)
        disk = FullDisk(1 << 30)
        slave = open_slave(root, disk=disk)
        disk.free = free
        try:
            replicate(master, slave)
        except OutOfSpaceError:
            failures += 1
            for queue_id in range(4):
                known = bodies_of(slave, "T", queue_id)
                assert known == bodies_of(master, "T", queue_id)[: len(known)]
                assert slave.max_offset("T", queue_id) == len(known)
            disk.free = 1 << 30
            replicate(master, slave)
        assert bodies_of(slave, "T", 1) == bodies_of(master, "T", 1)
        slave.close()
        assert queues_of(root) == queues_of(tmp_path / "master")
    assert failures > 5
    master.close()


@pytest.mark.parametrize(
    "at",
    [3, 4, 9, 30, 84, 90, 100],
    ids=["size", "magic", "crc", "place", "body size", "body", "more body"],
)
@pytest.mark.parametrize("step", [700, 100_000])
@pytest.mark.parametrize("count", [10, 200])
def test_a_damaged_record_is_kept_as_it_came_and_costs_no_neighbour(
    tmp_path: Path, at: int, step: int, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    master, slave = (
        open_store(tmp_path / "master", **LARGE),
        open_slave(tmp_path / "slave", **LARGE),
    )
    for number in range(count):
        place = put_ok(
            master, body=b"%03d" % number + b"x" * 40, properties={"UNIQ_KEY": f"{number:032d}"}
        ).phy_offset
        if number == 7:
            bad = place
    master._log.buffer[bad + at] ^= 8
    replicate(master, slave, step)
    assert slave.read(0, slave.max_phy_offset) == master.read(0, master.max_phy_offset)
    assert slave.max_offset("T", 0) == count
    found, offset = [], 0
    slave._reader.follows, slave._reader.awaited = lambda: False, dict  # as a master's
    while offset < count:
        result = slave.get("T", 0, offset)
        assert result.next_begin_offset > offset
        messages, broken = read_salvaged(bytes(result.body), "b")
        assert not broken, "what is known to be damaged is not handed out"
        found += [message.queue_offset for message in messages]
        offset = result.next_begin_offset
    assert found == [number for number in range(count) if number != 7]
    assert list(slave.damage.places) == [bad]
    assert sum("is damaged" in record.getMessage() for record in caplog.records) == 1
    master.close()
    slave.close()


def test_a_number_that_the_master_lost_and_gave_again(tmp_path: Path) -> None:
    """A sector was lost that begins in the properties of a message and goes on behind it; the
    master knew nothing of the message when it started again, and the next one got its number. Its
    slave must not take the first one for whole, and has the second one."""
    sector = 512

    def record(phy_offset: int, number: int, body: bytes) -> bytes:
        properties = b"UNIQ_KEY\x01%032d\x02TAGS\x01a" % number
        fields = {**RECORD_FIELDS, "queue_offset": number, "phy_offset": phy_offset}
        return encode_record(NewRecord("T", 0, body, properties, **fields))

    size = len(record(0, 0, b""))
    first = record(0, 0, bytes([65]) * (sector - 2 * size + 20))
    lost = record(len(first), 1, b"lost")
    assert len(first) + len(lost) - sector in range(8, 40)
    data = (first + lost)[:sector].ljust(2 * sector, b"\0")
    data += record(len(data), 1, b"again")
    data += record(len(data), 2, b"next")
    slave = open_slave(tmp_path, **LARGE)
    follow(slave, data)
    assert len(first) in slave.damage.places
    assert slave.max_offset("T", 0) == 3
    assert bodies_of(slave)[1:] == [b"again", b"next"]
    slave.close()


@pytest.mark.parametrize("left", ["a unit", "a filler"])
def test_what_has_not_come_yet_is_waited_for(tmp_path: Path, left: str) -> None:
    """Its record could not be written after its unit; or a start found that the queue had lost its
    last message, which the master sends again. Who were told to go on would never see it."""
    master, slave = (
        open_store(tmp_path / "master", **LARGE),
        open_slave(tmp_path / "slave", **LARGE),
    )
    put_ok(master)
    replicate(master, slave)
    result, end = put_ok(master), slave.max_phy_offset
    queue = slave._queues.get_or_create("T", 0)
    if left == "a unit":
        queue.extend([CQ_UNIT.pack(result.phy_offset, result.size, 0)])
    else:
        queue.fill_to(2, end)
    for offset, tags in ((1, None), (1, frozenset({0}))):
        waiting = slave.get("T", 0, offset, tags=tags)
        assert (waiting.status, waiting.next_begin_offset) == (
            GetMessageStatus.OFFSET_OVERFLOW_ONE,
            offset,
        )
    assert slave.get("T", 0, 0).next_begin_offset == 1
    replicate(master, slave)
    assert slave.get("T", 0, 1).count == 1
    master.close()
    slave.close()


def test_what_has_never_come_is_passed_over(tmp_path: Path) -> None:
    """The message behind it has."""
    master, slave = (
        open_store(tmp_path / "master", **LARGE),
        open_slave(tmp_path / "slave", **LARGE),
    )
    put_ok(master)
    master._queues.get_or_create("T", 0).fill_to(2, master.max_phy_offset)
    replicate(master, slave)
    slave._queues.get_or_create("T", 0).fill_to(2, slave.max_phy_offset)
    put_ok(master)
    replicate(master, slave)
    assert bodies_of(slave) == bodies_of(master)
    assert slave.get("T", 0, 1).next_begin_offset == 3
    master.close()
    slave.close()
