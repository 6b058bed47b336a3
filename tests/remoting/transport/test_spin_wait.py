"""Whether to wait for an answer awake or asleep."""

from __future__ import annotations

from aiorocketmq.remoting.transport.spin_wait import (
    INTERRUPTED_S,
    LEAST_SLEEPS,
    MOST_SLEEPS,
    SOON_S,
    SPIN_S,
    TRIES,
    SpinWait,
)

SOON, LATE, INTERRUPTED = SOON_S / 2, SPIN_S, INTERRUPTED_S * 2


def after(spin: SpinWait, *seconds: float) -> int:
    """The next answers take so long; so many are then waited for asleep."""
    for each in seconds:
        assert spin.sleeps == 0
        spin.ended(each)
    sleeps, spin.sleeps = spin.sleeps, 0
    return sleeps


def test_it_stays_awake_while_answers_come_soon() -> None:
    assert after(SpinWait(), *[SOON] * 1000) == 0


def test_cores_that_were_at_rest_have_time_to_wake_up() -> None:
    spin = SpinWait()
    for _ in range(100):
        assert after(spin, *[LATE] * (TRIES - 1), SOON) == 0


def test_a_peer_that_is_far_away_is_waited_for_asleep() -> None:
    spin = SpinWait()
    sleeps = [after(spin, *[LATE] * TRIES) for _ in range(12)]
    assert sleeps[:3] == [LEAST_SLEEPS, 2 * LEAST_SLEEPS, 4 * LEAST_SLEEPS]
    assert sleeps[-1] == MOST_SLEEPS
    assert TRIES * SPIN_S / MOST_SLEEPS < 1e-6  # what it costs then


def test_whose_core_is_wanted_by_others_sleeps_at_once() -> None:
    spin = SpinWait()
    assert after(spin, INTERRUPTED) == LEAST_SLEEPS
    assert after(spin, SOON, INTERRUPTED) == 2 * LEAST_SLEEPS - 1


def test_now_and_then_does_not_count() -> None:
    spin = SpinWait()
    for _ in range(100):
        assert after(spin, INTERRUPTED) == LEAST_SLEEPS
        assert after(spin, *[SOON] * LEAST_SLEEPS) == 0


def test_what_has_become_quick_is_waited_for_awake_again() -> None:
    spin = SpinWait()
    for _ in range(12):
        after(spin, INTERRUPTED)
    assert after(spin, *[SOON] * MOST_SLEEPS) == 0
    assert after(spin, INTERRUPTED) == LEAST_SLEEPS
