"""Many records in pieces of pull answers, in any order and with gaps, with properties that are
built alike or not."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra [spark] is not installed")
pytest.importorskip("numpy", reason="the extra [spark] is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.spark_connector.decode import decode
from aiorocketmq.spark_connector.decode.decode import DecodeError
from aiorocketmq.spark_connector.decode.decode_slow import DecodeOptions, read_rows, rows_to_batch
from aiorocketmq.spark_connector.decode.record_arrays import find_in_stretches, find_records

from ..decoded import decoded
from ..stored_records import Stored, joined

COLUMNS = ("msgId", "keys", "tags", "body", "queueOffset")

names = st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "WAIT", "KEYS", "n", "NAMESAKE", "名"])
values = st.sampled_from(["1", "a", "ab", "abcd", "", "a\x01b", "a\x00b", "é"])
property_strings = st.tuples(st.lists(st.tuples(names, values), max_size=5), st.booleans()).map(
    lambda both: (
        b"\x02".join(f"{name}\x01{value}".encode() for name, value in both[0]) + b"\x02" * both[1]
    )
)


def one_by_one(data: bytes) -> Any:
    try:
        return rows_to_batch(
            list(read_rows(data, DecodeOptions(broker_name="b"))), COLUMNS
        ).to_pylist()
    except DecodeError as error:
        return str(error)


def in_stretches(buffer: bytes, stretches: list[tuple[int, int]]) -> Any:
    begins, ends = ([edge[side] for edge in stretches] for side in (0, 1))
    try:
        batch = decoded(buffer, COLUMNS, DecodeOptions(broker_name="b"), (begins, ends))
    except DecodeError as error:
        return str(error)
    batch.validate(full=True)
    return batch.to_pylist()


@settings(max_examples=60)
@given(st.data())
def test_records_of_few_layouts_are_the_same_as_one_by_one(data: st.DataObject) -> None:
    """Strings of one size with other names, other separators, twice the same name, and such as are
    not UTF-8."""
    strings = data.draw(st.lists(property_strings, min_size=1, max_size=4))
    strings += data.draw(
        st.lists(
            st.sampled_from(strings).map(lambda text: text.replace(b"KEYS", b"TAGS")), max_size=2
        )
    )
    strings += data.draw(
        st.lists(
            st.sampled_from([b"KEYS\x01\xff", b"TAGS\x01\xc3\xa9", b"KEYS\x01\xc3", b""]),
            max_size=2,
        )
    )
    weights = data.draw(
        st.lists(st.sampled_from([1, 10, 100]), min_size=len(strings), max_size=len(strings))
    )
    chosen = random.Random(data.draw(st.integers(0, 99))).choices(
        strings, weights, k=data.draw(st.integers(100, 300))
    )
    records = [
        Stored(properties=text, queue_offset=number, phy_offset=number)
        for number, text in enumerate(chosen)
    ]
    whole = joined(*records)
    assert decoded(whole, COLUMNS, DecodeOptions(broker_name="b")).to_pylist() == one_by_one(whole)


SAME_SIZE = [
    (b"KEYS\x01ab\x02TAGS\x01c", b"KEYS\x01a\x02TAGS\x01bc"),  # separators at other places
    (b"KEYS\x01abcdefgh", b"KEYS\x01ab\x02n\x01cde"),  # more separators
    (b"KEYS\x01a\x02TAGS\x01b", b"KEYS\x01a\x01TAGS\x02b"),  # other separators
    (b"KEYS\x01a\x02TAGS\x01b", b"TAGS\x01a\x02KEYS\x01b"),  # other names
    (b"KEYS\x01a\x02TAGS\x01b", b"KEYS\x01a\x02KEYS\x01b"),  # a name twice
    (b"KEYS\x01ab\x02TAGS\x01", b"KEYS\x01\x02TAGS\x01ab"),  # an empty value
    (b"KEYS\x01ab", b"KEYS\x01\xc3\xa9"),
    (b"KEYS\x01ab", b"KEYS\x01a\xff"),
]


@pytest.mark.parametrize("pair", SAME_SIZE)
@pytest.mark.parametrize("swapped", [False, True])
def test_strings_of_one_size_that_are_not_built_alike(
    pair: tuple[bytes, bytes], swapped: bool
) -> None:
    often, seldom = pair[::-1] if swapped else pair
    records = [
        Stored(properties=seldom if number % 3 == 1 else often, queue_offset=number)
        for number in range(300)
    ]
    whole = joined(*records)
    assert decoded(whole, COLUMNS, DecodeOptions(broker_name="b")).to_pylist() == one_by_one(whole)


@settings(max_examples=60)
@given(st.data())
def test_stretches_are_the_same_as_the_joined_records(data: st.DataObject) -> None:
    """Few of them, and many; also when one of them is broken."""
    count = data.draw(st.sampled_from([1, 5, 70, 100]))
    dice = random.Random(data.draw(st.integers(0, 1 << 20)))

    def some() -> bytes:
        hosts = dice.choice([0, 0, 0x10, 0x20, 0x30])
        return joined(
            *(
                Stored(body=dice.randbytes(dice.randrange(40)), sys_flag=hosts)
                for _ in range(dice.randrange(1, 6))
            )
        )

    bodies = [some() for _ in range(count)]
    for _ in range(broken_bytes := data.draw(st.sampled_from([0, 0, 1, 3]))):
        hit = dice.randrange(count)
        broken = bytearray(bodies[hit])
        at = dice.choice([0, 2, 3, 20, dice.randrange(len(broken))])
        broken[at] = dice.randrange(256)
        bodies[hit] = bytes(broken)[: dice.choice([len(broken), len(broken), len(broken) - 1, 50])]
    buffer, stretches = b"", [(0, 0)] * count
    for number in dice.sample(range(count), count):
        buffer += dice.randbytes(dice.randrange(30))
        stretches[number] = len(buffer), len(buffer) + len(bodies[number])
        buffer += bodies[number]
    buffer += dice.randbytes(dice.choice([0, 0, 1, 200]))
    assert in_stretches(buffer, stretches) == one_by_one(b"".join(bodies))
    if not broken_bytes:
        assert find_in_stretches(buffer, *map(list, zip(*stretches, strict=True))) is not None, (
            "no need for the loop"
        )


def test_stretches_do_not_need_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "read_rows", None)
    one = joined(Stored(body=b"here"))
    found = in_stretches(
        b"gap" + one + b"gap" + one * 2, [(6 + len(one), 6 + 3 * len(one)), (3, 3 + len(one))]
    )
    assert [row["body"] for row in found] == [b"here"] * 3


@pytest.mark.parametrize("size", [0, 1, 90, 2**31 - 1, 2**32 - 1])
def test_sizes_that_lead_nowhere_end(size: int) -> None:
    one = joined(Stored())
    broken = size.to_bytes(4, "big") + one[4:]
    buffer = one * 100 + broken + one * 100
    edges = [number * len(one) for number in range(202)]
    assert find_in_stretches(buffer, edges[:-1], edges[1:]) is None


def test_a_record_that_says_it_is_longer_than_what_is_there_is_none() -> None:
    whole = joined(Stored(body=bytes(200)))
    assert find_records(whole) is not None
    assert find_records(whole[:-1]) is None
    assert find_records(whole[:150]) is None
