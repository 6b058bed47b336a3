"""What a producer of ``benchmarks.jepsen`` writes down of a call."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aiorocketmq import (
    BrokerError,
    ConnectError,
    ConnectionLostError,
    Message,
    RequestTimeout,
    RocketMQError,
    SendContext,
    SendFailed,
)
from aiorocketmq.client.errors import Attempt, NoRouteError
from benchmarks.histories.events import Again, Invoke, from_lines
from benchmarks.jepsen.clients import _Attempts, _reason, _was_not_sent
from benchmarks.raft_group.recorder import Recorder


def failed(*errors: RocketMQError) -> SendFailed:
    return SendFailed("T", tuple(Attempt("b", "h:1", each, 0.1) for each in errors))


REFUSED = ConnectError("refused")


@pytest.mark.parametrize(
    ("error", "was_not_sent", "reason"),
    [
        (NoRouteError("none"), True, "NoRouteError"),
        (REFUSED, True, "ConnectError"),
        (failed(), True, "SendFailed"),
        (failed(REFUSED, REFUSED), True, "ConnectError"),
        (failed(ConnectionLostError("lost"), REFUSED), False, "ConnectError"),
        (failed(RequestTimeout("late")), False, "RequestTimeout"),
        (BrokerError(14, "slave"), False, "SERVICE_NOT_AVAILABLE"),
        (BrokerError(9999, "?"), False, "BrokerError"),
    ],
)
def test_only_what_had_no_connection_was_surely_not_sent(
    error: RocketMQError, was_not_sent: bool, reason: str
) -> None:
    assert _was_not_sent(error) is was_not_sent
    assert _reason(error) == reason


def test_a_second_attempt_of_the_same_message_is_told() -> None:
    journal = io.BytesIO()
    recorder = Recorder(journal=cast(Any, journal))
    hook = _Attempts(recorder)
    for attempts in (1, 3, 1):
        _, content = recorder.invoke("p0", "T", None, once=True)
        message = Message("T", b"x", keys=[content])
        for _ in range(attempts):
            hook.before_send(cast(SendContext, SimpleNamespace(messages=[message])))
    assert [type(each) for each in recorder.events] == [Invoke, Invoke, Again, Again, Invoke]
    assert [each.op for each in recorder.events if isinstance(each, Again)] == [1, 1]
    assert list(from_lines(journal.getvalue())) == recorder.events
