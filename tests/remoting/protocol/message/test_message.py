"""Properties, ids, tags codes, batches, names: what a message is made of."""

from __future__ import annotations

import importlib.util
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.compression import (
    CompressionError,
    CompressionUnavailable,
    compress_body,
    decompress_body,
)
from aiorocketmq.remoting.protocol.message.message import Message, message_properties
from aiorocketmq.remoting.protocol.message.message_id import (
    UniqIdGenerator,
    format_host,
    offset_message_id,
    pack_host,
    parse_offset_message_id,
    unpack_host,
)
from aiorocketmq.remoting.protocol.message.properties import (
    RESERVED_PROPERTIES,
    MessageError,
    PropertyName,
    decode_properties,
    encode_properties,
    find_property,
    java_string_hash,
    tags_code,
    tags_code_of,
)
from aiorocketmq.remoting.protocol.message.sys_flag import (
    MessageSysFlag,
    compression_type,
    perm_text,
    transaction_type,
)
from aiorocketmq.remoting.protocol.message.topic_names import (
    SEND_FORBIDDEN_TOPICS,
    SYSTEM_TOPICS,
    group_error,
    is_system_group,
    is_system_topic,
    topic_error,
)
from aiorocketmq.remoting.protocol.record.batch import (
    BatchError,
    BatchItem,
    decode_batch,
    encode_batch,
)

names = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=8
)
values = st.text(
    st.characters(exclude_characters="\x02", exclude_categories=["Cs"]), min_size=1, max_size=12
)


@given(st.dictionaries(names, values, max_size=6))
def test_properties_come_back(properties: dict[str, str]) -> None:
    encoded = encode_properties(properties)
    assert decode_properties(encoded) == properties
    assert decode_properties(encoded + b"\x02") == properties
    for name, value in properties.items():
        assert find_property(encoded, name.encode()) == value.encode()


@given(
    st.lists(
        st.sampled_from([b"A", b"AB", b"\x01", b"\x02", b"v", b"TAGS", "é".encode(), b"\xff"]),
        max_size=14,
    )
)
def test_one_property_is_found_as_if_all_were_split(parts: list[bytes]) -> None:
    encoded = b"".join(parts)
    properties = decode_properties(encoded)
    for name in ("A", "AB", "TAGS", "v"):
        found = find_property(encoded, name.encode())
        assert (None if found is None else found.decode("utf-8", "replace")) == properties.get(name)
    assert tags_code_of(encoded) == tags_code(properties.get("TAGS"))


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (b"", {}),
        (b"a\x01b\x01c", {"a": "b\x01c"}),
        (b"a\x01", {}),
        (b"\x01b", {}),
        (b"ab", {}),
        (b"a\x011\x02a\x012", {"a": "2"}),
        (b"a\x011\x02a\x01", {"a": "1"}),
        (b"\x02\x02a\x01b\x02\x02", {"a": "b"}),
        (b"a\x01\xff", {"a": "�"}),
    ],
)
def test_reader_rules_of_the_original(encoded: bytes, expected: dict[str, str]) -> None:
    assert decode_properties(encoded) == expected
    assert decode_properties(memoryview(encoded)) == expected
    assert decode_properties(encoded.decode("utf-8", "replace")) == expected


@pytest.mark.parametrize(
    "bad", [{"": "x"}, {"a": ""}, {"a\x01": "x"}, {"a\x02": "x"}, {"a": "x\x02"}]
)
def test_a_property_that_would_be_lost_is_refused(bad: dict[str, str]) -> None:
    with pytest.raises(MessageError, match="cannot be stored"):
        encode_properties(bad)


def test_properties_over_the_limit_are_refused() -> None:
    assert len(encode_properties({"a": "x" * 32765})) == 32767
    with pytest.raises(MessageError, match="32768 bytes"):
        encode_properties({"a": "x" * 32766})


def test_reserved_names() -> None:
    assert {
        "KEYS",
        "TAGS",
        "UNIQ_KEY",
        "INNER_MULTI_QUEUE_OFFSET",
        "CLUSTER",
    } <= RESERVED_PROPERTIES
    assert PropertyName.TRANSACTION_CHECK_TIMES not in RESERVED_PROPERTIES
    assert PropertyName.INNER_MULTI_DISPATCH not in RESERVED_PROPERTIES
    assert len(RESERVED_PROPERTIES) == 31


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("中文", 646394),
        ("中文标签", 622041809),
        ("polygenelubricants", -2147483648),
        ("\U0001f600", 31 * 0xD83D + 0xDE00),
    ],
)
def test_tags_code_is_the_hash_of_java(text: str, code: int) -> None:
    assert java_string_hash(text) == code
    assert tags_code(text) == code
    assert tags_code_of(b"a\x01b\x02TAGS\x01" + text.encode()) == code


def test_no_tags_no_code() -> None:
    assert tags_code(None) == 0
    assert tags_code_of(b"KEYS\x01k") == 0


def test_properties_of_a_message() -> None:
    message = Message(
        "T",
        b"",
        tags="a",
        keys=["k1", "k2"],
        delay_level=3,
        wait_store_ok=False,
        properties={"colour": "red"},
    )
    assert message_properties(message, {"UNIQ_KEY": "U"}) == {
        "colour": "red",
        "TAGS": "a",
        "KEYS": "k1 k2",
        "DELAY": "3",
        "WAIT": "false",
        "UNIQ_KEY": "U",
    }
    assert message_properties(Message("T", b"")) == {}
    assert message_properties(Message("T", b"", keys="one")) == {"KEYS": "one"}
    assert Message("T", b"").properties is not Message("T", b"").properties


def test_a_message_that_cannot_be_sent() -> None:
    with pytest.raises(MessageError, match="reserved: TAGS"):
        message_properties(Message("T", b"", properties={"TAGS": "a"}))
    for keys in (["a b"], [""]):
        with pytest.raises(MessageError, match="must not contain a space"):
            message_properties(Message("T", b"", keys=keys))


# -- hosts and ids


@pytest.mark.parametrize(
    ("address", "port", "packed", "text"),
    [
        ("127.0.0.1", 10911, "7f00000100002a9f", "127.0.0.1:10911"),
        ("::1", 27811, "00" * 15 + "01" + "00006ca3", "[::1]:27811"),
        ("::ffff:1.2.3.4", 1, "0102030400000001", "1.2.3.4:1"),
        ("fe80::1%eth0", 1, "fe80" + "00" * 13 + "01" + "00000001", "[fe80::1]:1"),
    ],
)
def test_hosts(address: str, port: int, packed: str, text: str) -> None:
    assert pack_host(address, port).hex() == packed
    assert format_host(bytes.fromhex(packed)) == text
    assert unpack_host(pack_host("10.0.0.1", 80)) == ("10.0.0.1", 80)


def test_what_is_no_host() -> None:
    with pytest.raises(ValueError, match="localhost"):
        pack_host("localhost", 1)


@pytest.mark.parametrize("port", [-1, 1 << 32, 10**30])
def test_a_host_takes_a_port_of_four_bytes(port: int) -> None:
    with pytest.raises(ValueError, match="is no port"):
        pack_host("10.0.0.1", port)
    with pytest.raises(ValueError, match="8 or 20 bytes"):
        unpack_host(b"123")


def test_offset_message_id() -> None:
    host = pack_host("127.0.0.1", 10911)
    assert offset_message_id(host, 100) == "7F00000100002A9F0000000000000064"
    assert parse_offset_message_id("7f00000100002a9f0000000000000064") == (host, 100)


@given(st.sampled_from([8, 20]), st.integers(0, 2**63 - 1), st.data())
def test_offset_message_ids_come_back(size: int, phy_offset: int, data: st.DataObject) -> None:
    host = data.draw(st.binary(min_size=size, max_size=size))
    assert parse_offset_message_id(offset_message_id(host, phy_offset)) == (host, phy_offset)


@pytest.mark.parametrize("text", ["", "7F", "G" * 32, " " * 32, "7F" * 15 + "  ", "é" * 32])
def test_what_is_no_message_id(text: str) -> None:
    with pytest.raises(ValueError, match="message id"):
        parse_offset_message_id(text)


def test_unique_ids() -> None:
    months = {0: (0, 1000), 1000: (1000, 5000)}
    ids = UniqIdGenerator(
        bytes([192, 0, 2, 2]), 0x17499, 0x4E0E2F2A, lambda now: months[now // 1000 * 1000]
    )
    assert ids.next(0) == "C00002027499" + "4E0E2F2A" + "00000000" + "0000"
    assert ids.next(255) == "C00002027499" + "4E0E2F2A" + "000000FF" + "0001"
    assert ids.next(1007)[20:] == "00000007" + "0002"  # a new month
    assert ids.next(990)[20:] == "00000000" + "0003"  # the clock stepped back over its start
    for _ in range(0x10000 - 4):
        last = ids.next(1000)
    assert last.endswith("FFFF")
    assert ids.next(1000).endswith("0000")
    assert len(UniqIdGenerator(bytes(16), 1, 1, lambda _: (0, 9)).next(1)) == 56
    with pytest.raises(ValueError, match="4 or 16"):
        UniqIdGenerator(b"", 1, 1, lambda _: (0, 9))


# -- flags


def test_flags() -> None:
    assert (
        transaction_type(0x301 | MessageSysFlag.TRANSACTION_ROLLBACK)
        == MessageSysFlag.TRANSACTION_ROLLBACK
    )
    assert compression_type(0x1) == MessageSysFlag.COMPRESSION_ZLIB
    assert compression_type(0x101) == MessageSysFlag.COMPRESSION_LZ4
    assert [perm_text(perm) for perm in (6, 7, 4, 2, 0)] == ["RW-", "RWX", "R--", "-W-", "---"]


# -- batches

items = st.builds(
    BatchItem, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=20), st.binary(max_size=20)
)


def test_a_batch_as_the_original_encodes_it() -> None:
    expected = (
        "0000002e00000000000000000000000000000005626f647931"
        "001357414954017472756502544147530154616741"
    )
    encoded = encode_batch([BatchItem(0, b"body1", b"WAIT\x01true\x02TAGS\x01TagA")])
    assert encoded.hex() == expected


@given(st.lists(items, max_size=5))
def test_batches_come_back(batch: list[BatchItem]) -> None:
    assert decode_batch(encode_batch(batch)) == batch


@given(st.lists(items, min_size=1, max_size=3), st.data())
def test_a_batch_that_is_cut_short_is_refused(batch: list[BatchItem], data: st.DataObject) -> None:
    encoded = encode_batch(batch)
    ends = {len(encode_batch(batch[:count])) for count in range(len(batch) + 1)}
    cut = data.draw(st.integers(0, len(encoded) - 1).filter(lambda size: size not in ends))
    with pytest.raises(BatchError):
        decode_batch(encoded[:cut])


@given(st.binary(max_size=80))
def test_garbage_is_a_batch_or_a_batch_error(data: bytes) -> None:
    try:
        decoded = decode_batch(data)
    except BatchError:
        return
    assert sum(22 + len(item.body) + len(item.properties) for item in decoded) == len(data)


@pytest.mark.parametrize("field", [16, 25])
def test_lengths_with_the_sign_bit_are_refused(field: int) -> None:
    encoded = bytearray(encode_batch([BatchItem(0, b"body1", b"abc")]))
    encoded[field] = 0xFF
    with pytest.raises(BatchError, match="beyond the end"):
        decode_batch(bytes(encoded))


def test_limits_of_a_batch() -> None:
    with pytest.raises(BatchError, match="3 messages, more than 2"):
        decode_batch(encode_batch([BatchItem(0, b"", b"")] * 3), max_items=2)
    with pytest.raises(MessageError, match="32768"):
        encode_batch([BatchItem(0, b"", bytes(32768))])


# -- compression


def test_zlib_as_the_original_writes_it() -> None:
    body = b"hello " * 1000
    packed = compress_body(body, MessageSysFlag.COMPRESSION_ZLIB)
    assert packed[:2] == b"\x78\x5e"
    for sys_flag in (0x1, 0x301):
        assert decompress_body(packed, sys_flag) == body
    assert decompress_body(packed, 0x300) == packed  # bit 0 decides


@pytest.mark.parametrize(
    ("body", "sys_flag", "what"),
    [
        (b"garbage", 0x1, "not zlib"),
        (zlib.compress(b"x" * 100)[:-5], 0x1, "cut short"),
        (b"", 0x401, "unknown compression type 4"),
        (zlib.compress(bytes(2000)), 0x1, "longer than 1000"),
    ],
)
def test_bodies_that_cannot_be_unpacked(body: bytes, sys_flag: int, what: str) -> None:
    with pytest.raises(CompressionError, match=what):
        decompress_body(body, sys_flag, max_bytes=1000)


@pytest.mark.parametrize(
    ("kind", "package", "extra"),
    [
        (MessageSysFlag.COMPRESSION_LZ4, "lz4", "lz4"),
        (MessageSysFlag.COMPRESSION_ZSTD, "zstandard", "zstd"),
    ],
)
def test_other_kinds_work_or_name_the_package(kind: int, package: str, extra: str) -> None:
    body = b"hello " * 1000
    if importlib.util.find_spec(package) is None:
        for use in (compress_body, decompress_body):
            with pytest.raises(
                CompressionUnavailable, match=rf"pip install 'aiorocketmq\[{extra}\]'"
            ):
                use(b"", kind | 1 if use is decompress_body else kind)
        return
    packed = compress_body(body, kind)
    assert decompress_body(packed, kind | 1) == body
    for damaged in (packed[:-8], b"garbage"):
        with pytest.raises(CompressionError):
            decompress_body(damaged, kind | 1)


# -- names


@pytest.mark.parametrize("topic", ["T", "a%b|c-d_9", "x" * 127, "%RETRY%group"])
def test_topics(topic: str) -> None:
    assert topic_error(topic) is None


@pytest.mark.parametrize(
    ("topic", "why"),
    [("", "blank"), ("  ", "blank"), ("a b", "characters"), ("a/b", "characters"),
    ("é", "characters"),
     ("T\n", "characters"), ("x" * 128, "128 characters long")],
)  # fmt: skip
def test_what_is_no_topic(topic: str, why: str) -> None:
    assert why in (topic_error(topic) or "")


def test_groups() -> None:
    assert group_error("g" * 255) is None
    assert "256" in (group_error("g" * 256) or "")
    assert is_system_group("CID_RMQ_SYS_x")
    assert not is_system_group("mine")


def test_system_topics() -> None:
    assert SEND_FORBIDDEN_TOPICS < SYSTEM_TOPICS
    assert is_system_topic("rmq_sys_anything")
    assert is_system_topic("SCHEDULE_TOPIC_XXXX")
    assert not is_system_topic("Orders")
