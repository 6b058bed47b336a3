"""Properties as columns of their types: many at once as one by one; what is no value is told."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")
pytest.importorskip("numpy", reason="the extra [spark] is not installed")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.properties import decode_properties
from aiorocketmq.spark_connector.decode.decode_slow import DecodeOptions, read_rows, rows_to_batch
from aiorocketmq.spark_connector.decode.property_columns import (
    PropertyColumns,
    PropertyValueError,
    read_text,
    typed,
)
from aiorocketmq.spark_connector.decode.schema import ARROW_TYPES, PROPERTY_TYPES

from ..decoded import decoded
from ..stored_records import Stored, joined, properties

KINDS = sorted(set(PROPERTY_TYPES.values()))
LIMITS = [2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, -(2**63), -(2**63) - 1]
numbers = st.one_of(
    st.sampled_from([*map(str, LIMITS), "9223372036854775", "-9223372036854776", "1e400", "-0"]),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(repr),
    st.text("0123456789-.eE", max_size=8),
    st.text("0123456789+-.eExdfnaity ", max_size=8),
    st.integers(0, 9).map(lambda digit: f"{'0' * 120}{digit}"),
)
words = st.sampled_from(
    ["true", "FALSE", "t", "no", "Yes", "1", "0", "NaN", "-Infinity", "0x1F", ""]
)
texts = st.one_of(numbers, words, st.text(max_size=5))


def same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        a == b
        or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))
        for a, b in zip(one, other, strict=True)
    )


@given(
    st.sampled_from(KINDS),
    st.one_of(
        st.lists(st.none() | texts, max_size=6),
        st.lists(st.none() | numbers, max_size=2),
        st.lists(st.integers(-(2**31), 2**31 - 1).map(str), max_size=6),
    ),
    st.integers(0, 2),
)
def test_many_texts_are_read_as_each_is(kind: str, given: list[str | None], cut: int) -> None:
    expected = [
        None if text is None else text if kind == "string" else read_text(text, kind)
        for text in given[cut:]
    ]
    found = typed(pa.array(given, pa.string()).slice(cut), kind)
    assert found.type == ARROW_TYPES[kind]
    assert same(
        found.cast(pa.int64()).to_pylist() if kind == "timestamp" else found.to_pylist(), expected
    )


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", " +7 ", 7),
        ("int", "2147483648", None),
        ("int", "\x00\t7\x7f", 7),
        ("int", "\u00a07", None),
        ("double", "1\u2003", None),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("bigint", "1.5", None),
        ("bigint", "0x1F", None),
        ("bigint", "\u0661", None),
        ("double", ".5", 0.5),
        ("double", "1_0", None),
        ("double", "-Infinity", -math.inf),
        ("boolean", "Yes", True),
        ("boolean", "0", False),
        ("boolean", "2", None),
        ("timestamp", "1700000000000", 1_700_000_000_000_000),
        ("timestamp", "2024-01-01", None),
        ("timestamp", str(2**63 - 1), None),
    ],
)
def test_what_is_a_value(kind: str, text: str, value: object) -> None:
    assert read_text(text, kind) == value
    many = typed(pa.array([text, "", text]), kind)
    assert (many.cast(pa.int64()) if kind == "timestamp" else many).to_pylist() == [
        value,
        None,
        value,
    ]
    alone = typed(pa.array([text]), kind)
    assert alone.cast(pa.int64() if kind == "timestamp" else alone.type).to_pylist() == [value]


def records(*amounts: str | None) -> bytes:
    """Of one queue; a message without a property has others."""
    return joined(
        *(
            Stored(
                queue_id=1,
                queue_offset=10 + number,
                properties=properties(**({"a": "x"} if text is None else {"amount": text})),
            )
            for number, text in enumerate(amounts)
        )
    )


def test_a_value_that_is_none_is_null_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    own = PropertyColumns({"amount": "int", "a": "string"})
    options = DecodeOptions(broker_name="b", properties=own)
    columns = ("queueOffset", "amount", "a")
    for _ in range(2):
        batch = decoded(records("5", "many", None, "few"), columns, options)
        assert batch.to_pydict() == {
            "queueOffset": [10, 11, 12, 13],
            "amount": [5, None, None, None],
            "a": [None, None, "x", None],
        }
    with caplog.at_level(logging.WARNING):
        own.tell()
        own.tell()
    assert [record.getMessage() for record in caplog.records] == [
        "orders, queue b/1, offset 11: the property amount is no int: 'many'; null in 4 rows of "
        "this task (propertyColumns)"
    ]


def test_a_value_that_is_none_fails_where_that_is_wanted() -> None:
    data = records("5", "many")
    ways: list[Callable[[DecodeOptions], object]] = [
        lambda options: decoded(data, ("amount",), options),
        lambda options: rows_to_batch(
            list(read_rows(data, options)), ("amount",), options.properties
        ),
    ]
    for decode in ways:
        own = PropertyColumns({"amount": "int"}, fail=True)
        with pytest.raises(PropertyValueError, match=r"offset 11: .*no int: 'many'; .*permissive"):
            decode(DecodeOptions(broker_name="b", properties=own))


names = st.sampled_from(["amount", "city", "é", "KEYS", "TAGS"])
pairs = st.lists(
    st.tuples(names, st.sampled_from(["1", "2.5", "true", "Rome", "é", ""])), max_size=4
)


@given(
    st.lists(pairs, min_size=1, max_size=4),
    st.sampled_from([1, 70]),
    st.sampled_from([("amount", "é"), ("city", "body", "amount"), ("amount", "properties", "é")]),
)
def test_columns_are_what_the_map_says(
    messages: list[list[tuple[str, str]]], times: int, columns: tuple[str, ...]
) -> None:
    """With layouts (many that are alike) and without, with the map beside them and one by one."""
    types = {"amount": "double", "city": "string", "é": "boolean"}
    strings = ["\x02".join(f"{name}\x01{value}" for name, value in each) for each in messages]
    data = joined(
        *(
            Stored(queue_offset=number, properties=string.encode())
            for number, string in enumerate(strings * times)
        )
    )
    maps = [decode_properties(string.encode()) for string in strings] * times
    options = DecodeOptions(broker_name="b", properties=PropertyColumns(types))
    batch = decoded(data, columns, options)
    by_one = rows_to_batch(list(read_rows(data, options)), columns, options.properties)
    assert batch.schema == by_one.schema
    for name in types.keys() & set(columns):
        expected = [
            None if (text := each.get(name)) is None else read_text(text, types[name])
            for each in maps
        ]
        assert batch.column(name).to_pylist() == expected
        assert by_one.column(name).to_pylist() == expected
