"""What messages are found by, and the numbers that stand for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.message.index_keys import (
    TopicPrefixes,
    hash_keys,
    hash_text,
    key_hash,
    keys_of,
    topic_prefix,
)
from aiorocketmq.remoting.protocol.message.properties import (
    decode_properties,
    encode_properties,
    java_string_hash,
)


def test_unique_key_first_then_keys_split_at_one_space() -> None:
    assert keys_of(encode_properties({"KEYS": "a  b c", "TAGS": "x", "UNIQ_KEY": "u"})) == [
        b"u",
        b"a",
        b"b",
        b"c",
    ]
    assert keys_of(encode_properties({"UNIQ_KEY": "u"})) == [b"u"]
    assert keys_of(encode_properties({"TAGS": "KEYS"})) == []
    assert keys_of(b"") == []


@given(
    st.dictionaries(
        st.sampled_from(["KEYS", "UNIQ_KEY", "XKEYS", "A"]),
        st.text("ab é😀", max_size=6),
        max_size=4,
    )
)
def test_keys_are_those_of_the_decoded_properties(properties: dict[str, str]) -> None:
    encoded = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    decoded = decode_properties(encoded)
    expected = [decoded[name] for name in ("UNIQ_KEY",) if name in decoded]
    expected += [key for key in decoded.get("KEYS", "").split(" ") if key]
    assert [key.decode() for key in keys_of(encoded)] == expected


@given(
    st.lists(
        st.tuples(st.sampled_from(["T", "topic", "中文"]), st.text(min_size=1, max_size=40)),
        max_size=40,
    )
)
def test_hashes_are_those_of_java(pairs: list[tuple[str, str]]) -> None:
    expected = []
    for topic, key in pairs:
        signed = java_string_hash(f"{topic}#{key}")
        expected.append(0 if signed == -(1 << 31) else abs(signed))
    prefixes = [topic_prefix(topic) for topic, _ in pairs]
    keys = [key.encode("utf-8", "replace") for _, key in pairs]
    assert hash_keys(prefixes, keys) == expected
    assert [hash_text(prefix, key) for prefix, key in zip(prefixes, keys, strict=True)] == expected
    assert [key_hash(*pair) for pair in pairs] == expected


def test_prefixes_are_remembered_but_not_for_ever() -> None:
    prefixes = TopicPrefixes()
    assert [prefixes["T"], prefixes["T"]] == [topic_prefix("T")] * 2
    for number in range(20_000):
        assert prefixes[f"T{number}"] == topic_prefix(f"T{number}")
    assert len(prefixes) <= 10_000


@pytest.mark.parametrize("count", [1, 100])
def test_the_number_without_an_absolute_value_is_zero(count: int) -> None:
    """``polygenelubricants`` has the hash -2^31."""
    topic_and_key = "polygenelubricants"
    assert java_string_hash(topic_and_key) == -(1 << 31)
    prefix = java_string_hash(topic_and_key[:-1]) & 0xFFFFFFFF
    assert hash_keys([prefix] * count, [b"s"] * count) == [0] * count
