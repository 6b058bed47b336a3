"""Entries as a log has them, and pushes that carry them so."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.bodies.codec import BodyError
from aiorocketmq.remoting.protocol.bodies.dledger import PushRequest, encode_dledger
from aiorocketmq.remoting.protocol.bodies.stored_entries import (
    StoredEntries,
    body_bytes,
    decode_push,
    encode_before_bytes,
    encode_entries,
    encode_push,
    side_by_side,
)

from .record.entry_logs import START, entries_of, entry_logs

PUSH = PushRequest(group="G", remote_id="n1", local_id="n0", leader_id="n0", term=2, commit_index=6)
bounds = st.none() | st.integers(-7, 7)


def stored(bodies: list[bytes]) -> StoredEntries:
    return StoredEntries(entries_of(bodies, index=7), len(bodies), 7, START)


@given(
    st.lists(st.binary(max_size=30), max_size=5),
    bounds,
    bounds,
    st.sampled_from([None, 1, 2, -1, -2]),
)
def test_they_are_a_sequence(
    bodies: list[bytes], begin: int | None, end: int | None, step: int | None
) -> None:
    entries, listed = stored(bodies), list(stored(bodies))
    part = entries[begin:end:step]
    assert list(part) == listed[begin:end:step]
    assert (len(part), body_bytes(part)) == (len(list(part)), body_bytes(list(part)))
    assert entries == listed
    assert len(entries) == len(bodies)
    for number in range(-len(bodies), len(bodies)):
        assert entries[number] == listed[number]
    with pytest.raises(IndexError):
        _ = entries[len(bodies)]


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(-1, 1000))
def test_as_many_as_have_room(bodies: list[bytes], most: int) -> None:
    entries = stored(bodies)
    data, count = side_by_side(entries, most)
    assert (bytes(data), count) == side_by_side(list(entries), most)
    for number in range(len(bodies) + 1):
        exactly = len(side_by_side(list(entries[:number]), 1 << 20)[0])
        assert side_by_side(entries, exactly) == (entries.data[:exactly], number)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5))
def test_both_forms_of_a_push_say_the_same(bodies: list[bytes]) -> None:
    entries = stored(bodies)
    in_bytes, as_json = (
        encode_before_bytes(PUSH) + bytes(entries.data),
        encode_push(PUSH, encode_entries(entries)),
    )
    assert in_bytes.endswith(entries.data)
    assert (in_bytes[0], as_json[:1]) == (0, b"{")
    assert decode_push(in_bytes) == decode_push(as_json)
    assert decode_push(in_bytes).batch_entry == entries


@given(entry_logs())
def test_nothing_but_entries_side_by_side(data: bytes) -> None:
    try:
        found = decode_push(encode_before_bytes(PUSH) + data).batch_entry
    except BodyError:
        return
    assert side_by_side(list(found), len(data))[0] == data or any(
        data[entry.pos - found[0].pos + 32 :][:12] != bytes(12) for entry in found
    ), "all of it, but for what is always 0 in a head"


ENTRIES = entries_of([b"a", b"b"])


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\0",
        b"\0\0\0\x02",
        b"\0\0\0\x02{}",
        b"\0\0\0\x02{}" + ENTRIES[:47],
        b"\0\0\0\x02{}" + ENTRIES[:-1],
        b"\0\0\0\x02{}" + ENTRIES + b"\0",
        b"\0\0\0\x02{}" + ENTRIES[len(ENTRIES) // 2 :] + ENTRIES,
        b"\0\0\0\x03{}" + ENTRIES,
        b"\0\0\0\x01{}" + ENTRIES,
        b"\0\xff\xff\xff{}" + ENTRIES,
        b"{}" + ENTRIES,
    ],
)
def test_broken_ones_are_refused(bad: bytes) -> None:
    with pytest.raises(BodyError, match="PushRequest"):
        decode_push(bad)


def test_who_does_not_take_bytes_sees_no_other_key() -> None:
    push = json.loads(encode_push(PUSH, encode_entries(stored([b"a"]))))
    del push["batchEntry"]
    assert push == json.loads(encode_dledger(PUSH))
