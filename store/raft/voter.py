"""How a member answers who asks for its vote, in the order that Java candidates count on (class
DLedgerLeaderElector; ``dledger.md`` §3.4).

Larger terms come after the logs: a candidate whose log is behind changes nothing here, whatever its
term; one with as good a log needs two rounds. No lease: a refusal to a larger term would decide a
Java candidate's round, and break the transfer of leadership."""

from __future__ import annotations

from ...remoting.protocol.bodies.dledger import VoteRequest, VoteResponse, VoteResult
from .catch_up import CatchUp
from .old_log import OldLog, has_less
from .state import MemberState


class Voter:
    """The vote of one member."""

    def __init__(self, state: MemberState, catch_up: CatchUp) -> None:
        self._state = state
        self._catch_up = catch_up

    def receive(self, now_ms: int, request: VoteRequest, taking_term: int) -> VoteResponse:
        """The answer; with it this member may have become a candidate of the request's term.

        ``taking_term``: in this one it takes leadership over (§3.11); -1 for none."""
        state = self._state
        told_term = state.term
        result = self._decide(now_ms, request, taking_term)
        return VoteResponse(
            group=request.group,
            remote_id=request.remote_id,
            local_id=request.local_id,
            leader_id=request.leader_id,
            term=told_term,
            vote_result=result,
        )

    def _decide(self, now_ms: int, request: VoteRequest, taking_term: int) -> VoteResult:
        state, candidate = self._state, request.leader_id
        theirs, mine = (request.ledger_end_term, request.ledger_end_index), state.log_end
        if candidate is None or candidate not in state.settings.peers:
            return VoteResult.REJECT_UNKNOWN_LEADER
        if candidate == state.settings.self_id:
            return VoteResult.REJECT_UNEXPECTED_LEADER
        if theirs < mine:
            if theirs[0] < mine[0]:
                return VoteResult.REJECT_EXPIRED_LEDGER_TERM
            return VoteResult.REJECT_SMALL_LEDGER_END_INDEX
        old_log = OldLog(request.old_log_end, request.old_log_crc)
        if theirs == mine and has_less(old_log, state.log.old_log, no_entries=mine[1] < 0):
            return VoteResult.REJECT_SMALL_LEDGER_END_INDEX
        refused = self._refused_by_term(request.term, candidate)
        if refused is not None:
            return refused
        if not self._catch_up.may_vote_for(theirs):
            return VoteResult.UNKNOWN
        if request.term > state.term:
            state.become_candidate(now_ms, request.term)
            return VoteResult.REJECT_TERM_NOT_READY
        if request.term < mine[0]:
            return VoteResult.REJECT_TERM_SMALL_THAN_LEDGER
        if taking_term == state.term and theirs == mine:
            return VoteResult.REJECT_TAKING_LEADERSHIP
        state.vote_for(candidate)
        self._catch_up.voted()
        return VoteResult.ACCEPT

    def _refused_by_term(self, term: int, candidate: str) -> VoteResult | None:
        state = self._state
        if term < state.term:
            return VoteResult.REJECT_EXPIRED_VOTE_TERM
        forgotten = state.vote is None and self._catch_up.may_have_voted_in(term)
        if term == state.term and (forgotten or state.vote not in (None, candidate)):
            known = state.leader_id is not None
            return (
                VoteResult.REJECT_ALREADY_HAS_LEADER if known else VoteResult.REJECT_ALREADY_VOTED
            )
        return None
