"""What may be committed never passes a message that is not consumed (client.md §4.6)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from aiorocketmq.client.consumer.process_queue import NOTHING_CONSUMED, ProcessQueue

from ..messages import stored


def test_the_oldest_unfinished_message_holds_the_offset() -> None:
    queue = ProcessQueue()
    messages = [stored(offset) for offset in (5, 6, 7)]
    queue.put(messages)
    assert queue.remove([messages[1]]) == 5
    assert queue.remove([messages[2]]) == 5
    assert queue.remove([messages[0]]) == 8
    assert len(queue) == 0


def test_nothing_to_commit_before_the_first_message() -> None:
    assert ProcessQueue().commit_offset == NOTHING_CONSUMED


def test_gaps_that_the_filter_made_are_passed() -> None:
    queue = ProcessQueue()
    first, second = stored(10), stored(15)
    queue.put([first, second])
    assert queue.span == 5
    assert queue.remove([first]) == 15
    assert queue.remove([second]) == 16


def test_a_message_is_taken_once() -> None:
    queue = ProcessQueue()
    message = stored(3, b"12345")
    assert queue.put([message]) == [message]
    assert queue.put([stored(3, b"12345")]) == []
    assert queue.size_bytes == 5


def test_messages_may_come_before_those_that_are_held() -> None:
    queue = ProcessQueue()
    queue.put([stored(10)])
    queue.put([stored(4), stored(12)])
    assert (queue.first_offset, queue.last_offset, queue.commit_offset) == (4, 12, 4)


@given(st.lists(st.integers(0, 100), unique=True), st.randoms(use_true_random=False))
def test_any_order_of_finishing_ends_behind_the_last(offsets: list[int], shuffle: object) -> None:
    queue = ProcessQueue()
    messages = [stored(offset) for offset in sorted(offsets)]
    queue.put(messages)
    shuffle.shuffle(messages)  # type: ignore[attr-defined]
    for message in messages:
        queue.remove([message])
    assert queue.commit_offset == (max(offsets) + 1 if offsets else NOTHING_CONSUMED)
    assert queue.size_bytes == 0


class AgainstAModel(RuleBasedStateMachine):
    """The line of offsets with its lazily cleared front behaves as a plain dict that is searched
    for its minimum."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = ProcessQueue()
        self.held: dict[int, int] = {}
        self.end = NOTHING_CONSUMED

    @rule(offsets=st.lists(st.integers(0, 40), max_size=6), size=st.integers(1, 9))
    def put(self, offsets: list[int], size: int) -> None:
        new = self.queue.put([stored(offset, b"x" * size) for offset in offsets])
        assert [m.queue_offset for m in new] == [
            o for o in dict.fromkeys(offsets) if o not in self.held
        ]
        for offset in offsets:
            self.held.setdefault(offset, size)
            self.end = max(self.end, offset + 1)

    @rule(offsets=st.lists(st.integers(0, 40), max_size=6))
    def remove(self, offsets: list[int]) -> None:
        # Removed by what is held: a handler gives back the very messages that it got.
        messages = [stored(o, b"x" * self.held[o]) for o in offsets if o in self.held]
        for offset in offsets:
            self.held.pop(offset, None)
        assert self.queue.remove(messages) == (min(self.held) if self.held else self.end)

    @rule()
    def clear(self) -> None:
        self.queue.clear()
        self.held.clear()

    @invariant()
    def agrees(self) -> None:
        assert len(self.queue) == len(self.held)
        assert self.queue.size_bytes == sum(self.held.values())
        assert self.queue.first_offset == (min(self.held) if self.held else None)
        assert self.queue.commit_offset == (min(self.held) if self.held else self.end)


TestAgainstAModel = AgainstAModel.TestCase
