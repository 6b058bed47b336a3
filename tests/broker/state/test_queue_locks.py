"""Queue locks: one owner at a time, for 60 s after it last asked."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from aiorocketmq.broker.state import queue_locks
from aiorocketmq.broker.state.queue_locks import LOCK_LIFE_MS, QueueLocks
from aiorocketmq.remoting.protocol.message.message_queue import MessageQueue
from aiorocketmq.remoting.slices import at_once

from ...sim import told_of

QUEUES = [MessageQueue("T", "b", i) for i in range(3)] + [MessageQueue("T", "other", 0)]


def test_a_lock_is_kept_renewed_and_lost() -> None:
    locks = QueueLocks(told_of())
    assert locks.lock("g", "me", QUEUES, 0) == QUEUES
    assert locks.lock("g", "you", QUEUES, LOCK_LIFE_MS) == []
    assert locks.lock("g", "me", QUEUES[:1], LOCK_LIFE_MS) == QUEUES[:1]
    assert locks.lock("g", "you", QUEUES, LOCK_LIFE_MS + 1) == QUEUES[1:]


def test_groups_do_not_meet() -> None:
    locks = QueueLocks(told_of())
    locks.lock("g", "me", QUEUES, 0)
    assert locks.lock("h", "you", QUEUES, 0) == QUEUES


def test_only_the_owner_unlocks() -> None:
    locks = QueueLocks(told_of())
    locks.lock("g", "me", QUEUES, 0)
    locks.unlock("g", "you", QUEUES)
    assert locks.lock("g", "you", QUEUES, 1) == []
    locks.unlock("g", "me", QUEUES[:2])
    assert locks.lock("g", "you", QUEUES, 1) == QUEUES[:2]


def test_expired_locks_are_forgotten() -> None:
    locks = QueueLocks(told_of())
    locks.lock("g", "me", QUEUES[:1], 0)
    locks.lock("g", "me", QUEUES[1:], 10)
    at_once(locks.purge(LOCK_LIFE_MS + 1))
    assert len(locks) == len(QUEUES) - 1


def test_others_have_their_turn_while_many_locks_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_locks, "_LOOKED_AT_AT_ONCE", 1)
    locks, late = QueueLocks(told_of()), LOCK_LIFE_MS + 1
    locks.lock("g", "me", QUEUES, 0)
    for turn, _ in enumerate(locks.purge(late), 1):
        if turn == 1:
            assert locks.lock("g", "me", QUEUES[-1:], late) == QUEUES[-1:]
    assert turn == len(QUEUES)
    assert len(locks) == 1


def test_all_locks_end_with_leadership() -> None:
    locks = QueueLocks(told_of())
    for group in "hg":
        locks.lock(group, "me", QUEUES, 0)
    assert locks.forget_all() == ["g", "h"]
    assert locks.lock("g", "you", QUEUES, 1) == QUEUES
    assert locks.forget_all() == ["g"]
    assert locks.forget_all() == []


class LockMachine(RuleBasedStateMachine):
    """Against the plainest model: who locked last, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.locks = QueueLocks(told_of())
        self.now = 0
        self.model: dict[MessageQueue, tuple[str, int]] = {}

    @rule(ms=st.integers(0, 2 * LOCK_LIFE_MS))
    def pass_time(self, ms: int) -> None:
        self.now += ms

    @rule(client=st.sampled_from("abc"), queues=st.lists(st.sampled_from(QUEUES), unique=True))
    def lock(self, client: str, queues: list[MessageQueue]) -> None:
        free = [q for q in queues if self._may_lock(q, client)]
        assert self.locks.lock("g", client, queues, self.now) == free
        self.model.update(dict.fromkeys(free, (client, self.now)))

    def _may_lock(self, queue: MessageQueue, client: str) -> bool:
        owner, since = self.model.get(queue, (client, self.now))
        return owner == client or self.now - since > LOCK_LIFE_MS

    @rule(client=st.sampled_from("abc"), queues=st.lists(st.sampled_from(QUEUES), unique=True))
    def unlock(self, client: str, queues: list[MessageQueue]) -> None:
        self.locks.unlock("g", client, queues)
        self.model = {
            q: held for q, held in self.model.items() if not (q in queues and held[0] == client)
        }

    @rule()
    def purge(self) -> None:
        at_once(self.locks.purge(self.now))


TestLockMachine = LockMachine.TestCase
