"""What the texts of errors advise."""

from __future__ import annotations

import pytest

from aiorocketmq.client.errors import Attempt, SendFailed, SendTimedOut
from aiorocketmq.remoting.errors import ConnectionLostError, RocketMQError, TooManyRequestsError

FEWER = "; send fewer at a time (lists, accumulate, a semaphore), or give them more send_timeout"


def attempt(error: RocketMQError) -> Attempt:
    return Attempt("broker-a", "h:1", error, 0.0)


def test_a_send_that_no_attempt_was_made_for() -> None:
    assert str(SendTimedOut("T", ())) == (
        "sending to T failed: no attempt was possible in the time given: perhaps too many sends "
        "were begun at once, or something blocks the event loop" + FEWER
    )


@pytest.mark.parametrize(
    ("error", "advised"),
    [(TooManyRequestsError("65535 requests wait"), True), (ConnectionLostError("lost"), False)],
)
def test_too_many_sends_at_once(error: RocketMQError, advised: bool) -> None:
    assert str(SendFailed("T", (attempt(error),))).endswith(FEWER) == advised
    assert not str(SendFailed("T", (attempt(error),), "told by others")).endswith(FEWER)
