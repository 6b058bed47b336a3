"""Who is not read, and who is cut, when connections hold too much together."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from aiorocketmq.remoting.transport.budget import PATIENCE_S, Action, MemoryBudget

LIMIT = 1600
PAUSE, RESUME, CUT = Action.PAUSE, Action.RESUME, Action.CUT


def judged(budget: MemoryBudget[str], now: float) -> list[tuple[str, Action]]:
    return [(each.connection, each.action) for each in budget.judge(now)]


def budget_of(now: float = 0.0, **sizes: int) -> MemoryBudget[str]:
    budget: MemoryBudget[str] = MemoryBudget(LIMIT)
    for name, size in sizes.items():
        budget.hold(name, size, now)
    return budget


def test_nothing_happens_up_to_three_quarters() -> None:
    budget = budget_of(a=1000, b=200)
    assert not budget.is_due
    assert judged(budget, 100.0) == []


def test_beyond_them_the_largest_is_not_read_any_more() -> None:
    budget = budget_of(a=1000, b=201)
    assert budget.is_due
    assert judged(budget, 1.0) == [("a", PAUSE)]
    assert not budget.is_due  # until there is noticeably more


def test_the_slow_one_goes_before_the_large_one() -> None:
    budget = budget_of(slow=300)
    budget.hold("large", 950, 60.0)
    assert judged(budget, 60.0)[0] == ("slow", PAUSE)


def test_who_holds_less_than_before_is_not_slow() -> None:
    budget = budget_of(slow=400, reads=500)
    budget.hold("reads", 400, 59.0)
    budget.hold("late", 450, 59.5)
    assert judged(budget, 60.0)[0] == ("slow", PAUSE)
    assert ("reads", PAUSE) not in judged(budget, 60.0)


def test_they_are_read_again_when_there_is_room() -> None:
    budget = budget_of(a=700, b=600)
    assert judged(budget, 1.0) == [("a", PAUSE)]
    budget.hold("b", 301, 2.0)
    assert judged(budget, 2.0) == []
    budget.hold("b", 300, 3.0)
    assert judged(budget, 3.0) == [("a", RESUME)]


def test_who_was_not_read_for_long_and_holds_it_still_is_cut() -> None:
    budget = budget_of(a=700, b=400, c=200)
    assert judged(budget, 1.0) == [("a", PAUSE)]
    assert judged(budget, 0.9 + PATIENCE_S) == []
    assert judged(budget, 1.0 + PATIENCE_S) == [("a", CUT)]
    assert budget.total == 600


def test_beyond_the_limit_they_are_cut_at_once() -> None:
    budget = budget_of(a=700, b=600, c=301)
    verdicts = budget.judge(9.0)
    assert [(each.connection, each.action) for each in verdicts] == [("a", CUT)]
    assert verdicts[0].reason == (
        "it holds 700 bytes since 9 s, all connections together 1601, the limit is "
        "maxBufferedBytes=1600"
    )
    assert budget.total == 901


def test_memory_is_given_back_when_much_less_is_held() -> None:
    budget: MemoryBudget[str] = MemoryBudget(1 << 40)
    budget.hold("a", 100 << 20, 0.0)
    assert budget.take_peak() == 0
    budget.hold("a", 20 << 20, 1.0)
    assert budget.take_peak() == 80 << 20
    assert budget.take_peak() == 0
    budget.hold("a", 0, 1.0)
    assert budget.take_peak() == 0  # 20 MiB are not worth it


class AnyLoad(RuleBasedStateMachine):
    """Whatever connections do: judged, they hold no more than the limit; nobody is paused for
    ever."""

    def __init__(self) -> None:
        super().__init__()
        self.budget: MemoryBudget[int] = MemoryBudget(LIMIT)
        self.held: dict[int, int] = {}
        self.paused: dict[int, float] = {}
        self.now = 0.0

    @rule(who=st.integers(0, 9), size=st.integers(0, LIMIT))
    def hold(self, who: int, size: int) -> None:
        if who in self.paused and size > self.held.get(who, 0):
            return  # it is not read
        self.held[who] = size
        self.budget.hold(who, size, self.now)
        if not size:
            self.paused.pop(who, None)

    @rule(passed=st.floats(0, 10))
    def judge(self, passed: float) -> None:
        self.now += passed
        for who, action, _ in self.budget.judge(self.now):
            if action is RESUME:
                del self.paused[who]
            elif action is PAUSE:
                assert who not in self.paused
                self.paused[who] = self.now
            else:
                self.paused.pop(who, None)
                self.held[who] = 0
        assert self.budget.total <= LIMIT
        read = sum(size for who, size in self.held.items() if who not in self.paused)
        assert self.budget.total <= LIMIT * 3 // 4 or read <= LIMIT // 2
        assert all(self.now - since < PATIENCE_S for since in self.paused.values())
        assert not self.paused or self.budget.total > LIMIT * 5 // 8

    @invariant()
    def it_counts_right(self) -> None:
        assert self.budget.total == sum(self.held.values())
        assert all((who in self.budget._paused) == (who in self.paused) for who in range(10))


TestAnyLoad = AnyLoad.TestCase
TestAnyLoad.settings = settings(
    max_examples=max(1, settings().max_examples // 2), stateful_step_count=40
)
