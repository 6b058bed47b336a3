"""What a slave makes of records that came damaged, unusual or not at all: they are kept as they
came, cost no neighbour, and those that may come are waited for."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from aiorocketmq.remoting.protocol.record import NewRecord, Scan, encode_record, scan
from aiorocketmq.remoting.protocol.record.salvage import read_salvaged
from aiorocketmq.remoting.slices import at_once
from aiorocketmq.store.model.status import GetMessageStatus
from aiorocketmq.store.queues.consume_queue import CQ_UNIT
from aiorocketmq.store.replica import replica_log

from ..world import bodies_of, put_ok
from .replica_world import (
    LARGE,
    RECORD_FIELDS,
    follow,
    open_both,
    open_slave,
    replicate,
    whole_record,
)


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
    master, slave = open_both(tmp_path, **LARGE)
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


@pytest.mark.parametrize("known_as", ["a record", "a stretch"])
def test_a_number_that_the_master_lost_and_gave_again(tmp_path: Path, known_as: str) -> None:
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
    slave = open_slave(tmp_path, **LARGE)
    follow(slave, data)
    assert len(first) in slave.damage.places
    if known_as == "a stretch":  # as a start finds it, that has found the first one damaged, too
        for place in slave.damage.places:
            slave.damage.mend(place)
        slave.damage.remember(0, len(data))
    begin = slave.max_phy_offset
    data += record(len(data), 1, b"again")
    data += record(len(data), 2, b"next")
    slave.replica.append(begin, data[begin:])
    assert slave.max_offset("T", 0) == 3
    assert bodies_of(slave)[1:] == [b"again", b"next"]
    slave.close()


@pytest.mark.parametrize("left", ["a unit", "a filler"])
def test_what_has_not_come_yet_is_waited_for(tmp_path: Path, left: str) -> None:
    """Its record could not be written after its unit; or a start found that the queue had lost its
    last message, which the master sends again. Who were told to go on would never see it."""
    master, slave = open_both(tmp_path, **LARGE)
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
    master, slave = open_both(tmp_path, **LARGE)
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
