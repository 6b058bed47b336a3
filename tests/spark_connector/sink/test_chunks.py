"""Rows become items of batch bodies, items become frames for queues."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.client.errors import MessageError
from aiorocketmq.client.producer.queue_choice import choose_by_key
from aiorocketmq.client.producer.sending import item_of
from aiorocketmq.remoting.protocol.message.message import Message
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.protocol.message.properties import RESERVED_PROPERTIES, decode_properties
from aiorocketmq.remoting.protocol.record.batch import BatchItem, decode_batch
from aiorocketmq.spark_connector.sink.chunks import Chunk, Rules, chunks
from aiorocketmq.spark_connector.sink.dedup import SPARK_DEDUP_ID
from aiorocketmq.spark_connector.sink.encode import Items, MessageIds, encode_items

TYPES = {
    "body": pa.binary(),
    "topic": pa.string(),
    "keys": pa.list_(pa.string()),
    "tags": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "queueId": pa.int32(),
    "brokerName": pa.string(),
    "shardingKey": pa.string(),
    "delayLevel": pa.int32(),
    "flag": pa.int32(),
}
QUEUES = tuple(MessageQueue("T", name, number) for name in ("a", "b") for number in range(3))


def batch_of(rows: Sequence[dict[str, Any]], **types: pa.DataType) -> pa.RecordBatch:
    """A batch with the columns that the first row has."""
    kinds = {**TYPES, **types}
    return pa.RecordBatch.from_pylist(
        list(rows), schema=pa.schema([(name, kinds[name]) for name in rows[0]])
    )


def items_of(batch: pa.RecordBatch, **options: Any) -> Items:
    return encode_items(batch, MessageIds().take(0, batch.num_rows), **options)


def sent(batch: pa.RecordBatch, rules: Rules | None = None) -> list[Chunk]:
    rules = rules or Rules("T", 1 << 20, None, None)
    return list(
        chunks(
            batch,
            items_of(batch),
            rules,
            lambda topic, _brokers: [q._replace(topic=topic) for q in QUEUES],
        )
    )


def bodies(found: Sequence[Chunk]) -> list[bytes]:
    return [item.body for chunk in found for item in items_in(chunk)]


def items_in(chunk: Chunk) -> list[BatchItem]:
    if chunk.properties is None:
        return decode_batch(chunk.body)
    return [BatchItem(chunk.flag, bytes(chunk.body), chunk.properties.encode())]


# --- encoding
# --------------------------------------------------------------------------------------------------

TEXT = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=8
)
NAMES = TEXT.filter(lambda name: name not in RESERVED_PROPERTIES)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "body": st.binary(min_size=1, max_size=40),
            "keys": st.none() | st.lists(TEXT.map(lambda key: key.replace(" ", "_")), max_size=3),
            "tags": st.none() | TEXT,
            "properties": st.none()
            | st.dictionaries(NAMES, TEXT, max_size=3).map(lambda pairs: list(pairs.items())),
            "flag": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
        }
    ),
    min_size=1,
    max_size=12,
)


@given(ROWS, st.data())
def test_rows_become_the_same_items_as_messages_do(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows) - start))
    batch = batch_of(rows).slice(start, count)
    found = decode_batch(b"".join(items_of(batch).items.to_pylist()))
    assert len(found) == count
    for row, item in zip(rows[start : start + count], found, strict=True):
        message = Message(
            "T", row["body"], tags=row["tags"], keys=row["keys"] or (), flag=row["flag"] or 0,
            properties=dict(row["properties"] or ()),
        )  # fmt: skip
        assert not item.properties.endswith(b"\x01")
        assert b"\x01\x02" not in item.properties  # readers drop properties without a value
        properties = decode_properties(item.properties)
        expected = decode_properties(item_of(message, properties["UNIQ_KEY"], 1 << 20).properties)
        assert (item.body, item.flag, {**properties, "WAIT": "true"}) == (
            row["body"],
            row["flag"] or 0,
            expected,
        )


def test_ids_differ_and_dedup_ids_are_in_the_properties() -> None:
    ids, batch = MessageIds(), batch_of([{"body": b"x"}] * 300)
    found = []
    for first in (0, 300):
        dedup = "q/7/1/", range(first, first + 300)
        found += decode_batch(
            b"".join(encode_items(batch, ids.take(5, 300), dedup).items.to_pylist())
        )
    pairs = [decode_properties(item.properties) for item in found]
    assert len({pair["UNIQ_KEY"] for pair in pairs}) == 600
    assert all(len(pair["UNIQ_KEY"]) == 32 and int(pair["UNIQ_KEY"], 16) for pair in pairs)
    assert [pair[SPARK_DEDUP_ID] for pair in pairs] == [f"q/7/1/{number}" for number in range(600)]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"body": None}, "row 1 has no body"),
        ({"body": b""}, "row 1 has no body"),
        ({"keys": ["a b"]}, "holds a space"),
        ({"keys": [""]}, "empty"),
        ({"keys": [None]}, "null"),
        ({"tags": "a\x02b"}, "tags holds U"),
        ({"properties": [("", "v")]}, "property name ''"),
        ({"properties": [("a\x01", "v")]}, "property name"),
        ({"properties": [("a", "")]}, "null or empty"),
        ({"properties": [("a", "x\x02")]}, "properties holds U"),
        ({"properties": [("TAGS", "t"), ("DELAY", "3")]}, "reserved: DELAY, TAGS"),
        ({"properties": [("a", "v" * 33_000)]}, "the limit is 32767"),
    ],
)
def test_rows_that_no_broker_would_take(row: dict[str, Any], problem: str) -> None:
    good = {"body": b"x", "keys": ["k"], "tags": "t", "properties": [("a", "v")]}
    with pytest.raises(MessageError, match=problem):
        items_of(batch_of([good, {**good, **row}]))


def test_reserved_properties_are_left_out_of_what_was_read_alone() -> None:
    """A row that ``INSERT INTO`` a view writes has the column, and null there."""
    reserved = [("DELAY", "3"), ("b", "1")]
    read = {"body": b"x", "properties": reserved, "queueOffset": 0}
    types = {"queueOffset": pa.int64()}
    mine = {"body": b"y", "properties": [("c", "2")], "queueOffset": None}
    items = items_of(batch_of([read, mine], **types), drop_reserved=None).items
    first, second = decode_batch(b"".join(items.to_pylist()))
    assert set(decode_properties(first.properties.decode())) == {"UNIQ_KEY", "b"}
    assert set(decode_properties(second.properties.decode())) == {"UNIQ_KEY", "c"}
    refused: list[list[dict[str, Any]]] = [
        [{**read, "queueOffset": None}],
        [read, {**mine, "properties": reserved}],
    ]
    for rows in refused:
        with pytest.raises(MessageError, match="reserved: DELAY"):
            items_of(batch_of(rows, **types), drop_reserved=None)
    with pytest.raises(MessageError, match="reserved: DELAY"):
        items_of(batch_of([{"body": b"x", "properties": reserved}]), drop_reserved=None)


def test_reserved_properties_can_be_left_out() -> None:
    properties = [
        ("UNIQ_KEY", "old"),
        ("own", "1"),
        (SPARK_DEDUP_ID, "q"),
        ("TAGS", "t"),
        ("more", "2"),
    ]
    batch = batch_of(
        [{"body": b"x", "properties": properties}, {"body": b"y", "properties": properties[:1]}]
    )
    first, second = decode_batch(b"".join(items_of(batch, drop_reserved=True).items.to_pylist()))
    assert set(decode_properties(first.properties)) == {"UNIQ_KEY", "own", "more"}
    assert set(decode_properties(second.properties)) == {"UNIQ_KEY"}
    assert decode_properties(first.properties)["UNIQ_KEY"] != "old"


# --- frames and queues
# ------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=40), st.integers(100, 4000))
def test_frames_are_as_long_as_they_may_be(sizes: list[int], most: int) -> None:
    rows = [{"body": bytes([number]) * size} for number, size in enumerate(sizes)]
    found = sent(batch_of(rows), Rules("T", most, None, None))
    assert bodies(found) == [row["body"] for row in rows]
    assert sum(chunk.rows for chunk in found) == len(rows)
    for chunk, following in zip(found, [*found[1:], None], strict=True):
        assert len(chunk.body) <= most or chunk.rows == 1
        if following is not None:
            first = decode_batch(following.body)[0]
            assert len(chunk.body) + 22 + len(first.body) + len(first.properties) > most
        assert chunk.queue is None


def test_a_frame_may_be_filled_to_the_last_byte() -> None:
    batch = batch_of([{"body": b"x" * 50}] * 7)
    size = len(items_of(batch).items[0].as_py())
    assert [chunk.rows for chunk in sent(batch, Rules("T", 3 * size, None, None))] == [3, 3, 1]
    assert [chunk.rows for chunk in sent(batch, Rules("T", 3 * size - 1, None, None))] == [
        2,
        2,
        2,
        1,
    ]


def test_topics_of_the_column_each_get_frames_of_their_own() -> None:
    batch = batch_of([{"body": b"%d" % number, "topic": "AB"[number % 2]} for number in range(6)])
    found = sent(batch, Rules(None, 1 << 20, None, None))
    assert {chunk.topic: bodies([chunk]) for chunk in found} == {
        "A": [b"0", b"2", b"4"],
        "B": [b"1", b"3", b"5"],
    }
    assert {chunk.topic for chunk in sent(batch)} == {"T"}


@pytest.mark.parametrize(
    ("topic", "problem"),
    [(None, "has no topic"), ("a/b", "a/b"), ("SCHEDULE_TOPIC_XXXX", "belongs")],
)
def test_topics_that_cannot_be(topic: str | None, problem: str) -> None:
    with pytest.raises(MessageError, match=problem):
        sent(
            batch_of([{"body": b"x", "topic": "T"}, {"body": b"x", "topic": topic}]),
            Rules(None, 1 << 20, None, None),
        )


@given(st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=30))
def test_rows_of_a_key_go_in_order_to_the_queue_that_java_chooses(keys: list[str | None]) -> None:
    found = sent(
        batch_of([{"body": b"%d" % row, "shardingKey": key} for row, key in enumerate(keys)])
    )
    assert sorted(int(body) for body in bodies(found)) == list(range(len(keys)))
    for chunk in found:
        rows = [int(body) for body in bodies([chunk])]
        assert rows == sorted(rows)
        expected = {
            None if keys[row] is None else choose_by_key(QUEUES, str(keys[row])) for row in rows
        }
        assert expected == {chunk.queue}


def test_numbers_as_keys_have_the_hash_of_their_java_type() -> None:
    for kind, number in (
        (pa.int32(), 1),
        (pa.int64(), 0),
    ):  # Integer: abs(-7) % 6; Long: (-7 ^ -7 >> 32) % 6
        (chunk,) = sent(batch_of([{"body": b"x", "shardingKey": -7}], shardingKey=kind))
        assert chunk.queue == QUEUES[number]


def test_rows_that_name_their_queue() -> None:
    rows: list[dict[str, Any]] = [
        {"body": b"0", "queueId": 2, "brokerName": "b", "shardingKey": "k"},
        {"body": b"1", "queueId": None, "brokerName": None, "shardingKey": None},
        {"body": b"2", "queueId": 0, "brokerName": "a", "shardingKey": None},
    ]
    found = {chunk.queue: bodies([chunk]) for chunk in sent(batch_of(rows))}
    assert found == {QUEUES[5]: [b"0"], None: [b"1"], QUEUES[0]: [b"2"]}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"queueId": 3, "brokerName": "a"}, "no queue 3 on a; it has a:0, a:1"),
        ({"queueId": 0, "brokerName": "c"}, "no queue 0 on c"),
        ({"queueId": 0}, "is on a and b: fill the column brokerName"),
    ],
)
def test_queues_that_are_not_there(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(MessageError, match=problem):
        sent(batch_of([{"body": b"x", **row}]))


def test_which_brokers_are_needed() -> None:
    rows: list[dict[str, Any]] = [
        {"body": b"0", "queueId": 2, "brokerName": "b", "shardingKey": "k"},
        {"body": b"1", "queueId": None, "brokerName": "away", "shardingKey": "l"},
        {"body": b"2", "queueId": 0, "brokerName": "a", "shardingKey": None},
        {"body": b"3", "queueId": 0, "brokerName": "b", "shardingKey": None},
    ]
    asked: list[set[str]] = []

    def queues_of(_topic: str, brokers: Collection[str]) -> Sequence[MessageQueue]:
        asked.append(set(brokers))
        return QUEUES

    batch = batch_of(rows)
    assert list(chunks(batch, items_of(batch), Rules("T", 1 << 20, None, None), queues_of))
    assert asked[0] == {"a", "b"}  # before a key chooses among them
    read = batch_of([{**row, "queueOffset": 1} for row in rows], queueOffset=pa.int64())
    asked.clear()
    assert list(chunks(read, items_of(read), Rules("T", 1 << 20, None, None), queues_of))
    assert asked[0] == set()


@pytest.mark.parametrize("named", [True, False])
def test_queues_of_another_topic_stand_for_queues_of_this_one(named: bool) -> None:
    """What was read keeps its queue where that is there; else all of a queue go to one, in order.
    (Without the names of the brokers, numbers alone tell queues apart.)"""
    places = [("a", 1), ("c", 1), ("a", 7), ("b", 2), ("c", 0)] * 4
    rows = [
        {"body": b"%d" % row, "queueId": queue_id, "queueOffset": row}
        | ({"brokerName": name} if named else {})
        for row, (name, queue_id) in enumerate(places)
    ]
    queues_of: dict[Any, set[MessageQueue | None]] = {}
    for chunk in sent(batch_of(rows, queueOffset=pa.int64())):
        numbers = [int(body) for body in bodies([chunk])]
        assert numbers == sorted(numbers)
        for row in numbers:
            place = places[row] if named else places[row][1]
            queues_of.setdefault(place, set()).add(chunk.queue)
    assert all(len(queues) == 1 and None not in queues for queues in queues_of.values())
    if named:
        assert (queues_of["a", 1], queues_of["b", 2]) == ({QUEUES[1]}, {QUEUES[5]})


def test_a_row_without_an_offset_was_not_read() -> None:
    """``INSERT INTO`` a view fills what it does not name with nulls, and a union may have both."""
    types = {"queueOffset": pa.int64()}
    inserted = {"body": b"1", "queueId": 7, "brokerName": "a", "queueOffset": None}
    read = {**inserted, "body": b"2", "queueOffset": 0}
    with pytest.raises(MessageError, match="T has no queue 7 on a"):
        sent(batch_of([inserted], **types))
    with pytest.raises(MessageError, match="T has no queue 7 on a"):
        sent(batch_of([read, inserted], **types))
    (chunk,) = sent(batch_of([read], **types))
    assert chunk.queue in QUEUES
    asked: list[set[str]] = []

    def queues_of(_topic: str, brokers: Collection[str]) -> Sequence[MessageQueue]:
        asked.append(set(brokers))
        return QUEUES

    both = batch_of([{**read, "brokerName": "c"}, {**inserted, "queueId": 1}], **types)
    assert list(chunks(both, items_of(both), Rules("T", 1 << 20, None, None), queues_of))
    assert asked[0] == {"a"}, "is waited for"


def test_orderly_rows_of_a_task_stay_in_one_queue() -> None:
    (chunk,) = sent(
        batch_of([{"body": b"%d" % row} for row in range(9)]), Rules("T", 1 << 20, None, 8)
    )
    assert (chunk.queue, chunk.rows) == (QUEUES[8 % 6], 9)


def test_what_cannot_be_in_a_batch_goes_alone_and_in_its_place() -> None:
    rows: list[dict[str, Any]] = [
        {"body": b"a", "delayLevel": None, "flag": -5},
        {"body": b"b", "delayLevel": 3, "flag": -7},
    ]
    rows += [
        {"body": b"c" * 50, "delayLevel": 0, "flag": None},
        {"body": b"d", "delayLevel": 0, "flag": 1},
    ]
    found = sent(
        batch_of([{**row, "shardingKey": "k"} for row in rows]), Rules("T", 1 << 20, 50, None)
    )
    assert [(bodies([chunk]), chunk.compress) for chunk in found] == [
        ([b"a"], False), ([b"b"], False), ([b"c" * 50], True), ([b"d"], False),
    ]  # fmt: skip
    delayed, long = found[1], found[2]
    assert delayed.properties is not None
    assert long.properties is not None
    assert (decode_properties(delayed.properties)["DELAY"], delayed.flag) == ("3", -7)
    assert "DELAY" not in decode_properties(long.properties)
    assert len({chunk.queue for chunk in found}) == 1
    retried = sent(batch_of([{"body": b"x"}] * 2), Rules("%RETRY%g", 1 << 20, None, None))
    assert [chunk.properties is None for chunk in retried] == [False, False]


@pytest.mark.parametrize("level", [-1, 19])
def test_delay_levels_that_are_not_there(level: int) -> None:
    with pytest.raises(MessageError, match=r"0 .none. to 18"):
        sent(batch_of([{"body": b"x", "delayLevel": level}]))
