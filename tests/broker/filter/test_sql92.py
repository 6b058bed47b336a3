"""SQL92 filters as a broker uses them: on property strings, on records, within limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.filter.records import record_properties
from aiorocketmq.broker.filter.sql92 import sql_filter
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.record import NewRecord, encode_record
from aiorocketmq.remoting.protocol.sql92.expression import MAX_DEPTH
from aiorocketmq.remoting.protocol.sql92.lexer import MAX_EXPRESSION_LENGTH, FilterError
from aiorocketmq.remoting.protocol.sql92.parser import MAX_OPERANDS


def record(
    properties: bytes,
    *,
    body: bytes = b"body",
    born_host: bytes = bytes(8),
    store_host: bytes = bytes(8),
) -> bytes:
    return encode_record(NewRecord(
        "Topic", 0, body, properties, queue_offset=0, phy_offset=0, sys_flag=0, born_timestamp=1,
        born_host=born_host,
        store_timestamp=2, store_host=store_host,
    ))  # fmt: skip


@pytest.mark.parametrize("hosts", [(8, 8), (20, 8), (8, 20), (20, 20)])
def test_the_properties_of_a_record(hosts: tuple[int, int]) -> None:
    data = record(b"a\x011", born_host=bytes(hosts[0]), store_host=bytes(hosts[1]))
    padded = b"xyz" + data + b"next record"
    assert record_properties(padded, 3, 3 + len(data)) == b"a\x011"
    assert record_properties(record(b""), 0, len(record(b""))) == b""


def test_a_record_whose_sizes_do_not_add_up_has_no_properties() -> None:
    data = bytearray(record(b"a\x011"))
    data[84:88] = b"\xff\xff\xff\xff"
    assert record_properties(bytes(data), 0, len(data)) == b""
    assert not sql_filter("a = 1").accepts(bytes(data), 0, len(data))


def test_a_filter_looks_at_records() -> None:
    wanted, data = sql_filter("a BETWEEN 0 AND 3"), record(encode_properties({"a": "2"}))
    assert wanted.accepts(data, 0, len(data))
    assert not sql_filter("a > 3").accepts(data, 0, len(data))


@given(st.dictionaries(st.sampled_from("abcdefg"), st.sampled_from(["1", "2"])))
def test_few_and_many_properties_are_found_alike(values: dict[str, str]) -> None:
    few = " AND ".join(f"{name} = 1" for name in "abcd")
    many = " AND ".join(f"{name} = 1" for name in "abcdefg")
    encoded = encode_properties(values)
    assert sql_filter(few).matches(encoded) is all(values.get(name) == "1" for name in "abcd")
    assert sql_filter(many).matches(encoded) is all(values.get(name) == "1" for name in "abcdefg")


def test_an_expression_is_compiled_once_and_an_error_remembered() -> None:
    assert sql_filter("a = 12345") is sql_filter("a = 12345")
    for _ in range(2):
        with pytest.raises(FilterError, match="position 4"):
            sql_filter("a =")


def deep(levels: int) -> list[str]:
    return [
        "(" * levels + "a" + ")" * levels,
        "NOT " * levels + "a",
        "- " * levels + "a IS NULL",
        "a" + " = a" * levels,
    ]


def test_limits() -> None:
    for text in deep(MAX_DEPTH - 4):
        sql_filter(text)
    for text in deep(MAX_DEPTH * 2):
        with pytest.raises(FilterError, match="nested"):
            sql_filter(text)
    operands = " OR ".join(["a = 1"] * (MAX_OPERANDS // 2))
    assert sql_filter(operands).scan_limit >= 1
    with pytest.raises(FilterError, match=f"more than {MAX_OPERANDS} operands"):
        sql_filter(operands + " OR b")
    with pytest.raises(FilterError, match=f"the limit is {MAX_EXPRESSION_LENGTH}"):
        sql_filter("a" * (MAX_EXPRESSION_LENGTH + 1))
    assert sql_filter("a IN (" + ", ".join(f"'{n}'" for n in range(500)) + ")").scan_limit > 100


@given(st.text(alphabet="ab1.5'()=<> -+,\n/*ANDORNTISULBEW", max_size=60))
def test_any_text_is_an_expression_or_refused_with_a_position_in_it(text: str) -> None:
    position = 1
    try:
        sql_filter(text).matches(b"a\x011\x02b\x01x")
    except FilterError as error:
        position = error.position
    assert 1 <= position <= len(text) + 1
