"""Members that break one rule of Raft. Each is caught by the schedules of ``model.py``, which shows
that these would notice if the rule were lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from aiorocketmq.remoting.protocol.bodies.dledger import DledgerCode, Entry
from aiorocketmq.store.raft.candidacy import Candidacy
from aiorocketmq.store.raft.catch_up import CatchUp
from aiorocketmq.store.raft.entry_log import EntryLogError
from aiorocketmq.store.raft.follower import Follower
from aiorocketmq.store.raft.leadership import Leadership
from aiorocketmq.store.raft.state import MemberState


def _forgets_its_vote(state: MemberState, candidate: str) -> None:
    state.vote = candidate


def _commits_old_terms(leadership: Leadership, end: int) -> None:
    state = leadership._state
    matches = [peer.push.match for peer in leadership._peers.values()]
    matches.append(end)
    matches.sort(reverse=True)
    state.commit(matches[state.settings.quorum - 1])


def _truncates_anything(follower: Follower, now_ms: int, request: Any, entry: Entry) -> DledgerCode:
    if not follower._led_by(request):
        return DledgerCode.INCONSISTENT_STATE
    log = follower._state.log
    try:
        if not log.matches(entry):
            log.begin_with(entry)
    except EntryLogError:
        return DledgerCode.INCONSISTENT_STATE
    log.truncate(entry.index)
    follower._found_equal(entry.index)
    follower._take_commit(now_ms, request, follower._matched())
    return DledgerCode.SUCCESS


def _believes_its_log(follower: Follower) -> int:
    return follower._state.log.end_index


def _leads_its_term_again(candidacy: Candidacy, now_ms: int) -> None:
    state = candidacy._state
    if candidacy._next_term and state.vote != state.settings.self_id:
        state.raise_term(max(state.term, state.known_max_term) + 1)
    candidacy._next_term = False
    state.vote_for(state.settings.self_id)
    candidacy._vote(now_ms)


MUTATIONS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "the vote is not synced": (MemberState, "vote_for", _forgets_its_vote),
    "entries of old terms are committed": (Leadership, "_commit", _commits_old_terms),
    "what is committed is truncated": (Follower, "_truncate", _truncates_anything),
    "who has lost its log votes": (CatchUp, "may_vote_for", lambda *_: True),
    "a commit index is believed without comparing": (Follower, "_matched", _believes_its_log),
    "the own vote is used again after a crash": (Candidacy, "_stand", _leads_its_term_again),
}
"""Name to the method that is replaced, and by what."""


@contextlib.contextmanager
def mutated(name: str) -> Iterator[None]:
    """Members that are made inside break this rule."""
    kind, method, instead = MUTATIONS[name]
    with mock.patch.object(kind, method, instead):
        yield
