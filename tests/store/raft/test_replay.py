"""Streams of a real group, played to a member of ours in the place of each of its nodes: every
answer has the same meaning, field by field, but for those in ``DIFFERENCES``, which are meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest

from aiorocketmq.remoting.protocol.bodies.dledger import (
    AppendRequest,
    DledgerBody,
    DledgerCode,
    Entry,
    GetRequest,
    PushRequest,
    PushResponse,
    PushType,
    VoteResponse,
    VoteResult,
)
from aiorocketmq.store.raft.member import Member
from aiorocketmq.store.raft.ready import HardState
from aiorocketmq.store.raft.settings import RaftSettings
from tests.golden_files import needs_whole_set

from .list_log import ListLog
from .replay import PEERS, Difference, Replay, frames

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


# --- as leader


class Repair(NamedTuple):
    """How the original's leader of a term found out what a follower has, and what came of it."""

    leader: str
    follower: str
    entries: dict[int, Entry]
    exchanges: list[tuple[PushRequest, PushResponse]]


def repairs(name: str) -> list[Repair]:
    """All that were captured; refusals of one that does not follow yet are left out."""
    found: dict[tuple[str, str, int, str], Repair] = {}
    entries: dict[int, Entry] = {}
    all_frames = list(frames(name))
    answers = {frame.key: frame.body for frame in all_frames if not frame.is_request}
    for frame in all_frames:
        push, answer = frame.body, answers.get(frame.key)
        if not isinstance(push, PushRequest) or frame.sender not in PEERS:
            continue
        for entry in (push.entry, *push.batch_entry):
            if entry is not None:
                entries[entry.index] = entry
        looks = push.type in (PushType.COMPARE, PushType.TRUNCATE)
        if looks and isinstance(answer, PushResponse) and answer.code != DledgerCode.NOT_FOLLOWER:
            key = frame.sender, frame.receiver, push.term, frame.step
            made = found.setdefault(key, Repair(frame.sender, frame.receiver, dict(entries), []))
            made.entries.update(entries)
            made.exchanges.append((push, answer))
    return list(found.values())


def log_of_leader(repair: Repair) -> ListLog:
    """From the first entry that it has to the one that it compares first. Of entries that were not
    captured only index and term count."""
    first = repair.exchanges[0][0].entry
    last = repair.exchanges[-1][0]
    assert first is not None
    assert last.entry is not None
    begin = last.entry.index if last.type is PushType.TRUNCATE and last.entry.index == 30 else 0
    unknown = Entry(index=0, term=1, pos=0, body=b"", size=48, magic=1)
    return ListLog(
        [
            repair.entries.get(index) or msgspec.structs.replace(unknown, index=index)
            for index in range(begin, first.index + 1)
        ]
    )


@pytest.mark.parametrize(("name", "count"), [("group3", 10), ("batchpush", 2), ("begin", 4)])
def test_a_leader_asks_and_truncates_as_the_original(name: str, count: int) -> None:
    needs_whole_set()
    found = repairs(name)
    assert len(found) == count
    for repair in found:
        log = log_of_leader(repair)
        term = repair.exchanges[0][0].term
        settings = RaftSettings("RaftG", repair.leader, PEERS)
        member = Member(
            settings,
            HardState(term, repair.leader),
            log,
            lambda low, _: low,
            0,
            committed=-1,
            votes=True,
        )
        member._state.become_leader(0)
        for theirs, answer in repair.exchanges:
            ours = [
                out.request
                for out in member.take(0).requests
                if out.peer == repair.follower and isinstance(out.request, PushRequest)
            ]
            assert [(push.type, push.entry, push.term) for push in ours] == [
                (theirs.type, theirs.entry, theirs.term)
            ]
            member.answered(0, repair.follower, ours[0], answer)
        matched = repair.exchanges[-1][1].index
        assert member.match_index(repair.follower) == matched
