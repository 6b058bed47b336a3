"""Consumer offsets: the newest commit counts, whatever it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.state import consumer_offsets
from aiorocketmq.broker.state.consumer_offsets import (
    NO_OFFSET,
    ConsumerOffsets,
    OffsetTableFullError,
)
from aiorocketmq.remoting.slices import at_once

names = st.sampled_from(["a", "b", "%RETRY%a", "x-y"])
commits = st.lists(st.tuples(names, names, st.integers(0, 3), st.integers(-1, 2**63 - 1)))


@given(commits)
def test_the_last_commit_counts(history: list[tuple[str, str, int, int]]) -> None:
    offsets = ConsumerOffsets()
    expected, changes = dict[tuple[str, str, int], int](), 0
    for group, topic, queue_id, offset in history:
        offsets.commit(group, topic, queue_id, offset)
        changes += expected.get((group, topic, queue_id)) != offset
        expected[group, topic, queue_id] = offset
    assert all(offsets.get(*key) == offset for key, offset in expected.items())
    assert offsets.changes == changes
    for group, topic, _ in expected:
        queues = {q: offset for (g, t, q), offset in expected.items() if (g, t) == (group, topic)}
        assert offsets.queues(group, topic) == queues
        assert topic in at_once(offsets.topics_of(group))
        assert group in at_once(offsets.groups_of(topic))


@given(commits)
def test_what_is_saved_is_what_is_loaded(history: list[tuple[str, str, int, int]]) -> None:
    offsets, others = ConsumerOffsets(), ConsumerOffsets()
    for commit in history:
        offsets.commit(*commit)
    others.load(offsets.record())
    assert others.record() == offsets.record()


def test_unknown_is_no_offset() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 1, 5)
    assert offsets.get("g", "T", 0) == NO_OFFSET
    assert offsets.get("g", "U", 1) == NO_OFFSET
    assert offsets.get("h", "T", 1) == NO_OFFSET


def test_a_snapshot_does_not_change() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 5)
    before = offsets.record()
    offsets.commit("g", "T", 0, 6)
    assert before.offset_table == {"T@g": {0: 5}}


def test_a_group_is_forgotten() -> None:
    offsets = ConsumerOffsets()
    for group, topic in (("g", "T"), ("g", "U"), ("h", "T")):
        offsets.commit(group, topic, 0, 1)
    assert at_once(offsets.remove_group("g")) == 2
    assert at_once(offsets.topics_of("g")) == []
    assert at_once(offsets.groups_of("T")) == ["h"]
    assert offsets.changes == 5


def test_a_queue_is_forgotten() -> None:
    offsets = ConsumerOffsets()
    for group, topic, queue_id in (("g", "T", 0), ("g", "T", 1), ("h", "T", 0), ("g", "T2", 0)):
        offsets.commit(group, topic, queue_id, 10**13)
    known, changes = offsets.recent.number, offsets.changes
    assert offsets.remove_queues("T", [0])
    assert offsets.record().offset_table == {"T@g": {1: 10**13}, "T2@g": {0: 10**13}}
    assert offsets.changes > changes
    assert offsets.recent.since(known) is None
    known = offsets.recent.number
    assert not offsets.remove_queues("T", [0])
    assert offsets.recent.since(known) == []
    at_once(offsets.remove_group("g"))
    assert offsets.frame_budget.taken_bytes == ConsumerOffsets().frame_budget.taken_bytes


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_offsets, "MAX_KEYS", 2)
    monkeypatch.setattr(consumer_offsets, "MAX_QUEUES", 2)
    offsets = ConsumerOffsets()
    offsets.commit("g", "T", 0, 1)
    offsets.commit("g", "T", 1, 1)
    with pytest.raises(OffsetTableFullError):
        offsets.commit("g", "T", 2, 1)
    offsets.commit("g", "T", 1, 9)
    offsets.commit("g", "U", 0, 1)
    with pytest.raises(OffsetTableFullError):
        offsets.commit("g", "V", 0, 1)
    assert offsets.get("g", "T", 1) == 9


def test_offsets_behind_the_end_are_taken_back() -> None:
    offsets = ConsumerOffsets()
    for group, topic, queue_id, offset in [
        ("g", "T", 0, 9),
        ("g", "T", 1, 5),
        ("h", "T", 0, 5),
        ("g", "Gone", 0, 3),
        ("g", "U", 0, -1),
    ]:
        offsets.commit(group, topic, queue_id, offset)
    before = offsets.changes
    ends = {("T", 0): 5, ("T", 1): 5, ("U", 0): 0}
    assert offsets.clamp(lambda topic, queue_id: ends.get((topic, queue_id), 0)) == 2
    assert offsets.changes == before + 2
    assert offsets.record().offset_table == {
        "T@g": {0: 5, 1: 5},
        "T@h": {0: 5},
        "Gone@g": {0: 0},
        "U@g": {0: -1},
    }
    assert offsets.clamp(lambda topic, queue_id: ends.get((topic, queue_id), 0)) == 0
    assert offsets.changes == before + 2
