"""What a producer means to do with each of its transactions, and what must have become of them.
Pure."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


class Kind(Enum):
    """How a producer behaves."""

    COMMIT = "commits"
    ROLLBACK = "rolls back"
    TWICE = "commits, and says so twice"
    UNKNOWN = "says unknown, decides when asked"
    SILENT_THEN_DECIDES = "says nothing, decides when asked"
    LATE = "decides of itself after it was asked"
    IMMUNE = "is not to be asked for a second, decides of itself"
    DELAYED = "commits a message with a delay"
    SILENCE = "never says anything"
    DEAD = "is gone, the next one of its group decides"


class Plan(NamedTuple):
    """One transaction. ``asked`` is at which check it is decided, if checks decide it."""

    number: int
    kind: Kind
    decision: int
    asked: int


_WEIGHTS = {
    Kind.COMMIT: 30, Kind.ROLLBACK: 20, Kind.TWICE: 4, Kind.UNKNOWN: 12,
    Kind.SILENT_THEN_DECIDES: 10, Kind.LATE: 5,
    Kind.IMMUNE: 3, Kind.DELAYED: 3, Kind.SILENCE: 8, Kind.DEAD: 5,
}  # fmt: skip


def plans(count: int, seed: int) -> list[Plan]:
    """What happens to each transaction."""
    dice = random.Random(seed)
    kinds = dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=count)
    return [
        Plan(number, kind, _decision(kind, dice), dice.randint(1, 3))
        for number, kind in enumerate(kinds)
    ]


def _decision(kind: Kind, dice: random.Random) -> int:
    if kind in (Kind.COMMIT, Kind.TWICE, Kind.DELAYED):
        return COMMIT
    if kind is Kind.SILENCE:
        return UNKNOWN
    return ROLLBACK if kind is Kind.ROLLBACK else dice.choice((COMMIT, ROLLBACK))


class Verdict(NamedTuple):
    """How many transactions of each kind there were, and what is wrong."""

    kinds: Counter[str]
    delivered: int
    repeated: Counter[str]
    """By kind, how often a message came again."""
    given_up: int
    problems: list[str]


def judge(
    made: Iterable[Plan],
    uncertain: Iterable[int],
    delivered: Mapping[int, int],
    given_up: Mapping[int, int],
) -> Verdict:
    """``made``: those whose half message was acknowledged; ``uncertain``: those that may be there
    (rolled back when asked).

    ``delivered`` and ``given_up`` count how often a number was found in the topic and among those
    given up.
    """
    problems: list[str] = []
    kinds: Counter[str] = Counter()
    known = set(uncertain)
    made = list(made)
    for plan in made:
        known.add(plan.number)
        kinds[plan.kind.value] += 1
        times, out = delivered.get(plan.number, 0), given_up.get(plan.number, 0)
        if plan.decision == COMMIT and not times:
            problems.append(f"{plan} was committed and is lost (given up {out} times)")
        if plan.decision != COMMIT and times:
            problems.append(f"{plan} was not committed and came {times} times")
        if plan.kind is Kind.SILENCE and out != 1:
            problems.append(f"{plan} was silent and was given up {out} times")
        if plan.kind is not Kind.SILENCE and out:
            problems.append(f"{plan} was decided and was given up {out} times")
    problems += [
        f"{number} came, but was never sent" for number in delivered if number not in known
    ]
    repeated: Counter[str] = Counter()
    for plan in made:
        if (more := delivered.get(plan.number, 0) - 1) > 0:
            repeated[plan.kind.value] += more
    return Verdict(kinds, sum(delivered.values()), repeated, sum(given_up.values()), problems)
