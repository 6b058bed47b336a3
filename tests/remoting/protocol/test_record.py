"""The stored record: bytes of the original, round trips, and anything at all as input."""

from __future__ import annotations

import contextlib
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.message_id import pack_host
from aiorocketmq.remoting.protocol.record import (
    MAGIC,
    NewRecord,
    RecordError,
    blank_record,
    body_crc,
    decode_record,
    encode_record,
    read_messages,
    record_overhead,
    topic_field,
)
from aiorocketmq.remoting.protocol.record.decode import MessageExt
from aiorocketmq.remoting.protocol.record.layout import HEADS
from aiorocketmq.remoting.protocol.record.salvage import read_salvaged
from aiorocketmq.store.log.log_reader import independent_crc
from tests.stored import decode_messages, iter_records

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
hosts = st.sampled_from([8, 20]).flatmap(lambda size: st.binary(min_size=size, max_size=size))
fields: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "topic": st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
        "queue_id": i32,
        "body": st.binary(max_size=200),
        "properties": st.binary(max_size=100),
        "queue_offset": i64,
        "phy_offset": i64,
        "sys_flag": st.integers(0, 2**31 - 1).map(lambda flag: flag & ~0x30),
        "born_timestamp": i64,
        "born_host": hosts,
        "store_timestamp": i64,
        "store_host": hosts,
        "flag": i32,
        "reconsume_times": i32,
        "prepared_transaction_offset": i64,
    }
)

SAMPLE: dict[str, object] = {
    "topic": "T",
    "queue_id": 2,
    "body": b"hi",
    "properties": b"k\x01v",
    "queue_offset": 5,
    "phy_offset": 100,
    "sys_flag": 0,
    "born_timestamp": 1,
    "born_host": pack_host("127.0.0.1", 1234),
    "store_timestamp": 2,
    "store_host": pack_host("127.0.0.1", 10911),
}


def sample(**changes: object) -> bytes:
    return encode_record(NewRecord(**(SAMPLE | changes)))  # type: ignore[arg-type]


def test_a_record_as_the_original_writes_it() -> None:
    expected = (
        "00000061 daa320a7 00000000 00000002 00000000 0000000000000005 0000000000000064 00000000"
        "0000000000000001 7f000001000004d2 0000000000000002 7f00000100002a9f 00000000 "
        "0000000000000000"
        "00000002 6869 01 54 0003 6b0176"
    )
    encoded = sample()
    assert encoded[:8] + bytes(4) + encoded[12:] == bytes.fromhex(expected)
    assert int.from_bytes(encoded[8:12], "big") == zlib.crc32(b"hi") & 0x7FFFFFFF


@given(fields)
def test_records_come_back(record: dict[str, object]) -> None:
    encoded = encode_record(NewRecord(**record))  # type: ignore[arg-type]
    message = decode_record(encoded, check_crc=True)
    head = message.head._asdict()
    for name in record.keys() & head.keys() - {"sys_flag"}:
        assert head[name] == record[name]
    assert message.stored_body == record["body"]
    assert message.topic == record["topic"]
    assert message.raw_properties == record["properties"]
    assert message.store_size == len(encoded)
    flags = (0x10 if len(message.head.born_host) == 20 else 0) | (
        0x20 if len(message.head.store_host) == 20 else 0
    )
    assert message.sys_flag == record["sys_flag"] | flags  # type: ignore[operator]


@given(st.binary(max_size=5000))
def test_the_two_crcs_agree(body: bytes) -> None:
    assert body_crc(body) == independent_crc(body) == zlib.crc32(body) & 0x7FFFFFFF


@given(fields, st.data())
def test_a_damaged_record_is_noticed_or_harmless(
    record: dict[str, object], data: st.DataObject
) -> None:
    """Any one byte may change: then it is an error or a record of the same size, never anything
    else."""
    encoded = bytearray(encode_record(NewRecord(**record)))  # type: ignore[arg-type]
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    try:
        message = decode_record(bytes(encoded) + b"more", check_crc=True)
    except RecordError:
        return
    assert message.store_size == len(encoded)
    assert message.stored_body == record["body"]


@given(fields, st.data())
def test_a_record_that_is_cut_short_is_an_error(
    record: dict[str, object], data: st.DataObject
) -> None:
    encoded = encode_record(NewRecord(**record))  # type: ignore[arg-type]
    with pytest.raises(RecordError):
        decode_record(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@given(st.binary(max_size=300))
def test_garbage_is_an_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_record(b"\0\0\0\x5b" + data)


@given(st.binary(min_size=91, max_size=300), st.integers(-5, 400), st.integers(-5, 400))
def test_garbage_behind_a_right_magic_is_an_error_or_a_record(
    data: bytes, size: int, body_size: int
) -> None:
    raw = bytearray(data)
    raw[0:8] = (size & 0xFFFFFFFF).to_bytes(4, "big") + MAGIC.to_bytes(4, "big")
    raw[84:88] = (body_size & 0xFFFFFFFF).to_bytes(4, "big")
    try:
        message = decode_record(bytes(raw))
    except RecordError:
        return
    assert message.store_size <= len(raw)


def test_several_records_and_offsets() -> None:
    data = b"".join(sample(queue_offset=number, body=b"x" * number) for number in range(5))
    assert [message.queue_offset for message in iter_records(memoryview(data))] == [0, 1, 2, 3, 4]
    assert decode_record(data, len(sample(body=b""))).queue_offset == 1
    messages = decode_messages(data + b"\0" * 100, "broker-a")
    assert [message.queue_offset for message in messages] == [0, 1, 2, 3, 4]
    assert messages[3].queue == ("T", "broker-a", 2)
    with pytest.raises(RecordError, match="magic"):
        list(iter_records(data + b"\0" * 100))
    assert decode_messages(b"") == []


def test_a_wrong_crc_counts_only_when_asked_for() -> None:
    data = bytearray(sample(body=b"0123456789"))
    data[90] ^= 1
    assert decode_record(bytes(data)).stored_body != b"0123456789"
    with pytest.raises(RecordError, match="CRC"):
        decode_record(bytes(data), check_crc=True)
    assert decode_messages(bytes(data), check_crc=True) == []


def test_what_a_received_message_shows() -> None:
    properties = (
        b"TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01U1\x02DELAY\x013\x02WAIT\x01false\x02"
        b"colour\x01red\x02TRAN_MSG\x01true"
    )
    message = decode_record(sample(properties=properties), broker_name="b")
    assert message.tags == "a"
    assert message.keys == ("k1", "k2")
    assert message.msg_id == "U1"
    assert message.offset_msg_id == "7F00000100002A9F0000000000000064"
    assert message.delay_level == 3
    assert not message.wait_store_ok
    assert message.user_properties == {"colour": "red"}
    assert message.transaction_id == "U1"
    assert (message.born_host, message.store_host) == ("127.0.0.1:1234", "127.0.0.1:10911")
    assert (message.born_timestamp, message.store_timestamp) == (1, 2)
    assert (message.commit_log_offset, message.queue_offset, message.queue_id) == (100, 5, 2)
    assert "U1" in repr(message)
    odd = decode_record(sample(properties=b"DELAY\x01" + b"9" * 5000))
    assert odd.delay_level == 0
    plain = decode_record(sample())
    assert plain.msg_id == plain.offset_msg_id
    assert plain.keys == ()
    assert plain.transaction_id is None


def test_a_compressed_body_is_unpacked_on_demand() -> None:
    message = decode_record(sample(body=zlib.compress(b"hello" * 100), sys_flag=0x301))
    assert isinstance(message, MessageExt)
    assert message.body == b"hello" * 100
    assert message.body is message.body
    assert zlib.decompress(message.stored_body) == message.body


def test_sizes() -> None:
    assert [record_overhead(flag) for flag in (0, 0x10, 0x20, 0x30)] == [91, 103, 103, 115]
    assert len(sample()) == 91 + 2 + 1 + 3
    assert blank_record(42).hex() == "0000002acbd43194"
    assert topic_field("T" * 127)[0] == 127
    with pytest.raises(RecordError, match="128 bytes"):
        topic_field("T" * 128)


@given(st.lists(fields, max_size=4), st.data())
def test_the_fast_way_reads_the_same(records: list[dict[str, object]], data: st.DataObject) -> None:
    """Also of bytes that are damaged, or end too early."""
    raw = bytearray(b"".join(encode_record(NewRecord(**record)) for record in records))  # type: ignore[arg-type]
    if raw and data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    if raw and data.draw(st.booleans()):
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    expected: list[MessageExt] = []
    with contextlib.suppress(RecordError):
        expected.extend(iter_records(bytes(raw), broker_name="b", check_crc=True))
    messages, end = read_messages(bytes(raw), "b")
    assert end == sum(message.store_size for message in expected)

    def fields_of(message: MessageExt) -> tuple[object, ...]:
        return (
            message.head,
            message.stored_body,
            message.topic,
            message.raw_properties,
            message.broker_name,
        )

    assert [fields_of(message) for message in messages] == [
        fields_of(message) for message in expected
    ]


@given(st.lists(fields, min_size=3, max_size=5), st.data())
def test_one_damaged_byte_costs_one_record(
    records: list[dict[str, object]], data: st.DataObject
) -> None:
    """What is intact is found, in order; nothing else is, but for what no CRC covers."""
    whole = [encode_record(NewRecord(**record)) for record in records]  # type: ignore[arg-type]
    number = data.draw(st.integers(0, len(whole) - 1))
    at = data.draw(st.integers(0, len(whole[number]) - 1))
    changed = bytes([whole[number][at] ^ data.draw(st.integers(1, 255))])
    raw = [*whole]
    raw[number] = whole[number][:at] + changed + whole[number][at + 1 :]
    messages, damaged = read_salvaged(b"".join(raw), "b")
    sizes = [len(record) for index, record in enumerate(whole) if index != number or not damaged]
    assert [message.store_size for message in messages] == sizes
    assert [each.size for each in damaged] in ([], [len(whole[number])])
    assert all(
        message.stored_body in [record["body"] for record in records] for message in messages
    )


@pytest.mark.parametrize("wrong", [1, 2], ids=["to another record", "to the end"])
@pytest.mark.parametrize("of", ["the record", "its body"])
def test_a_wrong_size_that_leads_behind_neighbours_costs_one_record(of: str, wrong: int) -> None:
    whole = [encode_record(NewRecord(**{**SAMPLE, "body": b"x" * size})) for size in (1, 21, 53)]  # type: ignore[arg-type]
    behind = sum(map(len, whole[1 : 1 + wrong]))
    at, right = (0, len(whole[0])) if of == "the record" else (HEADS[0].size - 4, 1)
    first = bytearray(whole[0])
    first[at : at + 4] = (right + behind).to_bytes(4, "big")
    messages, [damaged] = read_salvaged(b"".join((first, *whole[1:])), "b")
    assert (damaged.at, damaged.size) == (0, len(whole[0]))
    assert [len(message.stored_body) for message in messages] == [21, 53]


@given(st.binary(max_size=300), st.lists(fields, max_size=3))
def test_garbage_between_records_is_told(garbage: bytes, records: list[dict[str, object]]) -> None:
    data = garbage + b"".join(encode_record(NewRecord(**record)) for record in records)  # type: ignore[arg-type]
    messages, damaged = read_salvaged(data, "b")
    assert sum(message.store_size for message in messages) + sum(
        each.size for each in damaged
    ) == len(data)


@pytest.mark.parametrize("behind", [b"", b"some bytes", sample(body=b"next")])
@pytest.mark.parametrize("size", [8, 90, 2**31 - 1])
def test_a_blank_among_records_costs_nothing_else(size: int, behind: bytes) -> None:
    """No broker sends the end of a file; who gets it all the same goes on behind it."""
    blank = blank_record(size)
    data = sample() + blank + behind
    messages, damaged = read_salvaged(data, "b")
    assert messages[0].body == b"hi"
    assert [message.body for message in messages[1:]] in ([], [b"next"])
    assert sum(each.size for each in damaged) == len(blank) + len(behind) * (len(messages) == 1)
    assert all(each.message is None for each in damaged)
