"""Every reason why bytes are no record, or not the one that was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.record import (
    NewRecord,
    NoRecord,
    Reason,
    blank_record,
    encode_record,
    verdict_of,
)
from aiorocketmq.remoting.protocol.record.layout import MAGIC_V2, head_struct
from aiorocketmq.remoting.protocol.record.verdict import Parts, size_by_lengths, take_apart

from .test_record import fields, sample

RECORD = sample(phy_offset=1000, body=b"0123456789", properties=b"k\x01v\x02w\x01x")
BODY_AT, TOPIC_AT, PROPERTIES_AT = 88, 99, 102
V6 = sample(phy_offset=1000, born_host=bytes(20), store_host=bytes(range(20)))


def changed(at: int, data: bytes, record: bytes = RECORD) -> bytes:
    return record[:at] + data + record[at + len(data) :]


def long_record(topic: str = "T" * 200) -> bytes:
    """As RocketMQ 5 writes them."""
    record = sample(topic="T", phy_offset=1000)
    head = bytearray(record[:91])
    head[4:8] = MAGIC_V2.to_bytes(4, "big")
    head[0:4] = (len(record) + len(topic)).to_bytes(4, "big")
    return bytes(head[:90]) + len(topic).to_bytes(2, "big") + topic.encode() + record[92:]


CASES: dict[str, tuple[bytes, Reason, int, int, str]] = {
    "another magic": (
        changed(4, b"\xdb"),
        Reason.MAGIC,
        4,
        0,
        "the magic is 0xdba320a7, a record has 0xdaa320a7",
    ),
    "of another version": (
        long_record(),
        Reason.MAGIC,
        4,
        0,
        "a record of RocketMQ 5 (magic 0xdaa320ab), which 4.9 cannot read",
    ),
    "a blank": (
        blank_record(500) + bytes(99),
        Reason.BLANK,
        0,
        500,
        "the blank at the end of the file says 500 bytes, 107 are left",
    ),
    "a short blank": (
        blank_record(8),
        Reason.BLANK,
        0,
        8,
        "the blank at the end of the file says 8 bytes, 8 are left",
    ),
    "zeros": (bytes(200), Reason.NOTHING, 0, 0, "zeros where a record should begin"),
    "few zeros": (bytes(20), Reason.NOTHING, 0, 0, "zeros where a record should begin"),
    "too few": (
        RECORD[:90],
        Reason.NOTHING,
        0,
        0,
        "90 bytes that are neither a record nor the blank at the end of a file",
    ),
    "none": (
        b"",
        Reason.NOTHING,
        0,
        0,
        "the file ends without the blank record that leads to the next one",
    ),
    "longer than the file": (
        RECORD[:-1],
        Reason.SIZE,
        0,
        0,
        "says it is 109 bytes long, 108 are left in the file",
    ),
    "too short": (
        changed(3, b"\x5a"),
        Reason.SIZE,
        0,
        0,
        "says it is 90 bytes long, 109 are left in the file",
    ),
    "negative": (changed(0, b"\xff"), Reason.SIZE, 0, 0, "bytes long, 109 are left in the file"),
    "of another place": (
        changed(35, b"\0"),
        Reason.PLACE,
        28,
        109,
        "the record says it is at 768, it is at 1000",
    ),
    "a negative body": (
        changed(84, b"\xff"),
        Reason.LENGTHS,
        84,
        0,
        "the body is said to be -16777206 bytes long, in a record of 109",
    ),
    "a long body": (
        changed(87, b"\x15"),
        Reason.LENGTHS,
        84,
        0,
        "the body is said to be 21 bytes long, in a record of 109",
    ),
    "a long topic": (
        changed(98, b"\x0a"),
        Reason.LENGTHS,
        98,
        0,
        "the topic is said to be 10 bytes long, which reaches over the end",
    ),
    "long properties": (
        changed(101, b"\x08"),
        Reason.LENGTHS,
        100,
        0,
        "make 110 bytes, the record says it is 109 bytes long",
    ),
    "hosts that do not fit": (
        changed(39, b"\x30"),
        Reason.LENGTHS,
        39,
        0,
        "is 112 bytes long, in a record of 109",
    ),
    "zeros in the topic": (
        changed(99, b"\0"),
        Reason.TOPIC,
        99,
        109,
        "the topic has zero bytes in it: the record was not written to",
    ),
    "another body": (changed(90, b"!"), Reason.CRC, 88, 109, "the body has the CRC 0x"),
    "another body with IPv6": (
        changed(113, b"!", V6),
        Reason.CRC,
        112,
        len(V6),
        "the body has the CRC 0x",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_reasons(name: str) -> None:
    data, reason, byte, size, problem = CASES[name]
    found = verdict_of(data, 0, 1000)
    assert found is not None
    assert (found.reason, found.byte, found.size, found.needed) == (reason, byte, size, 0)
    assert problem in found.problem
    with pytest.raises(NoRecord, match=r"^at byte 3: "):
        take_apart(b"abc" + data, 3, 1000, len(data))


@pytest.mark.parametrize("record", [RECORD, V6])
def test_an_intact_record(record: bytes) -> None:
    assert verdict_of(record, 0, 1000) is None
    assert verdict_of(record) is None
    assert size_by_lengths(record + b"more", 0) == len(record)
    parts = Parts(*take_apart(b"x" + record, 1, None, len(record)))
    assert (parts.at, parts.size, parts.phy_offset, parts.queue_id, parts.queue_offset) == (
        1,
        len(record),
        1000,
        2,
        5,
    )
    assert (parts.sys_flag, parts.store_timestamp) == (0x30 if record is V6 else 0, 2)
    assert (parts.topic, parts.body_at) == ("T", 1 + head_struct(parts.sys_flag).size)
    assert record.endswith(parts.properties)


def test_a_record_of_the_next_version_for_who_wants_it() -> None:
    record = long_record()
    assert Parts(*take_apart(record, 0, 1000, len(record), any_version=True)).topic == "T" * 200
    assert verdict_of(changed(91, b"\xff", record), 0, 1000, any_version=True) is not None


def test_a_whole_record_may_contain_anything() -> None:
    for name in ("zeros in the topic", "another body", "another body with IPv6"):
        data = CASES[name][0]
        assert take_apart(data, 0, 1000, len(data), contents=False)[1] == len(data)
    with pytest.raises(NoRecord):
        take_apart(CASES["long properties"][0], 0, 1000, 109, contents=False)


@given(fields.filter(lambda record: "\0" not in record["topic"]), st.data())
def test_of_a_part_more_is_asked_for_until_it_is_whole(
    record: dict[str, object], data: st.DataObject
) -> None:
    """And never more than it has."""
    whole = encode_record(NewRecord(**record))  # type: ignore[arg-type]
    place = record["phy_offset"]
    shown = data.draw(st.integers(0, len(whole) - 1))
    for _ in range(10):
        found = verdict_of((whole + b"next" * 200)[:shown], 0, place, 1 << 20)  # type: ignore[arg-type]
        if found is None:
            break
        assert (found.reason, found.needed > shown) == (Reason.MORE, True)
        shown = found.needed
    assert len(whole) <= shown < len(whole) + 512
    assert verdict_of(whole, 0, place) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [0, 3, 30, 87, 98, 101])
def test_nobody_waits_for_a_record_that_says_it_is_another(at: int) -> None:
    """One that lies there whole, with a bit of its head or of a length flipped."""
    for bit in range(8):
        data = changed(at, bytes([RECORD[at] ^ 1 << bit])) + b"\xff" * 300
        found = verdict_of(data, 0, 1000, 1 << 30)
        assert found is not None
        assert found.reason is not Reason.MORE


def test_nobody_waits_for_a_record_that_its_body_cannot_fill() -> None:
    head = changed(0, (1 << 20).to_bytes(4, "big"), sample(phy_offset=1000, body=bytes(5000)))[:200]
    found = verdict_of(head, 0, 1000, 1 << 30)
    assert found is not None
    assert (found.reason, found.byte) == (Reason.LENGTHS, 84)
    assert "too few in a record of 1048576" in found.problem


# -- sectors of zeros in the properties


def with_zeros(begin: int, end: int, place: int = 0) -> bytes:
    """A record of 1,701 bytes at an offset, whose properties begin at byte 94, with zeros at some
    bytes."""
    record = sample(phy_offset=place, properties=b"k\x01" + b"v" * 1605)
    return record[:begin] + bytes(end - begin) + record[end:]


@pytest.mark.parametrize(
    ("begin", "end", "place", "byte"),
    [
        (512, 1024, 0, 512),
        (1024, 1536, 0, 1024),
        (412, 924, 100, 412),
        (500, 1100, 0, 512),
        (512, 1023, 0, None),
        (513, 1024, 0, None),
        (512, 1024, 1, None),
        (96, 512, 0, None),
        (1536, 1701, 0, None),
    ],
)
def test_a_sector_of_zeros(begin: int, end: int, place: int, byte: int | None) -> None:
    """Where it lies depends on the place of the record in the log. Fewer zeros may be the
    user's."""
    record = with_zeros(begin, end, place)
    for found in (verdict_of(record, 0, place), verdict_of(record)):
        assert (None if found is None else (found.reason, found.byte, found.size)) == (
            None if byte is None else (Reason.SECTOR, byte, 1701)
        )


def test_a_sector_that_goes_on_behind_the_record() -> None:
    """It is lost only if the rest of it is, and that has to be shown."""
    record = with_zeros(1536, 1701)
    seen = [
        verdict_of(record + more, 0, 0, 1 << 20)
        for more in (b"", bytes(300), bytes(347), bytes(346) + b"x", b"x")
    ]
    assert [found and found.reason for found in seen] == [
        Reason.MORE,
        Reason.MORE,
        Reason.SECTOR,
        None,
        None,
    ]
    assert seen[0] is not None
    assert (seen[0].needed, seen[0].size) == (2048, 1701)
    assert verdict_of(record, 0, 0, 1701 + 346) is None  # the file ends within the sector


@pytest.mark.parametrize(("zeros", "lost"), [(7, False), (8, True)])
def test_few_zeros_at_the_end_could_be_the_user_s(zeros: int, lost: bool) -> None:
    record = sample(phy_offset=0, properties=b"k\x01" + b"v" * (1536 - 96) + bytes(zeros))
    assert len(record) == 1536 + zeros
    assert (verdict_of(record + bytes(512), 0, 0) is not None) == lost
