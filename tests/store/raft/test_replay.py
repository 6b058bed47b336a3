"""Streams of a real group, played to a member of ours in the place of each of its nodes: every
answer has the same meaning, field by field, but for those in ``DIFFERENCES``, which are meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from aiorocketmq.remoting.protocol.bodies.dledger import (
    AppendRequest,
    DledgerBody,
    DledgerCode,
    GetRequest,
    PushResponse,
    VoteResponse,
    VoteResult,
)
from tests.golden_files import needs_whole_set

from .replay import Difference, Replay

STOPS = {
    "SIGKILL leader n0": "n0",
    "SIGKILL both followers n0 n2": "n0 n2",
    "start n0 n2": "n1",
}
STARTS = {
    "start": "n0 n1 n2",
    "start n0 n1 n2": "n0 n1 n2",
    "start n0 n1": "n0 n1 n2",
    "restart old leader n0": "n0",
    "start n0 n2": "n0 n2",
    "start old leader n1 (will be truncated)": "n1",
}
"""Step to the nodes that stop and start in it."""
UNSENT = 348
"""The last entry that n1 wrote as a leader whom nobody could hear (``store-dirty-n1``)."""
ANSWERS = {
    ("group3", "n0"): 268,
    ("group3", "n1"): 578,
    ("group3", "n2"): 679,
    ("batchpush", "n0"): 100,
    ("batchpush", "n1"): 4,
    ("batchpush", "n2"): 103,
    ("begin", "n0"): 7,
    ("begin", "n1"): 83,
    ("begin", "n2"): 74,
}
"""So many were captured of each node."""


def push_code(body: DledgerBody | None) -> int | None:
    return body.code if isinstance(body, PushResponse) else None


def vote(body: DledgerBody | None) -> VoteResult | None:
    return body.vote_result if isinstance(body, VoteResponse) else None


class Meant(NamedTuple):
    """A difference, and why it is one."""

    step: str
    is_it: Callable[[Difference], bool]
    why: str


DIFFERENCES = {
    ("group3", "n0"): [
        Meant(
            "probes",
            lambda d: (
                (push_code(d.theirs), push_code(d.ours))
                == (DledgerCode.REPEATED_PUSH, DledgerCode.INCONSISTENT_STATE)
            ),
            "a push that came too early and comes again is no error; both are refused as one",
        )
    ],
    ("group3", "n1"): [
        Meant(
            "SIGKILL leader n0",
            lambda d: (
                (vote(d.theirs), vote(d.ours))
                == (VoteResult.REJECT_ALREADY_VOTED, VoteResult.REJECT_ALREADY_HAS_LEADER)
            ),
            "a push shows that the leader is alive, too, and it came after the last heartbeat",
        )
    ],
    ("group3", "n2"): [
        Meant(
            "probes",
            lambda d: (
                isinstance(d.request, AppendRequest)
                and (d.theirs.code, d.ours and d.ours.code)
                == (DledgerCode.SUCCESS, DledgerCode.UNSUPPORTED)
            ),
            "nobody appends from outside: what is no record breaks the broker",
        ),
        Meant(
            "leadership transfer by 51005",
            lambda d: (
                (vote(d.theirs), vote(d.ours))
                == (VoteResult.REJECT_TERM_NOT_READY, VoteResult.ACCEPT)
            ),
            "a leader that hears of a larger term, here by a heartbeat's answer, follows at once",
        ),
    ],
    ("begin", "n0"): [
        Meant(
            "old files expire",
            lambda d: isinstance(d.request, GetRequest),
            "the stream does not show that the leader has deleted entries",
        )
    ],
}


def played(name: str, node: str) -> Replay:
    wiped = [
        step
        for step in ("wiped follower, no writes", "wiped follower joins a log that starts later")
        if (name, node) == ("begin", "n2")
    ]
    replay = Replay(name, node, wiped_in=wiped)
    step = ""
    for frame in replay.frames:
        if frame.step != step:
            step = frame.step
            if node in STOPS.get(step, ""):
                replay.member = None
            if node in STARTS.get(step.partition(" (enable")[0], ""):
                replay.now = frame.at_ms
                while step.endswith("(will be truncated)") and replay.log.end_index < UNSENT:
                    replay.log.put(2, b"nobody heard this")
                replay.boot()
        replay.play(frame)
    replay.compare()
    return replay


@pytest.mark.parametrize(("name", "node"), ANSWERS)
def test_answers_are_those_of_the_original(name: str, node: str) -> None:
    needs_whole_set()
    replay = played(name, node)
    assert replay.compared == ANSWERS[name, node]
    meant = DIFFERENCES.get((name, node), [])
    assert len(replay.differences) == len(meant), replay.differences
    for difference, expected in zip(replay.differences, meant, strict=True):
        assert difference.step == expected.step
        assert expected.is_it(difference), expected.why
