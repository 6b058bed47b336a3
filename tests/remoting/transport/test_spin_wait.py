"""Whether to wait for an answer awake or asleep."""

from __future__ import annotations

from aiorocketmq.remoting.transport.spin_wait import (
    AWAKE_S,
    INTERRUPTED_S,
    LEAST_SLEEPS,
    MOST_SLEEPS,
    SOON_S,
    TRIES,
    Vigil,
)

SOON, LATE, INTERRUPTED = SOON_S / 2, AWAKE_S, INTERRUPTED_S * 2


def after(vigil: Vigil, *seconds: float) -> int:
    """The next answers take so long; so many are then waited for asleep."""
    for each in seconds:
        assert vigil.sleeps == 0
        vigil.ended(each)
    sleeps, vigil.sleeps = vigil.sleeps, 0
    return sleeps


def test_it_stays_awake_while_answers_come_soon() -> None:
    assert after(Vigil(), *[SOON] * 1000) == 0


def test_cores_that_were_at_rest_have_time_to_wake_up() -> None:
    vigil = Vigil()
    for _ in range(100):
        assert after(vigil, *[LATE] * (TRIES - 1), SOON) == 0


def test_a_peer_that_is_far_away_is_waited_for_asleep() -> None:
    vigil = Vigil()
    sleeps = [after(vigil, *[LATE] * TRIES) for _ in range(12)]
    assert sleeps[:3] == [LEAST_SLEEPS, 2 * LEAST_SLEEPS, 4 * LEAST_SLEEPS]
    assert sleeps[-1] == MOST_SLEEPS
    assert TRIES * AWAKE_S / MOST_SLEEPS < 1e-6  # what it costs then


def test_whose_core_is_wanted_by_others_sleeps_at_once() -> None:
    vigil = Vigil()
    assert after(vigil, INTERRUPTED) == LEAST_SLEEPS
    assert after(vigil, SOON, INTERRUPTED) == 2 * LEAST_SLEEPS - 1


def test_now_and_then_does_not_count() -> None:
    vigil = Vigil()
    for _ in range(100):
        assert after(vigil, INTERRUPTED) == LEAST_SLEEPS
        assert after(vigil, *[SOON] * LEAST_SLEEPS) == 0


def test_what_has_become_quick_is_waited_for_awake_again() -> None:
    vigil = Vigil()
    for _ in range(12):
        after(vigil, INTERRUPTED)
    assert after(vigil, *[SOON] * MOST_SLEEPS) == 0
    assert after(vigil, INTERRUPTED) == LEAST_SLEEPS
