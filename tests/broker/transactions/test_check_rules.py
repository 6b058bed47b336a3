"""What a check does with an undecided half message: without a broker."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aiorocketmq.broker.transactions.check_rules import (
    CheckRules,
    Half,
    Verdict,
    asked_once_more,
    facts_of,
    judge,
    kept_for_later,
)

from .half_messages import NOW, message

RULES = CheckRules(timeout_ms=6000, max_checks=15, keep_ms=72 * 3_600_000)


def half(age_ms: int = 10_000, **facts: Any) -> Half:
    at = NOW - age_ms
    made = Half(0, born_timestamp=at, store_timestamp=at, immunity_ms=None, prepared_offset=None)
    return made._replace(**facts)


def test_the_young_end_the_round() -> None:
    assert judge(half(5999), RULES, NOW, NOW) is Verdict.STOP
    assert judge(half(0), RULES, NOW, NOW) is Verdict.STOP
    assert judge(half(6000), RULES, NOW, NOW) is Verdict.ASK


def test_one_that_was_born_in_the_future_is_asked_for() -> None:
    assert judge(Half(0, NOW + 1, NOW - 1, None, None), RULES, NOW, NOW) is Verdict.ASK


def test_what_was_stored_since_the_round_began_waits() -> None:
    assert judge(Half(0, NOW - 60_000, NOW, None, None), RULES, NOW + 5, NOW) is Verdict.STOP


def test_one_that_was_stored_in_the_future_holds_up_nobody() -> None:
    """The clock was set back since, or the leader of then had another one: all behind it would
    wait for as long."""
    ahead = half(store_timestamp=NOW + 3_600_000)
    assert judge(ahead, RULES, NOW, NOW) is Verdict.ASK


def test_after_the_last_check_it_is_given_up() -> None:
    assert judge(half(check_times=14), RULES, NOW, NOW) is Verdict.ASK
    assert judge(half(check_times=15), RULES, NOW, NOW) is Verdict.GIVE_UP
    assert judge(half(check_times=15, age_ms=0), RULES, NOW, NOW) is Verdict.GIVE_UP


def test_what_is_about_to_expire_is_given_up() -> None:
    assert judge(half(RULES.keep_ms), RULES, NOW, NOW) is Verdict.ASK
    assert judge(half(RULES.keep_ms + 1), RULES, NOW, NOW) is Verdict.GIVE_UP


def test_immunity_counts_instead_of_the_timeout() -> None:
    assert judge(half(99_999, immunity_ms=100_000), RULES, NOW, NOW) is Verdict.KEEP
    assert judge(half(100_000, immunity_ms=100_000), RULES, NOW, NOW) is Verdict.ASK
    assert judge(half(1000, immunity_ms=500), RULES, NOW, NOW) is Verdict.ASK


def test_facts_come_from_the_properties() -> None:
    found = facts_of(
        message(
            "TRANSACTION_CHECK_TIMES\x013\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02"
            "TRAN_PREPARED_QUEUE_OFFSET\x019"
        )
    )
    assert found == Half(3, NOW, NOW, 60_000, 9)
    assert asked_once_more(found) == {"TRANSACTION_CHECK_TIMES": "4"}
    assert kept_for_later(found, 3) == {"TRAN_PREPARED_QUEUE_OFFSET": "9"}
    assert kept_for_later(found._replace(prepared_offset=None), 3) == {
        "TRAN_PREPARED_QUEUE_OFFSET": "3"
    }


@given(st.sampled_from(["-1", "x", "", "9" * 30, "1.5", "²"]))
@settings(deadline=None)
def test_what_is_no_number_was_not_said(text: str) -> None:
    found = facts_of(
        message(
            f"TRANSACTION_CHECK_TIMES\x01{text.replace('-1', 'x')}\x02"
            f"CHECK_IMMUNITY_TIME_IN_SECONDS\x01{text}\x02TRAN_PREPARED_QUEUE_OFFSET\x01{text}"
        )
    )
    assert found == Half(0, NOW, NOW, None, None)
