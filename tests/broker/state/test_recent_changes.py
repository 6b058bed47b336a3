"""Who has a table gets what has changed since, or all of it: never less."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiorocketmq.broker.state.recent_changes import RecentChanges

steps = st.lists(st.sampled_from(["a", "b", "c", "d", None]), max_size=30)


@given(steps, st.integers(1, 4))
def test_all_that_changed_since_or_nobody_knows(keys: list[str | None], most: int) -> None:
    recent, history = RecentChanges(most), list[str | None]()
    for key in keys:
        recent.forget() if key is None else recent.changed(key)
        history.append(key)
        assert recent.number == len(history)
    for number in range(len(history) + 1):
        after = history[number:]
        found = recent.since(number)
        if found is None:
            assert None in after or len(set(after)) > most or len(set(history)) > most
        else:
            assert None not in after
            assert (set(found), len(found)) == (set(after), len(set(after)))
    assert recent.since(-1) is None
    assert recent.since(len(history) + 1) is None, "of another process"


def test_few_keys_that_change_often_are_remembered() -> None:
    recent = RecentChanges(2)
    for number in range(100):
        recent.changed("ab"[number % 2])
    assert recent.since(0) == ["b", "a"]
    recent.changed("c")
    assert recent.since(99) == ["c", "b"]
    assert recent.since(98) is None
