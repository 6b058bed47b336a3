"""Decoding many records at once must give what decoding them one by one gives."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")
pytest.importorskip("numpy", reason="the extra [spark] is not installed")

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.sys_flag import MessageSysFlag
from aiorocketmq.remoting.protocol.record.batch import BatchItem, encode_batch
from aiorocketmq.spark_connector.access.errors import DamagedMessageError
from aiorocketmq.spark_connector.decode import decode
from aiorocketmq.spark_connector.decode.decode import DecodeError, decode_records
from aiorocketmq.spark_connector.decode.decode_slow import DecodeOptions, read_rows, rows_to_batch
from aiorocketmq.spark_connector.decode.record_arrays import find_records
from aiorocketmq.spark_connector.decode.schema import SOURCE_COLUMNS, arrow_schema
from tests.golden_files import golden_lines
from tests.stored import iter_records

from ..decoded import decoded
from ..stored_records import Stored, compressed, joined, properties

ALL = tuple(SOURCE_COLUMNS)
I32, I64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
COMPRESSIONS = (
    0,
    MessageSysFlag.COMPRESSION_LZ4,
    MessageSysFlag.COMPRESSION_ZSTD,
    MessageSysFlag.COMPRESSION_ZLIB,
)
INNER_BATCH = MessageSysFlag.INNER_BATCH | MessageSysFlag.NEED_UNWRAP

pieces = st.sampled_from(
    [
        b"KEYS",
        b"TAGS",
        b"UNIQ_KEY",
        b"SPARK_DEDUP_ID",
        b"a",
        b"b",
        b"\x01",
        b"\x02",
        "名".encode(),
        b"\xff",
        b"\xed\xa0\x80",
    ]
)
odd_properties = st.lists(pieces, max_size=12).map(b"".join)
names = st.sampled_from(
    [
        "KEYS",
        "TAGS",
        "UNIQ_KEY",
        "SPARK_DEDUP_ID",
        "WAIT",
        "名",
        "KEYSS",
        *(f"n{i}" for i in range(80)),
    ]
)
pairs = st.lists(st.tuples(names, st.sampled_from(["a", "b", "c d", "\x01", "", "é"])), max_size=6)
plain_properties = st.tuples(pairs, st.booleans()).map(
    lambda both: (
        b"\x02".join(f"{name}\x01{value}".encode() for name, value in both[0])
        + (b"\x02" if both[1] else b"")
    )
)


@st.composite
def bodies(draw: st.DrawFn, odd: bool) -> tuple[bytes, int]:
    """A body as it is stored, and the bits of the sysFlag that tell how."""
    body = draw(st.binary(max_size=20))
    kind = draw(
        st.sampled_from((None, None, None, *COMPRESSIONS, *(("inner", "wrong") if odd else ())))
    )
    if kind == "inner":
        items = draw(
            st.lists(st.builds(BatchItem, I32, st.binary(max_size=5), plain_properties), max_size=3)
        )
        return encode_batch(items), INNER_BATCH
    if kind == "wrong":
        return body, MessageSysFlag.COMPRESSED | draw(
            st.sampled_from((0, 0x100, 0x200, 0x300, 0x400))
        )
    return (body, 0) if kind is None else compressed(body, kind)


@st.composite
def stored_records(draw: st.DrawFn, odd: bool) -> Stored:
    """``odd``: also batches inside of records and bodies that are not what the sysFlag says."""
    body, bits = draw(bodies(odd))
    hosts = draw(
        st.sampled_from((0, 0, 0, MessageSysFlag.BORN_HOST_V6, MessageSysFlag.STORE_HOST_V6, 0x30))
    )
    long_topic = draw(st.sampled_from((False, False, False, True)))
    return Stored(
        topic=draw(
            st.sampled_from(
                (b"orders", b"orders", b"other", b"", b"\xff", b"x" * (300 if long_topic else 255))
            )
        ),
        body=body,
        properties=draw(st.one_of(plain_properties, odd_properties)),
        queue_id=draw(I32),
        queue_offset=draw(st.one_of(st.integers(0, 6), I64)),
        phy_offset=draw(I64),
        sys_flag=bits
        | hosts
        | draw(st.sampled_from((0, 0x8, MessageSysFlag.INNER_BATCH, -(2**31)))),
        flag=draw(I32),
        born_timestamp=draw(I64),
        store_timestamp=draw(I64),
        reconsume_times=draw(I32),
        long_topic=long_topic,
    )


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "from_offset": draw(st.sampled_from((-(2**63), -(2**63), 0, 2))),
        "until_offset": draw(st.sampled_from((None, None, 4))),
        "keep_topic": draw(st.sampled_from((None, None, "orders".__eq__))),
        "check_crc": draw(st.booleans()),
        "fail_on_damage": draw(st.booleans()),
        "decompress": draw(st.booleans()),
        "keep_tags": draw(st.sampled_from((None, None, frozenset(("a", "c d"))))),
        "drop_ids": draw(st.sampled_from((None, None, frozenset(), frozenset(("a",))))),
    }


def with_own_ids(chosen: dict[str, Any]) -> dict[str, Any]:
    """The ids that were met are added to the set: everybody gets his own."""
    ids = chosen["drop_ids"]
    return {**chosen, "drop_ids": None if ids is None else set(ids)}


def one_by_one(data: bytes, chosen: dict[str, Any]) -> Any:
    chosen = with_own_ids(chosen)
    try:
        rows = rows_to_batch(list(read_rows(data, DecodeOptions(broker_name="b", **chosen))), ALL)
    except (DecodeError, DamagedMessageError) as error:
        return "broken", getattr(error, "position", None), str(error)
    return plain(rows), chosen["drop_ids"]


def at_once(data: bytes, chosen: dict[str, Any]) -> Any:
    chosen = with_own_ids(chosen)
    try:
        batch = decoded(data, ALL, DecodeOptions(broker_name="b", **chosen))
    except (DecodeError, DamagedMessageError) as error:
        return "broken", getattr(error, "position", None), str(error)
    batch.validate(full=True)
    assert batch.schema == arrow_schema(ALL)
    return plain(batch), chosen["drop_ids"]


def plain(batch: Any) -> list[dict[str, Any]]:
    """Rows with timestamps as numbers and maps as dicts; no map has a name twice."""
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        values = (
            column.cast(pa.int64()) if pa.types.is_timestamp(field.type) else column
        ).to_pylist()
        if pa.types.is_map(field.type):
            assert all(len(dict(value)) == len(value) for value in values)
            values = [dict(value) for value in values]
        columns.append(values)
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


sequences = st.booleans().flatmap(lambda odd: st.lists(stored_records(odd), max_size=8))


@given(sequences, options())
def test_many_at_once_is_the_same_as_one_by_one(
    records: list[Stored], chosen: dict[str, Any]
) -> None:
    data = joined(*records)
    assert at_once(data, chosen) == one_by_one(data, chosen)


@given(sequences.filter(bool), st.data())
def test_damaged_records_are_reported_with_the_same_position(
    records: list[Stored], data: st.DataObject
) -> None:
    whole = bytearray(joined(*records))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.sampled_from((0, 1, 2, 0x7F, 0x80, 0xFF, whole[at] ^ 1)))
    damaged = bytes(whole[: data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))])
    chosen = data.draw(options())
    assert at_once(damaged, chosen) == one_by_one(damaged, chosen)


@given(sequences, options(), st.integers(0, 600))
def test_several_batches_have_the_rows_of_one(
    records: list[Stored], chosen: dict[str, Any], most: int
) -> None:
    data, expected = joined(*records), one_by_one(joined(*records), chosen)
    assume(expected[0] != "broken")
    for edges in (None, ([0], [len(data)])):
        own = with_own_ids(chosen)
        batches = list(
            decode_records(data, ALL, DecodeOptions(broker_name="b", most_bytes=most, **own), edges)
        )
        for batch in batches:
            batch.validate(full=True)
            assert batch.num_rows or len(batches) == 1
        assert (plain(pa.concat_batches(batches)), own["drop_ids"]) == expected


def test_bodies_that_become_long_are_several_batches() -> None:
    """A batch ends before it is too long, and what is too long by itself is one."""
    sizes = [100, 100_000, 300_000, 10, 300_000, 900_000, 20, 800_000, 100_000, 30]
    records = []
    for number, size in enumerate(sizes):
        body, flag = compressed(bytes(size), 0) if size >= 100_000 else (bytes(size), 0)
        records.append(Stored(body=body, sys_flag=flag, queue_offset=number))
    options = DecodeOptions(broker_name="b", most_bytes=800_000)
    for columns in (("queueOffset", "body"), ("body", "queueOffset", "sysFlag", "tags")):
        found = list(decode_records(joined(*records), columns, options))
        assert [batch.column("queueOffset").to_pylist() for batch in found] == [
            [0, 1, 2, 3, 4], [5], [6], [7], [8, 9]
        ]  # fmt: skip
        bodies = [body for batch in found for body in batch.column("body").to_pylist()]
        assert bodies == [bytes(size) for size in sizes]
    assert len(list(decode_records(joined(*records), ("queueOffset",), options))) == 1
    stored = DecodeOptions(broker_name="b", most_bytes=800_000, decompress=False)
    assert len(list(decode_records(joined(*records), ("body",), stored))) == 1


def test_messages_of_one_record_are_several_batches() -> None:
    items = [BatchItem(0, bytes(1000), b"")] * 1000
    body, flag = compressed(encode_batch(items), 0)
    data = joined(Stored(body=body, sys_flag=flag | INNER_BATCH, queue_offset=5), Stored())
    options = DecodeOptions(broker_name="b", most_bytes=100_000)
    found = list(decode_records(data, ("queueOffset", "body"), options))
    assert max(batch.num_rows for batch in found) < 100
    offsets = [row for batch in found for row in batch.column("queueOffset").to_pylist()]
    assert offsets == [*range(5, 1005), 0]


def rows_of(*records: Stored, **chosen: Any) -> list[dict[str, Any]]:
    """Rows that were decoded at once: the loop is out of reach."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "read_rows", None)
        return plain(
            decoded(joined(*records), ALL, DecodeOptions(broker_name="broker-a", **chosen))
        )


def test_every_column() -> None:
    stored = properties(UNIQ_KEY="0A0B", KEYS="k1 k2", TAGS="名", colour="red")
    row = rows_of(
        Stored(
            body=b"hi",
            properties=stored,
            queue_offset=5,
            phy_offset=100,
            flag=7,
            sys_flag=8,
            reconsume_times=2,
        )
    )[0]
    assert row == {
        "topic": "orders",
        "brokerName": "broker-a",
        "queueId": 3,
        "queueOffset": 5,
        "msgId": "0A0B",
        "offsetMsgId": "7F00000100002A9F0000000000000064",
        "keys": "k1 k2",
        "tags": "名",
        "properties": {"UNIQ_KEY": "0A0B", "KEYS": "k1 k2", "TAGS": "名", "colour": "red"},
        "body": b"hi",
        "bornTimestamp": 1_700_000_000_000_000,
        "storeTimestamp": 1_700_000_000_001_000,
        "bornHost": "127.0.0.1:10911",
        "storeHost": "127.0.0.1:10911",
        "flag": 7,
        "sysFlag": 8,
        "reconsumeTimes": 2,
    }


def test_without_properties_the_id_is_the_brokers_and_the_rest_is_null() -> None:
    rows = rows_of(
        Stored(), Stored(properties=properties(UNIQ_KEY="A", TAGS="t")), Stored(phy_offset=1)
    )
    assert [row["msgId"] for row in rows] == [
        "7F00000100002A9F0000000000000000",
        "A",
        "7F00000100002A9F0000000000000001",
    ]
    assert [row["tags"] for row in rows] == [None, "t", None]
    assert [row["properties"] for row in rows] == [{}, {"UNIQ_KEY": "A", "TAGS": "t"}, {}]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(b"a\x01b\x02", {"a": "b"}, id="separator at the end"),
        pytest.param(b"a\x01\x02b\x01c", {"b": "c"}, id="empty value"),
        pytest.param(b"\x01x\x02b\x01c", {"b": "c"}, id="empty name"),
        pytest.param(b"a\x01b\x01c", {"a": "b\x01c"}, id="0x01 in the value"),
        pytest.param(b"abc\x02b\x01c", {"b": "c"}, id="no 0x01"),
        pytest.param(
            b"WAIT\x01a\x02b\x01c\x02WAIT\x01z", {"WAIT": "z", "b": "c"}, id="the last one wins"
        ),
        pytest.param(b"a\x01\xff", {"a": "\ufffd"}, id="not UTF-8"),
    ],
)
def test_reading_rules_of_properties(stored: bytes, expected: dict[str, str]) -> None:
    rows = rows_of(
        Stored(properties=b"x\x01y"), Stored(properties=stored), Stored(properties=b"z\x01y")
    )
    assert [row["properties"] for row in rows] == [{"x": "y"}, expected, {"z": "y"}]


def test_a_name_twice_among_very_many_names() -> None:
    many = {f"name{number}": "v" for number in range(300)}
    twice = properties(**many) + b"\x02name3\x01w\x02name99\x01x"
    rows = rows_of(Stored(properties=twice), Stored(properties=b"a\x01b"))
    assert rows[0]["properties"] == {**many, "name3": "w", "name99": "x"}
    assert rows[1]["properties"] == {"a": "b"}


def test_hosts_of_both_kinds_and_long_topics_side_by_side() -> None:
    kinds = [0, MessageSysFlag.BORN_HOST_V6, MessageSysFlag.STORE_HOST_V6, 0x30]
    rows = rows_of(
        *(
            Stored(sys_flag=kind, long_topic=long, topic=b"t" * 200)
            for kind in kinds
            for long in (False, True)
        )
    )
    v4, v6 = "127.0.0.1:10911", "[::1]:10911"
    assert [row["bornHost"] for row in rows] == [v4, v4, v6, v6, v4, v4, v6, v6]
    assert [row["storeHost"] for row in rows] == [v4, v4, v4, v4, v6, v6, v6, v6]
    assert {len(row["offsetMsgId"]) for row in rows} == {32, 56}
    assert {(row["topic"], row["storeTimestamp"], row["body"]) for row in rows} == {
        ("t" * 200, 1_700_000_000_001_000, b"hello")
    }


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_compressed_bodies_among_others(kind: int) -> None:
    text = "größer".encode() * 1000
    body, bits = compressed(text, kind)
    records = [Stored(body=b"plain"), Stored(body=body, sys_flag=bits), Stored(body=b"")]
    rows = rows_of(*records)
    assert [row["body"] for row in rows] == [b"plain", text, b""]
    assert rows[1]["sysFlag"] & MessageSysFlag.COMPRESSED == 0
    stored = rows_of(*records, decompress=False)
    assert stored[1]["body"] == body
    assert stored[1]["sysFlag"] == bits


def test_a_body_that_cannot_be_decompressed_is_named() -> None:
    first = Stored()
    broken = Stored(body=b"no zlib", sys_flag=MessageSysFlag.COMPRESSED, queue_offset=77)
    with pytest.raises(DecodeError, match=r"queue offset 77.*decompress=false") as raised:
        rows_of(first, broken)
    assert raised.value.position == len(first.encode())


def test_a_decompressed_body_has_a_limit() -> None:
    for kind in COMPRESSIONS:
        body, bits = compressed(bytes(65 << 20), kind)
        with pytest.raises(DecodeError, match="longer than"):
            rows_of(Stored(body=body, sys_flag=bits))


@pytest.mark.parametrize("kind", [MessageSysFlag.COMPRESSION_LZ4, MessageSysFlag.COMPRESSION_ZSTD])
def test_a_short_body_is_unpacked_in_little_memory(kind: int) -> None:
    body, flag = compressed(b"x" * 500, kind)
    data = joined(Stored(body=body, sys_flag=flag))
    decoded(data, ("body",), DecodeOptions(broker_name="b"))
    tracemalloc.start()
    try:
        batch = decoded(data, ("body",), DecodeOptions(broker_name="b"))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert batch.column("body").to_pylist() == [b"x" * 500]


def test_a_batch_inside_of_a_record_becomes_its_messages() -> None:
    items = [
        BatchItem(n, b"body %d" % n, properties(TAGS="even" if n % 2 == 0 else "odd"))
        for n in range(4)
    ]
    data = joined(
        Stored(body=encode_batch(items), sys_flag=INNER_BATCH, queue_offset=10),
        Stored(queue_offset=14),
    )
    batch = decoded(
        data,
        ("queueOffset", "body", "tags", "flag"),
        DecodeOptions(broker_name="b", from_offset=11, until_offset=14),
    )
    assert batch.to_pydict() == {
        "queueOffset": [11, 12, 13],
        "body": [b"body 1", b"body 2", b"body 3"],
        "tags": ["odd", "even", "odd"],
        "flag": [1, 2, 3],
    }


def test_what_is_left_out() -> None:
    records = [
        Stored(
            queue_offset=n,
            properties=properties(TAGS="AaBB"[n % 3 :][:2], SPARK_DEDUP_ID=f"q/{n // 2}"),
        )
        for n in range(8)
    ]
    assert [row["queueOffset"] for row in rows_of(*records, from_offset=2, until_offset=5)] == [
        2,
        3,
        4,
    ]
    assert [row["queueOffset"] for row in rows_of(*records, keep_tags=frozenset(("BB",)))] == [2, 5]
    assert rows_of(*records, keep_topic="other".__eq__) == []
    seen = {"q/0"}
    assert [row["queueOffset"] for row in rows_of(*records, drop_ids=seen)] == [2, 4, 6]
    assert seen == {"q/0", "q/1", "q/2", "q/3"}
    assert rows_of(*records, drop_ids=seen) == []


def test_no_records_make_a_batch_without_rows() -> None:
    batch = decoded(b"", ALL, DecodeOptions(broker_name="b"))
    assert batch.num_rows == 0
    assert batch.schema == arrow_schema(ALL)


def damaged_in_the_middle() -> bytes:
    """Three records, of which the second has another body than its CRC says."""
    good = Stored(properties=properties(SPARK_DEDUP_ID="q/1"))
    data = bytearray(joined(good, Stored(body=b"bad", queue_offset=9, topic=b"other"), good))
    data[data.index(b"bad")] ^= 1
    return bytes(data)


def test_a_body_with_another_crc_is_no_row() -> None:
    data = damaged_in_the_middle()
    assert decoded(data, ("body",), DecodeOptions(broker_name="b", check_crc=False)).num_rows == 3
    with pytest.raises(
        DamagedMessageError,
        match=r"other, queue b/3, offset 9.*CRC.*mqstore repair.*failOnDamage=false",
    ):
        decoded(data, ("body",), DecodeOptions(broker_name="b", check_crc=True))
    with pytest.raises(DamagedMessageError, match="offset 9"):
        decoded(data, ("body",), DecodeOptions(broker_name="b", check_crc=True), ([0], [len(data)]))


def test_it_is_left_out_where_that_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    data = damaged_in_the_middle()
    batch = decoded(
        data,
        ("queueOffset", "body"),
        DecodeOptions(broker_name="b", check_crc=True, fail_on_damage=False),
    )
    assert batch.to_pydict() == {"queueOffset": [0, 0], "body": [b"hello", b"hello"]}
    assert [each.getMessage() for each in caplog.records if "offset 9" in each.getMessage()] != []


def test_only_rows_that_are_wanted_are_checked() -> None:
    batch = decoded(
        damaged_in_the_middle(),
        ("body",),
        DecodeOptions(broker_name="b", check_crc=True, keep_topic="orders".__eq__),
    )
    assert batch.num_rows == 2


def test_a_damaged_row_takes_no_dedup_id_with_it() -> None:
    good = Stored(properties=properties(SPARK_DEDUP_ID="q/1"))
    data = bytearray(joined(good, good))
    data[data.index(b"hello")] ^= 1
    seen: set[str] = set()
    batch = decoded(
        data,
        ("body",),
        DecodeOptions(broker_name="b", check_crc=True, fail_on_damage=False, drop_ids=seen),
    )
    assert (batch.num_rows, seen) == (1, {"q/1"})


def test_a_damaged_batch_of_messages_is_one_damaged_message() -> None:
    data = bytearray(
        joined(
            Stored(body=encode_batch([BatchItem(0, b"abc", b"")] * 3), sys_flag=INNER_BATCH),
            Stored(),
        )
    )
    data[data.index(b"abc")] ^= 1
    with pytest.raises(DamagedMessageError, match="offset 0"):
        decoded(data, ("body",), DecodeOptions(broker_name="b", check_crc=True))
    batch = decoded(
        data, ("body",), DecodeOptions(broker_name="b", check_crc=True, fail_on_damage=False)
    )
    assert batch.to_pydict() == {"body": [b"hello"]}


def test_a_damaged_record_beside_batches_doubles_none_of_their_messages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two pulls bring the same batch, each is wanted for a part of it."""
    items = [BatchItem(0, b"%d" % number, b"") for number in range(4)]
    batch = Stored(body=encode_batch(items), sys_flag=INNER_BATCH, queue_offset=4).encode()
    bad = bytearray(Stored(body=b"damaged", queue_offset=8).encode())
    bad[bad.index(b"damaged")] ^= 1
    data = batch + batch + bad
    edges = [0, len(batch)], [len(batch), len(data)]
    batch_of_all = decoded(
        data,
        ("queueOffset",),
        DecodeOptions(broker_name="b", check_crc=True, fail_on_damage=False),
        edges,
        [(4, 6), (6, 10)],
    )
    assert batch_of_all.to_pydict() == {"queueOffset": [4, 5, 6, 7]}
    assert "offset 8" in caplog.text


def test_the_position_of_what_is_no_record_counts_all_stretches() -> None:
    good, bad = Stored().encode(), bytes(100)
    edges = [0, len(good)], [len(good), len(good) + len(bad)]
    with pytest.raises(DecodeError) as raised:
        decoded(good + bad, ALL, DecodeOptions(broker_name="b"), edges, [(0, 1), (1, 2)])
    assert raised.value.position == len(good)


@pytest.mark.parametrize("chosen", [{"from_offset": 5}, {"keep_tags": frozenset("a")}])
def test_a_damaged_batch_is_told_of_where_one_of_its_messages_may_be_wanted(
    chosen: dict[str, Any],
) -> None:
    items = [BatchItem(0, b"abc", properties(TAGS="a"))] * 3
    data = bytearray(
        Stored(body=encode_batch(items), sys_flag=INNER_BATCH, queue_offset=4).encode()
    )
    data[data.index(b"abc")] ^= 1
    with pytest.raises(DamagedMessageError, match="offset 4"):
        decoded(bytes(data), ("body",), DecodeOptions(broker_name="b", check_crc=True, **chosen))


def test_a_negative_length_of_the_body_is_refused_even_where_everything_else_fits() -> None:
    """With -8, what would be the topic lies inside of the head, and the length itself says 65535
    bytes of properties."""
    record = bytearray(Stored(body=bytes(70_000)).encode()[: 86 + 65_535])
    record[0:4] = len(record).to_bytes(4, "big")
    record[80] = 3
    record[84:88] = (-8).to_bytes(4, "big", signed=True)
    with pytest.raises(DecodeError, match="body is said to be -8"):
        decoded(bytes(record), ALL, DecodeOptions(broker_name="b"))


def test_pull_answers_of_the_original() -> None:
    frames = golden_lines("json-wire")
    answers = [
        f
        for f in frames
        if f["kind"] == "resp" and f.get("reqCode") == 11 and f["code"] == 0 and f["bodyLen"]
    ]
    assert len(answers) > 10
    data = b"".join(bytes.fromhex(frame["hex"])[-frame["bodyLen"] :] for frame in answers)
    assert find_records(data) is not None
    rows = plain(decoded(data, ALL, DecodeOptions(broker_name="broker-g")))
    messages = list(iter_records(data, broker_name="broker-g"))
    assert len(rows) == len(messages)
    for row, message in zip(rows, messages, strict=True):
        assert row["body"] == message.body
        assert row["properties"] == message.properties
        assert (row["msgId"], row["offsetMsgId"]) == (message.msg_id, message.offset_msg_id)
        assert (row["keys"] or "").split() == list(message.keys)
        assert (row["tags"], row["topic"]) == (message.tags, message.topic)
        assert (row["bornHost"], row["storeHost"]) == (message.born_host, message.store_host)
