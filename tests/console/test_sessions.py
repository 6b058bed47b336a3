"""Sessions end, and do not tell secrets."""

from __future__ import annotations

import pytest

from aiorocketmq.console.sessions import (
    ATTEMPTS,
    ATTEMPTS_S,
    IDLE_S,
    LONGEST_S,
    MOST_SESSIONS,
    Sessions,
    same,
)
from aiorocketmq.remoting.signature import Credentials

from ..sim import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_session_is_found_by_its_key_alone(clock: ManualClock) -> None:
    sessions = Sessions(clock)
    session = sessions.begin(None, has_token=True)
    assert sessions.find(session.key) is session
    assert sessions.find(session.csrf) is None
    assert sessions.find("") is None
    assert sessions.find(None) is None
    assert session.key != session.csrf


def test_it_ends_unless_somebody_uses_it(clock: ManualClock) -> None:
    sessions = Sessions(clock)
    session = sessions.begin(None, has_token=True)
    clock.advance(IDLE_S - 1)
    assert sessions.find(session.key, use=False) is session  # a stream of events is no use
    clock.advance(1)
    assert sessions.find(session.key) is None
    assert len(sessions) == 0


def test_it_ends_however_it_is_used(clock: ManualClock) -> None:
    sessions = Sessions(clock)
    session = sessions.begin(None, has_token=True)
    until = clock.monotonic() + LONGEST_S
    while clock.monotonic() < until:
        assert sessions.find(session.key) is session
        clock.advance(IDLE_S / 2)
    clock.advance(1)
    assert sessions.find(session.key) is None


def test_there_are_not_more_than_so_many(clock: ManualClock) -> None:
    sessions = Sessions(clock)
    first, second = sessions.begin(None, has_token=True), sessions.begin(None, has_token=True)
    sessions.find(first.key)
    for _ in range(MOST_SESSIONS - 1):
        sessions.begin(None, has_token=True)
    assert len(sessions) == MOST_SESSIONS
    assert sessions.find(second.key) is None
    assert sessions.find(first.key) is first


def test_guessing_is_slow(clock: ManualClock) -> None:
    sessions = Sessions(clock)
    for _ in range(2 * ATTEMPTS):
        assert sessions.may_try()
        sessions.forgive()
    for _ in range(ATTEMPTS):  # all of them under way at once
        assert sessions.may_try()
    assert not sessions.may_try()
    clock.advance(ATTEMPTS_S + 1)
    assert sessions.may_try()


def test_a_session_tells_no_secret(clock: ManualClock) -> None:
    session = Sessions(clock).begin(Credentials("me", "the-secret"), has_token=False)
    assert "the-secret" not in repr(session)
    assert session.key not in repr(session)
    assert session.name == "me"


def test_same() -> None:
    assert same("ä", "ä")
    assert not same("a", "b")
    assert not same("", "b")
