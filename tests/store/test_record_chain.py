"""Records found many at once: never anything that a look at one after the other would not find."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.remoting.protocol.record import MAGIC, MIN_RECORD_SIZE
from aiorocketmq.store.record_chain import FEW, RECORD_HEAD, chained

pytest.importorskip("numpy")

BASE = 7_000_000
SIZES = st.lists(st.integers(MIN_RECORD_SIZE, 300), min_size=FEW + 10, max_size=2 * FEW)


def records(sizes: list[int]) -> tuple[bytearray, list[int]]:
    """What ``chained`` looks at, and zeros; and where each begins."""
    data = bytearray(sum(sizes))
    starts, at = [], 0
    for size in sizes:
        RECORD_HEAD.pack_into(data, at, size, MAGIC, BASE + at)
        starts.append(at)
        at += size
    return data, starts


@given(SIZES)
def test_whole_records_are_all_found(sizes: list[int]) -> None:
    data, starts = records([MIN_RECORD_SIZE, *sizes])
    found = chained(bytes(data), BASE)
    assert found is not None
    assert (found[0].tolist(), found[1]) == (starts, len(data))


@settings(max_examples=300)
@given(SIZES, st.integers(1, 300), st.sampled_from(["size", "magic", "offset", "fake", "cut"]), st.data())
def test_it_stops_in_front_of_what_is_unusual(sizes: list[int], amount: int, problem: str, data: st.DataObject) -> None:
    """Up to there it has found what is there; and the places that look like a record inside of another one are none."""
    log, starts = records([MIN_RECORD_SIZE, *sizes])
    bad = data.draw(st.integers(1, len(starts) - 1))
    at = starts[bad]
    if problem == "cut":
        del log[at + amount :]
        starts = [start for start in starts if start < len(log)]
    elif problem == "fake":
        inside = at + RECORD_HEAD.size
        if inside + RECORD_HEAD.size > (starts[bad + 1] if bad + 1 < len(starts) else len(log)):
            return
        RECORD_HEAD.pack_into(log, inside, amount, MAGIC, BASE + inside)
    else:
        log[at + {"size": 2, "magic": 4, "offset": 35}[problem]] ^= amount % 255 + 1
    found = chained(bytes(log), BASE)
    places, end = (found[0].tolist(), found[1]) if found is not None else ([], 0)
    assert places == starts[: len(places)]
    assert len(places) >= bad - 1 or len(log) < FEW * MIN_RECORD_SIZE, "all in front of it, but perhaps its neighbour"
    assert end == (starts[len(places)] if len(places) < len(starts) else end) <= len(log)
    if problem in {"magic", "offset"}:
        assert len(places) <= bad


def test_a_few_records_are_left_to_be_looked_at_one_by_one() -> None:
    data, _ = records([MIN_RECORD_SIZE] * 5)
    assert chained(bytes(data), BASE) is None
    assert chained(b"", BASE) is None
    assert chained(bytes(5000), BASE) is None, "there is none"
    data, _ = records([MIN_RECORD_SIZE] * 2 * FEW)
    assert chained(bytes(data), BASE + 1) is None, "they belong elsewhere"
