"""Bits of groups in a bit map, as the original computes them."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.filter.bloom import BloomFilter, is_hit, mask_of, murmur3_64

from ...golden_files import golden_member

BLOOM = BloomFilter.for_groups(32, 20)


def bit_map(positions: Iterable[int]) -> bytes:
    return mask_of(positions).to_bytes(BLOOM.size_bytes, "little")


def test_the_parameters_of_the_defaults() -> None:
    assert (BLOOM.hash_count, BLOOM.bit_count, BLOOM.size_bytes) == (3, 112, 14)


@pytest.mark.parametrize(("groups", "percent"), [(0, 20), (32, 0), (32, 100)])
def test_what_makes_no_filter(groups: int, percent: int) -> None:
    with pytest.raises(ValueError, match="expectConsumerNumUseFilter"):
        BloomFilter.for_groups(groups, percent)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"", 0),
        (b"hello", 0xCBD8A7B341BD9B02),
        (b"The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C),
    ],
)
def test_murmur3_of_known_texts(data: bytes, value: int) -> None:
    assert murmur3_64(data) == value


def test_positions_of_a_known_group() -> None:
    assert BLOOM.positions("GID_gold_sql", "GoldNormal") == (99, 43, 12)


def test_positions_are_those_that_the_original_wrote() -> None:
    topics = json.loads(golden_member("store-clean-master", "master/config/consumerFilter.json"))[
        "filterDataByTopic"
    ]
    datas = [data for topic in topics.values() for data in topic["groupFilterData"].values()]
    assert datas
    for data in datas:
        assert data["bloomFilterData"]["bitNum"] == BLOOM.bit_count
        assert tuple(data["bloomFilterData"]["bitPos"]) == BLOOM.positions(
            data["consumerGroup"], data["topic"]
        )


def test_where_a_bit_is() -> None:
    bits = bit_map((0, 9, 111))
    assert bits == bytes([1, 2]) + bytes(11) + bytes([128])
    assert is_hit(mask_of((0, 9)), bits)
    assert not is_hit(mask_of((0, 1)), bits)


@given(st.lists(st.text(max_size=20), max_size=20), st.text(max_size=20))
def test_who_is_in_is_always_hit(groups: list[str], topic: str) -> None:
    bits = bit_map(position for group in groups for position in BLOOM.positions(group, topic))
    for group in groups:
        positions = BLOOM.positions(group, topic)
        assert len(positions) == 3
        assert all(0 <= position < 112 for position in positions)
        assert is_hit(mask_of(positions), bits)
